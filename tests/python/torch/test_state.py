# SPDX-License-Identifier: Apache-2.0
"""state_dict() of stoker.torch.DataLoader, and rng="stoker"."""
import io
import itertools
import os
import pickle
import random
import time
import unittest

import numpy
import torch
import torch.utils.data
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

from stoker.torch import DataLoader


class Noisy(torch.utils.data.Dataset):
    """Draws of all three generators."""

    def __len__(self):
        return 50

    def __getitem__(self, i):
        return i, random.random(), numpy.random.randn(), torch.rand(2)


class Stream(torch.utils.data.IterableDataset):
    """Another length in each worker."""

    def worker(self):
        info = torch.utils.data.get_worker_info()
        return info.id if info else 0

    def __iter__(self):
        for i in range(9 + 6 * self.worker()):
            yield 100 * self.worker() + i, random.random()


class StatefulStream(Stream):
    """Says where it is."""

    def __init__(self):
        self.at = 0

    def __iter__(self):
        while self.at < 9 + 6 * self.worker():
            self.at += 1
            yield 100 * self.worker() + self.at, random.random()
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


def flat(value):
    return [value] if isinstance(value, torch.Tensor) else [leaf for item in value for leaf in flat(item)]


def seed(n):
    torch.manual_seed(n)
    random.seed(n)
    numpy.random.seed(n)


class Same(unittest.TestCase):
    def assert_same(self, a, b, message=None):
        a, b = flat(a), flat(b)
        self.assertEqual(len(a), len(b), message)
        self.assertTrue(all(torch.equal(x, y) for x, y in zip(a, b)), message)

    def make(self, dataset, generator=False, **options):
        if generator:
            options["generator"] = torch.Generator().manual_seed(9)
        return DataLoader(dataset(), batch_size=4, **options)


