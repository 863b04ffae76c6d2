# SPDX-License-Identifier: Apache-2.0
"""Arrays as datasets, transforms as objects, samples in a given order. NumPy alone is needed."""
import ctypes
import gc
import inspect
import mmap
import unittest
import weakref

import numpy

import stoker
from stoker import _native, transforms
from stoker._memory import dataset

RANDOM = numpy.random.default_rng(1)
LIBC = ctypes.CDLL(None)


def pictures(count, side=12, channels=3):
    return RANDOM.integers(0, 256, (count, side, side, channels), "u1")


def at_the_end_of_a_page(array):
    """A copy whose last byte is the last that may be read: what lies behind is protected."""
    page = mmap.PAGESIZE
    whole = -(-array.nbytes // page) * page
    memory = mmap.mmap(-1, whole + page)
    flat = numpy.frombuffer(memory, "u1")
    assert LIBC.mprotect(ctypes.c_void_p(flat.ctypes.data + whole), ctypes.c_size_t(page), 0) == 0
    copy = flat[whole - array.nbytes : whole].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


class Memory(bytearray):
    """Some that weak references see."""


class Arrays(unittest.TestCase):
    def same(self, given, **options):
        """Every batch has the rows of the arrays."""
        named = given if isinstance(given, dict) else {"data": given}
        with stoker.Loader(given, batch_size=7, shuffle=True, **options) as loader:
            seen = []
            for batch in loader:
                for name, array in named.items():
                    self.assertEqual(batch[name].dtype, array.dtype)
                    numpy.testing.assert_array_equal(batch[name], array[batch["index"]])
                seen.extend(batch["index"])
        self.assertEqual(sorted(seen), list(range(len(next(iter(named.values()))))))

    def test_types_and_ranks(self):
        for dtype in ("bool", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16"):
            for shape in ((23,), (23, 4), (23, 2, 3), (23, 1, 2, 1, 2)):
                self.same(RANDOM.integers(0, 2, shape).astype(dtype))

    def test_strides(self):
        array = RANDOM.random((20, 6, 5, 4))
        for view in (array[::-1], array[::3], array[:, ::2], array[:, :, ::-1], array.transpose(0, 3, 1, 2), array.T,
                     array[:, 2:4, 1:3], numpy.asfortranarray(array), numpy.broadcast_to(array[0], array.shape)):
            self.same(view)
        small = pictures(30).transpose(0, 3, 1, 2)
        for view in (small, small[:, ::-1], small[..., ::2], small[::-2]):
            self.same(view)

    def test_several(self):
        given = {"x": RANDOM.random((40, 3)), "y": numpy.arange(40), "z": pictures(40)}
        for workers in (0, 1, 3):
            self.same(given, num_workers=workers)
        with stoker.Loader(tuple(given.values()), batch_size=40, as_tuple=True) as loader:
            self.assertEqual(loader.fields, ("0", "1", "2", "index"))
            x, y, z, _ = next(iter(loader))
            numpy.testing.assert_array_equal(x, given["x"])
            numpy.testing.assert_array_equal(z, given["z"])

    def test_rows_where_memory_ends(self):
        for array in (pictures(9, 5, 1), pictures(64, 28, 1), pictures(5, 33, 3)):
            array = at_the_end_of_a_page(array)
            scaled = array.astype("f4") / 255 * 2 - 1
            for workers in (0, 2):
                for text, wanted in (("", array), ("to_float", array / numpy.float32(255)),
                                     ("horizontal_flip(1), layout", array[:, :, ::-1].transpose(0, 3, 1, 2)),
                                     ("normalize(0.5, 0.5), layout", scaled.transpose(0, 3, 1, 2))):
                    with stoker.Loader(array, batch_size=4, num_workers=workers, transforms=text) as loader:
                        got = numpy.concatenate([batch["data"].copy() for batch in loader])
                    numpy.testing.assert_allclose(got, wanted, atol=1e-6)
                with stoker.Loader(array, num_workers=workers, transforms="resize(9x9)") as loader:
                    self.assertEqual(sum(len(batch["data"]) for batch in loader), len(array))

    def test_the_name_of_a_field_of_the_loader(self):
        numbers = numpy.arange(5) * 10
        with self.assertRaisesRegex(stoker.InvalidError, "field 'index' of its own"):
            stoker.Loader({"index": numbers})
        with stoker.Loader({"index": numbers}, batch_size=5, as_tuple=True) as loader:
            self.assertEqual([values.tolist() for values in next(iter(loader))], [numbers.tolist(), [*range(5)]])

    def test_read_only_and_changed_later(self):
        array = RANDOM.random((10, 3))
        array.flags.writeable = False
        self.same(array)
        array = numpy.zeros(10)
        with stoker.Loader(array, batch_size=10, num_workers=0) as loader:
            array[:] = range(10)  # it is not a copy
            numpy.testing.assert_array_equal(next(iter(loader))["data"], range(10))

    def test_the_loader_keeps_them_and_gives_them_back(self):
        memory = Memory(RANDOM.bytes(6400))
        array = numpy.frombuffer(memory, "u1").reshape(64, 100)
        wanted, seen = numpy.array(array), weakref.ref(memory)
        loader = stoker.Loader(array, batch_size=8, num_workers=2)
        del array, memory
        gc.collect()
        self.assertIsNotNone(seen())
        for _ in range(3):
            numpy.testing.assert_array_equal(numpy.concatenate([batch["data"].copy() for batch in loader]), wanted)
        kept = next(iter(loader))["data"]
        loader.close()
        del loader
        gc.collect()
        numpy.testing.assert_array_equal(kept, wanted[:8])
        del kept
        gc.collect()
        self.assertIsNone(seen())

    def test_state(self):
        array = numpy.arange(100)
        with stoker.Loader(array, batch_size=8, shuffle=True, seed=3) as loader:
            batches = iter(loader)
            next(batches)
            state, rest = loader.state_dict(), [batch["data"].tolist() for batch in batches]
        with stoker.Loader(array, batch_size=8, shuffle=True, seed=3) as loader:
            loader.load_state_dict(state)
            self.assertEqual([batch["data"].tolist() for batch in loader], rest)
        with stoker.Loader(array[1:], batch_size=8, shuffle=True, seed=3) as loader, self.assertRaises(stoker.InvalidError):
            loader.load_state_dict(state)

    def test_refused(self):
        x = pictures(10)
        for given, words in (((x, x[:5]), "10 samples and '1' has 5"), (x.astype(">i2"), ">i2"), (numpy.zeros(()), "0 dim"),
                             ((), "without arrays"), ({}, "without arrays"), (numpy.array(["a"]), "numbers"),
                             (numpy.array([None]), "object"), (numpy.zeros((0, 3)), "no samples"),
                             (numpy.zeros((1,) * 10), "10 dimensions"), (numpy.zeros((3, 0)), "dimension 1 has the length 0")):
            with self.assertRaisesRegex(stoker.InvalidError, words) as caught:
                stoker.Loader(given)
            error = caught.exception
            self.assertEqual((error.status, error.key, error.sample), ("STK_EINVAL", "", None))
        for array in (numpy.broadcast_to(numpy.uint8(1), (1, 1 << 62)), numpy.broadcast_to(1.0, (3, 1 << 58))):
            with self.assertRaisesRegex(stoker.DataError, "64 GiB"):
                stoker.Loader(array, batch_size=4)
        with self.assertRaises(BufferError):
            _native.Dataset.of((("a", "float32", (ctypes.c_float * 3)(), False),))
        for given in (3, None, b"digits:"):
            with self.assertRaisesRegex(TypeError, type(given).__name__):
                stoker.Loader(given)


class Order(unittest.TestCase):
    """What the drop-in DataLoader stands on."""

    def test_indices(self):
        source = dataset(numpy.arange(50) * 2)
        for order in (numpy.array([3, 3, 49, 0, 7, 8, 9]), RANDOM.permutation(50)):
            native = _native.Loader(source, {"batch_size": "3"}, order.astype("u8"))
            got = []
            while (fields := native.next()) is not None:
                got.extend(numpy.asarray(fields[0]))
            self.assertEqual(got, (order * 2).tolist())
        self.assertEqual(source.size, 50)
        with self.assertRaisesRegex(stoker.InvalidError, "samples 0 to 49"):
            _native.Loader(source, {}, numpy.array([50], "u8"))
        for order in (b"1234567", memoryview(bytearray(17))[1:]):
            with self.assertRaisesRegex(ValueError, "uint64"):
                _native.Loader(source, {}, order)

    def test_goes_to_a_step_with_its_draws(self):
        source = dataset(pictures(40))
        options = {"batch_size": "8", "transforms": "random_crop(6), horizontal_flip", "seed": "9", "epochs": "1"}

        def rest(step):
            native = _native.Loader(source, options, numpy.arange(40, dtype="u8")[::-1].copy(), step)
            got = []
            while (fields := native.next()) is not None:
                got.append(numpy.array(fields[0]))
            return got
        whole = rest(0)
        self.assertEqual(len(whole), 5)
        for step in range(1, 5):
            numpy.testing.assert_array_equal(rest(step), whole[step:])

    def test_loaders_share_a_dataset(self):
        source = dataset(numpy.arange(64))
        loaders = [_native.Loader(source, {"batch_size": "8", "num_workers": "1"}, order.astype("u8"))
                   for order in (numpy.arange(64), numpy.arange(64)[::-1])]
        del source
        first, second = ([int(numpy.asarray(loader.next()[0])[0]) for _ in range(8)] for loader in loaders)
        self.assertEqual((first[:2], second[:2]), ([0, 8], [63, 55]))
        loaders[0].close()
        self.assertIsNone(loaders[1].next())


class Objects(unittest.TestCase):
    def test_text(self):
        from stoker.transforms import (ColorJitter, Compose, Normalize, RandomCrop, RandomHorizontalFlip, RandomResizedCrop,
                                       Resize, ToDtype)
        for made, text in ((RandomHorizontalFlip(), "horizontal_flip"), (RandomHorizontalFlip(0.25), "horizontal_flip(p=0.25)"),
                           (Resize([224, 192]), "resize(size=[224, 192])"), (Normalize("mnist"), "normalize(mean=mnist)"),
                           (RandomResizedCrop(224, scale=(0.3, 1)), "random_resized_crop(size=224, scale=[0.3, 1])"),
                           (ToDtype(numpy.float32, scale=True), "to_float"), (ToDtype("float32", True), "to_float"),
                           (Compose([RandomCrop(8), "layout"]), "random_crop(size=8), layout"),
                           (ColorJitter(0.1, hue=[-0.1, 0.2]), "color_jitter(brightness=0.1, hue=[-0.1, 0.2])")):
            self.assertEqual(str(made), text)
        self.assertEqual(repr(RandomCrop(8, padding=[1, 2])), "RandomCrop(size=8, padding=[1, 2])")
        self.assertEqual(RandomCrop(8), RandomCrop("8"))
        self.assertNotEqual(RandomCrop(8), RandomCrop(9))

    def test_same_as_text(self):
        options = dict(batch_size=8, seed=4, as_tuple=True)
        text = "random_crop(8, padding=2), horizontal_flip, normalize([0.1, 0.2, 0.3], 0.5), layout"
        objects = [transforms.RandomCrop(8, padding=2), "horizontal_flip", transforms.Normalize([0.1, 0.2, 0.3], 0.5),
                   transforms.Layout()]
        x = pictures(16)
        with stoker.Loader(x, transforms=text, **options) as one:
            for given in (objects, transforms.Compose(objects), tuple(objects)):
                with stoker.Loader(x, transforms=given, **options) as other:
                    for a, b in zip(one, other, strict=True):
                        numpy.testing.assert_array_equal(a[0], b[0])
                one.set_epoch(0)

    def test_each_is_one_of_the_library(self):
        for name, _, arguments in _native.transforms():
            if name == "to_float":  # ToDtype, with other arguments
                continue
            matching = [made for made in vars(transforms).values() if isinstance(made, type) and
                        f'super().__init__("{name}"' in inspect.getsource(made)]
            self.assertEqual(len(matching), 1, name)
            parameters = [*inspect.signature(matching[0]).parameters]
            resizes = ["antialias"] if "interpolation" in parameters and "size" in parameters else []
            self.assertEqual(sorted(parameters), sorted([argument[0] for argument in arguments] + resizes))

    def test_antialiased(self):
        for resizing in (transforms.Resize, transforms.RandomResizedCrop):
            self.assertEqual(resizing(8, antialias=True), resizing(8))
            for other in (False, None):
                with self.assertRaisesRegex(ValueError, "antialias="):
                    resizing(8, antialias=other)

    def test_a_preset_in_place_of_mean(self):
        self.assertEqual(str(transforms.Normalize(preset="cifar10")), "normalize(preset=cifar10)")
        with self.assertRaisesRegex(stoker.InvalidError, "mean is missing"):
            stoker.Loader(pictures(4), transforms=transforms.Normalize())

    def test_batches(self):
        x = pictures(16)
        with stoker.Loader({"image": x, "label": numpy.arange(16)}, batch_size=8, transforms=transforms.ToDtype("float32", scale=True),
                           batch_transforms=transforms.MixUp(0.3)) as loader:
            self.assertIn("mix", next(iter(loader)))

    def test_errors_are_the_librarys(self):
        for made, words in ((transforms.RandomCrop(-1), "size"), (transforms.Resize(None), "size is missing"),
                            (transforms.RandomHorizontalFlip(2), "p.*out of range"), (transforms.Normalize("imagnet"), "imagenet"),
                            (transforms.RandomResizedCrop(8, interpolation="cubic"), "bicubic")):
            with self.assertRaisesRegex(stoker.InvalidError, words):
                stoker.Loader(pictures(4), transforms=[made])
        for dtype, scale in (("float16", True), ("float32", False)):
            with self.assertRaisesRegex(ValueError, "float32"):
                transforms.ToDtype(dtype, scale)


if __name__ == "__main__":
    unittest.main()
