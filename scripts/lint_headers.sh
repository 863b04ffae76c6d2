#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every public header compiles alone, twice included, as C99 and as C++11.
#   lint_headers.sh ROOT
set -euo pipefail
root=$1
flags=(-fsyntax-only -pedantic -Wall -Wextra -Werror "-I$root/include")

count=0
for header in "$root"/include/stoker/*.h; do
    name=stoker/${header##*/}
    text=$(printf '#include <%s>\n#include <%s>\nextern int unused;\n' "$name" "$name")
    "${CC:-gcc}" -std=c99 "${flags[@]}" -x c - <<<"$text"
    "${CXX:-g++}" -std=c++11 "${flags[@]}" -x c++ - <<<"$text"
    count=$((count + 1))
done
echo "lint: $count public headers compile alone as C99 and C++11"
