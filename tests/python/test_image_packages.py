"""Packages for images, from a fake apt: the choice, the download, and what goes wrong with a network."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from fake_tools import FakeTools
from loiter.errors import RunFault, UserFault
from loiter.images import sources
from loiter.images.apt import Apt, Deb, Package

DEBS = {"curl_8.14_riscv64.deb": b"curl", "libc6_1%3a2.41-12+deb13u4_riscv64.deb": b"the C library"}
HASHES = {name: hashlib.sha256(data).hexdigest() for name, data in DEBS.items()}
URIS = "\n".join(f"'http://mirror.test/{name}' {name} {len(data)} SHA256:{HASHES[name]}" for name, data in DEBS.items())
PRINTED = f"cat <<'END'\nReading...\n{URIS}\nEND"
TARGETS = "http://mirror.test/debian/\\tDebian\\tDebian"


class Host:
    """A host whose apt is fake."""

    def __init__(self, tools: FakeTools, directory: Path) -> None:
        self.tools = tools
        self.directory = directory
        tools.add("apt-config", "cat <<'END'\n" + 'Acquire::http::Proxy "http://proxy.test:3128";\nEND')
        tools.add("apt-cache", 'case "$1" in pkgnames) echo base-files ;; esac')
        self.apt_get()

    def apt_get(self, update: str = ":", uris: str = PRINTED, download: str = "") -> None:
        """Sets what the fake apt-get does."""
        for name, data in DEBS.items():
            (self.directory / name).write_bytes(data)
        download = download or f'cp "{self.directory}"/*.deb .; echo "dlstatus:1:50.0:Retrieving"'
        self.tools.add(
            "apt-get",
            f"""case "$*" in
            *indextargets*) printf '{TARGETS}\\n' ;;
            *--print-uris*) {uris}
            ;;
            *update*) {update} ;;
            *download*) {download} ;;
            esac""",
        )

    def apt(self, suite: str = "trixie") -> Apt:
        """loiter's apt on this host."""
        (self.directory / "own").mkdir(exist_ok=True)
        return Apt(self.directory / "cache", self.directory / "own", suite)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host with a fake apt and Debian's keys."""
    monkeypatch.setenv("LOITER_CACHE", str(tmp_path / "cache"))
    keyring = tmp_path / "keys.gpg"
    keyring.touch()
    monkeypatch.setattr(sources, "KEYRINGS", (tmp_path / "missing.gpg", keyring))
    return Host(FakeTools(tmp_path / "bin", monkeypatch), tmp_path)


def test_packages_are_chosen_downloaded_and_verified(host: Host) -> None:
    apt = host.apt()
    shares: list[float] = []
    apt.update()
    chosen = apt.with_dependencies(["curl"])
    assert [(each.name, each.version, each.architecture) for each in chosen] == [
        ("curl", "8.14", "riscv64"),
        ("libc6", "1:2.41-12+deb13u4", "riscv64"),
    ]
    debs = apt.download(chosen, lambda share, what: shares.append(share))
    assert [deb.path.read_bytes() for deb in debs] == list(DEBS.values())
    assert shares == [0.5]
    fetched = [call for call in host.tools.called() if " download " in call]
    assert len(fetched) == 1
    assert fetched[0].endswith("download curl:riscv64=8.14 libc6:riscv64=1:2.41-12+deb13u4")
    # What is there is not fetched again.
    assert apt.download(chosen) == debs
    assert len([call for call in host.tools.called() if " download " in call]) == 1


ORIG = b"the authors' archive"
ORIG_HASH = hashlib.sha256(ORIG).hexdigest()
SOURCE = f"""cat <<'END'
'http://mirror.test/opensbi_1.6.orig.tar.gz' opensbi_1.6.orig.tar.gz {len(ORIG)} SHA256:{ORIG_HASH}
END"""


def test_a_source_is_the_authors_archive_of_the_packages_version(host: Host) -> None:
    apt = host.apt()
    apt.update()
    (host.directory / "orig").write_bytes(ORIG)
    host.apt_get(uris=SOURCE, download=f'cp "{host.directory}/orig" opensbi_1.6.orig.tar.gz')
    firmware = Package("opensbi", "1.6-1", "all", "opensbi_1.6-1_all.deb", 1, "")
    found = apt.source(firmware)
    assert (found.package.version, found.package.architecture, found.package.sha256) == ("1.6", "source", ORIG_HASH)
    assert found.path.read_bytes() == ORIG
    calls = [call for call in host.tools.called() if " source " in call]
    assert all(call.endswith("--tar-only --only-source opensbi=1.6-1") for call in calls)
    assert len(calls) == 2
    # Later updates fetch no lists of sources, and what is there is not fetched again.
    assert "Types: deb\n" in (host.directory / "own" / "debian.sources").read_text()
    assert apt.source(firmware) == found
    assert len([call for call in host.tools.called() if "--download-only" in call]) == 1


