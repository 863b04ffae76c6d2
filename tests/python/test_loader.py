# SPDX-License-Identifier: Apache-2.0
"""stoker.Loader: values, order, lifetimes of memory, interruption, errors. NumPy alone is needed."""
import gc
import gzip
import importlib
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
import zlib
from pathlib import Path
from unittest import mock

import numpy

import stoker
from stoker import _native
from stoker.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("STOKER_TEST_DATA", ROOT / "../shared/data"))


def python(code, **options):
    """A new interpreter: its exit status and what it wrote."""
    done = subprocess.run([sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True, timeout=60, **options)
    return done.returncode, done.stdout, done.stderr


def png(width, height):
    """A grey picture."""
    def chunk(kind, data):
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")
    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 0, 0, 0, 0])
    rows = zlib.compress((b"\x00" + bytes(range(width))) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def rss():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Values(unittest.TestCase):
    def test_arrays_of_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            for dtype in ("bool", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16"):
                given = (numpy.arange(23 * 4 * 3) % 2 if dtype == "bool" else numpy.arange(23 * 4 * 3)).astype(dtype)
                given = given.reshape(23, 4, 3)
                numpy.save(f"{folder}/x.npy", given)
                with stoker.Loader(f"npy:{folder}/x.npy", batch_size=5) as loader:
                    self.assertEqual(len(loader), 5)
                    self.assertEqual(loader.num_samples, 23)
                    got = [batch[loader.fields[0]] for batch in loader]
                self.assertEqual([len(part) for part in got], [5, 5, 5, 5, 3])
                self.assertEqual(got[0].dtype.char, given.dtype.char)
                numpy.testing.assert_array_equal(numpy.concatenate(got), given)

    def test_mnist_as_numpy_reads_it(self):
        folder = DATA / "mnist"
        if not folder.exists():
            self.skipTest(f"{folder} is not there (STOKER_TEST_DATA)")
        with gzip.open(folder / "t10k-images-idx3-ubyte.gz") as file:
            images = numpy.frombuffer(file.read(), "u1", offset=16).reshape(-1, 28, 28)
        with gzip.open(folder / "t10k-labels-idx1-ubyte.gz") as file:
            labels = numpy.frombuffer(file.read(), "u1", offset=8)
        with stoker.Loader(f"mnist:{folder}?split=test", batch_size=256, shuffle=True, seed=5) as loader:
            seen = []
            for batch in loader:
                where = batch["index"].astype(int)
                numpy.testing.assert_array_equal(batch["image"].reshape(-1, 28, 28), images[where])
                numpy.testing.assert_array_equal(batch["label"], labels[where])
                seen.extend(where)
        self.assertEqual(sorted(seen), list(range(10000)))

    def test_tuples(self):
        with stoker.Loader("digits:?size=20", batch_size=8, as_tuple=True) as loader:
            self.assertEqual(loader.fields, ("image", "label", "index"))
            image, label, index = next(iter(loader))
            self.assertEqual((image.shape, label.shape), ((8, 28, 28, 1), (8,)))
            numpy.testing.assert_array_equal(index, range(8))

    def test_what_differs_in_size(self):
        with tempfile.TemporaryDirectory() as folder:
            for i in range(7):
                Path(f"{folder}/{i % 2}").mkdir(exist_ok=True)
                Path(f"{folder}/{i % 2}/{i}.png").write_bytes(png(i + 1, 2 * i + 3))
            wanted = [path.read_bytes() for path in sorted(Path(folder).glob("*/*.png"))]
            with stoker.Loader(f"images:{folder}", batch_size=3) as loader:
                got = []
                for batch in loader:
                    values, offsets = batch["image"]
                    self.assertIsInstance(batch["image"], stoker.Ragged)
                    self.assertEqual(len(offsets), len(batch["label"]) + 1)
                    got += [values[offsets[i] : offsets[i + 1]].tobytes() for i in range(len(offsets) - 1)]
                    del values, offsets, batch
            self.assertEqual(got, wanted)

    def test_numbers_of_any_kind_are_options(self):
        for size in (16, "16", numpy.int64(16), numpy.uint8(16)):
            with stoker.Loader("digits:?size=64", batch_size=size, timeout=numpy.float32(2.5), shuffle=None) as loader:
                self.assertEqual(len(loader), 4)
        with stoker.Loader("digits:?size=64", shuffle=numpy.True_, drop_last=numpy.False_) as loader:
            self.assertNotEqual(next(iter(loader))["index"].tolist(), list(range(64)))


class Order(unittest.TestCase):
    OPTIONS = dict(batch_size=7, shuffle=True, seed=11)

    def epoch(self, loader):
        return [batch["index"].tolist() for batch in loader]

    def test_same_for_any_number_of_workers(self):
        runs = []
        for workers in (0, 1, 3):
            with stoker.Loader("digits:?size=100", num_workers=workers, **self.OPTIONS) as loader:
                runs.append([self.epoch(loader) for _ in range(3)])
        self.assertEqual(runs[0], runs[1])
        self.assertEqual(runs[0], runs[2])
        self.assertNotEqual(runs[0][0], runs[0][1])
        self.assertEqual(sorted(sum(runs[0][0], [])), list(range(100)))

    def test_goes_on_behind_every_batch(self):
        with stoker.Loader("digits:?size=100", num_workers=2, **self.OPTIONS) as loader:
            whole = [self.epoch(loader) for _ in range(3)]
        for stop in range(0, 16):
            with stoker.Loader("digits:?size=100", num_workers=2, **self.OPTIONS) as loader:
                loader.set_epoch(1)
                state = loader.state_dict()
                for i, batch in enumerate(loader):
                    if i + 1 > stop:
                        break
                    state = loader.state_dict()
            with stoker.Loader("digits:?size=100", num_workers=1, **self.OPTIONS) as loader:
                loader.load_state_dict(state)
                rest = self.epoch(loader)
                after = self.epoch(loader)
            if stop < 15:
                self.assertEqual(rest, whole[1][stop:])
                self.assertEqual(after, whole[2])
            else:  # behind the last batch: whole epochs follow
                self.assertEqual(rest, whole[2])

    def test_a_loop_that_is_left_ends_its_epoch(self):
        with stoker.Loader("digits:?size=100", **self.OPTIONS) as loader:
            whole = [self.epoch(loader) for _ in range(4)]
            loader.set_epoch(0)
            for taken in (1, 14, 15):
                for i, _ in enumerate(loader):
                    if i + 1 == taken:
                        break
            self.assertEqual(self.epoch(loader), whole[3])

    def test_goes_back_from_the_middle_of_a_loop(self):
        with stoker.Loader("digits:?size=100", **self.OPTIONS) as loader:
            whole = self.epoch(loader)
            loader.set_epoch(0)
            for i, _ in enumerate(loader):
                if i == 2:
                    state = loader.state_dict()
                if i == 7:
                    break
            loader.load_state_dict(state)
            self.assertEqual(self.epoch(loader), whole[3:])

    def test_a_state_of_another_order(self):
        with stoker.Loader("digits:?size=100", **self.OPTIONS) as loader:
            state = loader.state_dict()
        with stoker.Loader("digits:?size=101", **self.OPTIONS) as loader:
            with self.assertRaisesRegex(stoker.InvalidError, "100.*101|101.*100") as caught:
                loader.load_state_dict(state)
            self.assertEqual(caught.exception.status, "STK_EMISMATCH")
            with self.assertRaises(stoker.DataError):
                loader.load_state_dict({"loader": "no state"})
            for other in ("text", None, {}, {"loader": 3}):
                with self.assertRaisesRegex(stoker.InvalidError, "not a state"):
                    loader.load_state_dict(other)


class Memory(unittest.TestCase):
    def test_arrays_are_the_loaders_memory(self):
        with stoker.Loader("digits:?size=640", batch_size=64, num_workers=1, prefetch_factor=2) as loader:
            places = set()
            for batch in loader:
                self.assertTrue(batch["image"].flags.writeable)
                self.assertFalse(batch["image"].flags.owndata)
                self.assertEqual(batch["image"].ctypes.data % 64, 0)
                places.add(batch["image"].ctypes.data)
                del batch
            self.assertLessEqual(len(places), loader.stats().depth + 1)  # one is ours

    def test_every_batch_kept(self):
        with stoker.Loader("digits:?size=2000", batch_size=50, num_workers=2, shuffle=True) as loader:
            with self.assertWarnsRegex(RuntimeWarning, "memory beyond"):
                kept = list(loader)
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # once for a loader
                again = list(loader)
            loader.set_epoch(0)
            for batch, fresh in zip(kept, loader, strict=True):
                for field in loader.fields:
                    numpy.testing.assert_array_equal(batch[field], fresh[field])
        self.assertEqual(len({batch["image"].ctypes.data for batch in kept + again}), 80)
        self.assertEqual(sorted(i for batch in again for i in batch["index"]), list(range(2000)))

    def test_a_warning_that_is_an_error(self):
        with stoker.Loader("digits:?size=2000", batch_size=50) as loader, warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaises(RuntimeWarning):
                list(loader)

    def test_views_outlive_the_loader(self):
        loader = stoker.Loader("digits:?size=100", batch_size=10)
        view = next(iter(loader))["image"][3, 4:20, ::2]
        wanted = view.copy()
        loader.close()
        loader.close()
        del loader
        gc.collect()
        numpy.testing.assert_array_equal(view, wanted)
        with self.assertRaisesRegex(RuntimeError, "closed"):
            loader = stoker.Loader("digits:?size=100")
            loader.close()
            next(iter(loader))

    def test_views_of_every_kind_hold_it(self):
        with stoker.Loader("digits:?size=100", batch_size=10, num_workers=1) as loader:
            tensor = loader._native.next()[0]
            views = [memoryview(tensor), numpy.frombuffer(tensor, "u1"), numpy.from_dlpack(tensor), numpy.asarray(tensor)]
            self.assertIn('"dltensor"', repr(tensor.__dlpack__(max_version=(-1, 0))))
            wanted = [bytes(memoryview(view).tobytes()) for view in views]
            del tensor
            gc.collect()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rest = [loader._native.next() for _ in range(9)]
            self.assertTrue(all(rest))
            self.assertEqual([memoryview(view).tobytes() for view in views], wanted)

    def test_a_batch_held_by_dlpack_stays_where_it_is(self):
        with stoker.Loader("digits:?size=4000", batch_size=10, num_workers=1, output="dlpack") as loader:
            kept, wanted = [], []
            with self.assertWarns(RuntimeWarning):
                for i, batch in enumerate(loader):
                    if i < 2:
                        kept.append(numpy.from_dlpack(batch["index"]))
                    else:
                        kept.append(batch["index"])
                    wanted.append(numpy.asarray(batch["index"]).tolist())
            self.assertEqual([numpy.asarray(view).tolist() for view in kept], wanted)

    def test_memory_does_not_grow(self):
        def epochs(n):
            for _ in range(n):
                with stoker.Loader("digits:?size=512", batch_size=64, num_workers=2) as loader:
                    for batch in loader:
                        pass
        epochs(20)
        before, files = rss(), len(os.listdir("/proc/self/fd"))
        epochs(100)
        self.assertLess(rss() - before, 8 << 20)
        self.assertEqual(len(os.listdir("/proc/self/fd")), files)
        self.assertEqual(threading.active_count(), 1)


class Waiting(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def slow(self):
        numpy.save(f"{self.folder.name}/x.npy", numpy.zeros((64, 1000)))
        return f"npy:slow+file:{self.folder.name}/x.npy?latency=300ms"

    def test_other_threads_run(self):
        ticks, ended = [], threading.Event()

        def tick():
            while not ended.wait(0.001):
                ticks.append(1)
        with stoker.Loader(self.slow(), batch_size=8, num_workers=1) as loader:
            thread = threading.Thread(target=tick)
            thread.start()
            began = time.perf_counter()
            next(iter(loader))
            waited = time.perf_counter() - began
            ended.set()
            thread.join()
        self.assertGreater(waited, 0.1)
        self.assertGreater(len(ticks), 20)

    def test_ctrl_c_ends_a_wait(self):
        for workers in (0, 2):
            code = (f"import stoker, threading, os, signal, time\n"
                    f"loader = stoker.Loader({self.slow()!r}, batch_size=64, num_workers={workers}, io_depth=1)\n"
                    "def hit():\n    global when\n    time.sleep(.1); when = time.perf_counter(); os.kill(os.getpid(), signal.SIGINT)\n"
                    "threading.Thread(target=hit).start()\n"
                    "try:\n    next(iter(loader))\n    print('no interrupt')\n"
                    "except KeyboardInterrupt:\n    print(time.perf_counter() - when)\n")
            status, out, err = python(code)
            self.assertEqual((status, err), (0, ""))
            self.assertLess(float(out), 0.2, workers)

    def test_timeout(self):
        with stoker.Loader(self.slow(), batch_size=8, num_workers=1, timeout=0.05) as loader:
            with self.assertRaises(stoker.TimedOutError) as caught:
                next(iter(loader))
            self.assertIsInstance(caught.exception, TimeoutError)

    def test_two_threads_at_once(self):
        with stoker.Loader(self.slow(), batch_size=8, num_workers=1) as loader:
            thread = threading.Thread(target=lambda: next(iter(loader)))
            thread.start()
            time.sleep(0.05)
            for call in (loader._native.next, loader.close, loader.state_dict):
                with self.assertRaisesRegex(RuntimeError, "another thread"):
                    call()
            self.assertEqual(loader.stats().batches, 0)  # which any may ask for
            thread.join()
            self.assertEqual(loader.stats().batches, 1)

    def test_interpreter_ends_with_a_live_loader(self):
        for keep in ("loader", "batch", "loader, batch"):
            status, out, err = python("import stoker, sys\n"
                                      "loader = stoker.Loader('digits:', batch_size=64, num_workers=2)\n"
                                      f"batch = next(iter(loader)); sys.kept = {keep}\n")
            self.assertEqual((status, out, err), (0, "", ""))

    def test_child_of_fork(self):
        with stoker.Loader("digits:?size=100", batch_size=10, num_workers=1) as loader:
            batch = next(iter(loader))
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    batch["image"].sum()
                    next(iter(loader))
                except stoker.Error as error:
                    code = 0 if error.status == "STK_EFORK" else 2
                finally:
                    del batch
                    os._exit(code)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(len(list(loader)), 10)


class Errors(unittest.TestCase):
    def test_options(self):
        for options, words in (({"batch_size": 0}, "out of range"), ({"batchsize": 3}, "did you mean 'batch_size'"),
                               ({"shuffle": "bloc"}, "did you mean 'block'"), ({"num_workers": -5}, "auto or 0"),
                               ({"transforms": "normalise(mnist)"}, "normalize"), ({"output": "tf"}, "numpy")):
            with self.assertRaisesRegex(stoker.InvalidError, words) as caught:
                stoker.Loader("digits:", **options)
            self.assertIsInstance(caught.exception, ValueError)
        with self.assertRaisesRegex(TypeError, "batch_size is a dict"):
            stoker.Loader("digits:", batch_size={})
        with self.assertRaises(TypeError):
            stoker.Loader(3)

    def test_epochs_before_the_first(self):
        with stoker.Loader("digits:?size=8") as loader:
            with self.assertRaisesRegex(stoker.InvalidError, "epoch is -1: give 0 or more"):
                loader.set_epoch(-1)
            for epoch in ("1", None, 1.5):
                with self.assertRaisesRegex(TypeError, f"epoch is {epoch!r}: give a whole number"):
                    loader.set_epoch(epoch)
            loader.set_epoch(numpy.int64(3))
            self.assertEqual(loader._native.position[0], 3)

    def test_raised_with_a_text_alone(self):
        for kind, status in ((stoker.Error, "STK_EINTERNAL"), (stoker.InvalidError, "STK_EINVAL"), (stoker.NotFoundError, "STK_ENOENT"),
                             (stoker.AccessError, "STK_EACCES"), (stoker.StorageError, "STK_EIO"), (stoker.DataError, "STK_EFORMAT"),
                             (stoker.TimedOutError, "STK_ETIMEDOUT"), (stoker.NoMemoryError, "STK_ENOMEM")):
            error = kind("words")
            self.assertEqual((str(error), error.status, error.key, error.sample), ("words", status, "", None))

    def test_class_of_a_status(self):
        for kind, statuses in ((stoker.DataError, ("EFORMAT", "ELIMIT", "ECHECKSUM", "EBADSAMPLES", "EKIND")),
                               (stoker.InvalidError, ("EINVAL", "EMISMATCH")), (stoker.Error, ("EBUSY", "EINTERNAL"))):
            for status in statuses:
                self.assertIs(type(_native.error(f"STK_{status}", "words")), kind, status)

    def test_datasets(self):
        with self.assertRaises(FileNotFoundError) as caught:
            stoker.Loader("mnist:/nonexistent-folder")
        self.assertIsInstance(caught.exception, stoker.NotFoundError)
        self.assertEqual(caught.exception.status, "STK_ENOENT")
        with tempfile.TemporaryDirectory() as folder:
            Path(f"{folder}/x.npy").write_bytes(b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f4'}")
            with self.assertRaises(stoker.DataError):
                stoker.Loader(f"npy:{folder}/x.npy")
            with self.assertRaises(stoker.DataError):
                stoker.Loader(Path(folder, "x.npy"))
            numpy.save(f"{folder}/y.npy", numpy.zeros((100, 1000)))
            with open(f"{folder}/y.npy", "r+b") as file:
                file.truncate(400000)
            with self.assertRaises(stoker.Error):
                for _ in stoker.Loader(f"npy:{folder}/y.npy", batch_size=10):
                    pass

    def test_arrays_without_values(self):
        for given, words in ((numpy.zeros((5, 0), "f4"), "'data' has no values in its samples, as dimension 1 has the length 0"),
                             ((numpy.zeros(5), numpy.zeros((5, 2, 0))), "'1' has no values in its samples, as dimension 2"),
                             ({"": numpy.zeros(5)}, "an empty name")):
            with self.assertRaisesRegex(stoker.InvalidError, words):
                stoker.Loader(given)

    def test_messages_go_to_logging(self):
        with tempfile.TemporaryDirectory() as folder:
            numpy.save(f"{folder}/x.npy", numpy.zeros((64, 10)))
            with self.assertLogs("stoker", "WARNING") as logs:
                with stoker.Loader(f"npy:slow+file:{folder}/x.npy?latency=300ms", batch_size=8, num_workers=1,
                                   watchdog=0.05) as loader:
                    next(iter(loader))
            self.assertTrue(logs.output)

    def test_subinterpreter(self):
        try:
            import _xxsubinterpreters as interpreters
        except ImportError:
            self.skipTest("this Python has no _xxsubinterpreters")
        made = interpreters.create()
        self.addCleanup(interpreters.destroy, made)
        path = [str(Path(stoker.__file__).parents[1])]
        with self.assertRaisesRegex(interpreters.RunFailedError, "main interpreter"):
            interpreters.run_string(made, f"import sys; sys.path[:0] = {path!r}; import stoker._native")


class Loops(unittest.TestCase):
    def test_one_at_a_time(self):
        with stoker.Loader("digits:?size=64", batch_size=16) as loader:
            first = iter(loader)
            next(first)
            second = iter(loader)
            next(second)
            with self.assertRaisesRegex(RuntimeError, "another loop"):
                next(first)
            self.assertEqual(len(list(second)), 3)
            self.assertEqual(len(list(loader)), 4)

    def test_closed_by_who_hears_of_it(self):
        native = stoker.Loader("digits:", batch_size=64)._native
        kept = []
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = lambda *_, **__: native.close()
            with self.assertRaisesRegex(RuntimeError, "closed"):
                while True:
                    kept.append(native.next())
        self.assertEqual(len(numpy.asarray(kept[0][0])), 64)

    def test_closed_by_another_thread(self):
        for _ in range(5):
            native = stoker.Loader("digits:?size=640", batch_size=64, num_workers=1)._native
            state = native.state()

            def go():
                try:
                    for _ in range(100):
                        native.set_epoch(1)
                        native.restore(state)
                except RuntimeError as e:
                    self.assertIn("closed", str(e))

            thread = threading.Thread(target=go)
            thread.start()
            while thread.is_alive():
                try:
                    native.close()
                except RuntimeError as e:
                    self.assertIn("in use", str(e))

    def test_a_list_is_no_dataset(self):
        with self.assertRaisesRegex(TypeError, "tuple or dict"):
            stoker.Loader([numpy.zeros((4, 2)), numpy.zeros((4, 2))])


class Package(unittest.TestCase):
    def test_what_is_written_from_the_tables(self):
        sys.path.insert(0, str(ROOT / "scripts"))
        self.addCleanup(sys.path.pop, 0)
        for name in ("options", "transforms"):
            made = importlib.import_module(f"make_python_{name}").text()
            path = ROOT / "python/stoker" / ("_options.py" if name == "options" else "transforms.py")
            self.assertEqual(made, path.read_text(), f"run scripts/make_python_{name}.py")

    def test_help_has_every_option(self):
        for name, _, _, _, doc in _native.options("loader"):
            self.assertRegex(stoker.Loader.__doc__, rf"(?m)^      {name} ")
        with self.assertRaises(KeyError):
            _native.options("nothing")

    def test_command(self):
        done = subprocess.run([sys.executable, "-m", "stoker", "--version"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(stoker.__version__, done.stdout)

    def test_without_its_command(self):
        with mock.patch("stoker.__main__.command", return_value="/nowhere/stoker"):
            with self.assertRaisesRegex(SystemExit, "not part of this installation: /nowhere/stoker is not there"):
                main()


if __name__ == "__main__":
    unittest.main()
