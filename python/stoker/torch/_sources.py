# SPDX-License-Identifier: Apache-2.0
"""Datasets of PyTorch and torchvision that the library can read as they are."""
from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy
import torch
from torch.utils.data import Dataset, Subset, TensorDataset

from stoker import _native
from stoker._memory import field
from stoker.torch._translate import Unknown, translate

_MAX_PIXELS = 178956970  # beyond them Pillow refuses a picture
_TYPES = {"bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "bfloat16", "float32",
          "float64", "complex64", "complex128"}


def _is_zarr(array: Any) -> bool:
    return type(array).__name__ == "Array" and type(array).__module__.partition(".")[0] == "zarr"


def _is_array(given: Any) -> bool:
    return isinstance(given, (numpy.ndarray, torch.Tensor)) or _is_zarr(given)


class Arrays(Dataset[Any]):
    """An array, or a tuple or dict of them, as a dataset: sample i is the i-th of it, or a tuple or dict of the i-th of each."""

    def __init__(self, arrays: Any) -> None:
        self.arrays = arrays
        sizes = {array.shape[0] for array in self.each()}
        if len(sizes) != 1:
            raise ValueError(f"the arrays of a dataset are of one length, and these are of {sorted(sizes)}")

    def each(self) -> list[Any]:
        if _is_array(self.arrays):
            return [self.arrays]
        return list(self.arrays.values() if isinstance(self.arrays, Mapping) else self.arrays)

    def put(self, values: Sequence[Any]) -> Any:
        """As the arrays are given; of a tuple a list, as PyTorch's batches of tuples are."""
        if _is_array(self.arrays):
            return values[0]
        return dict(zip(self.arrays, values)) if isinstance(self.arrays, Mapping) else list(values)

    def __len__(self) -> int:
        return int(self.each()[0].shape[0])

    def __getitem__(self, index: Any) -> Any:
        return self.put([array[index] for array in self.each()])


def as_dataset(given: Any) -> Any:
    """What a DataLoader is given: arrays in a tuple, or by name in a dict, become a dataset, and those of zarr; all else is one.

    A list of arrays is one as well, and a dict of them by index: their samples are their items.
    """
    each: Any = given if type(given) is tuple else ()
    if type(given) is dict and all(isinstance(name, str) for name in given):
        each = given.values()
    return Arrays(given) if _is_zarr(given) or (len(each) and all(map(_is_array, each))) else given


class Part:
    """What one dataset of the library holds: some values of a sample."""

    def __init__(self, identity: tuple[Any, ...], open: Callable[[], _native.Dataset], places: Sequence[int],
                 window: bool = False) -> None:
        self.identity, self.open = identity, open
        self.places = places  # of the values in a sample
        self.window = window  # each value has a first dimension of 1

    def same(self, other: Part) -> bool:
        """Whether what the other opens is what this one opens."""
        return len(self.identity) == len(other.identity) and all(
            a is b if isinstance(a, (numpy.ndarray, torch.Tensor)) else a == b for a, b in zip(self.identity, other.identity))


class Source:
    """A dataset that the library knows: what becomes of a sample, how a batch is put together."""

    def __init__(self, what: str, size: int, parts: list[Part], transforms: str = "",
                 collate: Callable[[list[Any]], Any] = list) -> None:
        self.what, self.size, self.parts, self.transforms, self.collate = what, size, parts, transforms, collate
        self.values = sum(len(part.places) for part in parts)

    def same(self, other: Source) -> bool:
        return (self.transforms == other.transforms and len(self.parts) == len(other.parts) and
                all(a.same(b) for a, b in zip(self.parts, other.parts)))


