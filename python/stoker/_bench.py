# SPDX-License-Identifier: Apache-2.0
"""main(), with the arguments FD SETTING: measure one setting of `stoker bench` in the interpreter that has its dataset.

The command starts it in place of a run of its own (stk_bench_exec()). What is measured, and how, is the library's
(stk_bench_run()); here a dataset of Python, or a step, is made, and its loader feeds it.
"""
from __future__ import annotations

import inspect
import json
import mmap
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from stoker import _native
from stoker._batch import rows_of
from stoker._keywords import option_text
from stoker._loader import Loader
from stoker._named import Mistyped, named

if TYPE_CHECKING:
    from stoker.dask import Dask

_PREFIX = "python:"
_SLOT = 4  # numbers of a worker: samples, wall and CPU time within them, CPU time in all; nanoseconds
_SHORT = 20_000  # samples that take less on average are looked at one in ...
_SPARSE = 16
_HEAP = 1 << 9  # a class that Python code has made (Py_TPFLAGS_HEAPTYPE)


def _arguments(text: str | None) -> tuple[list[Any], dict[str, Any]]:
    """What dataset_args say."""
    try:
        given = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        raise Mistyped(f"dataset_args is no JSON: {text}: {error}") from None
    if isinstance(given, list):
        return given, {}
    if not isinstance(given, dict):
        raise Mistyped(f"dataset_args is {text}: give an object of keywords, or a list")
    return [], given


def _made(spec: str, arguments: str | None) -> Any:
    """The dataset: what the name is called with `arguments`, or what it is."""
    found = named(spec.removeprefix(_PREFIX))
    positional, keywords = _arguments(arguments)
    if not callable(found):
        if positional or keywords:
            raise Mistyped(f"dataset_args are for a class or a function, and {spec} is an object: leave them out")
        return found
    try:
        signature = inspect.signature(found)
    except ValueError:  # of some of C it is not known
        return found(*positional, **keywords)
    try:
        signature.bind(*positional, **keywords)
    except TypeError as error:
        raise Mistyped(f"dataset_args do not fit {found.__name__}{signature}: {error}") from None
    return found(*positional, **keywords)


def _step(options: dict[str, Any]) -> Callable[[Any], Any]:
    function: Callable[[Any], Any] = named(options["step"].removeprefix(_PREFIX))
    if not callable(function):
        raise Mistyped(f"bench.step: {options['step']} is a {type(function).__name__}: name a function of a batch")
    return function


def _dask(options: dict[str, Any]) -> Dask | None:
    """Where Dask computes; a cluster that is shared runs before there are workers."""
    names = ("dask_workers", "dask_threads", "dask_memory_limit", "dask_dashboard_port")
    given = {name: options[name] for name in names if options[name]}
    if not options["dask"]:
        if given or options["dask_shared"]:
            raise Mistyped(f"{[*given, 'dask_shared'][0]} is for dask: local-cluster alone")
        return None
    from stoker.dask import Dask

    try:
        made = Dask(options["dask"], shared=options["dask_shared"], **given)
    except _native.InvalidError as error:
        raise Mistyped(str(error)) from None
    if options["dask_shared"]:
        made.start()
    return made


# ---- What workers do ----------------------------------------------------------------------------------------------


class _Board:
    """Memory that workers of any kind share with the loop: the epoch, and what each of them has done."""

    def __init__(self, workers: int) -> None:
        size = 8 * _SLOT * (workers + 2)
        fd = os.memfd_create("stoker-bench")
        os.truncate(fd, size)
        self.path = f"/proc/{os.getpid()}/fd/{fd}"
        self.numbers = memoryview(mmap.mmap(fd, size)).cast("Q")
        self.workers = workers

    def busy(self) -> float:
        """Seconds that workers were in samples, or computed outside of them."""
        total = 0
        for slot in range(1, self.workers + 2):
            _, wall, cpu, all_cpu = self.numbers[_SLOT * slot:_SLOT * (slot + 1)]
            total += wall + max(0, all_cpu - cpu)
        return total / 1e9


