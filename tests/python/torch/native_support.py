# SPDX-License-Identifier: Apache-2.0
"""Datasets of torchvision's classes, made up, for the tests of loaders that run in C."""
import tempfile
import unittest
from pathlib import Path

import numpy
import torch
import torchvision
from PIL import Image
from torch.utils.data import Sampler
from torchvision.transforms import v2

from stoker.torch import _native

RANDOM = numpy.random.default_rng(5)
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
TO_FLOAT = v2.ToDtype(torch.float32, scale=True)


def native(loader):
    """Its epoch by C."""
    plan = _native.plan(loader)
    assert not isinstance(plan, str), plan
    return plan(None)


def picture(width, height, seed):
    """Smooth colours with edges in them."""
    random = numpy.random.default_rng(seed)
    y, x = numpy.mgrid[0:height, 0:width]
    waves = [127 + 120 * numpy.sin(random.uniform(0.01, 0.2) * x + random.uniform(0.01, 0.2) * y + c) for c in range(3)]
    pixels = numpy.stack(waves, -1).astype("u1")
    pixels[height // 3 : height // 2, width // 4 : width // 2] = random.integers(0, 256, 3)
    return Image.fromarray(pixels)


class Folder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.root = Path(cls.folder.name) / "pictures"
        for i in range(24):
            where = cls.root / f"class {i % 3}"
            where.mkdir(parents=True, exist_ok=True)
            made = picture(90 + 7 * i, 150 - 3 * i, i)
            made.save(where / (f"{i}.png" if i % 4 == 1 else f"{i}.jpg"))

    def images(self, transform, root=None):
        return torchvision.datasets.ImageFolder(str(root or self.root), transform)


def pictures(count, side=8, channels=3):
    return RANDOM.integers(0, 256, (count, side, side, channels), "u1")


def mnist(count=60, kind=torchvision.datasets.MNIST, transform=None):
    """One without its files."""
    made = kind.__new__(kind)
    made.data = torch.from_numpy(RANDOM.integers(0, 256, (count, 28, 28), "u1"))
    made.targets = torch.from_numpy(RANDOM.integers(0, 10, count))
    made.transform, made.target_transform = transform, None
    return made


def cifar(count=60, kind=torchvision.datasets.CIFAR10, transform=None):
    made = kind.__new__(kind)
    made.data = RANDOM.integers(0, 256, (count, 3, 32, 32), "u1").transpose(0, 2, 3, 1)
    made.targets = RANDOM.integers(0, 10, count).tolist()
    made.transform, made.target_transform = transform, None
    return made


class Eager(Sampler):
    """It draws when it is asked for an iterator."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __iter__(self):
        return iter(torch.randperm(self.n).tolist())


class Uneven(Sampler):
    """Batches of all sizes."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return 4

    def __iter__(self):
        order = torch.randperm(self.n).tolist()
        yield from (order[:3], order[3:14], order[14:15], tuple(order[15:20]))


class Infinite(Sampler):
    """Without end, though it has a length, as those of mmengine; `asked`: how many indices it has given."""

    def __init__(self, n):
        self.n, self.asked = n, 0

    def __len__(self):
        return self.n

    def __iter__(self):
        generator = torch.Generator().manual_seed(5)
        while True:
            for index in torch.randperm(self.n, generator=generator).tolist():
                self.asked += 1
                assert self.asked <= 20 * self.n, "asked for far more than was taken"
                yield index
