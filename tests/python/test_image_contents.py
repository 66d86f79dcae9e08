"""What goes into images: symbols, the initial RAM file system, the root file system, patches, the exec archive."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from fake_tools import FakeTools
from loiter import resources
from loiter.errors import RunFault, UserFault
from loiter.images import agent, assemble, initramfs, linux, modules, settle, symbols, tools
from loiter.images.initramfs import TIMESTAMP
from loiter.images.kinds import small_kernel

# Debian's own tools, which images are made with; `tools/packages.sh images` installs them.
needs_debian = pytest.mark.skipif(
    any(tools.find(name) is None for name in ("dpkg-deb", "mke2fs", "debugfs", "cpio", "update-alternatives")),
    reason="needs Debian's packaging tools",
)
needs_fakeroot = pytest.mark.skipif(
    os.geteuid() != 0 and tools.find("fakeroot") is None, reason="needs root, or fakeroot to play it"
)


# --- symbols ---------------------------------------------------------------------------------------------------------


def kallsyms(found: list[tuple[int, str, str]], base: int = symbols.LINK_ADDRESS, before: int = 0) -> bytes:
    """The kernel's table of symbols, written from the description in scripts/kallsyms.c."""
    texts = [bytes([token]) if 0x20 < token < 0x7F else b"" for token in range(256)]
    texts[1], texts[2] = b"tloiter_", b"start"

    def spell(text: bytes) -> bytes:
        return text.replace(texts[1], b"\1").replace(texts[2], b"\2")

    names, markers = b"", []
    for number, (_, kind, name) in enumerate(found):
        if number % 256 == 0:
            markers.append(len(names))
        tokens = spell((kind + name).encode())
        length = len(tokens)
        names += (bytes([length]) if length < 128 else bytes([length & 0x7F | 0x80, length >> 7])) + tokens
    table = b"".join(text + b"\0" for text in texts)
    index = [len(b"".join(text + b"\0" for text in texts[:token])) for token in range(256)]
    parts = [
        b"\xff" * before,
        struct.pack("<I", len(found)),
        names,
        struct.pack(f"<{len(markers)}I", *markers),
        table,
        struct.pack("<256H", *index),
        struct.pack(f"<{len(found)}I", *(address - symbols.LINK_ADDRESS for address, _, _ in found)),
        struct.pack("<Q", base),
        b"the end",
    ]
    return b"".join(part + b"\0" * (-len(part) % 8) for part in parts)


