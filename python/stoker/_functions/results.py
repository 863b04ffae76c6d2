# SPDX-License-Identifier: Apache-2.0
"""What the functions of the command give: objects with the names and units of its --format json."""
from __future__ import annotations

import html
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stoker._functions.view import Grid, Part, Result, Table, Verdict, number, seconds, shape, share, size, some

# ---- info ----


class Info(Result):
    """What stoker.info() found. Each kind is a class of its own."""


class FieldInfo(Result):
    """A field of the samples of a dataset."""

    name: str
    dtype: str
    layout: str
    """"fixed", "ragged" or "bytes"."""
    shape: tuple[int, ...]
    """Of one sample; -1 where it varies."""
    codec: str
    picture: bool

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__({**values, "shape": tuple(values["shape"])})


class DatasetInfo(Info):
    """A dataset. `survey` is what its pictures are, where some were read."""

    spec: str
    size: int
    fingerprint: str
    block_size: int
    fields: list[FieldInfo]
    classes: list[str]
    description: dict[str, str]
    """All that is known, in words."""
    survey: Result | None

    def __init__(self, values: Mapping[str, Any]) -> None:
        survey = values.get("survey")
        fields = [FieldInfo(field) for field in values["fields"]]
        super().__init__({**values, "fields": fields, "survey": survey and Result(survey)})

    def _parts(self) -> list[Part]:
        return [self.spec, Grid(("", ""), list(self.description.items()), words=True)]


