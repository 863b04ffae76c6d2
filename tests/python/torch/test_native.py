# SPDX-License-Identifier: Apache-2.0
"""Loaders that run in C: PyTorch's order, torchvision's pixels, and a reason where Python has to do it."""
import gc
import os
import tempfile
import unittest
import warnings
import weakref
from pathlib import Path

import numpy
import torch
import torchvision
from PIL import Image
from torch.utils.data import (BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler, Sampler, SequentialSampler,
                              Subset, SubsetRandomSampler, TensorDataset, WeightedRandomSampler)
from torch.utils.data.distributed import DistributedSampler
from torchvision import transforms as v1
from torchvision.transforms import InterpolationMode, v2

from stoker.torch import _native

RANDOM = numpy.random.default_rng(5)
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
TO_FLOAT = v2.ToDtype(torch.float32, scale=True)


def native(loader):
    """Its epoch by C."""
    plan = _native.plan(loader)
    assert not isinstance(plan, str), plan
    return plan()


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
        return 3

    def __iter__(self):
        order = torch.randperm(self.n).tolist()
        yield from (order[:3], order[3:14], order[14:15], tuple(order[15:20]))


class Order(unittest.TestCase):
    def setUp(self):
        self.data = TensorDataset(torch.arange(100.0).reshape(50, 2), torch.arange(50))

    def run_of(self, make, begin, epochs=3):
        """All batches of some epochs, and what is drawn behind them."""
        torch.manual_seed(11)
        loader, generator = make()
        seen = []
        for epoch in range(epochs):
            if isinstance(loader.sampler, DistributedSampler):
                loader.sampler.set_epoch(epoch)
            for i, batch in enumerate(begin(loader)):
                seen.append([part.tolist() for part in batch])
                if epoch == 1 and i == 2 and loader.generator is None:
                    break
            seen.append(torch.randint(1 << 40, (1,)).item())
        if generator is not None:
            seen.append(torch.randint(1 << 40, (1,), generator=generator).item())
        return seen

    def same(self, make, **options):
        self.assertEqual(self.run_of(make, native, **options), self.run_of(make, iter, **options))

    def test_as_pytorch_draws(self):
        data = self.data
        part = Subset(data, list(range(49, -1, -2)))
        cases = {
            "plain": lambda: dict(dataset=data), "shuffled": lambda: dict(dataset=data, shuffle=True),
            "short one dropped": lambda: dict(dataset=data, shuffle=True, drop_last=True),
            "one batch": lambda: dict(dataset=data, shuffle=True, batch_size=64),
            "weighted": lambda: dict(dataset=data, sampler=WeightedRandomSampler([1.0, 3.0] * 25, 33)),
            "with replacement": lambda: dict(dataset=data, sampler=RandomSampler(data, replacement=True, num_samples=77)),
            "more than all": lambda: dict(dataset=data, sampler=RandomSampler(data, num_samples=120)),
            "chosen": lambda: dict(dataset=data, sampler=SubsetRandomSampler(range(5, 30))),
            "a rank": lambda: dict(dataset=data, sampler=DistributedSampler(data, num_replicas=3, rank=1, seed=2)),
            "eager": lambda: dict(dataset=data, sampler=Eager(50)),
            "negative": lambda: dict(dataset=data, sampler=[-1, 3, -50, 0]),
            "tensors": lambda: dict(dataset=data, sampler=[torch.tensor(4), numpy.int32(7), 9]),
            "batches": lambda: dict(dataset=data, batch_size=1, batch_sampler=BatchSampler(SequentialSampler(data), 8, False)),
            "eager batches": lambda: dict(dataset=data, batch_size=1, batch_sampler=BatchSampler(Eager(50), 8, True)),
            "uneven": lambda: dict(dataset=data, batch_size=1, batch_sampler=Uneven(50)),
            "a subset": lambda: dict(dataset=part, shuffle=True),
            "a subset of it": lambda: dict(dataset=Subset(part, numpy.array([24, 0, 3, -1, 3])), shuffle=True),
            "by tensors": lambda: dict(dataset=Subset(data, torch.tensor([9, 8, 1])), shuffle=True),
            "nothing": lambda: dict(dataset=data, batch_size=60, drop_last=True),
        }
        for name, options in cases.items():
            for workers in (0, 2):
                with self.subTest(name, workers=workers):
                    self.same(lambda: (DataLoader(**{"batch_size": 7, **options()}, num_workers=workers), None))

    def test_generators(self):
        for workers in (0, 2):
            for options in (dict(shuffle=True), dict(shuffle=True, drop_last=True), dict()):
                def make():
                    generator = torch.Generator().manual_seed(3)
                    return DataLoader(self.data, batch_size=7, generator=generator, num_workers=workers, **options), generator
                with self.subTest(workers=workers, **options):
                    self.same(make)

    def test_persistent_workers(self):
        self.same(lambda: (DataLoader(self.data, 7, shuffle=True, num_workers=2, persistent_workers=True), None), epochs=4)

    def test_an_epoch_left_early_leaves_its_generator(self):
        for workers in (0, 2):
            states = []
            for begin in (iter, native):
                generator = torch.Generator().manual_seed(3)
                loader = DataLoader(self.data, 2, shuffle=True, generator=generator, num_workers=workers)
                batches = begin(loader)
                next(batches)
                del batches
                states.append(torch.randperm(9, generator=generator).tolist())
            self.assertEqual(*states)

    def test_two_at_once(self):
        loader = DataLoader(self.data, 5, shuffle=True, num_workers=1)
        torch.manual_seed(1)
        one, two = native(loader), native(loader)
        pairs = list(zip(one, two, strict=True))
        self.assertEqual(len(one), 10)
        for side in (0, 1):
            self.assertEqual(sorted(i for pair in pairs for i in pair[side][1].tolist()), list(range(50)))
        self.assertNotEqual([p[0][1].tolist() for p in pairs], [p[1][1].tolist() for p in pairs])

    def test_indices_beyond_the_end(self):
        for indices in ([50], [-51], [3, 1 << 40]):
            with self.assertRaises(IndexError):
                next(native(DataLoader(self.data, sampler=indices)))
            self.assertRegex(str(_native.plan(DataLoader(Subset(self.data, indices)))), "beyond a dataset of 50")


