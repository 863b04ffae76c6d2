# SPDX-License-Identifier: Apache-2.0
"""Where the time of a training batch goes, of any LightningModule.

    python -m stoker.timing my_project.model:Model --data my_project.data:Data --epochs 2 --precision 16-mixed

Trains it, without validation, logging and checkpoints, and leaves timing_results.csv (a row for each batch: waiting for data,
forward, backward, all else, the whole) and timing_summary.yaml (the same in a few figures), laid out as `stoker profile`
lays them out. On an accelerator it is waited for between the parts, so that each is its own.
"""
from __future__ import annotations

import argparse
import csv
import importlib
import json
import logging
import math
import shutil
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from stoker._batch import rows_of
from stoker._functions.view import Grid
from stoker._named import Mistyped, named
from stoker.lightning._actions import Listener, is_fetch
from stoker.lightning._stall import loader_of, verdict_of

PARTS = ("data", "forward", "backward", "other", "total")



# ---- Each batch ----


@dataclass
class Batch:
    """Seconds of one batch, from asking for it to the end of its step."""

    epoch: int = 0
    batch: int = 0
    samples: int = 0
    data: float = 0.0
    forward: float = 0.0
    backward: float = 0.0
    other: float = 0.0
    total: float = 0.0
    optimizer_steps: int = 0
    cores: float = 0.0  # seconds of them, in this process


@dataclass
class _Call:
    action: str
    part: str
    begin: float
    inner: float = 0.0


def _part_of(action: str) -> str | None:
    """The part of a batch that an action begins."""
    if is_fetch(action):
        return "data"
    if action.startswith("[Strategy]"):
        return {"training_step": "forward", "backward": "backward"}.get(action.rpartition(".")[2])
    return None


class BatchTimer(Listener):
    """Times the parts of each training batch: `batches`. `rest` is what took the time of `other`, by the trainer's names of
    actions: how often, and the seconds that each took itself."""

    def __init__(self, warmup: int = 0) -> None:
        self.warmup = warmup
        self.batches: list[Batch] = []
        self.rest: dict[str, list[float]] = {}
        self._calls: list[_Call] = []
        self._batch: Batch | None = None
        self._asked = self._cores = 0.0
        self._steps = 0
        self._device = torch.device("cpu")

    def setup(self, trainer: Any, pl_module: LightningModule, stage: str) -> None:
        self._device = trainer.strategy.root_device
        super().setup(trainer, pl_module, stage)

    def _now(self, wait: bool) -> float:
        """`wait`: when all that was asked of the device is done."""
        if wait and self._device.type != "cpu":
            torch.accelerator.synchronize(self._device)
        return time.perf_counter()

    # Actions nest. Where the model calls backward() itself, its hooks are all that is told of it.

    def _begin(self, action: str) -> None:
        if is_fetch(action):
            self._batch, self._calls = Batch(), []
        if self._batch is None:
            return
        if action.endswith(".on_after_backward") and self._calls[-1].action == "backward":
            self._leave()
        self._enter(action, _part_of(action))
        if is_fetch(action):
            self._asked, self._cores = self._calls[0].begin, time.process_time()

    def _end(self, action: str) -> None:
        if self._batch is None:
            return
        self._leave()
        if action.startswith("[LightningModule]") and action.endswith(".on_before_backward"):
            self._enter("backward", "backward")

    def _enter(self, action: str, part: str | None) -> None:
        outer = self._calls[-1].part if self._calls else "other"
        self._calls.append(_Call(action, part or outer, self._now(part is not None)))

    def _leave(self) -> None:
        call = self._calls.pop()
        outer = self._calls[-1].part if self._calls else "other"
        took = self._now(call.part != outer) - call.begin
        if self._calls:
            self._calls[-1].inner += took
        own = took - call.inner
        if call.part != "other":
            setattr(self._batch, call.part, getattr(self._batch, call.part) + own)
            return
        rest = self.rest.setdefault(call.action, [0, 0.0])
        rest[0] += 1
        rest[1] += own

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._steps = trainer.global_step
        epochs, steps = (math.inf if most in (None, -1) else most for most in (trainer.max_epochs, trainer.max_steps))
        _check_warmup(min(trainer.num_training_batches * epochs, steps * trainer.accumulate_grad_batches), self.warmup)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        timed, self._batch = self._batch, None
        assert timed is not None
        timed.total = self._now(True) - self._asked
        timed.other = timed.total - timed.data - timed.forward - timed.backward
        timed.cores = time.process_time() - self._cores
        timed.epoch, timed.batch, timed.samples = trainer.current_epoch, batch_idx, rows_of(batch) or 0
        timed.optimizer_steps, self._steps = trainer.global_step - self._steps, trainer.global_step
        self.batches.append(timed)


