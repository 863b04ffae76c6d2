# SPDX-License-Identifier: Apache-2.0
"""Loaders that run in C, without worker processes: the order is PyTorch's, the samples are made by the library's threads."""
from __future__ import annotations

import itertools
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy
import torch
from torch.utils.data import BatchSampler, Dataset, RandomSampler, SequentialSampler, Subset, TensorDataset, default_collate
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.dataloader import _BaseDataLoaderIter

from stoker import _native
from stoker._loader import _as_torch
from stoker._memory import field
from stoker.torch._translate import Unknown, translate

_LOG = logging.getLogger("stoker")
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


# ---- Datasets ----


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


def _checked(order: numpy.ndarray[Any, Any], size: int) -> numpy.ndarray[Any, Any]:
    """Indices as a list takes them: from its end where they are negative."""
    order = numpy.where(order < 0, order + size, order) if len(order) and order.min() < 0 else order
    if len(order) and (order.min() < 0 or order.max() >= size):
        raise IndexError(f"an index of the sampler is beyond a dataset of {size} samples")
    return order


def _numbers(indices: Any) -> numpy.ndarray[Any, Any]:
    try:
        numbers = numpy.asarray(indices)
    except ValueError as error:
        raise Unknown("indices that are no numbers") from error
    if numbers.ndim != 1 or (len(numbers) and numbers.dtype.kind not in "iu"):
        raise Unknown("indices that are no numbers")
    return numbers.astype(numpy.int64, copy=False)


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
        self.indices = _numbers(list(itertools.chain.from_iterable(all_batches)))


# ---- Batches ----


class _Kept:
    """What a loader keeps from epoch to epoch."""

    def __init__(self) -> None:
        self.source: Source | None = None
        self.native: _native.Dataset | None = None
        self.said: str | None = None
        self.batches: Batches | None = None  # of persistent workers

    def open(self, source: Source) -> _native.Dataset:
        if self.native is None or self.source is None or not source.same(self.source):
            native = source.open()
            native.check({"transforms": source.transforms})
            self.native, self.source = native, source
        return self.native

    def say(self, text: str) -> None:
        if text != self.said:
            _LOG.info("%s", text)
            self.said = text


class Batches(_BaseDataLoaderIter):
    """An epoch of a loader, or with persistent workers one after another."""

    def __init__(self, loader: Any, dataset: _native.Dataset, source: Source, maps: list[Any]) -> None:
        super().__init__(loader)
        self._epochs = 0
        self._restart(loader, dataset, source, maps)

    def _restart(self, loader: Any, dataset: _native.Dataset, source: Source, maps: list[Any]) -> None:
        """The draws that follow are those of PyTorch, at the same moments."""
        self._sources, self._maps, self._collate = dataset, maps, source.collate
        self._size = len(loader.dataset)
        self._options = {"epochs": "1", "seed": str((self._base_seed + self._epochs) % 2**64), "timeout": str(loader.timeout),
                         "num_workers": str(loader.num_workers), "transforms": source.transforms}
        if loader.num_workers > 0:
            self._options["prefetch_factor"] = str(loader.prefetch_factor)
            self._sampler_iter = iter(self._index_sampler)
        self._native: _native.Loader | None = None
        self._num_yielded = 0
        self._epochs += 1
        if loader.num_workers > 0:
            self._begin()

    def _begin(self) -> None:
        self._order = _Order(self._index_sampler, self._sampler_iter)
        indices = _checked(self._order.indices, self._size)
        for numbers in self._maps:
            indices = numbers[indices]
        indices = _checked(indices, self._sources.size)
        self._options["batch_size"] = str(self._order.batch_size)
        if len(indices):
            self._native = _native.Loader(self._sources, self._options, numpy.ascontiguousarray(indices, numpy.int64))

    def __next__(self) -> Any:
        if self._native is None and self._num_yielded == 0:
            self._begin()
        try:
            fields = self._native.next() if self._native is not None else None
        except _native.Error as error:
            if error.sample is not None:
                error.add_note("native=False has it read in Python")
            raise
        if fields is None:
            self._end()
            raise StopIteration
        values = [_as_torch(value) for value in fields[:-1]]  # the last one is the index
        if self._order.lengths is not None:
            values = [value[: self._order.lengths[self._num_yielded]] for value in values]
        self._num_yielded += 1
        batch = self._collate(values)
        pin: Any = pin_memory
        return pin(batch, self._pin_memory_device) if self._pin_memory else batch

    next = __next__

    def _end(self) -> None:
        if self._native is not None:
            self._native.close()
            self._native = None
            self._order.finish()


def _refuse(loader: Any) -> None:
    if loader.batch_sampler is None:
        raise Unknown("batch_size is None")
    if loader.collate_fn is not default_collate:
        raise Unknown("collate_fn is the user's own")
    if not hasattr(loader.batch_sampler, "__len__"):
        raise Unknown("the batch_sampler has no length")
    if type(loader.batch_sampler) is BatchSampler and not hasattr(loader.batch_sampler.sampler, "__len__"):
        raise Unknown("the sampler has no length")


def _resolve(dataset: Any) -> tuple[Source, list[Any]]:
    """What samples come from, and the lists of indices on the way, the outermost first."""
    maps = []
    while type(dataset) is Subset:
        inner: Any = dataset.dataset
        maps.append(_checked(_numbers(dataset.indices), len(inner)))
        dataset = inner
    return _source(dataset), maps


_KEPT: WeakKeyDictionary[Any, _Kept] = WeakKeyDictionary()


def plan(loader: Any) -> Callable[[], Iterator[Any]] | str:
    """What makes an iterator of the loader that runs in C, or the reason why there is none."""
    kept = _KEPT.setdefault(loader, _Kept())
    try:
        _refuse(loader)
        source, maps = _resolve(loader.dataset)
        dataset = kept.open(source)
    except (Unknown, IndexError, _native.Error) as reason:
        kept.say(f"DataLoader: Python makes the batches, as {reason}")
        return str(reason)
    threads = f"{loader.num_workers} threads" if loader.num_workers else "the caller's thread"
    kept.say(f"DataLoader: {source.what} is read in C by {threads}: {source.transforms or 'no transforms'}")

    def begin() -> Iterator[Any]:
        if loader.persistent_workers and loader.num_workers > 0:
            if kept.batches is None:
                kept.batches = Batches(loader, dataset, source, maps)
            else:
                kept.batches._reset(loader)
                kept.batches._restart(loader, dataset, source, maps)
            return kept.batches
        return Batches(loader, dataset, source, maps)

    return begin
