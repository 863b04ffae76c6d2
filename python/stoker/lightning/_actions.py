# SPDX-License-Identifier: Apache-2.0
"""What Lightning's trainer does, as it begins and ends: the actions that its profilers are told."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.profilers import Profiler


class Listening(Profiler):
    """The trainer's profiler, with someone who is told as well."""

    def __init__(self, inner: Any, begin: Callable[[str], None], end: Callable[[str], None]) -> None:
        super().__init__()
        self.inner = inner
        self._begin = begin
        self._end = end

    def start(self, action_name: str) -> None:
        self.inner.start(action_name)
        self._begin(action_name)

    def stop(self, action_name: str) -> None:
        self._end(action_name)
        self.inner.stop(action_name)

    def summary(self) -> str:
        return str(self.inner.summary())

    def describe(self) -> None:
        self.inner.describe()

    def setup(self, stage: str, local_rank: int | None = None, log_dir: str | None = None) -> None:
        self.inner.setup(stage, local_rank, log_dir)

    def teardown(self, stage: str | None) -> None:
        self.inner.teardown(stage)

    def __del__(self) -> None:
        """Not the end of the one that is told as well, as it were of another profiler."""


class Listener(Callback):
    """A callback that is told of the actions of fit()."""

    _listening: Listening | None = None

    def _begin(self, action: str) -> None:
        raise NotImplementedError

    def _end(self, action: str) -> None:
        raise NotImplementedError

    def setup(self, trainer: Any, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit":
            self._listening = Listening(trainer.profiler, self._begin, self._end)
            trainer.profiler = self._listening

    def teardown(self, trainer: Any, pl_module: LightningModule, stage: str) -> None:
        if self._listening is not None:
            trainer.profiler, self._listening = self._listening.inner, None

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self.teardown(trainer, pl_module, "fit")


def is_fetch(action: str) -> bool:
    """Whether it waits for a batch of the training loader."""
    return action.endswith(".train_dataloader_next")