class Values(unittest.TestCase):
    """Batches of what lies in memory, type for type."""

    def same(self, dataset, exact=True, **options):
        options = {"batch_size": 7, **options}
        wanted, got = list(DataLoader(dataset, **options)), list(native(DataLoader(dataset, **options)))
        self.assertEqual(len(wanted), len(got))
        for a, b in zip(wanted, got):
            self.assertIs(type(a), type(b))
            if isinstance(a, dict):
                self.assertEqual(list(a), list(b))
                a, b = list(a.values()), list(b.values())
            for x, y in zip(*([a], [b]) if isinstance(a, torch.Tensor) else (a, b), strict=True):
                self.assertEqual((x.dtype, x.shape, type(x)), (y.dtype, y.shape, type(y)))
                self.assertTrue(y.is_contiguous())
                torch.testing.assert_close(y, x, rtol=0, atol=0, equal_nan=True)

    def setUp(self):
        self.enterContext(warnings.catch_warnings())
        warnings.filterwarnings("ignore", "all batches of the loader are kept")

    def test_tensors(self):
        x = torch.randn(40, 3, 4)
        for dtype in (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32,
                      torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128):
            with self.subTest(dtype):
                self.same(TensorDataset((x * 50).abs().to(dtype), torch.arange(40)))
        self.same(TensorDataset(x))
        self.same(TensorDataset(x.transpose(1, 2), x[:, ::2], x[:, :, 1], x.half()), num_workers=2)

    def test_arrays(self):
        x, y = RANDOM.random((30, 2, 3)), numpy.arange(30)
        self.same(x)
        self.same(y[::-1])
        for given in ((x, y), [x.astype("f4"), y.astype("i2"), x > 0.5], {"a": x, "b": torch.arange(30)}):
            self.same(_native.as_dataset(given))
        self.assertEqual(len(_native.as_dataset((x, y))), 30)
        for other in ([1, 2], (x, "text"), {}, [], x, [[1, 2], [3, 4]]):
            self.assertIs(_native.as_dataset(other), other)
        with self.assertRaisesRegex(ValueError, "one length"):
            _native.as_dataset((x, y[1:]))

    def test_pictures_in_memory(self):
        to_tensor = v2.Compose([v2.ToImage(), TO_FLOAT])
        for made in (mnist, cifar):
            for transform in (to_tensor, v1.ToTensor(), v1.PILToTensor(), v2.PILToTensor(), v2.ToImage(),
                              v2.Compose([v2.Pad(3, fill=7), v2.CenterCrop(20), v2.ToImage(), v2.Identity()]),
                              v1.Compose([v1.RandomHorizontalFlip(1.0), v1.RandomVerticalFlip(1), v1.PILToTensor()]),
                              torch.nn.Sequential(v2.PILToTensor(), torch.nn.Identity())):
                with self.subTest(made.__name__, transform=transform):
                    self.same(made(transform=transform))
        for kind in (torchvision.datasets.FashionMNIST, torchvision.datasets.CIFAR100):
            self.same((mnist if "MNIST" in kind.__name__ else cifar)(kind=kind, transform=v1.ToTensor()), num_workers=2)
        self.same(Subset(cifar(transform=v1.ToTensor()), range(9, 30, 2)))

    def test_normalized(self):
        for made, mean, std in ((mnist, [0.1307], [0.3081]), (cifar, MEAN, STD), (cifar, [0.5], [0.25])):
            for transform in (v1.Compose([v1.ToTensor(), v1.Normalize(mean, std)]),
                              v2.Compose([v2.ToImage(), TO_FLOAT, v2.Normalize(mean, std)]),
                              v2.Compose([v2.ToImage(), TO_FLOAT, v2.CenterCrop(20), v2.Normalize(mean, std)])):
                dataset = made(transform=transform)
                for a, b in zip(DataLoader(dataset, 16), native(DataLoader(dataset, 16)), strict=True):
                    bound = 2**-21 * (1 + max(mean)) / min(std)  # the library's
                    torch.testing.assert_close(b[0], a[0], rtol=0, atol=bound)
                    self.assertTrue(torch.equal(a[1], b[1]))

    def test_what_changes_between_epochs(self):
        dataset = mnist(transform=v1.PILToTensor())
        loader = DataLoader(dataset, 60)
        self.assertEqual(next(native(loader))[1].tolist(), dataset.targets.tolist())
        dataset.targets = torch.arange(60)
        self.assertEqual(next(native(loader))[1].tolist(), list(range(60)))
        dataset.data = dataset.data.flip(0).contiguous()
        self.assertTrue(torch.equal(next(native(loader))[0][:, 0], dataset.data))
        dataset.transform = v1.ToTensor()
        self.assertEqual(next(native(loader))[0].dtype, torch.float32)
        dataset = cifar(transform=v1.PILToTensor())
        loader = DataLoader(dataset, 60)
        next(native(loader))
        dataset.targets[3] = 77
        self.assertEqual(next(native(loader))[1].tolist(), dataset.targets)

    def test_lifetimes(self):
        dataset = TensorDataset(torch.randn(64, 1000))
        seen = weakref.ref(dataset.tensors[0])
        wanted = dataset.tensors[0].clone()
        loader = DataLoader(dataset, 8, num_workers=2)
        batches = native(loader)
        first = next(batches)[0]
        del dataset, loader, batches
        gc.collect()
        self.assertIsNone(seen())
        torch.testing.assert_close(first, wanted[:8])

    def test_an_iterator_outlives_its_loader(self):
        batches = native(DataLoader(TensorDataset(torch.arange(64)), 8, num_workers=1))
        gc.collect()
        self.assertEqual([b.tolist() for [b] in batches], torch.arange(64).reshape(8, 8).tolist())


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


