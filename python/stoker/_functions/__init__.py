# SPDX-License-Identifier: Apache-2.0
"""The commands that find something out, as functions. Keywords are their options, which the library checks."""
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union, Unpack

from stoker import _native
from stoker._functions.help import CHUNKS, INFO, TUNE
from stoker._keywords import add_options, option_text

if TYPE_CHECKING:
    from stoker._functions.results import Bench, Chunks, Conversion, Info, Report
    from stoker._functions.tuned import Tuned
    from stoker._options import BenchOptions, ChunksOptions, ContextOptions, ConvertOptions, InfoOptions, TuneOptions

Path = Union[str, os.PathLike[str]]
Shape = Union[str, Sequence[Union[int, None]]]


def _shape(sides: object) -> object:
    """(4, None, 64) as "4x*x64"; what is none as it is."""
    if isinstance(sides, (list, tuple)):
        return "x".join("*" if side is None else str(side) for side in sides)
    return sides


def _text(name: str, value: object) -> str:
    """The text of an option; arguments of a dataset are JSON."""
    if name == "dataset_args" and not isinstance(value, str):
        import json

        return json.dumps(value)
    return option_text(name, value)


# What a command has and a function is, or returns.
_NO_KEYWORDS = {"format": "what is returned has columns", "output": "nothing is printed",
                "html": "what is returned has the page"}


def _flags(options: Mapping[str, object]) -> list[str]:
    for name in options.keys() & _NO_KEYWORDS.keys():
        raise _native.InvalidError(f"unknown option '{name}': {_NO_KEYWORDS[name]}")
    return [f"--{name}={_text(name, value)}" for name, value in options.items() if value is not None]


def _with_files(arguments: list[str], files: Mapping[str, str], given: object = None) -> list[Any]:
    """What a command says, and the texts of the files that it writes: of each flag a name."""
    import tempfile
    from pathlib import Path as File

    from stoker._functions.command import result_of

    with tempfile.TemporaryDirectory(prefix="stoker-") as folder:
        paths = {flag: File(folder, name) for flag, name in files.items()}
        flags = [f"--{flag}={path}" for flag, path in paths.items()]
        found = result_of([arguments[0], *flags, *arguments[1:]], given, unsaid=[f"wrote {path}" for path in paths.values()])
        return [found, *(path.read_text(encoding="utf-8") for path in paths.values())]


def _with_page(arguments: list[str]) -> list[Any]:
    """What a command says, and the page that it writes."""
    return _with_files(arguments, {"html": "page.html"})


def info(path: Path | None = None, **options: Unpack[InfoOptions]) -> Info:
    """Say what a dataset, an array, a group, a checkpoint or (store=True) a store is; without a path, what there is.

    `path` is the spec of a dataset ("mnist:DIR"), a URL or a path. Of pictures some are read, of arrays with
    `stats="all"` all values. Keywords are the options of `stoker info`.

        >>> stoker.info("digits:?size=64").fields[0].shape
        (28, 28, 1)
    """
    from stoker._functions.command import result_of
    from stoker._functions.results import info_of

    where = [] if path is None else ["--", os.fspath(path)]
    found = result_of(["info", *_flags(options), *where])
    return info_of(found, named=path is not None, store=bool(options.get("store")))


def chunks(array: Path | None = None, *, window: Shape, **options: Unpack[ChunksOptions]) -> Chunks:
    """Say what windows of a chunked array cost, and recommend a chunk shape.

    Shape, data type and codec ratio are those of `array` where one is given, and `measure=True` tries the candidates on
    a sample of it; else `extent`, `dtype` and `ratio` say them. Shapes are tuples or texts, (4, 64, 64) or "4x64x64"; in
    `extent` None is an axis whose end does not matter. Keywords are the options of `stoker chunks`.

        >>> stoker.chunks(window=(64, 64), dtype="float32", store="s3").best
        (256, 256)
    """
    from stoker._functions.results import Chunks

    given: dict[str, object] = {"window": window, **options}
    for name in ("window", "extent", "stride"):
        given[name] = _shape(given.get(name))
    shapes = given.get("chunks")
    if isinstance(shapes, (list, tuple)):
        one = all(isinstance(side, int) for side in shapes)
        given["chunks"] = _shape(shapes) if one else ",".join(str(_shape(sides)) for sides in shapes)
    where = [] if array is None else ["--", os.fspath(array)]
    return Chunks(*_with_page(["chunks", *_flags(given), *where]))


def convert(source: Path, target: Path, **options: Unpack[ConvertOptions]) -> Conversion:
    """Write the data of `source` in another form, as `target` and the options say: those of `stoker convert`.

    What is complete stays, whatever happens; the same call again goes on.

        >>> stoker.convert("digits:?size=100&split=test", "digits-test").total
        100
    """
    from stoker._functions.command import result_of
    from stoker._functions.results import Conversion

    return Conversion(result_of(["convert", *_flags(options), "--", os.fspath(source), os.fspath(target)]))


_OF_BENCH = ("python", "loader", "bench")  # tables whose options may have several values


def _table_of(option: str) -> str | None:
    return next((table for table in _OF_BENCH if any(option == one[0] for one in _native.options(table))), None)


