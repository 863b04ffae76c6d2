#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/golden/array/times.txt: numbers with units and calendars of the CF conventions, and the dates that cftime
(num2date) makes of them.

    python3 scripts/make_time_goldens.py > tests/golden/array/times.txt

A line has calendar, units, data type, number and date, with tabs between.
"""
import random

import cftime

rng = random.Random(15)
UNITS = [
    "days since 1850-01-01",
    "hours since 1900-01-01 00:00:0.0",
    "minutes since 1970-01-01T00:00:00Z",
    "seconds since 2000-02-28 12:30:15.25",
    "milliseconds since 1-1-1 0:0:0",
    "Days since 2000-1-1 06:00 -03:30",
    "hrs since 1979-01-01 00:00:00 UTC",
    "h since 1999-12-31 23:00 +01",
]
CALENDARS = ["standard", "gregorian", "proleptic_gregorian", "julian", "noleap", "365_day", "all_leap", "366_day", "360_day"]
# Numbers of days around what is special of a calendar: leap days, the ends of years and centuries, October 1582.
NEAR = [0, 1, -1, 58, 59, 60, 365, 366, 729, 730, 1460, 1461, -36525, -36524, 36523, 36524, 146096, 146097, -97583, -97582,
        -97581, -115860, -115859, -115858]
PER_DAY = {"days": 1, "hours": 24, "hrs": 24, "h": 24, "minutes": 1440, "seconds": 86400, "milliseconds": 86400000}


def text(date):
    base = f"{date.year:04}-{date.month:02}-{date.day:02}T{date.hour:02}:{date.minute:02}:{date.second:02}"
    return base + (f".{date.microsecond:06}" if date.microsecond else "")


def write(calendar, units, kind, number):
    shown = repr(number)
    try:
        date = cftime.num2date(number, units, calendar, only_use_cftime_datetimes=True)
    except (OverflowError, ValueError):
        return
    if 1 <= date.year <= 9999:
        print(calendar, units, kind, shown, text(date), sep="\t")


for calendar in CALENDARS:
    for units in UNITS:
        per_day = PER_DAY[units.split()[0].lower()]
        for days in rng.sample(NEAR, 8):
            write(calendar, units, "int64", days * per_day)
        for _ in range(3):
            write(calendar, units, "int64", rng.randrange(-40000, 90000) * per_day + rng.randrange(per_day + 1))
        for _ in range(2):
            # Quarters of a unit: no rounding in either.
            write(calendar, units, "float64", rng.randrange(-40000 * 4, 90000 * 4) * per_day / 4)
write("360_day", "months since 1901-01-16", "int64", 25)
