# SPDX-License-Identifier: Apache-2.0
"""What the tests of stoker.torch.DataLoader share: one suite for two loaders, datasets, and the processes they leave."""
import collections
import functools
import os
import random
import sys
import tempfile
import time
import unittest
import warnings
from pathlib import Path
from unittest import mock

import numpy
import torch
import torch.utils.data

import stoker.torch
from stoker.torch import _iterator
from processes import there

stoker_loader = functools.partial(stoker.torch.DataLoader, native=False)
LOADERS = {"Torch": torch.utils.data.DataLoader, "Stoker": stoker_loader}

warnings.filterwarnings("ignore", "This DataLoader will create")  # more workers than processors

Point = collections.namedtuple("Point", "x y")


def both(suite):
    """Makes two test cases of a class: SuiteTorch and SuiteStoker, whose self.DataLoader is the one or the other."""
    for name, loader in LOADERS.items():
        case = type(suite.__name__ + name, (suite, Case), {"DataLoader": staticmethod(loader), "ours": name == "Stoker"})
        case.__module__ = suite.__module__
        setattr(sys.modules[suite.__module__], case.__name__, case)
    return suite


class Case(unittest.TestCase):
    def folder(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        return made.name

    def no_patience(self):
        """Workers that do not end by themselves are given half a second, not five, by either loader."""
        for where, name in ((torch.utils.data._utils, "MP_STATUS_CHECK_INTERVAL"), (_iterator, "_END")):
            patched = mock.patch.object(where, name, 0.5)
            patched.start()
            self.addCleanup(patched.stop)

    def assertSame(self, got, wanted, where="batch"):
        """Equal to the bit: types, dtypes, shapes and values, at any depth."""
        self.assertIs(type(got), type(wanted), where)
        if isinstance(wanted, torch.Tensor):
            self.assertEqual((got.dtype, got.shape), (wanted.dtype, wanted.shape), where)
            self.assertTrue(torch.equal(got, wanted), f"{where}: {got} is not {wanted}")
        elif isinstance(wanted, numpy.ndarray):
            self.assertEqual(got.dtype, wanted.dtype, where)
            numpy.testing.assert_array_equal(got, wanted)
        elif isinstance(wanted, dict):
            self.assertEqual(list(got), list(wanted), where)
            for key in wanted:
                self.assertSame(got[key], wanted[key], f"{where}[{key!r}]")
        elif isinstance(wanted, (list, tuple)):
            self.assertEqual(len(got), len(wanted), where)
            for i, (one, other) in enumerate(zip(got, wanted)):
                self.assertSame(one, other, f"{where}[{i}]")
        else:
            self.assertEqual(got, wanted, where)

    def assertGone(self, pids, seconds=10):
        """These processes have ended, and those of them that are our children were waited for."""
        ended = time.monotonic() + seconds
        left = set(pids)
        while (left := {pid for pid in left if there(pid)}) and time.monotonic() < ended:
            time.sleep(0.005)
        self.assertFalse(left, "processes are still there")

    def eventually(self, condition, what, seconds=20):
        ended = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), ended, what)
            time.sleep(0.002)


def numbers(batches):
    """Batches of numbers as lists."""
    return [batch.tolist() for batch in batches]


def chunks(values, size, drop_last=False):
    made = [list(values[i:i + size]) for i in range(0, len(values), size)]
    return [part for part in made if len(part) == size or not drop_last]


def int64(generator=None):
    """The draw that makes a seed."""
    return torch.empty((), dtype=torch.int64).random_(generator=generator).item()


def permutation(size, seed):
    generator = torch.Generator()
    generator.manual_seed(seed)
    return torch.randperm(size, generator=generator).tolist()


def wait_for(path, seconds=20):
    """In a worker: until the file is there."""
    ended = time.monotonic() + seconds
    while not os.path.exists(path):
        if time.monotonic() > ended:
            raise TimeoutError(f"{path} did not come")
        time.sleep(0.002)


class Squares(torch.utils.data.Dataset):
    """Sample i is i squared."""
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if not 0 <= index < self.size:
            raise IndexError(index)
        return index * index


class Made(torch.utils.data.Dataset):
    """Sample i is function(i)."""
    def __init__(self, size, function):
        self.size, self.function = size, function

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return self.function(index)


class Drawn(torch.utils.data.Dataset):
    """Each sample is a draw of each of the three generators, behind its index."""
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return index, random.random(), numpy.random.random(), torch.rand(2)


class Count(torch.utils.data.IterableDataset):
    """The numbers of a range; with shards, each worker its part of them."""
    def __init__(self, start, stop, shards=False):
        self.start, self.stop, self.shards = start, stop, shards

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        if info is None or not self.shards:
            return iter(range(self.start, self.stop))
        return iter(range(self.start + info.id, self.stop, info.num_workers))


class Marks:
    """Lines that processes append to a file."""
    def __init__(self, folder, name="marks"):
        self.path = os.path.join(folder, name)
        Path(self.path).touch()

    def add(self, what):
        with open(self.path, "a") as file:
            file.write(f"{what}\n")

    def read(self):
        return Path(self.path).read_text().split("\n")[:-1]
