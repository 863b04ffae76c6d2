# SPDX-License-Identifier: Apache-2.0
"""The scripts of examples/python run, in their short form, and say what they promise."""
import multiprocessing
import os
import re
import runpy
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before they are imported, once for all of the scripts
import lightning.pytorch
import torch
import torchvision

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "python"


def script(path, arguments, folder, said):
    """In a process of its own: the script as Python runs it."""
    os.chdir(folder)
    for fd in 1, 2:
        os.dup2(said.fileno(), fd)
    sys.argv = [path, *arguments]
    sys.path[0] = os.path.dirname(path)
    warnings.simplefilter("ignore")
    runpy.run_path(path, run_name="__main__")


class Examples(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def run_one(self, name, *arguments):
        """What it prints."""
        with tempfile.TemporaryFile("w+") as said:
            process = multiprocessing.get_context("fork").Process(
                target=script, args=(str(EXAMPLES / name), ["--quick", *arguments], self.folder, said))
            process.start()
            process.join()
            said.seek(0)
            text = said.read()
        self.assertEqual(process.exitcode, 0, text)
        return text

    def figures(self, text, name):
        return [float(value) for value in re.findall(rf"{name} (-?[0-9.]+)", text)]

    def test_mnist_is_the_same_with_one_import_changed(self):
        found = [self.run_one("mnist.py", "--loader", loader) for loader in ("torch", "stoker")]
        losses, accuracies = ([self.figures(text, name) for text in found] for name in ("loss", "accuracy"))
        self.assertEqual(len(losses[0]), 1)
        self.assertEqual(losses[0], losses[1])
        self.assertEqual(accuracies[0], accuracies[1])
        self.assertGreater(accuracies[0][0], 0.4)

    def test_pictures_are_read_in_c(self):
        text = self.run_one("imagefolder_resnet.py")
        self.assertIn("random_resized_crop(size=[64, 64]", text)
        self.assertEqual(len(self.figures(text, "loss")), 1)

    def test_tokens_are_learnt(self):
        losses = self.figures(self.run_one("tokens.py"), "loss")
        self.assertEqual(len(losses), 5)
        self.assertLess(losses[-1], losses[0] - 1)

    def test_any_number_of_workers_is_the_same(self):
        found = [self.figures(self.run_one("python_dataset.py", "--workers", str(workers)), "loss") for workers in (0, 2)]
        self.assertEqual(len(found[0]), 2)
        self.assertEqual(found[0], found[1])

    def test_forecasts_become_better_than_no_change(self):
        text = self.run_one("climate_windows.py")
        errors, same = self.figures(text, "error"), self.figures(text, "of no change")
        self.assertIn("windows of t2m, u10 are read natively", text)
        self.assertEqual(len(errors), 3)
        self.assertLess(errors[-1], same[-1] / 2)

    def test_lightning_goes_on(self):
        whole = self.run_one("lightning_mnist.py")
        rest = self.run_one("lightning_mnist.py", "--resume", "runs/lightning_logs/version_0/checkpoints/last.ckpt")
        self.assertIn("Restoring states", rest)
        for name in ("val_acc", "sum of weights"):
            self.assertEqual(self.figures(whole, name)[-1], self.figures(rest, name)[-1])
        self.assertIn("waiting for data", whole)


if __name__ == "__main__":
    unittest.main()