def test_a_source_that_is_not_as_listed_is_refused(host: Host) -> None:
    apt = host.apt()
    firmware = Package("opensbi", "1.6-1", "all", "opensbi_1.6-1_all.deb", 1, "")
    host.apt_get(uris=SOURCE, download="printf other > opensbi_1.6.orig.tar.gz")
    with pytest.raises(RunFault, match=r"not what the signed lists say: opensbi_1\.6\.orig\.tar\.gz"):
        apt.source(firmware)
    host.apt_get(uris=":")
    with pytest.raises(RunFault, match=r"trixie has no authors' archive of opensbi 1\.6-1"):
        apt.source(firmware)


def test_a_damaged_download_is_fetched_again_and_a_wrong_one_refused(host: Host) -> None:
    apt = host.apt()
    chosen = apt.exactly(["curl", "libc6"])
    debs: list[Deb] = apt.download(chosen)
    debs[0].path.write_bytes(b"CURL")
    assert apt.download(chosen)[0].path.read_bytes() == b"curl"
    debs[0].path.unlink()
    host.apt_get(download="printf CURL > curl_8.14_riscv64.deb")
    with pytest.raises(RunFault, match=r"not what the signed lists say: curl_8\.14_riscv64\.deb"):
        apt.download(chosen)


def test_apt_has_a_configuration_and_directories_of_its_own(host: Host) -> None:
    host.apt()
    own = host.directory / "own"
    text = (own / "apt.conf").read_text()
    assert 'APT::Architecture "riscv64";' in text
    assert 'Acquire::http::Proxy "http://proxy.test:3128";' in text
    for line in text.splitlines():
        if line.startswith("Dir::") and "/dev/null" not in line:
            assert str(host.directory) in line, line
    source = (own / "debian.sources").read_text()
    assert "URIs: http://mirror.test/debian/\n" in source
    assert "Suites: trixie\n" in source
    assert f"Signed-By: {host.directory}/keys.gpg" in source


FAILURES = [
    ("E: Failed to fetch x  Could not resolve 'mirror.test'", RunFault, "is there a network"),
    ("E: Failed to fetch x  Could not connect to mirror.test:80", RunFault, "is there a network"),
    ("E: The repository 'http://m trixi Release' does not have a Release file.", UserFault, 'no suite "trixie"'),
    ("E: something else", RunFault, "something else"),
]


@pytest.mark.parametrize(("said", "fault", "expected"), FAILURES, ids=[each[2] for each in FAILURES])
def test_what_goes_wrong_with_lists_is_explained(host: Host, said: str, fault: type[Exception], expected: str) -> None:
    host.apt_get(update=f'echo "{said}" >&2; exit 100')
    with pytest.raises(fault, match=expected):
        host.apt().update()


SYNCING = "E: Failed to fetch x  File has unexpected size (9 != 8). Mirror sync in progress?"
FAILS = f'echo "{SYNCING}" >&2; exit 100'


def release(host: Host, where: str, *names: str) -> str:
    """Words for a shell that put the file of a release there."""
    path = host.directory / "cache" / "trixie" / "lists" / where
    lines = "".join(f"{name}\\n" for name in names)
    return f'printf "{lines}Date: Sat, 21 Nov 2026 09:15:44 UTC\\n" > "{path}"'


def test_lists_of_an_update_before_do_if_the_mirrors_do_not_fit(host: Host) -> None:
    apt = host.apt()
    said: list[str] = []
    host.apt_get(update=release(host, "m_dists_trixie_InRelease", "Suite: stable", "Codename: trixie"))
    apt.update(say=said.append)
    assert said == []
    host.apt_get(update=FAILS)
    apt.update(say=said.append)
    assert said == [
        "The mirror's lists of trixie do not fit each other; those of Sat, 21 Nov 2026 09:15:44 UTC are used."
    ]
    # Another fault is one, whatever is here.
    host.apt_get(update='echo "E: The repository is not signed." >&2; exit 100')
    with pytest.raises(RunFault, match="not signed"):
        apt.update(say=said.append)
    assert len(said) == 1


def by_name(host: Host, stable: str) -> str:
    """An update that fails for trixie, says that it is stable, and does `stable` for that."""
    partial = release(host, "partial/m_dists_trixie_InRelease", "Suite: stable", "Codename: trixie")
    source = host.directory / "own" / "debian.sources"
    return f'if grep -q "Suites: stable" "{source}"; then {stable}; else {partial}; {FAILS}; fi'


