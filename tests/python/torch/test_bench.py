# SPDX-License-Identifier: Apache-2.0
"""stoker bench of datasets and steps of Python: what is measured, what is logged, what is refused."""
import collections
import contextlib
import io
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from pathlib import Path
from unittest import mock

import stoker
from stoker import _bench

HERE = Path(__file__).resolve().parent
BUILD = Path(stoker.__file__).parents[2]
COMMAND = BUILD / "stoker"

MODULE = textwrap.dedent("""
    import os, time, torch

    MODULE = 1

    class Squares(torch.utils.data.Dataset):
        def __init__(self, n=64, sleep=0.0, bad=-1):
            self.n, self.sleep, self.bad = n, sleep, bad
        def __len__(self):
            return self.n
        def __getitem__(self, index):
            time.sleep(self.sleep)
            if index == self.bad:
                raise ValueError(f"sample {index} is bad")
            return torch.full((3, 4), float(index * index)), index

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return (torch.tensor([i]) for i in range(40))

    class Lazy(torch.utils.data.Dataset):
        def __len__(self):
            return 8
        def __getitem__(self, index):
            import dask, threading
            gate = threading.Barrier(2)
            def part():
                try:
                    gate.wait(2 if dask.config.get("scheduler") == "threads" else 0.01)
                except threading.BrokenBarrierError:
                    pass
                return threading.get_ident()
            parts = dask.compute(dask.delayed(part)(), dask.delayed(part)())
            with open("threads", "a") as file:
                file.write(f"{len(set(parts))}\\n")
            return torch.tensor(index)

    def tensors():
        return torch.utils.data.TensorDataset(torch.rand(1000, 3, 32, 32), torch.arange(1000))

    def workers(batch):
        import processes
        with open(os.environ["STEPS"], "a") as file:
            file.write(f"{len(processes.of_parent(os.getpid()))}\\n")

    def step(batch):
        images, labels = batch
        with open(os.environ["STEPS"], "a") as file:
            file.write(f"{tuple(images.shape)} {labels.dtype}\\n")
""")


