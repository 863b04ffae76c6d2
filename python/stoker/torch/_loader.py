# SPDX-License-Identifier: Apache-2.0
"""The loader that PyTorch's users have, with other workers underneath."""
from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, TypeVar

import torch.utils.data

from stoker.torch import _native
from stoker.torch._iterator import Inline, Workers
from stoker.torch._sources import as_dataset

_LOG = logging.getLogger("stoker")
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

    def __init__(self, dataset: Any, *args: Any, rng: str = "torch", native: bool | str = "auto", workers: str = "process",
                 on_worker_error: str = "restart", **options: Any) -> None:
        given = {"rng": rng, "native": native, "workers": workers, "on_worker_error": on_worker_error}
        for name, value in given.items():
            if value not in _CHOICES[name]:
                raise ValueError(f"{name} is {value!r}: give one of {', '.join(map(repr, _CHOICES[name]))}")
            setattr(self, name, value)
        super().__init__(as_dataset(dataset), *args, **options)

    def __iter__(self) -> Any:
        if self.native is not False:
            plan = _native.plan(self)
            if not isinstance(plan, str):
                return plan()
            if self.native is True:
                raise ValueError(f"native=True: {plan}")
        return super().__iter__()

    def _get_iterator(self) -> Iterator[T]:  # type: ignore[override]
        if self.num_workers == 0:
            return Inline(self)
        self.check_worker_number_rationality()
        return Workers(self)
