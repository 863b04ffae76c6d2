#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes docs/options.md from the help of the command, which comes from the option tables.
#   docs_options.sh ROOT STOKER
set -euo pipefail
root=$1
stoker=$2

{
    echo '# Options of `stoker bench` and the loader'
    echo
    echo 'Written by `./dev docs` from the option tables; `stoker bench --help` prints the same. In YAML an option'
    echo 'stands below the name of its table; in C it is the member of the same name.'
    echo
    echo '```'
    "$stoker" bench --help | sed 's/[[:space:]]*$//'
    echo '```'
} >"$root/docs/options.md.part"
mv "$root/docs/options.md.part" "$root/docs/options.md"
