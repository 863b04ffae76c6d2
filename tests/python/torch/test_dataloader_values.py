# SPDX-License-Identifier: Apache-2.0
"""Batches of torch's DataLoader and of ours: what becomes of samples of every kind, and whose memory it is."""
import collections
import dataclasses
import gc
import random
import unittest
import warnings

import numpy
import torch
from torch.utils import data as torch_data

from data import Made, Point, Squares, both, numbers

T = torch.tensor
F64, F32, I64 = torch.float64, torch.float32, torch.int64


class Bag(dict):
    """A dict that has something besides."""
    note = "none"


class Row(list):
    pass


@dataclasses.dataclass
class Record:
    name: str
    tensor: torch.Tensor


def bag(**values):
    made = Bag(**values)
    made.note = "kept"
    return made


def arrays(dtype, *shape):
    return [(numpy.arange(numpy.prod(shape, dtype=int)).reshape(shape) + k).astype(dtype) for k in range(3)]


# samples -> their batch by default_collate
COLLATED = {
    "tensors": ([torch.arange(6.0).reshape(2, 3) + k for k in range(3)],
                torch.stack([torch.arange(6.0).reshape(2, 3) + k for k in range(3)])),
    "tensors of a number": ([T(1), T(2)], T([1, 2])),
    "tensors of nothing": ([torch.empty(0, 3), torch.empty(0, 3)], torch.empty(2, 0, 3)),
    "transposed tensors": ([torch.arange(6).reshape(2, 3).t() + k for k in range(2)],
                           torch.stack([torch.arange(6).reshape(2, 3).t() + k for k in range(2)])),
    "sliced tensors": ([torch.arange(20)[k::3][:4] for k in range(3)], T([[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]])),
    "expanded tensors": ([T([1.5]).expand(4), T([2.5]).expand(4)], T([[1.5] * 4, [2.5] * 4])),
    "floats": ([1.0, 2.5, -0.0], T([1.0, 2.5, -0.0], dtype=F64)),
    "special floats": ([float("inf"), -1e308, 5e-324], T([float("inf"), -1e308, 5e-324], dtype=F64)),
    "ints": ([1, -2, 2**62], T([1, -2, 2**62])),
    "bools": ([True, False, True], T([True, False, True])),
    "an int, a float": ([1, 2.5], T([1, 2.5])),
    "NumPy's numbers of two widths": ([numpy.int32(1), numpy.int64(2**40)], T([1, 2**40])),
    "NumPy's floats of two widths": ([F(1.1) for F in (numpy.float32, numpy.float64)], T([float(numpy.float32(1.1)), 1.1], dtype=F64)),
    "a number of NumPy, a float": ([numpy.int64(1), 2.5], T([1.0, 2.5])),
    "a bool, an int": ([True, 5], T([1, 5])),
    "a float, an int": ([0.5, 2], T([0.5, 2], dtype=F64)),
    "numbers of numpy": ([numpy.float32(1.5), numpy.float32(2)], T([1.5, 2])),
    "short numbers of numpy": ([numpy.int16(-3), numpy.int16(9)], T([-3, 9], dtype=torch.int16)),
    "truth of numpy": ([numpy.bool_(True), numpy.bool_(False)], T([True, False])),
    "strings": (["a", "", "\u00e4\U0001f600"], ["a", "", "\u00e4\U0001f600"]),
    "bytes": ([b"a", b"\0"], [b"a", b"\0"]),
    "tuples": ([(1, 2.0), (3, 4.0)], [T([1, 3]), T([2.0, 4.0], dtype=F64)]),
    "lists": ([[1, 2.0], [3, 4.0]], [T([1, 3]), T([2.0, 4.0], dtype=F64)]),
    "lists of a kind": ([Row([1, 2.0]), Row([3, 4.0])], Row([T([1, 3]), T([2.0, 4.0], dtype=F64)])),
    "strings in tuples": ([("a", 1), ("b", 2)], [("a", "b"), T([1, 2])]),
    "named tuples": ([Point(1, T([1.0])), Point(2, T([2.0]))], Point(T([1, 2]), T([[1.0], [2.0]]))),
    "dicts": ([{"b": 1, "a": (2, "x")}, {"a": (3, "y"), "b": 4}], {"b": T([1, 4]), "a": [T([2, 3]), ("x", "y")]}),
    "dicts with more later": ([{"a": 1}, {"a": 2, "b": 3}], {"a": T([1, 2])}),
    "dicts by numbers": ([{1: 5, None: 0.5}, {1: 6, None: 1.5}], {1: T([5, 6]), None: T([0.5, 1.5], dtype=F64)}),
    "dicts of a kind": ([bag(a=1), bag(a=2)], bag(a=T([1, 2]))),
    "ordered dicts": ([collections.OrderedDict(z=1, a=2)] * 2, collections.OrderedDict(z=T([1, 1]), a=T([2, 2]))),
    "default dicts": ([collections.defaultdict(list, a=2)] * 2, collections.defaultdict(list, a=T([2, 2]))),
    "deep": ([{"a": [(1, {"b": Point("s", numpy.ones(2, "f4"))})]}] * 2,
             {"a": [[T([1, 1]), {"b": Point(("s", "s"), torch.ones(2, 2))}]]}),
    "empty tuples": ([(), ()], []),
    "empty dicts": ([{}, {}], {}),
    "one": ([(T([1]), 2)], [T([[1]]), T([2])]),
    **{f"arrays of {dtype}": (arrays(dtype, 2, 3), torch.stack([torch.from_numpy(a) for a in arrays(dtype, 2, 3)]))
       for dtype in ("u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16", "?", "u2", "u4", "u8")},
    "arrays of a number": ([numpy.array(3), numpy.array(4)], T([3, 4])),
    "arrays in Fortran's order": ([numpy.asfortranarray(a) for a in arrays("f4", 3, 4)],
                                  torch.stack([torch.from_numpy(a) for a in arrays("f4", 3, 4)])),
    "sliced arrays": ([a[::2, 1:] for a in arrays("i4", 5, 4)],
                      torch.stack([torch.from_numpy(a[::2, 1:].copy()) for a in arrays("i4", 5, 4)])),
    "arrays of nothing": ([numpy.zeros((0, 2), "f4")] * 2, torch.zeros(2, 0, 2)),
    **{f"tensors of {dtype}": ([torch.ones(3).to(dtype), torch.zeros(3).to(dtype)], torch.stack([torch.ones(3).to(dtype), torch.zeros(3).to(dtype)]))
       for dtype in (torch.bfloat16, torch.float16, torch.complex64, torch.uint8, torch.bool, torch.int32)},
}

