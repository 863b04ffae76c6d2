# SPDX-License-Identifier: Apache-2.0
"""stoker report --sync wandb: the journal of a run, by a client that writes down what it is called with."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from stoker.__main__ import command

# As far as a run of the client is used.
STUB = '''
import json, os
def note(*what):
    with open(os.environ["NOTES"], "a") as file:
        file.write(json.dumps(what) + "\\n")
class Config:
    def update(self, values, allow_val_change=False):
        note("config", values)
class Artifact:
    def __init__(self, name, type):
        self.files = []
    def add_file(self, path, name):
        self.files.append([name, open(path).read()])
class Run:
    url = "https://wandb.test/run"
    config = Config()
    def __init__(self, id):
        self.id = id
    def log(self, values):
        note("log", values)
        if os.environ.get("FAIL") and values.get("loss") == 0.25:
            raise RuntimeError("no network")
    def log_artifact(self, artifact):
        note("artifact", artifact.files)
    def finish(self, exit_code):
        note("finish", exit_code)
def init(**options):
    options.pop("dir")
    note("init", options)
    return Run(options["id"])
'''

ID = "0123456789abcdef0123456789abcdef"
LINES = [
    {"journal": 1, "id": ID, "time": 1.0, "options": {"project": "digits", "run_name": "first"}},
    {"tags": [["team", "a"]]},
    {"params": [["lr", "0.5"]]},
    {"metrics": [["loss", 0.5], ["acc", 0.125]], "step": 3, "time": 2.0},
    {"file": "checkpoints/last.ckpt"},
    {"file": "../outside"},
    {"file": "gone"},
    {"metrics": [["loss", 0.25]], "step": 4, "time": 3.0},
    {"end": "FINISHED", "time": 4.0},
]


class Wandb(unittest.TestCase):
    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.run, self.notes, self.modules = Path(folder, "run"), Path(folder, "notes"), Path(folder, "modules")
        (self.run / "checkpoints").mkdir(parents=True)
        self.modules.mkdir()
        (self.run / "checkpoints/last.ckpt").write_text("weights")
        (Path(folder) / "outside").write_text("not of the run")
        (self.run / "report.html").write_text("page")
        (self.modules / "wandb.py").write_text(STUB)
        self.journal = self.run / "wandb.jsonl"
        self.journal.write_text("".join(json.dumps(line) + "\n" for line in LINES) + '{"torn')

    def sync(self, *arguments, code=0, **environment):
        path = os.pathsep.join([str(self.modules), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run([command(), "report", "--sync", "wandb", "--python", sys.executable, *arguments, self.run], text=True,
                              capture_output=True, env=os.environ | {"PYTHONPATH": path, "NOTES": str(self.notes)} | environment)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout + done.stderr

    def noted(self):
        notes = [json.loads(line) for line in self.notes.read_text().splitlines()] if self.notes.exists() else []
        self.notes.unlink(missing_ok=True)
        return notes

    def test_all_of_it_once(self):
        self.assertIn("sent 3 metrics, 2 files: https://wandb.test/run", self.sync("--entity", "us"))
        first = {"loss": 0.5, "acc": 0.125, "trainer/global_step": 3, "_timestamp": 2.0}
        second = {"loss": 0.25, "trainer/global_step": 4, "_timestamp": 3.0}
        self.assertEqual(self.noted(), [
            ["init", {"project": "digits", "entity": "us", "group": None, "name": "first", "id": ID, "resume": "allow"}],
            ["config", {"tags/team": "a"}], ["config", {"lr": "0.5"}], ["log", first],
            ["artifact", [["last.ckpt", "weights"]]], ["log", second],
            ["artifact", [["report.html", "page"]]], ["finish", 0]])
        # The torn line stays, until its end is there.
        with open(self.journal, "a") as file:
            file.write('"}\n' + json.dumps({"metrics": [["loss", 0.0625]], "step": 5, "time": 5.0}) + "\n")
        (self.run / "report.html").unlink()
        self.assertIn("sent 1 metrics, 0 files", self.sync())
        self.assertEqual([note[0] for note in self.noted()], ["init", "log", "finish"])
        self.assertIn("nothing is left to send", self.sync())
        self.assertEqual(self.noted(), [])

    def test_what_failed_goes_again(self):
        self.assertIn("no network", self.sync(code=1, FAIL="1"))
        self.noted()
        self.assertFalse((self.run / "wandb.sent").exists())
        self.sync()
        self.assertEqual([note[0] for note in self.noted()].count("log"), 2)

    def test_a_journal_of_mlflow(self):
        self.journal.rename(self.run / "mlflow.jsonl")
        self.assertIn("sent 3 metrics", self.sync("--project", "other"))
        self.assertEqual(self.noted()[0][1]["project"], "other")

    def test_refused(self):
        self.journal.write_text('{"journal": 2}\n')
        self.assertIn("is no journal of a run", self.sync(code=1))
        self.journal.unlink()
        self.assertIn("has no journal: name the folder of a run", self.sync(code=1))
        (self.modules / "wandb.py").write_text("raise ImportError('none')")
        self.assertIn("the client of Weights & Biases is not installed", self.sync(code=1))
        (self.modules / "stoker.py").write_text("")
        self.assertIn("cannot import stoker", self.sync(code=1))


if __name__ == "__main__":
    unittest.main()
