# SPDX-License-Identifier: Apache-2.0
"""Loaders that run in C: torchvision's pixels, and random transforms of the same distributions."""
import os
import tempfile
import unittest
from pathlib import Path

import numpy
import torch
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import transforms as v1
from torchvision.transforms import InterpolationMode, v2

from native_support import MEAN, STD, TO_FLOAT, Folder, cifar, mnist, native, picture


class Pixels(Folder):
    """Within the levels of docs/images.md."""

    CASES = {
        "crop": (v2.Compose([v2.ToImage(), v2.CenterCrop(64)]), 0),
        "crop beyond": (v2.Compose([v2.CenterCrop(300), v2.PILToTensor()]), 0),
        "resize": (v2.Compose([v2.Resize(70), v2.CenterCrop(64), v2.PILToTensor()]), 1),
        "resize of tensors": (v2.Compose([v2.ToImage(), v2.Resize(70), v2.CenterCrop(64)]), 1),
        "both sides": (v2.Compose([v2.Resize((50, 81)), v2.ToImage()]), 1),
        "larger": (v2.Compose([v2.Resize([250, 281]), v2.ToImage()]), 1),
        "max_size": (v2.Compose([v2.Resize(60, max_size=80), v2.CenterCrop(90), v2.ToImage()]), 1),
        "bicubic": (v2.Compose([v2.ToImage(), v2.Resize((50, 81), interpolation=InterpolationMode.BICUBIC)]), 1),
        "nearest": (v2.Compose([v2.Resize((50, 81), interpolation=InterpolationMode.NEAREST), v2.ToImage()]), 0),
        "a list": (v1.Compose([v1.Resize([60]), v1.CenterCrop((50, 40)), v1.PILToTensor()]), 1),
        "padded": (v1.Compose([v1.Resize((60, 60)), v1.Pad((1, 2, 3, 4), fill=9), v1.PILToTensor()]), 1),
        "a window": (v2.Compose([v2.CenterCrop(50), v2.RandomCrop(50), v2.PILToTensor()]), 0),
        "flips": (v2.Compose([v2.CenterCrop(50), v2.RandomHorizontalFlip(1), v2.RandomVerticalFlip(1.0), v2.ToImage()]), 0),
        "grey": (v2.Compose([v2.CenterCrop(50), v2.RandomGrayscale(1), v2.PILToTensor()]), 1),
        "rotation": (v2.Compose([v2.CenterCrop(50), v2.RandomRotation((33, 33)), v2.PILToTensor()]), 0),
        "blur": (v2.Compose([v2.CenterCrop(50), v2.ToImage(), v2.GaussianBlur(5, (1.5, 1.5))]), 1),
        "brightness": (v2.Compose([v2.CenterCrop(50), v2.ColorJitter((1.2, 1.2)), v2.PILToTensor()]), 0),
        "the whole box": (v2.Compose([v2.RandomResizedCrop(50, scale=(1, 1), ratio=(1e-3, 1e3)), v2.PILToTensor()]), 1),
        "floats": (v2.Compose([v2.Resize(70), v2.CenterCrop(64), v2.ToImage(), TO_FLOAT]), 1 / 255 + 1e-6),
        "ToTensor": (v1.Compose([v1.Resize(70), v1.CenterCrop(64), v1.ToTensor()]), 1 / 255 + 1e-6),
        "normalized": (v2.Compose([v2.Resize(70), v2.CenterCrop(64), v2.ToImage(), TO_FLOAT, v2.Normalize(MEAN, STD)]),
                       1 / 255 / min(STD) + 1e-5),
        "not erased": (v1.Compose([v1.CenterCrop(64), v1.ToTensor(), v1.RandomErasing(0)]), 0),
    }

    def test_pixels(self):
        for name, (transform, bound) in self.CASES.items():
            with self.subTest(name):
                dataset = self.images(transform)
                for a, b in zip(DataLoader(dataset, 9), native(DataLoader(dataset, 9, num_workers=1)), strict=True):
                    self.assertEqual((a[0].dtype, a[0].shape, type(a)), (b[0].dtype, b[0].shape, type(b)))
                    self.assertLessEqual((a[0].double() - b[0].double()).abs().max().item(), bound)
                    self.assertTrue(torch.equal(a[1], b[1]))
                    self.assertEqual(b[1].dtype, torch.int64)

    def same(self, dataset):
        for a, b in zip(DataLoader(dataset, 9), native(DataLoader(dataset, 9)), strict=True):
            self.assertTrue(torch.equal(a[0], b[0]))
            self.assertTrue(torch.equal(a[1], b[1]))

    def test_large_pictures_are_decoded_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(f"{folder}/a")
            picture(1600, 1200, 3).save(f"{folder}/a/0.jpg")
            dataset = self.images(v2.Compose([v2.Resize(100), v2.CenterCrop(90), v2.PILToTensor()]), folder)
            a, b = next(iter(DataLoader(dataset)))[0], next(native(DataLoader(dataset)))[0]
            self.assertLessEqual((a.int() - b.int()).abs().max(), 1)

    def test_edited_samples(self):
        dataset = self.images(v2.Compose([v2.CenterCrop(32), v2.PILToTensor()]))
        loader = DataLoader(dataset, 24)
        self.same(dataset)
        dataset.samples = [(path, 100 + i) for i, (path, _) in enumerate(dataset.samples[::-2])]
        self.same(dataset)
        next(native(loader))
        dataset.samples[2] = dataset.samples[0]
        self.assertTrue(torch.equal(next(native(loader))[1], next(iter(loader))[1]))
        self.assertTrue(torch.equal(next(native(loader))[0], next(iter(loader))[0]))

    def test_paths(self):
        """Links, relative paths, and names that a list would take apart."""
        with tempfile.TemporaryDirectory() as folder:
            names = ["plain.png", "a,b.png", 'quo"te.png', "#hash.png", " blank .png", "new\nline.png", "ümlaut.png",
                     os.fsdecode(b"\xff.png"), "up.PNG"]
            os.mkdir(f"{folder}/real")
            os.mkdir(f"{folder}/root")
            for i, name in enumerate(names):
                picture(40 + i, 40, i).save(f"{folder}/real/{name}", format="png")
            os.symlink("../real", f"{folder}/root/linked class")
            os.mkdir(f"{folder}/root/x")
            os.symlink(f"{folder}/real/plain.png", f"{folder}/root/x/link.png")
            transform = v2.Compose([v2.CenterCrop(32), v2.PILToTensor()])
            self.same(self.images(transform, f"{folder}/root"))
            before = os.getcwd()
            self.addCleanup(os.chdir, before)
            os.chdir(f"{folder}/real")
            for root in ("../root", "./../root/", "../real/..//root"):
                self.same(self.images(transform, root))

    def test_what_pillow_makes_of_pictures(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(f"{folder}/a")
            made = picture(60, 40, 1)
            exif = Image.Exif()
            exif[0x0112] = 6
            made.save(f"{folder}/a/turned.jpg", exif=exif)
            made.convert("L").save(f"{folder}/a/grey.jpg")
            made.convert("CMYK").save(f"{folder}/a/cmyk.jpg")
            made.convert("P").save(f"{folder}/a/palette.png")
            made.convert("RGBA").save(f"{folder}/a/alpha.png")
            made.convert("1").save(f"{folder}/a/bits.png")
            made.save(f"{folder}/a/progressive.jpg", progressive=True)
            made.save(f"{folder}/a/really_png.jpg", format="png")
            self.same(self.images(v2.Compose([v2.CenterCrop(80), v2.PILToTensor()]), folder))

    def test_a_damaged_picture(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(f"{folder}/a")
            picture(60, 40, 1).save(f"{folder}/a/0.jpg")
            data = Path(f"{folder}/a/0.jpg").read_bytes()
            Path(f"{folder}/a/0.jpg").write_bytes(data[: len(data) // 2])
            with self.assertRaises(OSError):
                next(iter(DataLoader(self.images(v1.Compose([v1.CenterCrop(30), v1.ToTensor()]), folder))))
            with self.assertRaisesRegex(Exception, "a/0.jpg") as caught:
                next(native(DataLoader(self.images(v1.Compose([v1.CenterCrop(30), v1.ToTensor()]), folder))))
            self.assertIn("native=False", "".join(caught.exception.__notes__))


class Draws(Folder):
    """Random transforms draw from the same distributions, anew in each epoch."""

    def boxes(self, transform, begin, epochs=12):
        """(left, top, width, height) that a picture of coordinates shows of each sample."""
        y, x = numpy.mgrid[0:200, 0:200].astype("u1")
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(f"{folder}/a")
            Image.fromarray(numpy.stack([x, y, 0 * x], -1)).save(f"{folder}/a/0.png")
            dataset = self.images(v2.Compose([transform, v2.PILToTensor()]), folder)
            dataset.samples = dataset.samples * 200
            torch.manual_seed(7)
            loader = DataLoader(dataset, 100)
            found = []
            for _ in range(epochs):
                for [pictures, _] in begin(loader):
                    low, high = pictures.amin((2, 3)).double(), pictures.amax((2, 3)).double()
                    found.append(torch.cat([low[:, :2], (high - low)[:, :2]], 1))
            return torch.cat(found)

    def alike(self, transform):
        ours, theirs = self.boxes(transform, native), self.boxes(transform, iter)
        self.assertGreater(len(torch.unique(ours, dim=0)), len(ours) // 4)
        for column in range(4):
            a, b = ours[:, column].sort().values, theirs[:, column].sort().values
            grid = torch.cat([a, b])
            distance = (torch.searchsorted(a, grid, right=True) - torch.searchsorted(b, grid, right=True)).abs().max() / len(a)
            # Kolmogorov and Smirnov: 1.95 sqrt(2 / n) is passed by one run of a thousand
            self.assertLess(distance, 1.95 * (2 / len(a)) ** 0.5, column)

    def test_boxes(self):
        self.alike(v2.RandomResizedCrop(32, scale=(0.1, 0.6), ratio=(0.5, 1.5)))
        self.alike(v2.RandomResizedCrop((24, 48)))

    def test_windows(self):
        self.alike(v2.RandomCrop(60))

    def test_flips(self):
        for p in (0.5, 0.2):
            dataset = mnist(4000, transform=v2.Compose([v2.RandomHorizontalFlip(p), v2.PILToTensor()]))
            got = torch.cat([batch[0][:, 0].clone() for batch in native(DataLoader(dataset, 100))])
            flipped = (got == dataset.data.flip(2)).all((1, 2))
            self.assertTrue((flipped | (got == dataset.data).all((1, 2))).all())
            self.assertAlmostEqual(flipped.double().mean().item(), p, delta=5 * (p * (1 - p) / 4000) ** 0.5)

    def test_seeds(self):
        dataset = cifar(40, transform=v2.Compose([v2.RandomCrop(32, padding=4), v2.PILToTensor()]))

        def epochs(seed, workers, **options):
            torch.manual_seed(seed)
            loader = DataLoader(dataset, 8, num_workers=workers, **options)
            return [torch.cat([batch[0].clone() for batch in native(loader)]) for _ in range(3)]
        one = epochs(1, 0)
        for workers in (1, 3):
            for a, b in zip(one, epochs(1, workers)):
                self.assertTrue(torch.equal(a, b))
        self.assertFalse(torch.equal(one[0], one[1]))
        self.assertFalse(torch.equal(one[0], epochs(2, 0)[0]))
        lasting = epochs(1, 2, persistent_workers=True)
        self.assertTrue(torch.equal(lasting[0], one[0]))
        self.assertFalse(torch.equal(lasting[1], lasting[0]))
        self.assertFalse(torch.equal(lasting[2], lasting[1]))


if __name__ == "__main__":
    unittest.main()
