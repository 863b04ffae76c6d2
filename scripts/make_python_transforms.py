#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write python/stoker/transforms.py, the transforms as classes, from the tables of the library.

    PYTHONPATH=build/python python3 scripts/make_python_transforms.py [FILE]
"""
import sys
import textwrap
from pathlib import Path

from stoker import _native

NAMES = {"horizontal_flip": "RandomHorizontalFlip", "vertical_flip": "RandomVerticalFlip"}  # as torchvision has them
SHARED = ["Compose", "CutMix", "MixUp", "ToDtype", "Transform"]
# Arguments that have the places of torchvision's, where not all have; the others are given by name.
PLACES = {"CenterCrop": ["size"], "GaussianBlur": ["kernel_size", "sigma"], "Normalize": ["mean", "std"],
          "RandAugment": ["num_ops", "magnitude", "num_magnitude_bins"], "RandomCrop": ["size", "padding"],
          "RandomRotation": ["degrees", "interpolation"], "Resize": ["size", "interpolation", "max_size"]}
RESIZING = ("RandomResizedCrop", "Resize")
TYPES = {"int": "int | None", "float": "float | None", "bool": "bool | None"}


def class_name(name: str) -> str:
    return NAMES.get(name, "".join(map(str.title, name.split("_"))))


def paragraph(text: str, indent: int) -> list[str]:
    return textwrap.wrap(text, 120 - indent, initial_indent=" " * indent, subsequent_indent=" " * (indent + 4))


def about(option: tuple) -> str:
    name, _, initial, choices, doc = option
    allowed = f" One of {', '.join(choices.split('|'))}." if choices else ""
    return f"{name}: {doc}{allowed}" + (f" Default: {initial}." if initial is not None else "")


def type_of(option: tuple) -> str:
    return "str | None" if option[3] else TYPES.get(option[1], "Numbers")


def call(head: str, arguments: list, tail: str) -> list[str]:
    """Lines that break between arguments alone."""
    whole = ", ".join(argument.replace(" ", "~") for argument in arguments)
    lines = textwrap.wrap(whole, 120 - len(head) - len(tail), break_on_hyphens=False)
    lines = [(head if i == 0 else " " * len(head)) + line.replace("~", " ") for i, line in enumerate(lines)]
    return lines[:-1] + [lines[-1] + tail]


def one(name: str, doc: str, options: list) -> list[str]:
    made = class_name(name)
    resizes = made in RESIZING
    lines = ["", "", f"class {made}({'Resizing' if resizes else 'Transform'}):"]
    lines += [f'    """{doc[0].upper()}{doc[1:]}.']
    if options:
        lines += [""] + sum((paragraph(about(option), 4) for option in options), [])
        lines += paragraph("antialias: Always true, as it is by default of torchvision.", 4) if resizes else []
        lines += ['    """']
    else:
        lines[-1] += '"""'
    lines += [""]
    places = PLACES.get(made, [o[0] for o in options])
    types = {o[0]: f"{o[0]}: {type_of(o)} = None" for o in options}
    if options and options[0][2] is None and "preset" not in types:  # which stands for the others
        types[options[0][0]] = types[options[0][0]].removesuffix(" = None")
    arguments = [types.pop(place) for place in places]
    arguments += ["*", *types.values()] if types else []
    given = [f"{o[0]}={o[0]}" for o in options]
    if resizes:
        arguments += ["antialias: bool = True"]
        given += ["antialias=antialias"]
    lines += call("    def __init__(", ["self"] + arguments, ") -> None:")
    lines += call("        super().__init__(", [f'"{name}"'] + given, ")")
    return lines


def text() -> str:
    transforms = [transform for transform in _native.transforms() if transform[0] != "to_float"]  # ToDtype
    names = sorted(SHARED + [class_name(name) for name, _, _ in transforms])
    lines = ["# SPDX-License-Identifier: Apache-2.0",
             '"""Transforms as objects, named as torchvision.transforms.v2 names them: what a Loader does in C.',
             "",
             "    stoker.Loader(spec, transforms=[RandomResizedCrop(224), RandomHorizontalFlip(), Normalize(\"imagenet\")])",
             "",
             "Each stands for the text of the same call (str() of it), and the library checks its arguments. Written by",
             'scripts/make_python_transforms.py from the tables of the library.',
             '"""',
             "from __future__ import annotations", "",
             f"from stoker._transform import {', '.join(sorted(SHARED + ['Numbers', 'Resizing']))}", "",
             "__all__ = ["] + [f'    "{name}",' for name in names] + ["]"]
    for name, doc, options in transforms:
        lines += one(name, doc, options)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    default = Path(__file__).resolve().parent.parent / "python" / "stoker" / "transforms.py"
    Path(sys.argv[1] if len(sys.argv) > 1 else default).write_text(text())
