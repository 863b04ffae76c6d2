# SPDX-License-Identifier: Apache-2.0
"""The grid of a tuning: tune_grid.py LOG PAGE-OF-TUNE PAGE-OF-REPORT JSON-OF-REPORT

Says whether the log has it before the runs that check it and at the end, and whether both pages and the JSON have the log's numbers.
"""
import json
import re
import sys

log, *pages, report = sys.argv[1:]
events = [json.loads(line) for line in open(log)]
runs = [i for i, event in enumerate(events) if event["event"] == "run start"]
grid = [(i, event) for i, event in enumerate(events) if event["event"] == "grid setting"]
size = max(event["setting"] for _, event in grid) + 1
first, last = grid[:size], grid[size:]
print(len(grid) == 2 * size, runs[0] < first[0][0] < first[-1][0] < runs[1], runs[-1] < last[0][0])
last = [event for _, event in last]
print(sum(event["runs"] for _, event in first), sum(event["runs"] for event in last) == len(runs), sum(event["best"] for event in last))

tables = [re.findall(r"<table class=.heat.*?</table>", open(page).read(), re.S) for page in pages]
print(len(tables[0]), tables[0] == tables[1])
cells = re.findall(r"<td class=.(\w*).[^>]*>(<b>)?([\d.]+) %(?:</b>)?<br><small>(\d+)/s", "".join(tables[1]))
known = {(f"{100 * event['wait_share']:.1f}", f"{event['samples_per_s']:.0f}", event["runs"] > 0, event["best"]) for event in last if event["samples_per_s"]}
print(len(cells) > 3, all((wait, rate, bool(run), kind == "best") in known for kind, run, wait, rate in cells))

said = json.load(open(report))["grid"]
print([{key: event[key] for key in said[0] if key != "log"} for event in last] == [{key: of[key] for key in of if key != "log"} for of in said])
