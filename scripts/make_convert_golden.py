#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/convert: pictures of tests/golden/images packed again by Pillow.

    python3 scripts/make_convert_golden.py        writes the files (needs Pillow)
    python3 scripts/make_convert_golden.py SRC OUT MAX_SIDE QUALITY [UPRIGHT]
                                                  compares a folder that `stoker convert` wrote with Pillow's work

Each file is named SIDE_NAME.jpg: SIDE is --max-side, 0 where the picture keeps its size. Quality 90, 4:2:0, optimised.
"""
import io
import math
import sys
from pathlib import Path

from PIL import Image, ImageOps

ROOT = Path(__file__).resolve().parent.parent
PICTURES = [
    (0, "cmyk.jpg"), (0, "ycck.jpg"), (0, "cmyk_progressive.jpg"), (0, "rgb_8.png"), (0, "grey_8.png"),
    (0, "rgb_8_interlaced.png"), (20, "base_444.jpg"), (24, "base_420.jpg"), (17, "rgb.jpg"), (20, "grey.jpg"),
    (24, "rgb_8.png"), (16, "progressive_420.jpg"), (20, "cmyk.jpg"), (5, "thin.jpg"),
]


def fit(size, max_side):
    """torchvision.transforms.Resize(None, max_size=max_side) where it shrinks; else the same size."""
    longer, shorter = max(size), min(size)
    if not max_side or longer <= max_side:
        return size
    side = max(int(max_side * shorter / longer), 1)
    return (max_side, side) if size[0] >= size[1] else (side, max_side)


def plain(picture):
    return picture if picture.mode == "L" else picture.convert("RGB")


def resized(picture, max_side):
    size = fit(picture.size, max_side)
    return picture if size == picture.size else picture.resize(size, Image.Resampling.BILINEAR)


def packed(picture, quality):
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=quality, subsampling=2, optimize=True)
    return out.getvalue()


def write():
    folder = ROOT / "tests/golden/convert"
    for side, name in PICTURES:
        picture = plain(Image.open(ROOT / "tests/golden/images" / name))
        data = packed(resized(picture, side), 90)
        (folder / f"{side}_{Path(name).stem}_{Path(name).suffix[1:]}.jpg").write_bytes(data)


def psnr(a, b):
    a, b = a.convert("RGB").tobytes(), b.convert("RGB").tobytes()
    error = sum((x - y) ** 2 for x, y in zip(a, b)) / len(a)
    return 99.0 if error == 0 else 10 * math.log10(255 * 255 / error)


def compare(source, target, max_side, quality, upright):
    worst = 0.0
    kinds = {"copied": 0, "rewritten": 0, "encoded": 0, "kept": 0}
    for path in sorted(p for p in source.rglob("*") if p.is_file() and not p.name.startswith(".")):
        to = target / path.relative_to(source)
        to = to if to.exists() else to.with_suffix(".jpg")
        before, after = Image.open(path), Image.open(to)
        before.load()
        after.load()
        if path.read_bytes() == to.read_bytes():
            kinds["kept" if before.format == "PNG" else "copied"] += 1
            assert before.format == "PNG" or max(before.size) <= (max_side or 1 << 30)
            assert before.format == "PNG" or not before.info.get("progressive"), path
            continue
        assert after.format == "JPEG" and not after.info.get("progressive"), to
        wanted = resized(plain(before), max_side)
        if before.format == "JPEG" and after.size == before.size and \
                after.convert("RGB").tobytes() == before.convert("RGB").tobytes():
            kinds["rewritten"] += 1
            continue
        kinds["encoded"] += 1
        if upright:
            wanted = resized(ImageOps.exif_transpose(plain(before)), max_side)
            assert after.getexif().get(0x112, 1) == 1
        else:
            assert after.getexif().get(0x112, 1) == before.getexif().get(0x112, 1) or \
                before.getexif().get(0x112) not in range(1, 9), path
        assert after.size == wanted.size, (path, after.size, wanted.size)
        theirs = psnr(wanted, Image.open(io.BytesIO(packed(wanted, quality))))
        ours = psnr(wanted, after)
        worst = max(worst, theirs - ours)
    print(f"{kinds}; PSNR against Pillow's resize at most {worst:.2f} dB below that of Pillow's own file")
    return 0 if worst < 0.5 else 1


if __name__ == "__main__":
    if len(sys.argv) == 1:
        write()
    else:
        sys.exit(compare(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), len(sys.argv) > 5))
