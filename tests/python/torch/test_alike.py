# SPDX-License-Identifier: Apache-2.0
"""Batches of samples that are like those before: written by one call, with a random state where it has moved."""
import array
import itertools
import os
import pickle
import random
import signal
import socket
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import numpy
import torch
import torch.utils.data

from stoker import _native
from stoker.torch import DataLoader, _collate, _message, _openmp, _random
from test_workers import Same, Samples


class Rows(unittest.TestCase):
    def setUp(self):
        self.slab, fd = _native.slab_create(4096)
        os.close(fd)
        self.lease = self.slab.lease(False)
        self.array = numpy.arange(6, dtype="f4").reshape(2, 3)

    def write(self, samples, form, columns):
        return _native.write_rows(samples, form, columns, self.lease)

    def at(self, place, code, count):
        return numpy.frombuffer(self.lease, code, count, place).tolist()

    def test_values_in_their_columns(self):
        columns = (0, "a", self.array, 64), (1, "q", None, 256), (2, "d", None, 320), (3, "?", None, 384)
        for kind in (tuple, list):
            samples = [kind((self.array * i, -i, i / 2, i == 1)) for i in range(3)]
            self.assertTrue(self.write(samples, kind, columns))
            self.assertEqual(self.at(64, "f4", 18), [x * i for i in range(3) for x in range(6)])
            self.assertEqual((self.at(256, "i8", 3), self.at(320, "f8", 3), self.at(384, "?", 3)),
                             ([0, -1, -2], [0, 0.5, 1], [False, True, False]))
        self.assertTrue(self.write([{"x": 5}, {"more": 1, "x": 6}], dict, (("x", "q", None, 64),)))
        self.assertEqual(self.at(64, "i8", 2), [5, 6])
        self.assertTrue(self.write([self.array.T.copy().T, self.array + 1], None, ((None, "a", self.array, 64),)))
        self.assertEqual(self.at(64, "f4", 12), [*range(6), *range(1, 7)])

    def test_what_is_not_alike(self):
        class Own(numpy.ndarray):
            pass
        x = self.array
        for other in (x.astype("f8"), x.astype(">f4"), x.astype("i4"), x[:1], x.reshape(3, 2), x[None], x[::-1], x.view(Own), 3, None, b"",
                      memoryview(x)):
            self.assertFalse(self.write([x, other], None, ((None, "a", x, 64),)), repr(other))
        for kind, other in (("q", 2.0), ("q", True), ("q", 1 << 63), ("q", numpy.int64(1)), ("d", 1), ("?", 1), ("?", numpy.bool_(True))):
            self.assertFalse(self.write([(other,)], tuple, ((0, kind, None, 64),)), other)
        one = ((0, "q", None, 64),)
        for kind, other in ((tuple, [1]), (list, (1,)), (tuple, (1, 2)), (tuple, ()), (tuple, 1), (dict, [1])):
            self.assertFalse(self.write([other], kind, one), other)
        two = ("x", "q", None, 64), (7, "q", None, 128)
        self.assertTrue(self.write([{"".join("x"): 1, 7: 2}], dict, two))
        for other in ({"x": 1}, {7: 2, "x": 1}, {"y": 1, 7: 2}, {"x": 1, 7.0: 2}, {"x": 1, 7: 2, "z": 3}):
            self.assertFalse(self.write([other], dict, two), other)
        self.assertFalse(self.write([{"x": 1, 7: 2}, {"x": 1}], dict, two))

    def test_wrong_columns(self):
        for columns in ((), ((0, "q", None, 64),) * 17, ((0, "q", None, 4089),), ((0, "q", None, -8),), ((0, "a", self.array, 4080),)):
            with self.assertRaises(ValueError, msg=columns):
                self.write([(self.array,)], tuple, columns)
        with self.assertRaises(TypeError):
            self.write([{1: 1}, {1: 1}], int, (([], "q", None, 64), (0, "q", None)))

    def test_samples_of_a_dataset(self):
        class Ends:
            def __getitem__(self, i):
                if i == 3:
                    raise KeyError("no such sample")
                return i, numpy.zeros((50, 50)), numpy.array(1.0), numpy.zeros((3, 0))
        samples = []
        with self.assertRaisesRegex(KeyError, "no such"):
            _native.fetch(Ends(), [1, 2, 3, 4], samples)
        self.assertEqual([sample[0] for sample in samples], [1, 2])
        _native.fetch([self.array, "text"], [-1, 0], samples)
        self.assertEqual(samples[2], "text")

    def test_arrays_are_as_they_are_said_to_be(self):
        def know(**changed):
            x = self.array
            said = {"array": x, "size": type(x).__basicsize__, "data": x.ctypes.data, "shape": x.shape, "dtype": x.dtype,
                    "flags": x.flags.num}
            return _native.know_arrays(*(said | changed).values())

        self.addCleanup(know)
        for changed in ({"size": 64}, {"data": 1}, {"shape": (2, 4)}, {"shape": (2, 3, 1)}, {"dtype": numpy.dtype("f8")}, {"flags": 0}):
            self.assertFalse(know(**changed), changed)
            self.test_values_in_their_columns()  # by their buffers
            self.test_what_is_not_alike()
        self.assertTrue(know())


