# SPDX-License-Identifier: Apache-2.0
"""The random states of this process, as a checkpoint keeps them: tensors, numbers and text alone."""
from __future__ import annotations

import random
from typing import Any

import numpy
import torch


def random_states() -> dict[str, Any]:
    """Of Python, NumPy and PyTorch, with those of the accelerators that are in use."""
    version, words, gauss = random.getstate()
    legacy: Any = numpy.random.get_state(legacy=False)
    key = torch.from_numpy(numpy.asarray(legacy["state"]["key"]).astype(numpy.int64))
    states = {
        "python": {"version": version, "words": torch.tensor(words), "gauss": gauss},
        "numpy": {**legacy, "state": {"key": key, "pos": int(legacy["state"]["pos"])}},
        "torch": torch.get_rng_state(),
    }
    cuda: Any = torch.cuda
    if cuda.is_initialized():
        states["cuda"] = cuda.get_rng_state_all()
    return states


def set_random_states(states: dict[str, Any]) -> None:
    """Go on behind random_states(). Accelerators that are not there any more are passed over."""
    python = states["python"]
    random.setstate((python["version"], tuple(python["words"].tolist()), python["gauss"]))
    state = states["numpy"]["state"]
    key = state["key"].numpy().astype(numpy.uint32)
    numpy.random.set_state({**states["numpy"], "state": {**state, "key": key}})
    torch.set_rng_state(states["torch"].cpu())
    for device, cuda in enumerate(states.get("cuda", ())):
        if device < torch.cuda.device_count():
            torch.cuda.set_rng_state(cuda.cpu(), device)
