"""What maintainer scripts would have done to a root file system whose packages were only unpacked.

No foreign code runs on the host, so the scripts do not. What programs cannot do without is done here, in the scripts'
own terms; the comment at each says whose work it is. Everything else a person does in the guest, whose dpkg knows its
packages as unpacked.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from loiter.images import tools

# apache2.postinst, for a fresh installation.
_APACHE_MODULES = (
    *("mpm_event", "authz_core", "authz_host", "authn_core", "auth_basic", "access_compat", "authn_file"),
    *("authz_user", "alias", "dir", "autoindex", "env", "mime", "negotiation", "setenvif", "filter", "deflate"),
    *("status", "reqtimeout"),
)
_APACHE_CONFIGURATION = ("charset", "localized-error-pages", "other-vhosts-access-log", "security", "serve-cgi-bin")

_CONTINUED = re.compile(r"\\\n\s*")
_ALTERNATIVES = re.compile(r"update-alternatives\b[^\n;&|]*--install\b[^\n;&|]*")


def settle(root: Path, scripts: Iterable[str]) -> None:
    """Does it to the tree at `root`. `scripts` are the packages' postinst scripts."""
    _directories(root)
    for write in (_accounts, _base_files, _names, _certificates, _apache):
        write(root)
    _set_alternatives(root, scripts)


def _directories(root: Path) -> None:
    # base-files.postinst; /put is where `loiter exec` puts files.
    for name in ("mnt", "srv", "opt", "media", "put", "etc/opt", "var/opt", "dev", "proc", "sys", "run", "tmp"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    for link, target in (("var/run", "/run"), ("var/lock", "/run/lock")):
        path = root / link
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        if not path.is_symlink():
            path.symlink_to(target)


def _accounts(root: Path) -> None:
    # base-passwd.postinst. Passwords: none is set and nobody logs in.
    for name in ("passwd", "group"):
        _copy(root, f"usr/share/base-passwd/{name}.master", f"etc/{name}")
    if (root / "etc/passwd").is_file():
        people = [line.partition(":")[0] for line in (root / "etc/passwd").read_text().splitlines()]
        _write(root, "etc/shadow", "".join(f"{name}:*:20454:0:99999:7:::\n" for name in people), 0o640)


def _base_files(root: Path) -> None:
    # base-files.postinst and libc-bin.postinst.
    for source, target in (
        ("usr/share/base-files/profile", "etc/profile"),
        ("usr/share/base-files/dot.profile", "root/.profile"),
        ("usr/share/base-files/dot.bashrc", "root/.bashrc"),
        ("usr/share/libc-bin/nsswitch.conf", "etc/nsswitch.conf"),
    ):
        _copy(root, source, target)


def _names(root: Path) -> None:
    # The installer's work.
    _write(root, "etc/hostname", "loiter\n")
    _write(root, "etc/hosts", "127.0.0.1\tlocalhost loiter\n::1\tlocalhost ip6-localhost ip6-loopback\n")
    _write(root, "etc/fstab", "")
    _write(root, "etc/resolv.conf", "")
    # busybox tells our init, which is no systemd.
    for name in ("poweroff", "reboot", "halt"):
        path = root / "usr/sbin" / name
        if not path.exists() and not path.is_symlink():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to("../bin/busybox")


def _certificates(root: Path) -> None:
    # update-ca-certificates, of which programs read the one file.
    found = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    if found:
        _write(root, "etc/ssl/certs/ca-certificates.crt", "".join(path.read_text() for path in found))


def _apache(root: Path) -> None:
    # apache2.postinst.
    home = root / "etc/apache2"
    if not home.is_dir():
        return
    for kind, names in (("mods", _APACHE_MODULES), ("conf", _APACHE_CONFIGURATION), ("sites", ("000-default",))):
        enabled = home / f"{kind}-enabled"
        enabled.mkdir(exist_ok=True)
        for name in names:
            for ending in (".load", ".conf"):
                if (home / f"{kind}-available" / (name + ending)).exists():
                    _link(enabled / (name + ending), f"../{kind}-available/{name}{ending}")
    # Without a name of its own it asks the resolver and complains.
    _write(root, "etc/apache2/conf-enabled/loiter.conf", "ServerName localhost\n")
    (root / "var/www/html").mkdir(parents=True, exist_ok=True)
    _copy(root, "usr/share/apache2/default-site/index.html", "var/www/html/index.html")


def alternatives(script: str) -> Iterator[list[str]]:
    """The arguments of each `update-alternatives --install` of a script that are plain words, not variables."""
    text = _CONTINUED.sub(" ", script)
    for match in _ALTERNATIVES.finditer(text):
        try:
            words = shlex.split(match[0], comments=True)
        except ValueError:
            continue
        words = words[words.index("--install") :] if "--install" in words else []
        if len(words) >= 5 and not any(letter in word for word in words for letter in "$`*") and words[4].isdigit():
            yield words[: 5 + _slaves(words[5:])]


def _slaves(words: list[str]) -> int:
    count = 0
    while words[count : count + 1] == ["--slave"] and len(words) >= count + 4:
        count += 4
    return count


def _set_alternatives(root: Path, scripts: Iterable[str]) -> None:
    # dpkg's tool keeps the links and its record of them, in a root that is not the host's.
    for script in scripts:
        for words in alternatives(script):
            if not (root / words[3].lstrip("/")).exists():
                continue
            (root / words[1].lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            tools.run(["update-alternatives", "--quiet", "--root", root, *words], f"alternative {words[2]}")
    # It has the time of day in it.
    (root / "var/log/alternatives.log").unlink(missing_ok=True)


def _copy(root: Path, source: str, target: str) -> None:
    if (root / source).is_file() and not (root / target).exists():
        (root / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / source, root / target)


def _write(root: Path, name: str, text: str, mode: int = 0o644) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def _link(path: Path, target: str) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)
