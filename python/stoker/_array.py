# SPDX-License-Identifier: Apache-2.0
"""Arrays in chunks, wherever they are stored, indexed as NumPy's are."""
from __future__ import annotations

import json
import math
import operator
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import numpy

from stoker import _native
from stoker._keywords import add_options, option_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stoker._options import ArrayOptions

    Values = NDArray[Any]

_PIECE = 64 << 20  # bytes of one read where an index array takes many chunks
_NEAR = 64 << 10  # bytes between two rows of an array without chunks that are read at once


class _Axis(NamedTuple):
    """What is taken along a dimension: `length` elements from `start`, `step` apart, perhaps in reverse."""

    start: int
    length: int
    step: int
    reverse: bool

    @classmethod
    def of_slice(cls, given: slice, size: int) -> _Axis:
        taken = range(size)[given]
        if not taken:
            return cls(0, 0, 1, False)
        return cls(min(taken[0], taken[-1]), len(taken), abs(taken.step), taken.step < 0)


_WHOLE = slice(None)


class Array:
    """An array that is read as it is indexed: `stoker.Array("era5.zarr/t2m")[0, ::2, 10:20]`.

    `url` names a Zarr array (its folder), an npy file or, with `format="raw"`, any file, in any store; the keywords are
    the options below. What indexing gives is a NumPy array of its own memory, or a number: integers, slices with steps of
    either sign, `...`, `None`, arrays of integers and of booleans mean what they mean to NumPy. Only the chunks that hold
    an element are read, each once. bfloat16 is seen as uint16, texts and bytes of varying length as objects (str, bytes).

    Any number of threads may read at once; other threads of Python run meanwhile, and Ctrl-C ends a read. Pickled, or in a
    child of fork(), it opens itself again with its first read.
    """

    def __init__(self, url: str | os.PathLike[str], **options: Unpack[ArrayOptions]) -> None:
        self._url = os.fspath(url)
        self._options = {name: option_text(name, value) for name, value in options.items() if value is not None}
        self._native = _native.Array(self._url, self._options)
        self._process = os.getpid()
        self._describe(self._native.info())

    def _describe(self, info: dict[str, Any]) -> None:
        self._info = info
        self._varies = info["itemsize"] == 0
        self._dtype = numpy.dtype(object if self._varies else "uint16" if info["type"] == "bfloat16" else info["type"])

    def _opened(self) -> _native.Array:
        if self._process != os.getpid():
            again = _native.Array(self._url, self._options)
            if again.info() != self._info:
                raise _native.DataError(f"{self._shown()} is another array than it was when it was first opened")
            self._native, self._process = again, os.getpid()
        return self._native

    def __getstate__(self) -> tuple[str, dict[str, str], dict[str, Any]]:
        return self._url, self._options, self._info

    def __setstate__(self, state: tuple[str, dict[str, str], dict[str, Any]]) -> None:
        self._url, self._options, info = state
        self._process = 0
        self._describe(info)

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each dimension."""
        shape: tuple[int, ...] = self._info["shape"]
        return shape

    @property
    def dtype(self) -> numpy.dtype[Any]:
        """NumPy's type of the elements, in the order of bytes of this machine."""
        return self._dtype

    @property
    def chunks(self) -> tuple[int, ...]:
        """Elements, along each dimension, of what is decoded at a time."""
        chunks: tuple[int, ...] = self._info["chunks"]
        return chunks

    @property
    def shards(self) -> tuple[int, ...] | None:
        """Elements, along each dimension, of what is in one object; None: each chunk is one."""
        return None if self._info["shards"] == self.chunks else self._info["shards"]

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements in memory."""
        return self.size * self._dtype.itemsize

    @property
    def dimension_names(self) -> tuple[str | None, ...]:
        """Name of each dimension; None: it has none."""
        names: tuple[str | None, ...] = self._info["names"]
        return names

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes."""
        attributes: dict[str, Any] = json.loads(self._info["attributes"])
        return attributes

    @property
    def fill_value(self) -> Any:
        """What elements are that were never written; None: it is not defined, and they are zero."""
        fill = self._info["fill"]
        if self._varies:
            return None if fill is None else self._value(fill)
        return numpy.frombuffer(fill, self._dtype)[0] if fill else None

    @property
    def format(self) -> str:
        """How it is stored: "zarr v3", "npy", ..."""
        text: str = self._info["format"]
        return text

    @property
    def codecs(self) -> str:
        """How chunks are encoded: "shuffle, zstd"; "none"."""
        text: str = self._info["codecs"]
        return text

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        for i in range(len(self)):
            yield self[i]

    def __getitem__(self, key: Any) -> Any:
        return _Selection(self, key).read()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Values:
        if copy is False:
            raise ValueError("an array in a store becomes one in memory by a copy alone")
        return numpy.asarray(self[...], dtype)

    def __dlpack__(self, **options: Any) -> Any:
        return numpy.asarray(self).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def _read(self, axes: list[_Axis]) -> Values:
        """The elements of a box, each axis forwards."""
        shape = tuple(axis.length for axis in axes)
        count = math.prod(shape) * self._dtype.itemsize
        if count == 0:
            return numpy.empty(shape, self._dtype)
        if self._varies:
            return self._read_texts(axes, shape)
        memory = numpy.empty(count, numpy.uint8)  # NumPy exports no buffers of times
        self._opened().read(memory, tuple(axis.start for axis in axes), shape, tuple(axis.step for axis in axes))
        return memory.view(self._dtype).reshape(shape)

    def _read_texts(self, axes: list[_Axis], shape: tuple[int, ...]) -> Values:
        steps = tuple(axis.step for axis in axes)
        offsets, values = self._opened().read_texts(tuple(axis.start for axis in axes), shape, steps)
        bounds = numpy.frombuffer(offsets, numpy.uint64).tolist()
        result = numpy.empty(len(bounds) - 1, object)
        result[:] = [self._value(values[begin:end]) for begin, end in zip(bounds, bounds[1:])]
        return result.reshape(shape)

    def _value(self, raw: bytes) -> str | bytes:
        return raw.decode() if self._info["type"] == "string" else raw

    def _shown(self) -> str:
        return self._url.partition("?")[0]  # options of stores may be secrets

    def __repr__(self) -> str:
        shards = f", shards {self.shards}" if self.shards else ""
        return f"<stoker.Array '{self._shown()}' {self._dtype} {self.shape}, chunks {self.chunks}{shards}, {self.format}>"

    def _repr_html_(self) -> str:
        from stoker._functions.view import Grid

        names = ", ".join(f"{name or '-'}: {n}" for name, n in zip(self.dimension_names, self.shape))
        rows = {"array": self._shown(), "type": self._dtype, "shape": names if any(self.dimension_names) else self.shape,
                "chunks": self.chunks, "shards": self.shards, "codecs": self.codecs, "format": self.format,
                "bytes": f"{self.nbytes:,}"}
        return Grid(("", ""), [(name, str(value)) for name, value in rows.items() if value is not None], words=True).html()


