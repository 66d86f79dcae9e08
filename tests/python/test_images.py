"""Images without a network: names and keys, the cache, the host's tools, progress, and the command."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

from commands import Command, run
from loiter import images, resources
from loiter.errors import Interrupted, RunFault, StoreFault, UserFault
from loiter.images import builder, cache, kinds, recipe, tools
from loiter.images.apt import Package
from loiter.images.image import Image
from loiter.images.kinds import Outcome, Work
from loiter.images.progress import Step, Steps
from loiter.images.recipe import Recipe

PACKAGE = Package("busybox-static", "1:1.37", "riscv64", "busybox-static_1%3a1.37_riscv64.deb", 3, "0" * 64)


class FakeKind:
    """A kind that builds in no time; files of the image are named by `contents`."""

    DESCRIPTION = "a kind of the tests"
    HAS_ROOT = False
    FILES = ("initramfs/*",)
    CODE = ("linux.py",)
    TOOLS: tuple[str, ...] = ()

    def __init__(self, contents: dict[str, bytes], has_root: bool = False) -> None:
        self.contents = contents
        self.HAS_ROOT = has_root
        self.builds = 0
        self.fault: Exception | None = None

    def steps(self, recipe: Recipe) -> list[Step]:
        return [Step("work", 1)]

    def build(self, work: Work) -> Outcome:
        with work.steps.step("work"):
            self.builds += 1
            for name, data in self.contents.items():
                (work.out / name).write_bytes(data)
            if self.fault is not None:
                raise self.fault
        return Outcome([PACKAGE], "console=ttyS0", "6.12-test")


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, FakeKind]:
    """Kinds that need nothing of the host, and a cache of the test's own."""
    monkeypatch.setenv("LOITER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    kernel = {"Image": b"kernel", "fw_dynamic.bin": b"firmware", "initrd.cpio": b"initrd"}
    fakes = {
        "kernel": FakeKind(kernel),
        "small-kernel": FakeKind(kernel | {"System.map": b"map"}),
        "debian": FakeKind(kernel | {"root.ext4": b"root"}, has_root=True),
        "workloads": FakeKind(kernel | {"root.ext4": b"more"}, has_root=True),
    }
    monkeypatch.setattr(kinds, "load", fakes.__getitem__)
    monkeypatch.setattr(builder, "Apt", lambda *arguments: None)
    monkeypatch.setattr(tools, "require", lambda commands, files=None: None)
    return fakes


@pytest.fixture
def loiter(fakes: dict[str, FakeKind]) -> Command:
    """Runs a command."""
    return run


# --- images as files -------------------------------------------------------------------------------------------------


def test_an_image_goes_to_another_host_and_is_the_same(
    loiter, fakes: dict[str, FakeKind], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hole = 3 << 20
    fakes["debian"].contents |= {"root.ext4": b"begin" + bytes(hole) + b"end" + bytes(hole)}
    assert loiter("image", "build", "debian").status == 0
    built = images.find("debian")
    said = loiter("image", "export", "debian", "--out", str(tmp_path / "debian.tar.zst"))
    assert said.status == 0
    assert "wrote" in said.out
    again = loiter("image", "export", "debian", "--out", str(tmp_path / "again.tar.zst"))
    assert again.status == 0
    assert (tmp_path / "debian.tar.zst").read_bytes() == (tmp_path / "again.tar.zst").read_bytes()
    assert (tmp_path / "again.tar.zst").stat().st_size < 20_000
    monkeypatch.setenv("LOITER_CACHE", str(tmp_path / "elsewhere"))
    builds = fakes["debian"].builds
    assert loiter("image", "import", str(tmp_path / "debian.tar.zst")).status == 0
    there = images.find("debian")
    assert there.path != built.path
    assert {name: (there.path / name).read_bytes() for name in built.manifest["files"]} == {
        name: (built.path / name).read_bytes() for name in built.manifest["files"]
    }
    assert there.identity() == built.identity()
    assert (there.path / "root.ext4").stat().st_blocks * 512 <= hole, "holes are holes again"
    images.ensure("debian")
    assert fakes["debian"].builds == builds, "what was brought along is not built"
    assert loiter("image", "import", str(tmp_path / "debian.tar.zst"), "--name", "mine").status == 0
    assert images.find("mine").key == built.key


def test_what_is_no_whole_image_becomes_none(loiter, fakes: dict[str, FakeKind], tmp_path: Path) -> None:
    import io
    import tarfile

    import pyarrow as pa

    assert loiter("image", "build", "kernel").status == 0
    assert loiter("image", "export", "kernel", "--out", str(tmp_path / "good.tar.zst")).status == 0
    manifest = (images.find("kernel").path / "manifest.json").read_bytes()

    def archive(*members: tuple[str, bytes]) -> bytes:
        tar = io.BytesIO()
        with tarfile.open(fileobj=tar, mode="w") as file:
            for name, data in members:
                member = tarfile.TarInfo(name)
                member.size = len(data)
                file.addfile(member, io.BytesIO(data))
        packed: bytes = pa.compress(tar.getvalue(), "zstd", asbytes=True)
        return packed

    good = (tmp_path / "good.tar.zst").read_bytes()
    newer = json.dumps(json.loads(manifest) | {"schema": 99}).encode()
    for content, message in (
        (good[: len(good) // 2], "not a whole image"),
        (b"nothing", "not a whole image"),
        (archive(("Image", b"kernel")), "does not begin with a manifest"),
        (archive(("manifest.json", manifest), ("Image", b"kernek")), "Image does not match its hash"),
        (archive(("manifest.json", manifest), ("../evil", b"kernel")), "../evil is none of its files"),
        (archive(("manifest.json", manifest), ("Image", b"kernel")), "fw_dynamic.bin, host.json, initrd.cpio missing"),
        (archive(("manifest.json", newer)), "it is of another loiter"),
    ):
        (tmp_path / "bad.tar.zst").write_bytes(content)
        said = loiter("image", "import", str(tmp_path / "bad.tar.zst"), "--name", "bad")
        assert (said.status, "bad" in images.names()) == (2, False)
        assert message in said.err
    assert not list((tmp_path / "cache" / "images").glob(".incoming-*"))
    for words, message in (
        (("export", "nosuch"), "unknown image"),
        (("export", "kernel", "--out", str(tmp_path)), "a directory; name a file"),
        (("import", str(tmp_path / "nosuch")), "no such file"),
        (("import", str(tmp_path / "good.tar.zst"), "--name", "a/b"), "the name of an image is made of"),
    ):
        said = loiter("image", *words)
        assert said.status == 2
        assert message in said.err


# --- recipes ---------------------------------------------------------------------------------------------------------


def test_a_key_changes_with_whatever_changes_the_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = Recipe("debian")
    others = [
        Recipe("debian", packages=("git",)),
        Recipe("debian", suite="forky"),
        Recipe("debian", size_mib=2048),
        Recipe("debian", kernel="small-kernel"),
        Recipe("kernel"),
        Recipe("small-kernel"),
        Recipe("small-kernel", patches=False),
        Recipe("debian", kernel="small-kernel", patches=False),
        Recipe("small-kernel", fragments=("lock-stat",)),
        Recipe("debian", kernel="small-kernel", fragments=("lock-stat",)),
        Recipe("workloads"),
    ]
    assert len({each.key() for each in [base, *others]}) == 12
    assert Recipe("debian", packages=("b", "a", "b")).key() == Recipe("debian", packages=("a", "b")).key()
    assert base.with_mirror("http://mirror.test/debian").key() == base.key()
    before = {kind: Recipe(kind).key() for kind in kinds.NAMES}
    shutil.copytree(resources.LINUX, tmp_path / "linux")
    monkeypatch.setattr(resources, "LINUX", tmp_path / "linux")
    assert {kind: Recipe(kind).key() for kind in kinds.NAMES} == before
    with (tmp_path / "linux/kernel/small.config").open("a") as file:
        file.write("CONFIG_NUMA=y\n")
    assert Recipe("small-kernel").key() != before["small-kernel"]
    assert Recipe("kernel").key() == before["kernel"]
    with (tmp_path / "linux/initramfs/init").open("a") as file:
        file.write("# changed\n")
    # The root file system comes with a kernel image, whose initial file system this is.
    assert Recipe("debian").key() != before["debian"]


def test_a_patch_makes_another_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(resources.LINUX, tmp_path / "linux")
    monkeypatch.setattr(resources, "LINUX", tmp_path / "linux")
    before = Recipe("small-kernel").key()
    (tmp_path / "linux/kernel/patches").mkdir(exist_ok=True)
    (tmp_path / "linux/kernel/patches/0001-test.patch").write_text("--- a\n")
    assert Recipe("small-kernel").key() != before


def test_a_fragment_makes_another_kernel_only_where_it_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(resources.LINUX, tmp_path / "linux")
    monkeypatch.setattr(resources, "LINUX", tmp_path / "linux")
    without, chosen = (Recipe("small-kernel", fragments=names) for names in ((), ("yielding-waiters",)))
    assert [path.name for path in recipe.patches_of([recipe.fragments()["yielding-waiters"]])] == [
        "yielding-waiters.patch"
    ]
    assert recipe.patches_of([recipe.fragments()[each] for each in ("kvm", "steal-time")]) == []
    for end in ("config", "patch"):
        before = without.key(), chosen.key()
        with (tmp_path / f"linux/kernel/fragments/yielding-waiters.{end}").open("a") as file:
            file.write("# changed\n")
        assert without.key() == before[0]
        assert chosen.key() != before[1]


def test_the_code_and_files_that_kinds_name_exist() -> None:
    for name in kinds.NAMES:
        kind = kinds.load(name)
        assert kind.CODE
        assert recipe.files(kind.FILES)
        assert set(kind.TOOLS) <= set(tools.PACKAGES)
        for module in kind.CODE:
            assert (Path(recipe.__file__).parent / module).is_file(), module
        assert sum(step.seconds for step in kind.steps(Recipe(name))) > 0


MISTAKES = [
    (("image", "build", "kernal"), 2, ['unknown image "kernal"', '"kernel"', "--packages or --kind"]),
    (("image", "build", "x", "--kind", "kernal"), 2, ['unknown kind of image "kernal"', '"kernel"']),
    (("image", "build", "kernel", "--packages", "git"), 2, ["kernel image has no root file system"]),
    (("image", "build", "--packages", "git,Foo!"), 2, ['"Foo!" is no name of a package']),
    (("image", "build", "--suite", "../x"), 2, ["--suite ../x"]),
    (("image", "build", "--kernel", "big"), 2, ['unknown kernel image "big"', "small-kernel"]),
    (("image", "build", "--no-patches"), 2, ["--no-patches: the stock kernel has none", "small-kernel"]),
    (
        ("image", "build", "--kernel", "small-kernel", "--no-patches", "--fragments", "yielding-waiters"),
        2,
        ["--no-patches: the fragment yielding-waiters has a patch, which builds on ours"],
    ),
    (("image", "build", "--fragments", "lock-stat"), 2, ["--fragments: the stock kernel is built already"]),
    (
        ("image", "build", "--kernel", "small-kernel", "--fragments", "lokc-stat"),
        2,
        ['unknown fragment "lokc-stat"', '"lock-stat"'],
    ),
    (("image", "build", "--size-mib", "3"), 2, ["--size-mib"]),
    (("image", "build", "a/b"), 2, ["name of an image is made of"]),
    (("image", "build", "kernel", "--kind", "debian"), 2, ['"kernel" is the name of another kind']),
    (("image", "show", "debian"), 2, ["debian is not built yet", "`loiter image build debian`"]),
    (("image", "show", "debina"), 2, ['unknown image "debina"', '"debian"']),
    (("image", "remove"), 2, ["nothing named"]),
    (("image", "remove", "debian"), 2, ['unknown image "debian"']),
]


@pytest.mark.parametrize(("words", "status", "expected"), MISTAKES, ids=lambda value: str(value)[:40])
def test_mistakes_have_one_clear_message(loiter, words: tuple[str, ...], status: int, expected: list[str]) -> None:
    said = loiter(*words)
    assert said.status == status
    for text in expected:
        assert text in said.err
    assert "Traceback" not in said.err


# --- the cache -------------------------------------------------------------------------------------------------------


def test_an_image_is_built_once(fakes: dict[str, FakeKind]) -> None:
    first = images.build("kernel", Recipe("kernel"))
    assert images.build("kernel", Recipe("kernel")).path == first.path
    assert fakes["kernel"].builds == 1
    assert images.find("kernel").kernel.read_bytes() == b"kernel"
    assert first.initrd is not None
    assert first.root is None
    assert first.system_map is None
    assert first.agent_command_line == "console=ttyS0 loiter.agent"
    assert images.is_current(first)


def test_a_root_brings_its_kernel_once(fakes: dict[str, FakeKind]) -> None:
    images.build("debian", Recipe("debian"))
    images.build("web", Recipe("debian", packages=("nginx",)))
    assert (fakes["kernel"].builds, fakes["debian"].builds) == (1, 2)
    assert images.names() == ["debian", "kernel", "web"]
    assert images.recipe_of("web").packages == ("nginx",)
    # A name keeps what it was built with, and gets it again when loiter's own files have changed.
    assert images.ensure("web").manifest["recipe"]["packages"] == ["nginx"]
    assert fakes["debian"].builds == 2


def test_another_suite_has_a_kernel_of_its_own(fakes: dict[str, FakeKind]) -> None:
    images.build("debian", Recipe("debian"))
    images.build("next", Recipe("debian", suite="forky"))
    assert images.names() == ["debian", "kernel", "kernel-forky", "next"]
    assert images.find("kernel-forky").manifest["recipe"]["suite"] == "forky"


def test_a_kernel_without_patches_has_a_name_of_its_own(fakes: dict[str, FakeKind], loiter) -> None:
    assert loiter("image", "build", "plain", "--kernel", "small-kernel", "--no-patches").status == 0
    assert loiter("image", "build", "ours", "--kernel", "small-kernel").status == 0
    assert images.names() == ["ours", "plain", "small-kernel", "small-kernel-unpatched"]
    assert images.find("small-kernel-unpatched").manifest["recipe"]["patches"] is False
    assert images.recipe_of("plain") == Recipe("debian", kernel="small-kernel", patches=False)
    assert images.is_current(images.find("plain"))


def test_a_kernel_with_more_options_has_a_name_of_its_own(fakes: dict[str, FakeKind], loiter) -> None:
    assert loiter("image", "build", "locks", "--kernel", "small-kernel", "--fragments", "lock-stat").status == 0
    assert images.names() == ["locks", "small-kernel-lock-stat"]
    assert images.recipe_of("locks") == Recipe("debian", kernel="small-kernel", fragments=("lock-stat",))
    assert images.is_current(images.find("locks"))


def test_a_changed_recipe_replaces_the_image_of_that_name(fakes: dict[str, FakeKind]) -> None:
    old = images.build("debian", Recipe("debian"))
    new = images.build("debian", Recipe("debian", packages=("git",)))
    assert old.key != new.key
    assert images.find("debian").path == new.path
    assert not old.path.exists()


def test_built_again_from_the_same_it_is_the_same(fakes: dict[str, FakeKind]) -> None:
    first = images.build("kernel", Recipe("kernel"))
    manifest = (first.path / "manifest.json").read_bytes()
    again = images.build("kernel", Recipe("kernel"), again=True)
    assert fakes["kernel"].builds == 2
    assert (again.path, (again.path / "manifest.json").read_bytes()) == (first.path, manifest)


def test_a_manifest_says_what_went_in(fakes: dict[str, FakeKind]) -> None:
    image = images.build("kernel", Recipe("kernel"))
    manifest = json.loads((image.path / "manifest.json").read_text())
    assert set(manifest["files"]) == {"Image", "fw_dynamic.bin", "initrd.cpio"}
    assert manifest["packages"][0]["version"] == "1:1.37"
    identity = image.identity()
    assert identity["packages"] == [
        {"name": "busybox-static", "version": "1:1.37", "architecture": "riscv64", "sha256": "0" * 64}
    ]
    assert len(identity["manifest_sha256"]) == 64
    assert set(identity["files"]) == set(manifest["files"])


def test_a_failed_build_leaves_what_was_there(fakes: dict[str, FakeKind], tmp_path: Path) -> None:
    first = images.build("kernel", Recipe("kernel"))
    fakes["kernel"].fault = RunFault("no luck")
    with pytest.raises(RunFault, match="no luck"):
        images.build("kernel", Recipe("kernel"), again=True)
    assert images.find("kernel").path == first.path
    assert not list((tmp_path / "cache/images").glob(".incoming-*"))


def test_a_full_disk_is_said_so(fakes: dict[str, FakeKind], loiter) -> None:
    fakes["kernel"].fault = OSError(28, "No space left on device")
    said = loiter("image", "build", "kernel")
    assert said.status == 1
    assert "no space left" in said.err
    assert "LOITER_CACHE" in said.err


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: (path / "Image").write_bytes(b"short"),
        lambda path: (path / "Image").unlink(),
        lambda path: (path / "manifest.json").write_text("{"),
        lambda path: (path / "manifest.json").write_text('{"schema": 99}'),
    ],
    ids=["truncated", "missing", "no JSON", "another schema"],
)
def test_a_damaged_image_is_refused_and_built_again(fakes: dict[str, FakeKind], damage) -> None:
    image = images.build("kernel", Recipe("kernel"))
    damage(image.path)
    with pytest.raises(StoreFault, match=r"kernel is damaged .*loiter image build kernel"):
        images.find("kernel")
    assert images.build("kernel", Recipe("kernel")).kernel.read_bytes() == b"kernel"


def test_a_killed_build_leaves_no_image_and_the_next_one_sweeps_up(fakes: dict[str, FakeKind], tmp_path: Path) -> None:
    script = """
        import os, signal, pathlib
        from loiter.images import cache
        with cache.guard("kernel"), cache.incoming("kernel") as temporary:
            (temporary / "Image").write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False)
    assert ended.returncode == -signal.SIGKILL
    left = tmp_path / "cache/images/.incoming-kernel"
    assert (left / "Image").is_file()
    assert images.names() == []
    assert images.build("kernel", Recipe("kernel")).kernel.read_bytes() == b"kernel"
    assert not left.exists()


def test_two_builders_wait_for_each_other(fakes: dict[str, FakeKind]) -> None:
    waited = threading.Event()
    results: list[Image] = []

    def second() -> None:
        with cache.guard("kernel", waited.set):
            pass
        results.append(images.build("kernel", Recipe("kernel")))

    with cache.guard("kernel", lambda: pytest.fail("nobody else builds")):
        # Others are not held up.
        images.build("small-kernel", Recipe("small-kernel"))
        thread = threading.Thread(target=second)
        thread.start()
        assert waited.wait(10)
        assert not results
    thread.join(10)
    assert len(results) == 1


def test_remove_takes_one_image_and_leaves_the_others(fakes: dict[str, FakeKind], loiter) -> None:
    images.build("debian", Recipe("debian"))
    said = loiter("image", "remove", "debian")
    assert (said.status, said.out.strip()) == (0, "image debian is removed")
    assert images.names() == ["kernel"]
    downloads = images.root() / "apt/archives"
    downloads.mkdir(parents=True)
    (downloads / "a.deb").write_bytes(b"x" * 3_000_000)
    assert "3 MiB" in loiter("image", "remove", "--downloads").out
    assert not downloads.exists()


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("LOITER_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert images.root() == tmp_path / ".cache/loiter"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert images.root() == tmp_path / "xdg/loiter"
    monkeypatch.setenv("LOITER_CACHE", str(tmp_path / "own"))
    assert images.root() == tmp_path / "own"


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_builds_lists_and_shows(fakes: dict[str, FakeKind], loiter) -> None:
    said = loiter("image", "build", "web", "--packages", "nginx, ruby", "--packages", "git")
    assert said.status == 0
    assert "image web is built" in said.out
    assert "web: 1/2 work (0:00)" in said.err
    assert "\x1b" not in said.out + said.err
    assert "is there already" in loiter("image", "build", "web", "--packages", "git,nginx,ruby").out
    listed = loiter("image", "list")
    assert "git, nginx, ruby" in listed.out
    assert "small-kernel: a kind of the tests; not built" in listed.out
    assert [each["name"] for each in json.loads(loiter("image", "list", "--json").out)] == ["kernel", "web"]
    shown = loiter("image", "show", "web")
    assert "busybox-static" in shown.out
    assert "6.12-test" in shown.out
    facts = json.loads(loiter("image", "show", "web", "--json").out)
    assert facts["root"].endswith("/root.ext4")
    assert facts["manifest"]["recipe"]["packages"] == ["git", "nginx", "ruby"]
    # Without words of a recipe a name keeps its own.
    assert json.loads(loiter("image", "build", "web", "--json").out)["key"] == facts["key"]


def test_a_damaged_image_does_not_hide_the_others(fakes: dict[str, FakeKind], loiter) -> None:
    images.build("debian", Recipe("debian"))
    (images.find("debian").path / "root.ext4").unlink()
    said = loiter("image", "list")
    assert said.status == 0
    assert "image debian is damaged" in said.err
    assert "kernel" in said.out


# --- tools of the host -----------------------------------------------------------------------------------------------


def test_missing_tools_are_named_with_the_command_to_get_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        tools, "find", lambda command: None if command in ("mke2fs", "debugfs", "cpio") else "/bin/true"
    )
    with pytest.raises(UserFault, match=r"missing on this system: cpio e2fsprogs keys\. .*install cpio e2fsprogs keys"):
        tools.require(["tar", "mke2fs", "debugfs", "cpio"], {"keys": tmp_path / "keys.gpg"})
    tools.require(["tar"])
    monkeypatch.setattr(tools, "find", lambda command: None)
    with pytest.raises(UserFault, match="this system has none"):
        tools.require(["apt-get", "tar"])


def test_a_tool_that_fails_is_quoted() -> None:
    assert tools.run(["sh", "-c", "echo out; echo err >&2"], "work") == "out\n"
    with pytest.raises(RunFault, match=r"work: sh ended with status 3:\n  why"):
        tools.run(["sh", "-c", "echo why >&2; exit 3"], "work")
    with pytest.raises(RunFault, match=r"work: sh was killed by signal 9:\n  \(it said nothing\)"):
        tools.run(["sh", "-c", "kill -9 $$"], "work")
    with pytest.raises(StoreFault, match="work: no space left"):
        tools.run(["sh", "-c", "echo 'tar: x: Cannot write: No space left on device' >&2; exit 2"], "work")
    with pytest.raises(RunFault, match="cannot run /nonexistent: no such command"):
        tools.run(["/nonexistent"], "work")


def test_a_tool_gets_its_input_and_is_heard_line_by_line() -> None:
    heard: list[str] = []
    given = b"".join(b"%d\n" % number for number in range(100_000))
    assert tools.run(["cat"], "work", given=given, on_line=heard.append).encode() == given
    assert len(heard) == 100_000
    assert tools.run(["true"], "work", given=given) == ""


def test_interrupted_no_tool_is_left_running(tmp_path: Path) -> None:
    def interrupt(line: str) -> None:
        raise Interrupted("interrupted")

    script = f"sleep 1000 & echo $! > {tmp_path}/pid; echo ready; wait"
    with pytest.raises(Interrupted):
        tools.run(["sh", "-c", script], "work", on_line=interrupt)
    _ends(int((tmp_path / "pid").read_text()))


def test_a_tool_does_not_outlive_us(tmp_path: Path) -> None:
    script = f"""
        from loiter.images import tools
        tools.run(["sh", "-c", "echo $$ > {tmp_path}/pid; exec sleep 1000"], "work")
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)]) as process:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
            assert process.poll() is None
            time.sleep(0.05)
        process.kill()
    _ends(int((tmp_path / "pid").read_text()))


