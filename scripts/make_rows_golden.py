#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the tables of tests/golden/rows: HDF5 files by h5py, npz files by NumPy.

    python3 scripts/make_rows_golden.py [FOLDER]

tests/unit/dataset/test_rows.c computes the values anew: row i of `images` has (7 i + 5 y + 3 x + c) mod 256, of `labels` 11 i mod 10, of
`x` i + j / 4. Made with NumPy 2.1 and h5py 3.16; both write no times, so that the files come out the same again.
"""
import sys
import zipfile
from pathlib import Path

import h5py
import numpy as np

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "tests" / "golden" / "rows"
ROWS = 23


def images(n=ROWS):
    i, y, x, c = np.ogrid[:n, :4, :3, :3]
    return ((7 * i + 5 * y + 3 * x + c) % 256).astype(np.uint8)


def labels(n=ROWS):
    return (11 * np.arange(n) % 10).astype(np.int32)


def x(n=ROWS):
    return (np.arange(n)[:, None] + np.arange(5) / 4).astype(">f4")


def table(f):
    f.create_dataset("images", data=images(), chunks=(4, 4, 3, 3), compression="gzip", shuffle=True, track_times=False)
    f.create_dataset("labels", data=labels(), chunks=(10,), compression="gzip", track_times=False)
    f.create_dataset("x", data=x(), track_times=False)


def hdf5():
    with h5py.File(FOLDER / "table.h5", "w", libver="latest") as f:
        table(f)
    with h5py.File(FOLDER / "mixed.h5", "w", libver="latest") as f:
        table(f)
        f.create_dataset("names", data=[b"a"] * ROWS, dtype=h5py.string_dtype(), track_times=False)
        f.create_dataset("records", data=np.zeros(ROWS, [("a", "i4"), ("b", "f8")]), track_times=False)
        f.create_dataset("few", data=np.arange(7), track_times=False)
        f.create_dataset("scale", data=2.5, track_times=False)
        f.create_dataset("none", shape=(0, 3), dtype="i4", track_times=False)
        g = f.create_group("val")
        g.create_dataset("images", data=images(6), track_times=False)
        g.create_dataset("y", data=labels(6).astype("u1"), track_times=False)
    with h5py.File(FOLDER / "tie.h5", "w", libver="latest") as f:
        for name, n in (("train", ROWS), ("test", 6)):
            f.create_dataset(f"{name}_images", data=images(n), track_times=False)
            f.create_dataset(f"{name}_labels", data=labels(n), track_times=False)
    with h5py.File(FOLDER / "named.h5", "w", libver="latest") as f:
        f.create_dataset("images", data=images(6), track_times=False)
        f.create_dataset("labels", data=labels(6), track_times=False)
        f.create_dataset("row", data=np.arange(6), track_times=False)
        f["row"].make_scale("row")
        f["images"].dims[0].attach_scale(f["row"])
        f["labels"].dims[0].attach_scale(f["row"])


def npz():
    np.savez(FOLDER / "stored.npz", images=images(), labels=labels(), x=x())
    np.savez_compressed(FOLDER / "deflated.npz", images=images(), labels=labels(), x=x())
    np.savez(FOLDER / "mixed.npz", images=images(), labels=labels(), x=x(), objects=np.array([{}, None], dtype=object),
             texts=np.array(["a", "b"]), few=np.arange(7), scale=np.float64(2.5), none=np.zeros((0, 3)),
             **{"val/images": images(6), "val/y": labels(6)})
    np.savez(FOLDER / "columns.npz", images=np.asfortranarray(images()), labels=labels(), x=np.asfortranarray(x()))
    np.savez(FOLDER / "short.npz", images=images(), labels=labels(22))
    np.savez(FOLDER / "lone.npz", scale=np.float64(2.5))
    with zipfile.ZipFile(FOLDER / "empty.npz", "w"):
        pass


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    hdf5()
    npz()
