#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes docs/options.md from the option tables of the library, as the command shows them; or says whether it is them.
#   docs_options.sh ROOT STOKER [--check]
set -euo pipefail
root=$1
stoker=$2

page() {
    echo '# Options'
    echo
    echo 'Written by `./dev docs` from the option tables of the library; `stoker help options` prints the same, and'
    echo '`stoker COMMAND --help` those of a command. In YAML an option is below the name of its table; in C it is the member'
    echo 'of the same name, set by a text with `stk_options_set(stk_option_table_find("loader"), ...)`. The tables `recipe` and'
    echo '`recipe.NAME` are the sections of a training. What datasets, transforms, layers, callbacks and loggers take is told'
    echo 'by `stoker info`.'
    echo
    echo '```'
    "$stoker" help options
    echo '```'
}

if [ "${3:-}" = --check ]; then
    page | diff "$root/docs/options.md" - || { echo 'docs/options.md is old: run ./dev docs' >&2; exit 1; }
else
    page >"$root/docs/options.md.part"
    mv "$root/docs/options.md.part" "$root/docs/options.md"
fi
