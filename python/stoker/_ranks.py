# SPDX-License-Identifier: Apache-2.0
"""Which of several processes of a training this is, and how many share this machine."""
from __future__ import annotations

import os
import sys
from typing import Any

from stoker import _native

_NAMES = ("LOCAL_WORLD_SIZE", "SLURM_NTASKS_PER_NODE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")


def local_ranks() -> int:
    """As whoever started them says in the environment; 1: nobody."""
    return next((int(os.environ[name]) for name in _NAMES if os.environ.get(name, "").isdecimal()), 1)


def place() -> tuple[int, int]:
    """(rank, world_size): of torch.distributed where it was begun, else as the launcher says in the environment."""
    torch: Any = sys.modules.get("torch.distributed")
    if torch is not None and torch.is_available() and torch.is_initialized():
        return torch.get_rank(), torch.get_world_size()
    # Lightning's own launcher says the number of processes and not which one this is, and in the first process nothing
    # until fit(): before torch.distributed was begun all processes read alike.
    if "RANK" not in os.environ and "LOCAL_RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return 0, 1
    _, rank, world_size, *_ = _native.ranks(dict(os.environ))
    return rank, world_size