class _Selection:
    """An index of NumPy's as boxes to read and the way from their elements to the result.

    `taken` has an axis of each dimension, of those with an index array its first to last element. `items` are the parts of
    the index as they apply to a box that was read so.
    """

    def __init__(self, array: Array, key: Any) -> None:
        self.array = array
        self.taken: list[_Axis] = []
        self.items: list[Any] = []
        self.arrays: dict[int, Values] = {}  # indexes along dimensions
        parts = [_part(part) for part in (key if isinstance(key, tuple) else (key,))]
        used = sum(_dimensions(part) for part in parts)
        if used > array.ndim:
            raise IndexError(f"too many indices: the array has {array.ndim} dimensions, and {used} were indexed")
        if sum(part is Ellipsis for part in parts) > 1:
            raise IndexError("an index can only have one ellipsis ('...')")
        if used < array.ndim and not any(part is Ellipsis for part in parts):
            parts.append(Ellipsis)
        for part in parts:
            self._add(part, array.ndim - used)

    def _add(self, part: Any, rest: int) -> None:
        if part is None:
            self.items.append(None)
        elif part is Ellipsis:
            sizes = self.array.shape[len(self.taken):len(self.taken) + rest]
            self.taken += [_Axis(0, size, 1, False) for size in sizes]
            self.items.append(Ellipsis)
        elif isinstance(part, slice):
            axis = _Axis.of_slice(part, self._size())
            self.taken.append(axis)
            self.items.append(slice(None, None, -1) if axis.reverse else _WHOLE)
        elif isinstance(part, int):
            size = self._size()
            if not -size <= part < size:
                raise self._out_of_bounds(part)
            self.taken.append(_Axis(part % size, 1, 1, False))
            self.items.append(0)
        elif part.dtype == bool:
            self._add_mask(part)
        else:
            self._add_array(self._within(part))

    def _size(self) -> int:
        return self.array.shape[len(self.taken)]

    def _within(self, index: Values) -> Values:
        """Indexes from 0 on."""
        size = self._size()
        wrong = index[(index < -size) | (index >= size)]
        if wrong.size:
            raise self._out_of_bounds(wrong.flat[0])
        index = index.astype(numpy.int64)
        return numpy.where(index < 0, index + size, index)

    def _out_of_bounds(self, index: Any) -> IndexError:
        return IndexError(f"index {index} is out of bounds for axis {len(self.taken)} with size {self._size()}")

    def _add_mask(self, mask: Values) -> None:
        axis = len(self.taken)
        shape = self.array.shape[axis:axis + mask.ndim]
        if mask.shape != shape:  # also of nothing, which NumPy takes here and there
            raise IndexError(f"the booleans have the shape {mask.shape}, and the dimensions from {axis} on have {shape}")
        for i, index in enumerate(mask.nonzero()):
            self._add_array(index, more=i > 0)

    def _add_array(self, index: Values, more: bool = False) -> None:
        self.arrays[len(self.taken)] = index
        low = int(index.min()) if index.size else 0
        self.taken.append(_Axis(low, int(index.max()) - low + 1 if index.size else 0, 1, False))
        if not more:  # one part of the index
            self.items.append(index)

    def read(self) -> Any:
        if self.arrays:
            return self._read_points()
        values = self.array._read(self.taken)
        if self.items and all(item is _WHOLE or item is Ellipsis for item in self.items):
            return values
        result = values[tuple(self.items)]
        return numpy.ascontiguousarray(result) if any(axis.reverse for axis in self.taken) else result

    def _groups(self, indexes: list[Values]) -> Values:
        """Of each point the number of the read that gets it: those of one chunk, or of a row of chunks, have the same."""
        grains = [self._grain(axis) for axis in self.arrays]
        chunks = [index // grain for index, grain in zip(indexes, grains)]
        if len(chunks) > 1:
            grid = tuple(-(-self.array.shape[axis] // grain) for axis, grain in zip(self.arrays, grains))
            return numpy.asarray(numpy.ravel_multi_index(chunks, grid))
        there, which = numpy.unique(chunks[0], return_inverse=True)
        row = numpy.cumsum(numpy.diff(there, prepend=there[:1]) > 1)
        first = there[numpy.searchsorted(row, row)]
        most = max(1, _PIECE // (grains[0] * self._row_bytes()))
        _, number = numpy.unique(row * len(there) * 2 + (there - first) // most, return_inverse=True)
        return numpy.asarray(number)[which]

    def _row_bytes(self) -> int:
        """Bytes that one place of the index arrays has."""
        others = math.prod(axis.length for i, axis in enumerate(self.taken) if i not in self.arrays)
        return max(1, others * self.array.dtype.itemsize)

    def _grain(self, axis: int) -> int:
        if self.array._info["num_chunks"] == 1 and self.array.codecs == "none":  # read in part
            return max(1, _NEAR // self._row_bytes())
        return self.array.chunks[axis]

    def _read_points(self) -> Values:
        """Points of the index arrays come first, then the other dimensions in their order."""
        try:
            arrays = numpy.broadcast_arrays(*self.arrays.values())
        except ValueError:
            shapes = " ".join(str(index.shape) for index in self.arrays.values())
            raise IndexError(f"index arrays of the shapes {shapes} do not fit each other") from None
        indexes = [index.ravel() for index in arrays]
        others = [i for i in range(len(self.taken)) if i not in self.arrays]
        points = numpy.empty((indexes[0].size, *(self.taken[i].length for i in others)), self.array.dtype)
        if points.size:
            groups = self._groups(indexes)
            order = numpy.argsort(groups, kind="stable")
            for mine in numpy.split(order, numpy.flatnonzero(numpy.diff(groups[order])) + 1):
                self._read_group(mine, indexes, others, points)
        return self._placed(points, arrays[0].shape, others)

    def _read_group(self, mine: Values, indexes: list[Values], others: list[int], points: Values) -> None:
        axes, places = list(self.taken), []
        for axis, index in zip(self.arrays, indexes):
            low = int(index[mine].min())
            axes[axis] = _Axis(low, int(index[mine].max()) - low + 1, 1, False)
            places.append(index[mine] - low)
        box = self.array._read(axes).transpose(*self.arrays, *others)
        points[mine] = box[tuple(places)]

    def _placed(self, points: Values, shape: tuple[int, ...], others: list[int]) -> Values:
        """The dimensions of the index arrays where NumPy has them: in the place of the arrays and integers if these are
        side by side, else in front."""
        advanced = [i for i, item in enumerate(self.items) if isinstance(item, (int, numpy.ndarray))]
        before = 0
        rest: list[int] = []  # sizes of the other dimensions of the result
        flips: list[Any] = [Ellipsis]
        left = iter([axis for i, axis in enumerate(self.taken) if i not in self.arrays])
        ellipsis = len(others) - sum(isinstance(item, (int, slice)) for item in self.items)
        for i, item in enumerate(self.items):
            if i == advanced[0] and advanced[-1] - advanced[0] == len(advanced) - 1:
                before = len(rest)
            if item is None:
                rest.append(1)
                flips.append(_WHOLE)
            elif isinstance(item, int):
                next(left)
            elif not isinstance(item, numpy.ndarray):
                for axis in [next(left) for _ in range(ellipsis if item is Ellipsis else 1)]:
                    rest.append(axis.length)
                    flips.append(slice(None, None, -1) if axis.reverse else _WHOLE)
        result = points.reshape(shape + tuple(rest))[tuple(flips)]
        return numpy.ascontiguousarray(numpy.moveaxis(result, range(len(shape)), range(before, before + len(shape))))


def _part(part: Any) -> Any:
    """One part of an index as None, ..., a slice, an int, or an array of integers or booleans."""
    if part is None or part is Ellipsis or isinstance(part, slice):
        return part
    if not isinstance(part, (bool, numpy.bool_)):
        try:
            return operator.index(part)
        except TypeError:
            pass
    index = numpy.asarray(part)
    if index.size == 0 and not isinstance(part, numpy.ndarray):
        index = index.astype(numpy.intp)
    if index.dtype == bool and index.ndim > 0 or index.dtype.kind in "iu":
        return index
    raise IndexError(f"{part!r} is no index: only integers, slices (':'), '...', None, and arrays of integers or booleans "
                     "with a dimension are")


def _dimensions(part: Any) -> int:
    """How many dimensions a part of an index is for."""
    if part is None or part is Ellipsis:
        return 0
    return part.ndim if isinstance(part, numpy.ndarray) and part.dtype == bool else 1


add_options(Array, "array")
