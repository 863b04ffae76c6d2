#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/golden/transform with torch and torchvision: what their transforms make of two small pictures.

usage: make_transform_golden.py FOLDER

Raw arrays in C order, little endian; the shapes stand here and in tests/golden/transform/test_torchvision.c.
Written with torch 2.x and torchvision 0.x; the values do not depend on the version.
"""
import pathlib
import sys

import numpy as np
import torch
from torchvision.transforms import functional as F

HEIGHT, WIDTH = 19, 23
PRESETS = {
    "mnist": ((0.1307,), (0.3081,)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}
# left, top, right, bottom; fill; top and left of the crop in the padded picture; height, width; mirrored
CROPS = [((0, 0, 0, 0), 0, 3, 5, 16, 16, False), ((4, 4, 4, 4), 0, 8, 8, 19, 23, True),
         ((1, 2, 3, 4), 117, 0, 0, 25, 20, True), ((9, 9, 9, 9), 255, 18, 17, 19, 23, False)]


def main(folder: pathlib.Path) -> None:
    random = np.random.default_rng(20240607)
    picture = random.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    ramp = np.arange(256, dtype=np.uint8).reshape(16, 16, 1)
    floats = random.normal(0, 3, (HEIGHT, WIDTH, 3)).astype(np.float32)

    def write(name, array):
        np.ascontiguousarray(array).tofile(folder / name)

    write("picture.u8", picture)
    write("floats.f32", floats)
    write("to_float.f32", F.to_tensor(picture).numpy())
    for name, (mean, std) in PRESETS.items():
        source = ramp if len(mean) == 1 else picture
        write(f"normalize_{name}.f32", F.normalize(F.to_tensor(source), mean, std).numpy())
    write("normalize_floats.f32",
          F.normalize(torch.from_numpy(floats).permute(2, 0, 1), (0.5, -1.25, 2.0), (0.3, 1.7, 5.0)).numpy())
    chw = torch.from_numpy(picture).permute(2, 0, 1)
    for i, (padding, fill, top, left, height, width, flip) in enumerate(CROPS):
        out = F.crop(F.pad(chw, list(padding), fill), top, left, height, width)
        write(f"crop{i}.u8", (F.hflip(out) if flip else out).permute(1, 2, 0).contiguous().numpy())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