class Alike(Same):
    """Batches of a worker, where its samples change, and PyTorch's."""

    def assert_same(self, ours, theirs):
        super().assert_same(ours, theirs)
        keys = [[list(batch) for batch in batches if isinstance(batch, dict)] for batches in (ours, theirs)]
        self.assertEqual(*keys)

    def check(self, samples, rows=2):
        wanted = [torch.utils.data.default_collate(samples[i:i + rows]) for i in range(0, len(samples), rows)]
        self.assert_same(list(DataLoader(Samples(samples), rows, num_workers=1)), wanted)

    def test_kinds_that_take_turns(self):
        x = numpy.arange(6.0).reshape(2, 3)
        kinds = [
            lambda i: (x * i, i), lambda i: [x * i, i], lambda i: (x * i, i / 2), lambda i: ((x * i).astype("f4"), i), lambda i: (x.T * i, i),
            lambda i: {"a": x * i, "b": i}, lambda i: {"b": i, "a": x * i}, lambda i: (x * i, i, i > 3), lambda i: x * i, lambda i: i,
            lambda i: (x * i, numpy.int64(i)), lambda i: (torch.tensor(i), i), lambda i: (numpy.asfortranarray(x * i), i), lambda i: (),
            lambda i: (x * i, str(i)), lambda i: ((x * i, i), i)]
        order = [kind for pair in itertools.permutations(range(len(kinds)), 2) for kind in pair for _ in range(4)]
        self.check([kinds[kind](i) for i, kind in enumerate(order)])

    def test_numbers_of_several_types_among_those_of_one(self):
        self.check([1, 2.5, 3, 4, 5, 6.5, 7, 8])
        self.check([0.5, 1, 2.5, 3.5, True, 2, False, True])

    def test_the_last_is_shorter(self):
        samples = [(numpy.full(3, i), i) for i in range(8)]
        self.check(samples, 3)
        loader = DataLoader(Samples(samples), 3, num_workers=1, persistent_workers=True)
        self.assertEqual([[y.tolist() for _, y in loader] for _ in range(3)], [[[0, 1, 2], [3, 4, 5], [6, 7]]] * 3)

    def test_many_columns(self):
        self.check([tuple(range(i, i + 17)) for i in range(6)])
        self.check([tuple(range(i, i + 16)) for i in range(6)])

    def test_small_samples_that_become_large(self):
        small, large = numpy.zeros(3, "f4"), numpy.ones(100000, "f4")
        self.check([small, small, large, large, small, small, large, large], 2)

    def test_a_sample_that_does_not_fit(self):
        samples = [(numpy.full(3, i), i) for i in range(12)]
        samples[7] = numpy.zeros(4), 7
        iterator = iter(DataLoader(Samples(samples), 4, num_workers=1))
        self.assertEqual(next(iterator)[1].tolist(), [0, 1, 2, 3])
        with self.assertRaisesRegex(RuntimeError, "equal size"):
            next(iterator)
        self.assert_same(next(iterator), torch.utils.data.default_collate(samples[8:]))

    def test_which_sample_raises(self):
        class Bad(Samples):
            def __getitem__(self, i):
                if i in (5, 9):
                    raise (ValueError if i == 5 else StopIteration)("bad")
                return i
        for rng in ("torch", "stoker"):
            iterator = iter(DataLoader(Bad(range(12)), 4, num_workers=1, rng=rng))
            next(iterator)
            with self.assertRaisesRegex(ValueError, r"\(index 5\)"):
                next(iterator)
            with self.assertRaisesRegex(RuntimeError, "StopIteration at index 9"):
                next(iterator)

    def test_one_call_writes_them(self):
        class Counted(Samples):
            def __getitem__(self, i):
                if i == 4:  # behind the first batch
                    _collate._Fields.add = None
                return numpy.full(3, i), i
        loader = DataLoader(Counted(range(12)), 4, num_workers=1)
        self.assertEqual([y.tolist() for _, y in loader], [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]])

    def test_of_a_stream(self):
        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self):
                return ((numpy.full(2, i), i) for i in range(10))
        for size in (3, 4, 5, 16):
            wanted = list(torch.utils.data.DataLoader(Stream(), size, num_workers=1))
            self.assert_same(list(DataLoader(Stream(), size, num_workers=1)), wanted)


