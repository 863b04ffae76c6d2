# SPDX-License-Identifier: Apache-2.0
"""The loader that PyTorch's users have, with other workers underneath."""
from __future__ import annotations

import os
from typing import Any, TypeVar

import torch.utils.data
from torch.utils.data import BatchSampler, _DatasetKind

from stoker.torch import _native
from stoker.torch._iterator import Inline, Workers
from stoker.torch._sources import as_dataset
from stoker.torch._state import VERSION, Moment, Place, generators_of, length_of
from stoker.torch._threads import Threads

T = TypeVar("T", covariant=True)

_CHOICES: dict[str, tuple[object, ...]] = {
    "rng": ("torch", "stoker"),
    "native": ("auto", True, False),
    "workers": ("process", "thread"),
    "on_worker_error": ("restart", "fail"),
}


class DataLoader(torch.utils.data.DataLoader[T]):
    """`torch.utils.data.DataLoader`, with its arguments and what it documents, and four of its own:

    rng: "torch" gives the order, the base seed and the seeds of the workers that PyTorch gives; "stoker" sets `random`,
        NumPy's and torch's generator for each place in the order, so that any number of workers gives the same.
    native: "auto" runs datasets and transforms that Stoker knows in C, without workers; True says why where it cannot; False
        never does. Arrays in a tuple or dict are a dataset, too.
    workers: "process", or "thread" for datasets that release the interpreter's lock.
    on_worker_error: "restart" replaces a worker that dies, and does its batch again; "fail" raises RuntimeError.
    """

    rng: str
    native: bool | str
    workers: str
    on_worker_error: str

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Any = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Any = None,
        multiprocessing_context: Any = None,
        generator: torch.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        rng: str = "torch",
        native: bool | str = "auto",
        workers: str = "process",
        on_worker_error: str = "restart",
    ) -> None:
        own = {"rng": rng, "native": native, "workers": workers, "on_worker_error": on_worker_error}
        for name, value in own.items():
            if not any(isinstance(value, type(choice)) and value == choice for choice in _CHOICES[name]):
                raise ValueError(f"{name} is {value!r}: give one of {', '.join(map(repr, _CHOICES[name]))}")
            setattr(self, name, value)
        self._resumed: dict[str, Any] | None = None
        self._place: Place | None = None  # of the loop that was begun last
        self._process = os.getpid()
        super().__init__(
            as_dataset(dataset), batch_size, shuffle, sampler, batch_sampler, num_workers, collate_fn, pin_memory, drop_last, timeout,
            worker_init_fn, multiprocessing_context, generator, prefetch_factor=prefetch_factor,
            persistent_workers=persistent_workers, pin_memory_device=pin_memory_device, in_order=in_order)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_place": None}

    def __iter__(self) -> Any:
        if self._process != os.getpid():  # a child of fork(), whose workers these are not
            self._process, self._iterator = os.getpid(), None
        plan = _native.plan(self) if self.native is not False else ""
        if not isinstance(plan, str):
            resumed, self._resumed = self._resumed, None
            iterator: Any = plan(resumed)
        elif self.native is True:
            raise ValueError(f"native=True: {plan}")
        else:
            iterator = super().__iter__()
        self._place = Place(iterator)
        return iterator

    def _get_iterator(self) -> Any:
        resumed, self._resumed = self._resumed, None
        if self.num_workers == 0:
            return Inline(self, resumed)
        self.check_worker_number_rationality()
        return (Threads if self.workers == "thread" else Workers)(self, resumed)

    def state_dict(self) -> dict[str, Any]:
        """The place behind the batch that was taken last, of the loop that was begun last, also of one that was left. Numbers
        and tensors of bytes.

        A loader of the same arguments that loads it gives what this one would: the order, the random numbers of the workers
        and of this process, which is set to the random states that it has now. An iterable dataset that has state_dict() and
        load_state_dict(), or whose iterator has, is asked for its place; another one is gone through again. With
        rng="stoker" the number of workers of a map-style dataset may be another.
        """
        if self._resumed is not None:
            return self._resumed
        state = {"version": VERSION, "given": None, "start": None, "base_seed": None, "epoch": 0, "turn": 0, "again": False,
                 "workers": None, **self._meant_for()}
        if self._place is not None:
            state |= self._place.state()
        return state | {"now": Moment(generators_of(self)).to_dict()}

    def _meant_for(self) -> dict[str, Any]:
        """What a state is a place in."""
        batches: Any = self.batch_sampler if type(self.batch_sampler) is BatchSampler else self  # whose own are None and False
        mapped = self._dataset_kind == _DatasetKind.Map
        return {"rng": self.rng, "num_workers": self.num_workers, "samples": length_of(self.dataset) if mapped else None,
                "batch_size": batches.batch_size, "drop_last": batches.drop_last, "sampler": type(batches.sampler).__name__}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on behind a state_dict() with the next loop."""
        meant_for = self._meant_for()
        if not isinstance(state, dict) or state.get("version") != VERSION or not meant_for.keys() <= state.keys():
            raise ValueError("this is not a state of stoker.torch.DataLoader")
        if self.rng == "stoker" and self._dataset_kind == _DatasetKind.Map:
            del meant_for["num_workers"]
        for name, own in meant_for.items():
            if state[name] != own:
                raise ValueError(f"the state was made with {name}={state[name]!r}, this loader has {own!r}")
        self._resumed = state
        self._place = self._iterator = None
