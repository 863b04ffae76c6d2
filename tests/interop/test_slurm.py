# SPDX-License-Identifier: Apache-2.0
"""Stoker as tasks of a real Slurm of one node: ranks, a job that is queued again, the launcher; and that the stubs of
tests/cli/slurm.test say what it says."""
import json
import os
import re
import sys
import unittest
from pathlib import Path

import slurm

ROOT = Path(__file__).resolve().parents[2]
COMMAND = os.environ.get("STOKER_COMMAND", "stoker")
STEPS, BATCH = 10, 12

CONFIG = """\
data: {{dataset: 'digits:?size=640'}}
loader: {{batch_size: 32, num_workers: 0, transforms: to_float}}
model: {{layers: [flatten, linear(10)]}}
trainer: {{max_epochs: {epochs}, limit_val_batches: 0, limit_test_batches: 0, seed_everything: 1}}
"""

READER = """\
import json, sys, stoker
with stoker.Loader("digits:?size=%d", global_batch_size=%d, shuffle=True, seed=3, num_workers=0) as loader:
    print(json.dumps([batch["index"].tolist() for batch in loader]), file=open(f"part.{sys.argv[1]}", "w"))
""" % (STEPS * BATCH, BATCH)


class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            cls.slurm = cls.enterClassContext(slurm.one_node())
        except slurm.Missing as missing:
            raise unittest.SkipTest(str(missing)) from None
        bin_folder = cls.slurm.folder / "bin"
        bin_folder.mkdir()
        (bin_folder / "stoker").symlink_to(COMMAND)
        cls.slurm.environment["PATH"] = f"{bin_folder}:{cls.slurm.environment['PATH']}"

    def setUp(self):
        self.folder = self.slurm.folder / self._testMethodName
        self.folder.mkdir()

    def submit(self, *words):
        """The number of a job, whose output goes to out.txt."""
        answer = self.slurm.check("sbatch", "--parsable", "-o", self.folder / "out.txt", "--open-mode=append", *words, cwd=self.folder)
        return int(answer.split(";")[0])

    def said(self):
        path = self.folder / "out.txt"
        return path.read_text() if path.exists() else ""

    def ends(self, job, state):
        ended = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
        slurm.wait_for(f"the end of job {job}", lambda: self.slurm.job(job)["JobState"] in ended,
                       lambda: f"{self.slurm.job(job)}\n{self.said()}")
        self.assertEqual(self.slurm.job(job)["JobState"], state, self.said())

    def test_tasks_are_ranks(self):
        done = self.slurm.run("srun", "-n", "3", "stoker", "bench", "digits:?size=640", "--num-epochs", "1", "--train-step-time", "0",
                              "--log", "none", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(re.findall(r"stoker: (rank.*)", done.stderr)),
                         [f"rank {r} of 3 (local {r} of 3, machine 0 of 1), by Slurm (SLURM_PROCID)" for r in range(3)])
        # The script of the job is none, though it has SLURM_PROCID.
        (self.folder / "job.sh").write_text("#!/bin/sh\nexec stoker bench 'digits:?size=640' --num-epochs 1 --train-step-time 0 --log none\n")
        self.ends(self.submit("-n", "2", "job.sh"), "COMPLETED")
        self.assertIn("this is the script of a Slurm job of 2 tasks, and none of them", self.said())

    def test_loaders_of_python(self):
        self.slurm.check("srun", "-n", "3", "sh", "-c", f"exec {sys.executable} -c '{READER}' $SLURM_PROCID", cwd=self.folder)
        parts = [json.loads((self.folder / f"part.{r}").read_text()) for r in range(3)]
        import stoker

        with stoker.Loader(f"digits:?size={STEPS * BATCH}", global_batch_size=BATCH, shuffle=True, seed=3, rank=0, world_size=1) as loader:
            for step, batch in enumerate(loader):
                whole = [None] * BATCH
                for r in range(3):
                    whole[r::3] = parts[r][step]
                self.assertEqual(whole, batch["index"].tolist())

    def test_a_job_is_queued_again(self):
        """SIGUSR1, which Slurm sends before a job's time is over: the training saves, is queued again, and goes on."""
        config = self.folder / "config.yaml"
        config.write_text(CONFIG.format(epochs=1000000))
        job = self.submit("--nodes=1", "--ntasks-per-node=1", "--cpus-per-task=1", "--time=10", ROOT / "examples/launch/train.slurm", config)
        slurm.wait_for("its first epochs", lambda: "Epoch 2" in self.said())
        self.slurm.check("scancel", "--signal=USR1", job)
        slurm.wait_for("its queueing", lambda: f"job {job} was put in the queue again" in self.said())
        config.write_text(CONFIG.format(epochs=2 + int(re.search(r"Stopped at epoch (\d+)", self.said())[1])))
        # It would wait two minutes, for what it was allowed to do before to run out.
        slurm.wait_for("its place in the queue", lambda: self.slurm.job(job)["JobState"] == "PENDING")
        self.slurm.check("scontrol", "update", f"jobid={job}", "starttime=now")
        self.ends(job, "COMPLETED")
        self.assertEqual(self.slurm.job(job)["Restarts"], "1")
        self.assertIn("Restoring states from the checkpoint path at ", self.said())
        self.assertTrue(list((self.folder / f"runs/{job}").rglob("interrupted.safetensors")))

    def test_the_launcher_in_a_job(self):
        """A task is killed: srun ends, the launcher has all begun again."""
        (self.folder / "rank.sh").write_text("#!/bin/sh\necho rank $SLURM_PROCID attempt $TORCHELASTIC_RESTART_COUNT\n"
                                             "[ $SLURM_PROCID$TORCHELASTIC_RESTART_COUNT != 10 ] || kill -KILL $$\nsleep 1\n")
        (self.folder / "job.sh").write_text("#!/bin/sh\nexec stoker launch -n 2 --max-restarts 1 -- sh rank.sh\n")
        self.ends(self.submit("-n", "2", "job.sh"), "COMPLETED")
        for words in ("launch: 2 ranks by srun", "launch: restart 1 of 1, 2 ranks", "1: rank 1 attempt 1"):
            self.assertIn(words, self.said())
        # Of the task that was killed, or of what Slurm has done to the other.
        self.assertRegex(self.said(), "srun ended with exit code 1(37|43)")

    def test_the_stubs_say_what_it_says(self):
        """srun gives each task what that of tests/cli/slurm.test gives; scontrol answers as that one does."""
        text = self.slurm.check("srun", "-n", "2", "env")
        stub = (ROOT / "tests/cli/slurm.test").read_text()
        names = set(re.findall(r"\b(SLURM_[A-Z_]+)=", stub.split("> stub/srun", 1)[0]))
        self.assertGreaterEqual(names, {"SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_TASKS_PER_NODE"})
        for name in names:
            self.assertEqual(len(re.findall(rf"^{name}=", text, re.M)), 2, name)
        self.assertEqual(set(re.findall(r"^SLURM_STEP_TASKS_PER_NODE=(.*)", text, re.M)), {"2"})
        for job in ("999999", "999999_7"):
            done = self.slurm.run("scontrol", "requeue", job)
            self.assertEqual(done.returncode, 1)
            self.assertIn("Invalid job id", done.stderr)
        (self.folder / "job.sh").write_text("#!/bin/sh\nexec sleep 100\n")
        job = self.submit("--requeue", "--array=7", "job.sh")
        slurm.wait_for("its start", lambda: self.slurm.job(f"{job}_7")["JobState"] == "RUNNING")
        done = self.slurm.run("scontrol", "requeue", f"{job}_7")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.slurm.check("scancel", job)


if __name__ == "__main__":
    unittest.main()
