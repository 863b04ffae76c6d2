#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times of the CF conventions as cftime reads them, and windows selected by value as xarray selects.

    python3 scripts/check_selection.py STOKER [SEED]

Random numbers with random units in all calendars, written by zarr-python, against `stoker cat --dump dates`; random ranges
of times and of numbers, up and down, against xarray's sel() with slices. Exit code 1, and a line for each, where something
differs; 77 where a package is missing.
"""
import random
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

try:
    import cftime
    import numpy as np
    import xarray as xr
    import zarr
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

warnings.simplefilter("ignore")
rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 15)
STOKER = sys.argv[1]
CALENDARS = ["standard", "proleptic_gregorian", "julian", "noleap", "all_leap", "360_day"]
UNITS = {"days": 1, "hours": 24, "minutes": 1440, "seconds": 86400, "milliseconds": 86400000, "microseconds": 86400000000}
failed = 0


def complain(*what):
    global failed
    failed += 1
    print(*what)


def write(path, data, **attributes):
    array = zarr.create_array(str(path), shape=data.shape, chunks=data.shape, dtype=data.dtype, zarr_format=2,
                              compressors=None, fill_value=None)
    array[...] = data
    array.attrs.update(attributes)


def text(date):
    base = f"{date.year:04}-{date.month:02}-{date.day:02}T{date.hour:02}:{date.minute:02}:{date.second:02}"
    return base + (f".{date.microsecond:06}" if date.microsecond else "")


def reference():
    return f"{rng.randint(1, 2400)}-{rng.randint(1, 12)}-{rng.randint(1, 28)} {rng.randint(0, 23)}:{rng.randint(0, 59)}:{rng.randint(0, 59)}"


def times(folder):
    for calendar in CALENDARS:
        for unit, per_day in UNITS.items():
            kind = "i8" if per_day > 1e10 else rng.choice(["i8", "f8"])
            units = f"{unit} since {reference()}"
            days = [rng.uniform(0, 600000) for _ in range(60)]
            # Eighths are exact; what is not, cftime rounds in more digits than a double has.
            data = np.array([int(d * per_day) if kind == "i8" else round(d * per_day * 8) / 8 for d in days], kind)
            path = folder / f"{calendar}-{unit}"
            write(path, data, units=units, calendar=calendar)
            dates = cftime.num2date(data, units, calendar, only_use_cftime_datetimes=True)
            read = subprocess.run([STOKER, "cat", path, "--dump", "dates"], capture_output=True, text=True).stdout.split()
            for number, date, line in zip(data, dates, read, strict=True):
                if date.year < 10000 and text(date) != line:
                    complain(calendar, units, repr(number), line, "instead of", text(date))


def taken(spec, dim):
    """The elements of a dimension that windows are cut from."""
    shown = subprocess.run([STOKER, "info", spec], capture_output=True, text=True)
    found = re.search(rf"dimension {dim}: .* from (\d+) to (\d+);", shown.stdout)
    return (int(found[1]), int(found[2])) if found else shown.stderr.strip()


def compare(spec, dim, coordinate, low, high):
    n = coordinate.size
    down = n > 1 and coordinate.values[0] > coordinate.values[-1]
    numbered = xr.DataArray(np.arange(n), coords={dim: coordinate}, dims=[dim])
    want = numbered.sel({dim: slice(high, low) if down else slice(low, high)}).values
    shown = [("" if end is None else str(end)) for end in (low, high)]
    got = taken(f"{spec}?select={dim}={shown[0]}:{shown[1]}", dim)
    if want.size == 0 and isinstance(got, str) and "nothing of" in got:
        return
    if want.size == 0 or got != (want[0], want[-1] + 1):
        complain(spec, dim, shown, got, "instead of", (want[0], want[-1] + 1) if want.size else "nothing")


def partial(date):
    """A date with some of its parts."""
    parts = text(date)[:19]
    return parts[:rng.choice([4, 7, 10, 13, 16, 19])]


def selections(folder):
    for number, calendar in enumerate(CALENDARS + ["proleptic_gregorian"]):
        path = folder / f"group{number}"
        n = rng.randint(50, 400)
        hours = np.cumsum([rng.choice([1, 6, 24, 700]) for _ in range(n)]).astype("i8")
        zarr.create_group(str(path), zarr_format=2)
        units = f"hours since {rng.randint(1600, 2100)}-{rng.randint(1, 12):02}-01"
        write(path / "time", hours, units=units, calendar=calendar, _ARRAY_DIMENSIONS=["time"])
        write(path / "lat", np.linspace(75, -60, 28).astype("f4"), _ARRAY_DIMENSIONS=["lat"])
        write(path / "lon", np.sort(np.array([rng.uniform(0, 360) for _ in range(30)])), _ARRAY_DIMENSIONS=["lon"])
        write(path / "v", np.zeros((n, 28, 30), "i1"), _ARRAY_DIMENSIONS=["time", "lat", "lon"])
        data = xr.open_zarr(str(path), consolidated=False, decode_times=xr.coders.CFDatetimeCoder(use_cftime=True))
        spec = f"array:{path}/v"
        for _ in range(5):
            first, last = sorted(rng.choices(cftime.num2date(hours, units, calendar), k=2))
            ends = [partial(first), partial(last)]
            if ends[0][:4] != "2016" and rng.random() < 0.2:
                ends[rng.randrange(2)] = None
            compare(spec, "time", data.time, *ends)
        for dim in ("lat", "lon"):
            for _ in range(2):
                low, high = sorted(rng.choices([float(x) for x in data[dim].values] + [rng.uniform(-70, 300)], k=2))
                compare(spec, dim, data[dim].astype("f8"), low, high)


def main():
    with tempfile.TemporaryDirectory() as folder:
        times(Path(folder))
        selections(Path(folder))
    sys.exit(failed > 0)


main()