class ArrayInfo(Info):
    """An array. What the store does not tell is not there: `stored_bytes`, `ratio`, `fill_value`, `stats`."""

    spec: str
    format: str
    dtype: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    shards: tuple[int, ...]
    dimensions: list[str | None]
    codecs: str
    fill_value: Any
    bytes: int
    stored_objects: int | None
    stored_bytes: int | None
    ratio: float | None
    """Decoded bytes / stored bytes."""
    attributes: dict[str, Any]
    stats: Result | None
    """mean, std, min, max, ..., where they were kept, or asked for by stats="all"."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        known = dict.fromkeys(("fill_value", "stored_objects", "stored_bytes", "ratio", "stats"))
        sides = {name: tuple(values[name]) for name in ("shape", "chunks", "shards")}
        stats = values.get("stats")
        super().__init__({**known, **values, **sides, "stats": stats and Result(stats)})

    def _parts(self) -> list[Part]:
        rows = [
            ("format", self.format),
            ("dtype", self.dtype),
            ("shape", shape(self.shape)),
            ("chunks", shape(self.chunks)),
            *([("shards", shape(self.shards))] if any(self.shards) else []),
            *([("dimensions", some(self.dimensions))] if self.dimensions else []),
            ("codecs", self.codecs),
            ("fill value", some(self.fill_value)),
            ("decoded", size(self.bytes)),
            *([("stored", f"{size(self.stored_bytes)} in {self.stored_objects} objects")] if self.stored_objects else []),
            *([(name, some(value)) for name, value in vars(self.stats).items()] if self.stats else []),
            *((f"attribute {name}", some(value)) for name, value in self.attributes.items()),
        ]
        return [self.spec, Grid(("", ""), rows, words=True)]


class GroupInfo(Table, Info):
    """A group of arrays: `nodes` are dicts, a row each."""

    spec: str
    consolidated: bool
    attributes: dict[str, Any]
    nodes: list[dict[str, Any]]

    def _rows(self) -> Sequence[Mapping[str, Any]]:
        return self.nodes

    def _parts(self) -> list[Part]:
        heads = ("path", "dtype", "shape", "chunks", "codecs", "decoded")
        rows = [
            (
                node["path"],
                node.get("problem") or node.get("dtype", node["type"]),
                shape(node.get("shape", ())),
                shape(node.get("chunks", ())),
                node.get("codecs", ""),
                size(node["bytes"]) if "bytes" in node else "",
            )
            for node in self.nodes
        ]
        return [self.spec, Grid(heads, rows, words=True)]


class Description(Info):
    """A checkpoint, or a store: `description` is what is known of it, in words."""

    description: dict[str, str]

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__({"description": dict(values)})

    def _parts(self) -> list[Part]:
        return [Grid(("", ""), list(self.description.items()), words=True)]


class Catalogue(Table, Info):
    """All there is by kind: datasets, transforms, stores, ...: lists of dicts with name, doc and options."""

    def _rows(self) -> Sequence[Mapping[str, Any]]:
        return [
            {"kind": kind, **{name: value for name, value in one.items() if name != "options"}}
            for kind, all_ in vars(self).items()
            if isinstance(all_, list)
            for one in all_
            if isinstance(one, dict)
        ]

    def _parts(self) -> list[Part]:
        rows = self._rows()
        kinds = dict.fromkeys(row["kind"] for row in rows)
        return [
            part
            for kind in kinds
            for part in (kind, Grid(("", ""), [(r["name"], r["doc"]) for r in rows if r["kind"] == kind], words=True))
        ]


def info_of(values: Mapping[str, Any], *, named: bool, store: bool) -> Info:
    if not named:
        return Catalogue(values)
    if store or "spec" not in values:
        return Description(values)
    return DatasetInfo(values) if "fields" in values else GroupInfo(values) if "nodes" in values else ArrayInfo(values)


# ---- Pages ----


class Page:
    """A page of HTML that needs no other file. A notebook shows it in a frame."""

    def __init__(self, text: str) -> None:
        self.html = text

    def save(self, path: str | os.PathLike[str]) -> None:
        Path(path).write_text(self.html, encoding="utf-8")

    def __repr__(self) -> str:
        return f"<a page of {size(len(self.html))}: save(path), or look at it in a notebook>"

    def _repr_html_(self) -> str:
        return frame(self.html)


def frame(page: str) -> str:
    """A page within another, which neither its scripts nor its styles reach."""
    return (
        f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts allow-downloads" '
        'style="width:100%;height:40em;border:0"></iframe>'
    )


# ---- chunks ----


class ChunkCost(Result):
    """What windows cost with chunks of one shape, each on average."""

    chunk: tuple[int, ...]
    min_chunks: int
    max_chunks: int
    """That a window touches, wherever it begins."""
    min_bytes: int
    max_bytes: int
    expected_chunks: float
    expected_bytes: float

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__({**values, "chunk": tuple(values["chunk"])})


class Measured(Table):
    """What windows of a sample of the array took."""

    sample: tuple[int, ...]
    """Its shape."""
    codec: str
    chunks: list[dict[str, Any]]
    """A row for each chunk shape."""

    def _rows(self) -> Sequence[Mapping[str, Any]]:
        return [{**row, "chunk": tuple(row["chunk"])} for row in self.chunks]

    def _parts(self) -> list[Part]:
        heads = ("chunk", "recommended", "measured", "model", "ratio")
        rows = [
            (
                shape(row["chunk"]),
                row["place"],
                row["note"] or seconds(row["seconds"]),
                seconds(row["model_seconds"]),
                some(row["ratio"]),
            )
            for row in self._rows()
        ]
        return [f"Windows of a sample of {shape(self.sample)}", Grid(heads, rows)]


class Chunks(Table):
    """Chunk shapes for windows of an array, and the recommended ones, the best first. Bytes and seconds."""

    window: tuple[int, ...]
    stride: tuple[int, ...]
    extent: tuple[int, ...]
    """0: an axis whose end does not matter."""
    itemsize: int
    ratio: float
    chunks: list[ChunkCost]
    """That were asked for."""
    recommended: list[ChunkCost]
    access: str | None
    store: str | None
    why: str | None
    """The recommendation in words."""
    measured: Measured | None
    """Of measure=True."""
    page: Page
    """Charts of bytes and chunks."""

    def __init__(self, values: Mapping[str, Any], page: str) -> None:
        known = dict.fromkeys(("access", "store", "why", "measured"))
        sides = {name: tuple(values[name]) for name in ("window", "stride", "extent")}
        costs = {name: [ChunkCost(one) for one in values.get(name, ())] for name in ("chunks", "recommended")}
        measured = values.get("measured")
        super().__init__(
            {**known, **values, **sides, **costs, "measured": measured and Measured(measured), "page": Page(page)}
        )

    @property
    def best(self) -> tuple[int, ...] | None:
        """The chunk shape to store the array with."""
        return self.recommended[0].chunk if self.recommended else None

    def _rows(self) -> Sequence[Mapping[str, Any]]:
        ranks = {cost.chunk: rank for rank, cost in enumerate(self.recommended, 1)}
        also = [cost for cost in self.recommended if cost.chunk not in {one.chunk for one in self.chunks}]
        rows = [vars(cost) for cost in [*self.chunks, *also]]
        return [{**row, "rank": ranks.get(row["chunk"])} for row in rows] if ranks else rows

    def _parts(self) -> list[Part]:
        timed = bool(self.recommended)
        heads = ["chunk", "chunks, least", "most", "expected", "bytes, least", "most", "expected"]
        rows = [
            [
                shape(row["chunk"]),
                some(row["min_chunks"]),
                some(row["max_chunks"]),
                number(row["expected_chunks"]),
                size(row["min_bytes"]),
                size(row["max_bytes"]),
                size(row["expected_bytes"]),
                *([seconds(row["seconds"]), some(row["rank"])] if timed else []),
            ]
            for row in self._rows()
        ]
        grid = Grid(heads + (["time", "rank"] if timed else []), rows)
        said = [self.why] if self.why else []
        return [f"Windows of {shape(self.window)}", grid, *said, *(self.measured._parts() if self.measured else [])]


# ---- convert ----


class Conversion(Result):
    """What a conversion did, earlier interrupted runs of it included. What does not apply is None."""

    target: str
    total: int | None
    copied: int | None
    rewritten: int | None
    encoded: int | None
    kept_png: int | None
    repeated: int | None
    skipped: int | None
    resumed: int | None
    verified: int | None
    bytes_before: int | None
    bytes_after: int | None
    mean_psnr: float | None
    worst_psnr: float | None
    worst: str | None
    errors: str | None
    """The file that lists what was skipped."""
    tensors: int | None
    """Of weights."""
    arrays: int | None
    """Whose objects `total`, `resumed` and `verified` count."""
    bytes_decoded: int | None
    """With those that are decoded twice."""
    temp_bytes: int | None
    memory: int | None
    seconds: float | None
    """An estimate, of a dry run."""
    worst_change: float | None
    overflowed: int | None
    plan: str | None
    """What a dry run says."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__({**dict.fromkeys(Conversion.__annotations__), **values})

    def _parts(self) -> list[Part]:
        shown = {name: value for name, value in vars(self).items() if value and name != "target"}
        rows = [(name, size(value) if name.startswith("bytes") else some(value)) for name, value in shown.items()]
        return [self.target, Grid(("", ""), rows)]


