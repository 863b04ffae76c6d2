#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small odd pictures and what Pillow makes of them: tests/golden/images.

    make_image_golden.py [FOLDER]      needs NumPy and Pillow

Each line of golden.txt: file, width, height, components, channels, bit depth, progressive (0 or 1),
orientation, CRC-32 of the RGB bytes of Image.convert("RGB"), CRC-32 of the same turned upright by
ImageOps.exif_transpose(), CRC-32 of the values as stored, one byte each, where a picture can be a
mask, else 0. The pictures are drawn from a fixed seed. What Pillow does not write
(4:4:0, 4:1:1, YCCK, odd PNG) is made by changing headers or by the small writer of PNG below; Pillow
reads all of it.
"""
import io
import struct
import sys
import warnings
import zlib
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

warnings.simplefilter("ignore")
rng = np.random.default_rng(20240229)
SOF = {0xC0, 0xC1, 0xC2}


def photo(width, height, channels=3):
    """Smooth colours, an edge and some noise: what a photograph has."""
    y, x = np.mgrid[0:height, 0:width].astype(float)
    planes = []
    for c in range(channels):
        f = rng.uniform(0.02, 0.25, 4)
        plane = 128 + 70 * np.sin(f[0] * x + f[1] * y + c) + 40 * np.cos(f[2] * x - f[3] * y)
        plane += np.where(x * (c + 1) > y * 2 + 9 * c, 25, -25) + rng.normal(0, 6, plane.shape)
        planes.append(plane)
    return np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8).squeeze()


def jpeg(array, mode=None, **options):
    out = io.BytesIO()
    options.setdefault("quality", 85)
    Image.fromarray(array, mode).save(out, "JPEG", **options)
    return out.getvalue()


def edit_frame(data, change):
    """Apply change(bytearray of the SOF segment's content) to a JPEG."""
    data = bytearray(data)
    at = 2
    while data[at + 1] not in SOF:
        at += 2 + struct.unpack(">H", data[at + 2:at + 4])[0]
    end = at + 2 + struct.unpack(">H", data[at + 2:at + 4])[0]
    content = data[at + 4:end]
    change(content)
    data[at + 4:end] = content
    return bytes(data)


def resample(data, h, v, width, height):
    """Give the first component other factors; the number of blocks of all iMCUs must stay."""
    def change(frame):
        frame[1:5] = struct.pack(">HH", height, width)
        frame[7] = h << 4 | v
    return edit_frame(data, change)


def exif(orientation, big=False, kind=3, count=1):
    order = ">" if big else "<"
    entry = struct.pack(order + "HHI", 0x0112, kind, count) + struct.pack(order + "HH", orientation, 0)
    head = (b"MM\0*" if big else b"II*\0") + struct.pack(order + "I", 8)
    return b"Exif\0\0" + head + struct.pack(order + "H", 1) + entry + b"\0\0\0\0"


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def pack_row(samples, depth):
    if depth == 16:
        return samples.astype(">u2").tobytes()
    if depth == 8:
        return samples.astype(np.uint8).tobytes()
    bits = ((samples.reshape(-1, 1) >> np.arange(depth - 1, -1, -1)) & 1).astype(np.uint8)
    return np.packbits(bits).tobytes()


def filtered(rows, step):
    """All five filters of PNG in turn."""
    out, above = b"", None
    for i, row in enumerate(rows):
        kind = i % 5
        r = np.frombuffer(row, np.uint8).astype(int)
        up = np.frombuffer(above, np.uint8).astype(int) if above else np.zeros_like(r)
        left = np.concatenate([np.zeros(step, int), r])[:len(r)]
        corner = np.concatenate([np.zeros(step, int), up])[:len(r)]
        p = left + up - corner
        pa, pb, pc = abs(p - left), abs(p - up), abs(p - corner)
        paeth = np.where((pa <= pb) & (pa <= pc), left, np.where(pb <= pc, up, corner))
        base = (0, left, up, (left + up) // 2, paeth)[kind]
        out += bytes([kind]) + ((r - base) % 256).astype(np.uint8).tobytes()
        above = row
    return out


def png(array, depth, color, interlaced=False, before=b"", pieces=1):
    """`array` [height, width, samples]."""
    array = np.atleast_3d(array)
    height, width, samples = array.shape
    step = max(1, samples * depth // 8)
    if interlaced:
        parts = [array[y::dy, x::dx] for x, y, dx, dy in PASSES]
    else:
        parts = [array]
    data = b"".join(filtered([pack_row(row, depth) for row in part], step) for part in parts if part.size)
    data = zlib.compress(data, 9)
    cuts = [len(data) * i // pieces for i in range(pieces + 1)]
    head = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, int(interlaced))
    body = b"".join(chunk(b"IDAT", data[a:b]) for a, b in zip(cuts, cuts[1:]))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + before + body + chunk(b"IEND", b"")


def jpegs():
    p = photo(67, 53)
    yield "base_444.jpg", jpeg(p, subsampling=0)
    yield "base_422.jpg", jpeg(p, subsampling=1)
    yield "base_420.jpg", jpeg(p, subsampling=2)
    # 64 x 48 at 4:2:0 has 4 x 3 iMCUs of 16 x 16; at 4:1:1 they are 32 x 8. 4:4:0 comes from 4:2:2.
    yield "base_411.jpg", resample(jpeg(photo(64, 48), subsampling=2), 4, 1, 119, 23)
    yield "base_440.jpg", resample(jpeg(photo(64, 48), subsampling=1), 1, 2, 29, 90)
    yield "base_410.jpg", resample(jpeg(photo(64, 48), subsampling=2), 1, 4, 30, 93)
    yield "progressive_420.jpg", jpeg(p, subsampling=2, progressive=True)
    yield "progressive_444.jpg", jpeg(p, subsampling=0, progressive=True)
    yield "progressive_grey.jpg", jpeg(photo(50, 61, 1), progressive=True)
    yield "grey.jpg", jpeg(photo(67, 53, 1))
    yield "one.jpg", jpeg(photo(1, 1).reshape(1, 1, 3))
    yield "thin.jpg", jpeg(photo(1, 90).reshape(90, 1, 3), subsampling=2)
    yield "flat.jpg", jpeg(photo(90, 1).reshape(1, 90, 3), subsampling=2)
    yield "seven.jpg", jpeg(photo(7, 9), subsampling=2)
    yield "seventeen.jpg", jpeg(photo(17, 17), subsampling=2)
    yield "low_quality.jpg", jpeg(p, quality=5)
    yield "high_quality.jpg", jpeg(p, quality=100, subsampling=0)
    yield "optimized.jpg", jpeg(p, optimize=True)
    yield "restart.jpg", jpeg(p, subsampling=2, restart_marker_blocks=3)
    yield "restart_rows.jpg", jpeg(p, subsampling=1, restart_marker_rows=1)
    yield "restart_progressive.jpg", jpeg(p, progressive=True, restart_marker_blocks=2)
    cmyk = jpeg(photo(45, 38, 4), "CMYK", subsampling=0)
    yield "cmyk.jpg", cmyk
    yield "cmyk_progressive.jpg", jpeg(photo(45, 38, 4), "CMYK", progressive=True)
    at = cmyk.index(b"Adobe")
    yield "ycck.jpg", cmyk[:at + 11] + b"\2" + cmyk[at + 12:]
    yield "cmyk_no_adobe.jpg", cmyk[:at - 4] + cmyk[at + 12:]
    yield "rgb.jpg", jpeg(p, keep_rgb=True)
    yield "comment.jpg", jpeg(p, comment=b"FF D9 \xff\xd9 in a comment")
    yield "trailing.jpg", jpeg(p) + bytes(300) + b"notes of a camera"
    for i in range(1, 9):
        yield f"exif_{i}.jpg", jpeg(photo(40, 27), exif=exif(i, big=i % 2 == 0))
    yield "exif_9.jpg", jpeg(photo(20, 13), exif=exif(9))
    yield "exif_0.jpg", jpeg(photo(20, 13), exif=exif(0))
    yield "extended.jpg", jpeg(p).replace(b"\xff\xc0", b"\xff\xc1", 1)


def pngs():
    for depth in (1, 2, 4, 8, 16):
        grey = rng.integers(0, 2 ** depth, (23, 37), dtype=np.int64)
        yield f"grey_{depth}.png", png(grey, depth, 0)
        yield f"grey_{depth}_interlaced.png", png(grey, depth, 0, True)
    yield "grey_16_dark.png", png(rng.integers(0, 600, (23, 37)), 16, 0)
    for depth in (1, 2, 4, 8):
        n = 2 ** depth
        palette = chunk(b"PLTE", rng.bytes(3 * n))
        index = rng.integers(0, n, (23, 37), dtype=np.int64)
        yield f"palette_{depth}.png", png(index, depth, 3, before=palette)
    short = chunk(b"PLTE", rng.bytes(30))
    yield "palette_short.png", png(rng.integers(0, 256, (9, 20)), 8, 3, before=short)
    clear = chunk(b"tRNS", rng.bytes(10))
    yield "palette_clear.png", png(rng.integers(0, 10, (9, 20)), 8, 3, True, before=short + clear)
    yield "rgb_8.png", png(photo(61, 47), 8, 2, pieces=5)
    yield "rgb_8_interlaced.png", png(photo(61, 47), 8, 2, True)
    yield "rgb_8_clear.png", png(photo(20, 13), 8, 2, before=chunk(b"tRNS", struct.pack(">3H", 1, 2, 3)))
    wide = rng.integers(0, 65536, (19, 31, 4), dtype=np.int64)
    yield "rgb_16.png", png(wide[..., :3], 16, 2)
    yield "rgb_16_interlaced.png", png(wide[..., :3], 16, 2, True)
    yield "rgba_8.png", png(photo(31, 29, 4), 8, 6)
    yield "rgba_16.png", png(wide, 16, 6)
    yield "grey_alpha_8.png", png(photo(31, 29, 2), 8, 4)
    yield "grey_alpha_16.png", png(wide[..., :2], 16, 4, True)
    yield "one.png", png(np.array([[[1, 2, 3]]]), 8, 2, True)
    yield "thin.png", png(rng.integers(0, 2, (50, 1)), 1, 0, True)
    yield "exif_6.png", png(photo(20, 13), 8, 2, before=chunk(b"eXIf", exif(6)[6:]))
    gamma = chunk(b"gAMA", struct.pack(">I", 100000)) + chunk(b"sBIT", b"\5\6\5")
    yield "gamma.png", png(photo(20, 13), 8, 2, before=gamma)
    text = chunk(b"zTXt", b"note\0\0" + zlib.compress(bytes(4000)))
    yield "text.png", png(photo(20, 13), 8, 2, before=text)


def header(data):
    """Components, channels, bits and progressive as the file has them, read from its bytes."""
    if data[:2] == b"\xff\xd8":
        at = 2
        while data[at + 1] not in SOF:
            at += 2 + struct.unpack(">H", data[at + 2:at + 4])[0]
        n = data[at + 9]
        return n, 1 if n == 1 else 3, data[at + 4], int(data[at + 1] == 0xC2)
    color = data[25]
    components = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color]
    return components, {3: 3}.get(color, components), data[24], data[28]


def mask_sum(picture, depth):
    """Values as stored. Pillow stretches grey of 2 and 4 bits to a byte."""
    if picture.mode not in ("1", "L", "P") or depth > 8:
        return 0
    values = np.asarray(picture).astype(np.uint8)
    if picture.mode == "L":
        values = values // (255 // (2 ** depth - 1))
    return zlib.crc32(values.tobytes())


def main():
    root = Path(__file__).resolve().parent.parent
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else root / "tests/golden/images"
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, data in [*jpegs(), *pngs()]:
        (folder / name).write_bytes(data)
        picture = Image.open(io.BytesIO(data))
        orientation = picture.getexif().get(0x0112, 1)
        full = picture.convert("RGB").tobytes()
        upright = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB").tobytes()
        if orientation not in range(1, 9):
            orientation, upright = 1, full
        lines.append(" ".join(str(x) for x in (
            name, *picture.size, *header(data), orientation,
            f"{zlib.crc32(full):08x}", f"{zlib.crc32(upright):08x}",
            f"{mask_sum(picture, header(data)[2]):08x}")))
    (folder / "golden.txt").write_text("\n".join(lines) + "\n")
    print(f"{len(lines)} pictures in {folder}")


if __name__ == "__main__":
    main()
