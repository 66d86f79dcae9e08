"""The host's Debian mirror and keyring. loiter names no mirror of its own: it uses what is configured on the host."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from loiter.errors import UserFault
from loiter.images import tools

KEYRINGS = tuple(Path(f"/usr/share/keyrings/debian-archive-keyring.{ending}") for ending in ("gpg", "pgp"))

# How the host reaches its mirror, which is as true for ours. Nothing that concerns trust is taken over.
_CARRIED_OVER = re.compile(r"Acquire::(https?|ftp|Retries|ForceIPv[46]|Check-Valid-Until|Check-Date)\b")


@dataclass(frozen=True)
class Source:
    """Where packages come from and who signs them."""

    mirror: str
    keyring: Path


def source(mirror: str | None = None) -> Source:
    """The host's Debian source, or the mirror given."""
    return Source(mirror or _mirror(), keyring())


def keyring() -> Path:
    """The keys of Debian's archive."""
    for path in KEYRINGS:
        if path.is_file():
            return path
    tools.require([], {"debian-archive-keyring": KEYRINGS[0]})
    raise AssertionError("a missing keyring is a fault")


def network_settings() -> list[str]:
    """Lines of configuration for proxies and the like, from the host's own."""
    said = tools.run(["apt-config", "dump", "--format", '%f "%v";%n', "Acquire"], "reading apt's configuration")
    return [line for line in said.splitlines() if _CARRIED_OVER.match(line) and not line.endswith(' "";')]


def _mirror() -> str:
    # apt reads its own sources, in whichever of their forms they are.
    form = "$(REPO_URI)\t$(ORIGIN)\t$(LABEL)"
    said = tools.run(["apt-get", "indextargets", "--format", form, "Created-By: Packages"], "reading apt's sources")
    mirror = choose([tuple(line.split("\t")) for line in said.splitlines()])
    if mirror is None:
        raise UserFault(
            "this system's apt has no source of Debian's main archive. Name a Debian mirror with --mirror URI "
            "(apt verifies what comes from it by the keys of debian-archive-keyring)."
        )
    return mirror


def choose(targets: list[tuple[str, ...]]) -> str | None:
    """Debian's main archive among apt's sources: by what the archive says of itself, else by its path."""
    for uri, origin, label in targets:
        if (origin, label) == ("Debian", "Debian"):
            return uri
    for uri, origin, _ in targets:
        # Before the first update apt knows no origin.
        if origin.startswith("$") and uri.rstrip("/").endswith("/debian"):
            return uri
    return None
