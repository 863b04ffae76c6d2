#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Pages of `stoker report`, or of a run, in headless Chromium: tests/cli/page.sh report|live STOKER ROOT
set -eu

for program in python3 chromium; do
    if ! command -v "$program" >/dev/null; then
        echo "skipped: $program is not installed"
        exit 77
    fi
done
[ "$1" != live ] || exec python3 "$3/scripts/check_live.py" "$2"
logs=$3/tests/golden/report
exec python3 "$3/scripts/check_report.py" "$2" "$logs/baseline.log" "$logs/workers.log" "$logs/ledger.log" "$logs/ladder.log" \
    --compare "$logs/baseline.log" "$logs/many.log" --trainings
