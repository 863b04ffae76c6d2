# SPDX-License-Identifier: Apache-2.0
"""HDF5's own library, as its users have it: one JSON line.

  --peer h5py, netcdf4     a whole variable into memory that is there, again and again; MB/s
  --peer chunk_iter        a file is opened and every chunk of a dataset told, as h5py does it; ms
  --peer prepare           make the files of many chunks that the workload `index` reads
"""
import os
import statistics
import time
import zlib

import numpy as np
from common import WORK, arguments, cpu_seconds, forever, measure, report, version

FIELD = str(WORK / "netcdf/field.nc")
MANY = {kind: WORK / f"netcdf/many-{kind}.h5" for kind in ("earliest", "latest")}
CHUNKS, SIDE = 100_000, 16


def megabytes(read, out):
    """Reads of everything as samples of 10^6 bytes."""
    def one():
        read(out)
        yield out.nbytes / 1e6

    return lambda: forever(one)


def read_all(a):
    if a.peer == "h5py":
        import h5py
        v = h5py.File(FIELD)["v"]
        read, package = v.read_direct, "h5py"
    else:
        import netCDF4
        v = netCDF4.Dataset(FIELD)["v"]
        v.set_auto_mask(False)
        read, package = (lambda out: v[:]), "netCDF4"
    out = np.empty(v.shape, v.dtype)
    result = measure(megabytes(read, out), float, a.seconds, warm=1)
    report("W7-netcdf-all", a.peer, version(package), {}, result)


def tell_chunks(a):
    import h5py
    took, cpu, began = [], cpu_seconds(), time.perf_counter()
    while not took or time.perf_counter() - began < a.seconds:
        start, found = time.perf_counter(), []
        with h5py.File(MANY[a.kind]) as f:
            f["v"].id.chunk_iter(found.append)
        took.append((time.perf_counter() - start) * 1000)
    cpu = (cpu_seconds() - cpu) * 1000 / len(took)
    report("hdf5-index", a.peer, version("h5py"), {"kind": a.kind, "chunks": len(found)},
           {"index_ms": round(statistics.median(took), 3), "cpu_ms": round(cpu, 3)})


def prepare():
    """Chunks of 16x16 float32, some of their bytes as a filter would have left them."""
    import h5py
    rng = np.random.default_rng(0)
    stored = []
    for _ in range(16):
        planes = np.round(rng.normal(280, 10, SIDE * SIDE)).astype("<f4").view("u1").reshape(-1, 4).T
        stored.append(zlib.compress(planes.tobytes(), 4))
    for kind, path in MANY.items():
        if path.exists():
            continue
        part = path.with_suffix(".part")
        with h5py.File(part, "w", libver=kind) as f:
            v = f.create_dataset("v", (CHUNKS, SIDE, SIDE), "<f4", chunks=(1, SIDE, SIDE), shuffle=True, compression=4)
            for i in range(CHUNKS):
                v.id.write_direct_chunk((i, 0, 0), stored[i % len(stored)])
        os.rename(part, path)


if __name__ == "__main__":
    a = arguments(["h5py", "netcdf4", "chunk_iter", "prepare"], kind="earliest")
    {"prepare": lambda a: prepare(), "chunk_iter": tell_chunks}.get(a.peer, read_all)(a)
