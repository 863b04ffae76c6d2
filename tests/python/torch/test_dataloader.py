# SPDX-License-Identifier: Apache-2.0
"""What PyTorch documents of DataLoader, of torch's and of ours: order and arguments."""
import copy
import itertools
import math
import multiprocessing
import pickle
import time
import unittest
from pathlib import Path

import torch
from torch.utils import data as torch_data

from data import Count, Made, Squares, both, chunks, int64, numbers, permutation, wait_for


class Backwards(torch_data.Sampler):
    def __init__(self, size):
        self.size = size

    def __iter__(self):
        return iter(range(self.size - 1, -1, -1))

    def __len__(self):
        return self.size


class Growing:
    """A batch sampler of generators: 1 index, 2 indices, 3 indices..."""
    def __iter__(self):
        numbers = iter(range(15))
        for size in range(1, 6):
            yield list(itertools.islice(numbers, size))

    def __len__(self):
        return 5


class Bulk(Squares):
    def __getitem__(self, index):
        raise AssertionError("__getitems__ is there")

    def __getitems__(self, indices):
        return [1000 + i for i in indices]


class Listed(Squares):
    """Takes a list of indices as one key."""
    def __getitem__(self, indices):
        return torch.tensor([index * index for index in indices])


@both
class Order:
    def test_as_the_dataset_has_it(self):
        for workers, size, drop in itertools.product((0, 1, 2, 3), (1, 4, 11), (False, True)):
            with self.subTest(workers=workers, size=size, drop=drop):
                loader = self.DataLoader(Squares(10), size, num_workers=workers, drop_last=drop)
                wanted = chunks([i * i for i in range(10)], size, drop)
                self.assertEqual(len(loader), len(wanted))
                self.assertEqual(numbers(loader), wanted)

    def test_shuffled(self):
        for workers in (0, 1, 2):
            with self.subTest(workers=workers):
                torch.manual_seed(5)
                wanted = []
                for _ in range(3):
                    int64()  # the seed of the workers
                    wanted.append(chunks([i * i for i in permutation(23, int64())], 4))
                after = int64()
                torch.manual_seed(5)
                loader = self.DataLoader(Squares(23), 4, shuffle=True, num_workers=workers)
                self.assertEqual([numbers(loader) for _ in range(3)], wanted)
                self.assertEqual(int64(), after)

    def test_shuffled_by_a_generator(self):
        for workers in (0, 2):
            with self.subTest(workers=workers):
                generator = torch.Generator()
                generator.manual_seed(9)
                wanted = []
                for _ in range(2):
                    int64(generator)
                    wanted.append(chunks([i * i for i in torch.randperm(23, generator=generator).tolist()], 4))
                    torch.randperm(23, generator=generator)
                generator.manual_seed(9)
                torch.manual_seed(1)
                before = torch.get_rng_state()
                loader = self.DataLoader(Squares(23), 4, shuffle=True, num_workers=workers, generator=generator)
                self.assertIs(loader.generator, generator)
                self.assertEqual([numbers(loader) for _ in range(2)], wanted)
                self.assertTrue(torch.equal(torch.get_rng_state(), before))

    def test_samplers(self):
        def made(kind):
            generator = torch.Generator()
            generator.manual_seed(3)
            return {"random": lambda: torch_data.RandomSampler(range(30), generator=generator),
                    "replacement": lambda: torch_data.RandomSampler(range(30), True, 50, generator),
                    "more": lambda: torch_data.RandomSampler(range(30), num_samples=70, generator=generator),
                    "weighted": lambda: torch_data.WeightedRandomSampler(torch.arange(30.0), 40, generator=generator),
                    "weights once": lambda: torch_data.WeightedRandomSampler(torch.arange(1.0, 31), 9, False, generator),
                    "subset": lambda: torch_data.SubsetRandomSampler([3, 4, 5, 9, 20], generator),
                    "distributed": lambda: torch_data.DistributedSampler(range(30), 4, 1, seed=8),
                    "sequential": lambda: torch_data.SequentialSampler(range(30)),
                    "own": lambda: Backwards(30),
                    "list": lambda: [7, 7, 1]}[kind]()
        for kind in ("random", "replacement", "more", "weighted", "weights once", "subset", "distributed", "sequential",
                     "own", "list"):
            for workers in (0, 2):
                with self.subTest(kind=kind, workers=workers):
                    sampler = made(kind)
                    wanted = [[i * i for i in sampler] for _ in range(2)]
                    loader = self.DataLoader(Squares(30), 4, sampler=made(kind), num_workers=workers)
                    self.assertEqual(len(loader), math.ceil(len(wanted[0]) / 4))
                    self.assertEqual([numbers(loader) for _ in range(2)], [chunks(part, 4) for part in wanted])

    def test_a_distributed_sampler_is_told_the_epoch(self):
        sampler = torch_data.DistributedSampler(range(30), 2, 0)
        loader = self.DataLoader(Squares(30), 5, sampler=sampler, num_workers=2, persistent_workers=True)
        epochs = []
        for epoch in (0, 1, 0):
            sampler.set_epoch(epoch)
            self.assertEqual(sum(numbers(loader), []), [i * i for i in sampler])
            epochs.append(list(sampler))
        self.assertEqual(epochs[0], epochs[2])
        self.assertNotEqual(epochs[0], epochs[1])

    def test_batch_samplers(self):
        for workers in (0, 2):
            for sampler, wanted in (([[3, 1], [2], [0, 0, 0]], [[9, 1], [4], [0, 0, 0]]),
                                    (Growing(), [[0], [1, 4], [9, 16, 25], [36, 49, 64, 81], [100, 121, 144, 169, 196]]),
                                    (torch_data.BatchSampler(Backwards(5), 2, True), [[16, 9], [4, 1]])):
                with self.subTest(workers=workers, sampler=sampler):
                    loader = self.DataLoader(Squares(15), batch_sampler=sampler, num_workers=workers)
                    self.assertIs(loader.batch_sampler, sampler)
                    self.assertIsNone(loader.batch_size)
                    self.assertEqual(len(loader), len(wanted))
                    self.assertEqual(numbers(loader), wanted)
                    self.assertEqual(numbers(loader), wanted)

    def test_batches_of_no_samples(self):
        """They fail as default_collate does, and end an iterable dataset."""
        for workers in (0, 1):
            for batches in ([[1, 2], []], [[]]):
                with self.subTest(workers=workers, batches=batches):
                    iterator = iter(self.DataLoader(Squares(9), batch_sampler=batches, num_workers=workers))
                    if len(batches) > 1:
                        self.assertEqual(next(iterator).tolist(), [1, 4])
                    with self.assertRaises(IndexError):
                        next(iterator)
            for count, drop_last, wanted in ((0, False, []), (4, False, [[0, 1], [2, 3]]), (4, True, [[0, 1], [2, 3]])):
                with self.subTest(workers=workers, count=count, drop_last=drop_last):
                    self.assertEqual(numbers(self.DataLoader(Count(0, count), 2, drop_last=drop_last, num_workers=workers)), wanted)

    def test_keys_that_are_no_numbers(self):
        values = {"a": 1.5, ("b", 2): 2.5, None: 3.5}
        for workers in (0, 1):
            loader = self.DataLoader(values, 2, sampler=[None, "a", ("b", 2)], num_workers=workers)
            self.assertEqual(numbers(loader), [[3.5, 1.5], [2.5]])
            self.assertEqual(list(self.DataLoader(values, None, sampler=["a", None], num_workers=workers)), [1.5, 3.5])

    def test_no_batches(self):
        for workers in (0, 2):
            loader = self.DataLoader(Squares(7), None, num_workers=workers)
            self.assertEqual(len(loader), 7)
            self.assertEqual(list(loader), [i * i for i in range(7)])
            sampler = torch_data.BatchSampler(torch_data.SequentialSampler(range(7)), 3, False)
            loader = self.DataLoader(Listed(7), None, sampler=sampler, num_workers=workers)
            self.assertEqual(numbers(loader), [[0, 1, 4], [9, 16, 25], [36]])

    def test_many_at_once(self):
        for workers in (0, 2):
            loader = self.DataLoader(Bulk(7), 3, num_workers=workers)
            self.assertEqual(numbers(loader), [[1000, 1001, 1002], [1003, 1004, 1005], [1006]])

    def test_long_lists_of_indices(self):
        wanted = [[i * i for i in range(part, part + 30000)] for part in range(0, 300000, 30000)]
        self.assertEqual(numbers(self.DataLoader(Squares(300000), 30000, num_workers=2, prefetch_factor=4)), wanted)

    def test_nothing(self):
        for workers in (0, 2):
            self.assertEqual(list(self.DataLoader([], 3, num_workers=workers)), [])
            self.assertEqual(list(self.DataLoader([1, 2], 3, drop_last=True, num_workers=workers)), [])
            self.assertEqual(list(self.DataLoader([1], 3, sampler=[], num_workers=workers)), [])

    def test_an_iterator(self):
        for workers in (0, 2):
            loader = self.DataLoader(Squares(5), 2, num_workers=workers)
            iterator = iter(loader)
            self.assertIs(iter(iterator), iterator)
            self.assertEqual(len(iterator), 3)
            self.assertEqual(numbers(iterator), [[0, 1], [4, 9], [16]])
            for _ in range(3):
                with self.assertRaises(StopIteration):
                    next(iterator)

    def test_two_at_once(self):
        for workers in (0, 2):
            loader = self.DataLoader(Squares(9), 2, num_workers=workers)
            wanted = numbers(loader)
            first, second, got = iter(loader), iter(loader), []
            for i in range(5):
                got.append((next(first).tolist(), next(second).tolist()))
            self.assertEqual(got, [(part, part) for part in wanted])
            self.assertEqual([(a.tolist(), b.tolist()) for a, b in zip(loader, loader)], got)
            self.assertEqual([(a.tolist(), b.tolist()) for a in loader for b in self.DataLoader(Squares(4), 2, num_workers=workers)],
                             [(a, b) for a in wanted for b in ([0, 1], [4, 9])])

    def test_whatever_ends_first(self):
        """Later samples of the other worker are ready long before."""
        slow = Made(12, lambda i: time.sleep(0.02 if i % 4 < 2 else 0) or i)
        self.assertEqual(numbers(self.DataLoader(slow, 2, num_workers=2)), chunks(range(12), 2))

    def test_datasets_of_torch(self):
        tensors = torch_data.TensorDataset(torch.arange(10.0).reshape(10, 1), torch.arange(10))
        stacked = torch_data.StackDataset(a=Squares(10), b=tensors)
        joined = torch_data.ConcatDataset([Squares(3), Squares(4)])
        subset = torch_data.Subset(joined, [6, 2, 4])
        for workers in (0, 2):
            batches = list(self.DataLoader(tensors, 4, num_workers=workers))
            self.assertSame(batches[2], [torch.tensor([[8.0], [9.0]]), torch.tensor([8, 9])])
            batches = list(self.DataLoader(stacked, 5, num_workers=workers))
            self.assertSame(batches[0], {"a": torch.tensor([0, 1, 4, 9, 16]),
                                         "b": [torch.arange(5.0).reshape(5, 1), torch.arange(5)]})
            self.assertEqual(numbers(self.DataLoader(joined, 4, num_workers=workers)), [[0, 1, 4, 0], [1, 4, 9]])
            self.assertEqual(numbers(self.DataLoader(subset, 2, num_workers=workers)), [[9, 4], [1]])

    def test_a_sampler_that_raises(self):
        def broken():
            yield from (1, 2, 3)
            raise LookupError("no more")

        class Broken:
            def __iter__(self):
                return broken()
        for workers in (0, 2):
            iterator = iter(self.DataLoader(Squares(9), 1, sampler=Broken(), num_workers=workers, prefetch_factor=workers and 1 or None))
            got = []
            with self.assertRaisesRegex(LookupError, "no more"):
                for batch in iterator:
                    got.append(batch.item())
            self.assertEqual(got, [1, 4, 9][:len(got)])

    def test_the_dataset_of_the_moment(self):
        values = [1, 2, 3, 4]
        for workers in (0, 2):
            loader = self.DataLoader(values, 2, num_workers=workers)
            values[0] = 1
            self.assertEqual(numbers(loader), [[1, 2], [3, 4]])
            values[0] = 9  # a new epoch's workers see it
            self.assertEqual(numbers(loader), [[9, 2], [3, 4]])

    def test_out_of_order(self):
        """Worker 0 waits for what the consumer does with the batches of worker 1."""
        for persistent in (False, True):
            flag = self.folder() + "/go"
            dataset = Made(10, lambda i: wait_for(flag) or i if i == 0 else i)
            loader = self.DataLoader(dataset, 1, num_workers=2, in_order=False, persistent_workers=persistent)
            iterator = iter(loader)
            got = [next(iterator).item()]
            Path(flag).touch()
            got += [batch.item() for batch in iterator]
            self.assertNotEqual(got[0], 0)
            self.assertEqual(sorted(got), list(range(10)))
            self.assertEqual(sorted(batch.item() for batch in loader), list(range(10)))