def some_symbols(count: int) -> list[tuple[int, str, str]]:
    names = [f"loiter_{number}" for number in range(count)]
    names[count // 2] = "a_name_of_more_than_127_letters_" * 6
    names[0] = "_start"
    return [(symbols.LINK_ADDRESS + 24 * number, "tTdb"[number % 4], name) for number, name in enumerate(names)]


@pytest.mark.parametrize("count", [2, 255, 256, 257, 511, 512, 513, 3000])
@pytest.mark.parametrize("before", [0, 4096])
def test_symbols_are_read_back(count: int, before: int) -> None:
    wanted = some_symbols(count)
    # Other digits come first: they are in many a table.
    decoy = b"0\0" + b"".join(bytes([digit, 0]) for digit in b"0123456789") + b"more\0"
    data = decoy.ljust(64, b"\0") + kallsyms(wanted, before=before)
    assert [(each.address, each.kind, each.name) for each in symbols.read(data)] == wanted


def test_a_relocatable_kernel_is_at_its_link_address() -> None:
    assert symbols.read(b"\0" * 8 + kallsyms(some_symbols(300), base=0))[1].address == symbols.LINK_ADDRESS + 24


def test_a_kernel_without_symbols_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(symbols.NoSymbols, match="CONFIG_KALLSYMS"):
        symbols.read(b"\0" * 4096)
    whole = kallsyms(some_symbols(600))
    names = whole.index(b"\x06T_start") if b"\x06T_start" in whole else 8
    broken = bytearray(whole)
    broken[names] ^= 0x55
    with pytest.raises(symbols.NoSymbols, match="form that is not known"):
        symbols.read(bytes(broken))
    (tmp_path / "Image").write_bytes(b"\0" * 4096)
    with pytest.raises(RunFault, match="Image: cannot read the kernel's symbols"):
        linux.write_symbols(tmp_path / "Image", tmp_path / "System.map")


def test_a_kernel_is_a_riscv_image(tmp_path: Path) -> None:
    image = b"MZ".ljust(56, b"\0") + b"RSC\x05" + b"kernel"
    for data in (image, gzip.compress(image)):
        (tmp_path / "vmlinux").write_bytes(data)
        linux.install_kernel(tmp_path / "vmlinux", tmp_path / "Image")
        assert (tmp_path / "Image").read_bytes() == image
    (tmp_path / "vmlinux").write_bytes(b"\x7fELF".ljust(4096, b"\0"))
    with pytest.raises(RunFault, match="vmlinux is no RISC-V Linux Image"):
        linux.install_kernel(tmp_path / "vmlinux", tmp_path / "Image")


# --- modules and the initial RAM file system -------------------------------------------------------------------------


def test_modules_come_in_the_order_that_modprobe_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fakes = FakeTools(tmp_path / "bin", monkeypatch)
    for name in ("crc16", "jbd2", "ext4", "virtio_mmio", "virtio_blk"):
        (tmp_path / f"{name}.ko").write_bytes(name.encode())
    order = f'"insmod {tmp_path}/crc16.ko" "insmod {tmp_path}/jbd2.ko" "insmod {tmp_path}/ext4.ko"'
    fakes.add("depmod", ":")
    fakes.add(
        "modprobe",
        f"""case "$*" in
        *ext4) printf '%s \\n' {order} ;;
        *virtio_console | *virtio_rng | *virtio_net) echo "builtin ${{6#virtio_}}" ;;
        *virtio_mmio) echo "insmod {tmp_path}/virtio_mmio.ko" ;;
        *virtio_blk) echo "insmod {tmp_path}/virtio_blk.ko" ;;
        esac""",
    )
    found = modules.load_orders(tmp_path, "6.12", tmp_path)
    assert found.orders["ext4"] == ["crc16.ko", "jbd2.ko", "ext4.ko"]
    assert found.orders["virtio_console"] == []
    assert found.files["jbd2.ko"] == b"jbd2"
    fakes.add("modprobe", "echo what is this")
    with pytest.raises(RunFault, match='modprobe says "what is this"'):
        modules.load_orders(tmp_path, "6.12", tmp_path)


@needs_debian
def test_the_initial_file_system_is_the_same_bytes_and_owned_by_root(tmp_path: Path) -> None:
    busybox = tmp_path / "packages/usr/bin/busybox"
    busybox.parent.mkdir(parents=True)
    busybox.write_bytes(b"\x7fELF busybox")
    needed = modules.Modules({"ext4.ko": b"module"}, {"ext4": ["ext4.ko"], "virtio_mmio": []})
    outs = []
    for number in range(2):
        outs.append(tmp_path / f"{number}.cpio")
        initramfs.build(tmp_path / "packages", needed, tmp_path / f"tree{number}", outs[-1])
    assert outs[0].read_bytes() == outs[1].read_bytes()
    archive = outs[0].read_bytes()
    listed = subprocess.run(["cpio", "-itvn", "--quiet"], input=archive, stdout=subprocess.PIPE, check=True)
    lines = [line.split() for line in listed.stdout.decode().splitlines()]
    names = [line[8] for line in lines]
    assert names == sorted(names)
    assert {"init", "bin/busybox", "bin/sh", "modules/ext4", "modules/ext4.ko", "proc", "dev"} <= set(names)
    assert {(line[2], line[3]) for line in lines} == {("0", "0")}
    modes = {line[8]: line[0] for line in lines}
    assert modes["init"] == modes["bin/busybox"] == "-rwxr-xr-x"
    assert modes["modules/ext4.ko"] == "-rw-r--r--"


# --- the root file system --------------------------------------------------------------------------------------------

POSTINST = r"""#!/bin/sh
set -e
update-alternatives --install /usr/bin/awk awk /usr/bin/mawk 5 \
    --slave /usr/share/man/man1/awk.1.gz awk.1.gz /usr/share/man/man1/mawk.1.gz
update-alternatives --install /usr/bin/nothing nothing /usr/bin/absent 5
update-alternatives --quiet --install /usr/bin/$name v /usr/bin/v 5 || true
"""


def test_alternatives_are_read_from_scripts() -> None:
    found = list(settle.alternatives(POSTINST))
    man = "/usr/share/man/man1"
    assert found == [
        [
            *("--install", "/usr/bin/awk", "awk", "/usr/bin/mawk", "5"),
            *("--slave", f"{man}/awk.1.gz", "awk.1.gz", f"{man}/mawk.1.gz"),
        ],
        ["--install", "/usr/bin/nothing", "nothing", "/usr/bin/absent", "5"],
    ]
    assert list(settle.alternatives("update-alternatives --remove rename /usr/bin/prename\n")) == []
    assert list(settle.alternatives('update-alternatives --install "/usr/bin/x')) == []


def make_deb(directory: Path, name: str, files: dict[str, bytes | str], postinst: str = "", fields: str = "") -> Path:
    """A package; a file's contents are bytes, or a text for a link's target."""
    tree = directory / name
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: 1.0\nArchitecture: riscv64\nMaintainer: tests <t@test>\n{fields}Description: test\n"
    )
    if postinst:
        (tree / "DEBIAN/postinst").write_text(postinst)
        (tree / "DEBIAN/postinst").chmod(0o755)
    for path, contents in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(contents, str):
            (tree / path).symlink_to(contents)
        else:
            (tree / path).write_bytes(contents)
            (tree / path).chmod(0o755 if "/bin/" in path else 0o644)
    deb = directory / f"{name}_1.0_riscv64.deb"
    subprocess.run(
        ["dpkg-deb", "-Znone", "--root-owner-group", "--build", tree, deb], check=True, stdout=subprocess.DEVNULL
    )
    return deb