class Own(TensorDataset):
    pass


class OwnFolder(torchvision.datasets.ImageFolder):
    pass


class OwnFlip(v2.RandomHorizontalFlip):
    pass


class Endless(Sampler):
    def __iter__(self):
        return iter(int, 1)


class Refused(Folder):
    """Each with its reason."""

    def refuse(self, words, dataset, **options):
        loader = DataLoader(dataset, **options)
        with self.subTest(words), self.assertLogs("stoker", "INFO") as logs:
            plan = _native.plan(loader)
            self.assertIsInstance(plan, str)
            self.assertRegex(plan, words)
            self.assertEqual(len(logs.output), 1)
            self.assertIn(plan, logs.output[0])

    def test_datasets(self):
        class Python(Dataset):
            def __len__(self):
                return 3

            def __getitem__(self, i):
                return i

        class Stream(IterableDataset):
            def __iter__(self):
                return iter(range(3))
        x = torch.zeros(4, 2)
        self.refuse("class Python", Python())
        self.refuse("Stream|length|batch_size", Stream())
        self.refuse("class Own", Own(x))
        self.refuse("class list", [1, 2, 3])
        self.refuse("class Python", Subset(Python(), [1]))
        self.refuse("class OwnFolder", OwnFolder(str(self.root), v1.ToTensor()))
        self.refuse("indices that are no numbers", Subset(TensorDataset(x), [1.5]))

    def test_tensors(self):
        x = torch.zeros(4, 2)
        for words, tensor in (("gradient", x.clone().requires_grad_()), ("plain", x.to_sparse()),
                              ("plain", torch.nn.Parameter(x)), ("view to resolve", x.to(torch.complex64).conj()),
                              ("shape", torch.zeros(4, 0)), ("float8", x.to(torch.float8_e5m2))):
            self.refuse(words, TensorDataset(tensor))
        self.refuse("class or byte order", numpy.zeros(4, ">f4"))
        self.refuse("datetime64", numpy.zeros(4, "M8[s]"))
        self.refuse("shape", numpy.zeros((4, 0)))

    def test_options(self):
        data = TensorDataset(torch.zeros(4, 2))
        self.refuse("batch_size is None", data, batch_size=None)
        self.refuse("collate_fn", data, collate_fn=list)
        self.refuse("sampler has no length", data, sampler=Endless())
        self.refuse("batch_sampler has no length", data, batch_sampler=Endless())

    def test_folders(self):
        folder = torchvision.datasets.ImageFolder
        self.refuse("loader is the dataset's own", folder(str(self.root), v1.ToTensor(), loader=Image.open))
        self.refuse("target_transform", folder(str(self.root), v1.ToTensor(), target_transform=str))
        dataset = folder(str(self.root), v1.ToTensor())
        dataset.samples[1] = (str(self.root / "x.bmp"), 0)
        self.refuse("x.bmp is read by Pillow", dataset)
        dataset.samples[1] = (str(self.root / "x.png"), 0)
        self.refuse("there is no file", dataset)
        data = mnist(transform=v1.ToTensor())
        data.target_transform = str
        self.refuse("target_transform", data)
        data = mnist(transform=v1.ToTensor())
        data.targets = data.targets[:-1]
        self.refuse("targets of MNIST", data)
        data = cifar(transform=v1.ToTensor())
        data.data = data.data / 255
        self.refuse("data of CIFAR10", data)

    def test_transforms(self):
        hooked = v2.RandomHorizontalFlip()
        hooked.register_forward_hook(lambda *_: None)
        both = [v2.ToImage(), TO_FLOAT]
        for words, transform in (
                ("no transform makes tensors", None), ("no transform makes tensors", v2.CenterCrop(8)),
                ("many sizes", v2.ToImage()),
                ("Lambda is not one", v2.Compose([v2.Lambda(lambda p: p), v2.ToImage()])),
                ("function is not one", lambda p: p), ("OwnFlip is not one", v2.Compose([OwnFlip(), v2.ToImage()])),
                ("RandomApply is not one", v1.Compose([v1.RandomApply([v1.RandomHorizontalFlip()]), v1.ToTensor()])),
                ("RandomHorizontalFlip has hooks", v2.Compose([hooked, v2.ToImage()])),
                ("Resize without antialias", v2.Compose([v2.ToImage(), v2.Resize(8, antialias=False)])),
                ("Resize of float32", v2.Compose([*both, v2.Resize(8)])),
                ("Resize with interpolation nearest of a uint8",
                 v2.Compose([v2.ToImage(), v2.Resize(8, interpolation=InterpolationMode.NEAREST)])),
                ("Resize with interpolation box", v2.Compose([v2.Resize(8, interpolation=InterpolationMode.BOX), v2.ToImage()])),
                ("Pad with padding_mode 'reflect'", v2.Compose([v2.Pad(2, padding_mode="reflect"), v2.ToImage()])),
                ("Pad with fill", v2.Compose([v2.Pad(2, fill=(1, 2, 3)), v2.ToImage()])),
                ("RandomCrop with pad_if_needed", v2.Compose([v2.RandomCrop(8, pad_if_needed=True), v2.ToImage()])),
                ("ColorJitter of float32", v2.Compose([*both, v2.ColorJitter(0.5)])),
                ("ToDtype to torch.float32 with scale=False", v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32)])),
                ("ToDtype to torch.float16", v2.Compose([v2.ToImage(), v2.ToDtype(torch.float16, scale=True)])),
                ("ToDtype of a picture", v2.Compose([TO_FLOAT, v2.ToImage()])),
                ("Normalize of a uint8", v2.Compose([v2.ToImage(), v2.Normalize(MEAN, STD)])),
                ("Normalize of 2 channels", v2.Compose([*both, v2.Normalize([0, 0], [1, 1])])),
                ("ToTensor of a uint8", v1.Compose([v1.PILToTensor(), v1.ToTensor()])),
                ("RandomErasing with random", v1.Compose([v1.ToTensor(), v1.RandomErasing(value="random")])),
                ("RandomRotation with expand", v2.Compose([v2.RandomRotation(9, expand=True), v2.ToImage()])),
                ("cannot come before resize", v2.Compose([v2.RandomHorizontalFlip(), v2.Resize(9), v2.ToImage()])),
                ("put center_crop before", v2.Compose([v2.Resize(9), *both, v2.Normalize(MEAN, STD), v2.CenterCrop(9)]))):
            self.refuse(words, self.images(transform))

    def test_says_once_what_it_does(self):
        loader = DataLoader(mnist(transform=v1.Compose([v1.ToTensor(), v1.Normalize([0.5], [0.5])])), 8, num_workers=2)
        with self.assertLogs("stoker", "INFO") as logs:
            for _ in range(3):
                _native.plan(loader)
        self.assertEqual(len(logs.output), 1)
        self.assertRegex(logs.output[0], r"MNIST is read in C by 2 threads: normalize\(.*\), layout$")


if __name__ == "__main__":
    unittest.main()
