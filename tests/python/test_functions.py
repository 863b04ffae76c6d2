# SPDX-License-Identifier: Apache-2.0
"""What a loader says of itself, and the functions of the command. NumPy alone is needed."""
import doctest
import json
import logging
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from html.parser import HTMLParser
from pathlib import Path
from unittest import mock

import numpy

import stoker
from stoker import _native
from stoker.__main__ import command, environment
from stoker.transforms import Normalize

ROOT = Path(__file__).resolve().parents[2]


def png(width, height):
    """A grey picture."""
    import zlib

    def chunk(kind, data):
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 0, 0, 0, 0])
    rows = zlib.compress((b"\x00" + bytes(width)) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def children():
    """The processes that this one has started."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                yield int(stat.parent.name)
        except FileNotFoundError:  # it has ended
            pass


class InFolder(unittest.TestCase):
    """Each test in an empty folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)

    def command(self, *arguments):
        """What the command itself says."""
        done = subprocess.run([command(), *arguments, "--format", "json"], capture_output=True, check=True)
        return json.loads(done.stdout)


class Tags(HTMLParser):
    """What is in a page: texts by tag; every tag is closed."""

    def __init__(self, page):
        super().__init__()
        self.open, self.texts, self.attributes = [], {}, {}
        self.feed(page)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.attributes[tag] = dict(attributes)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, text):
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(text)


class AtWork(unittest.TestCase):
    """Loader.stats() and Loader.verdict()."""

    def loop(self, loader, seconds):
        for _ in loader:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                time.sleep(seconds)

    def test_a_slow_step_is_the_limit(self):
        with stoker.Loader("digits:?size=320", batch_size=16, num_workers=1) as loader:
            self.loop(loader, 0.01)
            verdict = loader.verdict()
        self.assertEqual((verdict.limit, verdict.steps, verdict.knob), ("step", 20, None))
        self.assertGreaterEqual(verdict.step_time, 0.01)
        self.assertGreater(verdict.step_share, 0.5)
        self.assertIn("The step is the limit", str(verdict))
        self.assertEqual(repr(verdict), verdict.text)
        self.assertIn("<b>step</b>", verdict._repr_html_())

    def test_slow_samples_are(self):
        with stoker.Loader("synthetic:?size=320&cpu=500us", batch_size=16, num_workers=0) as loader:
            self.loop(loader, 0.0001)
            verdict = loader.verdict()
            self.assertEqual((verdict.limit, verdict.knob, verdict.steps), ("one core", "num_workers", 20))
            self.assertGreater(verdict.lost_share, 0.5)
            self.assertGreaterEqual(verdict.wait_mean, 0.008)
            stats = loader.stats()
            self.assertEqual((stats.batches, stats.workers, stats.bad_samples), (20, 0, 0))
            self.assertGreaterEqual(stats.wait_s, 0.16)
            self.assertAlmostEqual(sum(stats.waits_s.values()), stats.wait_s, delta=0.02 * stats.wait_s)
            self.assertEqual((stats.stages["prepare"]["items"], stats.stages["deliver"]["items"]), (320, 20))
            self.assertTrue(0.16 <= stats.stages["prepare"]["busy_s"] < 60)

    def test_counters_of_reads(self):
        with tempfile.TemporaryDirectory() as folder:
            values = numpy.arange(64 * 100, dtype="f4").reshape(64, 100)
            numpy.save(f"{folder}/x.npy", values)
            with stoker.Loader(f"array:{folder}/x.npy?window=2x100&stride=1x100", batch_size=9, epochs=1) as loader:
                for _ in loader:
                    pass
                stats = loader.stats()
        self.assertEqual((stats.needed_bytes, stats.batches, stats.pictures, stats.decode_s), (63 * 800, 7, 0, 0))
        self.assertTrue(values.nbytes <= stats.request_bytes < 63 * 800)  # windows overlap
        self.assertGreaterEqual(stats.slab_bytes, 9 * 800)
        self.assertEqual(stats.chunks_needed, 0)  # what is not encoded is read in part

    def test_idle_time_behind_a_loop_is_not_its_step(self):
        for early in (False, True):
            with stoker.Loader("digits:?size=64", batch_size=8, num_workers=1) as loader:
                for batch in loader:
                    if early:
                        break
                ended = vars(loader.verdict())
                time.sleep(0.05)
                self.assertEqual(vars(loader.verdict()), ended)
            self.assertEqual(vars(loader.verdict()), ended)  # closed

    def test_epochs_that_follow_each_other_are_one_loop(self):
        with stoker.Loader("digits:?size=64", batch_size=8) as loader:
            for wanted in (8, 16, 24):
                self.loop(loader, 0.0001)
                self.assertEqual(loader.verdict().steps, wanted)
            time.sleep(0.06)
            self.loop(loader, 0.0001)
            self.assertEqual(loader.verdict().steps, 8)

    def test_the_loop_that_runs(self):
        with stoker.Loader("digits:?size=64", batch_size=8) as loader:
            verdict = loader.verdict()
            self.assertEqual((verdict.limit, verdict.steps, verdict.gain), ("unknown", 0, 1))
            left = iter(loader)
            next(left)
            running = iter(loader)
            for _ in range(3):
                next(running)
            del left  # of another loop: it does not end this one's measuring
            next(running)
            self.assertEqual(loader.verdict().steps, 4)

    def test_shown(self):
        with stoker.Loader("digits:?size=64", batch_size=8, memory_budget="4GiB") as loader:
            for _ in loader:
                pass
            stats = loader.stats()
        self.assertEqual(repr(stats).splitlines()[0].split(), ["batches", "8"])
        self.assertIn(["memory_budget", "4", "GiB"], [line.split() for line in repr(stats).splitlines()])
        self.assertRegex(stats._repr_html_(), "<table>.*<td[^>]*>batches</td><td[^>]*>8</td>.*</table>")
        self.assertEqual(stats, type(stats)(vars(stats)))


