"""Links of the documentation that leave it, for MkDocs (mkdocs.yml).

In a checkout they lead to other files. On the site, pages of the repository stand under `repository/`, and what is no
page is named without a link.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "guests/README.md")
"""Pages outside of `docs/` that the site has."""

_HOME = "repository/"
_LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<target>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The text of a page with links as the site has them."""
    here = str(page.file.src_uri)
    path = here.removeprefix(_HOME) if here.startswith(_HOME) else f"docs/{here}"
    return _LINK.sub(lambda link: _link(link, here, path), markdown)


def _link(link: re.Match[str], here: str, path: str) -> str:
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link["target"]))
    if target.startswith("docs/") and (here.startswith(_HOME) or not target.endswith(".md")):
        found = target.removeprefix("docs/")
    elif target in PAGES:
        found = _HOME + target
    elif target.startswith("docs/"):
        return link[0]
    else:
        return link["text"]
    return f"[{link['text']}]({posixpath.relpath(found, posixpath.dirname(here) or '.')}{link['anchor'] or ''})"
