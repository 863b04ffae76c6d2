#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make hdf5.pack and hdf5_chunks.pack of tests/golden/array: files by h5py and netCDF4, and what these libraries read of them.

Needs h5py and netCDF4 with their own libhdf5, as their wheels have it (h5py 3.16 with HDF5 2.0, netCDF4 1.7): what h5py does not offer is
called in its library. A pack is one file of many: length of the key (u32), key, size (u64), bytes.

    files/NAME.h5     the files
    FILE.DATASET/     path: the array below the store; about: "dtype shape"; expected: the values, C order, little endian
"""
import ctypes
import glob
import os
import struct
import sys
import tempfile
from pathlib import Path

import h5py
import netCDF4
import numpy as np

SHAPE = (11, 9, 7)
CHUNK = (4, 5, 3)
TYPES = ["i1", "u1", "<i2", ">u2", "<i4", ">i4", "<u8", ">i8", "<f2", ">f2", "<f4", ">f4", "<f8", ">f8"]
SHARE_ALL = 0x1F  # H5O_SHMESG_ALL_FLAG
UNFILTERED_EDGES = 2  # H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS

random = np.random.default_rng(20)
library = ctypes.CDLL(glob.glob(os.path.join(os.path.dirname(h5py.__file__), "..", "h5py.libs", "libhdf5-*.so*"))[0])


def values(dtype, shape=SHAPE):
    return random.integers(0, 100, shape).astype(dtype)


def indexes(f):
    """Every kind of index that the version has."""
    a = values("<i2")
    f.create_dataset("contiguous", data=a)
    f.create_dataset("chunked", data=a, chunks=CHUNK)
    f.create_dataset("filtered", data=a, chunks=CHUNK, compression="gzip", shuffle=True)
    f.create_dataset("checked", data=a.astype(">f4"), chunks=CHUNK, compression="gzip", shuffle=True, fletcher32=True)
    f.create_dataset("grows_first", data=a, chunks=CHUNK, maxshape=(None, 9, 7))
    f.create_dataset("grows_last", data=a, chunks=CHUNK, maxshape=(11, 9, None), compression="gzip")
    f.create_dataset("grows_twice", data=a, chunks=CHUNK, maxshape=(None, 9, None))
    f.create_dataset("grows_twice_filtered", data=a, chunks=CHUNK, maxshape=(None, None, 7), compression="gzip")
    f.create_dataset("larger_most", data=a, chunks=CHUNK, maxshape=(40, 9, 30))
    f.create_dataset("single", data=a, chunks=SHAPE)
    f.create_dataset("single_filtered", data=a, chunks=SHAPE, compression="gzip")
    f.create_dataset("many", data=values("u1", (2100,)), chunks=(2,))
    f.create_dataset("many_growing", data=values("u1", (500,)), chunks=(2,), maxshape=(None,))
    shrunk = f.create_dataset("shrunk", data=a, chunks=CHUNK, maxshape=(None, None, None), compression="gzip")
    shrunk.resize((5, 9, 4))


def absent(f):
    f.create_dataset("never", shape=(6, 5), dtype=">f4", fillvalue=7.5)
    f.create_dataset("never_chunked", shape=(6, 5), dtype="<i4", fillvalue=-3, chunks=(4, 4))
    sparse = f.create_dataset("sparse", shape=(30, 20), dtype=">i2", fillvalue=-300, chunks=(7, 7), compression="gzip")
    sparse[8:12, 15:19] = 5
    f.create_dataset("empty", shape=(0, 5), dtype="f4", maxshape=(None, 5), chunks=(2, 5))


def early(f):
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    plist.set_chunk(CHUNK)
    space = h5py.h5s.create_simple(SHAPE, (20, 9, 14))
    h5py.Dataset(h5py.h5d.create(f.id, b"implicit", h5py.h5t.STD_I32BE, space, plist))[...] = values("<i4")


def compact(f):
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    h5py.Dataset(h5py.h5d.create(f.id, b"compact", h5py.h5t.STD_I16LE, h5py.h5s.create_simple((5, 4)), plist))[...] = values("<i2", (5, 4))


def masks(f):
    d = f.create_dataset("masks", data=values("<i4"), chunks=CHUNK, compression="gzip", shuffle=True, fletcher32=True)
    raw = values("<i4", CHUNK).tobytes()
    d.id.write_direct_chunk((0, 0, 0), raw, 7)  # nothing was done to it
    planes = np.frombuffer(raw, "u1").reshape(-1, 4).T.tobytes()
    d.id.write_direct_chunk((4, 5, 3), planes, 6)  # shuffled alone


def edges(f):
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk(CHUNK)
    plist.set_deflate(4)
    library.H5Pset_chunk_opts(ctypes.c_int64(plist.id), ctypes.c_uint(UNFILTERED_EDGES))
    for name, most in (("edges_fixed", SHAPE), ("edges_growing", (h5py.h5s.UNLIMITED, 9, 7))):
        space = h5py.h5s.create_simple(SHAPE, most)
        h5py.Dataset(h5py.h5d.create(f.id, name.encode(), h5py.h5t.STD_I32LE, space, plist))[...] = values("<i4")


def kinds(f):
    for dtype in TYPES:
        f.create_dataset("type_" + dtype.replace("<", "l").replace(">", "b"), data=values(dtype, (5, 3)))
    f.create_dataset("scalar", data=np.float64(3.25))
    f.create_dataset("bool", data=values("i4", (9,)) > 50)
    f.create_dataset("enum", data=values("<i2", (6,)) % 3, dtype=h5py.enum_dtype({"a": 0, "b": 1, "cc": 2}, basetype="<i2"))
    f.create_dataset("text", data=np.array([b"abc", b"", b"defgh"], "S5"))
    f.create_dataset("text_chunked", data=np.array([b"abc", b"", b"defgh"], "S5"), chunks=(2,), compression="gzip")
    f["committed_type"] = np.dtype("<f4")
    f.create_dataset("committed", data=values("<f4"), dtype=f["committed_type"])


def groups(f):
    """Dense links and attributes, soft links, a circle, and attributes of all kinds."""
    g = f.create_group("a/b")
    one = g.create_dataset("one", data=values("<i2", (3,)))
    for i in range(200):
        g[f"a rather long name of a link {i:04d}"] = one
    g["circle"] = f["a"]
    f["soft"] = h5py.SoftLink("/a/b/one")
    g["soft"] = h5py.SoftLink("one")
    f["loop"] = h5py.SoftLink("loop")
    f["outside"] = h5py.ExternalLink("other.h5", "/x")
    for i in range(30):
        one.attrs[f"dense{i:02d}"] = i
    f.attrs["text"] = "d\u00e9j\u00e0 vu"
    f.attrs["bytes"] = np.bytes_(b"fixed")
    f.attrs["integers"] = np.array([1, -2, 3], ">i4")
    f.attrs["large"] = np.uint64(2**63 + 5)
    f.attrs["real"] = np.float32(0.5)
    f.attrs["nan"] = np.nan
    f.attrs["texts"] = ["x", "yy", ""]
    f.attrs["one"] = np.array([7], "i2")
    f.attrs["nothing"] = h5py.Empty("f4")
    f.attrs["compound"] = np.zeros(2, [("x", "i4"), ("y", "f8")])


def huge_attribute(f):
    """An object of its own behind the heap."""
    for i in range(10):
        f.attrs[f"a{i}"] = i
    f.attrs["huge"] = np.arange(9000, dtype="<i8")
    f.create_dataset("x", data=values("i1", (2,)))


def refused(f):
    f.create_dataset("compound", data=np.zeros(3, [("a", "i4"), ("b", "f8")]))
    f.create_dataset("vlen_text", data=["a", "bc"], dtype=h5py.string_dtype())
    f.create_dataset("vlen", shape=(2,), dtype=h5py.vlen_dtype("i4"))
    f.create_dataset("reference", shape=(2,), dtype=h5py.ref_dtype)
    f.create_dataset("nothing", data=h5py.Empty("f4"))
    f.create_dataset("external", shape=(4,), dtype="i4", external=[("/etc/hostname", 0, 16)])
    virtual = h5py.VirtualLayout(shape=(4,), dtype="i4")
    virtual[:] = h5py.VirtualSource("other.h5", "x", shape=(4,))
    f.create_virtual_dataset("virtual", virtual)
    f.create_dataset("lzf", data=values("i4", (9,)), chunks=(3,), compression="lzf")


def shared(path):
    """Messages that headers share."""
    plist = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    library.H5Pset_shared_mesg_nindexes(ctypes.c_int64(plist.id), ctypes.c_uint(1))
    library.H5Pset_shared_mesg_index(ctypes.c_int64(plist.id), ctypes.c_uint(0), ctypes.c_uint(SHARE_ALL), ctypes.c_uint(1))
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(h5py.h5f.LIBVER_LATEST, h5py.h5f.LIBVER_LATEST)
    f = h5py.File(h5py.h5f.create(path.encode(), h5py.h5f.ACC_TRUNC, plist, access))
    for name in "xy":
        d = f.create_dataset(name, data=values("<i4"), chunks=CHUNK, compression="gzip", fillvalue=9)
        d.attrs["units"] = "a text that is shared"
        for i in range(12):
            d.attrs[f"dense{i}"] = "another text that is shared"
    f.close()


def netcdf(path):
    f = netCDF4.Dataset(path, "w")
    f.title = "weather"
    f.createDimension("time", None)
    f.createDimension("lat", 9)
    f.createDimension("lon", 7)
    f.createDimension("bare", 3)
    t2m = f.createVariable("t2m", "i2", ("time", "lat", "lon"), zlib=True, shuffle=True, fletcher32=True, chunksizes=CHUNK)
    t2m.setncatts({"scale_factor": 0.5, "add_offset": 10.0, "units": "K"})
    t2m.set_auto_maskandscale(False)
    t2m[:] = values("i2")
    f.createVariable("lat", "f4", ("lat",))[:] = np.linspace(-40, 40, 9)
    f.createVariable("lon", ">f8", ("lon",), endian="big")[:] = np.arange(7)
    f.createVariable("time", "f8", ("time",))[:] = np.arange(11)
    f.createVariable("short", "f4", ("time", "bare"), fill_value=-1.0)[:4] = 2.5
    f.createVariable("xy", "f4", ("lat", "lon"))[:] = values("f4", SHAPE[1:])
    f.createVariable("bare_not", "i4", ("lat",))[:] = np.arange(9)
    f.createVariable("bare", "i4", ("lat",))[:] = np.arange(9)  # not of the dimension "bare"
    g = f.createGroup("forecast")
    g.createVariable("q", "f4", ("time", "lat"))[:] = values("f4", (13, 9))  # longer than the others
    f.close()


def netcdf_expected(path):
    f = netCDF4.Dataset(path)
    for where, group in (("", f), ("forecast/", f["forecast"])):
        for name, v in group.variables.items():
            v.set_auto_maskandscale(False)
            yield where + name, np.asarray(v[...])


def hdf5_expected(path):
    f = h5py.File(path)
    found = []
    f.visititems(lambda name, o: found.append(name) if isinstance(o, h5py.Dataset) else None)
    for name in found:
        yield name, np.asarray(f[name][()])
    for name in ("soft", "a/b/soft"):
        if f.get(name) is not None:
            yield name, np.asarray(f[name][()])


def put(out, key, data):
    out.write(struct.pack("<I", len(key)) + key.encode() + struct.pack("<Q", len(data)) + data)


def put_expected(out, file, pairs):
    for name, a in pairs:
        a = a.astype("i1") if a.dtype == bool else a
        dtype = a.dtype.newbyteorder("<")
        shown = f"S{dtype.itemsize}" if dtype.kind == "S" else dtype.name
        key = f"{file}.{name.replace('/', '.')}"
        put(out, key + "/path", f"files/{file}.h5/{name}".encode())
        put(out, key + "/about", " ".join([shown, *map(str, a.shape)]).encode())
        put(out, key + "/expected", np.ascontiguousarray(a).astype(dtype).tobytes())


CHUNKS = {"indexes_earliest": (indexes, "earliest"), "indexes_latest": (indexes, "latest"), "absent_earliest": (absent, "earliest"),
          "absent_v108": (absent, "v108"), "absent_v110": (absent, "v110"), "absent_latest": (absent, "latest"),
          "early": (early, "latest"), "edges": (edges, "latest"), "compact_old": (compact, "earliest"), "compact_new": (compact, "latest"),
          "masks_old": (masks, "earliest"), "masks_new": (masks, "latest")}
OTHERS = {"groups_old": (groups, "earliest"), "groups_new": (groups, "latest"), "kinds_old": (kinds, "earliest"),
          "kinds_new": (kinds, "latest"), "huge_attribute": (huge_attribute, "latest"), "refused": (refused, "latest")}


def put_files(out, folder, makers):
    for name, (part, version) in makers.items():
        path = f"{folder}/{name}.h5"
        bound = (version, "latest") if version in ("earliest", "latest") else (version, version)
        with h5py.File(path, "w", libver=bound, userblock_size=512 if part is compact else 0) as f:
            part(f)
        put(out, f"files/{name}.h5", Path(path).read_bytes())
        if part is not refused:
            put_expected(out, name, ((n, a) for n, a in hdf5_expected(path) if "name of a link" not in n))


def main():
    folder = Path(__file__).resolve().parent.parent / "tests/golden/array"
    with tempfile.TemporaryDirectory() as temporary:
        with open(folder / "hdf5_chunks.pack", "wb") as out:
            put_files(out, temporary, CHUNKS)
        with open(folder / "hdf5.pack", "wb") as out:
            put_files(out, temporary, OTHERS)
            for name, part, expected in (("shared", shared, hdf5_expected), ("netcdf", netcdf, netcdf_expected)):
                path = f"{temporary}/{name}.h5"
                part(path)
                put(out, f"files/{name}.h5", Path(path).read_bytes())
                put_expected(out, name, expected(path))


if __name__ == "__main__":
    sys.exit(main())
