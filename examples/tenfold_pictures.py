#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Digits as coloured PNG files of 448 x 448, a folder for each class: tenfold_pictures.py IDX_FOLDER OUT

IDX_FOLDER is what `stoker convert digits: IDX_FOLDER` writes; MNIST's own four files do as well.
"""
import struct
import sys
import zlib
from pathlib import Path

TIMES = 16  # as large as the original
WHITE = (250, 240, 230)


def chunk(name, data):
    body = name + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))


def png(pixels, side, ink):
    """Grey values 0..255 as the share of a colour on paper; each pixel a square."""
    colour = [bytes(w + (i - w) * v // 255 for w, i in zip(WHITE, ink)) for v in range(256)]
    rows = []
    for y in range(side):
        row = b"".join(colour[v] * TIMES for v in pixels[y * side:(y + 1) * side])
        rows += [b"\0" + row] + [b"\2" + bytes(len(row))] * (TIMES - 1)  # like the row above
    head = struct.pack(">IIBBBBB", side * TIMES, side * TIMES, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"".join(rows), 1))
            + chunk(b"IEND", b""))


def main(folder, out):
    images = (Path(folder) / "train-images-idx3-ubyte").read_bytes()
    labels = (Path(folder) / "train-labels-idx1-ubyte").read_bytes()[8:]
    count, side = struct.unpack(">II", images[4:12])
    for i in range(count):
        to = Path(out) / str(labels[i]) / f"{i:05d}.png"
        to.parent.mkdir(parents=True, exist_ok=True)
        at = 16 + i * side * side
        to.write_bytes(png(images[at:at + side * side], side, (37 * i % 160, 71 * i % 160, 113 * i % 160)))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