def _memory(what: str, arrays: Sequence[Any], places: Sequence[int]) -> Part:
    """Rows of arrays or tensors that are there as long as the dataset."""
    for array in arrays:
        if isinstance(array, torch.Tensor):
            if type(array) is not torch.Tensor or array.layout != torch.strided or array.device.type != "cpu":
                raise Unknown(f"a tensor of {what} is no plain one in memory")
            if array.requires_grad or array.is_conj() or array.is_neg():
                raise Unknown(f"a tensor of {what} has a gradient to follow or a view to resolve")
        elif type(array) is not numpy.ndarray or not array.dtype.isnative:
            raise Unknown(f"an array of {what} is of a class or byte order of its own")
        _check_shape(what, array)
    fields = tuple(field(str(place), array) for place, array in zip(places, arrays))
    return Part(tuple(arrays), lambda: _native.Dataset.of(fields), places)


def _check_shape(what: str, array: Any) -> None:
    if str(array.dtype).removeprefix("torch.") not in _TYPES:
        raise Unknown(f"an array of {what} is of {array.dtype}")
    if array.ndim == 0 or 0 in array.shape[1:] or array.ndim > 8:
        raise Unknown(f"an array of {what} is of shape {tuple(array.shape)}")


def _zarr(array: Any, place: int) -> Part:
    """Windows of one element of the first dimension."""
    root = getattr(array.store, "root", None)
    if type(array.store).__name__ != "LocalStore" or root is None:
        raise Unknown(f"a zarr array lies in a {type(array.store).__name__}")
    _check_shape("zarr", array)
    url = f"{root}/{array.path}".rstrip("/")
    if set("%?#&") & set(url):
        raise Unknown(f"{url} has characters that URLs have")
    window = ",".join(map(str, [1, *array.shape[1:]]))
    return Part((url, window), lambda: _native.Dataset(f"array:{url}?window={window}&scale=false"), [place], window=True)


def _arrays(dataset: Any) -> Source:
    given = dataset if type(dataset) is Arrays else Arrays(dataset)
    each = list(enumerate(given.each()))
    stored = [_zarr(array, i) for i, array in each if _is_zarr(array)]
    here = [(i, array) for i, array in each if not _is_zarr(array)]
    memory = [_memory("arrays", [array for _, array in here], [i for i, _ in here])] if here else []
    return Source("arrays", len(given), memory + stored, collate=given.put)


def _tensors(dataset: Any) -> Source:
    tensors = dataset.tensors
    return Source("TensorDataset", len(tensors[0]), [_memory("TensorDataset", tensors, range(len(tensors)))])


def _plain(dataset: Any) -> None:
    if dataset.target_transform is not None:
        raise Unknown("a target_transform is the dataset's own")


def _pictures(dataset: Any, data: Any, channels: int) -> Source:
    """uint8 pictures in memory, and their classes."""
    _plain(dataset)
    if data.dtype != numpy.uint8 or data.ndim != 4 or data.shape[3] != channels:
        raise Unknown(f"data of {type(dataset).__name__} is not as it was read")
    labels = numpy.asarray(dataset.targets, numpy.int64)
    if labels.ndim != 1 or len(labels) != len(data):
        raise Unknown(f"targets of {type(dataset).__name__} are not one number for each picture")
    fields = (("image", "uint8", data, True), ("label", "int64", labels, False))
    targets = dataset.targets if isinstance(dataset.targets, torch.Tensor) else list(dataset.targets)
    part = Part((dataset.data, targets), lambda: _native.Dataset.of(fields), [0, 1])
    return Source(type(dataset).__name__, len(data), [part], translate(dataset.transform, channels))


def _mnist(dataset: Any) -> Source:
    return _pictures(dataset, dataset.data.numpy()[..., None], 1)


def _cifar(dataset: Any) -> Source:
    return _pictures(dataset, dataset.data, 3)


def _key(path: str, folder: str) -> str:
    """An absolute path without what the library's keys have not: '..', '.' and empty names."""
    path = path if path.startswith("/") else f"{folder}/{path}"
    if "/../" in path or "/./" in path or "//" in path:
        head, name = os.path.split(path)
        path = f"{os.path.realpath(head)}/{name}"
    return '"' + path.replace('"', '""') + '"'