# samples without a batch: the error, words of it
REFUSED = {
    "None": ([None, None], TypeError, "NoneType"),
    "None later": ([1, None], (TypeError, RuntimeError), ""),
    "sets": ([{1}, {2}], TypeError, "set"),
    "complex numbers": ([1j, 2j], TypeError, "complex"),
    "objects": ([Record("a", T(1)), Record("b", T(2))], TypeError, "Record"),
    "arrays of strings": ([numpy.array(["a"]), numpy.array(["b"])], TypeError, "U"),
    "arrays of objects": ([numpy.array([None]), numpy.array([{}])], TypeError, ""),
    "dates": ([numpy.datetime64("2020-01-01")] * 2, TypeError, ""),
    "arrays of the other byte order": (arrays(">f4", 2), ValueError, "byte order"),
    "arrays backwards": ([a[::-1] for a in arrays("f4", 4)], ValueError, "strides"),
    "ragged tensors": ([torch.ones(2), torch.ones(3)], RuntimeError, ""),
    "ragged arrays": ([numpy.ones((2, 2)), numpy.ones((2, 3))], RuntimeError, ""),
    "one dimension more": ([torch.ones(2), torch.ones(2, 1)], RuntimeError, ""),
    "ragged tuples": ([(1, 2), (1, 2, 3)], RuntimeError, ""),
    "ragged lists": ([[1, 2], [1]], RuntimeError, ""),
    "a key missing": ([{"a": 1, "b": 2}, {"a": 1}], KeyError, "b"),
    "a string among numbers": ([1, "a"], (TypeError, ValueError), ""),
    "too large for 64 bits": ([1, 2**63], (ValueError, OverflowError, RuntimeError), ""),
}

