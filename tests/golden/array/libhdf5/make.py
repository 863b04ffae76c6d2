# SPDX-License-Identifier: Apache-2.0
"""Make kinds.h5, by h5py: what the parser of the library does not read, and what nobody is to read.   make.py

Values are their place, counted in C order, unless a line says otherwise.
"""
from pathlib import Path

import h5py
import numpy as np

with h5py.File(Path(__file__).parent / "kinds.h5", "w", libver="earliest") as f:
    f["complex"] = np.arange(6).astype("c8").reshape(2, 3)
    f["half"] = np.arange(5).astype("f2")
    f["bool"] = np.array([True, False, True])
    f["big"] = np.arange(4, dtype=">i4")
    f["scalar"] = np.float32(4.5)
    f["long"] = np.arange(3, dtype=np.longdouble)
    f["record"] = np.array([(1, 2.5), (2, 3.5)], dtype=[("a", "<i4"), ("b", "<f8")])
    f["opaque"] = np.array([b"ab", b"cd"], dtype="V2")
    f["fixed"] = np.array([b"a", b"bcd"], dtype="S3")
    f.create_dataset("text", data=["a", "b\u00e9", "", "\U0001f600xyz"], dtype=h5py.string_dtype())
    f.create_dataset("ascii", data=[b"ab", b"c"], dtype=h5py.string_dtype("ascii"))
    f.create_dataset("enum", data=[2, 5], dtype=h5py.enum_dtype({"a": 2, "b": 5}, basetype="i2"))
    odd = h5py.h5t.STD_I32LE.copy()
    odd.set_precision(20)
    odd.set_offset(4)
    f["odd"] = np.zeros(0)
    del f["odd"]
    space = h5py.h5s.create_simple((3,))
    h5py.h5d.create(f.id, b"odd", odd, space).write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([-3, 0, 7], dtype="i4"))
    bits = h5py.h5t.STD_B16LE.copy()
    h5py.h5d.create(f.id, b"bits", bits, space).write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([1, 2, 65535], dtype="u2"),
                                                      h5py.h5t.NATIVE_B16)
    f.create_dataset("chunked", data=np.arange(70, dtype="i8").reshape(7, 10), chunks=(3, 4), compression="gzip",
                     shuffle=True, fletcher32=True, fillvalue=-1, maxshape=(None, 10))
    f.create_dataset("absent", shape=(5,), dtype="f8", chunks=(2,), fillvalue=7.5)
    # What is refused.
    f.create_dataset("lists", data=np.array([np.arange(2), np.arange(3)], dtype=object), dtype=h5py.vlen_dtype("i4"))
    f.create_dataset("arrays", shape=(2,), dtype=np.dtype(("i4", (3,))))
    f.create_dataset("references", data=[f["big"].ref], dtype=h5py.ref_dtype)
    f["null"] = h5py.Empty("f4")
    f.create_dataset("plugin", data=np.arange(100), compression="lzf")
    f.create_dataset("outside", shape=(10,), dtype="u1", external=[("/etc/hostname", 0, 10)])
    virtual = h5py.VirtualLayout(shape=(4,), dtype="i4")
    virtual[:] = h5py.VirtualSource("/etc/hostname", "x", shape=(4,))
    f.create_virtual_dataset("virtual", virtual)
    f["link"] = h5py.ExternalLink("/etc/hostname", "/x")
    f["soft"] = h5py.SoftLink("/group/inner")
    f["through"] = h5py.SoftLink("/link/x")
    g = f.create_group("group")
    g["inner"] = np.arange(3, dtype="u1")
    g["round"] = f["/"]
    f["named type"] = np.dtype("i4")
    f.attrs["text"] = "h\u00e4llo"
    f.attrs["list"] = [1, 2]
    f.attrs["half"] = np.float16(0.5)
    f.attrs["texts"] = ["a", "b"]
    f.attrs["reference"] = f["big"].ref
    f["big"].attrs["nan"] = np.array([np.nan, np.inf, 1])
