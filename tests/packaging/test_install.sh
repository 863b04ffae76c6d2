#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs into a folder, moves the folder, and builds and runs every example against it: with pkg-config (shared),
# and with find_package (shared and static); so the programs of docs/c.md.
#   test_install.sh SOURCE_FOLDER BUILD_FOLDER
set -euo pipefail
source=$1
build=$2

work=$(mktemp -d "${TMPDIR:-/tmp}/stoker install XXXXXX")
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/moved here"
prefix="$work/moved here"

PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name stoker.pc)")
export PKG_CONFIG_PATH
libdir=$(dirname "$PKG_CONFIG_PATH")
version=$(pkg-config --modversion stoker)
[ "$("$prefix/bin/stoker" --version | head -n 1 | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)" = "$version" ] || {
    echo "stoker --version and stoker.pc ($version) differ" >&2
    exit 1
}

# What shells and man look for, where they look.
for file in bash-completion/completions/stoker zsh/site-functions/_stoker fish/vendor_completions.d/stoker.fish \
    man/man1/stoker.1 man/man1/stoker-bench.1 man/man1/stoker-completion.1; do
    [ -s "$prefix/share/$file" ] || {
        echo "share/$file was not installed" >&2
        exit 1
    }
done
commands=$("$prefix/bin/stoker" --help | grep -cE '^  [a-z]+  ')
[ "$(find "$prefix/share/man/man1" -name 'stoker-*.1' | wc -l)" = "$commands" ]

# pkg-config escapes the spaces of a path for a shell: eval reads them back.
eval "flags=($(pkg-config --cflags --libs stoker))"
ran=0
for example in "$source"/examples/*.c; do
    name=$(basename "$example" .c)
    lines=$(wc -l <"$example")
    [ "$lines" -lt 80 ] || {
        echo "$name has $lines lines; 79 are the most" >&2
        exit 1
    }
    "${CC:-cc}" -std=c99 -Wall -Wextra -Wno-unused-parameter -Werror -pedantic "$example" "${flags[@]}" -lm -o "$work/$name"
    LD_LIBRARY_PATH=$libdir "$work/$name" >"$work/$name.out"
    [ -s "$work/$name.out" ]
    ran=$((ran + 1))
done
[ "$ran" -ge 3 ]

# The programs of docs/c.md say what the page shows, and its project builds.
guide="$work/guide"
mkdir "$guide" "$guide/project"
awk -v to="$guide" '
    /^```c$/ { getline; name = $2; out = to "/" name; on = 1; print >out; next }
    /^```cmake$/ { out = to "/project/CMakeLists.txt"; on = 1; next }
    /^```$/ { if (on) { on = 0; close(out) } else { out = to "/" name ".says"; on = 1; printf "" >out }; next }
    on { print >out }' "$source/docs/c.md"
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$source/docs/plugins.md" >"$guide/plugin"
"${CC:-cc}" -shared -fPIC -x c "$guide/plugin" "${flags[@]}" -o "$guide/acme.so"
shown=0
for program in "$guide"/*.c; do
    "${CC:-cc}" -std=c99 -Wall -Wextra -Werror -pedantic "$program" "${flags[@]}" -o "$program.run"
    (cd "$guide" && LD_LIBRARY_PATH=$libdir "$program.run" >"$program.out")
    diff "$program.says" "$program.out"
    shown=$((shown + 1))
done
[ "$shown" = "$(grep -c '^```c$' "$source/docs/c.md")" ] && [ "$shown" -ge 5 ]
cp "$guide/read.c" "$guide/project"
cmake -S "$guide/project" -B "$guide/project/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" >"$guide/cmake.log" &&
    ninja -C "$guide/project/build" >>"$guide/cmake.log" || { cat "$guide/cmake.log" >&2; exit 1; }
"$guide/project/build/read" | diff "$guide/read.c.says" -

mkdir "$work/project"
cat >"$work/project/CMakeLists.txt" <<TEXT
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C)
find_package(Stoker 0.1 REQUIRED COMPONENTS static)
file(GLOB examples "$source/examples/*.c")
foreach(example \${examples})
    get_filename_component(name \${example} NAME_WE)
    add_executable(\${name} \${example})
    target_link_libraries(\${name} PRIVATE stoker::stoker m)
    add_executable(\${name}_static \${example})
    target_link_libraries(\${name}_static PRIVATE stoker::stoker_static)
endforeach()
TEXT
cmake -S "$work/project" -B "$work/project/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" >"$work/cmake.log" ||
    { cat "$work/cmake.log" >&2; exit 1; }
ninja -C "$work/project/build" >"$work/ninja.log" || { cat "$work/ninja.log" >&2; exit 1; }
for example in "$source"/examples/*.c; do
    name=$(basename "$example" .c)
    for program in "$name" "${name}_static"; do
        "$work/project/build/$program" >"$work/$program.cmake.out"
        cmp "$work/$name.out" "$work/$program.cmake.out"
    done
done
echo "$shown programs of docs/c.md and $ran examples built and run with pkg-config, find_package, shared and static"
