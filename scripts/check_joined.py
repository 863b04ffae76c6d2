#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files that xarray writes, each with times in units of its own, are joined as xarray joins them.

    check_joined.py STOKER

Years and months in several calendars, packed in one chunk a file or not: values, dates and selections against xarray, and the group
converted to Zarr against what xarray concatenates. Exit code 1, and a line for each, where something differs; 77 where a package
is missing.
"""
import io
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

try:
    import cftime  # noqa: F401
    import netCDF4  # noqa: F401
    import numpy as np
    import xarray as xr
    import zarr  # noqa: F401
except ImportError as e:
    print(f"check_joined: skipped: no module {e.name}")
    sys.exit(77)

warnings.simplefilter("ignore")
STOKER = sys.argv[1]
random = np.random.default_rng(15)
CODER = xr.coders.CFDatetimeCoder(use_cftime=True)
failures = []


def run(*words):
    return subprocess.run([STOKER, *map(str, words)], capture_output=True, check=False)


def check(what, got, wanted):
    if got != wanted:
        failures.append(f"{what}: {got} instead of {wanted}")


def write(folder, calendar, starts, freq, packed):
    """A file from each start to the next; what xarray makes of them."""
    parts = []
    for i, (begin, end) in enumerate(zip(starts, starts[1:])):
        times = xr.date_range(begin, end, freq=freq, calendar=calendar, use_cftime=True, inclusive="left")
        data = xr.Dataset({"t2m": (("time", "y", "x"), random.normal(size=(times.size, 3, 4)).astype("f4")),
                           "mask": (("y", "x"), np.arange(12, dtype="i2").reshape(3, 4))},
                          coords={"time": times, "y": [1.0, 2.0, 3.0]}, attrs={"title": "of a test"})
        encoding = {"t2m": {"zlib": True, "shuffle": True, "chunksizes": (times.size, 3, 4)}} if packed else {}
        data.to_netcdf(folder / f"f{i}.nc", engine="netcdf4", encoding=encoding)
        parts.append(xr.load_dataset(folder / f"f{i}.nc", engine="netcdf4", decode_times=CODER))
    return xr.concat(parts, "time", data_vars="minimal")


def dates(times):
    return [t.strftime("%Y-%m-%dT%H:%M:%S") for t in times.values]


def compare(folder, joined):
    def at(name):
        return f"{folder}/f*.nc/{name}?concat=time"

    done = run("cat", at("t2m"), "--dump", "npy")
    if done.returncode:
        failures.append(f"{folder}: {done.stderr.decode().strip()}")
        return
    check(f"{folder}: t2m", np.array_equal(np.load(io.BytesIO(done.stdout)), joined.t2m.values), True)
    check(f"{folder}: dates", run("cat", at("time"), "--dump", "dates").stdout.decode().split(), dates(joined.time))
    for _ in range(8):
        low, high = sorted(random.integers(0, joined.time.size, 2))
        ends = [date[:random.choice([7, 10, 13, 19])] for date in (dates(joined.time)[low], dates(joined.time)[high])]
        wanted = xr.DataArray(np.arange(joined.time.size), coords={"time": joined.time}).sel(time=slice(*ends)).values
        shown = run("info", f"array:{at('t2m')}&select=time={ends[0]}:{ends[1]}")
        found = re.search(r"dimension time: .* from (\d+) to (\d+);", shown.stdout.decode())
        check(f"{folder}: {ends}", found and (int(found[1]), int(found[2])) or shown.stderr.decode(), (wanted[0], wanted[-1] + 1))
    target = folder / "all.zarr"
    done = run("convert", f"{folder}/f*.nc?concat=time", target)
    if done.returncode:
        failures.append(f"{folder}: {done.stderr.decode().strip()}")
        return
    try:
        xr.testing.assert_identical(xr.open_zarr(target, decode_times=CODER).load(), joined)
    except AssertionError as e:
        failures.append(f"{folder}: {e}")


def main():
    cases = [("standard", [f"{y}-01-01" for y in range(1999, 2003)], "D", False),
             ("proleptic_gregorian", [f"2000-{m:02}-01" for m in range(1, 7)], "6h", True),
             ("noleap", [f"{y}-01-01" for y in range(2000, 2004)], "D", True),
             ("360_day", [f"2001-{m:02}-01" for m in range(1, 5)], "h", False)]
    with tempfile.TemporaryDirectory() as name:
        for calendar, starts, freq, packed in cases:
            folder = Path(name) / calendar
            folder.mkdir()
            compare(folder, write(folder, calendar, starts, freq, packed))
    for line in failures:
        print(line)
    sys.exit(bool(failures))


main()