# a sample alone -> by default_convert
CONVERTED = {
    "tensor": (T([1.0]), T([1.0])), "array": (numpy.ones(2, "f4"), torch.ones(2)), "number": (numpy.int16(4), T(4, dtype=torch.int16)),
    "float": (1.5, 1.5), "int": (7, 7), "bool": (True, True), "None": (None, None), "string": ("x", "x"), "bytes": (b"x", b"x"),
    "tuple": ((1, numpy.ones(1)), [1, torch.ones(1, dtype=F64)]), "list": ([numpy.ones(1)], [torch.ones(1, dtype=F64)]),
    "named": (Point(1, numpy.ones(1)), Point(1, torch.ones(1, dtype=F64))), "dict": ({"a": numpy.ones(1)}, {"a": torch.ones(1, dtype=F64)}),
    "set": ({1, 2}, {1, 2}), "strings": (numpy.array("a"), numpy.array("a")), "complex": (1 + 2j, 1 + 2j),
}


@both
class Collate:
    def test_every_kind(self):
        for workers in (0, 1):
            for name, (samples, wanted) in COLLATED.items():
                with self.subTest(name=name, workers=workers):
                    got = list(self.DataLoader(samples, len(samples), num_workers=workers))
                    self.assertEqual(len(got), 1)
                    self.assertSame(got[0], wanted)
                    self.assertEqual(getattr(got[0], "note", None), getattr(wanted, "note", None))

    def test_every_kind_again_and_again(self):
        """The same as a loader's second, third and shorter last batch."""
        samples = [sample for kind, _ in COLLATED.values() for sample in kind[:2] * 3]
        sizes = [len(kind[:2]) for kind, _ in COLLATED.values()]
        batches, start = [], 0
        for size in sizes:
            batches += [list(range(start + part * size, start + part * size + size)) for part in range(3)] + [[start]]
            start += 3 * size
        loader = self.DataLoader(samples, batch_sampler=batches, num_workers=2)
        for batch, got in zip(batches, loader, strict=True):
            self.assertSame(got, torch_data.default_collate([samples[i] for i in batch]), f"samples {batch}")

    def test_refused(self):
        for workers in (0, 1):
            for name, (samples, error, words) in REFUSED.items():
                with self.subTest(name=name, workers=workers):
                    iterator = iter(self.DataLoader(samples + [1], batch_sampler=[range(len(samples)), [len(samples)]], num_workers=workers))
                    with self.assertRaisesRegex(error, words):
                        next(iterator)
                    self.assertEqual(next(iterator).tolist(), [1])  # the next batch is not touched by it

    def test_refused_behind_good_ones(self):
        """What was learnt of the first batches does not hide that a later one has no batch."""
        for name, (samples, error, words) in REFUSED.items():
            with self.subTest(name=name):
                first, count = samples[:1], len(samples)
                if name in ("None", "sets", "complex numbers", "objects", "arrays of strings", "arrays of objects", "dates",
                            "arrays of the other byte order", "arrays backwards"):
                    first = [1]
                dataset = first + samples
                loader = self.DataLoader(dataset, batch_sampler=[[0], [0, 0], range(1, count + 1), [0]], num_workers=1)
                iterator = iter(loader)
                self.assertSame(next(iterator), torch_data.default_collate(first))
                self.assertSame(next(iterator), torch_data.default_collate(first * 2))
                with self.assertRaisesRegex(error, words):
                    next(iterator)
                self.assertSame(next(iterator), torch_data.default_collate(first))

    def test_alone(self):
        for workers in (0, 1):
            for name, (sample, wanted) in CONVERTED.items():
                with self.subTest(name=name, workers=workers):
                    self.assertSame(list(self.DataLoader([sample] * 3, None, num_workers=workers)), [wanted] * 3)

    def test_dtypes_that_differ_in_a_batch(self):
        """Promoted in the consumer, refused in a worker, whose memory has the type of the first."""
        samples = [T([1]), T([2.5])]
        self.assertEqual(numbers(self.DataLoader(samples, 2)), [[[1], [2.5]]])
        with self.assertRaises(TypeError):
            list(self.DataLoader(samples, 2, num_workers=1))

    def test_shapes_that_change_from_batch_to_batch(self):
        kinds = [lambda k: torch.full((k % 5 + 1, 3), float(k)), lambda k: numpy.full((2, k % 3 + 1), k, ("i4", "f8", "u1")[k % 3]),
                 lambda k: {"a": k} if k % 2 else {"a": k, "b": 0.5}, lambda k: [k] * (k % 4), lambda k: "x" * k,
                 lambda k: (k, 0.5, "s", b"t")[k % 4], lambda k: torch.ones(1 << (k % 18))]
        for make in kinds:
            samples = [make(k) for k in range(40)]
            batches = [[k, k] for k in range(40)]
            got = list(self.DataLoader(samples, batch_sampler=batches, num_workers=2))
            for k, batch in enumerate(got):
                self.assertSame(batch, torch_data.default_collate([samples[k]] * 2), f"batch {k}")

    def test_growing(self):
        """Each batch is far larger than what came before."""
        samples = [numpy.full(4 ** k, k, "u1") for k in range(13)]
        for k, batch in enumerate(self.DataLoader(samples, 1, num_workers=2)):
            self.assertEqual((batch.shape, batch.min(), batch.max()), ((1, 4 ** k), k, k))

    def test_many_fields(self):
        samples = [{f"field {i}": (i, float(k), numpy.full(i % 7, k)) for i in range(300)} for k in range(4)]
        for workers in (0, 1):
            got = list(self.DataLoader(samples, 2, num_workers=workers))
            self.assertSame(got[1], torch_data.default_collate(samples[2:]))


