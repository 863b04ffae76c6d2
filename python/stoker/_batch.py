# SPDX-License-Identifier: Apache-2.0
"""What a batch of any loader is made of."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def rows_of(batch: Any) -> int | None:
    """Samples of a batch: the length of the first array or list of texts in it. None: it has neither."""
    if isinstance(batch, Mapping):
        batch = list(batch.values())
    elif hasattr(batch, "shape"):
        return int(batch.shape[0]) if batch.shape else 1
    if isinstance(batch, Sequence) and not isinstance(batch, (str, bytes)) and len(batch):
        return len(batch) if isinstance(batch[0], (str, bytes)) else rows_of(batch[0])
    return None
