#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/golden/transform/colour_* with torchvision and Pillow: what their transforms make of one small picture.

usage: make_colour_golden.py FOLDER

Raw pictures in C order, one after the other in the order of the lists here, which stand in
tests/golden/transform/test_colour.c once more. Written with torch 2.15, torchvision 0.29 and Pillow 13.0.
"""
import math
import pathlib
import sys
from unittest import mock

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms.v2 import functional as F

HEIGHT, WIDTH = 29, 23
FACTORS = (0.0, 0.35, 0.9, 1.1, 1.7)
HUES = (-0.5, -0.21, 0.04, 0.33)
# Order of brightness 0, contrast 1, saturation 2, hue 3; their factors.
CHAINS = (((0, 1, 2), (1.3, 0.7, 1.4)), ((2, 1, 0), (0.8, 1.6, 0.5)), ((1, 0, 2), (1.2, 1.2, 0.0)))
BLURS = ((3, 3, 0.1), (5, 5, 0.8), (9, 3, 2.0), (23, 23, 1.7), (1, 7, 5.0))
ANGLES = (7.0, -15.5, 44.0, 90.0, 133.7, 180.0, -300.25)
FILL = (10, 120, 250)
MAGNITUDES = ((9, False), (9, True), (30, False))
ERASE_CASES = 64


def moved(picture: Image.Image):
    for angle in ANGLES:
        for resample in (Image.Resampling.NEAREST, Image.Resampling.BILINEAR):
            yield picture.rotate(angle, resample, fillcolor=FILL)


def jittered(picture: Image.Image):
    for adjust in (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation):
        for factor in FACTORS:
            yield adjust(picture, factor)
    adjusts = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation)
    for order, factors in CHAINS:
        out = picture
        for step in order:
            out = adjusts[step](out, factors[step])
        yield out
    yield F.rgb_to_grayscale(picture, num_output_channels=3)


def augmented(picture: Image.Image):
    transform = v2.RandAugment(fill=list(FILL))
    for magnitude, negative in MAGNITUDES:
        for name, (magnitudes, signed) in v2.RandAugment._AUGMENTATION_SPACE.items():
            table = magnitudes(31, HEIGHT, WIDTH)
            strength = 0.0 if table is None else float(table[magnitude]) * (-1 if signed and negative else 1)
            yield transform._apply_image_or_video_transform(picture, name, strength, InterpolationMode.NEAREST,
                                                            transform._fill)


class Uniforms:
    """Stands for the tensors that RandomErasing draws: each draw takes the next given number."""

    def __init__(self, numbers):
        self.numbers = list(numbers)

    def empty(self, *_):
        return self

    def uniform_(self, low, high):
        return torch.tensor([float(low) + (float(high) - float(low)) * self.numbers.pop(0)], dtype=torch.float64)


def erase_box(words, height, width):
    """torchvision's own loop over the uniforms of `words`: row, column, height and width, or four times -1."""
    transform = v2.RandomErasing(p=1)
    # In double, as its definition; torch takes the logarithms in float32.
    transform._log_ratio = torch.log(torch.tensor(transform.ratio, dtype=torch.float64))
    uniforms = Uniforms(word / 2**32 for word in words[:20])
    places = [int(word) for word in words[20:]]

    def randint(low, high, size):
        return torch.tensor([low + places.pop(0) * (high - low) // 2**32])

    picture = torch.zeros(3, height, width)
    with mock.patch.object(torch, "empty", uniforms.empty), mock.patch.object(torch, "randint", randint):
        params = transform.make_params([picture])
    return (-1, -1, -1, -1) if params["v"] is None else tuple(params[key] for key in "ijhw")


def main(folder: pathlib.Path) -> None:
    random = np.random.default_rng(20240608)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    # Smooth with some noise, and all of the circle of hues; its upper left is noise alone.
    waves = [128 + 100 * np.sin(x / (3 + c) + y / (9 - 2 * c) + 2 * math.pi * c / 3) for c in range(3)]
    array = np.clip(np.stack(waves, -1) + random.normal(0, 6, (HEIGHT, WIDTH, 3)), 0, 255).astype(np.uint8)
    array[:12, :12] = random.integers(0, 256, (12, 12, 3))
    picture = Image.fromarray(array)
    tensor = torch.from_numpy(array).permute(2, 0, 1)

    def write(name, pictures):
        np.stack([np.asarray(p) for p in pictures]).astype(np.uint8).tofile(folder / name)

    def interleaved(planar):
        return planar.permute(1, 2, 0).numpy()

    write("colour_picture.u8", [picture])
    write("colour_jitter.u8", jittered(picture))
    write("colour_hue.u8", [interleaved(F.adjust_hue(tensor, hue)) for hue in HUES])
    write("colour_blur.u8", [interleaved(F.gaussian_blur(tensor, [width, height], [sigma, sigma]))
                             for width, height, sigma in BLURS])
    write("colour_rotation.u8", moved(picture))
    write("colour_augment.u8", augmented(picture))
    words = random.integers(0, 2**32, (ERASE_CASES, 22), dtype=np.uint32)
    sizes = random.integers(2, 300, (ERASE_CASES, 2))
    sizes[-4:] = (1, 40), (40, 1), (2, 200), (500, 3)
    boxes = [erase_box(words[i], int(sizes[i][0]), int(sizes[i][1])) for i in range(ERASE_CASES)]
    rows = np.concatenate([words.view(np.int32), sizes.astype(np.int32), np.array(boxes, np.int32)], axis=1)
    rows.astype("<i4").tofile(folder / "colour_boxes.i32")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
