# SPDX-License-Identifier: Apache-2.0
"""StallMonitor: the time of a training, divided by a clock that the test sets, and what limits it."""
import csv
import logging
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from lightning.pytorch import Callback, Trainer
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader

import stoker
from lightning_support import TRAIN, VAL, Model, Places, Sized, spec, train
from stoker.lightning import StallMonitor, StokerDataModule
from stoker.lightning._actions import Listening


class Clock:
    """Time that passes where it is told to."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now

    process_time = perf_counter


class Stall(unittest.TestCase):
    """The ledger of a training whose parts take so many seconds."""

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.clock = self.enterContext(mock.patch("stoker.lightning._stall.time", Clock()))

    def run_with(self, monitor, train, batches=1000, **options):
        clock = self.clock

        class Timed(Model):
            def training_step(self, batch, batch_idx):
                clock.now += 2
                return super().training_step(batch, batch_idx)

            def validation_step(self, batch, batch_idx):
                clock.now += 10
                return super().validation_step(batch, batch_idx)

            def on_after_batch_transfer(self, batch, dataloader_idx):
                clock.now += 0.5 * self.trainer.training
                return batch

            def on_save_checkpoint(self, checkpoint):
                clock.now += 7

        class Slow(Callback):
            def on_train_batch_start(self, trainer, model, batch, batch_idx):
                clock.now += 0.25

            def on_validation_start(self, trainer, model):
                clock.now += 1

            def on_validation_end(self, trainer, model):
                trainer.save_checkpoint(f"{self.folder}/one.ckpt")

        Slow.folder = self.folder
        logger = CSVLogger(self.folder, name=None, version="run")
        trainer = Trainer(accelerator="cpu", logger=logger, enable_checkpointing=False, enable_progress_bar=False,
                          enable_model_summary=False, default_root_dir=self.folder, callbacks=[monitor, Slow()],
                          **{"max_epochs": 1, "log_every_n_steps": 5} | options)
        trainer.fit(Timed(), datamodule=StokerDataModule(train=train, val={"dataset": VAL, "batch_size": 40}, batch_size=16))
        with open(f"{self.folder}/run/metrics.csv") as file:
            self.rows = [row for row in csv.DictReader(file) if row["stall/step"]]
        self.hparams = Path(f"{self.folder}/run/hparams.yaml").read_text()
        return trainer

    def slow_loader(self):
        clock = self.clock

        class Late(Places):
            def __getitem__(self, place):
                clock.now += 3 / 16
                return super().__getitem__(place)

        return DataLoader(Late(), batch_size=16, drop_last=True)  # 7 batches

    def test_the_parts_of_a_training(self):
        monitor = StallMonitor()
        trainer = self.run_with(monitor, self.slow_loader(), max_epochs=2)
        self.assertEqual(monitor.seconds, {"step": 28, "data_wait": 42, "transfer": 7, "validation": 22, "callbacks": 3.5,
                                           "checkpoint": 14, "other": 0})
        self.assertEqual([row["step"] for row in self.rows], ["4", "9"])
        names = ("step", "data_wait", "transfer", "callbacks", "validation")
        first, second = ([float(row[f"stall/{name}"]) for name in names] for row in self.rows)
        for found, expected in zip(first, (10, 15, 2.5, 1.25, 0)):
            self.assertAlmostEqual(found, expected / 28.75)
        for found, expected in zip(second, (10, 15, 2.5, 1.25, 11)):
            self.assertAlmostEqual(found, expected / (28.75 + 18))
        self.assertAlmostEqual(float(self.rows[1]["stall/wait_ms"]), 3000)
        self.assertAlmostEqual(float(self.rows[0]["stall/samples_per_s"]), 5 * 16 / 28.75)
        self.assertNotIsInstance(trainer.profiler, Listening)

    def test_the_verdict_on_any_loader(self):
        monitor = StallMonitor()
        with self.assertLogs("lightning.pytorch", "INFO") as said:
            logging.getLogger("lightning.pytorch").setLevel(logging.INFO)
            self.run_with(monitor, self.slow_loader())
        self.assertEqual(monitor.verdict.limit, "one core")
        self.assertIn("waits 36.1 % of the time", monitor.verdict.text)  # 21 seconds of 58.25
        self.assertIn("stall/limit: one core", self.hparams)
        self.assertTrue(any(monitor.summary() in line for line in said.output))
        self.assertIn("waiting for data 36.1 %, transfer", monitor.summary())
        self.assertIn(monitor.verdict.text, monitor.summary())

    def test_of_one_that_does_not_say_what_it_does(self):
        clock = self.clock

        class Late(Sized):
            num_workers = 2

            def __iter__(self):
                for batch in super().__iter__():
                    clock.now += 3
                    yield batch

        monitor = StallMonitor()
        self.run_with(monitor, Late())
        self.assertEqual(monitor.verdict.limit, "data")
        self.assertIn("waits 37.5 % of the time for Late (num_workers 2)", monitor.verdict.text)  # 24 seconds of 64

    def test_what_a_loader_of_ours_says_of_its_waits(self):
        monitor = StallMonitor(every_n_steps=4)
        self.run_with(monitor, TRAIN)
        self.assertEqual([row["step"] for row in self.rows], ["3", "7", "11"])
        self.assertEqual({name for name in self.rows[0] if name.startswith("stall/wait/")},
                         {f"stall/wait/{cause}" for cause in stoker.Loader("digits:").stats().waits_s})
        self.assertEqual(monitor.verdict.steps, 13)
        self.assertEqual(monitor.verdict.step_time, 2)

    def test_steps_of_several_batches_are_logged_once(self):
        self.run_with(StallMonitor(every_n_steps=2), TRAIN, accumulate_grad_batches=3)
        self.assertEqual([row["step"] for row in self.rows], ["1", "3"])

    def test_without_a_logger_and_with_a_failure(self):
        class Bad(Exception):
            pass

        class Fail(Callback):
            def on_train_batch_end(self, *_):
                raise Bad

        monitor = StallMonitor()
        train(spec()(), self.folder, callbacks=[monitor], max_epochs=1)
        self.assertEqual(monitor.verdict.steps, 13)
        with self.assertRaises(Bad):
            train(spec()(), self.folder, callbacks=[monitor, Fail()], max_epochs=1)
        train(spec()(), self.folder, callbacks=[monitor], max_epochs=1)


if __name__ == "__main__":
    unittest.main()
