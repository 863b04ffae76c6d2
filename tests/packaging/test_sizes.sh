#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A program that was compiled with the headers of an earlier or a later version runs with this library:
#   test_sizes.sh SOURCE_FOLDER LIBRARY PYTHON
set -euo pipefail
source=$1
library=$2
python=$3
here=$source/tests/packaging

work=$(mktemp -d "${TMPDIR:-/tmp}/stoker-sizes-XXXXXX")
trap 'rm -rf "$work"' EXIT
cp -r "$source/include" "$work/same"
for how in shorter longer; do "$python" "$here/other_version.py" "$source/include" "$work/$how" "$how"; done
for how in same shorter longer; do
    mkdir "$work/$how-files"
    "${CC:-cc}" -std=c11 -D_DEFAULT_SOURCE -Wall -Wextra -Werror -O1 -I "$work/$how" -o "$work/$how-program" \
        "$here/sizes.c" "$here/sizes_drivers.c" "$here/sizes_predictions.c" "$library" -Wl,-rpath,"$(dirname "$library")" -lm
    code=0
    "$work/$how-program" "$work/$how-files" || code=$?
    [ $code -eq 0 ] || {
        echo "sizes: with $how structs: exit code $code (139: a byte beyond the caller's struct)"
        exit 1
    }
done
