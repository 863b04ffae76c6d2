# SPDX-License-Identifier: Apache-2.0
"""Loaders that run in C, without worker processes: the order is PyTorch's, the samples are made by the library's threads."""
from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

import numpy
import torch
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler, default_collate
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.dataloader import _BaseDataLoaderIter

from stoker import _native
from stoker._loader import _as_torch
from stoker.torch._sources import Source, checked, numbers, resolve
from stoker.torch._state import Moment, generators_of, go_to
from stoker.torch._translate import Unknown

_LOG = logging.getLogger("stoker")


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
    long they are; None: all are full, but perhaps the last."""

    def __init__(self, sampler: Any, batches: Iterator[Any]) -> None:
        self.lengths: list[int] | None = None
        self.finish: Callable[[], object] = int
        if type(sampler) is BatchSampler and type(sampler.sampler) in (SequentialSampler, RandomSampler):
            if drawn := _drawn(sampler.sampler, sampler.batch_size, sampler.drop_last):
                self.batch_size = sampler.batch_size
                self.indices, self.finish = drawn
                return
        all_batches = [list(batch) for batch in batches]
        lengths = [len(batch) for batch in all_batches]
        self.batch_size = max(lengths, default=1)
        if 0 in lengths:
            raise ValueError("the batch_sampler gave a batch without indices")
        if any(length < self.batch_size for length in lengths[:-1]):
            self.lengths = lengths
            all_batches = [batch + batch[-1:] * (self.batch_size - len(batch)) for batch in all_batches]
        self.indices = numbers(list(itertools.chain.from_iterable(all_batches)))


# ---- Batches ----


class _Kept:
    """What a loader keeps from epoch to epoch."""

    def __init__(self) -> None:
        self.source: Source | None = None
        self.opened: list[_native.Dataset] = []
        self.said: str | None = None
        self.batches: Batches | None = None  # of persistent workers

    def open(self, source: Source) -> list[_native.Dataset]:
        if self.source is None or not source.same(self.source):
            opened = [part.open() for part in source.parts]
            for dataset in opened:
                dataset.check({"transforms": source.transforms})
            self.opened, self.source = opened, source
        return self.opened

    def say(self, text: str) -> None:
        if text != self.said:
            _LOG.info("%s", text)
            self.said = text


class Batches(_BaseDataLoaderIter):
    """An epoch of a loader, or with persistent workers one after another."""

    def __init__(self, loader: Any, datasets: list[_native.Dataset], source: Source, maps: list[Any]) -> None:
        super().__init__(loader)
        self._busy_s = 0.0  # of loaders that have ended
        self._epochs = self._given = 0
        self._generators = generators_of(loader)
        self._start: Moment | None = None  # before the order is drawn
        self._restart(loader, datasets, source, maps)

    def _restart(self, loader: Any, datasets: list[_native.Dataset], source: Source, maps: list[Any]) -> None:
        """The draws that follow are those of PyTorch, at the same moments."""
        self._datasets, self._source, self._maps = datasets, source, maps
        self._size = len(loader.dataset)
        self._options = {"epochs": "1", "seed": str((self._base_seed + self._epochs) % 2**64), "timeout": str(loader.timeout),
                         "num_workers": str(loader.num_workers), "transforms": source.transforms}
        if loader.num_workers > 0:
            self._options["prefetch_factor"] = str(loader.prefetch_factor)
            self._sampler_iter = iter(self._index_sampler)
        self._loaders: list[_native.Loader] = []
        self._order: _Order | None = None  # drawn with the first batch, or by workers' loaders when they begin
        self._num_yielded = self._given
        self._epochs += 1
        if loader.num_workers > 0:
            self._begin()

    def _begin(self) -> _Order:
        self._start = Moment(self._generators)
        self._order = order = _Order(self._index_sampler, self._sampler_iter)
        indices = checked(order.indices, self._size)
        for chosen in self._maps:
            indices = chosen[indices]
        indices = numpy.ascontiguousarray(checked(indices, self._source.size), numpy.int64)
        self._options["batch_size"] = str(order.batch_size)
        if len(indices):
            self._loaders = [_native.Loader(dataset, self._options, indices, self._given) for dataset in self._datasets]
        return order

    def state(self) -> dict[str, Any]:
        return {"given": self._num_yielded, "start": self._start and self._start.to_dict(), "base_seed": self._base_seed,
                "epoch": self._epochs - 1}

    def rest(self) -> dict[str, Any]:
        """What goes on with the next epoch."""
        return {"base_seed": self._base_seed, "epoch": self._epochs} if self._persistent_workers else {}

    def resume(self, loader: Any, state: dict[str, Any]) -> None:
        """Go on behind the batches that were given before, or with the next epoch of persistent workers."""
        if state["base_seed"] is None:
            return
        moment = state["now"] if state["given"] is None else state["start"]
        if moment:
            go_to(moment, self._generators)
        self._base_seed, self._epochs, self._given = state["base_seed"], state["epoch"], state["given"] or 0
        self._restart(loader, self._datasets, self._source, self._maps)
        if self._order is None and state["start"]:
            self._begin()
        self._given = 0
        if state["given"] is not None:
            go_to(state["now"], self._generators)

    def _next_values(self) -> list[torch.Tensor] | None:
        values: list[Any] = [None] * self._source.values
        for part, loader in zip(self._source.parts, self._loaders):
            fields = loader.next()
            if fields is None:
                return None
            for place, value in zip(part.places, fields):  # behind the values there is the index
                tensor = _as_torch(value)
                values[place] = tensor.squeeze(1) if part.window else tensor
        return values if self._loaders else None

    def __next__(self) -> Any:
        order = self._order or self._begin()
        try:
            values = self._next_values()
        except _native.Error as error:
            if error.sample is not None:
                error.add_note("native=False has it read in Python")
            raise
        if values is None:
            self._end(order)
            raise StopIteration
        if order.lengths is not None:
            values = [value[: order.lengths[self._num_yielded]] for value in values]
        self._num_yielded += 1
        batch = self._source.collate(values)
        pin: Any = pin_memory
        return pin(batch, self._pin_memory_device) if self._pin_memory else batch

    next = __next__

    def _end(self, order: _Order) -> None:
        finish, order.finish = order.finish, int
        finish()
        self._busy_s = self.busy_s
        while self._loaders:
            self._loaders.pop().close()

    @property
    def busy_s(self) -> float:
        """Seconds that the workers have worked, all together."""
        running: float = sum(loader.stats()["stages"]["prepare"]["busy_s"] for loader in self._loaders)
        return self._busy_s + running


def _refuse(loader: Any) -> None:
    if loader.batch_sampler is None:
        raise Unknown("batch_size is None")
    if loader.collate_fn is not default_collate:
        raise Unknown("collate_fn is the user's own")
    if not hasattr(loader.batch_sampler, "__len__"):
        raise Unknown("the batch_sampler has no length")
    if type(loader.batch_sampler) is BatchSampler and not hasattr(loader.batch_sampler.sampler, "__len__"):
        raise Unknown("the sampler has no length")


_KEPT: WeakKeyDictionary[Any, _Kept] = WeakKeyDictionary()


def plan(loader: Any) -> Callable[[], Iterator[Any]] | str:
    """What makes an iterator of the loader that runs in C, or the reason why there is none."""
    kept = _KEPT.setdefault(loader, _Kept())
    try:
        _refuse(loader)
        source, maps = resolve(loader.dataset)
        datasets = kept.open(source)
    except (Unknown, IndexError, _native.Error) as reason:
        kept.say(f"DataLoader: Python makes the batches, as {reason}")
        return str(reason)
    threads = f"{loader.num_workers} threads" if loader.num_workers else "the caller's thread"
    kept.say(f"DataLoader: {source.what} is read in C by {threads}: {source.transforms or 'no transforms'}")

    def begin() -> Iterator[Any]:
        if loader.persistent_workers and loader.num_workers > 0:
            if kept.batches is None:
                kept.batches = Batches(loader, datasets, source, maps)
            else:
                kept.batches._reset(loader)
                kept.batches._restart(loader, datasets, source, maps)
            return kept.batches
        return Batches(loader, datasets, source, maps)

    return begin
