"""A recipe: what a person asked of an image, and the key that names what comes of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from loiter import resources
from loiter.engine import Json
from loiter.errors import UserFault, unknown
from loiter.images import kinds
from loiter.images.apt import sha256
from loiter.runs.request import digest

# Debian's first release that carries riscv64.
SUITE = "trixie"
# Bytes of ours that go into images, or decide what does, are part of the key.
_OUR_CODE = Path(__file__).resolve().parent
_FRAGMENTS = "kernel/fragments/*.config"
_NAME = re.compile(r"[a-z0-9][a-z0-9._+-]*")


@dataclass(frozen=True)
class Recipe:
    """A kind of image and its parameters."""

    kind: str
    suite: str = SUITE
    # Beside those the kind always has.
    packages: tuple[str, ...] = ()
    # Size of the root file system; None for what its contents need and some room.
    size_mib: int | None = None
    # The kind of kernel that a root file system is booted with.
    kernel: str = "kernel"
    # Whether the small kernel has our patches.
    patches: bool = True
    # What options the small kernel has beside its own, by the names of `kernel/fragments`.
    fragments: tuple[str, ...] = ()
    mirror: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.kind not in kinds.NAMES:
            raise unknown("kind of image", self.kind, kinds.NAMES)
        if not _NAME.fullmatch(self.suite):
            raise UserFault(f'--suite {self.suite}: a suite has a name such as "{SUITE}".')
        for name in self.packages:
            if not _NAME.fullmatch(name):
                raise UserFault(f'--packages: "{name}" is no name of a package; give names separated by commas.')
        if not kinds.load(self.kind).HAS_ROOT:
            if self.packages or self.size_mib is not None:
                raise UserFault(f"a {self.kind} image has no root file system, so no --packages and no --size-mib.")
        elif self.kernel not in kinds.KERNELS:
            raise unknown("kernel image", self.kernel, kinds.KERNELS)
        self._check_small_kernel()

    def parameters(self) -> Json:
        """What a person chose, as manifests have it."""
        has_root = kinds.load(self.kind).HAS_ROOT
        chosen: Json = {
            "kind": self.kind,
            "suite": self.suite,
            "packages": sorted(set(self.packages)),
            "size_mib": self.size_mib,
            "kernel": self.kernel if has_root else None,
        }
        if not self._has_small_kernel():
            return chosen
        return {**chosen, "patches": self.patches, "fragments": sorted(set(self.fragments))}

    def key(self) -> str:
        """Names what this recipe makes: a change of the parameters or of our own files is another image."""
        kind = kinds.load(self.kind)
        ours = {str(path): sha256(resources.LINUX / path) for path in files(kind.FILES) if self._has_file(path)}
        code = {name: sha256(_OUR_CODE / name) for name in kind.CODE}
        identity: Json = {"parameters": self.parameters(), "files": ours, "code": code}
        if kind.HAS_ROOT:
            identity["kernel"] = self.of_kernel().key()
        return digest(identity)

    def of_kernel(self) -> Recipe:
        """The recipe of the kernel that goes with a root file system."""
        return Recipe(self.kernel, self.suite, patches=self.patches, fragments=self.fragments, mirror=self.mirror)

    def name_of_kernel(self) -> str:
        """The name of that kernel's image; none takes the place of one of another suite, or with other patches
        or options."""
        suite = "" if self.suite == SUITE else f"-{self.suite}"
        fragments = "".join(f"-{name}" for name in sorted(set(self.fragments)))
        return f"{self.kernel}{suite}{'' if self.patches else '-unpatched'}{fragments}"

    def with_mirror(self, mirror: str | None) -> Recipe:
        """The same, from another mirror, which makes no other image."""
        return replace(self, mirror=mirror)

    def _has_file(self, path: Path) -> bool:
        """Whether one of our files goes into this image: those of fragments only where they are chosen."""
        return path.parent != Path(_FRAGMENTS).parent or path.stem in self.fragments

    def _check_small_kernel(self) -> None:
        if not self.patches and not self._has_small_kernel():
            raise UserFault("--no-patches: the stock kernel has none; --kernel small-kernel has.")
        if self.fragments and not self._has_small_kernel():
            raise UserFault("--fragments: the stock kernel is built already; --kernel small-kernel is built here.")
        for name in self.fragments:
            if name not in fragments():
                raise unknown("fragment", name, fragments())
            if not self.patches and patches_of([fragments()[name]]):
                raise UserFault(f"--no-patches: the fragment {name} has a patch, which builds on ours.")

    def _has_small_kernel(self) -> bool:
        return kinds.SMALL_KERNEL in (self.kind, self.kernel if kinds.load(self.kind).HAS_ROOT else None)


def from_parameters(parameters: Json) -> Recipe:
    """The recipe that a manifest records."""
    return Recipe(
        parameters["kind"],
        parameters["suite"],
        tuple(parameters["packages"]),
        parameters["size_mib"],
        parameters["kernel"] or "kernel",
        parameters.get("patches", True),
        tuple(parameters.get("fragments", ())),
    )


def fragments() -> dict[str, Path]:
    """Files of options that the small kernel can have beside its own, by name."""
    return {path.stem: path for path in files((_FRAGMENTS,))}


def patches_of(chosen: list[Path]) -> list[Path]:
    """The patches of fragments that have one, beside their options. They come after those of every small kernel."""
    beside = (resources.LINUX / path.with_suffix(".patch") for path in chosen)
    return [path for path in beside if path.is_file()]


def files(patterns: tuple[str, ...]) -> list[Path]:
    """Our files for guests under Linux, by patterns, relative to their directory. Each pattern has one at least."""
    found: set[Path] = set()
    for pattern in patterns:
        paths = [path.relative_to(resources.LINUX) for path in resources.LINUX.glob(pattern) if path.is_file()]
        if not paths:
            raise UserFault(f"{resources.LINUX / pattern}: no such file. This copy of loiter is not whole.")
        found.update(paths)
    return sorted(found)
