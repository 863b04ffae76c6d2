# SPDX-License-Identifier: Apache-2.0
"""What lies under stoker.torch.DataLoader: slabs and their lifetime, messages, collating, random states, redone batches."""
import collections
import gc
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
from pathlib import Path

import numpy
import torch
import torch.utils.data

from processes import received
from stoker import _native
from stoker.torch import DataLoader, _collate, _iterator, _message, _random


def flat(value):
    """Tensors and other leaves of a batch, in their order."""
    if isinstance(value, dict):
        return [leaf for key in value for leaf in flat(value[key])]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in flat(item)]
    return [value]


def shape_of(value):
    """Containers and types of a batch."""
    if isinstance(value, dict):
        return type(value), {key: shape_of(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value), [shape_of(item) for item in value]
    if isinstance(value, torch.Tensor):
        return value.dtype, value.shape, value.stride()
    return type(value)


class Same(unittest.TestCase):
    def assert_same(self, ours, theirs):
        self.assertEqual(shape_of(ours), shape_of(theirs))
        for a, b in zip(flat(ours), flat(theirs), strict=True):
            if isinstance(b, torch.Tensor):
                self.assertTrue(torch.equal(a, b), (a, b))
            else:
                self.assertEqual(a, b)


class Samples(torch.utils.data.Dataset):
    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        return self.samples[i]


class Short(list):
    """One whose length is a lie."""

    def __len__(self):
        return 2


class Squares(torch.utils.data.Dataset):
    """Values that say where they come from."""

    def __init__(self, size=40, width=6):
        self.size, self.width = size, width

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        return numpy.full(self.width, i * i, numpy.float32), i


class Noisy(torch.utils.data.Dataset):
    """All three generators; the first time that `deadly` is asked for, the worker dies."""

    def __init__(self, deadly=None, flag=None):
        self.deadly, self.flag = deadly, flag

    def __len__(self):
        return 60

    def __getitem__(self, i):
        if i == self.deadly and not os.path.exists(self.flag):
            Path(self.flag).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return random.gauss(0, 1), numpy.random.standard_normal(), torch.rand(2), numpy.random.rand(3), random.random()


Point = collections.namedtuple("Point", "x y")


class Slabs(unittest.TestCase):
    def make(self, size=4096):
        slab, fd = _native.slab_create(size)
        self.addCleanup(os.close, fd)
        return slab, fd

    def test_two_mappings_are_one_memory(self):
        slab, fd = self.make()
        other = received(fd)
        memoryview(slab.lease(False))[64:68] = b"abcd"
        self.assertEqual(bytes(memoryview(other.lease(False))[64:68]), b"abcd")
        self.assertEqual(len(other), 4096)

    def test_sealed(self):
        _, fd = self.make()
        for size in (0, 64, 1 << 20):
            with self.assertRaises(PermissionError):
                os.ftruncate(fd, size)

    def test_the_last_view_gives_back(self):
        slab, fd = self.make()
        consumer = received(fd)
        slab.give()
        lease = consumer.lease(True)
        tensor = _message.tensor_at(lease, (64, 2, 32, (3, 2)))
        array = numpy.frombuffer(memoryview(lease)[64:72], "u1")
        part = tensor[1:].numpy()
        del lease
        self.assertTrue(slab.given)
        del tensor
        self.assertTrue(slab.given)
        del array
        self.assertTrue(slab.given)
        del part
        self.assertFalse(slab.given)

    def test_a_worker_looking_gives_nothing_back(self):
        slab, _ = self.make()
        slab.give()
        del [slab.lease(False)][0]
        self.assertTrue(slab.given)

    def test_a_forked_child_gives_nothing_back(self):
        slab, _ = self.make()
        slab.give()
        lease = slab.lease(True)
        child = os.fork()
        if child == 0:
            del lease
            os._exit(0)
        os.waitpid(child, 0)
        self.assertTrue(slab.given)
        del lease
        self.assertFalse(slab.given)

    def test_views_outlive_the_slab(self):
        slab, fd = self.make()
        memoryview(slab.lease(False))[64:72] = bytes(range(8))
        tensor = _message.tensor_at(slab.lease(True), (64, 1, 8, (8,)))
        del slab
        gc.collect()
        self.assertEqual(tensor.tolist(), list(range(8)))

    def test_strides_and_bounds(self):
        slab, _ = self.make(64 + 24 * 4)
        lease = slab.lease(False)
        tensor = _message.tensor_at(lease, (64, 0, 32, (4, 6), (1, 4)))
        self.assertEqual((tensor.shape, tensor.stride()), ((4, 6), (1, 4)))
        for place in ((63, 1, 8, (1,)), (64, 0, 32, (25,)), (68, 0, 32, (24,)), (64, 0, 32, (4, 6), (1, 5)),
                      (64, 0, 32, (-1,)), (64, 0, 32, (2, 2), (1 << 62, 1 << 62)), (1 << 40, 0, 8, (1,)),
                      (64, 0, 32, (2,), (1, 1)), (64, 0, 32, (0, -1)), (64, 0, 32, (0, 2), (1, -1)),
                      (64, 0, 32, (2, -1 << 63)), (64, 0, 4, (8,)), (64, 0, 0, (8,)), (64, 0, 264, (1,)), (64, 300, 8, (1,))):
            with self.assertRaises((ValueError, OverflowError), msg=place):
                lease.tensor(*place)
        self.assertEqual(_message.tensor_at(lease, (64, 0, 32, (0, 3))).shape, (0, 3))

    def test_descriptors_of_something_else(self):
        with tempfile.TemporaryFile() as file:
            file.truncate(4096)
            with self.assertRaises(ValueError):
                received(file.fileno())
        with self.assertRaises(OSError):
            _native.task_receive(1 << 20)
        with self.assertRaises(ValueError):
            _native.slab_create(8)


class Stacks(unittest.TestCase):
    def setUp(self):
        self.slab, fd = _native.slab_create(4096)
        os.close(fd)
        self.lease = self.slab.lease(False)

    def test_arrays(self):
        for code in ("?", "u1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16"):
            rows = [(numpy.arange(6).reshape(2, 3) + i).astype(code) for i in range(5)]
            rows[2] = numpy.asfortranarray(rows[2])
            rows[3].flags.writeable = False
            self.assertTrue(_native.stack_arrays(rows, rows[0], self.lease, 128))
            got = numpy.frombuffer(memoryview(self.lease)[128:128 + 5 * rows[0].nbytes], code).reshape(5, 2, 3)
            numpy.testing.assert_array_equal(got, numpy.stack(rows))

    def test_what_is_not_alike(self):
        first = numpy.zeros((2, 3), "f4")
        for other in (numpy.zeros((3, 2), "f4"), numpy.zeros((2, 3), "i4"), numpy.zeros((2, 3), "f8"), numpy.zeros(6, "f4"),
                      numpy.zeros((2, 3), ">f4"), first[::-1], 3, None, "x"):
            self.assertFalse(_native.stack_arrays([first, other], first, self.lease, 64), other)
        with self.assertRaises(ValueError):
            _native.stack_arrays([first] * 200, first, self.lease, 64)
        with self.assertRaises(ValueError):
            _native.stack_arrays([first], first, self.lease, -8)

    def test_numbers(self):
        for kind, code, values in (("q", "i8", [1, -2, 1 << 62]), ("d", "f8", [0.5, float("inf")]), ("?", "?", [True, False])):
            self.assertTrue(_native.stack_numbers(values, kind, self.lease, 64))
            size = numpy.dtype(code).itemsize * len(values)
            self.assertEqual(numpy.frombuffer(memoryview(self.lease)[64:64 + size], code).tolist(), values)
        for kind, values in (("q", [1, 2.0]), ("q", [1, True]), ("q", [1 << 63]), ("d", [0.5, 1]), ("?", [True, 1]), ("d", ["x"])):
            self.assertFalse(_native.stack_numbers(values, kind, self.lease, 64), values)
        with self.assertRaises(ValueError):
            _native.stack_numbers([1] * 1000, "q", self.lease, 64)

        class Long(list):
            def __len__(self):
                return 1 << 61

        with self.assertRaises(MemoryError):  # its bytes are 0 in 64 bits
            _native.stack_numbers(Long([1]), "q", self.lease, 64)


class Collates(Same):
    """Batches of a worker and what default_collate makes of the same samples."""

    def check(self, samples, rows=None):
        expected = torch.utils.data.default_collate(samples)
        loader = DataLoader(Samples(samples), batch_size=rows or len(samples), num_workers=1)
        self.assert_same(list(loader)[0], expected)

    def test_common_types(self):
        for make in (lambda i: i, lambda i: i + 0.5, lambda i: i % 2 == 0, lambda i: numpy.float32(i), lambda i: numpy.int16(i),
                     lambda i: numpy.full((2, 3), i), lambda i: torch.full((2,), i), lambda i: str(i), lambda i: bytes([i]),
                     lambda i: numpy.array(i), lambda i: torch.tensor(i + 0.25), lambda i: numpy.bool_(i % 2)):
            with self.subTest(make(3)):
                self.check([make(i) for i in range(5)])

    def test_containers(self):
        for make in (lambda i: (i, float(i)), lambda i: [i, str(i)], lambda i: {"a": i, "b": {"c": numpy.ones(3) * i}},
                     lambda i: Point(i, numpy.ones(2)), lambda i: (Point((i,), [str(i)]), {}), lambda i: (),
                     lambda i: collections.OrderedDict(a=i), lambda i: collections.defaultdict(int, a=numpy.ones(2))):
            with self.subTest(make(3)):
                self.check([make(i) for i in range(5)])

    def test_the_first_decides(self):
        self.check([1, 2.5])
        self.check([True, 2])
        self.check([0.5, 1])
        self.check([{"a": 1}, {"a": 2, "b": 3}])

    def test_every_type_of_arrays_and_tensors(self):
        for code in ("?", "u1", "i1", "u2", "i2", "u4", "i4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"):
            with self.subTest(code):
                self.check([numpy.ones((2, 2), code) * i for i in range(3)] if code != "?" else [numpy.ones(2, "?")] * 3)
        for dtype in (*_message.DTYPES, torch.float8_e4m3fn, torch.complex32):
            with self.subTest(dtype):
                values = [torch.arange(4).to(dtype) for i in range(3)]
                [batch] = DataLoader(Samples(values), batch_size=3, num_workers=1)
                self.assertEqual((batch.dtype, batch.shape), (dtype, (3, 4)))
                self.assertEqual(batch.view(torch.uint8).tolist(), torch.stack(values).view(torch.uint8).tolist())

    def test_memory_of_any_layout(self):
        x = numpy.arange(24.0).reshape(2, 3, 4)
        self.check([x.T, numpy.ascontiguousarray(x.T)])
        self.check([x[:, ::2], x[:, 1:]])
        self.check([torch.from_numpy(x).permute(2, 0, 1)] * 2)

    def test_large_samples_in_groups(self):
        samples = [(numpy.full((100, 1000), i, "f4"), i, torch.full((7,), i), str(i)) for i in range(9)]
        self.check(samples)
        self.check([torch.full((300, 1000), i) for i in range(4)])

    def test_what_does_not_fit(self):
        large = numpy.zeros((300, 1000), "f4")
        for samples in ([numpy.zeros(3), numpy.zeros(4)], [torch.zeros(3), torch.zeros(4)], [(1, 2), (1, 2, 3)], [large, large[1:]],
                        [large, numpy.zeros(3, "f4")], [[1], [1, 2]]):
            with self.assertRaisesRegex(RuntimeError, "equal size"):
                list(DataLoader(Samples(samples), batch_size=2, num_workers=1))
        for samples in ([None, None], [{1}, {2}], [numpy.array("x")] * 2):
            with self.assertRaisesRegex(TypeError, "default_collate"):
                list(DataLoader(Samples(samples), batch_size=2, num_workers=1))
        with self.assertRaises(ValueError):
            list(DataLoader(Samples([numpy.zeros(3)[::-1]] * 2), batch_size=2, num_workers=1))
        with self.assertRaises(KeyError):
            list(DataLoader(Samples([{"a": 1}, {"b": 1}]), batch_size=2, num_workers=1))

    def test_a_changed_default_collate(self):
        class Own:
            pass

        table = torch.utils.data._utils.collate.default_collate_fn_map
        table[Own] = lambda batch, *, collate_fn_map: len(batch)
        try:
            self.assertFalse(_collate.is_standard(torch.utils.data.default_collate))
            self.assertEqual(list(DataLoader(Samples([Own()] * 5), batch_size=3, num_workers=1)), [3, 2])
        finally:
            del table[Own]
        self.assertTrue(_collate.is_standard(torch.utils.data.default_collate))

    def test_own_collate(self):
        shared = torch.arange(6.0)
        for batch in (torch.arange(12).view(3, 4).t(), torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last),
                      [shared, shared], {"x": [numpy.arange(3), "text", None, 3]}, torch.zeros(0, 3), Point(1, torch.ones(1)),
                      numpy.arange(100000), ["x" * 9000], torch.ones(3).to_sparse().to_dense()):
            [got] = DataLoader(Samples([0]), num_workers=1, collate_fn=lambda _, batch=batch: batch)
            if isinstance(batch, (numpy.ndarray, dict)):
                self.assertEqual(pickle.dumps(got), pickle.dumps(batch))
            else:
                self.assert_same(got, batch)
        [got] = DataLoader(Samples([0]), num_workers=1, collate_fn=lambda _: [shared, shared])
        self.assertIs(got[0], got[1])
        [got] = DataLoader(Samples([0]), num_workers=1, collate_fn=lambda _: torch.eye(3).to_sparse())
        self.assertTrue(torch.equal(got.to_dense(), torch.eye(3)))

    def test_lengths_that_are_wrong(self):
        class AtOnce(Samples):
            def __getitems__(self, index):
                return Short(self[i] for i in index)

        samples = [(numpy.full(100, i), torch.full((100,), -i)) for i in range(10)]
        for dataset in (Samples(samples), AtOnce(samples)):
            [(x, y)] = DataLoader(dataset, batch_sampler=[Short(range(10))], num_workers=1)
            self.assertEqual((x[:, 50].tolist(), y[:, 50].tolist()), ([*range(10)], [-i for i in range(10)]))

    def test_long_indices_and_skeletons(self):
        [batch] = DataLoader(Samples([str(i) for i in range(50000)]), batch_size=50000, num_workers=1)
        self.assertEqual(batch, [str(i) for i in range(50000)])


