"""Packages of another architecture by the host's apt, with a configuration and directories of its own.

Nothing of the host's system is touched: lists, state and cache are loiter's. apt verifies what it downloads by the
archive's keys; what it verified is checked once more here against the hash in the signed lists, which the manifest
records.
"""

from __future__ import annotations

import hashlib
import re
import urllib.parse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from loiter.errors import RunFault, UserFault, nearest
from loiter.images import cache, sources, tools

ARCHITECTURE = "riscv64"
Share = Callable[[float, str], None]
Say = Callable[[str], None]

# The archive of a source package as its authors released it, without what Debian puts beside it.
_SOURCE = re.compile(r"^'(?P<uri>[^']+)' (?P<file>\S+\.orig\.tar\.\w+) (?P<bytes>\d+) SHA256:(?P<sha256>[0-9a-f]{64})$")
_PRINTED = re.compile(r"^'(?P<uri>[^']+)' (?P<file>\S+) (?P<bytes>\d+) SHA256:(?P<sha256>[0-9a-f]{64})$")
_STATUS = re.compile(r"^dlstatus:[^:]*:(?P<percent>[0-9.]+):(?P<text>.*)$")
_UNLOCATED = re.compile(r"E: Unable to locate package (?P<name>\S+)")
_UNKNOWN_PATTERN = re.compile(r"E: (Couldn't find any package by|Package) .*?'(?P<name>[^']+)'")
_UNREACHABLE = ("Could not resolve", "Temporary failure resolving", "Could not connect", "Unable to connect",
                "Connection failed", "Network is unreachable", "Connection timed out")  # fmt: skip
_NAMES = re.compile(r"^(Suite|Codename): (?P<name>\S+)$", re.MULTILINE)
_DATE = re.compile(r"^Date: (?P<date>.+)$", re.MULTILINE)
# A mirror whose files are of two states.
_SYNCING = ("File has unexpected size", "Hash Sum mismatch", "Mirror sync in progress")


@dataclass(frozen=True)
class Package:
    """One package at the version that was chosen."""

    name: str
    version: str
    architecture: str
    file: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Deb:
    """A package that has been downloaded and verified."""

    package: Package
    path: Path


