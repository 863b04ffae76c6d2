# SPDX-License-Identifier: Apache-2.0
"""The logger mlflow and MLflow's own server, read by MLflow's own client."""
import json
import math
import os
import sys
import tempfile
import unittest
from pathlib import Path

from support import run

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cloud"))
import servers  # noqa: E402

CONFIG = """\
data: {dataset: "digits:?size=640", val_split: 64, test: "digits:?split=test&size=64"}
loader: {batch_size: 64, transforms: normalize(mnist)}
model: {layers: ["flatten, linear(16), relu", linear(10)]}
trainer: {max_epochs: 2, log_every_n_steps: 1, seed_everything: 1}
"""


def logged(run_folder):
    """{(name, step): values} of a journal, in its order."""
    found = {}
    for line in (run_folder / "mlflow.jsonl").read_text().splitlines():
        record = json.loads(line)
        for name, value in record.get("metrics", ()):
            found.setdefault((name, record["step"]), []).append((int(record["time"] * 1e3), value))
    return found


class MLflow(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            cls.server = cls.enterClassContext(servers.mlflow())
        except servers.Missing as missing:
            raise unittest.SkipTest(str(missing)) from None
        from mlflow import MlflowClient
        cls.client = MlflowClient(cls.server.endpoint)

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.config = self.folder / "train.yaml"
        self.config.write_text(CONFIG)
        self.run_folder = self.folder / "lightning_logs/version_0"

    def train(self, options):
        run("train", self.config, "-q", "--default-root-dir", self.folder, "--loggers", f"mlflow({options})")

    def only_run(self, experiment):
        found = self.client.get_experiment_by_name(experiment)
        [only] = self.client.search_runs([found.experiment_id])
        return only

    def check_metrics(self, only):
        """Each value of the journal is there, once."""
        wanted = logged(self.run_folder)
        self.assertGreater(len(wanted), 30)
        for name in {name for name, _ in wanted}:
            there = [(m.step, m.timestamp, m.value) for m in self.client.get_metric_history(only.info.run_id, name)]
            self.assertEqual(len(there), len(set(there)), name)
            self.assertEqual(set(there), {(step, time, value) for (of, step), values in wanted.items() if of == name
                                          for time, value in values})

    def artifacts(self, only, path=None):
        for info in self.client.list_artifacts(only.info.run_id, path):
            if info.is_dir:
                yield from self.artifacts(only, info.path)
            else:
                yield info.path

    def test_beside_a_training(self):
        self.train(f"tracking_uri={self.server.endpoint}, experiment_name=digits of mine, run_name=first, tags='team=a', "
                   "log_model=true, timeout=60s")
        only = self.only_run("digits of mine")
        self.assertEqual((only.info.status, only.info.run_name, only.data.tags["team"]), ("FINISHED", "first", "a"))
        self.assertEqual(only.data.params["loader.batch_size"], "64")
        self.check_metrics(only)
        names = set(self.artifacts(only))
        saved = {f"checkpoints/{path.name}" for path in (self.run_folder / "checkpoints").iterdir()}
        self.assertEqual(names, saved)
        [name] = saved
        got = self.client.download_artifacts(only.info.run_id, name, str(self.folder))
        self.assertEqual(Path(got).read_bytes(), (self.run_folder / name).read_bytes())

    def test_later_and_twice(self):
        [port] = servers.free_ports(1)
        self.train(f"tracking_uri=http://127.0.0.1:{port}, experiment_name=later")  # nobody listens there
        (self.run_folder / "report.html").write_text("<html></html>")
        sync = "report", "--sync", "mlflow", "--tracking-uri", self.server.endpoint, self.run_folder
        said = run(*sync)
        self.assertIn("#/experiments/", said)
        self.check_metrics(self.only_run("later"))
        (self.run_folder / "mlflow.sent").unlink()  # so that all is sent once more
        run(*sync)
        only = self.only_run("later")
        self.check_metrics(only)
        self.assertIn("report.html", set(self.artifacts(only)))

    def test_what_json_has_no_number_for(self):
        self.run_folder.mkdir(parents=True)
        lines = [{"journal": 1, "id": "0123456789abcdef0123456789abcdef", "time": 1.0, "options": {"experiment_name": "odd"}},
                 {"metrics": [["nan", math.nan], ["up", math.inf], ["down", -math.inf], ["big", 1e300]], "step": 1, "time": 2.0},
                 {"params": [["long", "x" * 10000], ["a name, with\tmore", "\u00e4"], ["empty", ""]]},
                 {"metrics": [[f"m{i}", i] for i in range(500)], "step": 2, "time": 3.0},
                 {"metrics": [[f"m{i}", i] for i in range(500)], "step": 3, "time": 3.0}]
        (self.run_folder / "mlflow.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        os.environ["MLFLOW_TRACKING_URI"] = self.server.endpoint
        self.addCleanup(os.environ.pop, "MLFLOW_TRACKING_URI")
        self.assertIn("sent 1004 metrics", run("report", "--sync", "mlflow", self.run_folder))
        only = self.only_run("odd")
        self.assertTrue(math.isnan(only.data.metrics["nan"]))
        self.assertEqual(only.data.metrics["big"], 1e300)
        self.assertGreater(only.data.metrics["up"], 1e300)
        self.assertEqual(len(only.data.params["long"]), 6000)
        self.assertEqual((only.data.params["a name_ with_more"], only.data.params["empty"]), ("\u00e4", ""))
        self.assertEqual(only.data.metrics["m499"], 499)


if __name__ == "__main__":
    unittest.main()
