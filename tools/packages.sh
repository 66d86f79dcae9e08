#!/usr/bin/env bash
# Installs the system packages that loiter builds and tests with, where they are missing, and checks the toolchains.
#
#   tools/packages.sh build    C compiler, RISC-V cross compiler, Python's venv
#   tools/packages.sh images   these and what `loiter image build` works with
#   tools/packages.sh test     these, QEMU, a second C compiler, a browser for pages, what reads the guest's state and profiles, hwloc,
#                            programs that take mutexes, and libraries of locks
#
# PYTHON names the Python to use, CROSS the prefix of the cross compiler; PGO is set for a build that learns from runs. Looks
# first; a call with nothing to do is quick.
set -euo pipefail

PYTHON=${PYTHON:-python3}
CROSS=${CROSS:-riscv64-linux-gnu-}

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

case "${1:-}" in build | images | test) ;; *) fail "usage: $0 build|images|test" ;; esac

"$PYTHON" -c '' 2> /dev/null || fail "no working $PYTHON. Install Python 3.10 or newer, or name one: make PYTHON=python3.12 ..."
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    fail "$("$PYTHON" --version 2>&1) is too old; loiter needs 3.10 or newer. Name another: make PYTHON=python3.12 ..."

command -v cargo > /dev/null || fail "no cargo. Install a Rust toolchain (rustup does it) and run this again."
wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml")
found=$(cargo --version | sed 's/^cargo \([0-9.]*\).*/\1/')
[ "$(printf '%s\n%s\n' "$wanted" "$found" | sort -V | head -n 1)" = "$wanted" ] ||
    fail "Rust $found is too old; loiter needs $wanted or newer (rustup update)."

missing=()
# Where administrators' tools are, which is not in everybody's PATH.
PATH=$PATH:/usr/sbin:/sbin
need() { # need COMMAND PACKAGE
    command -v "$1" > /dev/null || missing+=("$2")
}
need cc build-essential
need "${CROSS}gcc" gcc-riscv64-linux-gnu
"$PYTHON" -c 'import ensurepip, venv' 2> /dev/null || missing+=(python3-venv)
# The launcher of commands speaks to the kernel, whose headers the compiler only recommends.
{ command -v "${CROSS}gcc" && echo '#include <asm/ptrace.h>' | "${CROSS}gcc" -E -; } > /dev/null 2>&1 ||
    missing+=(linux-libc-dev-riscv64-cross)
# It knows ELF from the C library's headers, as do programs for Linux, which are linked with it.
{ command -v "${CROSS}gcc" && echo '#include <elf.h>' | "${CROSS}gcc" -E -; } > /dev/null 2>&1 ||
    missing+=(libc6-dev-riscv64-cross)
if [ -n "${PGO:-}" ]; then
    llvm=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
    [ -x "/usr/lib/llvm-$llvm/bin/llvm-profdata" ] || missing+=("llvm-$llvm")
fi
if [ "$1" != build ]; then
    need cpio cpio
    need depmod kmod
    need fakeroot fakeroot
    need mke2fs e2fsprogs
    need patch patch
    need xz xz-utils
    need bc bc
    need bison bison
    need flex flex
    ls /usr/share/keyrings/debian-archive-keyring.* > /dev/null 2>&1 || missing+=(debian-archive-keyring)
fi
if [ "$1" = test ]; then
    need qemu-system-riscv64 qemu-system-misc
    need gdb-multiarch gdb-multiarch
    need callgrind_annotate valgrind
    need clang clang
    need cmake cmake
    need pkg-config pkgconf
    need chromium chromium
    need lstopo-no-graphics hwloc-nox
    need pigz pigz
    need stress-ng stress-ng
    # Locks of other libraries, which ours are measured beside.
    header() { # header FILE PACKAGE
        echo "#include <$1>" | cc -E - > /dev/null 2>&1 || missing+=("$2")
    }
    header ck_spinlock.h libck-dev
    header nsync_mu.h libnsync-dev
    [ -e /usr/include/absl/synchronization/mutex.h ] || missing+=(libabsl-dev)
fi
[ ${#missing[@]} -gt 0 ] || exit 0

command -v apt-get > /dev/null || fail "missing, by their Debian names: ${missing[*]}. This system has no apt-get: install
    them with its own package manager and run this again. The cross compiler may have another prefix: make CROSS=riscv64-elf- ..."
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo > /dev/null ||
        fail "missing packages, and neither root nor sudo to install them. Ask an administrator for: apt-get install ${missing[*]}"
    as_root=(sudo)
fi
echo "==> installing ${missing[*]} (apt-get)"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
