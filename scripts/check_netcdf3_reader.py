#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NetCDF-3 files that netCDF4 writes, one by one and joined, are read equal; references that stoker writes to them and to NetCDF-4
files are read equal by fsspec and zarr-python.

    check_netcdf3_reader.py STOKER
"""
import io
import json
import subprocess
import sys
import tempfile

try:
    import fsspec
    import netCDF4
    import numpy as np
    import zarr
    from zarr.storage import FsspecStore
except ImportError as e:
    print(f"check_netcdf3_reader: skipped: no module {e.name}")
    sys.exit(77)

STOKER = sys.argv[1]
CLASSIC = ["i1", "i2", "i4", "f4", "f8"]
WIDE = ["u1", "u2", "u4", "i8", "u8"]
random = np.random.default_rng(7)
failures = []


def run(*words):
    return subprocess.run([STOKER, *words], capture_output=True, check=False)


def check(url, wanted):
    """What stoker reads is what was written."""
    done = run("cat", url, "--dump", "npy")
    if done.returncode:
        failures.append(f"{url}: {done.stderr.decode(errors='replace').strip()}")
    elif not np.array_equal(np.load(io.BytesIO(done.stdout)), wanted):
        failures.append(f"{url}: the values differ")


def values(dtype, shape):
    return random.integers(0, 100, shape).astype(dtype)


def write(path, kind, types, steps, size):
    """A file of a record variable and a fixed one of each type; {name: values}."""
    wanted = {}
    with netCDF4.Dataset(path, "w", format=kind) as f:
        f.createDimension("time", None)
        for name, n in zip("yx", size):
            f.createDimension(name, n)
        for t in types:
            packed = {"zlib": True, "shuffle": True, "chunksizes": (2, 5, 7)} if kind == "NETCDF4" else {}
            v = f.createVariable("r_" + t, t, ("time", "y", "x"), **packed)
            wanted["r_" + t] = values(t, (steps, *size))
            if steps:
                v[:] = wanted["r_" + t]
            wanted["f_" + t] = values(t, size)
            f.createVariable("f_" + t, t, ("y", "x"))[:] = wanted["f_" + t]
    return wanted


def references(path, wanted):
    """As fsspec and zarr-python follow them."""
    target = path[:-3] + ".json"
    done = run("convert", path, target)
    if done.returncode:
        failures.append(f"{target}: {done.stderr.decode(errors='replace').strip()}")
        return
    with open(target, encoding="utf-8") as f:
        document = json.load(f)
    for value in document["refs"].values():
        if isinstance(value, list):
            value[0] = path
    files = fsspec.filesystem("reference", fo=document, remote_protocol="file", asynchronous=True)
    group = zarr.open_group(FsspecStore(files), mode="r", zarr_format=2)
    for name, array in wanted.items():
        if not np.array_equal(np.asarray(group[name][...]), array):
            failures.append(f"{target}: {name} differs for zarr-python")
        check(f"{target}/{name}", array)


def main():
    with tempfile.TemporaryDirectory() as folder:
        for kind in "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA", "NETCDF4":
            types = CLASSIC + (WIDE if kind in ("NETCDF3_64BIT_DATA", "NETCDF4") else [])
            for count in 1, len(types):
                size = (int(random.integers(1, 40)), int(random.integers(1, 900)))
                parts = []
                for i in range(4):
                    path = f"{folder}/{kind}_{count}_{i}.nc"
                    parts.append(write(path, kind, types[:count], int(random.integers(0 if i else 1, 6)), size))
                    for name, wanted in parts[-1].items() if i == 0 else ():
                        check(f"{path}/{name}", wanted)
                for name in parts[0]:
                    check(f"{folder}/{kind}_{count}_*.nc/{name}?concat={'time' if name[0] == 'r' else 'x'}",
                          np.concatenate([p[name] for p in parts], axis=0 if name[0] == "r" else 1))
                references(f"{folder}/{kind}_{count}_0.nc", parts[0])
    for failure in failures:
        print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
