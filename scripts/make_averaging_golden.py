#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/golden/train/averaging: a small data set, the weights a training begins with, and what Lightning's means come to.

usage: make_averaging_golden.py FOLDER

Each case is three epochs of SGD in double precision over the same 24 samples in their order, 4 a batch, then a validation
over the same samples with what is left. Options are texts, as `key=value`; the network has running statistics.
"""
import json
import logging
import pathlib
import sys
import warnings

import lightning.pytorch as pl
import numpy as np
import torch
from lightning.pytorch.callbacks import EMAWeightAveraging, WeightAveraging
from safetensors.numpy import save_file
from torch import nn

SAMPLES, BATCH, EPOCHS, LR = 24, 4, 3, 0.05
CALLBACKS = {"ema": EMAWeightAveraging, "weight_averaging": WeightAveraging}
CASES = [("weight_averaging", {}, 1),
         ("weight_averaging", {"use_buffers": False}, 1),
         ("ema", {"decay": 0.8}, 1),
         ("ema", {"decay": 0.8, "update_starting_at_epoch": 1}, 1),
         ("ema", {"decay": 0.8, "update_starting_at_epoch": 0, "update_every_n_steps": 2}, 2),
         ("ema", {"decay": 0.8, "update_every_n_steps": 2, "update_starting_at_step": 3}, 1),
         ("ema", {"decay": 0.8, "update_every_n_steps": 4, "use_buffers": False}, 1)]


class Module(pl.LightningModule):
    def __init__(self, weights):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 1)).double()
        self.net.load_state_dict({k: torch.from_numpy(v.astype(np.float64)) for k, v in weights.items()}, strict=False)

    def loss(self, batch):
        x, y = batch
        return nn.functional.mse_loss(self.net(x).squeeze(1), y)

    def training_step(self, batch, _):
        return self.loss(batch)

    def validation_step(self, batch, _):
        self.log("val_loss", self.loss(batch), on_epoch=True, batch_size=len(batch[0]))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=LR)


def text(options):
    return ", ".join(f"{k}={str(v).lower()}" for k, v in options.items())


def run(name, options, accumulate, data, weights):
    module = Module(weights)
    trainer = pl.Trainer(max_epochs=EPOCHS, callbacks=[CALLBACKS[name](**options)], logger=False, enable_checkpointing=False,
                         enable_progress_bar=False, enable_model_summary=False, accelerator="cpu", num_sanity_val_steps=0,
                         accumulate_grad_batches=accumulate)
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH)
    trainer.fit(module, loader, loader)
    # Of what is left: an update at the end of an epoch is made before its validation here.
    [left] = trainer.validate(module, loader, verbose=False)
    state = {k: v.flatten().tolist() for k, v in module.net.state_dict().items() if "num_batches" not in k}
    return {"callback": f"{name}({text(options)})", "accumulate": accumulate, "val_loss": left["val_loss"],
            "state": state}


def main(folder):
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    r = np.random.default_rng(11)
    x = r.normal(size=(SAMPLES, 2, 3, 3)).astype(np.float32)
    y = r.normal(size=SAMPLES).astype(np.float32)
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", y)
    weights = {"0.weight": r.normal(size=(3, 2, 2, 2)) / 3, "0.bias": r.normal(size=3) / 3, "1.weight": 1 + r.normal(size=3) / 5,
               "1.bias": r.normal(size=3) / 5, "1.running_mean": np.zeros(3), "1.running_var": np.ones(3),
               "4.weight": r.normal(size=(1, 12)) / 3, "4.bias": r.normal(size=1)}
    weights = {k: v.astype(np.float32) for k, v in weights.items()}
    save_file(weights, folder / "weights.safetensors")
    data = torch.utils.data.TensorDataset(torch.from_numpy(x.astype(np.float64)), torch.from_numpy(y.astype(np.float64)))
    cases = [run(name, options, accumulate, data, weights) for name, options, accumulate in CASES]
    (folder / "golden.json").write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
