"""A load whose CPUs meet in one spin lock of the kernel: `kernelmix` of docs/images.md, compiled in the guest."""

from __future__ import annotations

from loiter import resources

PROCESSES_A_CPU = 4
ROUNDS = 500


def command(cpus: int, chosen: list[str]) -> str:
    """What the guest runs: it compiles, chooses its locks, and runs what it compiled, which checks what it has done."""
    source = (resources.LINUX / "workloads/kernelmix.c").read_text()
    lines = [
        "set -e",
        "mount -t tmpfs tmpfs /mnt",
        "cd /mnt",
        "export TMPDIR=/mnt",
        f"cat > kernelmix.c <<'EOF'\n{source}EOF",
        "gcc -O1 -o kernelmix kernelmix.c",
        *chosen,
        f"./kernelmix {PROCESSES_A_CPU * cpus} {ROUNDS} narrow",
        "echo checked",
        "",
    ]
    return "\n".join(lines)
