# SPDX-License-Identifier: Apache-2.0
"""Keywords as the library's options: their texts, and their help."""
from __future__ import annotations

import operator
import re
from typing import Any

import numpy

from stoker import _native
from stoker._transform import Transform


def add_options(documented: Any, *tables: str, own: str = "") -> None:
    """Let help() of a class or a function say what its keywords are: of tables of the library, and `own`, which a command has."""
    options = re.sub(
        r"^  --(?:\[no-\])?([a-z0-9-]+)((?: \S+)?)",
        lambda flag: f"  {flag[1].replace('-', '_')}{flag[2]}".ljust(len(flag[0])),
        own + "".join(map(_native.options_help, tables)),
        flags=re.MULTILINE,
    )
    indented = re.sub("^(?=.)", "    ", options, flags=re.MULTILINE)  # as what is above
    documented.__doc__ = f"{documented.__doc__}\n    Options:\n\n{indented}"


def option_text(name: str, value: object) -> str:
    """The text of an option, as a command line has it."""
    if isinstance(value, (bool, numpy.bool_)):
        return "true" if value else "false"
    if isinstance(value, (str, int, float, Transform)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return ", ".join(option_text(name, item) for item in value)
    if hasattr(value, "__index__"):
        return str(value.__index__())
    if hasattr(value, "__float__"):
        return repr(float(value))
    raise TypeError(f"{name} is a {type(value).__name__}: give text, a number, a switch, an object of stoker.transforms or a list "
                    "of them")


def whole(name: str, value: Any, least: int | None = None) -> int:
    """A whole number of any kind."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}: give a whole number") from None
    if least is not None and number < least:
        raise _native.InvalidError(f"{name} is {number}: give {least} or more")
    return number
