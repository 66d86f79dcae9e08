"""Images: what a boot of Debian needs, built from Debian's packages and kept on this host.

image = images.find("debian")       fails with advice when it is not built
image = images.ensure("debian", console)   builds it then
"""

from __future__ import annotations

from loiter.images.builder import build, default, default_recipe, ensure, is_current, recipe_of
from loiter.images.cache import find, lookup, names, remove, remove_downloads, root
from loiter.images.image import Image
from loiter.images.recipe import SUITE, Recipe

__all__ = [
    "SUITE",
    "Image",
    "Recipe",
    "build",
    "default",
    "default_recipe",
    "ensure",
    "find",
    "is_current",
    "lookup",
    "names",
    "recipe_of",
    "remove",
    "remove_downloads",
    "root",
]