# ---- bench and report ----

_VERDICT = ("limit", "lost_share", "knob", "value", "gain")


def _judged(values: Mapping[str, Any]) -> dict[str, Any]:
    """A row whose members of the verdict are one."""
    rest = {name: value for name, value in values.items() if name not in (*_VERDICT, "limit_share")}
    rest["verdict"] = None
    if values.get("verdict"):
        known = {name: values[name] for name in _VERDICT}
        rest["verdict"] = Verdict({**known, "limit_share": values.get("limit_share", 0.0), "text": values["verdict"]})
    return rest


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """A row without what is no single figure or text."""
    verdict = values.get("verdict")
    plain = {name: value for name, value in values.items() if not isinstance(value, (dict, list, Verdict))}
    return {**plain, "limit": verdict and verdict.limit, "verdict": verdict and verdict.text}


class Setting(Result):
    """What came of one setting of a bench. Of one that failed there is no figure."""

    label: str
    status: str
    error: str | None
    options: dict[str, Any]
    verdict: Verdict | None
    samples_per_s: float
    samples_per_s_least: float
    samples_per_s_most: float
    runs: float
    wait_mean: float
    wait_p50: float
    wait_p95: float
    wait_p99: float
    wait_max: float
    first_wait: float
    step_share: float
    step_time: float
    step_stretch: float
    cpu_s_per_1000: float
    peak_bytes: float
    bytes_read: float
    requests: float
    samples: float
    steps: float
    wall: float
    setup: float

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(_judged(values))