class _Watch:
    """Times the samples of a dataset in the process that makes them. `worker` -1 is the loop's own."""

    def __init__(self, board: str, log: str | None, worker: int) -> None:
        with open(board, "r+b") as file:
            self._numbers = memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")
        self._log = _native.SampleLog(log) if log else None
        self._worker = worker
        self._slot = _SLOT * (worker + 2)
        self._inside = False
        self._skip = 0
        self._count = 0

    def call(self, make: Callable[[], Any], index: Any, samples: int = 1) -> Any:
        if self._inside or self._skip > 0:
            self._skip -= not self._inside
            return make()
        self._inside = True
        start, cpu = time.monotonic_ns(), time.process_time_ns()
        try:
            return make()
        finally:
            self._inside = False
            self._note(index, samples, start, cpu)

    def _note(self, index: Any, samples: int, start: int, cpu: int) -> None:
        end, cpu_end = time.monotonic_ns(), time.process_time_ns()
        numbers, at = self._numbers, self._slot
        times = 1
        if self._log:
            self._log.sample(numbers[0], index if isinstance(index, int) and index >= 0 else self._count,
                             self._worker, start, end)
        elif end - start < _SHORT * samples:
            times, self._skip = _SPARSE, _SPARSE - 1
        self._count += samples
        numbers[at] += times * samples
        numbers[at + 1] += times * (end - start)
        numbers[at + 2] += times * (cpu_end - cpu)
        numbers[at + 3] = cpu_end if self._worker >= 0 else 0

    def over(self, dataset: Any) -> None:
        """From here on: the class does it, as some loaders look at the type of a dataset. Those of C stay as they are."""
        kind = type(dataset)
        if not kind.__flags__ & _HEAP:
            return
        for name in ("__getitem__", "__getitems__", "__iter__"):
            inner = getattr(kind, name, None)
            if inner is not None:
                setattr(kind, name, getattr(self, "_" + name.strip("_"))(inner))

    def _getitem(self, inner: Any) -> Any:
        return lambda dataset, index: self.call(lambda: inner(dataset, index), index)

    def _getitems(self, inner: Any) -> Any:
        return lambda dataset, indices: self.call(lambda: inner(dataset, indices), indices[0], len(indices))

    def _iter(self, inner: Any) -> Any:
        end = object()

        def samples(dataset: Any) -> Iterator[Any]:
            iterator = iter(inner(dataset))
            while (sample := self.call(lambda: next(iterator, end), None)) is not end:
                yield sample

        return samples

    def close(self) -> None:
        if self._log:
            self._log.close()


class _WorkerInit:
    """`worker_init_fn`: each worker tells what it does, and computes with Dask as it is told."""

    def __init__(self, board: str, log: str | None, dask: Dask | None) -> None:
        self._board, self._log, self._dask = board, log, dask

    def __call__(self, worker: int) -> None:
        import multiprocessing.util
        import torch.utils.data

        info = torch.utils.data.get_worker_info()
        assert info is not None
        if self._dask:
            self._dask(worker)
        watch = _Watch(self._board, self._log, worker)
        watch.over(info.dataset)
        multiprocessing.util.Finalize(None, watch.close, exitpriority=100)


# ---- The loop -----------------------------------------------------------------------------------------------------


def _nothing(_: int) -> None:
    pass


def _torch() -> Any:
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise Mistyped(f"a dataset or step of Python needs PyTorch, which {sys.executable} lacks: install torch there, or name another "
                       "interpreter (--python)") from None
    return torch