class Bench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "mine.py").write_text(MODULE)
        self.environment = os.environ | {"PYTHONPATH": f"{BUILD / 'python'}:{self.folder}:{HERE}", "STEPS": str(self.folder / "steps")}

    def arguments(self, dataset, *more):
        return [COMMAND, "bench", "--dataset", dataset, "--python", sys.executable, *map(str, more)]

    def bench(self, dataset, *more, log="none"):
        return subprocess.run(self.arguments(dataset, "--log", log, *more), capture_output=True, text=True, timeout=200,
                              cwd=self.folder, env=self.environment)

    def rows(self, dataset, *more):
        done = self.bench(dataset, "--format", "json", *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["settings"]

    def test_both_loaders_in_one_table(self):
        rows = self.rows("python:mine:Squares", "--dataset-args", '{"n": 100, "sleep": 0.001}', "--loader", "stoker,torch",
                         "--num-workers", "0,2", "--batch-size", 8, "--num-epochs", 2, "--train-step-time", 0)
        self.assertEqual([row["label"] for row in rows],
                         [f"loader={loader} num_workers={n}" for loader in ("stoker", "torch") for n in (0, 2)])
        for row in rows:
            # 13 batches an epoch, of which the last has 4 samples; the window begins behind the first.
            self.assertEqual((row["steps"], row["samples"]), (25, 192), row["label"])
            self.assertEqual(row["options"]["dataset_args"], '{"n": 100, "sleep": 0.001}')
            # A sample sleeps 1 ms.
            self.assertLess(row["samples_per_s"], 1000 * max(1, row["options"]["num_workers"]))
            self.assertGreater(row["prepare_seconds"], 0.1)

    def test_what_runs_in_c(self):
        for persistent in "true", "false":
            row, = self.rows("python:mine:tensors", "--num-workers", 1, "--batch-size", 100, "--num-epochs", 3, "--train-step-time", 0,
                             "--persistent-workers", persistent)
            self.assertEqual((row["steps"], row["samples"]), (29, 2900))
            # There is no worker of Python: this is what the threads tell.
            self.assertGreater(row["prepare_seconds"], 0)
            self.assertEqual(row["budget_bytes"], 0)

    def test_every_event_of_all_processes(self):
        for loader, context in ("torch", "forkserver"), ("stoker", "fork"):
            log = self.folder / f"{loader}-{context}.log"
            done = self.bench("python:mine:Squares", "--dataset-args", "[1000]", "--loader", loader, "--published",
                              "--num-workers", 2, "--multiprocessing-context", context, "--train-step-time", 0.02, log=str(log))
            self.assertEqual(done.returncode, 0, done.stderr)
            events = [json.loads(line) for line in log.read_text().splitlines()]
            counts = collections.Counter(event["event"] for event in events)
            self.assertEqual((counts["run start"], counts["epoch end"], counts["training end"]), (1, 2, 6))
            starts = [event for event in events if event["event"] == "get-batch start"]
            ends = [event for event in events if event["event"] == "get-batch end"]
            self.assertEqual(len(starts), len(ends))
            if loader == "torch":  # batch_size x (epochs x batches + 1 + (epochs + 1) x workers x prefetch_factor)
                self.assertEqual(len(starts), 16 * (2 * 3 + 1 + 3 * 2 * 2))
            self.assertGreaterEqual(len(starts), 16 * (2 * 3 + 1))
            self.assertEqual(list(ends[0])[:5], ["event", "time", "idx", "pid", "duration"])
            loop = next(event["pid"] for event in events if event["event"] == "run start")
            self.assertNotIn(loop, {event["pid"] for event in starts})
            self.assertEqual({event["worker"] for event in starts}, {0, 1})
            self.assertEqual({event["idx"] for event in starts if event["epoch"] == 1} & set(range(48)), set(range(48)))

    def test_a_dataset_without_length(self):
        row, = self.rows("python:mine:Stream", "--loader", "torch", "--num-workers", 2, "--batch-size", 8, "--num-epochs", 2,
                         "--train-step-time", 0)
        # Each of the two workers has all 40.
        self.assertEqual((row["steps"], row["samples"]), (19, 152))
        for loader in "torch", "stoker":  # in PyTorch's words
            result, _ = self.measured("python:mine:Stream", loader=loader, shuffle=True)
            self.assertIn(b"IterableDataset: expected unspecified shuffle option, but got shuffle=True", result)

    def test_a_step_of_ones_own(self):
        row, = self.rows("python:mine:Squares", "--dataset-args", '{"n": 20}', "--loader", "torch", "--num-workers", 1,
                         "--batch-size", 8, "--num-epochs", 1, "--step", "python:mine:step")
        self.assertEqual(row["steps"], 2)
        steps = (self.folder / "steps").read_text().splitlines()
        self.assertEqual(steps, 2 * ["(8, 3, 4) torch.int64"] + ["(4, 3, 4) torch.int64"])

    def test_a_step_beside_the_librarys_loader(self):
        row, = self.rows("digits:", "--num-workers", 1, "--batch-size", 512, "--num-epochs", 1, "--step", "python:mine:step")
        self.assertGreater(row["budget_bytes"], 0)  # its caches are there to be advised
        steps = (self.folder / "steps").read_text().splitlines()
        self.assertEqual(steps, (60000 // 512) * ["(512, 28, 28, 1) torch.int64"] + ["(96, 28, 28, 1) torch.int64"])
        self.assertEqual(row["samples"], 60000 - 512)

    def test_where_dask_computes(self):
        (self.folder / "settings.yaml").write_text('python: {dask: [single-threaded, "threads:2"]}')
        rows = self.rows("python:mine:Lazy", "--loader", "torch", "--num-workers", 1, "--batch-size", 4, "--num-epochs", 1,
                         "--train-step-time", 0, "settings.yaml")
        self.assertEqual([row["label"] for row in rows], [f"dask={dask}" for dask in ("single-threaded", "threads:2")])
        self.assertThreads("1", "2")
        for dask in "single-threaded", "threads:2":  # without workers
            self.measured("python:mine:Lazy", loader="torch", dask=dask, batch_size=4, num_epochs=1, train_step_time=0)
        self.assertThreads("1", "2")
        result, _ = self.measured("python:mine:Lazy", dask_workers=2)
        self.assertIn(b"dask_workers is for dask: local-cluster alone", result)

    def assertThreads(self, *wanted):
        """Each sample tells by how many threads its two parts were computed: with one, by the same."""
        threads = (self.folder / "threads").read_text().split()
        (self.folder / "threads").unlink()
        self.assertEqual(threads, sorted(threads))
        self.assertEqual(sorted(set(threads)), sorted(wanted))

    def test_a_ceiling(self):
        rows = self.rows("python:mine:Squares", "--loader", "torch", "--num-workers", 0, "--ceiling", "--min-seconds", 0.1,
                         "--dataset-args", '{"sleep": 0.005}', "--batch-size", 8, "--min-batches", 10, "--train-step-time", 0.01)
        self.assertGreater(rows[1]["samples_per_s"], 2 * rows[0]["samples_per_s"])

    def test_a_ceiling_has_no_workers(self):
        """Of Python: a step beside them counts the children of this process."""
        steps = self.folder / "steps"
        with mock.patch.dict(os.environ, self.environment):
            for loader, persistent, free in itertools.product(("torch", "stoker"), (False, True), (False, True)):
                _, shown = self.measured("python:mine:Squares", loader=loader, num_workers=2, multiprocessing_context="fork",
                                         prefetch_factor=2, timeout=0, persistent_workers=persistent, step="python:mine:workers",
                                         free_data=free, min_seconds=0, min_batches=4, warmup=2)
                counts = steps.read_text().split()
                steps.unlink()
                # Steps before the ceiling has its batch are beside two workers.
                self.assertEqual(counts, [*(len(counts) - 5 * free) * ["2"], *5 * free * ["0"]], (loader, persistent, shown))
                self.assertIn("2", counts)

    def test_what_a_dataset_raises(self):
        done = self.bench("python:mine:Squares", "--dataset-args", '{"bad": 13}', "--loader", "torch", "--num-workers", 1, "--batch-size", 4)
        self.assertEqual(done.returncode, 1)
        self.assertIn("ValueError: sample 13 is bad", done.stderr.splitlines()[-1])
        self.assertIn('mine.py", line', done.stderr)
        result, shown = self.measured("python:mine:Squares", dataset_args='{"bad": 13}', loader="torch", batch_size=4)
        self.assertIn(b"ValueError: sample 13 is bad", result)
        self.assertIn('mine.py", line', shown)

    def measured(self, dataset, free_data=False, **more):
        """What a run in this process comes to, and what it shows beside."""
        options = {"dataset": dataset, "dataset_args": None, "step": None, "num_workers": 0, "seed": 0, "batch_size": 8,
                   "shuffle": False, "drop_last": False, "pin_memory": False, "persistent_workers": True, "loader": "stoker",
                   "in_order": True, "native": "auto", "rng": "torch", "dask": None, "dask_shared": False, "dask_workers": 0,
                   "dask_threads": 0, "dask_memory_limit": None, "dask_dashboard_port": 0} | more
        shown = io.StringIO()
        with contextlib.redirect_stderr(shown), contextlib.chdir(self.folder), mock.patch.object(sys, "path", ["", *sys.path]):
            result = _bench.measure({"options": options, "log": "", "log_summary": True, "label": "", "about": "", "number": 1, "repeat": 1,
                                     "free_data": free_data})
        for name in "mine", "broken":
            sys.modules.pop(name, None)
        return result, shown.getvalue()

    def test_what_is_mistyped_is_one_line(self):
        (self.folder / "broken.py").write_text("import no_such_module\n")
        for dataset, more, words in (
                ("python:mine:squares", {}, "mine has no 'squares': did you mean 'Squares'?"),
                ("python:mine", {}, "'mine' is no MODULE:NAME, and no FILE.py:NAME"),
                ("python:mini:Squares", {}, f"there is no module 'mini' for {sys.executable}, in this folder or in PYTHONPATH"),
                ("python:mini.py:Squares", {}, "there is no file "),
                ("python:mine:Squares", {"dataset_args": "{"}, "dataset_args is no JSON: {: Expecting property name"),
                ("python:mine:Squares", {"dataset_args": "7"}, "dataset_args is 7: give an object of keywords, or a list"),
                ("python:mine:Squares", {"dataset_args": '{"m": 1}'}, "dataset_args do not fit Squares(n=64, sleep=0.0, bad=-1): got "
                 "an unexpected keyword argument 'm'"),
                ("python:mine:MODULE", {"dataset_args": "[1]"}, "dataset_args are for a class or a function, and "),
                ("python:mine:Squares", {"dask": "threds"}, "dask is 'threds': give one of off, single-threaded"),
                ("python:mine:MODULE", {}, "python:mine:MODULE is a int: a dataset has __getitem__ or __iter__"),
                ("python:mine:Squares", {"step": "python:mine:stop"}, "mine has no 'stop': did you mean 'step'?"),
                ("python:mine:Squares", {"step": "python:mine:MODULE"}, "bench.step: python:mine:MODULE is a int: name a function"),
                ("digits:", {"step": "python:mini:step"}, "there is no module 'mini' for ")):
            result, shown = self.measured(dataset, **more)
            self.assertIn(b"\0" + words.encode(), result)
            self.assertEqual(shown, "")
        with mock.patch.dict(sys.modules, {"torch": None}):
            for dataset, more in (("python:mine:Squares", {}), ("digits:", {"step": "python:mine:step"})):
                result, shown = self.measured(dataset, **more)
                self.assertIn(b"\0a dataset or step of Python needs PyTorch, which ", result)
                self.assertEqual(shown, "")
        result, shown = self.measured("python:broken:Data")
        self.assertIn(b"ModuleNotFoundError: No module named 'no_such_module'", result)
        self.assertIn('broken.py", line 1', shown)
        done = self.bench("python:mine:squares")
        self.assertEqual((done.returncode, done.stderr.splitlines()[-1]),
                         (1, "stoker: error: mine has no 'squares': did you mean 'Squares'?"))
        self.assertNotIn("Traceback", done.stderr)

    def test_as_a_function(self):
        environment = self.environment | {"PATH": "/no/python/here"}
        with contextlib.chdir(self.folder), mock.patch.dict(os.environ, environment):
            found = stoker.bench("python:mine:Squares", dataset_args=[{"n": 40}, {"n": 24}], loader=["stoker"],
                                 num_workers=0, batch_size=8, num_epochs=1, train_step_time=0, native="false")
            self.assertEqual([(one.options["loader"], one.options["dataset_args"], one.steps) for one in found.settings],
                             [("stoker", f'{{"n": {n}}}', steps) for n, steps in ((40, 4), (24, 2))])
            self.assertEqual(found.best.options["python"], sys.executable)
            found = stoker.bench("python:mine:Squares", dataset_args={"n": 40}, num_epochs=1, train_step_time=0, batch_size=8)
            self.assertEqual(found.best.steps, 4)
            with self.assertRaisesRegex(stoker.InvalidError, "native: it has no effect on PyTorch's loader"):
                stoker.bench("python:mine:Squares", loader="torch", native="true")

    def test_what_has_no_effect_is_refused(self):
        for more, words in ((["--io-depth", "4"], "loader.io_depth: it has no effect on a dataset of Python"),
                            (["--hash", "-"], "bench.hash: it has no effect on what an interpreter measures"),
                            (["--ranks", "2"], "bench.ranks: it has no effect"),
                            (["--io-engine", "threads"], "context.io_engine: it has no effect"),
                            (["--step", "python:mine:step", "--spin"], "bench.spin: it has no effect on a real step"),
                            (["--loader", "torch", "--rng", "torch"], "python.rng: it has no effect on PyTorch's loader"),
                            (["--loader", "tf"], "python.loader: 'tf' is not allowed; it takes stoker | torch")):
            done = self.bench("python:mine:Squares", *more)
            self.assertEqual(done.returncode, 2, more)
            self.assertIn(words, done.stderr)
        for step in [], ["--step", "python:mine:step"]:
            done = subprocess.run([COMMAND, "bench", "--dataset", "digits:", "--loader", "torch,stoker", *step], capture_output=True,
                                  text=True, cwd=self.folder)
            self.assertEqual(done.returncode, 2)
            self.assertIn("python.loader: it has no effect on a dataset of the library", done.stderr)

    def test_interpreters(self):
        done = self.bench("python:mine:Squares", "--python", "/no/such/python")
        self.assertEqual(done.returncode, 1)
        self.assertIn("could not start the interpreter '/no/such/python'", done.stderr)
        bare = self.folder / "bare"
        bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
        bare.chmod(0o755)
        done = self.bench("python:mine:Squares", "--python", str(bare))
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"stoker: {sys.executable} has no package stoker (No module named 'stoker'): install it there, or name another "
                      "interpreter (--python)\n", done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        setting = json.dumps({"version": "0.0.1", "result_bytes": 1, "figures_bytes": 1})
        program = "import stoker._bench; stoker._bench.main()"
        done = subprocess.run([sys.executable, "-c", program, "1", setting], capture_output=True, text=True, env=self.environment)
        self.assertEqual(done.returncode, 1)
        self.assertIn("and not of the command (0.0.1)", done.stderr)

    def test_interrupted(self):
        command = subprocess.Popen(self.arguments("python:mine:Squares", "--loader", "torch", "--num-workers", 2, "--min-seconds",
                                                  100, "--batch-size", 4, "--log", self.folder / "log", "--train-step-time", 0.01),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder, env=self.environment)
        log = self.folder / "log"
        until = time.monotonic() + 120
        while time.monotonic() < until and not (log.exists() and log.read_text().count("training end") > 20):
            time.sleep(0.1)
        pids = {json.loads(line)["pid"] for line in log.read_text().splitlines() if '"get-batch end"' in line}
        self.assertEqual(len(pids), 2)
        command.send_signal(signal.SIGINT)
        out, errors = command.communicate(timeout=60)
        self.assertEqual(command.returncode, 130, errors)
        self.assertIn("as given", out)
        self.assertEqual([pid for pid in pids if os.path.exists(f"/proc/{pid}")], [])


if __name__ == "__main__":
    unittest.main()
