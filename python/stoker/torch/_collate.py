# SPDX-License-Identifier: Apache-2.0
"""PyTorch's default_collate by construction: samples are written to their place in the batch.

The first sample of a batch says what the batch is, as in default_collate: a column for each of its values. Samples are then
given in groups, and arrays and tensors leave them at once for the slab. What is not among the common types goes through
default_collate itself, and its tensors are copied.

Small samples of arrays and numbers are mostly like those of the batch before: they are written by one call, which looks at each
of them, and the batch has the same skeleton.
"""
from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy
import torch
from torch.utils.data import default_collate
from torch.utils.data._utils import collate as _torch
from torch.utils.data._utils import worker as _torch_worker

from stoker import _native
from stoker.torch._message import DTYPES, INLINE, Placed, Skeleton, Writer, plain, tensor_at

_GROUP = 1 << 18  # bytes of samples between two writes: they are still in the cache
_MOST = 16  # columns that are written by one call

_STANDARD = dict(_torch.default_collate_fn_map)
_OF_ARRAYS: dict[numpy.dtype[Any], torch.dtype] = {
    numpy.dtype(code): torch.from_numpy(numpy.empty(0, code)).dtype
    for code in ("?", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16")
}
_OF_NUMBERS: dict[type, tuple[str, torch.dtype]] = {
    int: ("q", torch.int64), float: ("d", torch.float64), bool: ("?", torch.bool),
}
_PROBE = numpy.zeros((3, 5, 7), "u2")[1:, ::2]
_native.know_arrays(_PROBE, type(_PROBE).__basicsize__, _PROBE.ctypes.data, _PROBE.shape, _PROBE.dtype, _PROBE.flags.num)


def is_standard(function: object) -> bool:
    """Whether this is default_collate, and what it does for a type has not been changed."""
    return function is default_collate and _torch.default_collate_fn_map == _STANDARD


@contextmanager
def _no_worker() -> Iterator[None]:
    """default_collate allocates in /dev/shm where it finds itself in a worker."""
    info = _torch_worker._worker_info
    _torch_worker._worker_info = None
    try:
        yield
    finally:
        _torch_worker._worker_info = info


class _Column:
    """What default_collate makes of values of any type, all at once."""

    size = 0

    def __init__(self) -> None:
        self.values: list[Any] = []

    def add(self, values: Sequence[Any]) -> None:
        self.values.extend(values)

    def value(self, in_sequence: bool) -> Any:
        with _no_worker():
            return default_collate(tuple(self.values) if in_sequence else self.values)  # type: ignore[arg-type]


class _Numbers(_Column):
    """Numbers of one type, which `stack` writes: of the kind, or as the first of them, that `like` says."""

    def __init__(self, stack: Callable[..., bool], like: Any, dtype: torch.dtype, rows: int, writer: Writer) -> None:
        super().__init__()
        code, bits = DTYPES[dtype]
        self.stack, self.like, self.writer, self.rows = stack, like, writer, rows
        self.place = (writer.reserve(rows * bits // 8), code, bits)

    def value(self, in_sequence: bool) -> Any:
        count = len(self.values)
        if count <= self.rows and self.stack(self.values, self.like, self.writer.open(), self.place[0]):
            return Placed((*self.place, (count,)))
        return super().value(in_sequence)


class _Tensors:
    """Rows of one shape and type, in the slab."""

    def __init__(self, first: Any, dtype: torch.dtype, size: int, rows: int, writer: Writer) -> None:
        self.size, self.dtype, self.shape = size, dtype, tuple(first.shape)
        self.first, self.writer, self.rows = first, writer, rows
        self.offset = writer.reserve(rows * size)
        self.count = 0

    def _out(self, rows: int) -> torch.Tensor:
        return tensor_at(self.writer.open(), (self.offset + self.count * self.size, *DTYPES[self.dtype], (rows, *self.shape)))

    def add(self, values: Sequence[Any]) -> None:
        """As torch.stack says, which names what does not fit."""
        for value in values:
            if tuple(value.shape) != self.shape:
                torch.stack([torch.empty(self.shape, dtype=self.dtype), value])
        torch.stack(tuple(values), 0, out=self._out(len(values)))
        self.count += len(values)

    def value(self, in_sequence: bool) -> Any:
        return Placed((self.offset, *DTYPES[self.dtype], (self.count, *self.shape)))


class _Arrays(_Tensors):
    def add(self, values: Sequence[Any]) -> None:
        at = self.offset + self.count * self.size
        if _native.stack_arrays(values, self.first, self.writer.open(), at):
            self.count += len(values)
        else:
            super().add([torch.as_tensor(value) for value in values])


class _Fields:
    """The columns of a tuple, a named tuple or a list."""

    def __init__(self, sample: Any, rows: int, writer: Writer) -> None:
        self.kind = type(sample)
        self.named = hasattr(sample, "_fields")
        self.fields = [_column(value, rows, writer) for value in sample]
        self.size = sum(field.size for field in self.fields)

    def add(self, values: Sequence[Any]) -> None:
        length = len(self.fields)
        if not self.named and set(map(len, values)) != {length}:
            raise RuntimeError("each element in list of batch should be of equal size")
        for field, column in zip(self.fields, zip(*values)):
            field.add(column)

    def value(self, in_sequence: bool) -> Any:
        values = [field.value(True) for field in self.fields]
        return self.kind(*values) if self.named else values


class _Keys:
    def __init__(self, sample: Any, rows: int, writer: Writer) -> None:
        self.fields = {key: _column(value, rows, writer) for key, value in sample.items()}
        self.size = sum(field.size for field in self.fields.values())

    def add(self, values: Sequence[Any]) -> None:
        for key, field in self.fields.items():
            field.add([value[key] for value in values])

    def value(self, in_sequence: bool) -> Any:
        return {key: field.value(False) for key, field in self.fields.items()}


def _column(sample: Any, rows: int, writer: Writer) -> Any:
    kind = type(sample)
    if kind in _OF_NUMBERS:
        return _Numbers(_native.stack_numbers, *_OF_NUMBERS[kind], rows, writer)
    if isinstance(sample, (numpy.number, numpy.bool_)) and sample.dtype in _OF_ARRAYS:
        return _Numbers(_native.stack_arrays, sample, _OF_ARRAYS[sample.dtype], rows, writer)
    if kind is numpy.ndarray and sample.dtype in _OF_ARRAYS:
        return _Arrays(sample, _OF_ARRAYS[sample.dtype], sample.nbytes, rows, writer)
    if kind is torch.Tensor and sample.dtype in DTYPES and plain(sample):
        return _Tensors(sample, sample.dtype, sample.numel() * sample.element_size(), rows, writer)
    if kind is tuple or kind is list or (isinstance(sample, tuple) and hasattr(sample, "_fields")):
        return _Fields(sample, rows, writer)
    if kind is dict:
        return _Keys(sample, rows, writer)
    return _Column()


class _Form(NamedTuple):
    """Batches of one kind of small samples: what write_rows() is told, and what is the same in all of them."""

    rows: int
    kind: type | None  # of a sample: tuple, list or dict; None: it is the only value
    columns: tuple[tuple[Any, str, Any, int], ...]  # key, kind, like, place
    end: int  # of the rows in the slab
    skeleton: bytes


def _form_of(column: Any, batch: Any, rows: int, end: int, skeleton: bytes) -> _Form | None:
    """That of a batch of `rows` samples, where all of it lies in its columns and they can be written by one call."""
    keys: Sequence[Any] = (None,)
    kind: type | None = None
    fields, values = [column], [batch]
    if type(column) is _Keys:
        kind, keys, fields, values = dict, list(batch), list(column.fields.values()), list(batch.values())
    elif type(column) is _Fields and not column.named:
        kind, keys, fields, values = column.kind, range(len(batch)), column.fields, batch
    columns: list[tuple[Any, str, Any, int]] = []
    for key, field, value in zip(keys, fields, values):
        if type(value) is not Placed:  # they were of several types
            return None
        if type(field) is _Numbers and field.stack is _native.stack_numbers:
            columns.append((key, field.like, None, field.place[0]))
        elif type(field) is _Arrays:  # what is like its first one takes no memory for its values
            like = numpy.broadcast_to(numpy.empty((), field.first.dtype), field.shape)
            columns.append((key, "a", like, field.offset))
        else:
            return None
    known = 0 < len(columns) <= _MOST and len(skeleton) <= INLINE
    return _Form(rows, kind, tuple(columns), end, skeleton) if known else None


class Collator:
    """Batches of one worker."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._form: _Form | None = None

    def collate(self, take: Callable[[int], list[Any]], rows: int) -> tuple[bytes, list[pickle.PickleBuffer]]:
        """The skeleton of the batch of all samples that `take` gives, `rows` at most, and its buffers."""
        form, group = self._form, []
        if form is not None and form.rows == rows:
            group = take(rows)
            if len(group) == rows and self._write(form, group):
                return form.skeleton, []
        return self._by_columns(take, rows, group)

    def _write(self, form: _Form, samples: list[Any]) -> bool:
        start = self._writer.reserve(0)
        self._writer.reserve(form.end - start)
        if _native.write_rows(samples, form.kind, form.columns, self._writer.open()):
            return True
        self._writer.forget()
        return False

    def _by_columns(self, take: Callable[[int], list[Any]], rows: int, group: list[Any]) -> tuple[bytes, list[pickle.PickleBuffer]]:
        """`group`: the first samples, where they have been taken."""
        writer, skeleton = self._writer, Skeleton(self._writer)
        group = group or take(1)
        if not group:  # which default_collate refuses
            return skeleton.write(default_collate(group)), skeleton.buffers
        column = _column(group[0], rows, writer)
        end, limit = writer.reserve(0), max(1, _GROUP // max(column.size, 1))
        group += take(max(0, limit - len(group)))
        whole = len(group) == rows
        while group:
            column.add(group)
            group = take(limit)
        batch = column.value(False)
        written = skeleton.write(batch)
        if whole:
            self._form = _form_of(column, batch, rows, end, written)
        return written, skeleton.buffers
