# SPDX-License-Identifier: Apache-2.0
"""The DataModule: loaders as Lightning's loops take them, and the state that they and the process have."""
from __future__ import annotations

import copy
import difflib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, Unpack, TYPE_CHECKING, runtime_checkable

import torch
from lightning.pytorch import LightningDataModule
from lightning.pytorch.trainer.states import RunningStage, TrainerFn
from torch.utils.data import DataLoader

from stoker import _native
from stoker._loader import Loader, _as_torch
from stoker.lightning._random import random_states, set_random_states
from stoker.torch._state import length_of

if TYPE_CHECKING:
    from stoker._options import LoaderOptions

STAGES = ("train", "val", "test", "predict")


@runtime_checkable
class _Stateful(Protocol):
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: dict[str, Any], /) -> None: ...


def _of_loader(name: str) -> Any:
    """An attribute that is the loader's."""
    return property(lambda feed: getattr(feed.loader, name), lambda feed, value: setattr(feed.loader, name, value))


class BatchTransform:
    """Transforms of whole batches, on the device that the batch was moved to, without gradients.

    `transform` takes and returns a batch, or with `fields` (names, or places in a tuple) the value of each of them.
    Only training batches are transformed unless `stages` says more ("train", "val", "test", "predict").
    """

    def __init__(self, transform: Callable[[Any], Any], *, fields: Sequence[str | int] | str | int | None = None,
                 stages: Sequence[str] = ("train",)) -> None:
        stages = (stages,) if isinstance(stages, str) else tuple(stages)
        if unknown := [stage for stage in stages if stage not in STAGES]:
            raise ValueError(f"stages has {unknown[0]!r}: give some of {', '.join(STAGES)}")
        if not callable(transform):
            raise TypeError(f"the transform is a {type(transform).__name__}: give a function of a batch, or of the fields' values")
        self.transform = transform
        self.fields = (fields,) if isinstance(fields, (str, int)) else fields if fields is None else tuple(fields)
        self.stages = stages

    def __call__(self, batch: Any) -> Any:
        with torch.no_grad():
            if self.fields is None:
                return self.transform(batch)
            values: Any = dict(batch) if isinstance(batch, Mapping) else list(batch)
            there = values if isinstance(batch, Mapping) else range(-len(values), len(values))
            for field in self.fields:
                if field not in there:
                    names = ", ".join(map(repr, values)) if isinstance(batch, Mapping) else f"places 0 to {len(values) - 1}"
                    raise _native.InvalidError(f"fields has {field!r}, which is not in the batch: it has {names}")
                values[field] = self.transform(values[field])
        if isinstance(batch, tuple):
            return type(batch)(*values) if hasattr(batch, "_fields") else tuple(values)
        return values


