# SPDX-License-Identifier: Apache-2.0
"""Keywords and their types: written by scripts/make_python_options.py from the option tables."""
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

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
    bucket_window: int | None
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
    concat: str | None
    dtype: str | None
    shape: str | None
    offset: int | str | None
    order: str | None
    allow_trailing: bool | None


class ContextOptions(TypedDict, total=False):
    compute_threads: int | None
    memory_limit: int | str | None
    io_engine: str | None
    instructions: str | None
    local_ranks: int | None
    numa: str | None
    stores: str | None


class InfoOptions(ContextOptions, total=False):
    stats: str | None
    sample: int | None
    max_pixels: int | None
    max_blocks: int | None
    store: bool | None


class ChunksOptions(ContextOptions, total=False):
    chunks: str | Sequence[int | None] | Sequence[Sequence[int]] | None
    extent: str | Sequence[int | None] | None
    stride: str | Sequence[int | None] | None
    itemsize: int | None
    dtype: str | None
    ratio: float | None
    access: str | None
    shuffle_buffer: int | None
    memory_budget: int | str | None
    store: str | None
    latency: float | str | None
    bandwidth: float | str | None
    io_depth: int | None
    request_cost: float | None
    decode_rate: float | str | None
    top: int | None
    measure: bool | None
    sample: int | str | None


class ConvertOptions(ContextOptions, total=False):
    overwrite: bool | None
    num_workers: int | str | None
    memory_budget: int | str | None
    verify: str | None
    on_error: str | None
    max_errors: str | None
    checkpoint: int | None
    max_pixels: int | None
    max_blocks: int | None
    dry_run: bool | None
    max_side: int | None
    quality: int | None
    subsampling: str | None
    restart_interval: int | None
    dct_scaling: str | None
    upright: bool | None
    keep_png: bool | None
    variables: str | None
    chunks: str | None
    shards: str | None
    for_window: str | None
    for_store: str | None
    codec: str | None
    level: int | str | None
    shuffle: str | None
    checksum: bool | None
    zarr_format: str | None
    astype: str | None
    bitround: int | str | None
    decode_cf: bool | None
    temp_dir: str | None
    part: str | None
    join: int | None
    unlimited: str | None
    size: str | None
    short_side: int | None
    shard_size: int | str | None
    block: int | str | None
    layers: str | None
    input_shape: str | None


class TuneOptions(ContextOptions, total=False):
    objective: str | None
    max_wait: float | None
    max_memory: int | str | None
    max_cores: int | str | None
    core_price: float | None
    gpu_price: float | None
    verify: int | None
    rounds: int | None
    max_time: float | str | None
    loader: str | None
    dataset_args: str | Mapping[str, Any] | None
    python: str | None
    multiprocessing_context: str | None
    in_order: bool | None
    native: str | None
    rng: str | None
    dask: str | None
    dask_shared: bool | None
    dask_threads: int | None
    dask_workers: int | None
    dask_memory_limit: str | None
    dask_dashboard_port: int | None
    batch_size: int | None
    global_batch_size: int | None
    shuffle: bool | str | None
    drop_last: bool | None
    seed: int | None
    block_size: int | None
    shuffle_buffer: int | None
    streams: int | None
    bucket_window: int | None
    rank: int | None
    world_size: int | None
    epochs: int | None
    num_workers: int | str | Sequence[int | str] | None
    prefetch_factor: int | Sequence[int] | None
    persistent_workers: bool | None
    pin_memory: bool | None
    io_depth: int | str | Sequence[int | str] | None
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
    step: str | None
    train_step_time: float | str | None
    spin: bool | None
    min_seconds: float | str | None
    min_batches: int | None
    max_seconds: float | str | None
    num_epochs: int | None
    num_batches: int | None
    warmup: int | None
    ranks: int | None
    all_reduce: int | str | None
    published: bool | None
    trace: str | None
    trace_every: int | None
    drop_cache: bool | None


class BenchOptions(ContextOptions, total=False):
    loader: str | Sequence[str] | None
    dataset_args: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | None
    python: str | Sequence[str] | None
    multiprocessing_context: str | Sequence[str] | None
    in_order: bool | Sequence[bool] | None
    native: str | Sequence[str] | None
    rng: str | Sequence[str] | None
    dask: str | Sequence[str] | None
    dask_shared: bool | Sequence[bool] | None
    dask_threads: int | Sequence[int] | None
    dask_workers: int | Sequence[int] | None
    dask_memory_limit: str | Sequence[str] | None
    dask_dashboard_port: int | Sequence[int] | None
    batch_size: int | Sequence[int] | None
    global_batch_size: int | Sequence[int] | None
    shuffle: bool | str | Sequence[bool | str] | None
    drop_last: bool | Sequence[bool] | None
    seed: int | Sequence[int] | None
    block_size: int | Sequence[int] | None
    shuffle_buffer: int | Sequence[int] | None
    streams: int | Sequence[int] | None
    bucket_window: int | Sequence[int] | None
    rank: int | Sequence[int] | None
    world_size: int | Sequence[int] | None
    epochs: int | Sequence[int] | None
    num_workers: int | str | Sequence[int | str] | None
    prefetch_factor: int | Sequence[int] | None
    persistent_workers: bool | Sequence[bool] | None
    pin_memory: bool | Sequence[bool] | None
    io_depth: int | str | Sequence[int | str] | None
    memory_budget: int | str | Sequence[int | str] | None
    cache: str | Sequence[str] | None
    timeout: float | str | Sequence[float | str] | None
    watchdog: float | str | Sequence[float | str] | None
    on_error: str | Sequence[str] | None
    max_errors: str | Sequence[str] | None
    retries: int | Sequence[int] | None
    quarantine: str | Sequence[str] | None
    on_state_mismatch: str | Sequence[str] | None
    transforms: str | Transform | Sequence[str | Transform] | Sequence[str | Transform | Sequence[str | Transform]] | None
    batch_transforms: str | Transform | Sequence[str | Transform] | Sequence[str | Transform | Sequence[str | Transform]] | None
    step: str | Sequence[str] | None
    train_step_time: float | str | Sequence[float | str] | None
    spin: bool | Sequence[bool] | None
    min_seconds: float | str | Sequence[float | str] | None
    min_batches: int | Sequence[int] | None
    max_seconds: float | str | Sequence[float | str] | None
    num_epochs: int | Sequence[int] | None
    num_batches: int | Sequence[int] | None
    warmup: int | Sequence[int] | None
    repeat: int | Sequence[int] | None
    ranks: int | Sequence[int] | None
    all_reduce: int | str | Sequence[int | str] | None
    ceiling: bool | Sequence[bool] | None
    published: bool | Sequence[bool] | None
    ladder: bool | Sequence[bool] | None
    trace: str | Sequence[str] | None
    trace_every: int | Sequence[int] | None
    drop_cache: bool | Sequence[bool] | None
    hash: str | Sequence[str] | None