class Lifetimes(unittest.TestCase):
    def test_batches_that_are_kept_are_not_overwritten(self):
        kept = list(DataLoader(Squares(2000), batch_size=1, num_workers=2))
        for i, (x, y) in enumerate(kept):
            self.assertEqual((x.tolist(), y.tolist()), ([[i * i] * 6], [i]))

    def test_very_many_that_are_kept(self):
        with unittest.mock.patch.object(_iterator, "_MANY", 20), self.assertWarnsRegex(UserWarning, "more than 20 batches"):
            loader = DataLoader(Squares(200), batch_size=1, num_workers=1, collate_fn=lambda s: (torch.tensor(s[0][1]), s[0][0]))
            iterator = iter(loader)
            kept = [next(iterator) for _ in range(190)]
            self.assertLess(len(iterator._processes[0].slabs), 26)
        for i, (y, x) in enumerate(kept):
            self.assertEqual((x.tolist(), y.item()), ([i * i] * 6, i))

    def test_parts_of_batches_are_not_overwritten(self):
        parts = [x[0].numpy()[1:3] for x, _ in DataLoader(Squares(300), batch_size=3, num_workers=2)]
        self.assertEqual([p.tolist() for p in parts], [[i * i * 1.0] * 2 for i in range(0, 300, 3)])

    def test_slabs_are_used_again(self):
        loader = DataLoader(Squares(2000), batch_size=2, num_workers=1)
        iterator = iter(loader)
        for _ in iterator:
            process = (*iterator._processes, None)[0]
            if process:
                self.assertLessEqual(len(process.slabs), 8)

    def test_batches_of_growing_size(self):
        samples = [torch.full((1 << i,), i) for i in range(16)] * 3
        loader = DataLoader(Samples(samples), batch_size=None, num_workers=1)
        for got, expected in zip(loader, samples, strict=True):
            self.assertTrue(torch.equal(got, expected))

    def test_batches_are_written_to(self):
        for x, y in DataLoader(Squares(), batch_size=4, num_workers=2):
            expected = [[i * i * 1.0] * 6 for i in y.tolist()]
            self.assertEqual(x.tolist(), expected)
            x.fill_(-1)

    def test_descriptors(self):
        gc.collect()
        count = len(os.listdir("/proc/self/fd"))
        kept = list(DataLoader(Squares(), batch_size=4, num_workers=2))
        for _ in DataLoader(Squares(), batch_size=4, num_workers=2):
            break
        gc.collect()
        self.assertEqual(len(os.listdir("/proc/self/fd")), count)
        self.assertEqual(len(kept), 10)