class _Feed:
    """What the library's run calls: stk_bench_feed, and the step."""

    def __init__(self, options: dict[str, Any], log: str | None) -> None:
        workers = options["num_workers"]
        self.options = options
        self.workers = workers if isinstance(workers, int) and workers >= 0 else _native.cores()[1]
        self.board = _Board(self.workers)
        self.log = log
        self.past_busy = 0.0  # of loops before, without workers of Python
        self.watch: _Watch | None = None
        self.step_function: Callable[[Any], Any] | None = None
        self.no_step: Exception | None = None  # why there is none
        self.dataset: Any = None
        self.dask: Dask | None = None
        self.loader: Any = None
        self.batches: Iterator[Any] | None = None
        self.batch: Any = None

    def take_step(self) -> int:
        """The step, and how many threads it has."""
        try:
            torch = _torch()
            self.step_function = _step(self.options)
        except Exception as error:  # open() says so
            self.no_step = error
            return 1
        threads: int = torch.get_num_threads()
        return threads

    def open(self, _: int) -> None:
        if self.no_step:
            raise self.no_step
        if (self.options["dataset"] or "").startswith(_PREFIX):
            _torch().manual_seed(self.options["seed"])
            self.dask = _dask(self.options)
            self.dataset = _made(self.options["dataset"], self.options["dataset_args"])

    def _make(self) -> Any:
        options = self.options
        if self.dataset is None:
            given = {name: options[name] for name, *_ in _native.options("loader")}
            return Loader(options["dataset"], **given, output="torch")
        import torch.utils.data

        if isinstance(self.dataset, torch.utils.data.DataLoader):
            raise Mistyped(f"{options['dataset']} is a DataLoader: give its dataset")
        if not any(hasattr(self.dataset, name) for name in ("__getitem__", "__getitems__", "__iter__")):
            raise Mistyped(f"{options['dataset']} is a {type(self.dataset).__name__}: a dataset has __getitem__ or __iter__")
        keywords: dict[str, Any] = {
            name: options[name] for name in ("batch_size", "drop_last", "pin_memory", "in_order")}
        if options["shuffle"] not in (True, False, "true", "false"):
            raise Mistyped(f"shuffle: {options['shuffle']}: loaders of Python have true and false")
        keywords["shuffle"] = options["shuffle"] in (True, "true")
        if self.workers:
            context = options["multiprocessing_context"]
            keywords |= {
                "num_workers": self.workers, "prefetch_factor": options["prefetch_factor"],
                "persistent_workers": options["persistent_workers"], "timeout": options["timeout"] or 0,
                "multiprocessing_context": None if context == "auto" else context,
                "worker_init_fn": _WorkerInit(self.board.path, self.log, self.dask)}
        else:
            if self.dask:
                self.dask()
            self.watch = _Watch(self.board.path, self.log, -1)
            self.watch.over(self.dataset)
        if options["loader"] == "torch":
            return torch.utils.data.DataLoader(self.dataset, **keywords)
        from stoker.torch import DataLoader

        native = options["native"]
        return DataLoader(self.dataset, **keywords, rng=options["rng"],
                          native=native if native == "auto" else native == "true")

    def begin(self, epoch: int) -> None:
        before = self._busy_of_loop()
        self.batches = self.batch = None
        if self.loader is None:
            self.loader = self._make()
        self.board.numbers[0] = epoch
        for told in (self.loader if self.dataset is None else None, getattr(self.loader, "sampler", None)):
            getattr(told, "set_epoch", _nothing)(epoch)
        self.batches = iter(self.loader)
        if self._busy_of_loop() < before:  # it is another one
            self.past_busy += before

    def _busy_of_loop(self) -> float:
        """What the library's threads have worked for the loop that runs; other workers tell themselves."""
        if isinstance(self.loader, Loader):
            return self.loader.stats().stages["prepare"]["busy_s"]
        busy: float = getattr(self.batches, "busy_s", 0.0)
        return busy

    def next(self, _: int) -> int:
        assert self.batches is not None
        self.batch = None
        try:
            self.batch = next(self.batches)
        except StopIteration:
            return -1
        if self.dataset is None:  # as PyTorch's has it
            self.batch = [values for name, values in self.batch.items() if name != "index"]
        rows = rows_of(self.batch)
        return int(self.options["batch_size"]) if rows is None else rows

    def end(self, _: int) -> None:
        """The batch of now is had again and again: no worker is needed any more."""
        if isinstance(self.loader, Loader):
            self.loader.close()
        self.batches = self.loader = None

    def step(self, _: int) -> None:
        assert self.step_function is not None
        self.step_function(self.batch)

    def look(self) -> tuple[int, int, int, bool, bool, float, int]:
        try:
            steps = len(self.loader)
        except TypeError:
            steps = 0
        options = self.options
        return (steps, self.workers, options["prefetch_factor"] if self.workers else 0, options["pin_memory"],
                options["persistent_workers"], self.board.busy() + self.past_busy + self._busy_of_loop(),
                self.loader.stats().memory_budget if isinstance(self.loader, Loader) else 0)

    def tell(self, error: BaseException) -> str:
        """Show where it came from; what it is, in a line."""
        if isinstance(error, Mistyped):
            return str(error)
        traceback.print_exception(error)
        lines = [line for line in f"{type(error).__name__}: {error}".splitlines() if line]
        return lines[0] if len(lines) == 1 else f"{lines[0]} {lines[-1]}"

    def close(self) -> None:
        self.end(0)
        self.batch = None
        if self.watch:
            self.watch.close()
        if self.dask:
            self.dask.close()


def _interrupt(signum: int, frame: object) -> None:
    raise KeyboardInterrupt


def _check(setting: dict[str, Any]) -> None:
    sizes = _native.bench_sizes()
    if setting["version"] != _native.__version__ or sizes != (setting["result_bytes"], setting["figures_bytes"]):
        sys.exit(f"stoker: the package stoker of {sys.executable} is {_native.__version__}, and not of the command "
                 f"({setting['version']}): install the same, or name another interpreter (--python)")


def measure(setting: dict[str, Any]) -> bytes:
    """Result and figures of one setting, as the command reads them."""
    options = setting["options"]
    log = setting["log"] or None
    feed = _Feed(options, None if setting["log_summary"] else log)
    threads = feed.take_step() if (options["step"] or "").startswith(_PREFIX) else 0
    texts = {table: {name: option_text(name, options[name]) for name, *_ in _native.options(table)
                     if options.get(name) is not None} for table in ("bench", "loader")}
    try:
        return _native.bench_run(
            feed, texts["bench"], texts["loader"], label=setting["label"], about=setting["about"], log=log,
            number=setting["number"], repeat=setting["repeat"], free_data=setting["free_data"],
            log_summary=setting["log_summary"], step_threads=threads)
    finally:
        feed.close()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command tells of an interrupt
    signal.signal(signal.SIGTERM, _interrupt)
    fd, setting = int(sys.argv[1]), json.loads(sys.argv[2])
    os.set_inheritable(fd, False)
    os.dup2(2, 1)  # what a dataset prints is no part of the table
    _check(setting)
    with open(fd, "wb") as pipe:
        pipe.write(measure(setting))