@both
class Arguments:
    def refuses(self, error, words, *arguments, **options):
        with self.subTest(options=options):
            with self.assertRaisesRegex(error, words):
                self.DataLoader(*arguments, **options)

    def test_refused(self):
        squares, count = Squares(5), Count(0, 5)
        self.refuses(ValueError, "num_workers", squares, num_workers=-1)
        self.refuses(ValueError, "timeout", squares, timeout=-1)
        self.refuses(ValueError, "prefetch_factor", squares, prefetch_factor=2)
        self.refuses(ValueError, "prefetch_factor", squares, num_workers=1, prefetch_factor=-1)
        self.refuses(ValueError, "persistent_workers", squares, persistent_workers=True)
        self.refuses(ValueError, "batch_size", squares, batch_size=0)
        self.refuses(ValueError, "batch_size", squares, batch_size=-3)
        self.refuses(ValueError, "batch_size", squares, batch_size=2.5)
        self.refuses(ValueError, "sampler.*shuffle", squares, sampler=[1], shuffle=True)
        for option in (dict(batch_size=2), dict(shuffle=True), dict(sampler=[1]), dict(drop_last=True)):
            self.refuses(ValueError, "batch_sampler", squares, batch_sampler=[[1]], **option)
        self.refuses(ValueError, "drop_last", squares, batch_size=None, drop_last=True)
        self.refuses(ValueError, "shuffle", count, shuffle=True)
        self.refuses(ValueError, "sampler", count, sampler=[1])
        self.refuses(ValueError, "batch_sampler", count, batch_sampler=[[1]])
        self.refuses(ValueError, "multiprocessing_context", squares, multiprocessing_context="fork")
        self.refuses(ValueError, "multiprocessing_context", squares, num_workers=1, multiprocessing_context="threads")
        self.refuses(TypeError, "multiprocessing_context", squares, num_workers=1, multiprocessing_context=5)
        self.refuses(TypeError, "unknown", squares, unknown=1)
        self.refuses(TypeError, "dataset")

    def test_become_attributes(self):
        squares, generator, collate, init = Squares(5), torch.Generator(), list, print
        loader = self.DataLoader(squares, 3, None, None, None, 2, collate, False, True, 7, init, "fork", generator,
                                 prefetch_factor=5, persistent_workers=True, in_order=False)
        self.assertIsInstance(loader, torch_data.DataLoader)
        for name, value in dict(dataset=squares, batch_size=3, num_workers=2, collate_fn=collate, pin_memory=False,
                                drop_last=True, timeout=7, worker_init_fn=init, generator=generator, prefetch_factor=5,
                                persistent_workers=True, in_order=False).items():
            self.assertIs(getattr(loader, name), value, name)
        self.assertEqual(loader.multiprocessing_context.get_start_method(), "fork")
        self.assertIsInstance(loader.sampler, torch_data.SequentialSampler)
        self.assertIsInstance(loader.batch_sampler, torch_data.BatchSampler)
        loader = self.DataLoader(squares, shuffle=True, num_workers=1)
        self.assertIsInstance(loader.sampler, torch_data.RandomSampler)
        self.assertEqual((loader.batch_size, loader.drop_last, loader.prefetch_factor, loader.timeout), (1, False, 2, 0))
        self.assertIs(loader.collate_fn, torch_data.default_collate)
        self.assertIsNone(loader.multiprocessing_context)
        loader = self.DataLoader(squares, None)
        self.assertIs(loader.collate_fn, torch_data.default_convert)
        self.assertIsNone(loader.batch_sampler)
        self.assertIsNone(loader.prefetch_factor)

    def test_not_set_afterwards(self):
        loader = self.DataLoader(Squares(5), 2)
        for name in ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"):
            with self.assertRaisesRegex(ValueError, name):
                setattr(loader, name, getattr(loader, name))
        self.assertEqual(numbers(loader), [[0, 1], [4, 9], [16]])

    def test_set_afterwards(self):
        loader = self.DataLoader(Squares(5), 2, num_workers=1)
        loader.collate_fn = tuple
        self.assertEqual(list(loader), [(0, 1), (4, 9), (16,)])
        loader.worker_init_fn = lambda worker: setattr(torch_data.get_worker_info().dataset, "__class__", Bulk)
        self.assertEqual(list(loader), [(1000, 1001), (1002, 1003), (1004,)])
        loader.worker_init_fn = None
        loader.num_workers = 0
        self.assertEqual(list(loader), [(0, 1), (4, 9), (16,)])

    def test_contexts_by_name_and_object(self):
        for context in ("fork", multiprocessing.get_context("fork")):
            loader = self.DataLoader(Squares(5), 5, num_workers=1, multiprocessing_context=context)
            self.assertEqual(numbers(loader), [[0, 1, 4, 9, 16]])

    def test_copies(self):
        loader = self.DataLoader(Squares(5), 2, shuffle=True, num_workers=1, generator=torch.Generator())
        copied = copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))
        orders = [numbers(one) for one in (loader, *copied)]
        self.assertEqual(sorted(sum(orders[0], [])), [0, 1, 4, 9, 16])
        self.assertEqual(orders, [orders[0]] * 3)

    def test_subclasses(self):
        base = getattr(self.DataLoader, "func", self.DataLoader)

        class Doubled(base):
            def __init__(self, dataset, **options):
                super().__init__(dataset, batch_size=2, **options)

            def __iter__(self):
                for batch in super().__iter__():
                    yield 2 * batch

            def __len__(self):
                return 77
        options = getattr(self.DataLoader, "keywords", {})
        for workers in (0, 1):
            loader = Doubled(Squares(4), num_workers=workers, **options)
            self.assertEqual((numbers(loader), len(loader)), ([[0, 2], [8, 18]], 77))


if __name__ == "__main__":
    unittest.main()
