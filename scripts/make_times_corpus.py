#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The corpus of fuzz/fuzz_times.c:  make_times_corpus.py ROOT/fuzz/corpus/times

Selections, units and calendars as they are in the wild, and what is wrong with some.
"""
import struct
import sys
from pathlib import Path

HOURS = "hours since 1900-01-01 00:00:0.0"
STEPS = [0, 6, 12, 18, 24, 30, 36, 42]
CASES = [
    ("time=1900-01-01:1900-01-02", HOURS, "standard", STEPS),
    ("time=1900-01-01T06:1900-01-01T12:30", HOURS, "proleptic_gregorian", STEPS),
    ("time=1900, x=1", HOURS, "gregorian", STEPS),
    ("0=:1900-01-01 12:00:00.5", "minutes since 1899-12-31 18:00 -6:00", "noleap", STEPS),
    ("time=2000-02-30:", "days since 2000-02-29T00:00:00Z", "360_day", STEPS[::-1]),
    ("time=1582-10-04:1582-10-15", "days since 1582-10-01", "standard", STEPS),
    ("time=1500-02-29", "days since 1-1-1", "julian", [547588, 547589, 547590, 547591, 547592, 547593, 547594, 547595]),
    ("time=2100-02-29", "ms since 2100-02-29 12", "all_leap", STEPS),
    ("time=6:30", "", "", STEPS),
    ("time=12", "K", "", STEPS),
    ("time=12", "m", "", [1, 2, 2, 1, 0, 0, 0, 0]),
    ("time=2000", "years since 2000-01-01", "standard", STEPS),
    ("time=2000", "seconds since 2000-01-01", "standard", [-2**63, -2**63 + 1, -1, 0, 1, 2, 2**63 - 2, 2**63 - 1]),
    ("time=250000:", "days since 249999-12-31", "proleptic_gregorian", [0, 1, 2, 10**9, 10**10, 10**12, 10**15, 10**18]),
    ("time=-0044-03-15", "ns since -44-3-15 +0530", "julian", STEPS),
    ("time=2016:2015", HOURS, "none", STEPS),
]

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for number, (*texts, values) in enumerate(CASES):
    parts = b"".join(struct.pack("<H", len(text)) + text.encode() for text in texts)
    (folder / f"{number:02}").write_bytes(parts + struct.pack("<8q", *values))