@both
class OwnCollate:
    def test_any_value(self):
        shared = torch.arange(12.0)
        values = [None, "text", 5, {1, 2}, b"x" * 100000, Record("r", torch.arange(4)), [T(1), None, {"a": T([1.5])}], (T([1]), "b"),
                  Point(1, T([2])), {"a": {"b": (T([3]), [T([4])])}}, T(5), torch.empty(0), torch.ones(3, dtype=torch.bfloat16),
                  numpy.arange(6).reshape(2, 3), numpy.array(["a", "b"]), 1j, lambda_free, Record, [shared[2:8], shared[::2], shared],
                  torch.arange(6).reshape(2, 3).t(), torch.ones(2, 3).to_sparse(),
                  torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])]
        for workers in (0, 1):
            loader = self.DataLoader(range(len(values)), 1, num_workers=workers, collate_fn=lambda samples: values[samples[0]])
            for value, got in zip(values, loader, strict=True):
                with self.subTest(value=value, workers=workers):
                    if isinstance(value, Record):
                        self.assertEqual(got.name, value.name)
                        self.assertSame(got.tensor, value.tensor)
                    elif isinstance(value, torch.Tensor) and value.is_nested:
                        self.assertEqual([row.tolist() for row in got.unbind()], [row.tolist() for row in value.unbind()])
                    elif isinstance(value, torch.Tensor) and value.is_sparse:
                        self.assertTrue(got.is_sparse)
                        self.assertSame(got.to_dense(), value.to_dense())
                    else:
                        self.assertSame(got, value)

    def test_parameters_and_gradients(self):
        """Without a graph they go as they are; of a graph they cannot leave the worker."""
        made = torch.ones(3, requires_grad=True)
        got = next(iter(self.DataLoader([0], 1, num_workers=1, collate_fn=lambda samples: made)))
        self.assertTrue(got.requires_grad)
        self.assertSame(got.detach(), torch.ones(3))
        got = next(iter(self.DataLoader([0], 1, num_workers=1, collate_fn=lambda samples: torch.nn.Parameter(torch.ones(2)))))
        self.assertIsInstance(got, torch.nn.Parameter)

    def test_of_default_collate(self):
        def mine(samples):
            batch = torch_data.default_collate(samples)
            return {"x": batch * 2, "count": len(samples)}
        for workers in (0, 2):
            got = list(self.DataLoader(Squares(5), 2, num_workers=workers, collate_fn=mine))
            self.assertSame(got[0], {"x": T([0, 2]), "count": 2})
            self.assertSame(got[2], {"x": T([32]), "count": 1})

    def test_padded(self):
        def pad(samples):
            return torch.nn.utils.rnn.pad_sequence(samples, batch_first=True), T([len(sample) for sample in samples])
        random.seed(3)
        samples = [torch.arange(random.randrange(1, 50)) for _ in range(100)]
        for k, got in enumerate(self.DataLoader(samples, 8, num_workers=2, collate_fn=pad)):
            self.assertSame(got, pad(samples[8 * k:8 * k + 8]))

    def test_a_batch_that_is_the_samples(self):
        samples = [{"boxes": torch.ones(k, 4), "name": f"n{k}"} for k in range(6)]
        self.assertSame(sum(self.DataLoader(samples, 2, num_workers=2, collate_fn=list), []), samples)


def lambda_free():
    """A function that pickles by its name."""


