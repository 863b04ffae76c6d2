# SPDX-License-Identifier: Apache-2.0
"""Keywords as the library's options: their texts, and their help."""
from __future__ import annotations

import re

import numpy

from stoker._transform import Transform


def as_keywords(text: str) -> str:
    """The help of options with the names of keywords in the place of flags."""
    return re.sub(
        r"^  --(?:\[no-\])?([a-z0-9-]+)((?: \S+)?)",
        lambda flag: f"  {flag[1].replace('-', '_')}{flag[2]}".ljust(len(flag[0])),
        text,
        flags=re.MULTILINE,
    )


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
    raise TypeError(f"{name} is a {type(value).__name__}: give text, a number, a switch, a transform or a list of them")