class Randoms(unittest.TestCase):
    def state(self):
        return _random.current()

    def draws(self):
        return random.random(), random.gauss(0, 1), numpy.random.rand(), numpy.random.standard_normal(), torch.rand(1).item()

    def test_saved_and_loaded(self):
        for odd in range(4):
            torch.manual_seed(odd)
            random.seed(odd)
            numpy.random.seed(odd)
            for _ in range(odd):
                self.draws()
            if odd & 2:
                numpy.random.standard_normal()
                random.gauss(0, 1)
            state = self.state()
            first = [self.draws() for _ in range(400)]
            _random.load(state)
            self.assertEqual([self.draws() for _ in range(400)], first)

    def test_read_from_memory_as_through_functions(self):
        self.assertNotIn(None, (_random._SPARE, _random._PYTHON))
        for _ in range(3):
            self.draws()
            fast = self.state()
            spare, python = _random._SPARE, _random._PYTHON
            _random._SPARE = _random._PYTHON = None
            try:
                self.assertEqual(self.state(), fast)
            finally:
                _random._SPARE, _random._PYTHON = spare, python

    def test_positions_set_in_memory_as_through_functions(self):
        def draws(*position):
            random.gauss(0, 1)
            numpy.random.standard_normal()
            _random.seed_position(*position)
            return random.gauss(0, 1), random.random(), numpy.random.standard_normal(3).tolist(), torch.rand(3).tolist()

        for position in ((0,), (1, 2, 3), (-5, 1 << 70, 7)):
            fast = draws(*position)
            with unittest.mock.patch.object(_random, "_PYTHON", None):
                self.assertEqual(draws(*position), fast)

    def test_another_size(self):
        with self.assertRaises(ValueError):
            _random.load(b"x")


