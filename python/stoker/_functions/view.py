# SPDX-License-Identifier: Apache-2.0
"""Results as objects: attributes, a table in a terminal and in a notebook, columns for pandas."""
from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Union


class Grid(NamedTuple):
    """A table of texts: the first column is names, the others are figures, or (`words`) words."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: bool = False

    def text(self) -> str:
        lines = [self.heads, *self.rows] if any(self.heads) else list(self.rows)
        widths = [max((len(line[i]) for line in lines), default=0) for i in range(len(self.heads))]

        def cell(i: int, text: str) -> str:
            return text.ljust(widths[i]) if self.words or i == 0 else text.rjust(widths[i])

        return "\n".join("  ".join(cell(i, text) for i, text in enumerate(line)).rstrip() for line in lines)

    def html(self) -> str:
        def row(tag: str, line: Sequence[str]) -> str:
            sides = ("left" if self.words or i == 0 else "right" for i in range(len(line)))
            cells = (
                f'<{tag} style="text-align:{side}">{html.escape(text)}</{tag}>' for side, text in zip(sides, line)
            )
            return f"<tr>{''.join(cells)}</tr>"

        head = f"<thead>{row('th', self.heads)}</thead>" if any(self.heads) else ""
        return f"<table>{head}<tbody>{''.join(row('td', line) for line in self.rows)}</tbody></table>"


Part = Union[str, Grid]
"""A paragraph, or a table."""


class Result:
    """What a function found: its attributes. `vars(result)` has all of them."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update(values)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def _parts(self) -> list[Part]:
        return [Grid(("", ""), [(name, some(value)) for name, value in vars(self).items()])]

    def __repr__(self) -> str:
        return "\n".join(part.text() if isinstance(part, Grid) else part for part in self._parts())

    def _repr_html_(self) -> str:
        return "".join(
            part.html() if isinstance(part, Grid) else f"<p>{html.escape(part)}</p>" for part in self._parts()
        )


class Table(Result):
    """A result that is rows: `columns` is a dict of lists, `to_dataframe()` the same as a DataFrame of pandas."""

    def _rows(self) -> Sequence[Mapping[str, Any]]:
        raise NotImplementedError

    @property
    def columns(self) -> dict[str, list[Any]]:
        """One list a column, of one length; None where a row has no such figure."""
        rows = self._rows()
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}

    def to_dataframe(self) -> Any:
        """The columns as a pandas.DataFrame."""
        import pandas

        return pandas.DataFrame(self.columns)


# ---- Figures as texts ----


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _scaled(value: float, units: Sequence[tuple[float, str]]) -> str:
    factor, unit = next((u for u in units if abs(value) >= 0.9995 * u[0]), units[-1])
    return f"{value / factor:.3g} {unit}"


def seconds(value: float | None) -> str:
    return "-" if value is None else "0 s" if value == 0 else _scaled(value, ((1, "s"), (1e-3, "ms"), (1e-6, "µs")))


def size(value: float | None) -> str:
    units = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
    return "-" if value is None else "0 B" if value == 0 else _scaled(value, units)


def shape(sides: Sequence[int | None]) -> str:
    return "×".join("*" if not side else str(side) for side in sides)


def some(value: Any) -> str:
    """Whatever it is, in short."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, (list, tuple)):
        return ", ".join(some(item) for item in value)
    return str(value)


# ---- A loader at work ----


class Stats(Result):
    """Counters of a loader since it was made; times in seconds, memory in bytes."""

    batches: int
    """Batches that were taken."""
    wait_s: float
    """How long the loop waited for them."""
    waits_s: dict[str, float]
    """The same, by what it waited for."""
    stages: dict[str, dict[str, float]]
    """Of order, read, prepare, deliver: items, bytes, failures, and busy_s, wait_in_s, wait_out_s over all threads."""
    workers: int
    depth: int
    """Batches that are prepared ahead at most."""
    ready: int
    """Batches that are ready now."""
    io_depth: int
    memory_budget: int
    memory_bytes: int
    memory_peak: int
    slab_bytes: int
    """Of one batch."""
    requests: int
    """Reads of storage."""
    request_bytes: int
    needed_bytes: int
    """That the samples asked for."""
    cache_hits: int
    cache_misses: int
    cache_bytes: int
    cache_hit_bytes: int
    disk_reads: int
    """From the folder of a store ``cache+URL``, of all such stores of this process."""
    disk_read_bytes: int
    disk_read_s: float
    remote_reads: int
    """From the store below it."""
    remote_read_bytes: int
    remote_read_s: float
    bad_samples: int
    pictures: int
    """That were decoded, in decode_s, and made ready in resize_s, over all threads."""
    decode_s: float
    resize_s: float
    chunks_needed: int
    chunks_decoded: int
    chunk_decode_s: float

    def _parts(self) -> list[Part]:
        def told(name: str, value: Any) -> str:
            by = seconds if name.endswith("_s") else size if name.startswith("memory") or name.endswith("_bytes") else str
            return by(value)

        rows = [(name, told(name, value)) for name, value in vars(self).items() if not isinstance(value, dict)]
        at = next(i for i, row in enumerate(rows) if row[0] == "wait_s") + 1
        rows[at:at] = [(f"· {name}", seconds(value)) for name, value in self.waits_s.items() if value]
        return [Grid(("", ""), rows)]


class Verdict(Result):
    """What limits a loop, and what to change. As text it is one paragraph."""

    limit: str
    """One word for what limits it: "step", "workers", "storage latency", ..."""
    text: str
    """One paragraph."""
    lost_share: float
    """Of the time, that the step waited."""
    limit_share: float
    """Of the time, lost to the limit itself; 0 where it is not known."""
    knob: str | None
    """The option to change; None: nothing."""
    value: str | None
    """To what; None: the text tells."""
    gain: float
    """The factor in samples/s to expect; 1: none."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__({**values, "knob": values["knob"] or None, "value": values["value"] or None})

    def __str__(self) -> str:
        return self.text

    def _parts(self) -> list[Part]:
        return [self.text]

    def _repr_html_(self) -> str:
        return f"<p><b>{html.escape(self.limit)}</b>: {html.escape(self.text)}</p>"


class LoopVerdict(Verdict):
    """The verdict on a loop over a Loader, with what was measured of it. Times in seconds."""

    steps: int
    """Batches that were taken."""
    samples_per_s: float
    wait_mean: float
    """Of a step, waiting for its batch."""
    step_time: float
    """Of a step, between its batch and the asking for the next."""
    step_share: float
    """Of the time, between batches."""
