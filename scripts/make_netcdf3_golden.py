#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/golden/array/netcdf3.pack: NetCDF-3 files of netCDF4 and scipy, files that are joined, references to parts of
others, and the values that were written.

    python3 -m venv v && v/bin/pip install netCDF4==1.7.5.1.post1 scipy==1.17.1 numpy
    v/bin/python scripts/make_netcdf3_golden.py [tests/golden/array/netcdf3.pack]
"""
import base64
import io
import json
import os
import struct
import sys
import tempfile

import netCDF4
import numpy as np
from scipy.io import netcdf_file

rng = np.random.default_rng(3)
files = {}
FORMATS = {"NETCDF3_CLASSIC": "classic", "NETCDF3_64BIT_OFFSET": "offset64", "NETCDF3_64BIT_DATA": "cdf5"}
CLASSIC = ["i1", "i2", "i4", "f4", "f8"]
WIDE = ["u1", "u2", "u4", "i8", "u8"]


def values(dtype, shape):
    return rng.integers(0, 120, shape).astype(dtype)


def expect(name, variable, array, path=None):
    array = np.asarray(array)
    dtype = array.dtype.newbyteorder("<")
    key = f"{name}.{variable.replace('/', '.')}"
    files[key + "/path"] = f"files/{path or name + '/' + variable}".encode()
    files[key + "/about"] = " ".join([f"S{dtype.itemsize}" if dtype.kind == "S" else dtype.name, *map(str, array.shape)]).encode()
    files[key + "/expected"] = np.ascontiguousarray(array).astype(dtype).tobytes()


def write(name, kind, fill):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        with netCDF4.Dataset(path, "w", format=kind) as d:
            fill(d)
        with open(path, "rb") as f:
            files["files/" + name] = f.read()


def whole(name, kind):
    def fill(d):
        d.createDimension("time", None)
        d.createDimension("y", 3)
        d.createDimension("x", 5)
        d.title = "a file of the tests"
        d.numbers = np.array([1.5, np.nan], "f4")
        for t in CLASSIC + (WIDE if kind.endswith("DATA") else []):
            for v, dims, shape in (("record_" + t, ("time", "y", "x"), (4, 3, 5)), ("fixed_" + t, ("y", "x"), (3, 5)),
                                   ("one_" + t, (), ())):
                var = d.createVariable(v, t, dims, fill_value=7 if v == "fixed_i2" else None)
                var.set_auto_maskandscale(False)
                var.units = "K"
                var.scale_factor = np.float32(0.1)
                data = values(t, shape)
                var[...] = data
                expect(name, v, data)
        letters = d.createVariable("letters", "S1", ("time", "x"))
        data = np.array([list("abcde")] * 4, "S1")
        letters[:] = data
        expect(name, "letters", data)

    write(name, kind, fill)


def alone(name, dtype):
    """One record variable: its records are not padded."""
    def fill(d):
        d.createDimension("time", None)
        d.createDimension("x", 3)
        data = values(dtype, (5, 3))
        d.createVariable("v", dtype, ("time", "x"))[:] = data
        expect(name, "v", data)

    write(name, "NETCDF3_CLASSIC", fill)


def joined():
    parts = {"t": [], "f": [], "time": []}
    at = 0
    for i, n in enumerate([5, 1, 0, 3]):
        def fill(d):
            d.createDimension("time", None)
            d.createDimension("y", 4)
            d.createDimension("x", 6)
            t, f = values("f4", (n, 4, 6)), values("i2", (4, 6))
            d.createVariable("time", "f8", ("time",))[:] = np.arange(at, at + n)
            d.createVariable("t", "f4", ("time", "y", "x"))[:] = t
            d.createVariable("f", "i2", ("y", "x"))[:] = f
            for key, part in ("t", t), ("f", f), ("time", np.arange(at, at + n, dtype="f8")):
                parts[key].append(part)

        write(f"join_{i}.nc", "NETCDF3_CLASSIC", fill)
        at += n
    for key, part in parts.items():
        expect("join", key, np.concatenate(part), f"join_*.nc/{key}?concat={'y' if key == 'f' else 'time'}")
    expect("list", "f", np.concatenate([parts["f"][1], parts["f"][0]], axis=1), "join_1.nc,join_0.nc/f?concat=x")


def by_scipy(name, version):
    out = io.BytesIO()
    d = netcdf_file(out, "w", version=version)
    d.history = "scipy"
    d.createDimension("t", None)
    d.createDimension("x", 4)
    for v, t, dims, shape in (("a", "i2", ("t", "x"), (3, 4)), ("b", "f8", ("x",), (4,)), ("c", "b", ("t",), (3,))):
        data = values(t, shape)
        d.createVariable(v, t, dims)[:] = data
        expect(name, v, data)
    d.flush()
    files["files/" + name] = out.getvalue()
    d.close()


def references():
    a, b = values("<i4", (6, 4)), values("<f8", (3,))
    raw = a.tobytes()
    files["files/parts.bin"] = b"head" + raw[:48] + b"gap" + raw[48:]
    array = {"zarr_format": 2, "shape": [6, 4], "chunks": [3, 4], "dtype": "<i4", "compressor": None, "filters": None,
             "order": "C", "fill_value": 0}
    rows = dict(array, chunks=[1, 4])
    short = dict(array, shape=[3], chunks=[2], dtype="<f8")
    padded = b.tobytes() + bytes(8)
    refs = {
        ".zgroup": '{"zarr_format": 2}', ".zattrs": '{"title": "refs"}', "a/.zarray": json.dumps(array),
        "a/.zattrs": json.dumps({"_ARRAY_DIMENSIONS": ["y", "x"]}), "a/0.0": ["parts.bin", 4, 48],
        "a/1.0": ["{{u}}.bin", 55, 48], "sub/.zgroup": {"zarr_format": 2}, "sub/b/.zarray": short,
        "sub/b/0": "base64:" + base64.b64encode(padded[:16]).decode(),
        "sub/b/1": "base64:" + base64.b64encode(padded[16:]).decode(),
        "whole/.zarray": json.dumps(array), "whole/0.0": ["half.bin"], "rows/.zarray": json.dumps(rows),
    }
    files["files/half.bin"] = raw[:48]
    gen = [{"key": "rows/{{i}}.0", "url": "{{u}}.bin", "offset": "{{ 4 + i * 16 + (i // 3) * 3 }}", "length": "16",
            "dimensions": {"i": {"stop": 6}}}]
    document = {"version": 1, "templates": {"u": "parts"}, "gen": gen, "refs": refs}
    files["files/refs.json"] = json.dumps(document).encode()
    files["files/old.json"] = json.dumps({k: v for k, v in refs.items() if not k.startswith("rows") and k != "a/1.0"}).encode()
    expect("refs.json", "a", a)
    expect("refs.json", "rows", a)
    expect("refs.json", "sub/b", b)
    expect("refs.json", "whole", np.concatenate([a[:3], np.zeros((3, 4), "<i4")]))
    expect("old.json", "a", np.concatenate([a[:3], np.zeros((3, 4), "<i4")]))


def main():
    for kind, name in FORMATS.items():
        whole(name + ".nc", kind)
    for dtype in CLASSIC:
        alone(f"alone_{dtype}.nc", dtype)
    joined()
    by_scipy("scipy1.nc", 1)
    by_scipy("scipy2.nc", 2)
    references()
    target = sys.argv[1] if len(sys.argv) > 1 else "tests/golden/array/netcdf3.pack"
    with open(target, "wb") as f:
        for name, data in files.items():
            f.write(struct.pack("<I", len(name)) + name.encode() + struct.pack("<Q", len(data)) + data)


if __name__ == "__main__":
    main()
