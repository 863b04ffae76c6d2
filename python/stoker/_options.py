# SPDX-License-Identifier: Apache-2.0
"""Keywords and their types: written by scripts/make_python_options.py from the option tables."""
from collections.abc import Sequence
from typing import TypedDict

from stoker._transform import Transform


class LoaderOptions(TypedDict, total=False):
    batch_size: int | None
    global_batch_size: int | None
    shuffle: bool | str | None
    drop_last: bool | None
    seed: int | None
    block_size: int | None
    shuffle_buffer: int | None
    streams: int | None
    rank: int | None
    world_size: int | None
    epochs: int | None
    num_workers: int | str | None
    prefetch_factor: int | None
    persistent_workers: bool | None
    pin_memory: bool | None
    io_depth: int | str | None
    memory_budget: int | str | None
    cache: str | None
    timeout: float | str | None
    watchdog: float | str | None
    on_error: str | None
    max_errors: str | None
    retries: int | None
    quarantine: str | None
    on_state_mismatch: str | None
    transforms: str | Transform | Sequence[str | Transform] | None
    batch_transforms: str | Transform | Sequence[str | Transform] | None

class ArrayOptions(TypedDict, total=False):
    format: str | None
    missing: str | None
    checksums: bool | None
    num_threads: int | str | None
    memory: int | str | None
    index_cache: int | str | None
    timeout: float | str | None
    dtype: str | None
    shape: str | None
    offset: int | str | None
    order: str | None
    allow_trailing: bool | None
