#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write python/stoker/_options.py, the types of keywords, from the option tables of the library.

    PYTHONPATH=build/python python3 scripts/make_python_options.py [FILE]
"""
import sys
from pathlib import Path

from stoker import _native

TABLES = {"loader": "LoaderOptions", "array": "ArrayOptions"}
TRANSFORMS = "str | Transform | Sequence[str | Transform]"


def text() -> str:
    lines = ["# SPDX-License-Identifier: Apache-2.0",
             '"""Keywords and their types: written by scripts/make_python_options.py from the option tables."""',
             "from collections.abc import Sequence", "from typing import TypedDict", "",
             "from stoker._transform import Transform", ""]
    for table, name in TABLES.items():
        lines += ["", f"class {name}(TypedDict, total=False):"]
        for option, kind, _, _, _ in _native.options(table):
            lines.append(f"    {option}: {TRANSFORMS if option.endswith('transforms') else kind} | None")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    default = Path(__file__).resolve().parent.parent / "python" / "stoker" / "_options.py"
    Path(sys.argv[1] if len(sys.argv) > 1 else default).write_text(text())
