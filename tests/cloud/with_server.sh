#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# with_server.sh [ARGUMENTS OF cloud_server] -- COMMAND: run a shell command with $URL, the address of the web server of the tests, and
# $SERVER, its process id, by which it is stopped afterwards. Its program is $CLOUD_SERVER, or beside the `stoker` in PATH.
set -eu

program=${CLOUD_SERVER:-$(dirname "$(readlink -f "$(command -v stoker)")")/tests/cloud_server}
fifo=$(mktemp -u)
mkfifo "$fifo"
trap 'rm -f "$fifo"' EXIT
for argument; do
    shift
    [ "$argument" != -- ] || break
    set -- "$@" "$argument"
done
# What is left in front is the command, what was put behind it the server's arguments.
command=$1
shift
"$program" "$@" >"$fifo" &
SERVER=$!
URL=
read -r URL <"$fifo" || { wait $SERVER; exit; }
export URL SERVER
status=0
sh -c "$command" || status=$?
kill $SERVER
wait $SERVER
exit $status
