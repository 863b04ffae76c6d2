#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Layout as .clang-format has it, where clang-format 14 (Debian 12's) is installed: other versions differ in details.
#   lint_format.sh ROOT
set -euo pipefail
cd "$1"

for tool in clang-format-14 clang-format; do
    if command -v $tool >/dev/null && $tool --version | grep -q 'version 14\.'; then
        find src hdf5 include cli tests bench fuzz examples -name '*.[ch]' -not -path '*/corpus/*' -print0 |
            xargs -0 $tool --dry-run -Werror --ferror-limit=1 || {
            echo "lint: clang-format -i on the files above" >&2
            exit 1
        }
        echo "lint: the layout is that of .clang-format"
        exit 0
    fi
done
echo "lint: no clang-format 14 here, layout not checked"
