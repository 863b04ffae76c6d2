# SPDX-License-Identifier: Apache-2.0
"""A NetCDF-4 variable of chunks 16x64x64 -> Zarr v2 of other chunks, on this machine: one JSON line.

What the imports take is not in the time, but in the memory, as they stay. Chunks are read as they are stored, and encoded
by blosc with lz4 and shuffle, the default of Zarr 2; threads as many as cores.
"""
import os
import resource
import shutil
import tempfile
import time

import dask
import numcodecs
import xarray
from common import WORK, arguments, cpu_seconds, report, version

DIMENSIONS = ("time", "y", "x")
STORED = dict(zip(DIMENSIONS, (16, 64, 64)))


def by_rechunker(path, chunks, memory, folder):
    import rechunker
    import zarr
    source = xarray.open_dataset(path, chunks=STORED)[["v"]]
    options = {"v": {"compressor": numcodecs.Blosc("lz4", 5, numcodecs.Blosc.SHUFFLE)}}
    plan = rechunker.rechunk(source, {"v": chunks}, memory, f"{folder}/out.zarr", temp_store=f"{folder}/temp.zarr",
                             target_options=options)
    plan.execute()
    zarr.consolidate_metadata(f"{folder}/out.zarr")


def by_xarray(path, chunks, _, folder):
    encoding = {"v": {"chunks": tuple(chunks.values()),
                      "compressors": [numcodecs.Blosc("lz4", 5, numcodecs.Blosc.SHUFFLE)]}}
    source = xarray.open_dataset(path, chunks=STORED)[["v"]].chunk(chunks)
    source.to_zarr(f"{folder}/out.zarr", mode="w", zarr_format=2, consolidated=True, encoding=encoding)


WAYS = {"rechunker": by_rechunker, "xarray-dask": by_xarray}

if __name__ == "__main__":
    a = arguments(WAYS, chunks="1024x16x16", memory="256MB", keep="")
    chunks = dict(zip(DIMENSIONS, map(int, a.chunks.split("x"))))
    path = WORK / "netcdf/field.nc"
    folder = tempfile.mkdtemp(prefix="rechunk-", dir=os.environ.get("TMPDIR", path.parent))
    try:
        with dask.config.set(scheduler="threads", num_workers=len(os.sched_getaffinity(0))):
            cpu, began = cpu_seconds(), time.perf_counter()
            WAYS[a.peer](path, chunks, a.memory, folder)
            took, cpu = time.perf_counter() - began, cpu_seconds() - cpu
        if a.keep:
            shutil.move(f"{folder}/out.zarr", a.keep)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    megabytes = 1024 * 256 * 256 * 4 / 1e6
    packages = ("rechunker", "zarr") if a.peer == "rechunker" else ("xarray", "dask", "zarr")
    report("rechunk", a.peer, version(*packages), {"chunks": a.chunks, "memory": a.memory},
           {"samples_per_s": round(megabytes / took, 2), "cpu_s_per_1000": round(cpu / megabytes * 1000, 4),
            "wall_s": round(took, 3), "peak_rss_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
            "n_samples": round(megabytes)})
