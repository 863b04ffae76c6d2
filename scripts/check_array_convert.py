#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Convert what xarray and zarr-python wrote and compare what they read of the result.

    python3 scripts/check_array_convert.py STOKER FOLDER

FOLDER is empty. Exit code 1, and a line for each, where something differs. Needs numpy, numcodecs, tensorstore, zarr >= 3, xarray.
"""
import subprocess
import sys
import warnings
from pathlib import Path

import numcodecs
import numpy as np
import tensorstore as ts
import xarray as xr
import zarr

warnings.simplefilter("ignore")
problems = []
stoker, folder = sys.argv[1], Path(sys.argv[2])
random = np.random.default_rng(7)


def convert(source, target, *options):
    done = subprocess.run([stoker, "convert", str(source), str(target), *options], capture_output=True, text=True)
    if done.returncode != 0:
        problems.append(f"{source} -> {target} {' '.join(options)}: {done.stderr.strip()}")
    return done.returncode == 0


def dataset():
    """Types, missing values, packed values, texts, scalars, times, coordinates that are no index."""
    t2m = random.standard_normal((40, 13, 17)).astype("f4")
    t2m[3, 4, 5] = np.nan
    lat, lon = np.linspace(-30, 30, 13), np.linspace(0, 20, 17)
    return xr.Dataset(
        {
            "t2m": (("time", "lat", "lon"), t2m, {"units": "K", "long_name": "2 metre temperature"}),
            "packed": (("time", "lat", "lon"), np.round(random.standard_normal((40, 13, 17)), 2)),
            "mask": (("lat", "lon"), random.integers(0, 2, (13, 17)).astype(bool)),
            "count": (("time",), random.integers(0, 2**62, 40)),
            "byte": (("lat",), random.integers(0, 255, 13).astype("u1")),
            "zeros": (("time", "lat"), np.zeros((40, 13), "i4")),
            "scalar": ((), np.float64(3.5)),
            "complex": (("lon",), random.standard_normal(17) + 1j),
            "half": (("lon",), random.standard_normal(17).astype("f2")),
            "name": (("lat",), np.array([f"a{i}" for i in range(13)], dtype="S4")),
        },
        coords={
            "time": np.arange("2015-01-01", "2015-02-10", dtype="datetime64[D]").astype("datetime64[ns]"),
            "lat": ("lat", lat, {"units": "degrees_north"}),
            "lon": lon,
            "height": 2.0,
            "area": (("lat", "lon"), np.outer(lat, lon)),
            "label": (("lat",), np.array([f"x{i}" for i in range(13)], dtype="U3")),
        },
        attrs={"title": "test", "n": 3, "list": [1.5, 2.5], "text": "ü\n"},
    )


ENCODING = {
    "t2m": {"chunks": (1, 13, 17)},
    "packed": {"dtype": "i2", "scale_factor": 0.01, "add_offset": 1.0, "_FillValue": -32767, "chunks": (7, 5, 6)},
}


def same(a, b, what):
    try:
        xr.testing.assert_identical(a.load(), b.load())
    except AssertionError as difference:
        problems.append(f"{what}: {difference}")
    for name in a.variables:
        for key in ("dtype", "_FillValue", "scale_factor", "add_offset", "units", "calendar"):
            x, y = a[name].encoding.get(key), b[name].encoding.get(key)
            if not (x == y or (x != x and y != y)):
                problems.append(f"{what}: {key} of {name} is {y} and not {x}")


def versions():
    for source in (2, 3):
        written = dataset()
        if source == 3:  # this xarray writes such texts as objects
            written = written.drop_vars(["name", "label"])
        written.to_zarr(folder / f"s{source}.zarr", zarr_format=source, encoding=ENCODING)
        for target, options in (("zarr2:", ["--codec", "zlib", "--shuffle", "byte"]), ("", ["--codec", "blosc_zstd"]),
                                ("", ["--shards", "time:40,lat:12,lon:15", "--checksum"])):
            to = folder / f"{source}-{len(options)}-{len(target)}.zarr"
            if convert(folder / f"s{source}.zarr", f"{target}{to}", "--chunks", "time:20,lat:4,lon:5", *options):
                a, b = xr.open_zarr(folder / f"s{source}.zarr"), xr.open_zarr(to)
                same(a, b, f"{source} -> {to.name}")
                if b.t2m.encoding["chunks"] != (20, 4, 5):
                    problems.append(f"{to.name}: chunks {b.t2m.encoding['chunks']}")


def texts():
    """Texts and bytes of varying length: a coordinate, a variable in several chunks, edges, a chunk of nothing but empty ones."""
    label = np.array(["Zürich", "", "東京", "x" * 300], dtype=object)
    note = np.array([["a", "", "é✓"], ["x" * 50, "b", "c"], ["", "", "d"], ["", "", "😀"]], dtype=object)
    written = xr.Dataset({"note": (("station", "time"), note), "v": (("station", "time"), np.arange(12.0).reshape(4, 3))},
                         coords={"station": label, "time": [1, 2, 3]})
    for source in (2, 3):
        at = folder / f"texts{source}.zarr"
        written.to_zarr(at, zarr_format=source, encoding={"note": {"chunks": (2, 2)}})
        blobs = zarr.open_group(at, mode="a").create_array("blob", shape=4, chunks=3, dtype=zarr.dtype.VariableLengthBytes(),
                                                           fill_value=b"\xff")
        blobs[:] = np.array([b"", b"\0\xff", b"z" * 70, b"q"], dtype=object)
        for target, options in (("zarr2:", []), ("zarr2:", ["--codec", "blosc"]), ("", []), ("", ["--codec", "none", "--checksum"]),
                                ("", ["--chunks", "4x3", "--shards", "4x3", "--bitround", "5", "--codec", "gzip"])):
            to = folder / f"texts{source}-{len(target)}{''.join(options)}.zarr"
            if not convert(at, f"{target}{to}", *options):
                continue
            a, b = xr.open_zarr(at, drop_variables="blob"), xr.open_zarr(to, drop_variables="blob")
            same(a, b, f"{source} -> {to.name}")
            found = zarr.open_group(to, mode="r")
            if found["note"].chunks != (2, 2) or list(found["blob"][:]) != list(blobs[:]):
                problems.append(f"{to.name}: chunks {found['note'].chunks}, bytes {found['blob'][:]}")


def groups():
    tree = xr.DataTree.from_dict({"/": dataset()[["t2m"]], "/a": dataset()[["zeros"]], "/a/b": dataset()[["count"]]})
    tree["/a"].attrs["about"] = "inner"
    for source in (2, 3):
        tree.to_zarr(folder / f"tree{source}.zarr", zarr_format=source)
        for target in ("zarr2:", ""):
            to = folder / f"tree{source}-{len(target)}.zarr"
            if convert(folder / f"tree{source}.zarr", f"{target}{to}"):
                a = xr.open_datatree(folder / f"tree{source}.zarr", engine="zarr")
                b = xr.open_datatree(to, engine="zarr")
                try:
                    xr.testing.assert_identical(a.load(), b.load())
                except AssertionError as difference:
                    problems.append(f"{to.name}: {difference}")


def values():
    source = folder / "s3.zarr"
    if convert(source, folder / "cf.zarr", "--decode-cf"):
        a, b = xr.open_zarr(source), xr.open_zarr(folder / "cf.zarr")
        if not np.allclose(a.packed, b.packed, rtol=1e-6, atol=1e-6, equal_nan=True) or "scale_factor" in b.packed.encoding:
            problems.append("decode_cf: other values")
    if convert(source, folder / "round.zarr", "--bitround", "7"):
        raw = zarr.open_group(source, mode="r")["t2m"][:]
        codec = numcodecs.BitRound(keepbits=7)
        expected = codec.decode(codec.encode(raw.copy())).view("f4").reshape(raw.shape)
        if not np.array_equal(zarr.open_group(folder / "round.zarr", mode="r")["t2m"][:], expected, equal_nan=True):
            problems.append("bitround: other values than numcodecs'")
    if convert(source, folder / "half.zarr", "--astype", "float16", "--variables", "t2m"):
        raw = zarr.open_group(source, mode="r")["t2m"][:].astype("f2")
        if not np.array_equal(zarr.open_group(folder / "half.zarr", mode="r")["t2m"][:], raw, equal_nan=True):
            problems.append("astype: other values than NumPy's")


def files():
    array = random.integers(-1000, 1000, (30, 20, 10)).astype(">i4")
    np.save(folder / "x.npy", np.asfortranarray(array))
    for codec in ("none", "zstd", "gzip", "blosc", "blosc_zstd"):
        to = folder / f"x-{codec}.zarr"
        if not convert(folder / "x.npy", to, "--chunks", "7x20x3", "--shards", "14x20x9", "--codec", codec):
            continue
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{to}/"}}
        for how, found in (("zarr-python", zarr.open_array(to, mode="r")[...]),
                           ("tensorstore", ts.open(spec, open=True, read=True).result().read().result())):
            if not np.array_equal(found, array):
                problems.append(f"{to.name}: {how} reads other values")


def netcdf():
    """Both kinds of files, where netCDF4 is there to write them."""
    try:
        import netCDF4  # noqa: F401
    except ImportError:
        return
    kept = dataset()[["t2m", "packed", "scalar", "byte"]].drop_vars("label")
    chunks = {"t2m": {"chunksizes": (1, 13, 17), "zlib": True, "shuffle": True},
              "packed": {"dtype": "i2", "scale_factor": 0.01, "add_offset": 1.0, "_FillValue": -32767}}
    for kind in ("NETCDF4", "NETCDF3_64BIT"):
        if kind == "NETCDF3_64BIT":
            kept, chunks = kept.drop_vars("byte"), {"packed": chunks["packed"]}
        kept.to_netcdf(folder / f"{kind}.nc", format=kind, engine="netcdf4", encoding=chunks, unlimited_dims=["time"])
        for target in ("zarr2:", ""):
            to = folder / f"{kind}-{len(target)}.zarr"
            if convert(folder / f"{kind}.nc", f"{target}{to}", "--chunks", "time:40,lat:4,lon:5"):
                try:
                    xr.testing.assert_identical(xr.open_dataset(folder / f"{kind}.nc").load(), xr.open_zarr(to).load())
                except AssertionError as difference:
                    problems.append(f"{to.name}: {difference}")


versions()
groups()
values()
files()
netcdf()
for problem in problems:
    print(problem)
sys.exit(1 if problems else 0)
