#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write python/stoker/_options.py, the types of keywords, from the option tables of the library and of the command.

    PYTHONPATH=build/python python3 scripts/make_python_options.py [FILE]
"""
import re
import subprocess
import sys
from pathlib import Path

from stoker import _native
from stoker.__main__ import command

# Of commands: the sections of --help that a function takes, besides those of the process.
COMMANDS = {"info": ("info", "survey", ""), "chunks": ("chunks",), "convert": ("convert", "images", "weights")}
# Types of what only the command has, by what stands for the value; else they are texts.
METAVARS = {"N": "int", "BYTES": "int", "X": "float", "DOLLARS": "float", "SIZE": "int | str", "RATE": "float | str"}
SHAPE = "str | Sequence[int | None]"
SHAPES = "str | Sequence[int | None] | Sequence[Sequence[int]]"
METAVARS |= {"AxB": SHAPE, "AxB,...": SHAPES, "TIME[..TIME]": "float | str", "RATE[..RATE]": "float | str"}
SECTION = re.compile(r"^\S.*?(?: \(in YAML: below '(\w+):'\))?:$")
OPTION = re.compile(r"^  --(\[no-\])?([a-z0-9-]+)(?: (\S+))?(?:  |$)")
# Of functions that have them as arguments of their own, or as their result.
OWN = {"window", "html"}


TRANSFORMS = "str | Transform | Sequence[str | Transform]"


def of_table(table: str) -> dict[str, str]:
    return {name: TRANSFORMS if name.endswith("transforms") else kind for name, kind, _, _, _ in _native.options(table)}


def of_command(name: str) -> dict[str, str]:
    """Names and types of the options of a command in the sections that it is asked for."""
    text = subprocess.run([command(), name, "--help"], capture_output=True, text=True, check=True).stdout
    section, found = None, {}
    for line in text.splitlines():
        if head := SECTION.match(line):
            section = head[1] or ("" if line == "A store:" else None)
        elif (option := OPTION.match(line)) and section in COMMANDS[name]:
            key = option[2].replace("-", "_")
            kind = "bool" if option[1] else METAVARS.get(option[3], "str")
            try:
                kind = of_table(section)[key]
            except KeyError:  # the command's own
                pass
            if key not in OWN:
                found[key] = kind
    return found


def typed(name: str, base: str, options: dict[str, str]) -> list[str]:
    return ["", "", f"class {name}({base}, total=False):", *(f"    {key}: {kind} | None" for key, kind in options.items())]


def text() -> str:
    lines = ["# SPDX-License-Identifier: Apache-2.0",
             '"""Keywords and their types: written by scripts/make_python_options.py from the option tables."""',
             "from collections.abc import Sequence",
             "from typing import TypedDict",
             "",
             "from stoker._transform import Transform"]
    lines += typed("LoaderOptions", "TypedDict", of_table("loader"))
    lines += typed("ArrayOptions", "TypedDict", of_table("array"))
    lines += typed("ContextOptions", "TypedDict", of_table("context"))
    for name in COMMANDS:
        lines += typed(f"{name.capitalize()}Options", "ContextOptions", of_command(name))
    several = {key: f"{kind} | Sequence[{kind}]" for key, kind in (of_table("loader") | of_table("bench")).items()}
    lines += typed("BenchOptions", "ContextOptions", several)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    default = Path(__file__).resolve().parent.parent / "python" / "stoker" / "_options.py"
    Path(sys.argv[1] if len(sys.argv) > 1 else default).write_text(text())