def test_the_releases_other_name_does_if_its_lists_do_not_fit(host: Host) -> None:
    apt = host.apt()
    said: list[str] = []
    fits = release(host, "m_dists_stable_InRelease", "Suite: stable", "Codename: trixie")
    host.apt_get(update=by_name(host, fits))
    apt.update(say=said.append)
    assert said == [
        "The mirror's lists of trixie do not fit each other; those of stable, which is the same release, of "
        "Sat, 21 Nov 2026 09:15:44 UTC are used."
    ]
    # Lists of the other name are no earlier ones of this one; they are fetched again.
    host.apt().update(say=said.append)
    assert said[1] == said[0]


@pytest.mark.parametrize("codename", ["forky", None])
def test_another_release_does_not_do_and_a_user_is_asked_to_wait(host: Host, codename: str | None) -> None:
    other = release(host, "m_dists_stable_InRelease", "Suite: stable", f"Codename: {codename}")
    host.apt_get(update=by_name(host, other if codename else FAILS))
    apt = host.apt()
    with pytest.raises(RunFault, match="files of trixie do not fit its lists; try again later"):
        apt.update()
    assert "Suites: trixie\n" in (host.directory / "own" / "debian.sources").read_text()


def test_lists_that_do_not_fit_without_a_word_of_the_release(host: Host) -> None:
    host.apt_get(update=FAILS)
    with pytest.raises(RunFault, match="try again later"):
        host.apt().update()


def test_a_suite_without_the_architecture_is_named(host: Host) -> None:
    host.tools.add("apt-cache", ":")
    with pytest.raises(UserFault, match='suite "bookworm" has no packages for riscv64'):
        host.apt("bookworm").update()


def test_an_unknown_package_is_named_with_its_neighbours(host: Host) -> None:
    host.tools.add("apt-cache", 'case "$*" in *"pkgnames py"*) printf "python3\\npython3-dev\\npylint\\n" ;; esac')
    host.apt_get(uris='echo "E: Unable to locate package pyton3" >&2; exit 100')
    with pytest.raises(UserFault, match=r'trixie has no package "pyton3" for riscv64; did you mean python3 or'):
        host.apt().with_dependencies(["pyton3"])


def test_a_metapackage_leads_to_its_package(host: Host) -> None:
    host.tools.add("apt-cache", r"printf 'linux-image-riscv64\n  Depends: linux-image-6.12-riscv64\n'")
    assert host.apt().dependency("linux-image-riscv64", "linux-image-") == "linux-image-6.12-riscv64"
    with pytest.raises(RunFault, match="depends on no vmlinux-"):
        host.apt().dependency("linux-image-riscv64", "vmlinux-")


DEBIAN = ("http://d.test/debian/", "Debian", "Debian")
SECURITY = ("http://d.test/debian-security/", "Debian", "Debian-Security")
OTHER = ("http://o.test/apt/", "Other", "Other")
FRESH = ("http://d.test/debian", "$(ORIGIN)", "$(LABEL)")
FRESH_OTHER = ("http://o.test/apt", "$(ORIGIN)", "$(LABEL)")
UBUNTU = ("http://u.test/ubuntu", "Ubuntu", "Ubuntu")


@pytest.mark.parametrize(
    ("targets", "mirror"),
    [
        ([OTHER, SECURITY, DEBIAN], DEBIAN[0]),
        ([FRESH_OTHER, FRESH], FRESH[0]),
        ([FRESH, DEBIAN], DEBIAN[0]),
        ([UBUNTU, SECURITY, FRESH_OTHER], None),
        ([], None),
    ],
)
def test_the_mirror_is_the_hosts_debian(targets: list[tuple[str, ...]], mirror: str | None) -> None:
    assert sources.choose(targets) == mirror


def test_a_host_without_debian_is_asked_for_a_mirror(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.tools.add("apt-get", "printf 'http://u.test/ubuntu\\tUbuntu\\tUbuntu\\n'")
    with pytest.raises(UserFault, match="--mirror URI"):
        host.apt()
    own = host.directory / "own"
    Apt(host.directory / "cache", own, "trixie", "http://named.test/debian")
    assert "http://named.test/debian" in (own / "debian.sources").read_text()


def test_trust_is_not_taken_over_from_the_host(host: Host) -> None:
    lines = [
        'Acquire::https::Verify-Peer "true";',
        'Acquire::AllowInsecureRepositories "1";',
        'Acquire::http::Proxy "";',
        'Acquire::httpx "1";',
        'Acquire::Retries "3";',
    ]
    host.tools.add("apt-config", "cat <<'END'\n" + "\n".join(lines) + "\nEND")
    assert sources.network_settings() == [lines[0], lines[4]]


def test_missing_keys_are_a_package_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sources, "KEYRINGS", (tmp_path / "missing.gpg",))
    with pytest.raises(UserFault, match="apt-get install debian-archive-keyring"):
        sources.keyring()
