"""The guest's real work: a parallel build of a C program in tmpfs by Debian's gcc, which is checked by what the program
says that was built."""

from __future__ import annotations

import functools

from rich.console import Console

from loiter import images
from loiter.images import Recipe, cache

IMAGE, QUEUED_IMAGE = "friebel2008", "friebel2008-queued"
FRAGMENTS = {IMAGE: ("yielding-waiters",), QUEUED_IMAGE: ("queued-spin-locks", "yielding-waiters")}
PACKAGES = ("make",)
MEMORY_MIB = 1024

PARAVIRTUAL = "paravirtual"
"""The word of the kernel for queued spin locks whose waiters sleep."""

FILES = 4
"""In each directory."""
_HEADERS = 24

# As in a kernel's build each file is small, includes many headers, is compiled by a pipeline of processes, and leaves
# what it depends on beside it; each directory has a make of its own and is linked into one object.
_MAIN = r"""
#include <stdio.h>
unsigned long total, units;
int main(void) { return printf("%lu units, %lu\n", units, total) < 0; }
"""

_UNIT = r"""
#include <all.h>
extern unsigned long total, units;
__attribute__((constructor)) static void add(void) {
    for (unsigned long k = 0; k < N; k++)
        total += header0(k * k % 9973);
    units++;
}
"""

_MAKEFILE = """
DIRECTORIES := $(wildcard part*)
program: main.o $(DIRECTORIES:%=%/all.o)
\tgcc -o $@ $^
main.o: main.c
\tgcc -c -o $@ $<
%/all.o: every-time
\t+$(MAKE) --silent -C $* -f ../directory.make
every-time:
"""

_DIRECTORY = """
all.o: $(patsubst %.c,%.o,$(wildcard *.c))
\tld -r -o $@ $^
%.o: %.c
\tgcc -pipe -O1 -I../include -MMD -MF .$*.d -c -o .$*.new $< && cat .$*.d > .$*.cmd && rm .$*.d && mv .$*.new $@
"""

_SOURCES = rf"""
mkdir include
n=0
while [ $n -lt {_HEADERS} ]; do
    echo "static inline unsigned long header$n(unsigned long x) {{ return x; }}" > include/header$n.h
    echo "#include <header$n.h>" >> include/all.h
    n=$((n + 1))
done
n=0
while [ $n -lt $units ]; do
    part=part$((n / {FILES}))
    mkdir -p $part
    n=$((n + 1))
    sed "s/\<N\>/$n/" unit.c > $part/unit$n.c
done
"""


def built_by(image: str) -> str:
    """The command that builds an image."""
    return (
        f"loiter image build {image} --kind debian --kernel small-kernel --fragments {','.join(FRAGMENTS[image])} "
        f"--packages {','.join(PACKAGES)}"
    )


def says(units: int) -> str:
    """What the program says that consists of so many units."""
    total = sum(k * k % 9973 for n in range(1, units + 1) for k in range(n))
    return f"{units} units, {total}"


def choice(name: str, value: str | int) -> str:
    """A line that writes a parameter of the kernel."""
    return f"echo {value} > /sys/module/loiter_yield/parameters/{name}"


def choices(lock: str, after_ns: int, looks: int) -> list[str]:
    """Lines that choose the kernel's spin locks, and when their waiters yield or sleep. Queued locks are chosen by the
    kernel and its command line; the line fails if they are others."""
    chosen: dict[str, str | int] = {"lock": lock, "after_ns": after_ns, "looks": looks}
    return [choice(name, value) for name, value in chosen.items() if value]


def command(units: int, jobs: int, chosen: list[str]) -> str:
    """What the guest runs: it chooses, builds, and runs what it built."""
    texts = (("unit.c", _UNIT), ("main.c", _MAIN), ("Makefile", _MAKEFILE), ("directory.make", _DIRECTORY))
    lines = [
        "set -e",
        *chosen,
        "mount -t tmpfs tmpfs /mnt",
        "cd /mnt",
        "export TMPDIR=/mnt",
        *(f"cat > {name} <<'EOF'{text}EOF" for name, text in texts),
        f"units={units}{_SOURCES}make --silent --jobs={jobs}",
        f"test \"$(./program)\" = '{says(units)}'",
        "echo checked",
        "",
    ]
    return "\n".join(lines)


def recipe(image: str = IMAGE) -> Recipe:
    """Of an image."""
    return Recipe("debian", packages=PACKAGES, kernel="small-kernel", fragments=FRAGMENTS[image])


def is_there(image: str = IMAGE) -> bool:
    """Whether an image is built, as it would be today."""
    found = cache.lookup(image)
    return found is not None and found.key == recipe(image).key()


@functools.cache
def ensure(image: str = IMAGE) -> None:
    """Builds an image where it is missing."""
    images.build(image, recipe(image), Console(stderr=True))