class _Feed:
    """A loader as Lightning's loops take it.

    They ask for iterators that they never use, and end an epoch without its end; so an epoch begins when its first batch
    is asked for. Then all is in place: the random states of a run that goes on are set where an order is drawn from them.

    Without a length they take one batch more than they train on: then the state is that of one batch ago, with the random
    states that this batch was made from.
    """

    def __init__(self, data: StokerDataModule, loader: Any, training: bool) -> None:
        self.loader = loader
        self._data = data
        self._training = training
        self._begun = False
        self._given = 0  # batches of this epoch
        self._ended = False
        self._goes_on = False  # behind a state that was loaded
        self._before: dict[str, Any] | None = None
        self._drawn_from: dict[str, Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        length = length_of(self.loader)
        self._before = self._state_before() if length is None else None
        for batch in self._begin(length):
            self._data._set_random_states()
            self._given += 1
            self._ended = self._given == length
            yield batch
            del batch
            self._before = self._state_before() if length is None else None
        self._ended, self._before = True, None

    def _begin(self, length: int | None) -> Iterator[Any]:
        goes_on, self._goes_on = self._goes_on, False
        begun, self._begun = self._begun, True
        if goes_on and self._given and not self._ended:
            rest: Iterator[Any] = iter(self.loader)
            if self._given < self._data._limit(length):
                self._set_random_states()
                return rest
            if not isinstance(self.loader, Loader):  # some go back to a state with their first batch
                next(rest, None)
            del rest
        self._set_random_states()
        self._given, self._ended = 0, False
        if isinstance(self.loader, Loader) and (epoch := self._data._epoch(self._training, goes_on or begun)) is not None:
            self.loader.set_epoch(epoch)
        batches: Iterator[Any] = iter(self.loader)
        return batches

    def _set_random_states(self) -> None:
        states, self._drawn_from = self._drawn_from, None
        if states is None:
            self._data._set_random_states()
        else:
            set_random_states(states)

    def __len__(self) -> int:
        return len(self.loader)

    def _state(self) -> dict[str, Any]:
        return {"loader": self.loader.state_dict(), "batches": self._given, "ended": self._ended}

    def _state_before(self) -> dict[str, Any] | None:
        return {**self._state(), "random": random_states()} if self._training else None

    def state_dict(self) -> dict[str, Any]:
        return self._before or self._state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loader.load_state_dict(state["loader"])
        self._given, self._ended, self._goes_on = state["batches"], state["ended"], True
        self._drawn_from = state.get("random")

    # What Lightning looks for in a DataLoader: seeds of workers, epochs of a sampler, and workers to end.

    worker_init_fn, batch_sampler, _iterator = map(_of_loader, ("worker_init_fn", "batch_sampler", "_iterator"))


class StokerDataModule(LightningDataModule):
    """Loaders of a training, validation, test and prediction, with exact resume in the middle of an epoch.

    Each is the spec of a dataset ("mnist:data/mnist"), or a dict of what stoker.Loader takes, beside the options given here
    for all of them (dict(dataset="mnist:data/mnist", shuffle=True, as_tuple=True)); or a
    loader (stoker.Loader, stoker.torch.DataLoader, any that Lightning takes); or a function that makes one of these each
    time Lightning asks for it; or a list or dict of several. Batches of stoker.Loader are tensors of PyTorch. Where the
    trainer has several ranks, specs are read with its `rank` and `world_size`.

    A checkpoint has the loader's place where Lightning's fit loop keeps it, and here the random states of Python, NumPy,
    PyTorch and its accelerators, of each rank: a run that goes on from it is the run that was not interrupted, if the
    training loader is a stoker.Loader or has state_dict() and load_state_dict().

    `batch_transform` is a BatchTransform, or several, for batches on the device.
    """

    def __init__(self, train: Any = None, val: Any = None, test: Any = None, predict: Any = None, *,
                 batch_transform: BatchTransform | Sequence[BatchTransform] = (), **options: Unpack[LoaderOptions]) -> None:
        super().__init__()
        self._sources = {"train": train, "val": val, "test": test, "predict": predict}
        self._options = options
        self._transforms = _as_list(batch_transform)
        self._opened: dict[str, list[Loader]] = {}
        self._random: dict[str, Any] | None = None  # of the run that goes on, until its first batch
        _check_names(options)
        given = {stage: source for stage, source in self._sources.items() if source is not None}
        if not given:
            raise _native.InvalidError(f"there is nothing to load: give some of {', '.join(STAGES)}")
        if not any([_check(stage, source) for stage, source in given.items()]) and options:
            raise _native.InvalidError(f"{', '.join(options)}: options are for specs of datasets, and only loaders are given")
        # Lightning takes a hook that is there for one that is wanted.
        for stage, source in self._sources.items():
            if source is not None:
                setattr(self, f"{stage}_dataloader", getattr(self, f"_{stage}_loaders"))
        if self._transforms:
            setattr(self, "on_after_batch_transfer", self._transform)

    # ---- Loaders ----

    def _train_loaders(self) -> Any:
        loaders = self._made("train")
        feeds = [loader for loader in _flat(loaders) if isinstance(loader, _Feed)]
        self._load_behind_epoch(feeds)
        if not feeds:
            self._set_random_states()
        return loaders

    def _val_loaders(self) -> Any:
        return self._made("val")

    def _test_loaders(self) -> Any:
        return self._made("test")

    def _predict_loaders(self) -> Any:
        return self._made("predict")

    def _made(self, stage: str) -> Any:
        """The loaders of a stage: those that were opened here are kept until teardown()."""
        opened = iter(self._opened.pop(stage, []))
        kept: list[Loader] = []
        loaders = self._make(stage, self._sources[stage], opened, kept)
        self._opened[stage] = kept
        return loaders

    def _make(self, stage: str, source: Any, opened: Iterator[Loader], kept: list[Loader]) -> Any:
        if isinstance(source, str):
            source = {"dataset": source}
        if isinstance(source, Mapping) and "dataset" in source:
            loader = next(opened, None)
            kept.append(self._open(source) if loader is None else loader)
            return _Feed(self, kept[-1], stage == "train")
        if isinstance(source, Mapping):
            return {name: self._make(stage, each, opened, kept) for name, each in source.items()}
        if isinstance(source, (list, tuple)):
            return [self._make(stage, each, opened, kept) for each in source]
        if isinstance(source, Loader):
            tensors = copy.copy(source)
            tensors._convert = _as_torch
            return _Feed(self, tensors, stage == "train")
        if callable(source):
            made = source()
            _check(stage, made)
            return self._make(stage, made, opened, kept)
        return self._taken(stage, source)

    def _open(self, source: Mapping[str, Any]) -> Loader:
        options: dict[str, Any] = {**self._options, **source, "output": "torch"}
        trainer = self.trainer
        if trainer is not None and trainer.world_size > 1 and not {"rank", "world_size"} & options.keys():
            options.update(rank=trainer.global_rank, world_size=trainer.world_size)
        return Loader(options.pop("dataset"), **options)

    def _taken(self, stage: str, loader: Any) -> Any:
        """A loader that is not ours: where it has a state, its epochs begin as late as those of one that is."""
        trainer = self.trainer
        if stage != "train" or trainer is None or self._by_heart or not isinstance(loader, _Stateful):
            return loader
        if isinstance(loader, DataLoader):  # Lightning will not see it: what it adds to one
            loader = trainer._data_connector._prepare_dataloader(loader, shuffle=True, mode=RunningStage.TRAINING)
        return _Feed(self, loader, True)

    def teardown(self, stage: str) -> None:
        for loaders in self._opened.values():
            for loader in loaders:
                loader.close()
        self._opened.clear()

    # ---- Where the trainer is ----

    @property
    def _by_heart(self) -> bool:
        """Whether the trainer is to learn some batches by heart."""
        return bool(getattr(self.trainer, "overfit_batches", 0))

    def _epoch(self, training: bool, goes_on: bool) -> int | None:
        """Where a stoker.Loader begins; None: behind the epoch before. A validation does not depend on those before it."""
        if self._by_heart:
            return 0
        if self.trainer is None or (goes_on and training):
            return None
        progress: Any = self.trainer.fit_loop.epoch_progress.current
        return int(progress.processed)

    def _limit(self, length: int | None) -> float:
        """Batches of a training epoch."""
        assert self.trainer is not None
        limit = self.trainer.limit_train_batches
        if isinstance(limit, int):
            return limit
        return float("inf") if length is None else int(length * limit)

    # ---- State ----

    def _load_behind_epoch(self, feeds: list[_Feed]) -> None:
        """Lightning loads states of loaders in the middle of an epoch; behind one, generators are as they were, too."""
        if self.trainer is None or self.trainer.fit_loop.restarting:
            return
        states = self.trainer.fit_loop._combined_loader_states_to_load
        if len(states) == len(feeds):
            for feed, state in zip(feeds, states):
                feed.load_state_dict(state)
        self.trainer.fit_loop._combined_loader_states_to_load = []

    def state_dict(self) -> dict[str, Any]:
        states: list[Any] = [random_states()]
        if self.trainer is not None and self.trainer.world_size > 1:
            states *= self.trainer.world_size
            torch.distributed.all_gather_object(states, states[0])
        return {"random": states}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        assert self.trainer is not None
        if self.trainer.state.fn != TrainerFn.FITTING:
            return
        states = state_dict["random"]
        if len(states) == self.trainer.world_size:
            self._random = states[self.trainer.global_rank]
        else:
            warnings.warn(f"the checkpoint has the random states of {len(states)} ranks, and there are "
                          f"{self.trainer.world_size}: random numbers go on otherwise")

    def _set_random_states(self) -> None:
        states, self._random = self._random, None
        if states is not None:
            set_random_states(states)

    # ---- Batches ----

    def _transform(self, batch: Any, dataloader_idx: int) -> Any:
        assert self.trainer is not None
        stage = self.trainer.state.stage
        for transform in self._transforms:
            if stage is not None and stage.dataloader_prefix in transform.stages:
                batch = transform(batch)
        return self.trainer.lightning_module.on_after_batch_transfer(batch, dataloader_idx)

    def __str__(self) -> str:
        given = ", ".join(f"{stage}={source!r}" for stage, source in self._sources.items() if source is not None)
        return f"StokerDataModule({given})"


def _as_list(transforms: Any) -> list[BatchTransform]:
    listed = list(transforms) if isinstance(transforms, (list, tuple)) else [transforms]
    for transform in listed:
        if not isinstance(transform, BatchTransform):
            raise TypeError(f"batch_transform has a {type(transform).__name__}: give BatchTransform(function)")
    return listed


def _check_names(options: Mapping[str, Any]) -> None:
    """Whether a stoker.Loader takes them."""
    known = ["dataset", "output", "as_tuple", *(name for name, *_ in _native.options("loader"))]
    for name in options:
        if name not in known:
            meant = difflib.get_close_matches(name, [*STAGES, "batch_transform", *known], 1)
            raise _native.InvalidError(f"unknown option '{name}'" + (f"; did you mean '{meant[0]}'?" if meant else ""))


def _check(stage: str, source: Any) -> bool:
    """Whether a source has, or may have, a dataset that is opened with options. What is no source is an error."""
    if isinstance(source, Mapping) and "dataset" in source:
        _check_names(source)
        return True
    if isinstance(source, (Mapping, list, tuple)):
        return any([_check(stage, part) for part in (source.values() if isinstance(source, Mapping) else source)])
    if isinstance(source, str) or (callable(source) and not hasattr(source, "__iter__")):
        return True
    if hasattr(source, "__iter__") and not hasattr(source, "__array__"):
        return False
    raise TypeError(f"{stage} is a {type(source).__name__}: give the spec of a dataset, a dict with it and options, "
                    "a loader, or a function that makes one")


def _flat(loaders: Any) -> list[Any]:
    """Those of a nest of lists and dicts, as Lightning's CombinedLoader counts them."""
    if isinstance(loaders, Mapping):
        loaders = list(loaders.values())
    return [each for part in loaders for each in _flat(part)] if isinstance(loaders, list) else [loaders]