def _ends(pid: int) -> None:
    for _ in range(200):
        if not _runs(pid):
            return
        time.sleep(0.05)
    pytest.fail("the tool still runs")


def _runs(pid: int) -> bool:
    try:
        # A dead one whose parent has not asked yet is a zombie.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


# --- progress --------------------------------------------------------------------------------------------------------


def test_steps_are_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Steps(Console(stderr=True, width=80), "kernel", [Step("one", 1), Step("two", 2)]) as steps:
        with steps.step("one"):
            steps.share(0.5)
        with steps.step("two"):
            steps.detail("3 packages")
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "building image kernel: about 0:03 on a host of two processors",
        "kernel: 1/2 one (0:00)",
        "kernel: 2/2 two, 3 packages (0:00)",
    ]


def test_steps_come_as_announced() -> None:
    with (
        Steps(None, "kernel", [Step("one", 1), Step("two", 2)]) as steps,
        pytest.raises(AssertionError, match="step two"),
        steps.step("two"),
    ):
        pass


def test_a_terminal_shows_what_is_left() -> None:
    console = Console(force_terminal=True, width=120, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    with Steps(console, "kernel", [Step("one", 10), Step("two", 30)]) as steps:
        with steps.step("one"):
            pass
        with steps.step("two"):
            steps.share(0.5, "17 packages")
            share, facts = steps.state()
            assert facts.startswith("two 17 packages, about 0:")
            assert 0.25 < share < 1.0
    console.file.close()
