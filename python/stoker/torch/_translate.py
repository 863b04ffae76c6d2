# SPDX-License-Identifier: Apache-2.0
"""torchvision's transforms as the library's text, where the library gives the same pixels."""
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from stoker import transforms as ours

_SCALED = "normalize(0, 1)"  # a product with 1 / 255, where to_float and ToTensor divide
PICTURE, BYTES, FLOATS = "a picture of Pillow", "a uint8 tensor", "a float32 tensor"  # what a transform is given


class Unknown(Exception):
    """Why a transform has to be done by Python."""


class Chain:
    """The transforms so far, and what a sample is behind them."""

    def __init__(self, channels: int) -> None:
        self.channels = channels
        self.state = PICTURE
        self.done: list[str] = []

    def add(self, transform: object) -> None:
        self.done.append(str(transform))


def _name(t: Any) -> str:
    return type(t).__name__


def _need(t: Any, condition: bool, what: str) -> None:
    if not condition:
        raise Unknown(f"{_name(t)} {what}")


def _size(t: Any) -> Any:
    """One length, or both sides."""
    size = t.size
    _need(t, size is not None, "without a size")
    if isinstance(size, (list, tuple)):
        return list(size) if len(size) > 1 else size[0]
    return size


def _filter(t: Any, chain: Chain) -> str:
    _need(t, chain.state != FLOATS, "of float32")
    how = str(getattr(t.interpolation, "value", t.interpolation))
    if how in ("bilinear", "bicubic"):
        _need(t, chain.state == PICTURE or t.antialias is True, "without antialias")
        return how
    _need(t, how.startswith("nearest") and chain.state == PICTURE, f"with interpolation {how} of {chain.state}")
    return "nearest"


def _fill(t: Any) -> float:
    fill = t.fill
    if isinstance(fill, (list, tuple)) and len(set(fill)) == 1:
        fill = fill[0]
    _need(t, fill is None or isinstance(fill, (int, float)), f"with fill {fill!r}")
    return fill or 0


def _resize(t: Any, chain: Chain) -> None:
    chain.add(ours.Resize(_size(t), max_size=t.max_size, interpolation=_filter(t, chain)))


def _random_resized_crop(t: Any, chain: Chain) -> None:
    chain.add(ours.RandomResizedCrop(list(t.size), scale=list(t.scale), ratio=list(t.ratio), interpolation=_filter(t, chain)))


def _center_crop(t: Any, chain: Chain) -> None:
    chain.add(ours.CenterCrop(_size(t)))


def _pad(t: Any, chain: Chain) -> None:
    _need(t, t.padding_mode == "constant", f"with padding_mode {t.padding_mode!r}")
    chain.add(ours.Pad(t.padding, fill=_fill(t)))


def _random_crop(t: Any, chain: Chain) -> None:
    _need(t, t.padding_mode == "constant", f"with padding_mode {t.padding_mode!r}")
    _need(t, not t.pad_if_needed, "with pad_if_needed")
    chain.add(ours.RandomCrop(_size(t), padding=t.padding, fill=_fill(t)))


def _flip(made: Callable[[float], object]) -> Callable[[Any, Chain], None]:
    return lambda t, chain: chain.add(made(t.p))


def _bytes(t: Any, chain: Chain) -> None:
    _need(t, chain.state != FLOATS, "of float32")


def _color_jitter(t: Any, chain: Chain) -> None:
    _bytes(t, chain)
    given = {name: list(pair) for name in ("brightness", "contrast", "saturation", "hue")
             if (pair := getattr(t, name)) is not None}
    chain.add(ours.ColorJitter(**given))


def _random_grayscale(t: Any, chain: Chain) -> None:
    _bytes(t, chain)
    chain.add(ours.RandomGrayscale(t.p))


def _gaussian_blur(t: Any, chain: Chain) -> None:
    _bytes(t, chain)
    chain.add(ours.GaussianBlur(list(t.kernel_size), sigma=list(t.sigma)))


def _random_rotation(t: Any, chain: Chain) -> None:
    _bytes(t, chain)
    how = str(getattr(t.interpolation, "value", t.interpolation))
    _need(t, how in ("nearest", "bilinear") and not t.expand and t.center is None, "with expand, a center or such interpolation")
    chain.add(ours.RandomRotation(list(t.degrees), fill=_fill(t), interpolation=how))


