#!/usr/bin/env bash
# Builds README.md's examples from an installed tree, by find_package, by pkg-config and by a plain -I, in C11 and C++17.
#
#   installed.sh DIRECTORY        where the tree and the builds go; CC, CXX and MAKE may name others
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
locks=$(dirname "$here")
out=$1
prefix=$out/prefix
flags=(-Wall -Wextra -Wpedantic -Werror)

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

rm -rf "$out"
mkdir -p "$out/examples" "$out/cxx"
"${MAKE:-make}" -s --no-print-directory -C "$locks" install PREFIX="$prefix" OUT="$out"
# No file of the source tree is used from here on but the program that calls the examples.
diff -r "$locks/include/loiter" "$prefix/include/loiter" || fail "the installed headers are not those of the source tree"

# Each block of C in README.md, as it stands there.
awk -v out="$out/examples/example" '/^```c$/ { n++; file = out n ".c"; next } /^```$/ { file = "" } file { print > file }' \
    "$locks/README.md"
examples=("$out"/examples/*.c)
[ "${#examples[@]}" -ge 4 ] || fail "README.md has ${#examples[@]} examples, expected four or more"
for example in "${examples[@]}"; do
    cp "$example" "$out/examples/$(basename "$example" .c).cpp"
done
cp "$here/installed/main.c" "$out/cxx/main.cpp"

# run PROGRAM: which may say what this machine lacks.
run() {
    "$1" > "$out/said" 2>&1 || fail "$1: $(cat "$out/said")"
}

# check WAY FLAG...: builds and runs both programs with these flags.
check() {
    local way=$1
    shift
    "${CC:-cc}" -std=c11 "${flags[@]}" "$@" -o "$out/$way" "$here/installed/main.c" "${examples[@]}"
    "${CXX:-c++}" -std=c++17 "${flags[@]}" "$@" -o "$out/$way-cxx" "$out/cxx/main.cpp" "$out"/examples/*.cpp
    run "$out/$way"
    run "$out/$way-cxx"
}

check plain -I "$prefix/include"

export PKG_CONFIG_PATH=$prefix/share/pkgconfig
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$locks/../Cargo.toml" | head -n 1)
[ "$(pkg-config --modversion loiter-locks)" = "$version" ] ||
    fail "loiter-locks has version $(pkg-config --modversion loiter-locks), loiter has $version: locks/CMakeLists.txt"
read -r -a cflags <<< "$(pkg-config --cflags loiter-locks)"
check pkg-config "${cflags[@]}"

cp "$out/cxx/main.cpp" "$out/examples/main.cpp"
cmake -S "$here/installed" -B "$out/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DEXAMPLES="$out/examples" > "$out/cmake.log" 2>&1 ||
    fail "find_package(loiter-locks) failed: $(cat "$out/cmake.log")"
cmake --build "$out/cmake" > "$out/cmake.log" 2>&1 || fail "the examples do not build by CMake: $(cat "$out/cmake.log")"
run "$out/cmake/program"
run "$out/cmake/program_in_cxx"
echo "${#examples[@]} examples built from an installed tree, by -I, pkg-config and CMake, in C11 and C++17"