# ---- All of them ----


def _check_warmup(batches: float, warmup: int) -> None:
    if batches <= warmup:
        raise Mistyped(f"only {batches} batches are trained, and the first {warmup} are left out: raise --epochs or --steps, or "
                       "lower --warmup-steps")


@dataclass
class Timing:
    """What was found of the batches behind the first `warmup`."""

    batches: list[Batch]
    warmup: int
    loader: Any
    rest: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_warmup(len(self.batches), self.warmup)
        self.counted = self.batches[self.warmup:]
        self.seconds = {part: [getattr(batch, part) for batch in self.counted] for part in PARTS}
        self.wall = sum(self.seconds["total"])
        self.samples = sum(batch.samples for batch in self.counted)
        self.shares = {part: sum(seconds) / self.wall for part, seconds in self.seconds.items()}

    def figures(self, part: str) -> dict[str, float]:
        seconds = numpy.array(self.seconds[part])
        p50, p95, p99 = numpy.percentile(seconds, (50, 95, 99)).tolist()
        return {"mean": float(seconds.mean()), "min": float(seconds.min()), "p50": p50, "p95": p95, "p99": p99,
                "max": float(seconds.max()), "sum": float(seconds.sum())}

    def summary(self) -> str:
        """timing_summary.yaml"""
        lines = ["# Where the time of a training batch goes, in seconds.", f"batches: {len(self.counted)}",
                 f"warmup_batches: {self.warmup}", f"batch_size: {max(batch.samples for batch in self.counted)}",
                 f"samples_per_s: {self.samples / self.wall:.3f}"]
        for part in PARTS:
            lines += [f"{part}:", *(f"  {name}: {value:.9f}" for name, value in self.figures(part).items())]
            lines.append(f"  share: {self.shares[part]:.6f}")
        return "\n".join(lines) + "\n"

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "timing_summary.yaml").write_text(self.summary())
        with open(folder / "timing_results.csv", "w", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["epoch", "batch", "samples", "warmup", *(f"{part}_s" for part in PARTS), "optimizer_steps"])
            for i, batch in enumerate(self.batches):
                parts = (f"{getattr(batch, part):.9f}" for part in PARTS)
                rows.writerow([batch.epoch, batch.batch, batch.samples, int(i < self.warmup), *parts, batch.optimizer_steps])

    def table(self) -> str:
        heads = ("ms", "mean", "p50", "p95", "max", "share")
        rows = []
        for part in PARTS:
            figures = self.figures(part)
            rows.append((part, *(f"{1e3 * figures[name]:.3f}" for name in heads[1:5]), f"{100 * self.shares[part]:.1f} %"))
        return Grid(heads, rows).text()

    def diagnosis(self) -> str:
        """One paragraph: what a batch takes, what limits, what to change."""
        share = {part: 100 * value for part, value in self.shares.items()}
        text = (
            f"A batch takes {1e6 * self.figures('total')['p50']:.1f} us (median of {len(self.counted)}; "
            f"{self.samples / self.wall:.0f} samples/s over all). Of the time: waiting for data {share['data']:.1f} %, forward "
            f"{share['forward']:.1f} %, backward {share['backward']:.1f} %, the optimizer and all else {share['other']:.1f} %."
        )
        step = self.wall - sum(self.seconds["data"])
        cores = sum(batch.cores for batch in self.counted)
        text += f" {verdict_of(self.loader, self.seconds['data'], step, self.wall, cores, self.samples, {}).text}"
        if share["other"] > max(share["data"], share["forward"] + share["backward"]) and self.rest:
            action, (calls, seconds) = max(self.rest.items(), key=lambda item: item[1][1])
            every = sum(batch.other for batch in self.batches)
            text += (f" The model is not what takes most: {100 * min(seconds / every, 1):.0f} % of all else is {action}, "
                     f"{1e6 * seconds / calls:.1f} us a call. A larger batch size makes it rarer.")
        return text


