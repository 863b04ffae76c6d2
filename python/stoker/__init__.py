# SPDX-License-Identifier: Apache-2.0
"""Stoker keeps accelerators fed: batches of images, arrays and records, made in C.

    import stoker

    with stoker.Loader("mnist:data/mnist", batch_size=256, shuffle=True) as loader:
        for epoch in range(3):
            for batch in loader:
                images, labels = batch["image"], batch["label"]    # NumPy arrays, without a copy
"""
from stoker._native import (
    AccessError,
    DataError,
    Error,
    InvalidError,
    NoMemoryError,
    NotFoundError,
    StorageError,
    TimedOutError,
    __version__,
)
from stoker import transforms
from stoker._array import Array
from stoker._functions import bench, chunks, convert, info, report, tune
from stoker._loader import Loader, Ragged

__all__ = [
    "AccessError",
    "Array",
    "DataError",
    "Error",
    "InvalidError",
    "Loader",
    "NoMemoryError",
    "NotFoundError",
    "Ragged",
    "StorageError",
    "TimedOutError",
    "__version__",
    "transforms",
    "bench",
    "chunks",
    "convert",
    "info",
    "report",
    "tune",
]