class Deaths(Same):
    def test_redone_to_the_bit(self):
        torch.manual_seed(5)
        expected = list(torch.utils.data.DataLoader(Noisy(), batch_size=4, num_workers=2, shuffle=True))
        with tempfile.TemporaryDirectory() as folder:
            for deadly in (0, 17, 59):
                torch.manual_seed(5)
                loader = DataLoader(Noisy(deadly, f"{folder}/{deadly}"), batch_size=4, num_workers=2, shuffle=True)
                with self.assertLogs("stoker", "WARNING") as log:
                    got = list(loader)
                self.assertIn("is killed by signal: Killed", log.output[0])
                self.assert_same(got, expected)

    def test_killed_while_it_waits(self):
        iterator = iter(DataLoader(Squares(), batch_size=4, num_workers=2))
        got = [next(iterator)]
        for process in iterator._processes:
            os.kill(process.process.pid, signal.SIGKILL)
        with self.assertLogs("stoker", "WARNING"):
            got += list(iterator)
        self.assertEqual([i for _, y in got for i in y.tolist()], list(range(40)))


class Threads(Same):
    def test_batches(self):
        for options in ({}, {"persistent_workers": True}):
            loader = DataLoader(Squares(), batch_size=7, shuffle=True, num_workers=3, workers="thread", **options)
            torch.manual_seed(2)
            got = [list(loader), list(loader)]
            torch.manual_seed(2)
            theirs = torch.utils.data.DataLoader(Squares(), batch_size=7, shuffle=True, num_workers=1, **options)
            self.assert_same(got, [list(theirs), list(theirs)])

    def test_they_run_at_once(self):
        meeting = threading.Barrier(2, timeout=30)

        class Meeting(Squares):
            def __getitem__(self, i):
                meeting.wait()
                return i

        self.assertEqual(len(list(DataLoader(Meeting(8), num_workers=2, workers="thread"))), 8)

    def test_errors(self):
        class Bad(Squares):
            def __getitem__(self, i):
                if i == 3:
                    raise KeyError("bad")
                if i == 5:
                    raise StopIteration
                return i

        iterator = iter(DataLoader(Bad(8), num_workers=2, workers="thread"))
        self.assertEqual([next(iterator).item() for _ in range(3)], [0, 1, 2])
        self.assertRaisesRegex(KeyError, "bad", next, iterator)
        self.assertEqual(next(iterator).item(), 4)
        self.assertRaisesRegex(RuntimeError, "StopIteration at index 5", next, iterator)
        self.assertEqual([batch.item() for batch in iterator], [6, 7])

    def test_stop_iteration_without_batches(self):
        class Bad(Squares):
            def __getitem__(self, i):
                if i == 1:
                    raise StopIteration
                return i
        for options in ({}, {"num_workers": 1}, {"num_workers": 1, "workers": "thread"}):
            iterator = iter(DataLoader(Bad(3), None, native=False, **options))
            self.assertEqual(next(iterator), 0)
            with self.assertRaisesRegex(RuntimeError, "StopIteration"):
                next(iterator)
            self.assertEqual(next(iterator), 2)

    def test_time_is_over(self):
        until = threading.Event()

        class Slow(Squares):
            def __getitem__(self, i):
                until.wait(30)
                return i

        iterator = iter(DataLoader(Slow(2), num_workers=1, workers="thread", timeout=0.05))
        self.assertRaisesRegex(RuntimeError, "timed out after 0.05", next, iterator)
        until.set()
        self.assertEqual([batch.item() for batch in iterator], [0, 1])

    def test_what_threads_cannot(self):
        with self.assertRaisesRegex(ValueError, "thread"):
            iter(DataLoader(Squares(), num_workers=1, workers="thread", rng="stoker"))


