#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run the transcripts *.test of this folder with a built command and compare what it says with what they say.
#
#   tests/cli/run.sh [--update] BINARY [FILE.test...]
#
# A transcript has lines "$ COMMAND", each followed by the output (both streams) and a line "-> CODE". A command runs in
# a fresh folder for each file, with `stoker` in the PATH and this folder's parent as $TESTS. --update writes what was said into the files.
set -u

update=no
if [ "${1-}" = --update ]; then
    update=yes
    shift
fi
if [ $# -lt 1 ] || [ ! -x "$1" ]; then
    echo "usage: $0 [--update] BINARY [FILE.test...]" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
binary=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
shift
[ $# -gt 0 ] || set -- "$here"/*.test

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$binary" "$work/bin/stoker"
PATH=$work/bin:$PATH
TERM=dumb
LC_ALL=C
TESTS=$(dirname "$here")
unset NO_COLOR
export PATH TERM LC_ALL TESTS

failed=0
for file in "$@"; do
    name=$(basename "$file" .test)
    mkdir "$work/$name"
    # Comments are kept; everything else is made anew.
    while IFS= read -r line; do
        case $line in
        '# '*) printf '%s\n' "$line" ;;
        '$ '*)
            printf '%s\n' "$line"
            (cd "$work/$name" && sh -c "${line#??}" </dev/null 2>&1)
            printf -- '-> %d\n' $?
            ;;
        esac
    done <"$file" >"$work/$name.out"
    if [ $update = yes ]; then
        cp "$work/$name.out" "$file"
    elif diff -u "$file" "$work/$name.out"; then
        echo "ok: $name"
    else
        echo "FAILED: $name"
        failed=1
    fi
done
exit $failed