def _is_several(name: str, value: object) -> bool:
    """Whether an option has several values. A list of transforms is one; lists of them are several."""
    if not isinstance(value, (list, tuple)):
        return False
    return not name.endswith("transforms") or any(isinstance(one, (list, tuple)) for one in value)


def _apart(options: Mapping[str, object]) -> tuple[dict[str, object], dict[str, dict[str, object]]]:
    """Options of one value, which are flags, and those of several, which are a configuration."""
    lists: dict[str, dict[str, object]] = {}
    flags: dict[str, object] = {}
    for name, value in options.items():
        table = _table_of(name) if _is_several(name, value) else None
        if table and isinstance(value, (list, tuple)):
            lists.setdefault(table, {})[name] = [_text(name, one) for one in value]
        else:
            flags[name] = value
    return flags, lists


def _of_what(dataset: Path) -> list[str]:
    """The arguments that name it: what is given beside a file of settings has the last word."""
    path = os.fspath(dataset)
    return ["--config", path, "--"] if path.endswith((".yaml", ".yml")) else ["--", path]


def bench(dataset: Path, *, log: Path | None = None, **options: Unpack[BenchOptions]) -> Bench:
    """Measure settings of a loader beside a training step, and say which are best and what limits them.

    `dataset` is the spec of one, or a file NAME.yaml with all settings. An option with a list has several values, transforms
    with a list of lists: each combination is a setting, measured in a process of its own. With `log` all events are appended to that file, for
    stoker.report(). Keywords are the options of `stoker bench`. Of dataset "python:MODULE:NAME", `dataset_args` is a dict of what it is
    called with.

        >>> found = stoker.bench("digits:", num_workers=[0, 1], batch_size=64, train_step_time=0.005, min_seconds=0.5)
        >>> [setting.label for setting in found.settings]
        ['num_workers=0', 'num_workers=1']
        >>> table, verdict = found.to_dataframe, found.verdict

    A setting that fails says so in its row; the exception is raised where all do.
    """
    import logging

    from stoker._functions.command import run
    from stoker._functions.results import Bench

    flags, lists = _apart(options)
    path = None if log is None else os.fspath(log)
    found, failure = run(["bench", *_flags(flags), f"--log={path or 'none'}", *_of_what(dataset)], lists)
    rows = found["settings"] if found and "settings" in found else []
    failed = [row for row in rows if row["error"]]
    if failed and not any("samples_per_s" in row for row in rows):
        failure = _native.error(failed[0]["status"], failed[0]["error"])
    if failure and (not failed or len(failed) == len(rows)):
        raise failure
    for row in failed:
        logging.getLogger("stoker").error("%s: %s", row["label"], row["error"])
    return Bench(found, path)


TUNED = ("num_workers", "io_depth", "prefetch_factor")  # what is looked for


def _kept(name: str, value: object) -> object:
    """A list of one of what is looked for is its only value, as one without a list."""
    return value[0] if name in TUNED and isinstance(value, (list, tuple)) and len(value) == 1 else value


def tune(dataset: Path, *, log: Path | None = None, **options: Unpack[TuneOptions]) -> Tuned:
    """Find num_workers, io_depth and prefetch_factor for a dataset and a training step, in about a minute.

    `dataset` is the spec of one, or a file NAME.yaml with all settings. Some settings are measured, each in a process of its own, the
    others predicted from that, and the best measured again in turns. One value of an option that is looked for is kept, a list are the
    values to choose from. With `log` all events are appended to that file. Keywords are the options of `stoker tune`.

        >>> found = stoker.tune("digits:", batch_size=64, train_step_time=0.005, min_seconds=0.2, rounds=0, num_workers=[0, 1])
        >>> found.best.num_workers in (0, 1), found.verdict != ""
        (True, True)
        >>> found.save("tuned.yaml")    # for stoker.bench("tuned.yaml"), and `stoker bench tuned.yaml`
    """
    from stoker._functions.tuned import Tuned

    flags, lists = _apart({name: _kept(name, value) for name, value in options.items()})
    where = [*([] if log is None else [f"--log={os.fspath(log)}"]), *_of_what(dataset)]
    return Tuned(*_with_files(["tune", *_flags(flags), *where], {"output": "tuned.yaml", "html": "page.html"}, lists or None))


def report(*logs: Path, **options: Unpack[ContextOptions]) -> Report:
    """Read event logs, of stoker.bench(log=...) or of the published benchmark, and say where the time went.

    Several settings, or several logs, are compared. A notebook shows the page; `save(path)` writes it.

        >>> report = stoker.report("before.jsonl", "after.jsonl")
        >>> report.runs[0].samples_per_s, print(report.verdict)
    """
    from stoker._functions.results import Report

    return Report(*_with_page(["report", *_flags(options), "--", *(os.fspath(log) for log in logs)]))


add_options(info, "survey", "context", own=INFO)
add_options(chunks, "context", own=CHUNKS)
add_options(convert, "convert", "images", "arrays", "packed", "squashfs", "weights", "context")
add_options(bench, *_OF_BENCH, "context")
add_options(tune, "tune", "python", "loader", "context", own=TUNE)
add_options(report, "context")
