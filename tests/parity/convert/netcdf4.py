# SPDX-License-Identifier: Apache-2.0
"""What test_netcdf4.c has written, as netCDF4-python, xarray and h5py read it.   netcdf4.py FILE"""
import json
import sys

import h5py
import netCDF4
import numpy as np
import xarray as xr

path = sys.argv[1]
TEXTS = ["a", "b\u00e9", "", "xy\U0001f600"]
BYTES = [b"a", "b\u00e9".encode(), b"", b"xyz"]


def same(got, want):
    got = np.asarray(got)
    want = np.asarray(want)
    assert got.shape == want.shape and np.array_equal(got, want), (got, want)


def in_order(shape, dtype):
    return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)


# ---- netCDF4-python: dimensions, types, attributes ----
d = netCDF4.Dataset(path)
d.set_auto_maskandscale(False)
assert d.data_model == "NETCDF4", d.data_model
assert {k: len(v) for k, v in d.dimensions.items()} == {
    "time": 3, "lat": 4, "lon": 5, "bare": 7, "lev": 2, "string3": 3, "dim_0": 0, "dim_0_4": 4}, d.dimensions
assert {k for k, v in d.dimensions.items() if v.isunlimited()} == {"time", "lev", "dim_0"}
assert d.title == "h\u00e4llo" and d.n == 3 and d.x == 2.5 and d.empty == "" and d.yes == 1
same(d.list, [1, 2])
assert d.reals[0] == 1.5 and np.isnan(d.reals[1]) and list(d.words) == ["a", "b\u00e9"]
assert json.loads(d.nested) == {"a": [1]} and d.huge == 2 ** 64 - 1 and "NAME" not in d.ncattrs()
v = d["t2m"]
assert v.dtype == np.int16 and v.dimensions == ("time", "lat", "lon") and v.chunking() == [2, 3, 5]
assert v._FillValue.dtype == np.int16 and v._FillValue == -99 and v.missing_value.dtype == np.int16
assert v.filters()["zlib"] and v.filters()["shuffle"]
same(v[:], in_order((3, 4, 5), np.int16))
for name, dtype, dims in [("lat", "f4", ("lat",)), ("lev", "i1", ("lev", "lon")), ("lon", "i8", ("lat",)),
                          ("u16", "u2", ("lat",)), ("u32", "u4", ("dim_0_4",)), ("floats", "f4", ("bare", "lon")),
                          ("time", "i8", ("time",)), ("none", "i2", ("dim_0",))]:
    v = d[name]
    assert v.dtype == np.dtype(dtype) and v.dimensions == dims, (name, v.dtype, v.dimensions)
    same(v[:], in_order(v.shape, dtype))
assert d["floats"]._FillValue.dtype == np.float32 and d["floats"]._FillValue == 7 and d["floats"].valid_min.dtype == np.float32
assert d["scalar"].dimensions == () and d["scalar"][:] == 0 and d["scalar"].a == 1
assert d["lat"].units == "degrees_north" and d["lat"].bounds == "null"
assert d["bytes"].dtype == np.dtype("S1") and d["bytes"].dimensions == ("lat", "string3")
assert list(d["text"][:]) == TEXTS
same(d["flag"][:], [0, 1, 0, 1])
g = d["g"]
assert g.of == "a group" and {k: len(v) for k, v in g.dimensions.items()} == {"lon": 6}
same(g["w"][:], np.arange(6, dtype=np.uint64))
assert g["w"].dimensions == ("lon",) and g["w"].get_dims()[0].group() is not None
assert not g["h"].dimensions and g["h"]["deep"].get_dims()[0].name == "lat"
d.close()

# ---- xarray: as training and analysis open it ----
for engine in ["netcdf4", "h5netcdf"]:
    try:
        x = xr.open_dataset(path, engine=engine)
    except ValueError as error:  # an engine that is not installed
        assert "unrecognized engine" in str(error), error
        continue
    assert x["time"].dtype.kind == "M" and x["time"].values[2] == np.datetime64("1970-01-01T00:00:00.000000002")
    assert set(x.coords) == {"time", "lat", "lev", "lon"}, x.coords
    same(x["t2m"].values, in_order((3, 4, 5), np.float32) * 0.5)
    assert x["flag"].dtype == bool
    assert [bytes(b) for b in x["bytes"].values] == BYTES, x["bytes"].values
    assert list(x["text"].values) == TEXTS
    assert np.isnan(x["floats"].values[1, 2]) and x["floats"].values[1, 3] == 8
    x.close()

# ---- h5py: what holds the format together ----
with h5py.File(path) as f:
    assert f.attrs["_NCProperties"].startswith((b"version=2,stoker=", "version=2,stoker="))
    for o in [f["/"], f["g"], f["t2m"]]:
        creation = o.id.get_create_plist()
        assert creation.get_attr_creation_order() == h5py.h5p.CRT_ORDER_TRACKED | h5py.h5p.CRT_ORDER_INDEXED
        assert o is not f["g"] or creation.get_link_creation_order()
    assert f["t2m"].attrs["DIMENSION_LIST"].shape == (3,) and f["t2m"].fillvalue == -99
    numbers = sorted(int(s.attrs["_Netcdf4Dimid"]) for s in list(f.values()) + list(f["g"].values())
                     if isinstance(s, h5py.Dataset) and s.is_scale)
    assert numbers == list(range(len(numbers))), numbers
    assert list(f["lev"].attrs["_Netcdf4Coordinates"]) == [f["lev"].attrs["_Netcdf4Dimid"], f["lon"].attrs["_Netcdf4Dimid"]]
    assert "_nc4_non_coord_lon" in f and f["lon"].attrs["NAME"].startswith(b"This is a netCDF dimension but not a netCDF variable")
with open(path, "rb") as f:
    assert f.read(9)[8] == 2  # version of the superblock
