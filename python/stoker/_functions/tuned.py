# SPDX-License-Identifier: Apache-2.0
"""What stoker.tune() gives, with the names and units of the command's --format json."""
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stoker._functions.results import Page
from stoker._functions.view import Grid, Part, Result, Table, number, share, size, some


class TunePoint(Result):
    """A setting of the grid of stoker.tune(): of one that was run what came of it, else what is predicted. Rates in samples/s, times in
    seconds, memory in bytes."""

    label: str
    role: str | None
    """What it is: the best, as given, the defaults, without workers."""
    num_workers: int | None
    """None: auto."""
    io_depth: int | None
    prefetch_factor: int | None
    runs: int
    """0: it is predicted."""
    allowed: bool
    """Within max_memory and max_cores."""
    front: bool
    """No other is better in all that counts."""
    samples_per_s: float | None
    wait_share: float | None
    peak_bytes: int | None


class Tuned(Table):
    """What stoker.tune() found: the settings of a grid, the best of them, and why."""

    points: list[TunePoint]
    best: TunePoint | None
    gain: bool
    """Whether it is better than the setting as given."""
    reached: bool
    """Whether it does what the objective asks for."""
    ended: bool
    """Whether all was run that was to be."""
    timed_out: bool
    speed_up: float | None
    saturated_workers: int | None
    """More workers than these change nothing; None: more would."""
    saturated_depth: int | None
    predicted: int
    measured: int
    runs: int
    took: float
    model_error: float | None
    """How far predictions were off in the mean, where they were run."""
    verdict: str
    log: str | None
    yaml: str
    """The configuration that was found, with a reason above each value."""
    page: Page
    """The waits over workers and reads, and what each setting costs."""

    def __init__(self, values: Mapping[str, Any], yaml: str, page: str) -> None:
        points = [TunePoint(one) for one in values["points"]]
        best = TunePoint(values["best"]) if values["best"] else None
        super().__init__({**values, "points": points, "best": best, "yaml": yaml, "page": Page(page)})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the configuration to a file."""
        Path(path).write_text(self.yaml, encoding="utf-8")

    def _rows(self) -> Sequence[Mapping[str, Any]]:
        return [vars(one) for one in self.points]

    def _parts(self) -> list[Part]:
        heads = ("setting", "samples/s", "wait share", "memory", "runs", "")
        rows = [
            (one.label, number(one.samples_per_s), share(one.wait_share), size(one.peak_bytes), some(one.runs), one.role or "")
            for one in self.points
            if one.runs or one.role
        ]
        return [Grid(heads, rows), self.verdict]