class Apt:
    """apt for one suite. Lists and packages are shared under `directory`; the configuration is the caller's own."""

    def __init__(self, directory: Path, own: Path, suite: str, mirror: str | None = None) -> None:
        self.suite = suite
        self.archives = directory / "archives"
        self._state = directory / suite
        # Where apt looks for what it has already, when told to list everything.
        self._nothing = own / "nothing"
        for each in (self.archives, self._nothing, self._state / "lists"):
            (each / "partial").mkdir(parents=True, exist_ok=True)
        (self._state / "status").touch()
        self._source = sources.source(mirror)
        self._source_file = own / "debian.sources"
        self._write_source(suite)
        self._configuration = own / "apt.conf"
        self._configuration.write_text(self._settings(own))

    def update(self, share: Share | None = None, say: Say | None = None) -> None:
        """Fetches the suite's lists. If those of the mirror do not fit each other, as while it takes over new ones or
        behind a cache, the last that are here do, or those under the release's other name; `say` hears so."""
        try:
            self._fetch(share)
        except RunFault as fault:
            syncing = any(words in str(fault) for words in _SYNCING)
            used = (self._earlier() or self._by_other_name(share)) if syncing else None
            if used is None:
                raise self._explain(str(fault), fault) from None
            if say is not None:
                say(f"The mirror's lists of {self.suite} do not fit each other; {used} are used.")
        if not self._call(["apt-cache", "pkgnames", "base-files"], "looking for base-files").strip():
            raise UserFault(
                f'suite "{self.suite}" has no packages for {ARCHITECTURE}. Debian carries it from trixie on.'
            )

    def _fetch(self, share: Share | None) -> None:
        with cache.guard(cache.LISTS):
            self._call(["apt-get", "update", "--error-on=any"], f"lists of {self.suite}", share)

    def _earlier(self) -> str | None:
        """Words for the lists of an update before, which apt keeps if a later one fails; `None` without any."""
        releases = list((self._state / "lists").glob(f"*_dists_{self.suite}_*Release"))
        return f"those of {_made(releases[0])}" if releases else None

    def _by_other_name(self, share: Share | None) -> str | None:
        """Fetches the lists by the release's other name, its codename or what it is at present, such as stable. Returns
        words for them; `None` if it has none or that does not help."""
        lists = self._state / "lists"
        names = [_names(each) for each in (lists / "partial").glob(f"*_dists_{self.suite}_*Release")]
        others = {name for each in names if self.suite in each for name in each if name != self.suite}
        for other in sorted(others):
            self._write_source(other)
            try:
                self._fetch(share)
            except RunFault:
                continue
            for release in lists.glob(f"*_dists_{other}_*Release"):
                if self.suite in _names(release):
                    return f"those of {other}, which is the same release, of {_made(release)}"
        self._write_source(self.suite)
        return None

    def with_dependencies(self, packages: Sequence[str]) -> list[Package]:
        """The packages and all they depend on, as apt resolves it on an empty system."""
        return self._chosen(["install", "--no-install-recommends", "--assume-yes", *packages])

    def exactly(self, packages: Sequence[str]) -> list[Package]:
        """These packages alone."""
        return self._chosen(["download", *packages])

    def dependency(self, package: str, prefix: str) -> str:
        """The one package a metapackage stands for: its first dependency whose name begins so."""
        said = self._call(["apt-cache", "depends", "--no-recommends", "--no-suggests", package], package)
        for line in said.splitlines():
            name = line.strip().removeprefix("Depends: ")
            if name != line.strip() and name.startswith(prefix):
                return name
        raise RunFault(f"{package} of {self.suite} depends on no {prefix}...; has the archive changed its names?")

    def download(self, packages: Iterable[Package], share: Share | None = None) -> list[Deb]:
        """Downloads what is not there yet."""
        wanted = list(packages)
        missing = [each for each in wanted if not self._whole(each)]
        for each in missing:
            (self.archives / each.file).unlink(missing_ok=True)
        if missing:
            words = [f"{each.name}:{each.architecture}={each.version}" for each in missing]
            what = f"download of {len(missing)} packages"
            try:
                with cache.guard(cache.LISTS):
                    self._call(["apt-get", "download", *words], what, share, directory=self.archives)
            except RunFault as fault:
                raise self._explain(str(fault), fault) from None
        damaged = [each.file for each in missing if not self._whole(each)]
        if damaged:
            raise RunFault(f"downloaded, but not what the signed lists say: {', '.join(damaged)}. Try again later.")
        return [Deb(each, self.archives / each.file) for each in wanted]

    def source(self, package: Package, share: Share | None = None) -> Deb:
        """Downloads the authors' archive that a package's version is built from."""
        words = ["--tar-only", "--only-source", f"{package.name}={package.version}"]
        what = f"source of {package.name}"
        try:
            # The lists of sources leave with the next update, which nobody may begin until the archive is here.
            with cache.guard(cache.LISTS):
                self._write_source(self._lists, "deb deb-src")
                self._call(["apt-get", "update", "--error-on=any"], f"sources of {self.suite}", share)
                said = self._call(["apt-get", "source", "--print-uris", *words], what, directory=self._nothing)
                found = next((match for match in map(_SOURCE.match, said.splitlines()) if match), None)
                if found is None:
                    raise RunFault(f"{self.suite} has no authors' archive of {package.name} {package.version}.")
                upstream = package.version.rpartition("-")[0]
                size, digest = int(found["bytes"]), found["sha256"]
                source = Package(package.name, upstream, "source", found["file"], size, digest)
                if not self._whole(source):
                    (self.archives / source.file).unlink(missing_ok=True)
                    self._call(["apt-get", "source", "--download-only", *words], what, share, directory=self.archives)
        except RunFault as fault:
            raise self._explain(str(fault), fault) from None
        finally:
            self._write_source(self._lists)
        if not self._whole(source):
            raise RunFault(f"downloaded, but not what the signed lists say: {source.file}. Try again later.")
        return Deb(source, self.archives / source.file)

    def _whole(self, package: Package) -> bool:
        path = self.archives / package.file
        return path.is_file() and path.stat().st_size == package.bytes and sha256(path) == package.sha256

    def _chosen(self, words: list[str]) -> list[Package]:
        command = ["apt-get", "-o", f"Dir::Cache::archives={self._nothing}", "--print-uris", *words]
        try:
            # In a directory without packages, or `download` would leave out what is there.
            said = self._call(command, "choice of packages", directory=self._nothing)
        except RunFault as fault:
            raise self._explain(str(fault), fault) from None
        found = [match for match in map(_PRINTED.match, said.splitlines()) if match]
        if not found:
            raise RunFault(f"apt chose no package for: {' '.join(words)}")
        return sorted((_package(match) for match in found), key=lambda each: each.name)

    def _call(self, command: list[str], what: str, share: Share | None = None, directory: Path | None = None) -> str:
        def on_line(line: str) -> None:
            match = _STATUS.match(line)
            if match and share is not None:
                share(float(match["percent"]) / 100, "")

        # Status goes to standard output, beside apt's own words, which nobody reads.
        status = ["-o", "APT::Status-Fd=1"] if share is not None else []
        return tools.run(
            [command[0], *status, *command[1:]],
            what,
            directory=directory,
            environment={"APT_CONFIG": str(self._configuration)},
            on_line=on_line,
        )

    def _write_source(self, suite: str, types: str = "deb") -> None:
        self._lists = suite
        self._source_file.write_text(
            f"Types: {types}\nURIs: {self._source.mirror}\nSuites: {suite}\nComponents: main\n"
            f"Architectures: {ARCHITECTURE}\nSigned-By: {self._source.keyring}\n"
        )

    def _settings(self, own: Path) -> str:
        state = self._state
        lines = [
            *sources.network_settings(),
            f'APT::Architecture "{ARCHITECTURE}";',
            f'APT::Architectures {{ "{ARCHITECTURE}"; }};',
            # The directories are the user's own, which apt's unprivileged user cannot enter.
            'APT::Sandbox::User "root";',
            'Acquire::Languages "none";',
            'Acquire::ForceHash "SHA256";',
            f'Dir::State "{state}";',
            f'Dir::State::status "{state}/status";',
            f'Dir::State::lists "{state}/lists";',
            f'Dir::Cache "{state}";',
            f'Dir::Cache::archives "{self.archives}";',
            f'Dir::Etc::sourcelist "{own}/debian.sources";',
            # What the host's administrator wrote for the host's own packages.
            *(f'Dir::Etc::{name} "/dev/null";' for name in ("main", "parts", "sourceparts")),
            *(f'Dir::Etc::{name} "/dev/null";' for name in ("preferences", "preferencesparts")),
        ]
        return "\n".join(lines) + "\n"

    def _explain(self, text: str, fault: RunFault) -> Exception:
        match = _UNLOCATED.search(text) or _UNKNOWN_PATTERN.search(text)
        if match:
            return self._unknown(match["name"])
        if any(words in text for words in _SYNCING):
            return RunFault(f"the mirror's files of {self.suite} do not fit its lists; try again later.\n{text}")
        if any(words in text for words in _UNREACHABLE):
            return RunFault(f"no way to the mirror: is there a network?\n{text}")
        if "does not have a Release file" in text or "no longer has a Release file" in text:
            return UserFault(
                f'the mirror has no suite "{self.suite}". Name one that carries {ARCHITECTURE}: --suite trixie.'
            )
        if "The following packages have unmet dependencies" in text or "pkgProblemResolver" in text:
            return UserFault(f"apt cannot put these packages together:\n{text}")
        return fault

    def _unknown(self, name: str) -> UserFault:
        # All names take seconds to compare; a typing error is rarely in the first letters.
        close = nearest(name, self._call(["apt-cache", "pkgnames", name[:2]], "names of packages").split())
        advice = f"; did you mean {' or '.join(close)}?" if close else "."
        return UserFault(f'Debian {self.suite} has no package "{name}" for {ARCHITECTURE}{advice}')


def _names(release: Path) -> tuple[str, ...]:
    """What the release of a file `InRelease` is called."""
    return tuple(match["name"] for match in _NAMES.finditer(release.read_text(encoding="utf-8", errors="replace")))


def _made(release: Path) -> str:
    match = _DATE.search(release.read_text(encoding="utf-8", errors="replace"))
    return match["date"] if match else "an unknown day"


def sha256(path: Path) -> str:
    """The hash of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def _package(match: re.Match[str]) -> Package:
    stem = match["file"].removesuffix(".deb")
    name, version, architecture = stem.split("_")
    return Package(
        name, urllib.parse.unquote(version), architecture, match["file"], int(match["bytes"]), match["sha256"]
    )
