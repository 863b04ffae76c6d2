# SPDX-License-Identifier: Apache-2.0
"""Loaders that run in C: PyTorch's order and types, and a reason where Python has to do it."""
import gc
import inspect
import itertools
import tempfile
import unittest
import warnings
import weakref
from unittest import mock

import numpy
import torch
import torchvision
import zarr
from PIL import Image
from torch.utils.data import (BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler, Sampler, SequentialSampler,
                              Subset, SubsetRandomSampler, TensorDataset, WeightedRandomSampler)
from torch.utils.data.distributed import DistributedSampler
from torchvision import transforms as v1
from torchvision.transforms import InterpolationMode, v2

import stoker.torch
import stoker.transforms
from native_support import MEAN, RANDOM, STD, TO_FLOAT, Eager, Folder, Infinite, Uneven, cifar, mnist, native, pictures
from stoker.torch import _native
from stoker.torch._sources import as_dataset


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
            "nothing": lambda: dict(dataset=data, batch_size=60, shuffle=True, drop_last=True),
        }
        for name, options in cases.items():
            for workers in (0, 2):
                with self.subTest(name, workers=workers):
                    self.same(lambda: (DataLoader(**{"batch_size": 7, **options()}, num_workers=workers), None))

    def test_generators(self):
        for workers in (0, 2):
            for options in (dict(shuffle=True), dict(shuffle=True, drop_last=True), dict(),
                            dict(shuffle=True, drop_last=True, batch_size=60)):
                def make():
                    generator = torch.Generator().manual_seed(3)
                    return DataLoader(self.data, generator=generator, num_workers=workers, **{"batch_size": 7, **options}), generator
                with self.subTest(workers=workers, **options):
                    self.same(make)

    def test_persistent_workers(self):
        self.same(lambda: (DataLoader(self.data, 7, shuffle=True, num_workers=2, persistent_workers=True), None), epochs=4)

    def test_generators_within_an_epoch(self):
        for workers, size, drop in ((0, 2, False), (0, 7, False), (0, 7, True), (1, 5, False), (2, 7, False), (2, 7, True),
                                    (2, 25, False)):
            states = []
            for begin in (iter, native):
                generator = torch.Generator().manual_seed(3)
                loader = DataLoader(self.data, size, shuffle=True, generator=generator, num_workers=workers, drop_last=drop)
                batches = begin(loader)
                states.append([generator.get_state().tolist()])
                for _ in batches:
                    states[-1].append(generator.get_state().tolist())
                states[-1].append(generator.get_state().tolist())
            with self.subTest(workers=workers, size=size, drop_last=drop):
                self.assertTrue(states[0] == states[1])

    def test_a_sampler_without_end(self):
        """It is asked for about its length at a time, as its batches are taken."""
        for workers in (0, 2):
            for options in (dict(batch_size=7), dict(batch_size=1), dict(batch_size=50), dict(batch_size=64)):
                taken = 170 // options["batch_size"]
                runs = [[part.tolist() for part in batch]
                        for begin in (iter, native)
                        for batch in itertools.islice(begin(DataLoader(self.data, sampler=Infinite(50), num_workers=workers, **options)), taken)]
                with self.subTest(workers=workers, **options):
                    self.assertEqual(len(runs), 2 * taken)
                    self.assertEqual(runs[:taken], runs[taken:])

    def test_more_batches_than_the_length_says(self):
        class Long(Uneven):
            def __len__(self):
                return 1
        for workers in (0, 2):
            self.same(lambda: (DataLoader(self.data, batch_sampler=Long(50), num_workers=workers), None))

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
            with self.assertRaisesRegex(IndexError, f"sampler, {indices[-1]}, is"):
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
        self.same(as_dataset(x))
        self.same(y[::-1])
        for given in ((x, y), (x.astype("f4"), y.astype("i2"), x > 0.5), {"a": x, "b": torch.arange(30)}):
            self.same(as_dataset(given))
        self.assertEqual(len(as_dataset((x, y))), 30)
        for other in ([1, 2], (x, "text"), {}, [], x, [x, y], {0: x, 1: x}, [[1, 2], [3, 4]]):  # a list of arrays is PyTorch's: of samples
            self.assertIs(as_dataset(other), other)
        with self.assertRaisesRegex(ValueError, "one length"):
            as_dataset((x, y[1:]))

    def test_zarr(self):
        with tempfile.TemporaryDirectory() as folder:
            made = {}
            for name, array in (("x", RANDOM.random((30, 4, 5)).astype("f4")), ("y", numpy.arange(30)), ("deep/z", pictures(30))):
                made[name] = zarr.create_array(folder, name=name, data=array, chunks=(7, *array.shape[1:]))
            x, y, z = made.values()
            for given in (x, y, (x, y), {"a": z, "b": y}, (torch.arange(30), x, numpy.arange(30.0), z), z):
                self.same(as_dataset(given), num_workers=1)
            self.assertEqual(len(stoker.torch.DataLoader(x, 7)), 5)
            self.same(Subset(as_dataset((x, y)), [3, -1, 3, 0]))
            self.assertRegex(_native.plan(DataLoader(as_dataset(zarr.array(numpy.zeros((3, 2)))))), "lies in a MemoryStore")

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


class Own(TensorDataset):
    pass


class OwnFolder(torchvision.datasets.ImageFolder):
    pass


class OwnFlip(v2.RandomHorizontalFlip):
    pass


class Endless(Sampler):
    def __iter__(self):
        return iter(int, 1)


