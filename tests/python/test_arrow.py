# SPDX-License-Identifier: Apache-2.0
"""stoker.Loader(output="arrow"): values, lifetimes of memory, capsules that nobody takes. The structs of the C data interface are read as the
specification has them; pyarrow and Polars take them in interop/test_arrow.py."""
import ctypes
import gc
import os
import subprocess
import sys
import threading
import unittest
import warnings
from pathlib import Path

import numpy

import stoker
from stoker import _native


class Schema(ctypes.Structure):
    pass


Schema._fields_ = [("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_char_p), ("flags", ctypes.c_int64),
                   ("n_children", ctypes.c_int64), ("children", ctypes.POINTER(ctypes.POINTER(Schema))),
                   ("dictionary", ctypes.POINTER(Schema)), ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(Schema))),
                   ("private_data", ctypes.c_void_p)]


class Array(ctypes.Structure):
    pass


Array._fields_ = [("length", ctypes.c_int64), ("null_count", ctypes.c_int64), ("offset", ctypes.c_int64), ("n_buffers", ctypes.c_int64),
                  ("n_children", ctypes.c_int64), ("buffers", ctypes.POINTER(ctypes.c_void_p)),
                  ("children", ctypes.POINTER(ctypes.POINTER(Array))), ("dictionary", ctypes.POINTER(Array)),
                  ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(Array))), ("private_data", ctypes.c_void_p)]

pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of.restype = ctypes.c_void_p
pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]


def schema_of(capsule):
    return Schema.from_address(pointer_of(capsule, b"arrow_schema"))


def array_of(capsule):
    return Array.from_address(pointer_of(capsule, b"arrow_array"))


class Moved:
    """An array taken out of its capsule, as consumers do."""

    def __init__(self, capsule):
        self.array = Array()
        ctypes.memmove(ctypes.addressof(self.array), ctypes.addressof(array_of(capsule)), ctypes.sizeof(Array))
        array_of(capsule).release = type(self.array.release)()

    def values(self, i, dtype, count):
        child = self.array.children[i].contents
        address = child.buffers[1]
        return numpy.frombuffer((ctypes.c_char * (count * numpy.dtype(dtype).itemsize)).from_address(address), dtype)

    def release(self):
        self.array.release(ctypes.byref(self.array))


def rss():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Batches(unittest.TestCase):
    def test_values_and_types(self):
        arrays = {"a": numpy.arange(23, dtype="i2"), "b": numpy.arange(23 * 6, dtype="f4").reshape(23, 2, 3), "c": numpy.arange(23) % 2 == 0}
        with stoker.Loader(arrays, batch_size=10, output="arrow") as loader:
            seen = 0
            for batch in loader:
                schema, array = batch.__arrow_c_array__()
                s, a = schema_of(schema), array_of(array)
                self.assertEqual((s.format, s.n_children, a.length, len(batch), batch.num_rows), (b"+s", 4, a.length, a.length, a.length))
                self.assertEqual([(s.children[i].contents.name, s.children[i].contents.format) for i in range(4)],
                                 [(b"a", b"s"), (b"b", b"+w:6"), (b"c", b"b"), (b"index", b"L")])
                rows = slice(seen, seen + a.length)
                moved = Moved(array)
                numpy.testing.assert_array_equal(moved.values(0, "i2", a.length), arrays["a"][rows])
                floats = moved.array.children[1].contents.children[0].contents
                found = (ctypes.c_float * floats.length).from_address(floats.buffers[1])
                numpy.testing.assert_array_equal(numpy.array(found), arrays["b"][rows].ravel())
                moved.release()
                seen += len(batch)
            self.assertEqual(seen, 23)

    def test_memory_is_the_loaders_without_a_copy(self):
        with stoker.Loader("digits:?size=100", batch_size=10, num_workers=1, output="arrow") as loader:
            batch = loader._native.next_arrow()
            first, second = (Moved(batch.__arrow_c_array__()[1]) for _ in range(2))
            address = first.array.children[0].contents.children[0].contents.buffers[1]
            self.assertEqual(second.array.children[0].contents.children[0].contents.buffers[1], address)
            first.release()
            second.release()
            del batch
            places = set()
            for batch in loader:  # the slabs come back, and are used again
                moved = Moved(batch.__arrow_c_array__()[1])
                places.add(moved.array.children[0].contents.children[0].contents.buffers[1])
                del batch
                moved.release()
            self.assertLessEqual(len(places), loader.stats().depth + 1)

    def test_arrays_outlive_batch_and_loader(self):
        loader = stoker.Loader("digits:?size=100", batch_size=10, output="arrow")
        batch = next(iter(loader))
        moved = Moved(batch.__arrow_c_array__()[1])
        loader.close()
        del batch, loader
        gc.collect()
        numpy.testing.assert_array_equal(moved.values(2, "u8", 10), range(10))
        thread = threading.Thread(target=moved.release)
        thread.start()
        thread.join()

    def test_capsules_that_nobody_takes(self):
        with stoker.Loader("digits:?size=100", batch_size=10, num_workers=1, output="arrow") as loader, warnings.catch_warnings():
            warnings.simplefilter("error")
            for batch in loader:
                batch.__arrow_c_schema__()
                capsules = batch.__arrow_c_array__(requested_schema=batch.__arrow_c_schema__())
                del batch
                del capsules

    def test_all_batches_are_kept(self):
        with stoker.Loader("digits:?size=2000", batch_size=20, num_workers=1, output="arrow") as loader:
            with self.assertWarnsRegex(RuntimeWarning, "beyond memory_budget"):
                kept = [Moved(batch.__arrow_c_array__()[1]) for batch in loader]
            self.assertEqual([int(i) for moved in kept for i in moved.values(2, "u8", 20)], list(range(2000)))
            for moved in kept[::2]:
                moved.release()
            loader.set_epoch(0)
            self.assertEqual(sum(len(batch) for batch in loader), 2000)
        for moved in kept[1::2]:
            moved.release()

    def test_memory_does_not_grow(self):
        def epochs(n):
            for _ in range(n):
                with stoker.Loader("digits:?size=512", batch_size=64, num_workers=2, output="arrow") as loader:
                    for batch in loader:
                        Moved(batch.__arrow_c_array__()[1]).release()
                        batch.__arrow_c_array__()
        epochs(20)
        before, files = rss(), len(os.listdir("/proc/self/fd"))
        epochs(100)
        self.assertLess(rss() - before, 8 << 20)
        self.assertEqual(len(os.listdir("/proc/self/fd")), files)

    def test_what_is_refused(self):
        with self.assertRaisesRegex(stoker.InvalidError, "as_tuple does nothing"):
            stoker.Loader("digits:", output="arrow", as_tuple=True)
        with self.assertRaisesRegex(stoker.InvalidError, "give one of numpy, torch, jax, dlpack, arrow"):
            stoker.Loader("digits:", output="feather")
        with stoker.Loader(numpy.zeros(8, "c8"), output="arrow") as loader:
            with self.assertRaisesRegex(stoker.Error, "complex64, which Arrow does not have"):
                next(iter(loader)).__arrow_c_array__()
        with self.assertRaises(TypeError):
            _native.RecordBatch()

    def test_pyarrow_is_not_imported(self):
        code = ("import sys, stoker\nwith stoker.Loader('digits:?size=8', output='arrow') as loader:\n"
                "    for batch in loader: batch.__arrow_c_array__()\nprint('pyarrow' in sys.modules)")
        done = subprocess.run([sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "False\n", ""))


if __name__ == "__main__":
    unittest.main()
