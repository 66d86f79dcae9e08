"""The guest's real work: a parallel build of a C program in tmpfs by Debian's gcc, which is checked by what the program
says that was built."""

from __future__ import annotations

import functools

from rich.console import Console

from loiter import images
from loiter.images import Recipe, cache

IMAGE = "friebel2008"
PACKAGES = ("make",)
FRAGMENTS = ("yielding-waiters",)
MEMORY_MIB = 1024

BUILD = (
    f"loiter image build {IMAGE} --kind debian --kernel small-kernel --fragments {','.join(FRAGMENTS)} "
    f"--packages {','.join(PACKAGES)}"
)

_PARAMETERS = "/sys/module/loiter_yield/parameters"

_UNIT = r"""
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
extern unsigned long total, units;
static unsigned long square(unsigned long k) { return k * k % 9973; }
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static unsigned long sorted(void) {
    int numbers[N + 1];
    for (int k = 0; k <= N; k++)
        numbers[k] = (k * 7919 + N) % 211;
    qsort(numbers, N + 1, sizeof(numbers[0]), compare);
    for (int k = 0; k < N; k++)
        if (numbers[k] > numbers[k + 1])
            abort();
    return N;
}
__attribute__((constructor)) static void add(void) {
    unsigned long sum = sorted();
    for (unsigned long k = 0; k < N; k++)
        sum += square(k);
    total += sum;
    units++;
}
"""

_MAIN = r"""
#include <stdio.h>
unsigned long total, units;
int main(void) { return printf("%lu units, %lu\n", units, total) < 0; }
"""

_MAKEFILE = """
program: main.o $(foreach n,$(NUMBERS),unit$(n).o)
\tgcc -o $@ $^
main.o: main.c
\tgcc -O2 -c -o $@ $<
unit%.o: unit.c
\tgcc -O2 -DN=$* -c -o $@ $<
"""


def says(units: int) -> str:
    """What the program says that consists of so many units."""
    total = sum(n + sum(k * k % 9973 for k in range(n)) for n in range(1, units + 1))
    return f"{units} units, {total}"


def command(units: int, jobs: int, lock: str, after_ns: int) -> str:
    """What the guest runs: it chooses the kernel's spin locks and when their waiters yield, builds, and runs what it
    built."""
    yields = [f"echo {after_ns} > {_PARAMETERS}/after_ns"] if after_ns else []
    lines = [
        "set -e",
        f"echo {lock} > {_PARAMETERS}/lock",
        *yields,
        "mount -t tmpfs tmpfs /mnt",
        "cd /mnt",
        "export TMPDIR=/mnt",
        *(
            f"cat > {name} <<'EOF'{text}EOF"
            for name, text in (("unit.c", _UNIT), ("main.c", _MAIN), ("Makefile", _MAKEFILE))
        ),
        f"make --silent --jobs={jobs} NUMBERS='{' '.join(str(n) for n in range(1, units + 1))}'",
        f"test \"$(./program)\" = '{says(units)}'",
        "echo checked",
        "",
    ]
    return "\n".join(lines)


def recipe() -> Recipe:
    """Of the image."""
    return Recipe("debian", packages=PACKAGES, kernel="small-kernel", fragments=FRAGMENTS)


def is_there() -> bool:
    """Whether the image is built, as it would be today."""
    found = cache.lookup(IMAGE)
    return found is not None and found.key == recipe().key()


@functools.cache
def ensure() -> None:
    """Builds the image where it is missing."""
    images.build(IMAGE, recipe(), Console(stderr=True))
