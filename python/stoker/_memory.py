# SPDX-License-Identifier: Apache-2.0
"""What a user has in memory as a dataset of the library."""
from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Union

import numpy

from stoker import _native

Given = Union[str, _native.Dataset, Any]  # Any: an array, or a tuple or mapping of arrays


def is_picture(array: Any) -> bool:
    """Whether samples are what the transforms of pictures take: uint8 [height, width, 1, 3 or 4]."""
    return bool(array.ndim == 4 and array.dtype == numpy.uint8 and array.shape[3] in (1, 3, 4))


def field(name: str, given: Any) -> tuple[str, str, Any, bool]:
    """As Dataset.of() takes it. Tensors of PyTorch stay where they are, too."""
    if str(getattr(given, "dtype", "")) == "torch.bfloat16":  # NumPy has no such type
        import torch

        return name, "bfloat16", given.detach().view(torch.int16).numpy(), False
    array = numpy.asarray(given.detach() if hasattr(given, "detach") else given)
    return name, array.dtype.name if array.dtype.isnative else str(array.dtype), array, is_picture(array)


def dataset(given: Given) -> str | _native.Dataset:
    """The spec, or the arrays: fields are named as in a mapping, "data", or by their place in a tuple."""
    if isinstance(given, (str, _native.Dataset)):
        return given
    if isinstance(given, os.PathLike):
        return os.fsdecode(given)
    if type(given).__module__.partition(".")[0] == "zarr":
        raise TypeError("a zarr array or group is read by its spec: \"array:PATH?window=...\"")
    if type(given).__module__.partition(".")[0] == "xarray" and isinstance(given, Mapping):
        raise TypeError("a dataset of xarray is cut into samples by stoker.xarray.windows()")
    if hasattr(given, "spec"):  # stoker.xarray.Windows
        if given.spec is None:
            raise _native.InvalidError(f"this dataset is not read natively: {given.why_not}; take stoker.torch.DataLoader")
        spec: str = given.spec
        return spec
    if isinstance(given, Mapping):
        named = {str(name): array for name, array in given.items()}
    elif isinstance(given, tuple):
        named = {str(i): array for i, array in enumerate(given)}
    elif hasattr(given, "__array__") or hasattr(given, "__array_interface__"):
        named = {"data": given}
    else:
        raise TypeError(f"a dataset is its spec, an array, or a tuple or dict of arrays; this is a {type(given).__name__}")
    if not named:
        raise _native.InvalidError("a dataset without arrays: give one at least")
    return _native.Dataset.of(tuple(field(name, array) for name, array in named.items()))
