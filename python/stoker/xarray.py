# SPDX-License-Identifier: Apache-2.0
"""Windows of datasets of xarray as samples, read by the library where they lie in arrays that it knows.

    import xarray, stoker, stoker.xarray

    ds = xarray.open_zarr("era5.zarr", chunks=None).sel(time=slice("2010", "2020"))[["t2m", "u10"]]
    windows = stoker.xarray.windows(ds, dict(time=4, lat=64, lon=64))
    for batch in stoker.Loader(windows, batch_size=32, shuffle="block"):
        batch["t2m"]                                     # float32 [32, 4, 64, 64]
"""
from __future__ import annotations

import logging
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy
import xarray

from stoker import _native, _xarray
from stoker._keywords import whole
from stoker.dask import Dask

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Windows", "windows"]

_LOG = logging.getLogger("stoker")
_WIDE_BLOCK = 8  # chunks along a dimension that a block may span to be like the others: as the windows of the library


class _Dimension:
    """The windows along a dimension: n of them, of which k neighbours begin in one chunk."""

    def __init__(self, name: Hashable, size: int, window: int, stride: int, chunk: int) -> None:
        if not 1 <= window <= size:
            raise _native.InvalidError(f"a window of {window} along {name!r} does not fit its {size} elements")
        if stride < 1:
            raise _native.InvalidError(f"a stride of {stride} along {name!r}: give 1 or more")
        self.name, self.size, self.window, self.stride, self.chunk = name, size, window, stride, chunk
        self.n = (size - window) // stride + 1
        self.k = min(max(chunk // stride, 1), self.n)


def _widen_blocks(dimensions: list[_Dimension]) -> None:
    """Where blocks would be cut short in the middle of the numbers, one spans all of the dimension, if that is not far."""
    later = False
    for i, dimension in reversed(list(enumerate(dimensions))):
        outermost = not later and all(other.n == 1 for other in dimensions[:i])
        if dimension.n % dimension.k and not outermost and dimension.size <= _WIDE_BLOCK * dimension.chunk:
            dimension.k = dimension.n
        later = later or dimension.k < dimension.n


class Windows:
    """Samples cut out of a dataset of xarray: sample i is a dict from a variable's name to float32 values.

    The windows are numbered as `array:` numbers them (docs/windows.md): those that begin in one chunk follow each other.
    stoker.Loader takes it where all of it can be read natively (`spec`); the DataLoaders of stoker.torch and of PyTorch
    take it always. It can be pickled, and used in worker processes.
    """

    def __init__(self, ds: xarray.Dataset, sizes: Mapping[Hashable, int], stride: Mapping[Hashable, int], dask: Dask) -> None:
        self._ds, self._dask = ds, dask
        self._sources: dict[Hashable, _xarray.Source] = {}
        #: Why variables are loaded through xarray: name -> reason.
        self.reasons: dict[str, str] = {}
        for name in ds.data_vars:
            try:
                self._sources[name] = _xarray.find(ds[name].variable)
            except _xarray.Unreadable as reason:
                self.reasons[str(name)] = str(reason)
        self._dimensions = self._grid(sizes, stride)
        self._spec, self._no_spec = self._make_spec()
        self._log()

    def _grid(self, sizes: Mapping[Hashable, int], stride: Mapping[Hashable, int]) -> list[_Dimension]:
        names = list(dict.fromkeys(dim for variable in self._ds.data_vars.values() for dim in variable.dims))
        for given in (*sizes, *stride):
            if given not in names:
                raise _native.InvalidError(f"there is no dimension {given!r}; there are {', '.join(map(repr, names))}")
        dimensions = []
        for name in names:
            size = self._ds.sizes[name]
            window = whole(f"the size along {name!r}", sizes.get(name, size))
            step = whole(f"the stride along {name!r}", stride.get(name, window))
            dimensions.append(_Dimension(name, size, window, step, self._chunk(name)))
        _widen_blocks(dimensions)
        return dimensions

    def _chunk(self, dimension: Hashable) -> int:
        chunks = [source.chunk(self._ds[name].dims.index(dimension)) for name, source in self._sources.items()
                  if dimension in self._ds[name].dims]
        return max(chunks, default=1)

    def _log(self) -> None:
        if not self.reasons:
            _LOG.info("windows of %s are read natively%s", ", ".join(map(str, self._ds.data_vars)),
                      "" if self._spec else f", but not by stoker.Loader: {self._no_spec}")
        for reason in dict.fromkeys(self.reasons.values()):
            names = [name for name, its in self.reasons.items() if its == reason]
            _LOG.warning("windows of %s are loaded through xarray: %s", ", ".join(names), reason)

    # ---- For the loader of the library ----

    @property
    def spec(self) -> str | None:
        """What stoker.Loader opens; None: it cannot, and `why_not` says why."""
        return self._spec

    @property
    def why_not(self) -> str:
        """Why there is no spec; empty: there is one."""
        return self._no_spec

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the variables, in their order."""
        return tuple(map(str, self._ds.data_vars))

    def _make_spec(self) -> tuple[str | None, str]:
        try:
            return self._natively(), ""
        except _xarray.Unreadable as reason:
            return None, str(reason)

    def _natively(self) -> str:
        """The spec of `array:` that gives the same windows. Raises Unreadable."""
        if self.reasons:
            raise _xarray.Unreadable("; ".join(f"{name}: {reason}" for name, reason in self.reasons.items()))
        if not self._sources:
            raise _xarray.Unreadable("there is no variable")
        groups, names = zip(*(source.array._url.rpartition("/")[::2] for source in self._sources.values()))
        if len(set(groups)) > 1 or "?" in groups[0] or any(set(name) & set(",?") for name in names):
            raise _xarray.Unreadable("the variables are not in one group, or have names that a spec cannot have")
        ranges: dict[str, str] = {}
        dropped: dict[str, str] = {}
        words: dict[Hashable, str] = {}  # names of dimensions in the arrays
        for name, source in self._sources.items():
            self._settle(name, source, ranges, dropped, words)
        if set(ranges) & set(dropped) or len(set(words.values())) < len(words):
            raise _xarray.Unreadable("the variables have different parts of one dimension")
        query = {"variables": names, "range": ranges.values(), "at": dropped.values(),
                 "window": [f"{words[d.name]}:{d.window}" for d in self._dimensions],
                 "stride": [f"{words[d.name]}:{d.stride}" for d in self._dimensions]}
        texts = [f"{option}={quote(','.join(values), safe=':,')}" for option, values in query.items() if values]
        return f"array:{groups[0]}?{'&'.join(texts)}&convert=float32"

    def _settle(self, name: Hashable, source: _xarray.Source, ranges: dict[str, str], dropped: dict[str, str],
                words: dict[Hashable, str]) -> None:
        """What one variable has to say of ranges and names of dimensions."""
        array = source.array
        given = _xarray.decoding(source)
        if given != _xarray.stored_decoding(array):
            raise _xarray.Unreadable(f"{name} is decoded otherwise than its attributes say")
        if array.dtype.kind not in "biuf":
            raise _xarray.Unreadable(f"{name} holds {array.dtype}")
        dims = iter(self._ds[name].dims)
        for part, size, word in zip(source.key, array.shape, array.dimension_names):
            if not word or set(word) & set(":,") or len(word) > 63 or array.dimension_names.count(word) > 1:
                raise _xarray.Unreadable(f"{name} has dimensions without names of their own")
            if isinstance(part, int):
                place, text = dropped, f"{word}:{part % size}"
            elif isinstance(part, range) and part.step == 1:
                place, text = ranges, f"{word}:{part.start}:{part.stop}"
                if words.setdefault(next(dims), word) != word:
                    raise _xarray.Unreadable(f"{name} has another name for a dimension than others")
            else:
                raise _xarray.Unreadable(f"of {name} elements that are no neighbours are selected along '{word}'")
            if place.setdefault(word, text) != text:
                raise _xarray.Unreadable("the variables have different parts of one dimension")

    # ---- Samples ----

    def __len__(self) -> int:
        return math.prod(dimension.n for dimension in self._dimensions)

    def place(self, index: int) -> dict[Hashable, slice]:
        """Where a window is: what `ds.isel()` takes."""
        size = len(self)
        if not -size <= index < size:
            raise IndexError(f"window {index} of {size}")
        index %= size
        heights: list[tuple[int, int]] = []
        tail, height = size, 1
        for dimension in self._dimensions:
            tail //= dimension.n
            block, index = divmod(index, dimension.k * height * tail)
            first = block * dimension.k
            heights.append((first, min(dimension.k, dimension.n - first)))
            height *= heights[-1][1]
        places = {}
        for dimension, (first, high) in zip(reversed(self._dimensions), reversed(heights)):
            index, within = divmod(index, high)
            start = (first + within) * dimension.stride
            places[dimension.name] = slice(start, start + dimension.window)
        return {dimension.name: places[dimension.name] for dimension in self._dimensions}

    def __getitem__(self, index: int) -> dict[str, NDArray[numpy.float32]]:
        place = self.place(index)
        return {str(name): self._read(name, [place[dim] for dim in self._ds[name].dims]) for name in self._ds.data_vars}

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, NDArray[numpy.float32]]]:
        return [self[index] for index in indices]

    def _read(self, name: Hashable, box: list[slice]) -> NDArray[numpy.float32]:
        if source := self._sources.get(name):
            values = source.read(box)
        else:
            with self._dask.here():
                values = self._ds[name].variable[tuple(box)].values
        return numpy.ascontiguousarray(values, numpy.float32)

    def close(self) -> None:
        """End what this process has of Dask."""
        self._dask.close()

    def __repr__(self) -> str:
        sizes = ", ".join(f"{dimension.name}: {dimension.window}" for dimension in self._dimensions)
        return f"<stoker.xarray.Windows {len(self)} of ({sizes}) of {', '.join(self.fields)}>"


def windows(ds: xarray.Dataset | xarray.DataArray, sizes: Mapping[Hashable, int], *,
            stride: Mapping[Hashable, int] | None = None, dask: str | Dask = "off", **options: Any) -> Windows:
    """Cut a dataset into windows: samples of a dataset for stoker.Loader, stoker.torch.DataLoader or PyTorch's.

    `sizes` has the elements of a window along dimensions, the others are taken whole; `stride` the distance of neighbouring
    windows, which is that of their size if it is left out. What does not fill a window at the edges is left out. A window
    has the values that xarray would give (CF's mask and scale applied), as float32.

    Variables that lie in arrays the library reads (Zarr on local disks) are read natively, also behind isel() and sel(), and
    without a lock between threads. All others are loaded through xarray where samples are made, and one line of
    logging.getLogger("stoker") says why. `dask` and the options of stoker.dask.Dask say where those of Dask compute.
    """
    if isinstance(ds, xarray.DataArray):
        ds = ds.to_dataset(name=ds.name if ds.name is not None else "data")
    if not isinstance(ds, xarray.Dataset):
        raise TypeError(f"windows are cut of a dataset of xarray, and this is a {type(ds).__name__}: open it, as with xarray.open_zarr()")
    for what, given in (("sizes", sizes), ("stride", stride or {})):
        if not isinstance(given, Mapping):
            raise TypeError(f"{what} is a {type(given).__name__}: give a dict from dimensions to elements, as dict(time=4)")
    if isinstance(dask, Dask) and options:
        raise TypeError(f"{next(iter(options))} is for dask as a text: a stoker.dask.Dask has its own")
    return Windows(ds, sizes, stride or {}, dask if isinstance(dask, Dask) else Dask(dask, **options))
