#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the npy files of tests/golden/npy with NumPy, the reference implementation.

    python3 scripts/make_npy_golden.py [FOLDER]

Element k (in C order) of the numeric files of shape (5, 3) is k % 2 for bool, 3 k (mod 2^bits) for unsigned types,
3 k - 10 for signed and float types, and (3 k - 10) + (k) j for complex ones: tests/unit/dataset/test_npy.c
computes the same. Made with NumPy 2.4.
"""
import io
import os
import sys
import warnings

import numpy as np

FOLDER = sys.argv[1] if len(sys.argv) > 1 else os.path.join(
    os.path.dirname(__file__), "..", "tests", "golden", "npy")

PLAIN = ("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 "
         "complex64 complex128").split()


def values(dtype, shape=(5, 3)):
    k = np.arange(np.prod(shape), dtype=np.int64)
    kind = np.dtype(dtype).kind
    v = {"b": k % 2, "u": 3 * k, "c": (3 * k - 10) + 1j * k}.get(kind, 3 * k - 10)
    return v.astype(dtype).reshape(shape)


def write(name, array, version=None):
    with open(os.path.join(FOLDER, name + ".npy"), "wb") as f, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.lib.format.write_array(f, array, version=version, allow_pickle=True)


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for name in PLAIN:
        dtype = np.dtype(name)
        write("little_" + name, values(dtype.newbyteorder("<")))
        if dtype.itemsize > 1:
            write("big_" + name, values(dtype.newbyteorder(">")))
    write("version_1", values("<i4"), (1, 0))
    write("version_2", values("<i4"), (2, 0))
    write("version_3", values("<i4"), (3, 0))
    write("datetime", values("<i8").astype("<M8[ns]"))
    write("timedelta", values("<i8").astype("<m8[s]"))
    write("fortran", np.asfortranarray(values("<i4")))
    write("fortran_1d", np.asfortranarray(values("<i4", (15,))))
    write("picture", values("|u1", (2, 4, 5, 3)))
    write("rank_8", values("<i4", (3, 1, 1, 5, 1, 1, 1, 1)))
    write("rank_9", values("<i4", (3, 1, 1, 5, 1, 1, 1, 1, 1)))
    write("scalar", np.float64(3.5))
    write("empty", np.zeros((0, 3), np.float32))
    write("hollow", np.zeros((3, 0), np.float32))
    write("object", np.array([1, "two", None], dtype=object))
    write("structured", np.zeros(3, dtype=[("x", "<f4"), ("y", "<i4")]))
    write("unicode", np.array(["a", "bc"]))
    write("bytes", np.array([b"a", b"bc"]))
    write("void", np.zeros(4, dtype="V2"))
    write("longdouble", np.zeros(3, dtype=np.longdouble))
    write("labels_uint8", (np.arange(5) % 3).astype(np.uint8))
    write("labels_int32_big", (np.arange(5) * 1000 - 2000).astype(">i4"))
    write("labels_column", (np.arange(5) % 3).astype(np.int16).reshape(5, 1))
    write("labels_short", np.arange(4))
    write("labels_float", np.arange(5, dtype=np.float32))
    write("labels_huge", np.array([0, 1, 2, 3, 2**63], dtype=np.uint64))
    check()


def check():
    """NumPy itself must read back what it wrote, but for what needs a pickle."""
    for name in sorted(os.listdir(FOLDER)):
        with open(os.path.join(FOLDER, name), "rb") as f:
            np.load(io.BytesIO(f.read()), allow_pickle=name == "object.npy")


if __name__ == "__main__":
    main()
