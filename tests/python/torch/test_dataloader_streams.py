# SPDX-License-Identifier: Apache-2.0
"""Random numbers of workers, and iterables, of torch's DataLoader and of ours."""
import itertools
import math
import os
import random
import unittest
import warnings

import numpy
import torch
from torch.utils import data as torch_data

from data import Count, Drawn, Made, Squares, both, chunks, int64, numbers, permutation


def worker_draws(base_seed, worker, indices):
    """What a new worker's Drawn gives for these indices, by the documented seeding."""
    own = random.Random(base_seed + worker)
    words = numpy.random.SeedSequence([worker, base_seed & 0xFFFFFFFF, base_seed >> 32]).generate_state(4)
    legacy = numpy.random.RandomState(words)
    generator = torch.Generator()
    generator.manual_seed(base_seed + worker)
    return [(i, own.random(), legacy.random(), torch.rand(2, generator=generator)) for i in indices]


def round_robin(streams):
    """Batches of workers in turn; who has none left retires."""
    streams, taken = [list(stream) for stream in streams], []
    while any(streams):
        for stream in streams:
            if stream:
                taken.append(stream.pop(0))
    return taken


@both
class Seeds:
    def test_of_workers(self):
        for workers, size in ((1, 4), (2, 4), (3, 5)):
            with self.subTest(workers=workers):
                torch.manual_seed(77)
                base = [int64(), int64()]
                torch.manual_seed(77)
                before = random.getstate(), numpy.random.get_state()
                loader = self.DataLoader(Drawn(30), size, num_workers=workers, collate_fn=list)
                for seed in base:
                    wanted = [None] * math.ceil(30 / size)
                    for worker in range(workers):
                        mine = [i for k in range(worker, len(wanted), workers) for i in range(k * size, min(30, k * size + size))]
                        drawn = worker_draws(seed, worker, mine)
                        for k in range(worker, len(wanted), workers):
                            wanted[k], drawn = drawn[:size], drawn[size:]
                    self.assertSame(list(loader), wanted)
                self.assertEqual(random.getstate(), before[0])
                self.assertTrue(numpy.array_equal(numpy.random.get_state()[1], before[1][1]))

    def test_of_no_workers(self):
        random.seed(1), numpy.random.seed(2), torch.manual_seed(3)
        int64()
        wanted = [[(i, random.random(), numpy.random.random(), torch.rand(2)) for i in part] for part in chunks(range(7), 3)]
        random.seed(1), numpy.random.seed(2), torch.manual_seed(3)
        self.assertSame(list(self.DataLoader(Drawn(7), 3, collate_fn=list)), wanted)

    def test_of_persistent_workers_run_on(self):
        torch.manual_seed(4)
        base = int64()
        orders = [permutation(8, int64()) for _ in range(3)]
        torch.manual_seed(4)
        loader = self.DataLoader(Drawn(8), 2, True, num_workers=1, persistent_workers=True, collate_fn=list)
        got = [sample for _ in range(3) for batch in loader for sample in batch]
        self.assertSame(got, worker_draws(base, 0, sum(orders, [])))

    def test_a_generator_seeds_them(self):
        generator = torch.Generator()
        generator.manual_seed(21)
        base = int64(generator)
        generator.manual_seed(21)
        before = torch.get_rng_state()
        loader = self.DataLoader(Drawn(4), 4, num_workers=1, generator=generator, collate_fn=list)
        self.assertSame(next(iter(loader)), worker_draws(base, 0, range(4)))
        self.assertTrue(torch.equal(torch.get_rng_state(), before))

    def test_of_iterables(self):
        class Draws(torch_data.IterableDataset):
            def __iter__(self):
                for i in range(4):
                    yield i, random.random(), numpy.random.random(), torch.rand(2)
        torch.manual_seed(8)
        base = int64()
        torch.manual_seed(8)
        got = list(self.DataLoader(Draws(), 2, num_workers=2, collate_fn=list))
        parts = [worker_draws(base, worker, range(4)) for worker in range(2)]
        self.assertSame(got, [parts[0][:2], parts[1][:2], parts[0][2:], parts[1][2:]])

    def test_worker_info(self):
        self.assertIsNone(torch_data.get_worker_info())

        def told(i):
            info = torch_data.get_worker_info()
            return (info.id, info.num_workers, info.seed, torch.initial_seed(), torch.get_num_threads(), info.dataset.size,
                    os.getpid() != parent)
        parent = os.getpid()
        torch.manual_seed(6)
        base = int64()
        torch.manual_seed(6)
        got = list(self.DataLoader(Made(6, told), None, num_workers=3))
        self.assertEqual(got, [[k % 3, 3, base + k % 3, base + k % 3, 1, 6, True] for k in range(6)])
        self.assertIsNone(torch_data.get_worker_info())
        self.assertEqual(list(self.DataLoader(Made(1, lambda i: torch_data.get_worker_info() is None), None)), [True])

    def test_collate_runs_in_the_worker(self):
        def told(samples):
            return os.getpid(), getattr(torch_data.get_worker_info(), "id", None), samples
        pids = set()
        for k, (pid, worker, samples) in enumerate(self.DataLoader(Squares(6), 2, num_workers=2, collate_fn=told)):
            self.assertEqual((worker, samples), (k % 2, [(2 * k) ** 2, (2 * k + 1) ** 2]))
            pids.add(pid)
        self.assertEqual(len(pids | {os.getpid()}), 3)
        self.assertEqual(list(self.DataLoader(Squares(1), 2, collate_fn=told)), [(os.getpid(), None, [0])])

    def test_worker_init_fn(self):
        def init(worker):
            info = torch_data.get_worker_info()
            assert worker == info.id
            info.dataset.size += worker
            random.seed(100 + worker), numpy.random.seed(200 + worker), torch.manual_seed(300 + worker)
        dataset = Drawn(10)
        got = list(self.DataLoader(dataset, None, sampler=[0, 1, 2, 3], num_workers=2, worker_init_fn=init, collate_fn=tuple))
        wanted = []
        for worker in range(2):
            own, legacy, generator = random.Random(100 + worker), numpy.random.RandomState(200 + worker), torch.Generator()
            generator.manual_seed(300 + worker)
            wanted.append([(i, own.random(), legacy.random(), torch.rand(2, generator=generator)) for i in (worker, worker + 2)])
        self.assertSame(got, [wanted[0][0], wanted[1][0], wanted[0][1], wanted[1][1]])
        self.assertEqual(dataset.size, 10)
        called = []
        list(self.DataLoader(dataset, 5, worker_init_fn=called.append))
        self.assertEqual(called, [])

    def test_the_dataset_of_a_worker_is_its_own(self):
        class Counts(torch_data.Dataset):
            calls = 0

            def __len__(self):
                return 8

            def __getitem__(self, index):
                self.calls += 1
                return self.calls
        for persistent, second in ((False, [1, 1, 2, 2, 3, 3, 4, 4]), (True, [5, 5, 6, 6, 7, 7, 8, 8])):
            dataset = Counts()
            loader = self.DataLoader(dataset, None, num_workers=2, persistent_workers=persistent)
            self.assertEqual(list(loader), [1, 1, 2, 2, 3, 3, 4, 4])
            self.assertEqual(list(loader), second)
            self.assertEqual(dataset.calls, 0)


