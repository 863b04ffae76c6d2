#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Pillow makes of drawn pictures when it resizes them: tests/golden/transform/resize.txt and resize.u8.

    make_resize_golden.py [FOLDER]      needs NumPy and Pillow

Each line of resize.txt: filter (0 nearest, 1 bilinear, 2 bicubic, 3 box), kind of picture, bytes of a pixel,
width, height, box (left top right bottom), width and height of the result. resize.u8 has the results one after
the other. The pictures are a formula, written once more in test_resize.c.

A box is cut out first (to whole pixels, with crop()) and the rest given as `box` to resize(): pixels beyond it do
not count. The rows are resized before the columns, in two calls: so do Pillow's versions before 13 in one, and
version 13 where that is the cheaper order. Each byte of a pixel is a picture of its own, so that nothing is done
for the sake of alpha.
"""
import math
import sys
from pathlib import Path

import numpy as np
from PIL import Image

FILTERS = [Image.NEAREST, Image.BILINEAR, Image.BICUBIC, Image.BOX]
NOISE, EDGES, WAVES = range(3)
# kind, bytes of a pixel, width, height, box or None for all, width and height of the result
CASES = [
    (NOISE, 4, 33, 28, None, 22, 22),
    (WAVES, 4, 50, 37, None, 22, 22),
    (EDGES, 4, 15, 15, None, 22, 22),
    (NOISE, 3, 41, 23, (3, 4, 36, 21), 20, 14),
    (WAVES, 3, 60, 60, (7.5, 3.25, 55.75, 41.5), 24, 20),
    (NOISE, 1, 64, 48, (10.125, 0, 64, 30.5), 17, 19),
    (EDGES, 1, 9, 9, (2.25, 2.5, 6.5, 6.75), 40, 31),
    (NOISE, 2, 20, 30, None, 11, 7),
    (NOISE, 3, 16, 16, None, 16, 16),
    (NOISE, 4, 16, 16, (1, 2, 13, 14), 12, 12),
    (NOISE, 3, 100, 1, None, 9, 3),
    (NOISE, 1, 1, 100, None, 3, 9),
    (NOISE, 4, 1, 1, None, 5, 5),
    (EDGES, 3, 200, 150, None, 1, 1),
    (NOISE, 4, 12, 12, (5.25, 5.5, 5.75, 5.625), 4, 4),
    (NOISE, 1, 10, 10, (5.875, 4.75, 6.25, 7.125), 6, 5),
    (WAVES, 3, 400, 6, None, 13, 40),
    (EDGES, 4, 6, 400, None, 40, 13),
    (NOISE, 3, 6, 6, None, 5, 5),
    (NOISE, 1, 2, 2, None, 57, 1),
    (WAVES, 4, 300, 5, (0.5, 0.5, 299.5, 4.5), 3, 3),
    (NOISE, 1, 5, 9000, None, 4, 3),
    (WAVES, 4, 3, 5000, (0, 10.5, 3, 4990.25), 2, 9),
]


def picture(kind, channels, width, height):
    """The formula: 32-bit unsigned arithmetic."""
    y, x, c = np.mgrid[0:height, 0:width, 0:channels].astype(np.uint32)
    if kind == EDGES:
        return ((x // 5 + y // 3 + c) % 2 * 255).astype(np.uint8)
    if kind == WAVES:
        wave = (x * 11 + y * 7 + c * 150) % 510
        return np.where(wave < 256, wave, 510 - wave).astype(np.uint8)
    h = x * np.uint32(374761393) + y * np.uint32(668265263) + c * np.uint32(2246822519)
    h = (h ^ (h >> 13)) * np.uint32(1274126177)
    return (h ^ (h >> 16)).astype(np.uint8)


def resized(plane, how, box, width, height):
    image = Image.fromarray(plane)
    left, top = math.floor(box[0]), math.floor(box[1])
    image = image.crop((left, top, math.ceil(box[2]), math.ceil(box[3])))
    box = (box[0] - left, box[1] - top, box[2] - left, box[3] - top)
    if how == Image.NEAREST:
        return np.asarray(image.resize((width, height), how, box))
    image = image.resize((width, image.height), how, (box[0], 0, box[2], image.height))
    return np.asarray(image.resize((width, height), how, (0, box[1], width, box[3])))


def main(folder):
    lines, results = [], []
    for kind, channels, width, height, box, out_width, out_height in CASES:
        array = picture(kind, channels, width, height)
        box = box or (0, 0, width, height)
        for number, how in enumerate(FILTERS):
            planes = [resized(np.ascontiguousarray(array[:, :, c]), how, box, out_width, out_height)
                      for c in range(channels)]
            results.append(np.stack(planes, -1).tobytes())
            values = (number, kind, channels, width, height, *box, out_width, out_height)
            lines.append(" ".join(f"{v:g}" for v in values) + "\n")
    (folder / "resize.txt").write_text("".join(lines))
    (folder / "resize.u8").write_bytes(b"".join(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "tests/golden/transform")
