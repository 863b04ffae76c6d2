#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/golden/transform/{pictures,boxes}.bin with Pillow and torchvision: what becomes of the pictures in
tests/golden/images when they are decoded, cropped and resized, and the boxes of RandomResizedCrop for given draws.

usage: make_picture_golden.py ROOT          (needs numpy, Pillow, torch, torchvision)

pictures.bin: records of a name[32], a text of transforms[96] ("": the box that follows), int32 x, y, width, height,
out_width, out_height, filter, 0, then out_height * out_width * 3 bytes. boxes.bin: records of 22 uint32 draws, int32
width, height of the picture and top, left, height, width of the box.
"""
import pathlib
import struct
import sys

import numpy as np
import torch
from PIL import Image, ImageOps
from torchvision import transforms
from torchvision.transforms import RandomResizedCrop

FILTERS = [Image.Resampling.BILINEAR, Image.Resampling.BICUBIC, Image.Resampling.BOX, Image.Resampling.NEAREST]
TEXTS = [
    ("decode(dct_scaling=off), resize(20), center_crop(16)",
     [transforms.Resize(20), transforms.CenterCrop(16)], False),
    ("decode(dct_scaling=off), resize(14x18)", [transforms.Resize((14, 18))], False),
    ("decode(dct_scaling=off), center_crop(31x24)", [transforms.CenterCrop((31, 24))], False),
    ("decode(dct_scaling=off), resize(24, max_size=30), center_crop(20)",
     [transforms.Resize(24, max_size=30), transforms.CenterCrop(20)], False),
    ("decode(dct_scaling=off), resize(16x20), horizontal_flip(1), vertical_flip(1)",
     [transforms.Resize((16, 20)), transforms.RandomHorizontalFlip(1), transforms.RandomVerticalFlip(1)], False),
    ("decode(off, exif_orientation=true), resize(18x22)", [transforms.Resize((18, 22))], True),
    ("decode(off, exif_orientation=true), center_crop(12x16)", [transforms.CenterCrop((12, 16))], True),
]


def record(name, text, box, size, number, picture):
    return struct.pack("<32s96s8i", name.encode(), text.encode(), *box, *size, number, 0) + np.asarray(picture).tobytes()


def resize(image, size, number):
    """Rows first: Pillow 13 chooses the order by cost, and bicubic clips what overshoots between the passes."""
    return image.resize((size[0], image.height), number).resize(size, number)


def pictures(folder):
    random = np.random.default_rng(224)
    for i, path in enumerate(sorted(p for p in folder.iterdir() if p.suffix in (".jpg", ".png"))):
        stored = Image.open(path)
        image = stored.convert("RGB")
        width, height = image.size
        for k in range(2):
            w, h = int(random.integers(1, width + 1)), int(random.integers(1, height + 1))
            x, y = int(random.integers(0, width - w + 1)), int(random.integers(0, height - h + 1))
            size = int(random.integers(1, 15)), int(random.integers(1, 13))
            number = (i + k) % 4
            yield record(path.name, "", (x, y, w, h), size, number,
                         resize(image.crop((x, y, x + w, y + h)), size, FILTERS[number]))
        text, steps, upright = TEXTS[5 + i % 2] if path.name.startswith("exif") else TEXTS[i % 5]
        out = ImageOps.exif_transpose(stored).convert("RGB") if upright else image
        for step in steps:
            out = step(out)
        yield record(path.name, text, (0, 0, 0, 0), out.size, 0, out)


class Given:
    """torch's draws, given: uniform_() as float32 does it, randint() by multiplication."""

    def __init__(self, words):
        self.uniform, self.places = [np.float32(w >> 8) * np.float32(2**-24) for w in words[:20]], words[20:]

    def __enter__(self):
        self.saved = torch.Tensor.uniform_, torch.randint

        def uniform_(tensor, low=0.0, high=1.0):
            low, high = np.float32(float(low)), np.float32(float(high))
            tensor.fill_(float(self.uniform.pop(0) * (high - low) + low))
            return tensor

        def randint(low, high, size):
            return torch.tensor([low + (self.places.pop(0) * (high - low) >> 32)])

        torch.Tensor.uniform_, torch.randint = uniform_, randint
        return self

    def __exit__(self, *_):
        torch.Tensor.uniform_, torch.randint = self.saved


def boxes():
    random = np.random.default_rng(10)
    for i in range(1500):
        words = [int(w) for w in random.integers(0, 2**32, 22)]
        # Now and then words at the ends of the range, and shapes that force the box in the middle.
        if i % 10 == 0:
            words[:4] = [0, 2**32 - 1, 2**32 - 1, 0]
        width, height = [(500, 375), (375, 500), (1, 400), (400, 1), (3, 2), (1000, 40), (64, 64),
                         (int(random.integers(1, 3000)), int(random.integers(1, 3000)))][i % 8]
        with Given(words):
            top, left, h, w = RandomResizedCrop.get_params(torch.empty(3, height, width), [0.08, 1.0], [3 / 4, 4 / 3])
        yield struct.pack("<22I6i", *words, width, height, int(top), int(left), int(h), int(w))


def main(root):
    out = root / "tests/golden/transform"
    (out / "pictures.bin").write_bytes(b"".join(pictures(root / "tests/golden/images")))
    (out / "boxes.bin").write_bytes(b"".join(boxes()))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