class Tasks(unittest.TestCase):
    def test_indices_are_what_they_were(self):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            for index in ([], [1, -2, (1 << 63) - 1, -1 << 63], [1 << 63], [True, 1], [numpy.int64(3)], [1.0], (1, 2), 5, "five", None,
                          list(range(512)), list(range(513)), [[1]], array.array("q", [1])):
                _message.send_task(ours, _message.Task(_message.TASK, 7, 1 << 40, index))
                task = _message.receive_task(theirs)
                self.assertEqual(task, (_message.TASK, 7, 1 << 40, index))
                self.assertEqual(pickle.dumps(task.index), pickle.dumps(index))
            self.assertTrue(_native.task_send(ours.fileno(), 0, 1, 2, list(range(512))))
            self.assertFalse(_native.task_send(ours.fileno(), 0, 1, 2, list(range(513))))
            self.assertEqual(_message.receive_task(theirs).index, list(range(512)))
            for packet in (b"short", _message._TASK.pack(0, True, 1, 2, 8), _message._TASK.pack(0, False, 1, 2, 4) + b"12345",
                           _message._TASK.pack(0, True, 1, 2, 4) + b"1234"):
                ours.send(packet)
                with self.assertRaises(ValueError):
                    _message.receive_task(theirs)


class States(Same):
    """Whether random states have moved, and answers that say they have not."""

    def draws(self):
        return {
            "torch": lambda: torch.rand(1), "torch, kept": lambda: torch.randn(1), "torch's other kept": lambda: torch.randn(1),
            "numpy": lambda: numpy.random.rand(), "numpy, kept": numpy.random.standard_normal, "numpy's kept": numpy.random.standard_normal,
            "random": random.random, "random, kept": lambda: random.gauss(0, 1), "random's kept": lambda: random.gauss(0, 1),
            "torch seeded": lambda: torch.manual_seed(7), "numpy seeded": lambda: numpy.random.seed(7), "random seeded": lambda: random.seed(7),
            "all words of random": lambda: random.getrandbits(32 * 624), "all words of NumPy": lambda: numpy.random.bytes(4 * 624),
            "all words of torch": lambda: torch.randint(9, (624,))}

    def check(self):
        with unittest.mock.patch.multiple(_random, _SPARE=None, _PYTHON=None, _OF_TORCH=None):
            known = _random.Watch()
        torch.manual_seed(1), numpy.random.seed(1), random.seed(1)
        watch = _random.Watch()
        self.assertFalse(watch.moved())
        for name, draw in self.draws().items():
            draw()
            self.assertTrue(watch.moved(), name)
            self.assertFalse(watch.moved(), name)
            with unittest.mock.patch.multiple(_random, _SPARE=None, _PYTHON=None, _OF_TORCH=None):
                known.moved()
            self.assertEqual(watch.state, known.state, name)

    def test_every_draw_is_seen(self):
        self.assertNotIn(None, (_random._SPARE, _random._PYTHON, _random._OF_TORCH))
        self.check()

    def test_every_draw_is_seen_through_functions(self):
        for missing in ({"_SPARE": None}, {"_PYTHON": None}, {"_OF_TORCH": None}):
            with unittest.mock.patch.multiple(_random, **missing):
                self.check()

    def test_another_generator(self):
        watch, before = _random.Watch(), random._inst
        random._inst = random.Random(5)
        try:
            self.assertTrue(watch.moved())
            random._inst.random()
            self.assertTrue(watch.moved())
        finally:
            random._inst = before
        self.assertTrue(watch.moved())
        self.assertEqual(watch.state, _random.current())

    def test_answers_without_one(self):
        slab, fd = _native.slab_create(4096)
        os.close(fd)
        memory = memoryview(slab.lease(False))
        memory[64:68], memory[192:195] = b"word", b"own"
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

        def state(moved, own, size, *before):
            theirs.send(_message._ANSWER.pack(0, moved, 1, 2, 0, 0, 0, 0, 192, own, 0))
            return _native.answer_receive(ours.fileno(), {0: slab}, size, *before)[-1]
        with ours, theirs:
            before = b"last"
            self.assertEqual(state(1, 3, 4, before), b"wordown")
            self.assertIs(state(0, 0, 4, before), before)
            self.assertEqual(state(0, 3, 4, b"lastmore"), b"lastown")
            self.assertEqual(state(0, 0, 4, b"lastmore"), b"last")
            self.assertEqual(state(0, 3, 0), b"own")
            for wrong in ((), (None,), (b"las",)):
                with self.assertRaisesRegex(ValueError, "without its random state"):
                    state(0, 0, 4, *wrong)

    class Sometimes(torch.utils.data.Dataset):
        """Draws in few batches; the first time that `deadly` is asked for, the worker dies."""

        def __init__(self, deadly, flag):
            self.deadly, self.flag = deadly, flag

        def __len__(self):
            return 64

        def __getitem__(self, i):
            if i == self.deadly and not os.path.exists(self.flag):
                Path(self.flag).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            if i in (5, 21, 50):
                return torch.randn(1).item(), random.gauss(0, 1), numpy.random.standard_normal()
            return 0.5, 1.5, 2.5

    def test_redone_behind_answers_without_one(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "none").touch()
            wanted = list(torch.utils.data.DataLoader(
                self.Sometimes(0, f"{folder}/none"), 4, num_workers=2, generator=torch.Generator().manual_seed(3)))
            for deadly in (1, 17, 45, 63):
                loader = DataLoader(self.Sometimes(deadly, f"{folder}/{deadly}"), 4, num_workers=2,
                                    generator=torch.Generator().manual_seed(3))
                with self.assertLogs("stoker", "WARNING"):
                    self.assert_same(list(loader), wanted)

    def test_resumed_behind_answers_without_one(self):
        with tempfile.TemporaryDirectory() as folder:
            def loader():
                return DataLoader(self.Sometimes(0, folder), 4, num_workers=2, generator=torch.Generator().manual_seed(3))
            wanted = list(loader())
            for given in (1, 4, 9):
                first = loader()
                iterator = iter(first)
                got = [next(iterator) for _ in range(given)]
                second = loader()
                second.load_state_dict(first.state_dict())
                self.assert_same(got + list(second), wanted)


class Order(unittest.TestCase):
    def test_one_thread_while_it_is_drawn(self):
        def threads():
            return _openmp._FOUND[0]()
        self.assertIsNotNone(_openmp._FOUND)
        before = torch.get_num_threads()
        with self.assertRaises(KeyError), _openmp.one_thread():
            self.assertEqual((threads(), torch.get_num_threads()), (1, 1))
            raise KeyError
        self.assertEqual((threads(), torch.get_num_threads()), (before, before))
        with unittest.mock.patch.object(_openmp, "_FOUND", None), _openmp.one_thread():
            self.assertEqual(torch.get_num_threads(), before)

    def test_permutations_are_made_in_one(self):
        seen = []
        randperm = torch.randperm

        def watched(*args, **options):
            seen.append(torch.get_num_threads())
            return randperm(*args, **options)
        torch.set_num_threads(2)
        for drop_last in (False, True):
            with unittest.mock.patch.object(torch, "randperm", watched):
                list(DataLoader(Samples(range(10)), 4, True, num_workers=1, drop_last=drop_last))
        self.assertEqual(seen, [1] * 4)
        self.assertEqual(torch.get_num_threads(), 2)


if __name__ == "__main__":
    unittest.main()
