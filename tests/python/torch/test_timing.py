# SPDX-License-Identifier: Apache-2.0
"""python -m stoker.timing and stoker.profile: the parts of a batch to the second, files, the diagnosis."""
import contextlib
import csv
import io
import json
import os
import pickle
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import torch
import yaml

import stoker.profile
import stoker.timing
from stoker._named import named

torch.set_num_threads(1)

# Its parts take 3 (data), 2 (forward), 4 (backward), 8 (the optimizer) and 1 seconds (a hook).
MODEL = '''
import stoker.timing
import torch
from lightning.pytorch import LightningDataModule, LightningModule
from torch.utils.data import DataLoader

def later(seconds):
    if hasattr(stoker.timing.time, "now"):
        stoker.timing.time.now += seconds

class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        later(2)
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        later(4)
        return grad

class Steps(torch.optim.SGD):
    def step(self, closure=None):
        loss = super().step(closure)
        later(8)
        return loss

class Model(LightningModule):
    def __init__(self, width=3):
        super().__init__()
        self.layer = torch.nn.Linear(4, width)

    def training_step(self, batch, batch_idx):
        return Slow.apply(self.layer(batch)).sum()

    def on_train_batch_start(self, batch, batch_idx):
        later(1)

    def configure_optimizers(self):
        return Steps(self.parameters(), 0.1)

class Manual(Model):
    automatic_optimization = False

    def training_step(self, batch, batch_idx):
        later(1)
        for _ in range(2):
            self.manual_backward(super().training_step(batch, batch_idx))
        self.optimizers().step()

class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 50

    def __getitem__(self, place):
        later(3 / 8)
        return torch.ones(4)

class Data(LightningDataModule):
    def __init__(self, size=8):
        super().__init__()
        self.size = size

    def train_dataloader(self):
        return DataLoader(Samples(), batch_size=self.size)

class Both(Model):
    def train_dataloader(self):
        return DataLoader(Samples(), batch_size=8)
'''


class Clock:
    now = 0.0

    def perf_counter(self):
        return self.now

    process_time = perf_counter

    def strftime(self, format):
        return "20260102_030405"


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "slow.py").write_text(MODEL)
        self.enterContext(contextlib.chdir(self.folder))
        self.enterContext(mock.patch.object(sys, "path", [str(self.folder), *sys.path]))
        self.addCleanup(sys.modules.pop, "slow", None)

    def run_main(self, module, *arguments):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            module.main([*arguments, "--device", "cpu"])
        return said.getvalue()

    def refused(self, module, *arguments):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit):
            module.main(arguments)
        return said.getvalue()


