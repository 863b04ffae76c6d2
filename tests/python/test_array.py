# SPDX-License-Identifier: Apache-2.0
"""stoker.Array: every index against NumPy, over formats and types; threads, processes, interruption, errors."""
import itertools
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile
import threading
import unittest
import zlib
from pathlib import Path

import numpy

import stoker

TYPES = ("?", "i1", "u1", ">i2", "u2", "i4", ">u4", "i8", "u8", "f2", "f4", ">f8", "c8", "c16", "M8[s]", "m8[ns]", "S5", "U3", "V4")


def python(code):
    """A new interpreter: its exit status and what it wrote."""
    done = subprocess.run([sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def write_zarr(folder, values, chunks, names=None, leave_out=()):
    """A Zarr v2 array with zlib, by the specification."""
    path = Path(folder)
    path.mkdir()
    kind = values.dtype.kind
    fill = 0 if kind in "iufcb" else None
    about = {"zarr_format": 2, "shape": values.shape, "chunks": chunks, "dtype": values.dtype.str, "order": "C",
             "compressor": {"id": "zlib", "level": 1}, "fill_value": fill, "filters": None}
    (path / ".zarray").write_text(json.dumps(about))
    attributes = {"units": "K", "scale": 0.5, "list": [1, None, "x"]}
    if names:
        attributes["_ARRAY_DIMENSIONS"] = names
    (path / ".zattrs").write_text(json.dumps(attributes))
    for place in itertools.product(*(range(-(-n // c)) for n, c in zip(values.shape, chunks))):
        if place in leave_out:
            continue
        box = values[tuple(slice(i * c, (i + 1) * c) for i, c in zip(place, chunks))]
        chunk = numpy.zeros(chunks, values.dtype)
        chunk[tuple(slice(0, n) for n in box.shape)] = box
        (path / (".".join(map(str, place)) or "0")).write_bytes(zlib.compress(chunk.tobytes()))
    return str(path)


def some_values(shape, dtype, rng):
    dtype = numpy.dtype(dtype)
    if dtype.kind in "SU":
        return rng.integers(0, 10 ** 3, shape).astype(dtype)
    if dtype.kind == "?":
        return rng.integers(0, 2, shape).astype(bool)
    return numpy.frombuffer(rng.integers(0, 100, (*shape, dtype.itemsize), dtype="u1").tobytes(), dtype).reshape(shape)


def same(self, got, wanted, about):
    """As NumPy's: values, type, shape, whether it is a number."""
    self.assertEqual(type(got), type(wanted), about)
    self.assertEqual(got.shape, wanted.shape, about)
    self.assertEqual(got.dtype, wanted.dtype.newbyteorder("="), about)
    if wanted.dtype.kind == "V":
        self.assertEqual(got.tobytes(), wanted.tobytes(), about)
    else:
        numpy.testing.assert_array_equal(got, wanted, repr(about))


def a_slice(draw, size):
    ends = [None, *range(-size - 2, size + 3)]
    return slice(draw.choice(ends), draw.choice(ends), draw.choice([None, None, 1, 2, 3, size + 1, -1, -2, -size - 1]))


def an_index(draw, rng, shape):
    """Any index of NumPy's for a shape; now and then one that is out of bounds or too long."""
    parts, axis, broad = [], 0, draw.choice([(), (1,), (4,), (3, 1), (3, 4), (0,)])
    while axis < len(shape) and draw.random() < 0.9:
        size = shape[axis]
        kind = draw.choice(["slice", "slice", "int", "array", "mask", "mask2", "none"])
        if kind == "none":
            parts.append(None)
            continue
        if kind == "int" and size:
            index = draw.randrange(-size, size)
            parts.append(draw.choice([index, numpy.int16(index), numpy.array(index)]))
        elif kind == "array" and size:
            index = rng.integers(-size, size, broad).astype(draw.choice(["i1", "i8"]))
            parts.append(draw.choice([index, index.tolist()]) if index.ndim else index)
        elif kind == "mask":
            parts.append(rng.integers(0, 2, size).astype(bool))
        elif kind == "mask2" and axis + 2 <= len(shape):
            parts.append(rng.integers(0, 2, shape[axis:axis + 2]).astype(bool))
            axis += 1
        else:
            parts.append(a_slice(draw, size))
        axis += 1
    if draw.random() < 0.4:
        parts.insert(draw.randrange(len(parts) + 1), Ellipsis)
    if draw.random() < 0.05:
        parts.append(draw.choice([10 ** 6, [10 ** 6], slice(None), [-10 ** 6]]))
    return tuple(parts)


class Indexing(unittest.TestCase):
    def compare(self, array, values, key):
        about = (array, key)
        try:
            wanted = values[key]
        except IndexError:
            with self.assertRaises(IndexError, msg=about):
                array[key]
            return 0
        try:
            got = array[key]
        except IndexError:  # NumPy looks less closely where nothing is taken
            self.assertEqual(wanted.size, 0, about)
            return 0
        same(self, got, wanted, about)
        if isinstance(got, numpy.ndarray):
            self.assertTrue(got.flags.c_contiguous and got.flags.writeable, about)
        return 1

    def test_random_indexes_are_those_of_numpy(self):
        draw, rng = random.Random(4), numpy.random.default_rng(4)
        right = wrong = 0
        with tempfile.TemporaryDirectory() as folder:
            for number in range(60):
                shape = tuple(draw.choice([0, 1, 2, 5, 9, 20]) if draw.random() < .9 else 3 for _ in range(draw.randrange(5)))
                chunks = [draw.randrange(1, max(n, 1) + 3) for n in shape]
                values = some_values(shape, draw.choice(TYPES), rng)
                if draw.random() < 0.7:
                    array = stoker.Array(write_zarr(f"{folder}/{number}", values, chunks))
                elif values.dtype.kind in "SUVmM":  # texts are not read, and of times the numbers are
                    continue
                else:
                    numpy.save(f"{folder}/{number}.npy", values)
                    array = stoker.Array(f"{folder}/{number}.npy")
                for _ in range(60):
                    done = self.compare(array, values, an_index(draw, rng, shape))
                    right, wrong = right + done, wrong + 1 - done
        self.assertGreater(right, 2000)
        self.assertGreater(wrong, 100)

    def test_places_of_index_arrays(self):
        rng = numpy.random.default_rng(1)
        values = rng.integers(0, 1000, (4, 5, 6, 7))
        a, b = numpy.array([[0, 3], [1, 1]]), numpy.array([2, 4])
        with tempfile.TemporaryDirectory() as folder:
            array = stoker.Array(write_zarr(f"{folder}/x", values, (2, 2, 4, 3)))
            for key in ((a,), (a, b), (a, slice(None), b), (slice(None), a, b), (slice(None), a, ..., b), (a, ..., b, 0, 1),
                        (0, a), (0, slice(None), a), (a, 0), (slice(None), 0, a), (slice(None), a, 0), (None, a, None, b),
                        (None, 0, a), (slice(None), slice(None, None, -1), a, b), (..., a, slice(None, None, -2)),
                        (values[:, :, 0, 0] > 500,), (slice(None), values[0, :, :, 0] > 500, 2), (0, values[0, :, 0, 0] > 500),
                        (values > 500,), (values > 10 ** 6,), ([],), (slice(2), [], 3), (a, b, ..., 0, b)):
                self.compare(array, values, key)

    def test_scattered_rows_are_read_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            values = numpy.arange(400 * 3, dtype="i4").reshape(400, 3)
            # Were more chunks read than those of the rows, a chunk that is not there would be an error.
            gone = [(i, 0) for i in range(40) if i not in (0, 1, 17, 39)]
            path = write_zarr(f"{folder}/x", values, (10, 3), leave_out=gone)
            array = stoker.Array(path, missing="error")
            rows = [399, 0, 175, 3, 19, -1, 170]
            numpy.testing.assert_array_equal(array[rows], values[rows])
            numpy.testing.assert_array_equal(array[rows, [0, 1, 2, 0, 1, 2, 0]], values[rows, [0, 1, 2, 0, 1, 2, 0]])
            mask = numpy.isin(numpy.arange(400), rows)
            numpy.testing.assert_array_equal(array[mask, 1:], values[mask, 1:])
            with self.assertRaises(stoker.Error):
                array[[0, 25]]

    def test_what_is_no_index(self):
        with tempfile.TemporaryDirectory() as folder:
            numpy.save(f"{folder}/x.npy", numpy.zeros((3, 4)))
            array = stoker.Array(f"{folder}/x.npy")
            for key, words in ((1.0, "no index"), ("x", "no index"), (numpy.zeros(2), "no index"), (True, "no index"),
                               (numpy.zeros(0), "no index"), (3, "out of bounds for axis 0 with size 3"),
                               ((0, -5), "out of bounds for axis 1 with size 4"), ((0, 0, 0), "too many"),
                               ((..., ...), "ellipsis"), (numpy.ones(4, bool), "shape"),
                               (([0, 1], [0, 1, 2]), "do not fit"), ([0, 7], "index 7 is out of bounds"),
                               (numpy.array([2 ** 64 - 1], "u8"), "out of bounds"), (10 ** 30, "out of bounds")):
                with self.assertRaisesRegex(IndexError, words, msg=key):
                    array[key]


class Facts(unittest.TestCase):
    def test_what_it_is(self):
        with tempfile.TemporaryDirectory() as folder:
            values = numpy.arange(60, dtype=">i2").reshape(3, 4, 5)
            path = write_zarr(f"{folder}/x", values, (2, 4, 2), ["time", None, "x"])
            array = stoker.Array(Path(path))
            self.assertEqual((array.shape, array.ndim, array.size, array.nbytes, len(array)), ((3, 4, 5), 3, 60, 120, 3))
            self.assertEqual((array.dtype, array.chunks, array.shards), (numpy.dtype("i2"), (2, 4, 2), None))
            self.assertEqual(array.dimension_names, ("time", None, "x"))
            self.assertEqual(array.attrs["units"], "K")
            self.assertEqual(array.attrs["list"], [1, None, "x"])
            self.assertEqual((array.fill_value, type(array.fill_value)), (0, numpy.int16))
            self.assertEqual((array.format, array.codecs), ("zarr v2", "bytes, zlib"))
            self.assertIn("int16 (3, 4, 5), chunks (2, 4, 2), zarr v2", repr(array))
            self.assertIn("time: 3, -: 4, x: 5", array._repr_html_())
            self.assertEqual([row.tolist() for row in array], values.tolist())
            numpy.save(f"{folder}/0.npy", numpy.float32(2.5))
            scalar = stoker.Array(f"{folder}/0.npy")
            self.assertEqual((scalar[()], scalar.shape, scalar.fill_value), (2.5, (), None))
            self.assertRaises(TypeError, len, scalar)
            self.assertRaises(TypeError, list, scalar)

    def test_shown_without_the_options_of_its_store(self):
        with tempfile.TemporaryDirectory() as folder:
            numpy.array(range(6), "u2").tofile(f"{folder}/x&y.bin")
            array = stoker.Array(f"{folder}/x&y.bin?format=raw&dtype=uint16&shape=2x3")
            self.assertNotIn("?", repr(array))
            self.assertIn("x&amp;y.bin", array._repr_html_())
            self.assertEqual(array[1].tolist(), [3, 4, 5])

    def test_as_arrays_of_others(self):
        with tempfile.TemporaryDirectory() as folder:
            values = numpy.arange(12.0).reshape(3, 4)
            numpy.save(f"{folder}/x.npy", values)
            array = stoker.Array(f"{folder}/x.npy")
            numpy.testing.assert_array_equal(numpy.asarray(array), values)
            self.assertEqual(numpy.asarray(array, "f4").dtype, "f4")
            numpy.testing.assert_array_equal(numpy.from_dlpack(array), values)
            self.assertEqual(float(numpy.mean(array)), values.mean())
            with self.assertRaisesRegex(ValueError, "copy"):
                array.__array__(copy=False)

    def test_bfloat16_as_its_bits(self):
        with tempfile.TemporaryDirectory() as folder:
            bits = numpy.array([0x3f80, 0xc000, 0x7fc0], "u2")
            about = {"zarr_format": 3, "node_type": "array", "shape": [3], "data_type": "bfloat16", "fill_value": 0,
                     "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3]}},
                     "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}
            Path(f"{folder}/zarr.json").write_text(json.dumps(about))
            Path(f"{folder}/c").mkdir()
            Path(f"{folder}/c/0").write_bytes(bits.tobytes())
            numpy.testing.assert_array_equal(stoker.Array(folder)[:], bits)


def write_texts(folder, values, chunk, codec):
    """A Zarr v2 array of texts or bytes of varying length, by the specification of numcodecs."""
    path = Path(folder)
    path.mkdir()
    about = {"zarr_format": 2, "shape": values.shape, "chunks": [chunk, values.shape[1]], "dtype": "|O", "order": "C",
             "compressor": {"id": "zlib", "level": 1}, "fill_value": "", "filters": [{"id": codec}]}
    (path / ".zarray").write_text(json.dumps(about))
    for i in range(0, len(values), chunk):
        rows = list(values[i:i + chunk].flat)
        rows += [type(rows[0])()] * (chunk * values.shape[1] - len(rows))
        data = len(rows).to_bytes(4, "little")
        for value in rows:
            raw = value if isinstance(value, bytes) else value.encode()
            data += len(raw).to_bytes(4, "little") + raw
        (path / f"{i // chunk}.0").write_bytes(zlib.compress(data))
    return str(path)


class Texts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def test_random_indexes_are_those_of_numpy(self):
        rng = random.Random(3)
        words = ["", "a", "grüße", "日本", "x" * 300, "\0inside"]
        for codec in ("vlen-utf8", "vlen-bytes"):
            values = numpy.empty((23, 3), object)
            values[...] = [[rng.choice(words) for _ in range(3)] for _ in range(23)]
            if codec == "vlen-bytes":
                values = numpy.vectorize(lambda word: word.encode() + b"\xff", otypes=[object])(values)
            array = stoker.Array(write_texts(f"{self.folder.name}/{codec}", values, 5, codec))
            self.assertEqual((array.dtype, array.shape, array.fill_value), (object, (23, 3), "" if codec == "vlen-utf8" else b""))
            self.assertEqual(numpy.asarray(array).tolist(), values.tolist())
            for key in (3, -1, slice(2, 19, 4), (slice(None, None, -3), 1), (..., 2), [4, 22, 4], (values[:, 0] == words[1],), (7, 2)):
                got, want = array[key], values[key]
                self.assertEqual(got.tolist() if isinstance(want, numpy.ndarray) else got, want.tolist()
                                 if isinstance(want, numpy.ndarray) else want, key)
            self.assertEqual(pickle.loads(pickle.dumps(array))[1].tolist(), values[1].tolist())

    def test_what_is_damaged(self):
        url = write_texts(f"{self.folder.name}/a", numpy.array([["one"], ["two"]], object), 2, "vlen-utf8")
        Path(url, "0.0").write_bytes(zlib.compress(b"\2\0\0\0" + b"\xff" * 8))
        with self.assertRaisesRegex(stoker.DataError, "beyond its end"):
            stoker.Array(url)[...]


class Processes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.values = numpy.random.default_rng(2).normal(size=(40, 30)).astype("f4")
        self.path = write_zarr(f"{self.folder}/x", self.values, (7, 11))

    def in_child(self, work):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if work() else 2
            finally:
                os._exit(code)
        return os.waitpid(child, 0)[1]

    def test_pickled(self):
        array = stoker.Array(self.path, missing="error", num_threads=1)
        array[0]
        again = pickle.loads(pickle.dumps(array))
        self.assertEqual((again.shape, again.dtype, repr(again)), (array.shape, array.dtype, repr(array)))
        numpy.testing.assert_array_equal(again[3:9, ::-1], self.values[3:9, ::-1])
        self.assertLess(len(pickle.dumps(array)), 1000)
        os.remove(f"{self.path}/0.0")
        with self.assertRaises(stoker.Error):  # its options are the same
            again[0]

    def test_made_before_fork(self):
        array = stoker.Array(self.path)
        array[0]
        self.assertEqual(self.in_child(lambda: numpy.array_equal(array[5:20, [3, 29]], self.values[5:20, [3, 29]])), 0)
        numpy.testing.assert_array_equal(array[:], self.values)

    def test_another_array_behind_a_fork(self):
        array = stoker.Array(self.path)
        about = json.loads(Path(f"{self.path}/.zarray").read_text())
        Path(f"{self.path}/.zarray").write_text(json.dumps({**about, "shape": [40, 29]}))

        def refused():
            try:
                array[0]
            except stoker.DataError as error:
                return "another array" in str(error)
        self.assertEqual(self.in_child(refused), 0)

    def test_threads(self):
        array = stoker.Array(self.path)
        wrong = []

        def read(seed):
            rng = numpy.random.default_rng(seed)
            for _ in range(50):
                low = rng.integers(0, 30, 2)
                box = slice(low[0], low[0] + 10), slice(low[1], low[1] + 5)
                if not numpy.array_equal(array[box], self.values[box]):
                    wrong.append(box)
        threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class Waiting(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        numpy.save(f"{folder.name}/x.npy", numpy.arange(50000.0))
        self.slow = f"slow+file://{folder.name}/x.npy?bandwidth=200KB/s"  # all of it takes two seconds

    def test_ctrl_c_ends_a_read(self):
        code = (f"import stoker, threading, os, signal, time\n"
                f"array = stoker.Array({self.slow!r})\n"
                "def hit():\n    global when\n    time.sleep(.1); when = time.perf_counter(); os.kill(os.getpid(), signal.SIGINT)\n"
                "threading.Thread(target=hit).start()\n"
                "try:\n    array[:]\n    print('no interrupt')\n"
                "except KeyboardInterrupt:\n    print(time.perf_counter() - when)\n"
                "assert array[7] == 7\n")
        status, out, err = python(code)
        self.assertEqual((status, err), (0, ""))
        self.assertLess(float(out), 0.2)

    def test_ctrl_c_of_one_thread_is_not_that_of_another(self):
        code = (f"import numpy, stoker, threading, os, signal, time\n"
                f"array = stoker.Array({self.slow!r})\n"
                "def read():\n    assert numpy.array_equal(array[:9000], numpy.arange(9000.0)); print('read')\n"
                "other = threading.Thread(target=read); other.start()\n"
                "def hit():\n    time.sleep(.1); os.kill(os.getpid(), signal.SIGINT)\n"
                "threading.Thread(target=hit).start()\n"
                "try:\n    array[:]\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
                "other.join()\n")
        self.assertEqual(python(code), (0, "interrupted\nread\n", ""))

    def test_a_signal_that_raises_nothing(self):
        code = (f"import numpy, stoker, threading, os, signal, time\n"
                f"array = stoker.Array({self.slow!r})\n"
                "seen = []\n"
                "signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))\n"
                "def hit():\n    time.sleep(.1); os.kill(os.getpid(), signal.SIGUSR1)\n"
                "threading.Thread(target=hit).start()\n"
                "assert array[:9000].sum() == 40495500 and seen == [1]\n")
        self.assertEqual(python(code), (0, "", ""))

    def test_other_threads_run(self):
        array = stoker.Array(self.slow)
        ticks, ended = [], threading.Event()

        def tick():
            while not ended.wait(0.001):
                ticks.append(1)
        thread = threading.Thread(target=tick)
        thread.start()
        array[:5000]
        ended.set()
        thread.join()
        self.assertGreater(len(ticks), 20)


class Errors(unittest.TestCase):
    def test_classes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = write_zarr(f"{folder}/x", numpy.zeros((4, 4)), (2, 2))
            Path(f"{folder}/no.npy").write_bytes(b"not an array")
            for url, options, kind, words in (
                    (f"{folder}/none", {}, stoker.NotFoundError, "none"),
                    (f"{folder}/no.npy", {}, stoker.DataError, "no npy file"),
                    (path, {"missing": "eror"}, stoker.InvalidError, "did you mean 'error'"),
                    (path, {"misses": "error"}, stoker.InvalidError, "misses"),
                    (path, {"memory": object()}, TypeError, "memory")):
                with self.assertRaisesRegex(kind, words, msg=url):
                    stoker.Array(url, **options)

    def test_a_truncated_chunk(self):
        with tempfile.TemporaryDirectory() as folder:
            path = write_zarr(f"{folder}/x", numpy.random.default_rng(0).normal(size=(8, 8)), (4, 8))
            whole = Path(f"{path}/1.0").read_bytes()
            Path(f"{path}/1.0").write_bytes(whole[:len(whole) // 2])
            array = stoker.Array(path)
            array[:4]
            with self.assertRaises(stoker.Error) as caught:
                array[:5]
            self.assertIn("1.0", caught.exception.key)
            Path(f"{path}/1.0").write_bytes(whole)
            array[:5]

    def test_a_truncated_file(self):
        with tempfile.TemporaryDirectory() as folder:
            numpy.save(f"{folder}/x.npy", numpy.zeros(100000))
            array = stoker.Array(f"{folder}/x.npy")
            os.truncate(f"{folder}/x.npy", 5000)
            with self.assertRaisesRegex(stoker.StorageError, "changed"):
                array[:10] # also what is there yet: it may be of another array
            with self.assertRaisesRegex(stoker.StorageError, "changed"):
                array[:]
            with self.assertRaises(stoker.Error):
                stoker.Array(f"{folder}/x.npy")

    def test_more_memory_than_a_read_may_hold(self):
        with tempfile.TemporaryDirectory() as folder:
            path = write_zarr(f"{folder}/x", numpy.zeros((512, 512)), (512, 512))
            with self.assertRaisesRegex(stoker.NoMemoryError, "memory"):
                stoker.Array(path, memory="64KiB")[0]


if __name__ == "__main__":
    unittest.main()
