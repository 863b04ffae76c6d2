#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Read arrays back with zarr-python, tensorstore and xarray and compare them with their values.

    python3 scripts/check_array_writer.py FOLDER

FOLDER is a consolidated group of Zarr v3. For each array NAME in it there is a file NAME.raw with its values in C order and
little endian. Exit code 1, and a line for each, where something differs. Needs zarr >= 3, tensorstore, xarray.
"""
import sys
from pathlib import Path

import numpy as np
import tensorstore as ts
import xarray as xr
import zarr

problems = []


def same(name, how, found, expected):
    found = np.asarray(found)
    if found.shape != expected.shape or found.dtype.itemsize != expected.dtype.itemsize:
        problems.append(f"{name}: {how} gives {found.dtype} {found.shape} for {expected.dtype} {expected.shape}")
    elif np.ascontiguousarray(found).tobytes() != expected.tobytes():
        problems.append(f"{name}: {how} reads other values")


def main():
    folder = Path(sys.argv[1])
    group = zarr.open_group(str(folder), mode="r", use_consolidated=True)
    names = [name for name, _ in group.members(max_depth=None) if (folder / f"{name}.raw").exists()]
    for name in names:
        array = group[name]
        expected = np.frombuffer((folder / f"{name}.raw").read_bytes(), array.dtype).reshape(array.shape)
        same(name, "zarr-python", array[...], expected)
        if array.dtype.kind in "mM":
            continue
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{folder / name}/"}}
        same(name, "tensorstore", ts.open(spec, open=True, read=True).result().read().result(), expected)
    data = xr.open_zarr(str(folder), consolidated=True, decode_cf=False, mask_and_scale=False, chunks=None)
    for name in data.variables:
        expected = np.frombuffer((folder / f"{name}.raw").read_bytes(), data[name].dtype).reshape(data[name].shape)
        same(name, "xarray", data[name].values, expected)
    for problem in problems:
        print(problem)
    print(f"{len(names)} arrays, {len(data.variables)} variables, dimensions {sorted(map(str, data.dims))}, {dict(data.attrs)}")
    return 1 if problems or not names else 0


if __name__ == "__main__":
    sys.exit(main())
