#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pack pictures and compare what zarr-python reads; and read pictures that zarr-python packed.

    python3 scripts/check_packed.py STOKER FOLDER

FOLDER is empty. Exit code 1, and a line for each, where something differs. Needs numpy and zarr >= 3.
"""
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec

stoker, folder = sys.argv[1], Path(sys.argv[2])
random = np.random.default_rng(7)
problems = []


def check(good, what):
    if not good:
        problems.append(what)


def run(*words):
    done = subprocess.run([stoker, *map(str, words)], capture_output=True, text=True)
    check(done.returncode == 0, f"{' '.join(map(str, words))}: {done.stderr.strip()}")


def hashes(spec):
    out = folder / "hashes"
    run("bench", "--dataset", spec, "--batch-size", 2, "--num-epochs", 1, "--train-step-time", 0,
        "--log", "none", "--hash", out)
    return out.read_text()


def save_png(path, pixels):
    """PNG of RGB [PNG, 2nd edition], rows without a filter."""
    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def make(name, sizes):
    """A folder of pictures in two classes; pixels, labels and names in the order of the samples."""
    pictures = [random.integers(0, 256, (*size, 3), dtype=np.uint8) for size in sizes]
    names = [f"{'ab'[i * 2 // len(sizes)]}/{i:02}.png" for i in range(len(sizes))]
    for path, pixels in zip(names, pictures):
        save_png(folder / name / path, pixels)
    return pictures, [int(n[0] == "b") for n in names], names


def one_size():
    square, labels, names = make("square", [(24, 24)] * 9)
    run("convert", f"images:{folder}/square", folder / "square.zarr", "--size", "24", "--shard-size", "4096")
    group = zarr.open_group(folder / "square.zarr", mode="r")
    check(np.array_equal(group["image"][:], np.stack(square)), "pixels of one size")
    check(group["label"][:].tolist() == labels, "labels of pictures of one size")
    check(group["name"][:].tolist() == names, "names of pictures of one size")
    check(group.attrs["classes"] == ["a", "b"], "classes")
    return np.stack(square), labels


def ragged():
    pictures, labels, _ = make("own", [(20, 31), (44, 20), (20, 20), (20, 57), (33, 20)])
    run("convert", f"images:{folder}/own", folder / "own.zarr", "--short-side", "20", "--shard-size", "4096")
    group = zarr.open_group(folder / "own.zarr", mode="r")
    flat = group["bytes"][:]
    for i, (offset, shape) in enumerate(zip(group["offset"][:], group["shape"][:])):
        got = flat[offset:offset + shape.prod()].reshape(shape)
        check(np.array_equal(got, pictures[i]), f"pixels of picture {i} of its own shape")
    check(group["label"][:].tolist() == labels, "labels of pictures of their own shapes")


def foreign(pixels, labels):
    """What zarr-python packs is read as what we packed."""
    expected = hashes(f"images:{folder}/square.zarr")
    ways = [{"chunks": (1, 24, 24, 3), "shards": (4, 24, 24, 3), "compressors": None},
            {"chunks": (1, 24, 24, 3), "shards": (4, 24, 24, 3), "compressors": Crc32cCodec()},
            {"chunks": (2, 24, 24, 3), "shards": (4, 24, 24, 3)},
            {"chunks": (3, 24, 24, 3)}, {"chunks": (3, 24, 24, 3), "compressors": None}]
    for i, way in enumerate(ways):
        group = zarr.create_group(folder / f"foreign{i}.zarr", attributes={"classes": ["a", "b"]})
        group.create_array("image", data=pixels, **way)
        group.create_array("label", data=np.array(labels, "i4"))
        check(hashes(f"images:{folder}/foreign{i}.zarr") == expected, f"pictures that zarr-python packed as {way}")


square, labels = one_size()
ragged()
foreign(square, labels)
for problem in problems:
    print(problem, file=sys.stderr)
sys.exit(bool(problems))
