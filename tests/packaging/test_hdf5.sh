#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Neither library nor command is linked with libhdf5; the program that is, is found where it is installed, also after a move.
#   test_hdf5.sh SOURCE_FOLDER BUILD_FOLDER
set -euo pipefail
source=$1
build=$2

needs() { readelf -Wd "$1" | grep -E 'NEEDED.*hdf5'; }
for binary in "$build/stoker" "$build/libstoker.so"; do
    if needs "$binary" || readelf -W --dyn-syms "$binary" | grep -E ' H5[A-Z]'; then
        echo "$binary is linked with libhdf5" >&2
        exit 1
    fi
done
needs "$build/stoker-hdf5" >/dev/null

work=$(mktemp -d "${TMPDIR:-/tmp}/stoker hdf5 XXXXXX")
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/moved here"
stoker="$work/moved here/bin/stoker"
program="$work/moved here/libexec/stoker/stoker-hdf5"
file="$source/tests/golden/array/libhdf5/kinds.h5/big?format=libhdf5"
[ "$("$stoker" cat "$file" | tr '\n' ' ')" = "0 1 2 3 " ]

# Without it all but this works, and the message says what is missing.
mv "$program" "$program.gone"
! "$stoker" cat "$file" >"$work/out" 2>&1
grep -q 'the program stoker-hdf5 is not where it was installed' "$work/out"

# One of another version is refused by its first word.
printf '#!/bin/sh\nprintf "\\020\\0\\0\\0\\004\\0\\0\\0\\011\\0\\0\\0" >&0\n' >"$program"
chmod +x "$program"
! "$stoker" cat "$file" >"$work/out" 2>&1
grep -q 'another version of Stoker' "$work/out"
