#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Pages of `stoker report` in headless Chromium: tests/cli/report_page.sh STOKER ROOT
set -eu

for program in python3 chromium; do
    if ! command -v "$program" >/dev/null; then
        echo "skipped: $program is not installed"
        exit 77
    fi
done
logs=$2/tests/golden/report
exec python3 "$2/scripts/check_report.py" "$1" "$logs/baseline.log" "$logs/workers.log" "$logs/ledger.log" "$logs/ladder.log" \
    --compare "$logs/baseline.log" "$logs/many.log" --trainings