@pytest.fixture
def order(tmp_path: Path) -> dict[str, object]:
    """An order for a root file system of three small packages."""
    apache = {f"etc/apache2/mods-available/{name}.load": b"Load\n" for name in ("mpm_event", "dir", "cgi")}
    debs = [
        make_deb(tmp_path, "apache2", apache | {"usr/share/apache2/default-site/index.html": b"It works"}),
        make_deb(
            tmp_path,
            "base-files",
            {
                "bin": "usr/bin",
                "usr/bin/sh": b"shell",
                "usr/share/base-passwd/passwd.master": b"root::0:0:root:/root:/bin/bash\n",
                "usr/share/base-passwd/group.master": b"root:*:0:\n",
            },
        ),
        make_deb(
            tmp_path,
            "mawk",
            {"usr/bin/mawk": b"mawk", "bin/old": b"of before /usr was merged", "etc/x" * 20: b"a long name"},
            POSTINST,
            "Multi-Arch: same\n",
        ),
    ]
    for name, mode in (("script", 0o755), ("input", 0o600)):
        (tmp_path / name).write_text(name)
        (tmp_path / name).chmod(mode)
    files = {f"usr/lib/loiter/bench/{name}": str(tmp_path / name) for name in ("script", "input")}
    return {"debs": [str(deb) for deb in debs], "size_mib": None, "key": "5" * 64, "files": files, "programs": {}}


def in_image(image: Path, command: str) -> str:
    """What debugfs says."""
    said = subprocess.run(
        [str(tools.find("debugfs")), "-R", command, image], check=True, capture_output=True, text=True
    )
    return said.stdout


@needs_debian
@needs_fakeroot
def test_a_root_file_system_is_the_same_bytes_from_the_same_packages(tmp_path: Path, order: dict[str, object]) -> None:
    images = []
    shares: list[float] = []
    for number in range(2):
        scratch = tmp_path / f"scratch{number}"
        scratch.mkdir()
        images.append(tmp_path / f"{number}.ext4")
        ours = order | {"out": str(images[-1]), "scratch": str(scratch)}
        assemble.run(ours, scratch, lambda share, what: shares.append(share))
    assert shares[0] == 0.0
    assert shares.count(1.0) == 2
    assert images[0].read_bytes() == images[1].read_bytes()
    image = images[0]
    subprocess.run([str(tools.find("e2fsck")), "-fn", image], check=True, capture_output=True)

    assert in_image(image, "cat /usr/bin/sh") == "shell"
    # Through the link, not in its place.
    assert in_image(image, "cat /usr/bin/old") == "of before /usr was merged"
    assert 'Fast link dest: "usr/bin"' in in_image(image, "stat /bin")
    assert 'Fast link dest: "/etc/alternatives/awk"' in in_image(image, "stat /usr/bin/awk")
    assert 'Fast link dest: "/usr/bin/mawk"' in in_image(image, "stat /etc/alternatives/awk")
    assert "not found" in in_image(image, "stat /usr/bin/nothing") or in_image(image, "stat /usr/bin/nothing") == ""
    assert in_image(image, "cat /etc/passwd").startswith("root:")
    assert in_image(image, "cat /etc/shadow").startswith("root:*:")
    assert in_image(image, "cat /var/www/html/index.html") == "It works"
    assert "../mods-available/mpm_event.load" in in_image(image, "stat /etc/apache2/mods-enabled/mpm_event.load")
    assert "cgi.load" not in in_image(image, "ls /etc/apache2/mods-enabled")
    init = in_image(image, "stat /usr/sbin/init")
    assert "Mode:  0755" in init
    assert "User:     0   Group:     0" in init
    assert init.count("2026") == 4, init
    assert in_image(image, "cat /usr/lib/loiter/agent") == (resources.LINUX / "root/agent").read_text()
    assert in_image(image, "cat /usr/lib/loiter/bench/script") == "script"
    assert "Mode:  0755" in in_image(image, "stat /usr/lib/loiter/bench/script")
    assert "Mode:  0644" in in_image(image, "stat /usr/lib/loiter/bench/input")
    status = in_image(image, "cat /var/lib/dpkg/status")
    assert status.count("Status: install ok unpacked\n") == 3
    assert "/usr/bin/mawk" in in_image(image, "cat /var/lib/dpkg/info/mawk:riscv64.list").splitlines()
    assert in_image(image, "cat /var/lib/dpkg/info/mawk:riscv64.postinst") == POSTINST
    assert "alternatives.log" not in in_image(image, "ls /var/log")


