# SPDX-License-Identifier: Apache-2.0
"""The threads of OpenMP that torch computes with."""
from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator

import torch


def _functions() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """Those of the library that torch has been linked to."""
    try:
        library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))
        return library.omp_get_max_threads, library.omp_set_num_threads
    except (OSError, AttributeError):
        return None


_FOUND = _functions()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Has torch compute in this thread alone, with the same results: the others look for more work for milliseconds
    afterwards, on cores that workers need. torch.set_num_threads() says more than that, and of the whole process."""
    if _FOUND is None:
        yield
        return
    most, set_most = _FOUND
    before = most()
    set_most(1)
    try:
        yield
    finally:
        set_most(before)
