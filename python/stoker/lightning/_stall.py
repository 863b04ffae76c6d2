# SPDX-License-Identifier: Apache-2.0
"""What a training waits for: the ledger of the trainer's time, and the verdict on it."""
from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_info

from stoker import _native
from stoker._batch import rows_of
from stoker._functions.view import Verdict
from stoker._loader import Loader
from stoker._ranks import local_ranks
from stoker.lightning._actions import Listener, is_fetch

PARTS = {
    "step": "the step",
    "data_wait": "waiting for data",
    "transfer": "transfer",
    "validation": "validation",
    "callbacks": "callbacks",
    "checkpoint": "checkpoints",
    "other": "everything else",
}


def _part_of(action: str) -> str | None:
    """The part of the ledger that an action begins."""
    if is_fetch(action):
        return "data_wait"
    if action == "run_training_batch":
        return "step"
    if action == "save_checkpoint":
        return "checkpoint"
    if action.endswith(".batch_to_device"):
        return "transfer"
    return "callbacks" if action.startswith("[Callback]") else None


class _Ledger:
    """Divides time: the innermost part that has begun takes it, and within a validation or a checkpoint all is theirs, but
    for a checkpoint of the one. Waits for batches are kept one by one."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self.waits: list[float] = []
        self.samples = 0
        self._within = ["other"]
        self._parts: dict[str, str | None] = {}
        self._since = time.perf_counter()

    def _turn(self) -> float:
        now = time.perf_counter()
        took, self._since = now - self._since, now
        self.seconds[self._within[-1]] += took
        return took

    def begin(self, action: str) -> None:
        if action.startswith("[LightningModule]") and action.endswith(".on_validation_model_eval"):
            self._enter("validation")
        if action not in self._parts:
            self._parts[action] = _part_of(action)
        if part := self._parts[action]:
            self._enter(part)

    def end(self, action: str) -> None:
        if part := self._parts.get(action):
            took = self._leave()
            if part == "data_wait":
                self.waits.append(took)
        if action.startswith("[LightningModule]") and action.endswith(".on_validation_end"):
            self._leave()

    def _enter(self, part: str) -> None:
        self._turn()
        outer = self._within[-1]
        self._within.append(outer if outer in ("validation", "checkpoint") and part != "checkpoint" else part)

    def _leave(self) -> float:
        took = self._turn()
        if len(self._within) > 1:
            self._within.pop()
        return took

    def now(self) -> tuple[dict[str, float], int, int, float]:
        """Seconds of each part, batches, samples, seconds of cores, until now."""
        self._turn()
        return dict(self.seconds), len(self.waits), self.samples, time.process_time()


class _Window:
    """What a ledger, and the loader, have measured since a moment."""

    def __init__(self, ledger: _Ledger, loader: Any) -> None:
        self._ledger, self._loader = ledger, loader
        self._begin = ledger.now()
        self._waits = self._loader_waits()

    def _loader_waits(self) -> dict[str, float]:
        return dict(self._loader.stats().waits_s) if isinstance(self._loader, Loader) else {}

    def measure(self) -> None:
        seconds, batches, samples, cores = self._ledger.now()
        self.seconds = {part: seconds[part] - begin for part, begin in self._begin[0].items()}
        self.waits = self._ledger.waits[self._begin[1]:batches]
        self.samples = samples - self._begin[2]
        self.cores = cores - self._begin[3]
        self.loader_waits = {part: wait - self._waits[part] for part, wait in self._loader_waits().items()}
        self.wall = sum(self.seconds.values()) or 1e-9

    def metrics(self) -> dict[str, float]:
        """What is logged: shares of the time, and a rate."""
        shares = {f"stall/{part}": seconds / self.wall for part, seconds in self.seconds.items()}
        causes = {f"stall/wait/{part}": seconds / self.wall for part, seconds in self.loader_waits.items()}
        mean = statistics.fmean(self.waits) if self.waits else 0.0
        return shares | causes | {"stall/wait_ms": 1e3 * mean, "stall/samples_per_s": self.samples / self.wall}

    def verdict(self, loader: Any) -> Verdict | None:
        if not self.waits:
            return None
        besides = {f"{part}_s": self.seconds[part] for part in ("transfer", "validation", "callbacks", "checkpoint")}
        return verdict_of(loader, self.waits, self.seconds["step"], self.wall, self.cores, self.samples, besides)


def loader_of(trainer: Trainer) -> Any:
    """The training loader, or loaders, without what a DataModule of ours puts around it."""
    loader = trainer.train_dataloader
    return getattr(loader, "loader", loader)


def verdict_of(loader: Any, waits: Sequence[float], step: float, wall: float, cores: float, samples: int,
               besides: dict[str, float]) -> Verdict:
    """The library's verdict on a training of `wall` seconds, and so many seconds of cores, of which the steps took `step`."""
    steps = len(waits)
    figures: dict[str, float] = besides | {
        "wall": wall, "samples_per_s": samples / wall, "step_time": step / steps, "step_share": step / wall,
    }
    own = loader._native if isinstance(loader, Loader) else None
    if own is None:
        later = waits[1:] or waits
        p50, p95 = numpy.percentile(later, (50, 95)).tolist()
        figures |= {
            "steps": steps, "cpu_s": cores, "samples": samples, "batch_size": samples / steps,
            "wait_mean": statistics.fmean(later), "wait_p50": p50, "wait_p95": p95,
            "num_workers": getattr(loader, "num_workers", -1), "usable_cores": _native.cores()[0], "ranks": local_ranks(),
        }
    values = _native.judge(figures, own)
    if own is None and values["limit"] == "unknown":
        workers = getattr(loader, "num_workers", None)
        values["limit"] = "data"
        values["text"] = (
            f"Waiting for data limits: the step waits {100 * values['lost_share']:.1f} % of the time for {type(loader).__name__}"
            f"{'' if workers is None else f' (num_workers {workers})'}. Without it the rate would be "
            f"{1 / max(1 - values['lost_share'], 1e-3):.2f} times as high."
        )
    return Verdict(values)


