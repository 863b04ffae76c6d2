# SPDX-License-Identifier: Apache-2.0
"""The state of a loader: plain numbers and tensors of bytes, which torch.save() and torch.load() take as they are."""
from __future__ import annotations

from typing import Any

import torch

from stoker.torch import _random

VERSION = 1


def to_tensor(state: bytes | None) -> torch.Tensor | None:
    return None if state is None else torch.frombuffer(bytearray(state), dtype=torch.uint8)


def to_bytes(state: torch.Tensor | None) -> bytes | None:
    return None if state is None else state.numpy().tobytes()


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
