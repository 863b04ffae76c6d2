# SPDX-License-Identifier: Apache-2.0
"""What the classes of stoker.transforms share: each writes itself as the library's text."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Union

Number = Union[int, float]
Numbers = Union[Number, str, Sequence[Number], None]


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    if hasattr(value, "value"):  # a member of an enum, as torchvision's InterpolationMode
        return _value(value.value)
    return str(value)


class Transform:
    """One transform. str() of it is the text that the option `transforms` takes."""

    def __init__(self, _name: str, **arguments: Any) -> None:
        self._name = _name
        self._arguments = {name: value for name, value in arguments.items() if value is not None}

    def __str__(self) -> str:
        given = ", ".join(f"{name}={_value(value)}" for name, value in self._arguments.items())
        return f"{self._name}({given})" if given else self._name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._arguments.items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Transform) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


class Resizing(Transform):
    """One with a resize, which is antialiased, as torchvision's are unless told otherwise."""

    def __init__(self, _name: str, *, antialias: bool = True, **arguments: Any) -> None:
        if not antialias:
            raise ValueError(f"antialias={antialias!r}: what makes pictures smaller is antialiased here, always")
        super().__init__(_name, **arguments)


class Compose(Transform):
    """Several transforms, one after the other. A list does as well."""

    def __init__(self, transforms: Sequence[str | Transform]) -> None:
        super().__init__("compose")
        self.transforms = list(transforms)

    def __str__(self) -> str:
        return ", ".join(map(str, self.transforms))

    def __repr__(self) -> str:
        return f"Compose({self.transforms!r})"

    def __iter__(self) -> Iterator[str | Transform]:
        return iter(self.transforms)


class ToDtype(Transform):
    """float32; with `scale` uint8 is divided by 255. `dtype` is "float32", or the type of NumPy or PyTorch."""

    def __init__(self, dtype: Any, scale: bool = False) -> None:
        if getattr(dtype, "__name__", str(dtype).rpartition(".")[2]) != "float32" or not scale:
            raise ValueError(f"ToDtype({dtype!r}, scale={scale!r}): float32 with scale=True is what there is")
        super().__init__("to_float")


class MixUp(Transform):
    """A weighted mean of two samples of the batch (for `batch_transforms`)."""

    def __init__(self, alpha: Number | None = None, *, p: Number | None = None) -> None:
        super().__init__("mixup", alpha=alpha, p=p)


class CutMix(Transform):
    """A box of another sample of the batch (for `batch_transforms`)."""

    def __init__(self, alpha: Number | None = None, *, p: Number | None = None) -> None:
        super().__init__("cutmix", alpha=alpha, p=p)