class StallMonitor(Listener):
    """Says what a training waits for, whatever its loader.

    Every `every_n_steps` (the trainer's `log_every_n_steps` unless given) each logger gets, of the time since the last:

        stall/step, data_wait, transfer, validation, callbacks, checkpoint, other    shares, that add up to 1
        stall/wait_ms          how long a step waited for its batch, on average
        stall/samples_per_s
        stall/wait/CAUSE       with a stoker.Loader: shares of what was waited for, as its stats() name them

    and at the end of the training `stall/limit` and `stall/verdict`, as hyperparameters: what limited the last epoch, in a
    word and in a paragraph. The same is said on the console, and kept: `seconds` of each part of the run, `verdict`.
    """

    def __init__(self, every_n_steps: int | None = None) -> None:
        self.every_n_steps = every_n_steps
        self.seconds: dict[str, float] = {}
        self.verdict: Verdict | None = None
        self._ledger: _Ledger | None = None

    # ---- The ledger ----

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._ledger = None
        super().on_exception(trainer, pl_module, exception)

    def _begin(self, action: str) -> None:
        if self._ledger is not None:
            self._ledger.begin(action)

    def _end(self, action: str) -> None:
        if self._ledger is not None:
            self._ledger.end(action)

    def _window(self, trainer: Trainer) -> _Window:
        assert self._ledger is not None
        return _Window(self._ledger, loader_of(trainer))

    # ---- Windows of it ----

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._ledger = _Ledger()
        self._run = self._recent = self._epoch = self._window(trainer)
        self._logged = trainer.global_step

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._epoch = self._window(trainer)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        assert self._ledger is not None
        self._ledger.samples += rows_of(batch) or 0
        every = self.every_n_steps or getattr(trainer, "log_every_n_steps", 0)
        step = trainer.global_step
        if not every or step % every or step == self._logged:
            return
        self._recent.measure()
        for logger in trainer.loggers:
            logger.log_metrics(self._recent.metrics(), step=step - 1)  # as Lightning numbers them
        self._recent, self._logged = self._window(trainer), step

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._epoch.measure()
        self.verdict = self._epoch.verdict(loader_of(trainer))

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._run.measure()
        self._ledger = None
        self.seconds = self._run.seconds
        rank_zero_info(self.summary())
        if self.verdict is not None:
            for logger in trainer.loggers:
                logger.log_hyperparams({"stall/limit": self.verdict.limit, "stall/verdict": self.verdict.text})

    def summary(self) -> str:
        """The ledger of the run, and the verdict on its last epoch."""
        wall = sum(self.seconds.values()) or 1e-9
        shares = {PARTS[part]: 100 * seconds / wall for part, seconds in self.seconds.items()}
        listed = ", ".join(f"{name} {share:.1f} %" for name, share in shares.items() if share >= 0.05)
        return f"Of {wall:.1f} s: {listed}." + (f" {self.verdict.text}" if self.verdict else "")