@needs_debian
@needs_fakeroot
def test_a_root_that_is_too_small_says_how_much_is_needed(tmp_path: Path, order: dict[str, object]) -> None:
    big = make_deb(tmp_path, "big", {"usr/share/big": os.urandom(80 << 20)})
    ours = order | {"debs": [str(big)], "size_mib": 64, "out": str(tmp_path / "root.ext4"), "scratch": str(tmp_path)}
    with pytest.raises(UserFault, match=r"need 8\d MiB and do not fit in a file system of 64 MiB: .*--size-mib"):
        assemble.run(ours, tmp_path, lambda share, what: None)


def test_who_is_not_root_has_fakeroot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fakes = FakeTools(tmp_path / "bin", monkeypatch)
    fakes.add("fakeroot", 'echo "0.5 unpacking"; exit 0')
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    heard: list[tuple[float, str]] = []
    assemble.run({"debs": []}, tmp_path, lambda share, what: heard.append((share, what)))
    assert heard == [(0.5, "unpacking")]
    assert fakes.called() == [
        f"fakeroot -- setpriv --pdeathsig KILL -- {sys.executable} -m loiter.images.assemble {tmp_path}/order.json"
    ]
    assert json.loads((tmp_path / "order.json").read_text()) == {"debs": []}


# --- the small kernel ------------------------------------------------------------------------------------------------

PATCH = """\
--- a/kernel/fork.c
+++ b/kernel/fork.c
@@ -1,3 +1,3 @@
 one
-{old}
+{new}
 three
"""


def test_patches_are_applied_in_order(tmp_path: Path) -> None:
    tree, directory = tmp_path / "linux", tmp_path / "patches"
    (tree / "kernel").mkdir(parents=True)
    directory.mkdir()
    source = tree / "kernel/fork.c"
    source.write_text("one\ntwo\nthree\n")
    second, first = directory / "0002-b.patch", directory / "0001-a.patch"
    first.write_text(PATCH.format(old="two", new="TWO"))
    second.write_text(PATCH.format(old="TWO", new="2"))
    tools.patch(tree, [second, first])
    assert source.read_text() == "one\n2\nthree\n"
    with pytest.raises(RunFault, match=r"patch 0001-a\.patch: patch ended with status 1"):
        tools.patch(tree, [first])
    tools.patch(tree, [])


def test_options_that_the_kernel_does_not_take_are_found() -> None:
    wanted = "# a comment\nCONFIG_A=y\nCONFIG_B=256\n# CONFIG_C is not set\n# CONFIG_D is not set\n"
    assert small_kernel.missing_options(wanted, wanted) == []
    got = "CONFIG_A=y\nCONFIG_B=128\nCONFIG_C=y\n"
    assert small_kernel.missing_options(wanted, got) == [
        "CONFIG_B=256",
        "# CONFIG_C is not set",
        "# CONFIG_D is not set",
    ]
    with pytest.raises(RunFault, match="names no option"):
        small_kernel.missing_options("# nothing\n", got)


