# SPDX-License-Identifier: Apache-2.0
"""The random states of this process and of its accelerators, as a checkpoint keeps them: tensors of bytes alone."""
from __future__ import annotations

from typing import Any

import torch

from stoker.torch import _random
from stoker.torch._state import to_bytes, to_tensor


def random_states() -> dict[str, Any]:
    """Of Python, NumPy and PyTorch, as a loader's state has them, with those of the accelerators that are in use."""
    states: dict[str, Any] = {"process": to_tensor(_random.current())}
    cuda: Any = torch.cuda
    if cuda.is_initialized():
        states["cuda"] = cuda.get_rng_state_all()
    return states


def set_random_states(states: dict[str, Any]) -> None:
    """Go on behind random_states(). Accelerators that are not there any more are passed over."""
    process = to_bytes(states["process"])
    assert process is not None
    _random.load(process)
    for device, cuda in enumerate(states.get("cuda", ())):
        if device < torch.cuda.device_count():
            torch.cuda.set_rng_state(cuda.cpu(), device)
