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


class Arrays(Dataset[Any]):
    """A tuple or dict of arrays as a dataset: sample i is a tuple or dict of the i-th of each."""

    def __init__(self, arrays: Any) -> None:
        self.arrays = arrays
        sizes = {len(array) for array in self._each()}
        if len(sizes) != 1:
            raise ValueError(f"the arrays of a dataset are of one length, and these are of {sorted(sizes)}")

    def _each(self) -> list[Any]:
        return list(self.arrays.values() if isinstance(self.arrays, Mapping) else self.arrays)

    def __len__(self) -> int:
        return len(self._each()[0])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.arrays, Mapping):
            return {name: array[index] for name, array in self.arrays.items()}
        return tuple(array[index] for array in self.arrays)


def as_dataset(given: Any) -> Any:
    """What a DataLoader is given: arrays in a tuple, list or dict become a dataset, all else is one."""
    each = given.values() if type(given) is dict else given if type(given) in (tuple, list) else ()
    arrays = [array for array in each if isinstance(array, (numpy.ndarray, torch.Tensor))]
    return Arrays(given) if arrays and len(arrays) == len(given) else given


class Source:
    """A dataset that the library knows: how to open it, what becomes of a sample, how a batch is put together."""

    def __init__(self, what: str, size: int, identity: tuple[Any, ...], open: Callable[[], _native.Dataset], transforms: str = "",
                 collate: Callable[[list[Any]], Any] = list) -> None:
        self.what, self.size, self.identity, self.open, self.transforms, self.collate = (
            what, size, identity, open, transforms, collate)

    def same(self, other: Source) -> bool:
        """Whether what the other opens is what this one opens."""
        return self.transforms == other.transforms and len(self.identity) == len(other.identity) and all(
            a is b if isinstance(a, (numpy.ndarray, torch.Tensor)) else a == b for a, b in zip(self.identity, other.identity))


def _memory(what: str, arrays: Sequence[Any], names: Sequence[str], **more: Any) -> Source:
    """Rows of arrays or tensors that are there as long as the dataset."""
    for array in arrays:
        if isinstance(array, torch.Tensor):
            if type(array) is not torch.Tensor or array.layout != torch.strided or array.device.type != "cpu":
                raise Unknown(f"a tensor of {what} is no plain one in memory")
            if array.requires_grad or array.is_conj() or array.is_neg():
                raise Unknown(f"a tensor of {what} has a gradient to follow or a view to resolve")
        elif type(array) is not numpy.ndarray or not array.dtype.isnative:
            raise Unknown(f"an array of {what} is of a class or byte order of its own")
        if str(array.dtype).removeprefix("torch.") not in _TYPES:
            raise Unknown(f"an array of {what} is of {array.dtype}")
        if array.ndim == 0 or 0 in array.shape[1:] or array.ndim > 9:
            raise Unknown(f"an array of {what} is of shape {tuple(array.shape)}")
    fields = [field(name, array) for name, array in zip(names, arrays)]
    sizes = {len(array) for array in arrays}
    if len(sizes) != 1:
        raise Unknown(f"the arrays of {what} are not of one length")
    return Source(what, sizes.pop(), tuple(arrays), lambda: _native.Dataset.of(tuple(fields)), **more)


def _tensors(dataset: Any) -> Source:
    tensors = dataset.tensors
    return _memory("TensorDataset", tensors, [str(i) for i in range(len(tensors))])


def _arrays(dataset: Any) -> Source:
    given = dataset.arrays if type(dataset) is Arrays else dataset
    if isinstance(given, Mapping):
        names = list(given)
        return _memory("arrays", list(given.values()), [str(name) for name in names],
                       collate=lambda values: dict(zip(names, values)))
    if isinstance(given, (tuple, list)):
        return _memory("arrays", given, [str(i) for i in range(len(given))])
    return _memory("the array", [given], ["data"], collate=lambda values: values[0])


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
    return Source(type(dataset).__name__, len(data), (dataset.data, targets), lambda: _native.Dataset.of(fields),
                  transforms=translate(dataset.transform, channels))


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
    return Source("ImageFolder", len(samples), (samples,), lambda: _open_list(samples),
                  transforms=f"decode(dct_scaling=off, max_pixels={_MAX_PIXELS}), {text}")


_KINDS: dict[str, Callable[[Any], Source]] = {
    "ImageFolder": _image_folder, "MNIST": _mnist, "FashionMNIST": _mnist, "CIFAR10": _cifar, "CIFAR100": _cifar}


def _source(dataset: Any) -> Source:
    if type(dataset) is TensorDataset:
        return _tensors(dataset)
    if type(dataset) in (Arrays, numpy.ndarray):
        return _arrays(dataset)
    kind, found = type(dataset), sys.modules.get("torchvision.datasets")
    if found is not None and kind.__name__ in _KINDS and getattr(found, kind.__name__) is kind:
        return _KINDS[kind.__name__](dataset)
    raise Unknown(f"a dataset of class {kind.__name__} is Python's")


def checked(order: numpy.ndarray[Any, Any], size: int) -> numpy.ndarray[Any, Any]:
    """Indices as a list takes them: from its end where they are negative."""
    order = numpy.where(order < 0, order + size, order) if len(order) and order.min() < 0 else order
    if len(order) and (order.min() < 0 or order.max() >= size):
        raise IndexError(f"an index of the sampler is beyond a dataset of {size} samples")
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