class States(Same):
    def check(self, dataset, options, epochs, taken):
        """The rest of an epoch, the next one and this process's random numbers, with a stop and without."""
        seed(4)
        loader = self.make(dataset, **options)
        for _ in range(epochs):
            list(loader)
            torch.rand(3)
        iterator = iter(loader)
        torch.rand(1)
        over = len(list(itertools.islice(iterator, taken))) < taken
        saved = io.BytesIO()
        torch.save(loader.state_dict(), saved)
        expected = [[] if over else list(iterator), list(loader), random.random(), numpy.random.rand(), torch.rand(2)]
        seed(99)
        other = self.make(dataset, **options)
        saved.seek(0)
        other.load_state_dict(torch.load(saved, weights_only=True))
        got = [[] if over else list(other), list(other), random.random(), numpy.random.rand(), torch.rand(2)]
        message = (dataset.__name__, options, epochs, taken)
        self.assert_same(got[:2], expected[:2], message)
        self.assertEqual(got[2:4], expected[2:4], message)
        self.assertTrue(torch.equal(got[4], expected[4]), message)

    def test_the_rest_is_what_it_would_have_been(self):
        for dataset in (Noisy, Stream, StatefulStream):
            more = {"shuffle": True} if dataset is Noisy else {}
            for epochs, taken in ((0, 0), (0, 3), (1, 2), (1, 5), (1, 99)):
                self.check(dataset, more, epochs, taken)
                self.check(dataset, more | {"num_workers": 2, "persistent_workers": True}, epochs, taken)
            self.check(dataset, more | {"num_workers": 2}, 1, 3)
            self.check(dataset, more | {"num_workers": 2, "generator": True}, 1, 3)
            self.check(dataset, more | {"num_workers": 2, "rng": "stoker"}, 1, 3)
            self.check(dataset, more | {"rng": "stoker"}, 1, 3)

    def test_an_epoch_that_was_left_early(self):
        seed(4)
        loader = self.make(Noisy, num_workers=2, persistent_workers=True, shuffle=True)
        next(iter(loader))
        iterator = iter(loader)
        state = loader.state_dict()
        expected = list(iterator)
        other = self.make(Noisy, num_workers=2, persistent_workers=True, shuffle=True)
        other.load_state_dict(state)
        self.assert_same(list(other), expected)

    def test_a_stateful_dataset_is_not_gone_through_again(self):
        loader = self.make(StatefulStream, num_workers=1)
        iterator = iter(loader)
        next(iterator), next(iterator)
        self.assertFalse(loader.state_dict()["again"])
        self.assertTrue(len(list(iterator)) == 1)

    def test_a_stateful_dataset_of_no_workers_is_not_gone_through_again(self):
        class Counted(StatefulStream):
            def __iter__(self):
                for item in super().__iter__():
                    made.append(item[0])
                    yield item
        made = []
        iterator = iter(loader := self.make(Counted))
        next(iterator)
        state = loader.state_dict()
        expected = list(iterator)
        made.clear()
        other = self.make(Counted)
        other.load_state_dict(state)
        self.assert_same(list(other)[0][0], expected[0][0])
        self.assertEqual(made, [5, 6, 7, 8, 9])

    def test_many_batches_that_are_gone_through_again(self):
        class Long(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter(range(3000))
        iterator = iter(loader := DataLoader(Long(), None, num_workers=1))
        list(itertools.islice(iterator, 2500))
        state = loader.state_dict()
        del iterator
        other = DataLoader(Long(), None, num_workers=1)
        other.load_state_dict(state)
        self.assertEqual(list(other), list(range(2500, 3000)))

    def test_a_sampler_that_goes_on_behind_its_length(self):
        class Endless(torch.utils.data.Sampler):
            def __len__(self):
                return 20

            def __iter__(self):
                return (i % 20 for i in itertools.count())
        for workers, taken in ((0, 3), (0, 7), (2, 5), (2, 7)):
            with self.subTest(workers=workers, taken=taken):
                def make():
                    return self.make(Noisy, sampler=Endless(), num_workers=workers)
                iterator = iter(loader := make())
                list(itertools.islice(iterator, taken))
                state = loader.state_dict()
                expected = list(itertools.islice(iterator, 4))
                other = make()
                other.load_state_dict(state)
                self.assert_same(list(itertools.islice(other, 4)), expected)

    def test_threads_between_epochs(self):
        for options in ({}, {"persistent_workers": True}):
            options |= {"num_workers": 2, "workers": "thread", "shuffle": True}
            seed(4)
            loader = self.make(lambda: range(50), **options)
            list(loader)
            state = loader.state_dict()
            expected = list(loader), torch.rand(2)
            seed(99)
            other = self.make(lambda: range(50), **options)
            other.load_state_dict(state)
            self.assert_same((list(other), torch.rand(2)), expected, options)
            iterator = iter(other)
            next(iterator)
            with self.assertRaisesRegex(RuntimeError, "within an epoch"):
                other.state_dict()

    def test_another_number_of_workers(self):
        for before, after in ((0, 2), (2, 0), (3, 1)):
            for taken, options in ((5, dict()), (-2, dict(generator=True))):
                with self.subTest(before=before, after=after, **options):
                    torch.manual_seed(1)
                    loader = self.make(Noisy, num_workers=before, shuffle=True, rng="stoker", **options)
                    iterator = iter(loader)
                    for _ in range(taken % len(loader)):
                        next(iterator)
                    state = loader.state_dict()
                    expected = list(iterator), list(loader)
                    other = self.make(Noisy, num_workers=after, shuffle=True, rng="stoker", **options)
                    other.load_state_dict(state)
                    self.assert_same((list(other), list(other)), expected)

    def test_what_does_not_fit(self):
        state = self.make(Noisy, num_workers=2).state_dict()
        for other in (self.make(Noisy, num_workers=1), self.make(Noisy, num_workers=2, rng="stoker")):
            with self.assertRaisesRegex(ValueError, "the state was made with"):
                other.load_state_dict(state)
        with self.assertRaisesRegex(ValueError, "made with sampler='SequentialSampler', this loader has 'RandomSampler'"):
            self.make(Noisy, num_workers=2, shuffle=True).load_state_dict(state)
        # The sampler is that of the batches, whoever made them.
        data = Noisy()
        state = DataLoader(data, 4, shuffle=True).state_dict()
        DataLoader(data, batch_sampler=BatchSampler(RandomSampler(data), 4, False)).load_state_dict(state)
        with self.assertRaisesRegex(ValueError, "made with sampler='RandomSampler'"):
            DataLoader(data, batch_sampler=BatchSampler(SequentialSampler(data), 4, False)).load_state_dict(state)
        with self.assertRaisesRegex(ValueError, "not a state"):
            self.make(Noisy).load_state_dict({"_index_sampler_state": 0})

    def test_a_stateful_dataset_that_cannot_say_its_place(self):
        """An error with its reason, not a worker that dies."""
        class Wrong(Stream):
            def state_dict(self):
                raise KeyError("no place yet")
        with self.assertRaisesRegex(KeyError, "no place yet"):
            list(self.make(Wrong, num_workers=2))

    def test_a_state_of_other_batches(self):
        """Places are counted in batches: samples would come twice, or never."""
        for workers in (0, 2):
            options = {"num_workers": workers, "shuffle": True}
            iterator = iter(loader := DataLoader(Noisy(), 4, **options))
            next(iterator)
            state = loader.state_dict()
            for words, dataset, size, drop_last in (("batch_size=4, this loader has 5", Noisy(), 5, False),
                                                    ("drop_last=False, this loader has True", Noisy(), 4, True),
                                                    ("samples=50, this loader has 49", range(49), 4, False)):
                with self.assertRaisesRegex(ValueError, words):
                    DataLoader(dataset, size, drop_last=drop_last, **options).load_state_dict(state)
        iterator = iter(loader := self.make(StatefulStream, num_workers=2, rng="stoker"))
        next(iterator)
        with self.assertRaisesRegex(ValueError, "num_workers=2, this loader has 3"):
            self.make(StatefulStream, num_workers=3, rng="stoker").load_state_dict(loader.state_dict())

    def test_behind_a_loop_that_was_left(self):
        """As before it ended, whether its workers stay or not."""
        for dataset in (Noisy, Stream, StatefulStream):
            for options in ({}, {"num_workers": 2}, {"num_workers": 2, "persistent_workers": True}, {"num_workers": 2, "rng": "stoker"}):
                with self.subTest(dataset=dataset.__name__, **options):
                    seed(4)
                    loader = self.make(dataset, **options)
                    for at, _ in enumerate(loader):
                        if at == 1:
                            inside = loader.state_dict()
                            break
                    state = loader.state_dict()
                    torch.rand(2)
                    rests = []
                    for each in (inside, state):
                        other = self.make(dataset, **options)
                        other.load_state_dict(each)
                        rests.append((list(other), torch.rand(2)))
                    self.assertEqual((state["given"], len(rests[1][0]) > 0), (2, True))
                    self.assert_same(rests[1], rests[0])
                    list(loader)
                    self.assertIsNone(loader.state_dict()["given"])

    def test_without_a_place_behind_a_loop_that_was_left(self):
        for options, words in (({"in_order": False}, "in_order=False"), ({"workers": "thread"}, "within an epoch")):
            loader = self.make(Noisy, num_workers=2, **options)
            for _ in loader:
                break
            with self.assertRaisesRegex(RuntimeError, words):
                loader.state_dict()

    def test_a_sampler_without_a_length(self):
        class Unsized(torch.utils.data.Sampler):
            def __iter__(self):
                return iter(range(20))
        for workers in (0, 2):
            iterator = iter(loader := self.make(Noisy, sampler=Unsized(), num_workers=workers))
            next(iterator)
            state = loader.state_dict()
            expected = list(iterator)
            other = self.make(Noisy, sampler=Unsized(), num_workers=workers)
            other.load_state_dict(state)
            self.assert_same(list(other), expected)

    def test_a_loader_is_pickled_behind_a_loop(self):
        loader = self.make(Noisy)
        next(iter(loader))
        self.assertEqual(len(list(pickle.loads(pickle.dumps(loader)))), 13)

    def test_what_is_no_state(self):
        for state in ("text", None, {}, {"version": 1}):
            with self.assertRaisesRegex(ValueError, "not a state"):
                self.make(Noisy).load_state_dict(state)

    def test_a_state_without_a_place(self):
        loader = self.make(Noisy, num_workers=2, in_order=False)
        iterator = iter(loader)
        next(iterator)
        with self.assertRaisesRegex(RuntimeError, "in_order=False"):
            loader.state_dict()


class InC(Same):
    """Datasets that run without Python."""

    def test_the_rest_is_what_it_would_have_been(self):
        data = torch.utils.data.TensorDataset(torch.arange(50), torch.rand(50))
        for options in ({}, {"num_workers": 2}, {"num_workers": 2, "persistent_workers": True}):
            for epochs, taken in ((0, 0), (0, 3), (1, 2), (1, 13)):
                def make():
                    return DataLoader(data, batch_size=4, shuffle=True, native=True, **options)
                seed(4)
                loader = make()
                for _ in range(epochs):
                    list(loader)
                    torch.rand(2)
                iterator = iter(loader)
                for _ in range(taken):
                    next(iterator)
                state = loader.state_dict()
                expected = ([] if taken == 13 else list(iterator)), list(loader), torch.rand(2)
                seed(99)
                other = make()
                other.load_state_dict(state)
                got = ([] if taken == 13 else list(other)), list(other), torch.rand(2)
                self.assert_same(got, expected, (options, epochs, taken))


    def test_behind_a_loop_that_was_left(self):
        data = torch.utils.data.TensorDataset(torch.arange(50))
        for options in ({}, {"num_workers": 2}, {"num_workers": 2, "persistent_workers": True}):
            loader = DataLoader(data, 4, shuffle=True, native=True, **options)
            seen = [batch for _, batch in zip(range(3), loader)]
            other = DataLoader(data, 4, shuffle=True, native=True, **options)
            other.load_state_dict(loader.state_dict())
            rest = list(other)
            self.assertEqual(sorted(torch.cat([batch for [batch] in seen + rest]).tolist()), list(range(50)))

    def test_a_batch_does_not_keep_threads(self):
        def assert_most(most):
            """One that was joined may be listed for a moment."""
            ended = time.monotonic() + 20
            while threads() > most:
                self.assertLess(time.monotonic(), ended, "threads are left")

        def threads():
            return len(os.listdir("/proc/self/task"))
        data = torch.utils.data.TensorDataset(torch.arange(5000))
        for again in (False, True):
            loader = DataLoader(data, 4, native=True, num_workers=3, persistent_workers=again)
            iterator = iter(loader)
            kept, before = [next(iterator)], threads()
            if again:
                kept.append(next(iter(loader)))
                assert_most(before)
            del loader, iterator
            assert_most(before - 3)
            self.assertEqual(kept[0][0].tolist(), [0, 1, 2, 3])


class Positions(Same):
    def test_any_number_of_workers(self):
        results = []
        for options in ({}, {"num_workers": 1}, {"num_workers": 2}, {"num_workers": 3, "persistent_workers": True}):
            torch.manual_seed(1)
            loader = self.make(Noisy, shuffle=True, rng="stoker", **options)
            results.append([list(loader), list(loader)])
        for result in results[1:]:
            self.assert_same(result, results[0])
        first, second = (torch.cat([draws for _, draws, _, _ in epoch]) for epoch in results[0])
        self.assertFalse(torch.equal(first, second))
        self.assertEqual(len(set(first.tolist())), 50)

    def test_the_consumer_keeps_its_own(self):
        loader = self.make(Noisy, rng="stoker")
        iterator = iter(loader)
        seed(3)
        expected = random.random(), numpy.random.rand(), torch.rand(1)
        seed(3)
        next(iterator)
        self.assertEqual((random.random(), numpy.random.rand(), torch.rand(1)), expected)

    def test_the_state_is_small(self):
        loader = self.make(Noisy, num_workers=2, rng="stoker", shuffle=True)
        iterator = iter(loader)
        sizes = []
        for _ in range(3):
            next(iterator)
            saved = io.BytesIO()
            torch.save(loader.state_dict(), saved)
            sizes.append(len(saved.getvalue()))
        self.assertEqual(len(set(sizes)), 1)
        self.assertIsNone(loader.state_dict()["workers"])


if __name__ == "__main__":
    unittest.main()
