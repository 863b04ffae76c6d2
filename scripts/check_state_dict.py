#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's models take the weights of a folder strictly: what tests/parity/nn/test_state_dict.c has written.

    check_state_dict.py FOLDER ROWS      resnet18 and sequential: NAME.safetensors, NAME.x and NAME.y (float32)
"""
import sys
from pathlib import Path

import numpy
import torch
import torchvision
from safetensors.torch import load_file
from torch import nn

TOLERANCE = 1e-4  # of sums in another order, through 18 layers


def main():
    folder, rows = Path(sys.argv[1]), int(sys.argv[2])
    models = {"resnet18": (torchvision.models.resnet18(num_classes=10), (3, 32, 32)),
              "sequential": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2)), (3, 8, 8))}
    for name, (model, shape) in models.items():
        model.load_state_dict(load_file(folder / f"{name}.safetensors"), strict=True)
        x, y = (numpy.fromfile(folder / f"{name}.{kind}", "<f4") for kind in "xy")
        with torch.no_grad():
            got = model.eval()(torch.from_numpy(x.reshape(rows, *shape))).numpy()
        worst = abs(got.ravel() - y).max() / max(1, abs(y).max())
        if not worst <= TOLERANCE:
            print(f"{name} differs by {worst}")
            return 1
    return 0


sys.exit(main())