class Forks(unittest.TestCase):
    def child(self, function):
        pid = os.fork()
        if pid == 0:
            try:
                function()
                os._exit(0)
            finally:
                os._exit(1)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)

    def check(self, make):
        def in_a_child():
            with self.assertRaisesRegex(RuntimeError, "another process"):
                next(iterator)
            self.assertEqual([[y.tolist() for _, y in loader] for _ in range(2)], [whole, whole])  # its own
        loader = make()
        whole = [y.tolist() for _, y in loader]
        iterator = iter(loader)
        got = [next(iterator)[1].tolist()]
        self.child(in_a_child)
        self.assertEqual(got + [y.tolist() for _, y in iterator], whole)
        self.assertEqual([y.tolist() for _, y in loader], whole)

    def test_workers_are_the_parents(self):
        for options in ({}, {"persistent_workers": True}, {"workers": "thread"}, {"workers": "thread", "persistent_workers": True}):
            with self.subTest(**options):
                self.check(lambda: DataLoader(Squares(), 4, num_workers=2, **options))

    def test_loops_in_c(self):
        data = torch.utils.data.TensorDataset(torch.rand(40, 3), torch.arange(40))
        for options in ({}, {"num_workers": 2}, {"num_workers": 2, "persistent_workers": True}):
            with self.subTest(**options):
                self.check(lambda: DataLoader(data, 4, native=True, **options))


class Errors(unittest.TestCase):
    def test_of_a_class_without_a_name(self):
        def begin(worker):
            class Local(Exception):
                pass
            raise Local("no luck")
        with self.assertRaisesRegex(RuntimeError, "no luck"):
            list(DataLoader(Squares(4), num_workers=1, worker_init_fn=begin))


class Interpreters(unittest.TestCase):
    def test_end_with_live_workers(self):
        for persistent in (True, False):
            code = f"""
import torch, torch.utils.data
from stoker.torch import DataLoader
class D(torch.utils.data.Dataset):
    def __len__(self): return 100
    def __getitem__(self, i): return i
loader = DataLoader(D(), num_workers=2, persistent_workers={persistent})
it = iter(loader)
print(next(it))
"""
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "tensor([0])\n", ""))


if __name__ == "__main__":
    unittest.main()
