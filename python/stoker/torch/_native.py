# SPDX-License-Identifier: Apache-2.0
"""Loaders that run in C, without worker processes: the order is PyTorch's, the samples are made by the library's threads."""
from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy
import torch
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler, default_collate
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.dataloader import _BaseDataLoaderIter

from stoker import _native
from stoker._loader import _as_torch
from stoker.torch._sources import Source, checked, numbers, resolve
from stoker.torch._process import check_process, uninterrupted
from stoker.torch._state import Moment, Place, generators_of, go_on, go_to, leave, length_of
from stoker.torch._translate import Unknown

_LOG = logging.getLogger("stoker")
_MOST = 1 << 20  # batches that are asked for at once


# ---- Order ----


def _drawn(sampler: Any, batch_size: int, drop_last: bool) -> tuple[Any, Callable[[], object]] | None:
    """The indices of PyTorch's own sampler in one piece, as it would draw them, and what it does at its end."""
    n = len(sampler.data_source)
    if type(sampler) is SequentialSampler:
        order: Any = numpy.arange(n)
        finish: Callable[[], object] = int
    else:
        if sampler.replacement or sampler.num_samples != n:
            return None
        generator = sampler.generator
        if generator is None:
            generator = torch.Generator()
            generator.manual_seed(int(torch.empty((), dtype=torch.int64).random_().item()))
        order = torch.randperm(n, generator=generator).numpy()

        def finish() -> object:
            return torch.randperm(n, generator=generator)
    return order[: n // batch_size * batch_size] if drop_last else order, finish


class _Order:
    """The indices of an epoch, one behind the other, of batches of one size: short ones are filled up, and `lengths` says how
    long they are; None: all are full, but perhaps the last. A sampler that gives more than its length says, perhaps without
    end, is asked for the rest by further orders: this one is of the batches from `first` up to `end` (None: the last)."""

    def __init__(self, sampler: Any, batches: Iterator[Any], first: int) -> None:
        self.first = first
        self.end: int | None = None
        self.lengths: list[int] | None = None
        self.finish: Callable[[], object] = int
        if type(sampler) is BatchSampler and type(sampler.sampler) in (SequentialSampler, RandomSampler):
            if drawn := _drawn(sampler.sampler, sampler.batch_size, sampler.drop_last):
                self.batch_size = sampler.batch_size
                self.indices, self.finish = drawn
                return
        most = min(len(sampler) + 1, _MOST)
        all_batches = [list(batch) for batch in itertools.islice(batches, most)]
        if len(all_batches) == most:
            self.end = first + most
        lengths = [len(batch) for batch in all_batches]
        self.batch_size = max(lengths, default=1)
        if 0 in lengths:
            raise ValueError("the batch_sampler gave a batch without indices")
        if any(length < self.batch_size for length in lengths[:-1]):
            self.lengths = lengths
            all_batches = [batch + batch[-1:] * (self.batch_size - len(batch)) for batch in all_batches]
        try:
            self.indices = numbers(list(itertools.chain.from_iterable(all_batches)))
        except Unknown as reason:
            raise TypeError(f"the sampler gives {reason}: native=False has Python read them") from None


# ---- Batches ----


class _Opened:
    """Where an epoch's samples come from: datasets, what they hold, and lists of indices on the way there."""

    def __init__(self, source: Source, datasets: list[_native.Dataset], maps: list[Any]) -> None:
        self.source, self.datasets, self.maps = source, datasets, maps


class _Kept:
    """What a loader keeps from epoch to epoch."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.opened: _Opened | None = None
        self.said: str | None = None
        self.batches: Batches | None = None  # of persistent workers

    def open(self, source: Source, maps: list[Any]) -> _Opened:
        if self.opened is not None and source.same(self.opened.source):
            datasets = self.opened.datasets
        else:
            datasets = [part.open() for part in source.parts]
            for dataset in datasets:
                dataset.check({"transforms": source.transforms})
        self.opened = _Opened(source, datasets, maps)
        return self.opened

    def say(self, text: str) -> None:
        if text != self.said:
            _LOG.info("%s", text)
            self.said = text


class Batches(_BaseDataLoaderIter):
    """An epoch of a loader, or with persistent workers one after another."""

    over = False  # the consumer has been told that the epoch has ended
    _workers = ()  # for who looks for the processes of PyTorch's
    place: ref[Place] | None = None

    def __init__(self, loader: Any, opened: _Opened, resumed: dict[str, Any] | None) -> None:
        begun = resumed if resumed and resumed["given"] is not None else None
        self._generators = generators_of(loader)
        if resumed and (begun is None or begun.get("made")):
            go_to(begun["made"] if begun else resumed["now"], self._generators)
        self._made: Moment | None = Moment(self._generators)
        super().__init__(loader)
        if self._timeout != 0 and self._num_workers == 0:
            raise AssertionError("timeout needs num_workers > 0")
        self._pid = os.getpid()
        self._busy_s = 0.0  # of loaders that have ended
        self._loaders: list[_native.Loader] = []
        self._epochs = 0
        if resumed and resumed["base_seed"] is not None:
            self._base_seed, self._epochs = resumed["base_seed"], resumed["epoch"]
            if begun is None:
                go_to(resumed["now"], self._generators)  # this seed had been drawn before
        self.restart(loader, opened, begun)

    def restart(self, loader: Any, opened: _Opened, begun: dict[str, Any] | None = None) -> None:
        """An epoch begins, or goes on. The draws are those of PyTorch, at the same moments."""
        self._opened, self.over, self._num_yielded = opened, False, begun["given"] if begun else 0
        self._size = len(loader.dataset)
        self._seed = self._base_seed + self._epochs
        self._options = {"epochs": "1", "timeout": str(loader.timeout), "num_workers": str(int(loader.num_workers)),
                         "transforms": opened.source.transforms}
        self._epochs += 1
        self._order: _Order | None = None
        self._start: Moment | None = None  # before the sampler draws
        self._ahead = loader.num_workers * (loader.prefetch_factor or 0)
        if begun and begun["start"]:
            go_to(begun["start"], self._generators)
        if loader.num_workers > 0:
            self._options["prefetch_factor"] = str(loader.prefetch_factor)
            self._start = Moment(self._generators)
            self._sampler_iter = iter(self._index_sampler)
            self._begin()
        elif begun and begun["start"]:
            self._begin()
        if begun:
            go_on(begun, self._generators, self._num_workers)

    def again(self, loader: Any, opened: _Opened) -> None:
        """The next epoch of persistent workers."""
        self._made = None
        self._reset(loader)
        self.restart(loader, opened)

    def state(self) -> dict[str, Any]:
        return {"given": self._num_yielded, "made": self._made and self._made.to_dict(), "base_seed": self._base_seed,
                "start": self._start and self._start.to_dict(), "epoch": self._epochs - 1}

    def rest(self) -> dict[str, Any]:
        """What goes on with the next epoch."""
        return {"base_seed": self._base_seed, "epoch": self._epochs} if self._persistent_workers else {}

    def _begin(self) -> _Order:
        """The order that the next batch is of."""
        self._close()
        self._start = self._start or Moment(self._generators)
        order = self._order
        while order is None or (order.end is not None and order.end <= self._num_yielded):
            order = _Order(self._index_sampler, self._sampler_iter, order.end or 0 if order else 0)
        self._order = order
        indices = checked(order.indices, self._size)
        for chosen in self._opened.maps:
            indices = chosen[indices]
        indices = numpy.ascontiguousarray(checked(indices, self._opened.source.size), numpy.int64)
        self._options["batch_size"] = str(order.batch_size)
        self._options["seed"] = str((self._seed + (order.first << 32)) % 2**64)
        if len(indices):
            self._loaders = [_native.Loader(dataset, self._options, indices, self._num_yielded - order.first)
                             for dataset in self._opened.datasets]
        if self._ahead:
            self._asked(order, self._num_yielded + self._ahead)
        return order

    def _next_values(self) -> list[torch.Tensor] | None:
        values: list[Any] = [None] * self._opened.source.values
        for part, loader in zip(self._opened.source.parts, self._loaders):
            fields = loader.next()
            if fields is None:
                return None
            for place, value in zip(part.places, fields):  # behind the values there is the index
                tensor = _as_torch(value)
                values[place] = tensor.squeeze(1) if part.window else tensor
        return values if self._loaders else None

    def __next__(self) -> Any:
        check_process(self._pid)
        order = self._order
        if order is None or order.end == self._num_yielded:
            order = self._begin()
        try:
            values = self._next_values()
        except _native.TimedOutError as error:
            raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds: {error}") from error
        except _native.Error as error:
            if error.sample is not None:
                error.add_note("native=False has it read in Python")
            raise
        if values is None:
            self.over = True
            self._asked(order, len(order.indices) + 1)
            self._close()
            raise StopIteration
        if order.lengths is not None:
            values = [value[: order.lengths[self._num_yielded - order.first]] for value in values]
        self._num_yielded += 1
        self._asked(order, self._num_yielded + self._ahead)
        batch = self._opened.source.collate(values)
        pin: Any = pin_memory
        return pin(batch, self._pin_memory_device) if self._pin_memory else batch

    next = __next__

    @property
    def goes_on(self) -> bool:
        """Whether there are more batches than the sampler's length says."""
        return self._order is not None and self._order.end is not None

    def _close(self) -> None:
        """End what runs: batches that are kept hold it, too."""
        self._busy_s = self.busy_s
        while self._loaders:
            self._loaders.pop().close()

    @uninterrupted(later=True)
    def __del__(self) -> None:
        leave(self)
        if hasattr(self, "_loaders"):
            self._close()

    @property
    def busy_s(self) -> float:
        """Seconds that the workers have worked, all together."""
        running: float = sum(loader.stats()["stages"]["prepare"]["busy_s"] for loader in self._loaders)
        return self._busy_s + running

    def _asked(self, order: _Order, batches: int) -> None:
        """PyTorch has asked the sampler for so many; the end of its indices is met by a batch that is not full."""
        if batches * order.batch_size > len(order.indices):
            finish, order.finish = order.finish, int
            finish()


def _refuse(loader: Any) -> None:
    if loader.batch_sampler is None:
        raise Unknown("batch_size is None")
    if loader.collate_fn is not default_collate:
        raise Unknown("collate_fn is the user's own")
    if length_of(loader.batch_sampler) is None:
        raise Unknown(f"the {'sampler' if type(loader.batch_sampler) is BatchSampler else 'batch_sampler'} has no length")
    if isinstance(loader.sampler, BatchSampler):
        raise Unknown("the sampler gives lists of indices")


_KEPT: WeakKeyDictionary[Any, _Kept] = WeakKeyDictionary()


def plan(loader: Any) -> Callable[[dict[str, Any] | None], Iterator[Any]] | str:
    """What makes an iterator of the loader that runs in C, or the reason why there is none."""
    kept = _KEPT.setdefault(loader, _Kept())
    if kept.process != os.getpid():  # a child of fork(): what is open is the parent's
        kept = _KEPT[loader] = _Kept()
    try:
        _refuse(loader)
        source, maps = resolve(loader.dataset)
        opened = kept.open(source, maps)
    except (Unknown, IndexError, _native.Error) as reason:
        kept.say(f"DataLoader: Python makes the batches, as {reason}")
        return str(reason)
    threads = f"{loader.num_workers:d} threads" if loader.num_workers else "the caller's thread"
    kept.say(f"DataLoader: {source.what} is read in C by {threads}: {source.transforms or 'no transforms'}")

    def begin(resumed: dict[str, Any] | None = None) -> Iterator[Any]:
        if not loader.persistent_workers or loader.num_workers == 0:
            return Batches(loader, opened, resumed)
        if kept.batches is None or resumed:
            kept.batches = Batches(loader, opened, resumed)
        else:
            kept.batches.again(loader, opened)
        return kept.batches

    return begin