class Bench(Table):
    """Settings of a loader, measured beside a training step. Rates in samples/s, times in seconds."""

    settings: list[Setting]
    best: Setting | None
    baseline: Setting | None
    """The first without workers, else the first."""
    speed_up: float | None
    """Rate of the best over that of the baseline; of trainings, the ratio of their times."""
    log: str | None
    """The event log, where one was asked for: stoker.report(bench.log)."""

    def __init__(self, values: Mapping[str, Any], log: str | None) -> None:
        settings = [Setting(one) for one in values["settings"]]
        named = {one.label: one for one in settings}
        speed = values.get("speed_up_total_seconds", values.get("speed_up_samples_per_s_without_setup"))
        super().__init__(
            {
                "settings": settings,
                "best": named.get(values["best"] or ""),
                "baseline": named.get(values["baseline"] or ""),
                "speed_up": speed,
                "log": log,
            }
        )

    @property
    def verdict(self) -> Verdict | None:
        """What limits the best setting, and what to change."""
        return self.best.verdict if self.best else None

    def _rows(self) -> Sequence[Mapping[str, Any]]:
        def differs(name: str) -> bool:
            return any(one.options.get(name) != self.settings[0].options.get(name) for one in self.settings)

        swept = [name for name in self.settings[0].options if differs(name)]
        return [{**{name: one.options.get(name) for name in swept}, **_flat(vars(one))} for one in self.settings]

    def _parts(self) -> list[Part]:
        heads = ("setting", "samples/s", "wait, mean", "p95", "step share", "CPU-s/1000", "memory", "limit")
        rows = [
            (
                one.label,
                number(one.samples_per_s),
                seconds(one.wait_mean),
                seconds(one.wait_p95),
                share(one.step_share),
                number(one.cpu_s_per_1000),
                size(one.peak_bytes),
                one.verdict.limit if one.verdict else "-",
            )
            for one in self.settings
            if hasattr(one, "samples_per_s")
        ]
        failed = [f"{one.label}: {one.error}" for one in self.settings if one.error]
        said = [f"{self.best.label}: {self.best.verdict}"] if self.best and self.best.verdict else []
        return [Grid(heads, rows), *failed, *said]


class Run(Result):
    """One run of a log. Times in seconds; None where something is not known."""

    name: str
    log: str
    label: str
    verdict: Verdict
    settings: dict[str, str]
    epoch_durations: list[float]
    ledger: dict[str, dict[str, float]]
    events: dict[str, int]
    total: float | None
    setup: float | None
    epochs: int
    steps: int
    step_mean: float | None
    wait_mean: float | None
    wait_p50: float | None
    wait_p95: float | None
    wait_max: float | None
    busy_share: float | None
    samples_per_s: float | None

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(_judged(values))


class Report(Table):
    """Event logs, read: `runs`, how they compare, and one page with timelines and charts, which a notebook shows."""

    logs: list[dict[str, Any]]
    """What was read, and what of it could not be."""
    runs: list[Run]
    in_order: list[dict[str, Any]]
    comparisons: list[dict[str, Any]]
    """Each setting against the first; of several logs against that of its name in the first log."""
    html: str
    """The page."""

    def __init__(self, values: Mapping[str, Any], page: str) -> None:
        super().__init__({**values, "runs": [Run(one) for one in values["runs"]], "html": page})

    @property
    def verdict(self) -> str:
        """What limits each setting, and what to change."""
        return "\n\n".join(self._verdicts())

    def _verdicts(self) -> Iterator[str]:
        said = {run.name: run.verdict.text for run in reversed(self.runs)}
        for name in reversed(said):
            yield f"{name}: {said[name]}" if len(said) > 1 else said[name]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file."""
        Page(self.html).save(path)

    def _rows(self) -> Sequence[Mapping[str, Any]]:
        return [_flat(vars(run)) for run in self.runs]

    def _parts(self) -> list[Part]:
        heads = ("run", "wait, mean", "p50", "p95", "max", "step, mean", "step share", "samples/s", "steps", "total")
        rows = [
            (
                run.name,
                *map(seconds, (run.wait_mean, run.wait_p50, run.wait_p95, run.wait_max, run.step_mean)),
                share(run.busy_share),
                number(run.samples_per_s),
                some(run.steps),
                seconds(run.total),
            )
            for run in self.runs
        ]
        return [Grid(heads, rows), *self._verdicts(), *(one["text"] for one in self.comparisons)]

    def _repr_html_(self) -> str:
        return frame(self.html)
