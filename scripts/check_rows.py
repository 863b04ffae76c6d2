#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables that h5py and NumPy write, and what they read of them.

    python3 scripts/check_rows.py FOLDER

Writes tables to FOLDER, each field as h5py or NumPy reads it to a file of bytes beside it, and FOLDER/expected.txt: spec, field, rows,
bytes of a row, file. tests/parity/dataset/test_rows.c holds ours against them. Exit code 77 where a package is missing.
"""
import random
import sys
from pathlib import Path

try:
    import h5py
    import numpy as np
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

TYPES = ["u1", "i1", "<u2", ">i2", "<i4", ">u4", "<i8", ">u8", "<f2", ">f2", "<f4", ">f4", "<f8", ">f8", "?"]
TABLES = 40


def values(rng, rows):
    dtype = np.dtype(rng.choice(TYPES))
    shape = (rows, *(rng.randint(1, 6) for _ in range(rng.randint(0, 3))))
    raw = np.frombuffer(rng.randbytes(int(np.prod(shape)) * dtype.itemsize), np.uint8)
    return (raw % 2).view("?").reshape(shape) if dtype == "?" else raw.view(dtype).reshape(shape)


def storage(rng, array):
    """How h5py may store it: contiguous, or in chunks with filters."""
    if rng.random() < 0.3:
        return {}
    chunks = (rng.randint(1, array.shape[0]), *(rng.randint(1, n) for n in array.shape[1:]))
    return {"chunks": chunks, "compression": rng.choice([None, "gzip"]), "shuffle": rng.random() < 0.5,
            "fletcher32": rng.random() < 0.3}


def native(array):
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"))


def write(folder, number, rng):
    rows = rng.randint(1, 70)
    arrays = {f"f{i}": values(rng, rows) for i in range(rng.randint(1, 6))}
    label = rng.choice(["y", "label", "labels", "target"])
    arrays[label] = rng.choice([np.uint8, np.int16, np.dtype(">i4"), np.int64])
    arrays[label] = np.array([rng.randint(-100, 100) for _ in range(rows)]).astype(arrays[label])
    path = folder / f"{number}.h5"
    with h5py.File(path, "w", libver=rng.choice(["earliest", "latest", ("earliest", "v110"), "v108"])) as f:
        for name, array in arrays.items():
            f.create_dataset(name, data=array, **storage(rng, array))
    with h5py.File(path) as f:
        read = {name: native(f[name][...]) for name in f}
    save, kind = rng.choice([(np.savez, "stored"), (np.savez_compressed, "deflated")])
    save(folder / f"{number}.npz", **arrays)
    for name, array in read.items():
        field = "label" if name == label else name
        data = array.astype("<i8") if name == label else array
        file = f"{number}.{field}.bin"
        (folder / file).write_bytes(data.tobytes())
        for spec in (f"hdf5:{path}", f"npz:{folder / f'{number}.npz'}"):
            yield f"{spec} {field} {rows} {data.nbytes // rows} {file}"


def main():
    folder = Path(sys.argv[1])
    rng = random.Random(20261128)
    lines = [line for number in range(TABLES) for line in write(folder, number, rng)]
    (folder / "expected.txt").write_text("".join(line + "\n" for line in lines))


if __name__ == "__main__":
    main()
