# SPDX-License-Identifier: Apache-2.0
"""Batches of a dataset, as a loop of Python takes them."""
from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Unpack

import numpy

from stoker import _memory, _native, _ranks
from stoker._keywords import add_options, option_text, whole

if TYPE_CHECKING:
    from stoker._functions.view import LoopVerdict, Stats
    from stoker._options import LoaderOptions


class Ragged(NamedTuple):
    """A field whose samples differ in size: sample i is values[offsets[i]:offsets[i + 1]]."""

    values: Any
    offsets: Any


def _as_numpy(tensor: _native.Tensor) -> Any:
    return numpy.asarray(tensor)


def _as_torch(tensor: _native.Tensor) -> Any:
    import torch

    array = numpy.asarray(tensor)
    if tensor.dtype == "bfloat16":
        return torch.from_numpy(array.view(numpy.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _as_jax(tensor: _native.Tensor) -> Any:
    import jax

    return jax.dlpack.from_dlpack(tensor)


def _as_is(tensor: _native.Tensor) -> Any:
    return tensor


_OUTPUTS: dict[str, Callable[[_native.Tensor], Any]] = {
    "numpy": _as_numpy,
    "torch": _as_torch,
    "jax": _as_jax,
    "dlpack": _as_is,
}


class Loader:
    """Batches of a dataset, in an order that depends on nothing but its options.

    `dataset` is the spec of one, as the command takes it ("mnist:DIR", "images:DIR", "array:URL?..."), a path, or what lies in
    memory: an array, or a tuple or dict of them, of which the first dimension counts the samples; nothing is copied; or
    windows of xarray (stoker.xarray). The other keywords are the options below; transforms may be objects of stoker.transforms. A loop over the loader is one
    epoch; the next loop is the next epoch. A batch is a dict from a field's name to its array, [rows, ...], or with
    `as_tuple` a tuple in the order of `fields`. `output` is "numpy", "torch", "jax", "dlpack" (objects for any
    from_dlpack()), or "arrow": then a batch is one object for libraries of Arrow, as pyarrow.record_batch(batch).

    Arrays lie in the loader's memory, without a copy, and may be written. The memory goes back when the last view of a
    batch is gone; who keeps every batch gets memory beyond `memory_budget`, after one warning. bfloat16 is seen as uint16
    by NumPy.

    Without `rank` and `world_size` they are those of torch.distributed, where it was begun before, else those that torchrun,
    mpirun, srun or `stoker launch` say in the environment: each process reads its part of every batch.

    One thread at a time. Waiting lets other threads of Python run, and Ctrl-C ends it.
    """

    def __init__(self, dataset: _memory.Given, *, output: str = "numpy", as_tuple: bool = False,
                 **options: Unpack[LoaderOptions]) -> None:
        if output not in _OUTPUTS and output != "arrow":
            raise _native.InvalidError(f"output is {output!r}: give one of {', '.join([*_OUTPUTS, 'arrow'])}")
        if output == "arrow" and as_tuple:
            raise _native.InvalidError('as_tuple does nothing with output="arrow", whose batches are record batches: leave it out')
        texts = {name: option_text(name, value) for name, value in options.items() if value is not None}
        if not {"rank", "world_size"} & texts.keys():
            texts.update(zip(("rank", "world_size"), map(str, _ranks.place())))
        self._native = _native.Loader(_memory.dataset(dataset), texts)
        self._convert = _OUTPUTS.get(output, _as_is)
        self._arrow = output == "arrow"
        self._as_tuple = as_tuple
        names: tuple[str, ...] = getattr(dataset, "fields", ())  # of stoker.xarray.Windows
        self._fields = names + self._native.fields[len(names):]
        twice = [name for i, name in enumerate(self._fields) if name in self._fields[:i]]
        if twice and not as_tuple:
            raise _native.InvalidError(f"a batch has a field {twice[0]!r} of its own: give yours another name, or as_tuple=True")
        if self._arrow and self._fields != self._native.fields:
            raise _native.InvalidError(f"the field {self._native.fields[0]!r} cannot be named {self._fields[0]!r} in Arrow: take another output")
        self._loops = 0
        self._current: int | None = None  # the epoch of a loop that has begun and not ended

    def _value(self, field: Any) -> Any:
        if isinstance(field, tuple):
            return Ragged(self._convert(field[0]), self._convert(field[1]))
        return self._convert(field)

    def __iter__(self) -> Iterator[Any]:
        epoch, step = self._native.position
        if self._current is not None:  # it was left early: as everywhere, the next loop is another epoch
            self._native.set_epoch(self._current + 1)
        elif step >= self._native.steps:  # a state behind the last batch
            self._native.set_epoch(epoch + 1)
        self._current = self._native.position[0]
        self._native.start_meter()
        self._loops += 1
        return self._epoch(self._loops)

    def _epoch(self, loop: int) -> Iterator[Any]:
        native = self._native
        try:
            while (fields := self._next(loop)) is not None:
                if self._arrow:
                    yield fields
                    del fields
                    continue
                values = tuple(map(self._value, fields))
                del fields
                yield values if self._as_tuple else dict(zip(self._fields, values))
                del values
            self._current = None
        finally:
            if loop == self._loops:  # else another has begun, and is measured
                native.stop_meter()

    def _next(self, loop: int) -> Any:
        if loop != self._loops:  # which would take batches from the other
            raise RuntimeError("another loop over this loader has begun: this one is over. Two at once need two loaders")
        return self._native.next_arrow() if self._arrow else self._native.next()

    def __len__(self) -> int:
        """Batches of an epoch."""
        return self._native.steps

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields of a batch, in their order."""
        return self._fields

    @property
    def num_samples(self) -> int:
        """Samples of the dataset."""
        return self._native.size

    def set_epoch(self, epoch: int) -> None:
        """The next loop is epoch `epoch`, from 0, from its start."""
        self._native.set_epoch(whole("epoch", epoch, 0))
        self._current = None

    def state_dict(self) -> dict[str, str]:
        """The place behind the batch that was taken last, whatever the number of workers. Plain text, made in O(1)."""
        return {"loader": self._native.state()}

    def load_state_dict(self, state: dict[str, str]) -> None:
        """Go on behind a state_dict(): the next loop gives the rest of its epoch. O(1)."""
        if not isinstance(state, dict) or not isinstance(state.get("loader"), str):
            raise _native.InvalidError("this is not a state of stoker.Loader")
        self._native.restore(state["loader"])
        self._current = None

    def stats(self) -> Stats:
        """Counters since the loader was made; times in seconds."""
        from stoker._functions.view import Stats

        return Stats(self._native.stats())

    def verdict(self) -> LoopVerdict:
        """What limits the loop that runs, or ran last, and what to change; what it does between two batches is its step.
        Epochs that follow each other are one loop.

            for batch in loader:
                train(batch)
            print(loader.verdict())
        """
        from stoker._functions.view import LoopVerdict

        return LoopVerdict(self._native.judge())

    def close(self) -> None:
        """End threads and memory. Batches that are kept stay valid. Twice does no harm."""
        self._native.close()

    def __enter__(self) -> Loader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


add_options(Loader, "loader")
