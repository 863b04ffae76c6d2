# SPDX-License-Identifier: Apache-2.0
"""The state of a loader: plain numbers and tensors of bytes, which torch.save() and torch.load() take as they are."""
from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils.data import _DatasetKind

from stoker.torch import _random

VERSION = 1


def to_tensor(state: bytes | None) -> torch.Tensor | None:
    return None if state is None else torch.frombuffer(bytearray(state), dtype=torch.uint8)


def to_bytes(state: torch.Tensor | None) -> bytes | None:
    return None if state is None else state.cpu().numpy().tobytes()


def length_of(sized: Any) -> int | None:
    """None: it cannot say."""
    try:
        return len(sized)
    except (TypeError, NotImplementedError):
        return None


class Place:
    """Where the loop is that a loader began last: it is asked while it is there, and tells when it goes."""

    def __init__(self, loop: Any) -> None:
        self._loop = weakref.ref(loop)
        self._left: dict[str, Any] | Exception = {}
        loop.place = weakref.ref(self)

    def state(self) -> dict[str, Any]:
        loop = self._loop()
        found = self._left if loop is None else self._of(loop)
        if isinstance(found, Exception):
            raise found
        return found

    def _of(self, loop: Any) -> dict[str, Any]:
        """Of one that has come to its end what goes on with the next. One that knows its length may never ask for the end."""
        length = length_of(loop._index_sampler) if loop._dataset_kind == _DatasetKind.Map else None
        ended = loop.over or (loop._num_yielded == length and not loop.goes_on)
        state: dict[str, Any] = loop.rest() if ended else loop.state()
        return state

    def leave(self, loop: Any) -> None:
        try:
            self._left = self._of(loop)
        except Exception as error:
            self._left = error.with_traceback(None)


def leave(loop: Any) -> None:
    """The loop is about to end: whoever may still ask for its place has it."""
    place = loop.place and loop.place()
    if place is not None:
        place.leave(loop)


def generators_of(loader: Any) -> list[torch.Generator]:
    """Those that the order is drawn from, beside the process's own."""
    found: list[torch.Generator] = []
    for holder in (loader, loader.sampler, loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None)):
        generator = getattr(holder, "generator", None)
        if isinstance(generator, torch.Generator) and not any(generator is known for known in found):
            found.append(generator)
    return found


class Moment:
    """The random states of this process and of the loader's generators."""

    def __init__(self, generators: list[torch.Generator]) -> None:
        self.process = _random.current()
        self.generators = [generator.get_state() for generator in generators]

    def to_dict(self) -> dict[str, Any]:
        return {"process": to_tensor(self.process), "generators": self.generators}


def go_to(moment: dict[str, Any], generators: list[torch.Generator]) -> None:
    """Set the random states to those of a moment."""
    state = to_bytes(moment["process"])
    assert state is not None
    _random.load(state)
    for generator, value in zip(generators, moment["generators"], strict=True):
        generator.set_state(value)


def go_on(resumed: dict[str, Any], generators: list[torch.Generator], num_workers: int) -> None:
    """Set the random states to those of a state, behind what was drawn again.

    Another number of workers has asked the sampler for more or less by then: its generators are where these draws left them.
    """
    now = resumed["now"]
    if resumed["num_workers"] != num_workers:
        now = now | {"generators": [generator.get_state() for generator in generators]}
    go_to(now, generators)
