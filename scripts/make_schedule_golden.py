#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/golden/train/schedules.json: the learning rate and momentum at each optimizer step, and after the last,
of trainings by PyTorch Lightning's Trainer over the schedules of torch.optim.lr_scheduler.

usage: make_schedule_golden.py FOLDER

A case is what differs from BATCHES batches an epoch and EPOCHS epochs of SGD(lr=0.3, momentum=0.9) in batches of two.
Schedules that span the training get the number of values that a schedule which only counts had in the same training.
Written with torch 2.15 and lightning 2.6.
"""
import json
import logging
import pathlib
import sys
import warnings

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import GradientAccumulationScheduler
from torch.optim import lr_scheduler as sched

BATCHES, EPOCHS = 7, 5
METRICS = [1.0, 0.9, 0.895, 0.894, 0.893, 0.892, 0.5, 0.6, 0.6, 0.45]  # then the last one


class Module(pl.LightningModule):
    def __init__(self, make, case):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.make, self.case = make, case
        self.lr, self.momentum, self.logged = [], [], 0

    def note(self):
        """The value that reduce_on_plateau looks at: one for each interval."""
        self.log("m", METRICS[min(self.logged, len(METRICS) - 1)])
        self.logged += 1

    def training_step(self, batch, batch_idx):
        return self.layer(batch[0]).sum()

    def on_train_batch_end(self, outputs, batch, batch_idx):
        if self.case["interval"] == "step":
            self.note()

    def on_train_epoch_end(self):
        if self.case["interval"] == "epoch":
            self.note()

    def on_before_optimizer_step(self, optimizer):
        self.lr.append(optimizer.param_groups[0]["lr"])
        self.momentum.append(optimizer.param_groups[0]["momentum"])

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.3, momentum=0.9)
        self.scheduler = self.make(optimizer)
        return {"optimizer": optimizer, "lr_scheduler": {
            "scheduler": self.scheduler, "interval": self.case["interval"], "frequency": self.case.get("frequency", 1),
            "monitor": "m", "reduce_on_plateau": isinstance(self.scheduler, sched.ReduceLROnPlateau)}}


def train(make, case):
    torch.manual_seed(0)
    module = Module(make, case)
    accumulate = case.get("accumulate", 1)
    callbacks = []
    if isinstance(accumulate, str):
        callbacks = [GradientAccumulationScheduler({int(e): int(n) for e, n in (p.split(":") for p in accumulate.split(","))})]
        accumulate = 1
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(2 * BATCHES, 1)), batch_size=2)
    trainer = pl.Trainer(max_epochs=case.get("max_epochs", EPOCHS), max_steps=case.get("max_steps", -1), accelerator="cpu",
                         accumulate_grad_batches=accumulate, callbacks=callbacks, logger=False, enable_checkpointing=False,
                         enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(module, data)
    return module, trainer.optimizers[0].param_groups[0]


def length(case):
    """The values that a schedule has in the training of a case."""
    calls = []
    module, _ = train(lambda o: sched.LambdaLR(o, lambda step: calls.append(step) or 1 + step), case)
    return round(module.lr[-1] / 0.3)


def schedule(name, warmup, total):
    """Options of ours, and the same of PyTorch, where `total` values are left behind the warm-up."""
    total = max(total - warmup, 1)
    return {
        "constant": ({}, lambda o: sched.LambdaLR(o, lambda step: 1.0)),
        "step": ({"step_size": 2, "gamma": 0.5}, lambda o: sched.StepLR(o, 2, 0.5)),
        "multi_step": ({"milestones": "1, 3, 11", "gamma": 0.3}, lambda o: sched.MultiStepLR(o, [1, 3, 11], 0.3)),
        "exponential": ({"gamma": 0.9}, lambda o: sched.ExponentialLR(o, 0.9)),
        "cosine": ({"eta_min": 0.01}, lambda o: sched.CosineAnnealingLR(o, total, 0.01)),
        "one_cycle": ({"max_lr": 0.5}, lambda o: sched.OneCycleLR(o, 0.5, total_steps=total)),
        "linear": ({"start_factor": 0.8, "end_factor": 0.2}, lambda o: sched.LinearLR(o, 0.8, 0.2, total)),
        "polynomial": ({"power": 1.5}, lambda o: sched.PolynomialLR(o, total, 1.5)),
        "reduce_on_plateau": ({"factor": 0.5, "patience": 0, "cooldown": 1, "threshold": 0.01, "min_lr": 0.02},
                              lambda o: sched.ReduceLROnPlateau(o, factor=0.5, patience=0, cooldown=1, min_lr=0.02,
                                                                threshold=0.01)),
    }[name]


def case_of(name, interval, more):
    warmup = more.get("warmup_steps", 0)
    case = {"name": name, "interval": interval, **{k: v for k, v in more.items() if k != "warmup_steps"}}
    own, make = schedule(name, warmup, length(case))
    case.update(own)

    def warmed(optimizer):
        first = sched.LinearLR(optimizer, 0.2, 1.0, warmup)
        return sched.SequentialLR(optimizer, [first, make(optimizer)], [warmup])

    if warmup:
        case.update(warmup_steps=warmup, warmup_start=0.2)
    module, group = train(warmed if warmup else make, case)
    return {**case, "lr": module.lr, "momentum": module.momentum, "last": group["lr"]}


def default_case(name, interval, make):
    """PyTorch's own factors and 5 steps, which end before the training does."""
    case = {"name": name, "interval": interval, "total_iters": 5}
    module, group = train(make, case)
    return {**case, "lr": module.lr, "momentum": module.momentum, "last": group["lr"]}


def cases():
    both = [{}, {"frequency": 2}, {"accumulate": 3}, {"accumulate": 3, "frequency": 2}, {"accumulate": "1:3,3:2"},
            {"max_steps": 17}, {"max_steps": 21, "max_epochs": -1, "frequency": 3},
            {"accumulate": "1:4,2:2", "max_steps": 12, "frequency": 2}]
    for name in ("constant", "step", "multi_step", "exponential", "cosine", "one_cycle", "linear", "polynomial",
                 "reduce_on_plateau"):
        for interval in ("epoch", "step"):
            for more in both:
                # A plateau has no warm-up in PyTorch's SequentialLR, a constant nothing without one.
                for warmup in (0,) if name == "reduce_on_plateau" else (2,) if name == "constant" else (0, 2):
                    yield case_of(name, interval, {**more, **({"warmup_steps": warmup} if warmup else {})})
    for interval in ("epoch", "step"):
        yield default_case("linear", interval, sched.LinearLR)
        yield default_case("polynomial", interval, sched.PolynomialLR)


def runs(values):
    """Values as value, count, value, count: most last a while."""
    out = []
    for value in values:
        value = float(f"{value:.13g}")
        if out and out[-2] == value:
            out[-1] += 1
        else:
            out += [value, 1]
    return out


def main(folder):
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    lines = []
    for case in cases():
        case.update({key: runs(case[key]) for key in ("lr", "momentum")})
        if case["name"] == "one_cycle":
            del case["last"]  # PyTorch's goes on behind the end
        else:
            del case["momentum"]
        lines.append(json.dumps(case))
    (pathlib.Path(folder) / "schedules.json").write_text("[" + ",\n ".join(lines) + "]\n")


if __name__ == "__main__":
    main(sys.argv[1])
