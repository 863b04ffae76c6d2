# SPDX-License-Identifier: Apache-2.0
"""Which of several processes of a training this is, and how many share this machine."""
from __future__ import annotations

import os
import sys
from typing import Any

from stoker import _native


def local_ranks() -> int:
    """Ranks that share the cores of this process, as whoever started them says in the environment; 1: nobody.

    As for contexts of the library, an environment that contradicts itself says nothing: it is refused where a rank is asked for.
    """
    try:
        return _native.ranks(dict(os.environ))[5]
    except _native.InvalidError:
        return 1


def place() -> tuple[int, int]:
    """(rank, world_size): of torch.distributed where it was begun, else as the launcher says in the environment."""
    torch: Any = sys.modules.get("torch.distributed")
    if torch is not None and torch.is_available() and torch.is_initialized():
        return torch.get_rank(), torch.get_world_size()
    _, rank, world_size, *_ = _native.ranks(dict(os.environ))
    return rank, world_size
