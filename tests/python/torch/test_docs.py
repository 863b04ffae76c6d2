# SPDX-License-Identifier: Apache-2.0
"""The code of docs/python.md runs as it stands, from top to bottom, on data of the names that it has."""
import logging
import os
import re
import tempfile
import types
import unittest
import warnings
from pathlib import Path

import numpy
import torch
import xarray
from lightning.pytorch import LightningModule, Trainer
from PIL import Image

import stoker

PAGE = Path(__file__).resolve().parents[3] / "docs/python.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

warnings.filterwarnings("ignore", module="lightning|zarr|distributed")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
torch.set_num_threads(1)


class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))

    def training_step(self, batch, batch_idx):
        return torch.nn.functional.cross_entropy(self.net(batch["image"]), batch["label"].long())

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.training_step(batch, batch_idx))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def write_data():
    """What the page speaks of, small."""
    for split in ("train", "test"):
        stoker.convert(f"digits:?size=512&split={split}", "data/mnist")
    draws = numpy.random.default_rng(1)
    for place in range(8):
        os.makedirs(f"photos/{place % 2}", exist_ok=True)
        Image.fromarray(draws.integers(0, 256, (30, 40, 3), "u1")).save(f"photos/{place % 2}/{place}.png")
    axes = ("time", "latitude", "longitude")
    coords = {"time": numpy.datetime64("2010-01-01", "ns") + numpy.arange(704) * numpy.timedelta64(1, "D"),
              "latitude": numpy.arange(72, 27.5, -0.5), "longitude": numpy.arange(64.0)}
    values = draws.random([len(coords[axis]) for axis in axes], "f4")
    xarray.Dataset({name: (axes, values) for name in ("t2m", "u10")}, coords).to_zarr(
        "era5.zarr", encoding={name: {"chunks": (64, 30, 64)} for name in ("t2m", "u10")})
    Path("logs.csv").write_text("text,score\n" + "".join(f"line {row},{row / 2}\n" for row in range(9)))
    stoker.convert("csv:logs.csv", "parquet:logs")


class Docs(unittest.TestCase):
    def setUp(self):
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.enterContext(tempfile.TemporaryDirectory()))

    def test_blocks(self):
        write_data()
        numbers = numpy.arange(16)
        names = {}
        # In place of pyarrow, where only the interface counts.
        arrow = types.SimpleNamespace(record_batch=lambda batch: batch.__arrow_c_array__())
        given = {"stoker": stoker, "pyarrow": arrow,
                 "dataset": range(16), "labels": numbers, "pictures": numpy.zeros((16, 32, 32, 3), "u1"),
                 "model": Model(), "trainer": Trainer(accelerator="cpu", max_epochs=1, logger=False, enable_checkpointing=False,
                                                      enable_progress_bar=False, enable_model_summary=False)}
        text = PAGE.read_text()
        blocks = list(BLOCK.finditer(text))
        self.assertEqual(len(blocks), text.count("```python"))
        self.assertGreater(len(blocks), 8)
        for block in blocks:
            names.update(given)
            line = text.count("\n", 0, block.start(1))
            exec(compile("\n" * line + block[1], str(PAGE), "exec"), names)
        self.assertEqual(names["images"].dtype, numpy.float32)
        self.assertEqual(len(names["found"].settings), 3)
        self.assertEqual(names["batch"]["t2m"].shape[1:], (4, 64, 64))
        self.assertEqual(names["windows"].reasons, {})
        self.assertEqual(names["trainer"].global_step, 8)
        self.assertEqual(len(names["rows"]), 2)
        self.assertEqual([len(os.listdir(f"small/{name}")) for name in "01"], [4, 4])


if __name__ == "__main__":
    unittest.main()
