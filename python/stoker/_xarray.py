# SPDX-License-Identifier: Apache-2.0
"""Where the values of a variable of xarray lie, and how they become those that xarray gives.

xarray keeps what it has opened and not read as objects around each other: caches, functions of single elements (CF's mask and
scale), an index, the backend's array. Their names are its own; what is not known here is read through xarray.
"""
from __future__ import annotations

import functools
import operator
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from stoker import _native
from stoker._array import Array

if TYPE_CHECKING:
    import xarray
    from numpy.typing import NDArray

_WRAPPERS = {"MemoryCachedArray", "CopyOnWriteArray", "ImplicitToExplicitIndexingAdapter"}


class Unreadable(Exception):
    """Why a variable is read through xarray."""


class Source:
    """A variable in an array of the library: what is taken along each of its dimensions, and functions for the values."""

    def __init__(self, array: Array, key: Sequence[Any], functions: Sequence[Callable[[Any], Any]]) -> None:
        self.array = array
        self.key: list[Any] = [operator.index(part) if not isinstance(part, (slice, numpy.ndarray)) else
                    range(size)[part] if isinstance(part, slice) else part % size for part, size in zip(key, array.shape)]
        self.functions = functions
        self.axes = [axis for axis, part in enumerate(self.key) if not isinstance(part, int)]  # those that are left

    def select(self, key: Sequence[Any]) -> None:
        """Take less: an int, a slice or places of each dimension that is left."""
        for axis, part in zip(self.axes, key):
            self.key[axis] = numpy.asarray(self.key[axis])[part] if isinstance(part, numpy.ndarray) else self.key[axis][part]
        self.axes = [axis for axis in self.axes if isinstance(self.key[axis], (range, numpy.ndarray))]

    def chunk(self, dimension: int) -> int:
        """Elements of the variable's dimension in one chunk."""
        axis = self.axes[dimension]
        part = self.key[axis]
        return max(1, self.array.chunks[axis] // (abs(part.step) if isinstance(part, range) else 1))

    def read(self, box: Sequence[slice]) -> NDArray[Any]:
        """Values of a box of the variable, as xarray decodes them."""
        index: list[Any] = list(self.key)
        scattered: list[tuple[int, NDArray[Any]]] = []
        for axis, part in zip(self.axes, box):
            taken = self.key[axis][part]
            if isinstance(taken, range):
                index[axis] = slice(taken.start, None if taken.stop < 0 else taken.stop, taken.step)
            elif any(isinstance(other, numpy.ndarray) for other in index[:axis]) and len(taken):
                index[axis] = slice(int(taken.min()), int(taken.max()) + 1)  # xarray takes each dimension by itself
                scattered.append((self.axes.index(axis), taken - taken.min()))
            else:
                index[axis] = taken
        values = self.array[tuple(index)]
        for dimension, places in scattered:
            values = values.take(places, dimension)
        return functools.reduce(lambda given, function: function(given), self.functions, values)


def _function(layer: Any) -> Callable[[Any], Any] | None:
    """What a layer of xarray's does to each element; None: nothing."""
    name = type(layer).__name__
    if name == "_ElementwiseFunctionArray":
        function: Callable[[Any], Any] = layer.func
        return function
    if name == "BoolTypeArray":
        return functools.partial(numpy.asarray, dtype=bool)
    if name == "NativeEndiannessArray" or name in _WRAPPERS:
        return None
    raise Unreadable(f"xarray keeps it in a {name}")


# ---- Dask ----


def _block(layers: dict[str, Any], key: Any, shape: Sequence[int]) -> list[Any]:
    """What a block of an array of Dask has of each dimension of what was opened: an int or a range. Slices alone are known."""
    task = layers[key[0]][key]
    if type(task).__name__ == "Alias":
        return _block(layers, task.target, shape)
    if getattr(getattr(task, "func", None), "__name__", "") not in ("getter", "getitem") or task.kwargs:
        raise Unreadable("Dask computes it")
    given, index = task.args[0].key, getattr(task.args[1], "value", task.args[1])
    taken = [range(size) for size in shape] if isinstance(given, str) else _block(layers, given, shape)
    left = [axis for axis, part in enumerate(taken) if not isinstance(part, int)]
    if len(index) != len(left) or not all(isinstance(part, (int, numpy.integer, slice)) for part in index):
        raise Unreadable("Dask computes it")
    for axis, part in zip(left, index):
        taken[axis] = taken[axis][part]
    return taken


def _joined(parts: list[range]) -> Any:
    """The elements of neighbouring blocks, as a slice if they are equally far apart."""
    places = numpy.concatenate([numpy.arange(part.start, part.stop, part.step) for part in parts])
    steps = set(numpy.diff(places).tolist())
    if len(steps) > 1 or not places.size:
        return places
    step = steps.pop() if steps else 1
    stop = int(places[-1]) + step
    return slice(int(places[0]), None if stop < 0 else stop, step)


def _from_dask(data: Any) -> tuple[Any, list[Any] | None]:
    """What xarray has opened below an array of Dask of which slices were taken alone, and these. Layers have names of Dask's."""
    layers = dict(data.dask.layers)
    opened = [name for name in layers if name.startswith("original-open_dataset-")]
    if len(opened) != 1:
        raise Unreadable("Dask computes it")
    given = dict(layers[opened[0]])[opened[0]]
    if set(layers) == {opened[0], opened[0].removeprefix("original-")}:
        return given, None
    if any(len(before) > 1 for before in data.dask.dependencies.values()):
        raise Unreadable("Dask computes it")
    first = _block(layers, (data.name, *(0 for _ in data.numblocks)), given.shape)
    key = list(first)
    left = [axis for axis, part in enumerate(first) if not isinstance(part, int)]
    for dimension, axis in enumerate(left):
        blocks = [(data.name, *(i if other == dimension else 0 for other in range(data.ndim))) for i in range(data.numblocks[dimension])]
        key[axis] = _joined([_block(layers, block, given.shape)[axis] for block in blocks])
    return given, key


# ---- Backends ----


def _zarr_url(backend: Any) -> str:
    array = backend._array
    store = array.store
    kind = type(store).__name__
    if kind == "LocalStore":
        return os.path.join(str(store.root), array.path)
    raise Unreadable(f"it lies in a {kind} of zarr")


def _netcdf_url(backend: Any) -> str:
    parts = [backend.datastore._filename, backend.datastore._group or "", backend.variable_name]
    return "/".join(part.strip("/") if i else part for i, part in enumerate(parts) if part)


_BACKENDS: dict[str, Callable[[Any], str]] = {
    "ZarrArrayWrapper": _zarr_url,
    "NetCDF4ArrayWrapper": _netcdf_url,
    "H5NetCDFArrayWrapper": _netcdf_url,
}


def _open(backend: Any, what: str) -> Array:
    try:
        array = Array(_BACKENDS[what](backend))
    except _native.Error as error:
        raise Unreadable(str(error)) from None
    if array.shape != tuple(backend.shape) or array.dtype != numpy.dtype(backend.dtype).newbyteorder("="):
        raise Unreadable(f"its array is {array.dtype} {array.shape} here and {backend.dtype} {tuple(backend.shape)} in xarray")
    return array


def find(variable: xarray.Variable) -> Source:
    """Where a variable lies. Raises Unreadable."""
    try:
        return _find(variable)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:  # another version of xarray or Dask
        if isinstance(error, _native.Error):
            raise
        raise Unreadable(f"this xarray or Dask keeps it in a way not known here ({error!r})") from error


def _find(variable: xarray.Variable) -> Source:
    data: Any = variable._data
    if isinstance(data, numpy.ndarray):
        raise Unreadable("it is in memory")
    selected: list[Any] | None = None
    if hasattr(data, "dask"):
        data, selected = _from_dask(data)
    functions: list[Callable[[Any], Any]] = []
    while not hasattr(data, "key"):
        if not hasattr(data, "array") or "Numpy" in type(data).__name__:
            raise Unreadable("it is in memory")
        function = _function(data)
        functions += [function] if function else []
        data = data.array
    if type(data).__name__ != "LazilyIndexedArray":
        raise Unreadable("it is transposed, or points of it are selected")
    backend = data.array
    what = type(backend).__name__
    if what not in _BACKENDS:
        raise Unreadable(f"it is read by {what}, which the library does not know")
    source = Source(_open(backend, what), data.key.tuple, functions[::-1])
    if selected is not None:
        source.select(selected)
    if len(source.axes) != variable.ndim:
        raise Unreadable("its dimensions are others than those of its array")
    return source


def decoding(source: Source) -> tuple[float, float, float | None] | None:
    """CF's scale, offset and missing value that the functions apply; None: they do something else."""
    scale, offset, missing = 1.0, 0.0, None
    for number, function in enumerate(source.functions):
        name = getattr(getattr(function, "func", None), "__name__", "")
        given = getattr(function, "keywords", {})
        if name == "_apply_mask" and number == 0:
            values = [float(value) for value in given["encoded_fill_values"]]
            values = [value for value in values if value == value]  # NaN is NaN
            if len(values) > 1:
                return None
            missing = values[0] if values else None
        elif name == "_scale_offset_decoding":
            scale = 1.0 if given["scale_factor"] is None else float(given["scale_factor"])
            offset = 0.0 if given["add_offset"] is None else float(given["add_offset"])
        else:
            return None
    return scale, offset, missing


def stored_decoding(array: Array) -> tuple[float, float, float | None]:
    """The same of the windows of the library, from the array's attributes."""
    def number(name: str) -> float | None:
        value = array.attrs.get(name)
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    scale, offset = number("scale_factor"), number("add_offset")
    fill = number("_FillValue")
    missing = number("missing_value") if fill is None else fill
    missing = None if missing is not None and missing != missing else missing
    return 1.0 if scale is None else scale, 0.0 if offset is None else offset, missing