class Unsaid(Endless):
    def __len__(self):
        raise NotImplementedError


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
        self.refuse("sampler has no length", data, sampler=Unsaid())
        self.refuse("lists of indices", data, sampler=BatchSampler(SequentialSampler(data), 3, False))
        for loader in (DataLoader, stoker.torch.DataLoader):
            with self.assertRaises(AssertionError):
                iter(loader(data, timeout=1))
        with self.assertRaisesRegex(TypeError, "no numbers: native=False"):
            next(native(DataLoader(data, sampler=[1.0])))

    def test_a_timeout(self):
        """It is the class that PyTorch's has."""
        iterator = native(DataLoader(TensorDataset(torch.zeros(4, 2)), num_workers=1, timeout=5))
        iterator._loaders = [mock.Mock(next=mock.Mock(side_effect=stoker.TimedOutError("no batch")))]
        with self.assertRaisesRegex(RuntimeError, "DataLoader timed out after 5 seconds: no batch"):
            next(iterator)
        self.assertEqual(len(iterator._workers), 0)
        iterator._loaders.clear()

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
        loader = stoker.torch.DataLoader(TensorDataset(torch.arange(4)), 2, num_workers=True)
        with self.assertLogs("stoker", "INFO") as logs:
            self.assertEqual([batch.tolist() for [batch] in loader], [[0, 1], [2, 3]])
        self.assertIn("by 1 thread", logs.output[0])


def places(made):
    """The arguments that a class takes by their places."""
    parameters = inspect.signature(made).parameters.values()
    return [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]


class Named(unittest.TestCase):
    """stoker.transforms, beside torchvision's classes of the same names."""

    def test_places_of_arguments(self):
        same = [name for name in stoker.transforms.__all__ if hasattr(v2, name) and name not in ("MixUp", "CutMix", "Transform")]
        self.assertGreater(len(same), 14)
        for name in same:
            mine, theirs = places(getattr(stoker.transforms, name)), places(getattr(v2, name))
            self.assertEqual(mine, theirs[:len(mine)], name)
            further = set(inspect.signature(getattr(stoker.transforms, name)).parameters) - set(mine)
            self.assertFalse(further & set(theirs[len(mine):len(mine) + 1]), name)  # it could have its place

    def test_with_torchvisions_words(self):
        how = InterpolationMode.BICUBIC
        for made, text in ((lambda of: of.Resize(9, how, None, True), "resize(size=9, interpolation=bicubic)"),
                           (lambda of: of.Resize(9, max_size=12, antialias=True), "resize(size=9, max_size=12)"),
                           (lambda of: of.RandomRotation(9, how), "random_rotation(degrees=9, interpolation=bicubic)"),
                           (lambda of: of.RandomResizedCrop(9, (0.5, 1), (1, 1), how, True),
                            "random_resized_crop(size=9, scale=[0.5, 1], ratio=[1, 1], interpolation=bicubic)")):
            self.assertIsInstance(made(v2), v2.Transform)
            self.assertEqual(str(made(stoker.transforms)), text)
        with self.assertRaises(TypeError):
            stoker.transforms.RandomCrop(9, 2, 0)  # of torchvision's the third is another


class OneImport(Folder):
    """stoker.torch.DataLoader, as a user has it."""

    def test_auto(self):
        transform = v2.Compose([v2.CenterCrop(50), v2.ToImage(), TO_FLOAT])
        torch.manual_seed(1)
        wanted = list(DataLoader(self.images(transform), 5, shuffle=True))
        torch.manual_seed(1)
        with self.assertLogs("stoker", "INFO") as logs:
            got = [[part.clone() for part in batch] for batch in
                   stoker.torch.DataLoader(self.images(transform), 5, shuffle=True, num_workers=2)]
        self.assertRegex(logs.output[0], "ImageFolder is read in C by 2 threads")
        for a, b in zip(wanted, got, strict=True):
            self.assertTrue(all(map(torch.equal, a, b)))

    def test_arrays(self):
        x, y = RANDOM.random((30, 2, 3)), numpy.arange(30)
        for options in ({}, {"native": False}, {"native": False, "num_workers": 2}, {"num_workers": 2}):
            torch.manual_seed(1)
            loader = stoker.torch.DataLoader((x, y), 8, shuffle=True, **options)
            self.assertEqual(len(loader), 4)
            for a, b in loader:
                torch.testing.assert_close(a, torch.from_numpy(x)[b])
        for batch in stoker.torch.DataLoader(dataset={"x": x, "y": y}, batch_size=8):
            self.assertEqual(list(batch), ["x", "y"])

    def test_never_and_always(self):
        opaque = self.images(v2.Compose([v2.Lambda(lambda p: p), v2.CenterCrop(50), v2.ToImage()]))
        with self.assertRaisesRegex(ValueError, "native=True: Lambda"):
            iter(stoker.torch.DataLoader(opaque, native=True))
        self.assertIsInstance(iter(stoker.torch.DataLoader(mnist(transform=v1.ToTensor()), native=True)), _native.Batches)
        with self.assertNoLogs("stoker"):
            self.assertNotIsInstance(iter(stoker.torch.DataLoader(mnist(transform=v1.ToTensor()), native=False)),
                                     _native.Batches)
        self.assertEqual(next(iter(stoker.torch.DataLoader(opaque, 3)))[0].shape, (3, 3, 50, 50))
        for other in (0, 1, None, "false"):
            with self.assertRaisesRegex(ValueError, "native is"):
                stoker.torch.DataLoader(opaque, native=other)


if __name__ == "__main__":
    unittest.main()