# ---- The command ----


def _keywords(text: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"{text} is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise argparse.ArgumentTypeError(f"{text} is no object of keywords")
    return given


def _made(config: Any, section: str) -> Any:
    """An object of LightningCLI's configuration: class_path and init_args."""
    try:
        module, _, name = config[section]["class_path"].rpartition(".")
    except (KeyError, TypeError):
        raise Mistyped(f"the configuration has no {section}.class_path") from None
    return named(f"{module}:{name}")(**config[section].get("init_args", {}))


def options(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("model", nargs="?", metavar="MODULE:CLASS", help="the LightningModule: of a module, or of a FILE.py")
    parser.add_argument("--data", metavar="MODULE:CLASS", help="its LightningDataModule, where it has no train_dataloader()")
    parser.add_argument("--model-args", metavar="JSON", type=_keywords, default={}, help="an object of keyword arguments")
    parser.add_argument("--data-args", metavar="JSON", type=_keywords, default={})
    parser.add_argument("-c", "--config", metavar="FILE", type=Path,
                        help="YAML in place of these: `model` and `data`, each with class_path and init_args")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--steps", type=int, default=-1, help="end after so many steps of the optimizer")
    parser.add_argument("--warmup-steps", type=int, default=10, metavar="N", help="batches that the figures leave out (10)")
    parser.add_argument("--precision", default="32", help="as Trainer(precision=...): 32, 16-mixed, bf16-mixed, ...")
    parser.add_argument("--device", default="auto", help="as Trainer(accelerator=...): auto, cpu, cuda, ...")
    return parser


def arguments_of(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    given = parser.parse_args(arguments)
    if (given.model is None) == (given.config is None):
        parser.error("give MODULE:CLASS or --config")
    return given


def parts_of(given: argparse.Namespace) -> tuple[LightningModule, Any]:
    """The model and its data, made anew."""
    if given.config is not None:
        yaml: Any = importlib.import_module("yaml")
        if not given.config.is_file():
            raise Mistyped(f"there is no file {given.config}")
        config = yaml.safe_load(given.config.read_text())
        return _made(config, "model"), _made(config, "data") if "data" in config else None
    return named(given.model)(**given.model_args), named(given.data)(**given.data_args) if given.data else None


def train(given: argparse.Namespace, model: LightningModule, data: Any, callbacks: Sequence[Callback], **more: Any) -> Trainer:
    """A training and nothing else, on one device."""
    warnings.filterwarnings("ignore", module="lightning")
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    trainer = Trainer(
        accelerator=given.device, devices=1, precision=given.precision, max_epochs=given.epochs, max_steps=given.steps,
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        num_sanity_val_steps=0, limit_val_batches=0, callbacks=list(callbacks), **more,
    )
    trainer.fit(model, datamodule=data)
    return trainer


def time_batches(given: argparse.Namespace, model: LightningModule, data: Any, **more: Any) -> Timing:
    timer = BatchTimer(given.warmup_steps)
    trainer = train(given, model, data, [timer], **more)
    return Timing(timer.batches, given.warmup_steps, loader_of(trainer), timer.rest)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options("Where the time of a training batch goes.")
    parser.add_argument("--save-dir", type=Path, metavar="DIR", help="where its files go (results/benchmark/TIME)")
    given = arguments_of(parser, arguments)
    try:
        timing = time_batches(given, *parts_of(given))
    except Mistyped as error:
        parser.error(str(error))
    folder = given.save_dir or Path("results/benchmark") / time.strftime("%Y%m%d_%H%M%S")
    timing.write(folder)
    if given.config is not None:
        shutil.copyfile(given.config, folder / "benchmark_config.yaml")
    print(f"{timing.table()}\n\n{timing.diagnosis()}\n\nIn {folder}: timing_summary.yaml, timing_results.csv")


if __name__ == "__main__":
    main()