def _open_list(samples: list[tuple[str, int]]) -> _native.Dataset:
    """The list of files as it is, by way of a file that is gone when it has been read."""
    folder = os.getcwd()
    with tempfile.NamedTemporaryFile("wb", prefix="stoker-", suffix=".csv") as file:
        file.write(b"".join(b"%s,%d\n" % (os.fsencode(_key(path, folder)), label) for path, label in samples))
        file.flush()
        return _native.Dataset(f"images:{file.name}?root=/")


def _image_folder(dataset: Any) -> Source:
    import torchvision

    _plain(dataset)
    if dataset.loader is not torchvision.datasets.folder.default_loader:
        raise Unknown("its loader is the dataset's own")
    if torchvision.get_image_backend() != "PIL":
        raise Unknown(f"the image backend is {torchvision.get_image_backend()}")
    samples = list(dataset.samples)
    for path, _ in samples:
        if not path.lower().endswith((".jpg", ".jpeg", ".png")):
            raise Unknown(f"{path} is read by Pillow alone")
    text = translate(dataset.transform, 3)
    part = Part((samples,), lambda: _open_list(samples), [0, 1])
    return Source("ImageFolder", len(samples), [part], f"decode(dct_scaling=off, max_pixels={_MAX_PIXELS}), {text}")


_KINDS: dict[str, Callable[[Any], Source]] = {
    "ImageFolder": _image_folder, "MNIST": _mnist, "FashionMNIST": _mnist, "CIFAR10": _cifar, "CIFAR100": _cifar}


def _windows(dataset: Any) -> Source:
    """Windows of xarray that the library reads."""
    spec = dataset.spec
    if spec is None:
        raise Unknown(dataset.why_not)
    part = Part((spec,), lambda: _native.Dataset(spec), range(len(dataset.fields)))
    return Source("a dataset of xarray", len(dataset), [part], collate=lambda values: dict(zip(dataset.fields, values)))


def _source(dataset: Any) -> Source:
    if type(dataset) is TensorDataset:
        return _tensors(dataset)
    if type(dataset) in (Arrays, numpy.ndarray):
        return _arrays(dataset)
    kind, found = type(dataset), sys.modules.get("torchvision.datasets")
    if kind is getattr(sys.modules.get("stoker.xarray"), "Windows", None):
        return _windows(dataset)
    if found is not None and kind.__name__ in _KINDS and getattr(found, kind.__name__) is kind:
        return _KINDS[kind.__name__](dataset)
    raise Unknown(f"a dataset of class {kind.__name__} is Python's")


def checked(order: numpy.ndarray[Any, Any], size: int) -> numpy.ndarray[Any, Any]:
    """Indices as a list takes them: from its end where they are negative."""
    order = numpy.where(order < 0, order + size, order) if len(order) and order.min() < 0 else order
    if len(order) and (order.min() < 0 or order.max() >= size):
        beyond = order[(order < 0) | (order >= size)][0]
        raise IndexError(f"an index of the sampler, {beyond if beyond >= 0 else beyond - size}, is beyond a dataset of {size} samples")
    return order


def numbers(indices: Any) -> numpy.ndarray[Any, Any]:
    try:
        found = numpy.asarray(indices)
    except ValueError as error:
        raise Unknown("indices that are no numbers") from error
    if found.ndim != 1 or (len(found) and found.dtype.kind not in "iu"):
        raise Unknown("indices that are no numbers")
    return found.astype(numpy.int64, copy=False)


def resolve(dataset: Any) -> tuple[Source, list[Any]]:
    """What samples come from, and the lists of indices on the way, the outermost first."""
    maps = []
    while type(dataset) is Subset:
        inner: Any = dataset.dataset
        maps.append(checked(numbers(dataset.indices), len(inner)))
        dataset = inner
    return _source(dataset), maps