# --- exec ------------------------------------------------------------------------------------------------------------


def archived(*arguments: object, **named: object) -> dict[str, tarfile.TarInfo]:
    out = io.BytesIO()
    agent.write_archive(out, *arguments, **named)  # type: ignore[arg-type]
    archive = tarfile.open(fileobj=io.BytesIO(out.getvalue()))  # noqa: SIM115
    found = {member.name: member for member in archive}
    for member in found.values():
        file = archive.extractfile(member) if member.isfile() else None
        member.pax_headers = {"data": file.read() if file else b""}  # type: ignore[dict-item]
        assert (member.mtime, member.uid, member.gid, member.uname) == (TIMESTAMP, 0, 0, "")
    return found


def test_an_archive_has_the_command_its_input_and_the_files(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "below").mkdir(parents=True)
    (data / "below/file").write_bytes(b"contents")
    (data / "link").symlink_to("below/file")
    program = tmp_path / "prog"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    (tmp_path / "named").symlink_to(program)
    script = agent.script(["./prog", "a b", "$HOME"], {"X": "it's"})
    assert script == "export X='it'\"'\"'s'\nexec /put/.loiter/launch run ./prog 'a b' '$HOME'\n"
    found = archived(script, [data, tmp_path / "named"], io.BytesIO(b"input"))
    assert list(found) == [
        *(".loiter/command", ".loiter/launch", ".loiter/stdin"),
        *("data", "data/below", "data/below/file", "data/link", "named"),
    ]
    assert found[".loiter/command"].pax_headers["data"] == script.encode()
    assert found[".loiter/stdin"].pax_headers["data"] == b"input"
    assert found["data/below/file"].pax_headers["data"] == b"contents"
    assert found["data/link"].linkname == "below/file"
    # A link that the user named is what it leads to, under the name that was given.
    assert found["named"].pax_headers["data"] == b"\x7fELF"
    assert found["named"].mode == 0o755
    assert found[".loiter/launch"].mode == 0o755
    assert ".loiter/stdin" not in archived("true\n")


def test_what_comes_back_goes_into_one_directory_and_nowhere_else(tmp_path: Path) -> None:
    assert "--file /dev/vdb" in agent.script(["true"], get=["made", "/etc/issue"])
    came = io.BytesIO()
    with tarfile.open(fileobj=came, mode="w") as archive:
        for name in (".loiter/got", "made", "made/inner", "/etc/issue", "never/asked"):
            member = tarfile.TarInfo(name)
            member.type = tarfile.DIRTYPE if name == "made" else tarfile.REGTYPE
            member.mode, member.size = 0o755, 0 if name == "made" else len(name)
            archive.addfile(member, io.BytesIO(name.encode()))
    assert agent.take(came, ["made", "/etc/issue", "none"], tmp_path) == ["none"]
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert found == ["issue", "made", "made/inner"]
    assert (tmp_path / "issue").read_text() == "/etc/issue"
    # The archive that went in is none that came back.
    went = io.BytesIO()
    agent.write_archive(went, "true\n")
    assert agent.take(went, ["made"], tmp_path) == ["made"]


def test_a_guest_that_leads_out_of_the_directory_is_refused(tmp_path: Path) -> None:
    came = io.BytesIO()
    with tarfile.open(fileobj=came, mode="w") as archive:
        for name, link in ((".loiter/got", ""), ("made", "/etc")):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = (tarfile.SYMTYPE if link else tarfile.REGTYPE), link
            archive.addfile(member, io.BytesIO())
    with pytest.raises(tarfile.FilterError):
        agent.take(came, ["made"], tmp_path)
    assert not (tmp_path / "made").exists()


def test_what_cannot_be_put_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/x").touch()
    (tmp_path / "x").touch()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserFault, match=r"a/x: .*/x has the same name in /put"):
        archived("true\n", [tmp_path / "x", tmp_path / "a/x"])
    with pytest.raises(UserFault, match=r"nothing: cannot read it: No such file"):
        archived("true\n", [tmp_path / "nothing"])
    with pytest.raises(UserFault, match=r"pipe: neither a file nor a directory"):
        archived("true\n", [tmp_path / "pipe"])


def test_the_agents_last_words() -> None:
    assert agent.ended("exit 3\n") == agent.Ended(3)
    assert agent.ended("error no disk") == agent.Ended(None, "no disk")
    assert agent.ended("ready") is None
    assert agent.ended("exit") is None