class Infos(InFolder):
    def test_a_dataset(self):
        found = stoker.info("digits:?size=64&split=test")
        self.assertEqual((type(found).__name__, found.size, found.spec), ("DatasetInfo", 64, "digits:?size=64&split=test"))
        self.assertEqual([(f.name, f.dtype, f.shape, f.picture) for f in found.fields],
                         [("image", "uint8", (28, 28, 1), True), ("label", "int64", (), False)])
        self.assertEqual(found.classes, [str(i) for i in range(10)])
        self.assertEqual((found.description["split"], found.survey), ("test", None))
        self.assertIn("split             test", repr(found).splitlines())

    def test_pictures(self):
        for i in range(5):
            Path("train", "a<b" if i % 2 else "&amp;").mkdir(parents=True, exist_ok=True)
            Path("train", "a<b" if i % 2 else "&amp;", f"{i}.png").write_bytes(png(10 + i, 20))
        found = stoker.info(Path("train"), stats="all")
        self.assertEqual((found.survey.pictures, found.survey.png, found.survey.max_width), (5, 5, 14))
        self.assertEqual(found.survey.class_counts, [3, 2])
        self.assertIn("a<b", Tags(found._repr_html_()).texts["td"][1::2][list(found.description).index("class")])

    def test_an_array(self):
        values = numpy.arange(60, dtype="f4").reshape(3, 4, 5)
        numpy.save("a.npy", values)
        found = stoker.info("array:a.npy", stats="all")
        self.assertEqual((found.dtype, found.shape, found.bytes), ("float32", (3, 4, 5), 240))
        self.assertEqual((found.stats.mean, found.stats.max, found.stats.values), (29.5, 59, 60))
        self.assertIn("shape       3×4×5", repr(found).splitlines())

    def test_a_group(self):
        for name, sides in (("t", [4, 6]), ("p", [9])):
            Path("g", name, "c").mkdir(parents=True)
            array = {"zarr_format": 3, "node_type": "array", "shape": sides, "data_type": "int16", "fill_value": 0,
                     "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2] * len(sides)}},
                     "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}
            Path("g", name, "zarr.json").write_text(json.dumps(array))
        Path("g", "zarr.json").write_text('{"zarr_format": 3, "node_type": "group", "attributes": {"title": "made"}}')
        found = stoker.info("g")
        self.assertEqual(found.attributes, {"title": "made"})
        rows = dict(zip(found.columns["path"], found.columns["shape"]))
        self.assertEqual((rows["t"], rows["p"]), ([4, 6], [9]))
        self.assertEqual({len(column) for column in found.columns.values()}, {len(found.nodes)})
        self.assertIn("4×6", Tags(found._repr_html_()).texts["td"])

    def test_a_checkpoint_and_its_weights_alone(self):
        about = {"weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
        head = json.dumps(about).encode()
        Path("w.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + bytes(24))
        found = stoker.info("w.safetensors")
        self.assertEqual(type(found).__name__, "Description")
        self.assertIn("float32 [2, 3]", found.description.values())
        self.assertIn("float32 [2, 3]", repr(found))
        made = stoker.convert("w.safetensors", "again.safetensors")
        self.assertEqual((made.tensors, made.total, made.target), (1, None, "again.safetensors"))
        self.assertTrue(Path("again.safetensors").exists())

    def test_a_store_and_all_there_is(self):
        Path("file").write_bytes(bytes(100000))
        self.assertIn("io_depth", stoker.info(".", store=True).description)
        everything = stoker.info()
        self.assertIn("digits", [one["name"] for one in everything.datasets])
        self.assertEqual(dict(zip(everything.columns["name"], everything.columns["kind"]))["resize"], "transforms")


class ChunkShapes(InFolder):
    def test_as_the_command_says(self):
        found = stoker.chunks(window=(4, 64, 64), dtype="float32", extent=(8760, None, 1440), store="s3", ratio=2.5, top=3)
        said = self.command("chunks", "--window", "4x64x64", "--dtype", "float32", "--extent", "8760x*x1440", "--store", "s3",
                            "--ratio", "2.5", "--top", "3")
        self.assertEqual((found.extent, found.itemsize, found.ratio), ((8760, 0, 1440), 4, 2.5))
        self.assertEqual(found.best, tuple(said["recommended"][0]["chunk"]))
        self.assertEqual((found.why, len(found.recommended)), (said["why"], 3))
        self.assertEqual([cost.expected_bytes for cost in found.chunks], [row["expected_bytes"] for row in said["chunks"]])
        best = found.columns["rank"].index(1)
        self.assertEqual(found.columns["chunk"][best], found.best)
        self.assertEqual(found.columns["seconds"][best], said["recommended"][0]["seconds"])
        self.assertEqual(len(set(found.columns["chunk"])), len(found.columns["chunk"]))

    def test_shapes_as_they_are_given(self):
        for shapes in ("8x8,16x16", [(8, 8), (16, 16)], ((8, 8), (16, 16))):
            found = stoker.chunks(window="64x64", chunks=shapes)
            self.assertEqual([cost.chunk for cost in found.chunks], [(8, 8), (16, 16)])
            self.assertEqual((found.best, found.why, found.recommended), (None, None, []))
        self.assertEqual(stoker.chunks(window=[64], chunks=(8,)).chunks[0].min_chunks, 8)

    def test_measured(self):
        numpy.save("a.npy", numpy.zeros((64, 32, 32), "f4"))
        found = stoker.chunks("a.npy", window=(1, 16, 16), measure=True, sample="64KiB", top=1)
        self.assertEqual(found.extent, (64, 32, 32))
        self.assertIn(found.best, found.measured.columns["chunk"])
        self.assertEqual(found.best, tuple(found.measured.best))
        self.assertIn(found.measured.why, repr(found))
        self.assertTrue(all(found.measured.columns["seconds"]))
        self.assertIn("measured", repr(found))

    def test_the_page(self):
        found = stoker.chunks(window=(64, 64))
        self.assertIn("<!doctype html>", found.page.html[:100].lower())
        frame = Tags(found.page._repr_html_()).attributes["iframe"]
        self.assertEqual(frame["srcdoc"], found.page.html)
        self.assertNotIn("allow-same-origin", frame["sandbox"])
        found.page.save("page.html")
        self.assertEqual(Path("page.html").read_text(), found.page.html)


class Conversions(InFolder):
    def test_one_that_is_resumed(self):
        for i in range(3):
            Path("in", str(i)).mkdir(parents=True)
            Path("in", str(i), "x.png").write_bytes(png(40 + i, 30))
        found = stoker.convert(Path("in"), Path("out"), max_side=16, on_error="skip")
        self.assertEqual((found.total, found.encoded, found.resumed, found.tensors), (3, 3, 0, None))
        self.assertGreater(found.mean_psnr, 30)
        self.assertEqual(stoker.convert("images:in", "out", max_side=16, on_error="skip").resumed, 3)
        self.assertEqual(stoker.info("out").survey.max_width, 16)
        self.assertIn("encoded", repr(found))

    def test_refused(self):
        with self.assertRaisesRegex(stoker.InvalidError, "max_side does nothing"):
            stoker.convert("digits:?size=10", "out", max_side=16)


class Benches(InFolder):
    FAST = dict(min_seconds=0.05, max_seconds=0.3, min_batches=5, warmup=1, num_batches=20, train_step_time=0.001)

    def test_a_sweep_and_its_report(self):
        found = stoker.bench("digits:?size=640", num_workers=[0, 1], batch_size=32, log="x.log", **self.FAST)
        self.assertEqual([one.label for one in found.settings], ["num_workers=0", "num_workers=1"])
        self.assertEqual(found.columns["num_workers"], [0, 1])
        self.assertEqual(found.columns["samples_per_s"], [one.samples_per_s for one in found.settings])
        self.assertTrue(all(rate > 0 for rate in found.columns["samples_per_s"]))
        self.assertEqual(found.settings[0].options["batch_size"], 32)
        self.assertEqual((found.baseline, found.log), (found.settings[0], "x.log"))
        self.assertIs(found.verdict, found.best.verdict)
        self.assertIn(found.best.label, repr(found))
        self.assertIn("num_workers=1", Tags(found._repr_html_()).texts["td"])

        report = stoker.report("x.log")
        self.assertEqual([run.name for run in report.runs], ["num_workers=0", "num_workers=1"])
        self.assertEqual(report.runs[1].settings["batch_size"], "32")
        self.assertEqual(report.columns["limit"], [run.verdict.limit for run in report.runs])
        for run, setting in zip(report.runs, found.settings):
            self.assertAlmostEqual(run.wait_mean, setting.wait_mean, delta=0.2 * setting.wait_mean + 1e-5)
            self.assertIn(f"{run.name}: {run.verdict.text}", report.verdict)
        self.assertEqual(report.comparisons[0]["b"], "num_workers=1")
        self.assertIn(report.comparisons[0]["text"], repr(report))
        self.assertEqual(Tags(report._repr_html_()).attributes["iframe"]["srcdoc"], report.html)
        report.save("page.html")
        self.assertIn("</html>", Path("page.html").read_text()[-20:])
        self.assertEqual(sorted(os.listdir()), ["page.html", "x.log"])

    def test_lists_of_texts_with_commas(self):
        both = ["to_float", ["to_float", Normalize("mnist")]]
        found = stoker.bench("digits:?size=640", transforms=both, shuffle=[False, True], num_workers=1, **self.FAST)
        self.assertEqual({one.status for one in found.settings}, {"STK_OK"})
        self.assertEqual({(o["transforms"], o["shuffle"]) for o in (one.options for one in found.settings)},
                         {(text, shuffle) for text in ("to_float", "to_float, normalize(mean=mnist)") for shuffle in ("false", "true")})
        self.assertEqual(os.listdir(), [])  # no log

    def test_settings_that_fail(self):
        damaged = Path("damaged")
        damaged.mkdir()
        damaged.joinpath("0.png").write_bytes(b"no picture")
        for several in (1, [1, 2]):
            with self.assertRaisesRegex(stoker.DataError, "0.png"):
                stoker.bench(f"images:{damaged}", transforms="decode, resize(8), center_crop(8)", num_workers=several, **self.FAST)
        with self.assertLogs("stoker", "ERROR") as logs:
            found = stoker.bench("digits:?size=640", memory_budget=["1KiB", "64MiB"], num_workers=1, **self.FAST)
        self.assertEqual([one.status for one in found.settings], ["STK_EBUDGET", "STK_OK"])
        self.assertIn(found.settings[0].error, logs.output[0])
        self.assertEqual(found.columns["samples_per_s"][0], None)
        self.assertIn(found.settings[0].error, repr(found))

    def test_a_tuning(self):
        """The grid is of the values given; what was found is a configuration that measures the same setting."""
        found = stoker.tune("digits:?size=640", num_workers=[0, 1], io_depth=4, prefetch_factor=2, batch_size=32, train_step_time=0.001,
                            min_seconds=0.1, rounds=0, log="x.log")
        self.assertEqual({(p.num_workers, p.io_depth, p.prefetch_factor) for p in found.points if p.role != "defaults"}, {(0, 4, 2), (1, 4, 2)})
        self.assertIn(found.best, found.points)
        self.assertIn(found.best.label, repr(found))
        self.assertIn(found.verdict, repr(found))
        self.assertEqual(found.columns["samples_per_s"], [p.samples_per_s for p in found.points])
        self.assertTrue(found.ended)
        found.save("tuned.yaml")
        self.assertIn(f"num_workers: {found.best.num_workers}", Path("tuned.yaml").read_text())
        again = stoker.bench("tuned.yaml", **self.FAST).settings
        self.assertEqual([(one.options["num_workers"], one.options["batch_size"]) for one in again], [(found.best.num_workers, 32)])
        # What is given beside a file has the last word, lists too.
        self.assertEqual(len(stoker.bench("tuned.yaml", num_workers=[0, 1], **self.FAST).settings), 2)
        found.page.save("page.html")
        self.assertIn("</html>", Path("page.html").read_text()[-20:])
        self.assertEqual(sorted(os.listdir()), ["page.html", "tuned.yaml", "x.log"])
        self.assertEqual({run.name for run in stoker.report("x.log").runs} & {"num_workers=0", "num_workers=1"}, {"num_workers=0", "num_workers=1"})
        kept = stoker.tune("digits:?size=640", num_workers=[1], io_depth=4, prefetch_factor=2, batch_size=32, train_step_time=0.001,
                           min_seconds=0.1, rounds=0)
        self.assertLessEqual({p.num_workers for p in kept.points if p.role != "defaults"}, {0, 1})
        self.assertEqual(kept.best.num_workers, 1)
        with self.assertRaisesRegex(stoker.InvalidError, "unknown option 'objektive'.*objective"):
            stoker.tune("digits:", objektive="speed")
        with self.assertRaisesRegex(stoker.InvalidError, "unknown option 'output'"):
            stoker.tune("digits:", output="x.yaml")

    def test_a_tuning_fails_as_a_bench_does(self):
        Path("empty").mkdir()
        for kind, dataset, options in (
            (stoker.NotFoundError, "images:nowhere", {}),
            (stoker.NotFoundError, "images:empty", {}),
            (stoker.InvalidError, "digits:", {"num_workrs": 1}),
            (stoker.InvalidError, "digits:", {"io_depth": -4}),
            (stoker.NoMemoryError, "digits:?size=640", {"memory_budget": "1KiB"}),
            (stoker.NotFoundError, "digits:?size=640", {"log": "nowhere/x.log"}),
            (stoker.InvalidError, "digits:?size=640", {"log": "empty"}),
        ):
            said = []
            for function in (stoker.bench, stoker.tune):
                with self.subTest(dataset=dataset, options=options, function=function), self.assertRaises(kind) as failed:
                    function(dataset, **options, **self.FAST)
                self.assertIs(type(failed.exception), kind)
                said.append((failed.exception.status, str(failed.exception).removeprefix("bench: ").removeprefix("tune: ")))
            self.assertEqual(said[0], said[1])

    def test_a_log_that_is_not_complete(self):
        with self.assertRaisesRegex(stoker.Error, "full"):
            stoker.bench("digits:?size=640", num_workers=[0, 1], log="/dev/full", **self.FAST)


class Failures(InFolder):
    def test_classes_and_messages(self):
        Path("no.log").write_text("nothing")
        Path("bad.npy").write_bytes(b"\x93NUMPY\x01\x00\xff")
        for fails, kind, text in (
            (lambda: stoker.info("nowhere"), stoker.NotFoundError, "'nowhere' does not exist"),
            (lambda: stoker.info("array:bad.npy"), stoker.StorageError, "bad.npy ends"),
            (lambda: stoker.info("digits:?splt=test"), stoker.InvalidError, "splt"),
            (lambda: stoker.report("no.log"), stoker.DataError, "no event"),
            (lambda: stoker.report("none.log"), stoker.NotFoundError, "none.log"),
            (lambda: stoker.chunks(window=(0, 4)), stoker.InvalidError, "side of 0"),
            (lambda: stoker.convert("digits:", "out.zip"), stoker.Error, "out.zip"),
            (lambda: stoker.bench("digits:", batch_size=0), stoker.InvalidError, "batch_size: .0. is out of range"),
            (lambda: stoker.bench("digits:", batch_sise=2), stoker.InvalidError, "unknown option 'batch_sise'; did you mean 'batch_size'[?]$"),
            (lambda: stoker.bench("digits:", step=object()), TypeError, "step is a object"),
            (lambda: stoker.report("no.log", html="page.html"), stoker.InvalidError, "unknown option 'html': what is returned has the page"),
            (lambda: stoker.chunks(window=(4, 4), html="page.html"), stoker.InvalidError, "unknown option 'html'"),
            (lambda: stoker.info("digits:", format="csv"), stoker.InvalidError, "unknown option 'format': what is returned has columns"),
            (lambda: stoker.info("digits:", output="file"), stoker.InvalidError, "unknown option 'output'"),
        ):
            with self.subTest(text), self.assertRaisesRegex(kind, text) as raised:
                fails()
            if kind is stoker.NotFoundError:
                self.assertEqual((raised.exception.status, raised.exception.sample), ("STK_ENOENT", None))
                self.assertTrue(raised.exception.key)
        self.assertEqual(sorted(os.listdir()), ["bad.npy", "no.log"])

    def test_errors_by_name(self):
        error = _native.error("STK_EIO", "it broke", "a/b", 7)
        self.assertIsInstance(error, OSError)
        self.assertEqual((type(error), str(error), error.status, error.key, error.sample),
                         (stoker.StorageError, "it broke", "STK_EIO", "a/b", 7))
        self.assertEqual(type(_native.error("STK_NONE", "?")), stoker.Error)

    def test_a_command_that_is_killed(self):
        over = threading.Event()

        def kill():
            while not over.wait(0.05):
                for child in children():
                    return os.kill(child, signal.SIGKILL)

        thread = threading.Thread(target=kill)
        thread.start()
        with self.assertRaisesRegex(stoker.Error, "killed by signal: Killed"):
            stoker.bench("digits:", num_workers=1, min_seconds=20, train_step_time=0.01)
        over.set()
        thread.join()


LONG = "stoker.bench('digits:', num_workers=1, min_seconds=30, train_step_time=0.01)"


class Waiting(InFolder):
    def test_other_threads_run(self):
        turns = 0
        thread = threading.Thread(target=lambda: stoker.bench("digits:", num_workers=1, max_seconds=0.5, min_seconds=0.5))
        thread.start()
        while thread.is_alive():
            time.sleep(0.01)
            turns += 1
        self.assertGreater(turns, 10)  # of the 50 in half a second

    def test_interrupted(self):
        code = f"""
import os, signal, threading, time, stoker
threading.Timer(1, lambda: (times.append(time.monotonic()), os.kill(os.getpid(), signal.SIGINT))).start()
times = []
try:
    {LONG}
except KeyboardInterrupt:
    print(time.monotonic() - times[0])
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("no child")
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        late, rest = done.stdout.split("\n", 1)
        self.assertLess(float(late), 0.5)  # 0.1 s and a slow machine
        self.assertEqual((rest, done.stderr), ("no child\n", ""))

    def terminal(self, code):
        """What a program writes on a terminal."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.environ["TERM"] = "xterm"
            os.execv(sys.executable, [sys.executable, "-c", code])
        said = b""
        try:
            while select.select([terminal], [], [], 60)[0] and (part := os.read(terminal, 65536)):
                said += part
        except OSError:  # EIO: it has ended
            pass
        os.close(terminal)
        return os.waitpid(pid, 0)[1], said.decode()

    def test_progress_on_a_terminal(self):
        code = """
import stoker
stoker.bench('digits:', num_workers=1, max_seconds=1.5, min_seconds=1.5, train_step_time=0.01)
try:
    stoker.info('nowhere')
except stoker.NotFoundError as error:
    print('caught:', error)
"""
        status, said = self.terminal(code)
        self.assertEqual(status, 0, said)
        self.assertRegex(said, r"\r[^\n]*%")  # the bar
        self.assertEqual(said.count("nowhere"), 1, said)  # in the exception alone
        self.assertNotIn("error:", said)

    def test_remarks_elsewhere(self):
        numpy.save("a.npy", numpy.zeros((4, 4)))
        with self.assertLogs("stoker", "INFO") as logs:
            stoker.bench("digits:?size=64", num_workers=4, batch_size=8, io_depth=3, max_seconds=0.3, min_seconds=0.1, log="x.log")
            logging.getLogger("stoker").info("the last")
        with self.assertNoLogs("stoker", "INFO"):  # no word of the page
            stoker.report("x.log")
        self.assertEqual(logs.records[-1].getMessage(), "the last")


class Texts(InFolder):
    def test_examples_of_the_docstrings(self):
        finder = doctest.DocTestFinder(recurse=False)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        for name in ("info", "chunks", "convert", "bench", "tune"):
            for test in finder.find(getattr(stoker, name), name, globs={"stoker": stoker}):
                self.assertTrue(test.examples, name)
                runner.run(test)
        self.assertEqual(runner.summarize(verbose=False).failed, 0)

    def test_keywords_are_those_of_the_tables(self):
        subprocess.run([sys.executable, ROOT / "scripts/make_python_options.py", "."], check=True)
        for name in ("_options.py", "_functions/help.py"):
            self.assertEqual(Path(name).read_text(), (ROOT / "python/stoker" / name).read_text())

    def test_help_has_the_options(self):
        for function, names in ((stoker.bench, ("num_workers", "train_step_time", "step", "dataset_args")), (stoker.info, ("stats", "max_pixels", "store")),
                                (stoker.chunks, ("extent", "io_depth", "measure")), (stoker.convert, ("on_error", "max_side", "input_shape")),
                                (stoker.tune, ("objective", "max_memory", "num_workers")), (stoker.report, ("memory_limit",)), (stoker.Loader, ("num_workers", "drop_last")), (stoker.Array, ("format", "index_cache"))):
            for name in names:
                self.assertRegex(function.__doc__, rf"(?m)^      {name}  *\S")
            self.assertNotRegex(function.__doc__, r"(?m)^  --")

    def test_the_command_knows_this_interpreter(self):
        self.assertEqual(environment(), os.environ | {"STOKER_PYTHON": sys.executable})
        with mock.patch("sys.executable", ""):
            self.assertEqual(environment(), os.environ)

    def test_import_stays_light(self):
        code = "import sys, numpy; before = set(sys.modules); import stoker; print(*set(sys.modules) - before)"
        done = subprocess.run([sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        loaded = done.stdout.split()
        self.assertEqual({name.split(".")[0] for name in loaded} - sys.stdlib_module_names, {"stoker"})
        self.assertNotIn("stoker._functions.command", loaded)


if __name__ == "__main__":
    unittest.main()
