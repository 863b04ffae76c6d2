#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Datasets that h5py and netCDF4 write, drawn at random, are read equal: all of each, and random windows of it.

    check_hdf5_reader.py STOKER [SEED]      needs: h5py, netCDF4, numpy; 77: they are not there
"""
import io
import itertools
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import h5py
    import netCDF4
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

STOKER = sys.argv[1]
random = np.random.default_rng(int(sys.argv[2]) if len(sys.argv) > 2 else 11)
TYPES = ["i1", "u1", "<i2", ">u2", "<i4", ">i4", "<u8", ">i8", "<f2", "<f4", ">f4", "<f8", ">f8", "S3"]
FILTERS = [{}, {"compression": "gzip"}, {"compression": "gzip", "shuffle": True}, {"shuffle": True, "fletcher32": True},
           {"compression": "gzip", "shuffle": True, "fletcher32": True}]
VERSIONS = [("earliest", "latest"), ("v108", "v108"), ("v110", "v110"), ("latest", "latest")]
failures = []


def draw(dtype, shape):
    if dtype == "S3":
        return np.array([b"abc"[:n] for n in random.integers(0, 4, int(np.prod(shape)))], "S3").reshape(shape)
    return random.integers(0, 120, shape).astype(dtype)


def check(path, name, wanted):
    """A random part of it; every fourth time all."""
    cut, text = (), []
    if wanted.ndim and random.integers(4):
        for n in wanted.shape:
            start, step = int(random.integers(n + 1)), int(random.integers(1, 4))
            stop = int(random.integers(start, n + 1))
            cut += (slice(start, stop, step),)
            text.append(f"{start}:{stop}:{step}")
    command = [STOKER, "cat", f"{path}/{name}", "--dump", "npy"] + (["--slice", ",".join(text)] if text else [])
    run = subprocess.run(command, capture_output=True, check=False)
    what = f"{Path(path).name}/{name} [{','.join(text)}]"
    if run.returncode:
        failures.append(f"{what}: {run.stderr.decode().strip()}")
        return
    got, part = np.load(io.BytesIO(run.stdout)), wanted[cut]
    if got.shape != part.shape or got.dtype.newbyteorder("=") != part.dtype.newbyteorder("=") or not np.array_equal(got, part):
        failures.append(f"{what}: {got.dtype} {got.shape} differs from {part.dtype} {part.shape}")


def layout(rank):
    shape = tuple(int(n) for n in random.integers(1, 14, rank))
    chunk = tuple(int(random.integers(1, n + 1)) for n in shape)
    most = tuple(int(n) if k == 0 else None if k == 1 else int(n) + 9 for n, k in zip(shape, random.integers(0, 3, rank)))
    return shape, chunk, most


def hdf5(folder):
    for number, version in enumerate(VERSIONS):
        path, wanted = f"{folder}/v{number}.h5", {}
        with h5py.File(path, "w", libver=version, userblock_size=512 * (number % 2)) as f:
            for i, (dtype, filters) in enumerate(itertools.product(TYPES, FILTERS)):
                if i % len(VERSIONS) != number and random.integers(3):
                    continue
                shape, chunk, most = layout(int(random.integers(1, 5)))
                name = f"g{i % 3}/d{i}"
                d = f.create_dataset(name, shape=shape, dtype=dtype, chunks=chunk, maxshape=most, **filters)
                filled = tuple(slice(0, int(random.integers(n + 1))) for n in shape)
                d[filled] = draw(dtype, d[filled].shape)
                if random.integers(4) == 0 and None in most:
                    d.resize(tuple(n + (5 if m is None else 0) for n, m in zip(shape, most)))
                wanted[name] = d[()]
            if number == 3:  # data blocks in pages
                d = f.create_dataset("paged", data=draw("u1", (280000,)), chunks=(2,), maxshape=(None,))
                wanted["paged"] = d[()]
        for name, values in wanted.items():
            check(path, name, values)


def netcdf(folder):
    path = f"{folder}/n.nc"
    with netCDF4.Dataset(path, "w") as f:
        f.createDimension("t", None)
        f.createDimension("y", 12)
        f.createDimension("x", 17)
        for i, dtype in enumerate(["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]):
            v = f.createVariable(f"v{i}", dtype, ("t", "y", "x"), zlib=i % 2 == 0, shuffle=i % 3 == 0, fletcher32=i % 4 == 0,
                                 chunksizes=(3, 5, 6))
            v[:2 * i + 1] = draw(dtype, (2 * i + 1, 12, 17))
    with netCDF4.Dataset(path) as f:
        for name, v in f.variables.items():
            v.set_auto_maskandscale(False)
            check(path, name, np.asarray(v[...]))


with tempfile.TemporaryDirectory() as temporary:
    hdf5(temporary)
    netcdf(temporary)
for failure in failures:
    print(failure)
sys.exit(1 if failures else 0)
