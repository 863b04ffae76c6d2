# SPDX-License-Identifier: Apache-2.0
"""Loaders that run in C, without worker processes."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def plan(loader: Any) -> Callable[[], Iterator[Any]] | str:
    """What makes an iterator of the loader that runs in C, or the reason why there is none."""
    return "no dataset runs in C yet"