class Timing(Case):
    def setUp(self):
        super().setUp()
        self.enterContext(mock.patch("stoker.timing.time", Clock()))

    def rows(self, folder):
        with open(folder / "timing_results.csv") as file:
            return list(csv.DictReader(file))

    def test_parts_of_each_batch(self):
        said = self.run_main(stoker.timing, "slow:Model", "--data", "slow:Data", "--warmup-steps", "4", "--save-dir", "out")
        rows = self.rows(self.folder / "out")
        self.assertEqual(list(rows[0]), ["epoch", "batch", "samples", "warmup", "data_s", "forward_s", "backward_s", "other_s",
                                         "total_s", "optimizer_steps"])
        self.assertEqual([(row["epoch"], row["batch"]) for row in rows], [(str(e), str(b)) for e in (0, 1) for b in range(7)])
        self.assertEqual([row["warmup"] for row in rows], ["1"] * 4 + ["0"] * 10)
        for row in rows:
            whole = row["samples"] == "8"
            self.assertEqual([float(row[f"{part}_s"]) for part in ("data", "forward", "backward", "other", "total")],
                             [3 if whole else 0.75, 2, 4, 9, 18 if whole else 15.75])
            self.assertEqual(row["optimizer_steps"], "1")
        summary = yaml.safe_load((self.folder / "out/timing_summary.yaml").read_text())
        self.assertEqual(summary["batches"], 10)
        self.assertEqual(summary["warmup_batches"], 4)
        self.assertEqual(summary["batch_size"], 8)
        self.assertAlmostEqual(summary["samples_per_s"], 68 / 175.5, places=3)
        self.assertEqual(summary["forward"]["mean"], 2)
        self.assertEqual(summary["data"]["min"], 0.75)
        self.assertEqual(summary["data"]["sum"], 25.5)
        self.assertEqual(summary["total"]["share"], 1)
        self.assertAlmostEqual(summary["other"]["share"], 90 / 175.5, places=6)
        self.assertIn("18000.000", said)
        self.assertIn("forward 11.4 %, backward 22.8 %, the optimizer and all else 51.3 %", said)
        self.assertIn("One core does all the work", said)
        self.assertIn("89 % of all else is [LightningModule]Model.optimizer_step, 8000000.0 us a call", said)

    def test_a_model_that_calls_backward_itself(self):
        self.run_main(stoker.timing, "slow:Manual", "--data", "slow:Data", "--data-args", '{"size": 16}', "--epochs", "1",
                      "--warmup-steps", "1", "--save-dir", "out")
        row = self.rows(self.folder / "out")[0]
        self.assertEqual([float(row[f"{part}_s"]) for part in ("data", "forward", "backward", "other", "total")],
                         [6, 13, 8, 1, 28])

    def test_of_a_file_into_a_folder_of_the_time(self):
        (self.folder / "other").mkdir()
        (self.folder / "other/model.py").write_text('from beside import Both\n\nwith open("runs", "a") as file:\n    file.write("1")\n\n'
                                                    'class Mine(Both):\n    pass\n')
        (self.folder / "other/beside.py").write_text("from slow import Both\n")
        for name in "model", "beside":
            self.addCleanup(sys.modules.pop, name, None)
        self.run_main(stoker.timing, "other/model.py:Mine", "--data", "slow.py:Data", "--epochs", "2", "--save-dir", "out")
        self.assertEqual(len(self.rows(self.folder / "out")), 14)
        self.assertEqual(pickle.loads(pickle.dumps(named("other/model.py:Mine"))).__module__, "model")
        self.assertEqual((self.folder / "runs").read_text(), "1")
        self.run_main(stoker.timing, f"{self.folder}/slow.py:Both", "--steps", "3", "--warmup-steps", "0", "--precision",
                      "bf16-mixed", "--model-args", '{"width": 5}')
        self.assertEqual(len(self.rows(self.folder / "results/benchmark/20260102_030405")), 3)

    def test_of_a_configuration(self):
        config = {"model": {"class_path": "slow.Model", "init_args": {"width": 2}}, "data": {"class_path": "slow.Data"}}
        (self.folder / "run.yaml").write_text(yaml.safe_dump(config))
        self.run_main(stoker.timing, "-c", "run.yaml", "--save-dir", "out", "--epochs", "2")
        self.assertEqual(len(self.rows(self.folder / "out")), 14)
        self.assertEqual(yaml.safe_load((self.folder / "out/benchmark_config.yaml").read_text()), config)

    def test_what_cannot_be_timed(self):
        (self.folder / "bad.yaml").write_text("model: {init_args: {}}")
        (self.folder / "contextlib.py").write_text("")
        for arguments, words in ((["slow:Both", "--epochs", "1"], "only 7 batches are trained, and the first 10 are left out"),
                                 (["slow:Both", "--steps", "3"], "only 3 batches are trained"),
                                 (["slow"], "'slow' is no MODULE:NAME"),
                                 (["slow:Modell"], "slow has no 'Modell': did you mean 'Model'?"),
                                 (["slo:Model"], "there is no module 'slo'"),
                                 (["contextlib.py:Model"], "cannot be imported beside another module contextlib"),
                                 (["slow:Model", "--model-args", "[1]"], "[1] is no object of keywords"),
                                 (["slow:Model", "--model-args", "{"], "{ is no JSON"),
                                 (["-c", "none.yaml"], "there is no file none.yaml"),
                                 (["-c", "bad.yaml"], "the configuration has no model.class_path"),
                                 ([], "give MODULE:CLASS or --config")):
            for module in stoker.timing, stoker.profile:
                said = self.refused(module, *arguments)
                self.assertIn(words, said)
                self.assertNotIn("Traceback", said)
        self.assertEqual(Clock.now, 0)  # before the training


class Profile(Case):
    def test_files_as_lightning_leaves_them(self):
        said = self.run_main(stoker.profile, "slow:Both", "--epochs", "2")
        logs = self.folder / "output/profiler/Both/profiler_logs"
        simple = (logs / "fit-simple_profiler_output.txt").read_text()
        self.assertTrue(simple.startswith("FIT Profiler Report"))
        self.assertIn("[_TrainingEpochLoop].train_dataloader_next", simple)
        advanced = (logs / "fit-advanced_profiler_output.txt").read_text()
        self.assertIn("(training_step)", advanced)
        self.assertIn("Linear: layer", (logs / "fit-pytorch_profiler_output.txt").read_text())
        self.assertNotIn("BatchTimer", advanced)
        trace, = logs.glob("fit-pytorch_profiler_output*.pt.trace.json")
        self.assertIn("traceEvents", json.loads(trace.read_text()))
        self.assertTrue((logs.parent / "timing_results.csv").exists())
        self.assertIn("A batch takes", said)
        self.assertIn(f"  profiler_logs/{trace.name}", said)

    def test_some_of_them_under_another_name(self):
        self.run_main(stoker.profile, "slow:Both", "--epochs", "2", "--profilers", "advanced", "--name", "mine", "--output-dir", "p")
        self.assertEqual(os.listdir("p/mine/profiler_logs"), ["fit-advanced_profiler_output.txt"])
        self.assertIn("(training_step)", Path("p/mine/profiler_logs/fit-advanced_profiler_output.txt").read_text())
        self.assertIn("'complex': give some of simple, advanced, pytorch",
                      self.refused(stoker.profile, "slow:Both", "--profilers", "simple,complex"))


class Command(Case):
    def test_as_a_program(self):
        done = subprocess.run([sys.executable, "-m", "stoker.timing", "slow:Both", "--device", "cpu", "--save-dir", "out"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("A batch takes", done.stdout)
        self.assertEqual(sorted(os.listdir("out")), ["timing_results.csv", "timing_summary.yaml"])


if __name__ == "__main__":
    unittest.main()