@both
class Iterables:
    def test_each_worker_has_all_of_it(self):
        for workers in (0, 1, 2, 3):
            with self.subTest(workers=workers):
                loader = self.DataLoader(Count(3, 10), 3, num_workers=workers)
                part = [[3, 4, 5], [6, 7, 8], [9]]
                for _ in range(2):
                    self.assertEqual(numbers(loader), round_robin([part] * max(1, workers)))

    def test_shards(self):
        for workers, size, drop, persistent in ((1, 2, False, False), (2, 1, False, True), (2, 3, False, False), (2, 3, True, False),
                                                (3, 2, False, True), (3, 2, True, True), (4, 1, False, False), (4, 3, True, False)):
            with self.subTest(workers=workers, size=size, drop=drop, persistent=persistent):
                loader = self.DataLoader(Count(0, 11, True), size, num_workers=workers, drop_last=drop,
                                         persistent_workers=persistent)
                wanted = round_robin([chunks(range(worker, 11, workers), size, drop) for worker in range(workers)])
                for _ in range(2):
                    self.assertEqual(numbers(loader), wanted)

    def test_workers_retire_one_after_another(self):
        class Uneven(torch_data.IterableDataset):
            def __iter__(self):
                worker = torch_data.get_worker_info().id
                return iter(range(100 * worker, 100 * worker + (5, 0, 9, 1)[worker]))
        for persistent in (False, True):
            loader = self.DataLoader(Uneven(), 2, num_workers=4, persistent_workers=persistent, prefetch_factor=3)
            parts = [chunks(range(100 * worker, 100 * worker + size), 2) for worker, size in enumerate((5, 0, 9, 1))]
            for _ in range(3):
                self.assertEqual(numbers(loader), round_robin(parts))

    def test_sharded_by_worker_init_fn(self):
        def init(worker):
            mine = torch_data.get_worker_info().dataset
            mine.start, mine.stop = (0, 5)[worker], (5, 7)[worker]
        self.assertEqual(list(self.DataLoader(Count(0, 7), None, num_workers=2, worker_init_fn=init)), [0, 5, 1, 6, 2, 3, 4])

    def test_no_batches(self):
        for workers in (0, 2):
            self.assertEqual(list(self.DataLoader(Count(0, 5, True), None, num_workers=workers)), [0, 1, 2, 3, 4])

    def test_chained(self):
        chained = torch_data.ChainDataset([Count(0, 3), Count(10, 13)])
        for workers in (0, 1):
            self.assertEqual(numbers(self.DataLoader(chained, 2, num_workers=workers)), [[0, 1], [2, 10], [11, 12]])

    def test_without_end(self):
        class Endless(torch_data.IterableDataset):
            def __iter__(self):
                return itertools.count(torch_data.get_worker_info().id if torch_data.get_worker_info() else 0, 2)
        for workers in (0, 2):
            got = [batch.item() for batch in itertools.islice(self.DataLoader(Endless(), 1, num_workers=workers), 20)]
            self.assertEqual(got, list(range(20)) if workers else list(range(0, 40, 2)))

    def test_lengths(self):
        class Sized(Count):
            def __len__(self):
                return 5
        for size, drop, wanted in ((2, False, 3), (2, True, 2), (None, False, 5)):
            self.assertEqual(len(self.DataLoader(Sized(0, 5), size, drop_last=drop)), wanted)
        with self.assertRaises(TypeError):
            len(self.DataLoader(Count(0, 5), 2))
        for workers in (0, 2):  # more than it said
            loader = self.DataLoader(Sized(0, 9), None, num_workers=workers)
            with self.assertWarnsRegex(UserWarning, "(?i)length"):
                self.assertEqual(len(loader), 5)
                self.assertEqual(list(loader), [i for i in range(9) for _ in range(max(1, workers))])
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                loader = self.DataLoader(Sized(0, 5, True), None, num_workers=workers)
                self.assertEqual(len(loader), 5)
                self.assertEqual(list(loader), list(range(5)))

    def test_out_of_order(self):
        loader = self.DataLoader(Count(0, 40, True), 3, num_workers=3, in_order=False)
        for _ in range(2):
            self.assertEqual(sorted(sum(numbers(loader), [])), list(range(40)))

    def test_errors(self):
        class Breaks(torch_data.IterableDataset):
            def __iter__(self):
                yield 1
                yield 2
                raise ValueError("the third")
        for workers in (0, 1):
            iterator = iter(self.DataLoader(Breaks(), 1, num_workers=workers))
            self.assertEqual([next(iterator).item(), next(iterator).item()], [1, 2])
            with self.assertRaisesRegex(ValueError, "the third"):
                next(iterator)
            with self.assertRaises(StopIteration):
                next(iterator)

    def test_an_iter_that_raises(self):
        class Broken(torch_data.IterableDataset):
            def __iter__(self):
                raise LookupError("no such stream")
        for workers in (0, 2):
            with self.assertRaisesRegex(LookupError, "no such stream"):
                list(self.DataLoader(Broken(), 1, num_workers=workers))


if __name__ == "__main__":
    unittest.main()