@both
class Memory:
    def test_kept_batches_stay_as_they_are(self):
        dataset = Made(400, lambda i: (numpy.full((7, 11), i, "i4"), i))
        kept = list(self.DataLoader(dataset, 2, num_workers=2))
        for k, (images, labels) in enumerate(kept):
            self.assertEqual(labels.tolist(), [2 * k, 2 * k + 1])
            self.assertTrue((images == labels.view(2, 1, 1)).all())

    def test_some_kept_some_not(self):
        """Whichever of the batches a consumer keeps, and for however long."""
        draw = random.Random(5)
        dataset = Made(600, lambda i: torch.full((50 + i % 3 * 1000 * (i % 50 == 0),), float(i)))
        kept = {}
        for k, batch in enumerate(self.DataLoader(dataset, 1, num_workers=3, prefetch_factor=3)):
            self.assertEqual(batch[0, 0], k)
            if draw.random() < 0.3:
                kept[k] = batch[0, 10:20]
            for old in draw.sample(sorted(kept), min(len(kept), draw.randrange(3))):
                self.assertTrue((kept.pop(old) == old).all())
        for k, part in kept.items():
            self.assertTrue((part == k).all())

    def test_batches_are_written(self):
        """A batch belongs to the consumer: it may be written, and no other batch sees it."""
        loader = self.DataLoader(Made(64, lambda i: (torch.full((5,), i), i)), 4, num_workers=2, persistent_workers=True)
        for _ in range(3):
            for k, (images, labels) in enumerate(loader):
                self.assertEqual(images.tolist(), [[i] * 5 for i in range(4 * k, 4 * k + 4)])
                images.fill_(-1), labels.add_(1000)
                self.assertTrue((images == -1).all())
                self.assertTrue(images.is_contiguous())

    def test_samples_of_the_dataset_are_not_written(self):
        samples = [torch.zeros(3) for _ in range(6)]
        for batch in self.DataLoader(samples, 2):
            batch.fill_(7)
        self.assertEqual(sum(sample.sum() for sample in samples), 0)

    def test_batches_outlive_the_loader(self):
        for views in (False, True):
            loader = self.DataLoader(Made(40, lambda i: torch.full((1000,), i)), 4, num_workers=2)
            kept = [batch[1:, ::2].numpy() if views else batch for batch in loader]
            del loader
            gc.collect()
            for k, batch in enumerate(kept):
                self.assertEqual([row[0].item() for row in batch], list(range(4 * k + views, 4 * k + 4)))
                self.assertTrue((batch[:, 3] == batch[:, -1]).all())

    def test_batches_of_a_broken_epoch(self):
        iterator = iter(self.DataLoader(Made(100, lambda i: torch.full((100,), i)), 4, num_workers=2))
        kept = [next(iterator) for _ in range(3)]
        del iterator
        gc.collect()
        self.assertEqual([batch[:, 50].tolist() for batch in kept], [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]])

    def test_batches_are_plain_tensors(self):
        import io
        import pickle
        batch = next(iter(self.DataLoader(Made(4, lambda i: torch.full((3,), float(i))), 4, num_workers=1)))
        wanted = T([[0.0] * 3, [1.0] * 3, [2.0] * 3, [3.0] * 3])
        self.assertIs(type(batch), torch.Tensor)
        self.assertFalse(batch.requires_grad)
        self.assertEqual(batch.device.type, "cpu")
        self.assertSame(pickle.loads(pickle.dumps(batch)), wanted)
        file = io.BytesIO()
        torch.save(batch, file)
        file.seek(0)
        self.assertSame(torch.load(file), wanted)
        self.assertSame(batch.clone().share_memory_(), wanted)
        self.assertSame(torch.from_numpy(batch.numpy()), wanted)
        weight = torch.ones(3, requires_grad=True)
        (batch @ weight).sum().backward()
        self.assertSame(weight.grad, T([6.0, 6.0, 6.0]))
        self.assertEqual(batch.data_ptr() % 16, 0)

    def test_pinning_without_an_accelerator(self):
        if torch.accelerator.is_available():
            self.skipTest("this machine has an accelerator")
        for workers in (0, 2):
            with self.assertWarnsRegex(UserWarning, "pin_memory.*no accelerator"):
                self.assertEqual(numbers(self.DataLoader(Squares(5), 2, num_workers=workers, pin_memory=True)), [[0, 1], [4, 9], [16]])


if __name__ == "__main__":
    unittest.main()