def _random_erasing(t: Any, chain: Chain) -> None:
    _need(t, chain.state != PICTURE, f"of {PICTURE}")
    value = [t.value] if isinstance(t.value, (int, float)) else t.value
    _need(t, value is not None and not isinstance(value, str), "with random values")
    chain.add(ours.RandomErasing(t.p, scale=list(t.scale), ratio=list(t.ratio), value=list(value)))


def _to_bytes(t: Any, chain: Chain) -> None:
    _need(t, chain.state == PICTURE or _is_v2(t), f"of {chain.state}")
    if chain.state == PICTURE:
        chain.state = BYTES


def _to_floats(t: Any, chain: Chain) -> None:
    _need(t, chain.state == PICTURE or (_is_v2(t) and chain.state == FLOATS), f"of {chain.state}")
    if chain.state == PICTURE:
        chain.add("to_float")
    chain.state = FLOATS


def _dtype(t: Any, chain: Chain) -> None:
    """ToDtype and ConvertImageDtype, which always scales."""
    _need(t, chain.state != PICTURE, f"of {PICTURE}")
    now = torch.uint8 if chain.state == BYTES else torch.float32
    if t.dtype == now:
        return
    _need(t, t.dtype == torch.float32 and getattr(t, "scale", True), f"to {t.dtype} with scale={getattr(t, 'scale', True)}")
    chain.add(_SCALED)
    chain.state = FLOATS


def _normalize(t: Any, chain: Chain) -> None:
    _need(t, chain.state == FLOATS, f"of {chain.state}")
    mean, std = ([float(x) for x in values] for values in (t.mean, t.std))
    _need(t, len(mean) == len(std) and len(mean) in (1, chain.channels), f"of {len(mean)} channels")
    if chain.done[-1:] in (["to_float"], [_SCALED]):  # it takes bytes as well: one step in place of two
        chain.done.pop()
    chain.add(ours.Normalize(mean, std))


def _nothing(t: Any, chain: Chain) -> None:
    pass


def _is_v2(t: Any) -> bool:
    return type(t).__module__.startswith("torchvision.transforms.v2")


_KNOWN: dict[str, Callable[[Any, Chain], None]] = {
    "CenterCrop": _center_crop, "ColorJitter": _color_jitter, "ConvertImageDtype": _dtype, "GaussianBlur": _gaussian_blur,
    "Identity": _nothing, "Normalize": _normalize, "PILToTensor": _to_bytes, "Pad": _pad, "RandomCrop": _random_crop,
    "RandomErasing": _random_erasing, "RandomGrayscale": _random_grayscale,
    "RandomHorizontalFlip": _flip(ours.RandomHorizontalFlip), "RandomResizedCrop": _random_resized_crop,
    "RandomRotation": _random_rotation, "RandomVerticalFlip": _flip(ours.RandomVerticalFlip), "Resize": _resize,
    "ToDtype": _dtype, "ToImage": _to_bytes, "ToTensor": _to_floats,
}


def _genuine(t: Any, names: Any) -> bool:
    """Whether it is torchvision's class of its name, not one below it or of somebody else."""
    for module in ("torchvision.transforms", "torchvision.transforms.v2"):
        found = sys.modules.get(module)
        if found is not None and _name(t) in names and getattr(found, _name(t), None) is type(t):
            return True
    return False


def _each(t: Any, chain: Chain) -> None:
    if _genuine(t, ("Compose",)) or type(t) is torch.nn.Sequential:
        for part in t.transforms if hasattr(t, "transforms") else t:
            _each(part, chain)
        return
    _need(t, _genuine(t, _KNOWN) or type(t) is torch.nn.Identity, "is not one of the library's transforms")
    hooks = isinstance(t, torch.nn.Module) and (t._forward_hooks or t._forward_pre_hooks)
    _need(t, not hooks, "has hooks")
    _KNOWN[_name(t)](t, chain)


def translate(transform: Any, channels: int) -> str:
    """The text for what torchvision does to a picture of uint8, channels first at its end. Unknown: the reason."""
    chain = Chain(channels)
    if transform is not None:
        _each(transform, chain)
    if chain.state == PICTURE:
        raise Unknown("no transform makes tensors of the pictures")
    return ", ".join([*chain.done, "layout"])
