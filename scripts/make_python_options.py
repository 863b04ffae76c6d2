#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write python/stoker/_options.py, the types of keywords, from the option tables of the library and of the command, and
_functions/help.py, what the command says of those that the library has not.

    PYTHONPATH=build/python python3 scripts/make_python_options.py [FOLDER]
"""
import re
import subprocess
import sys
from pathlib import Path

from stoker import _native
from stoker.__main__ import command
from stoker._functions import TUNED

# Of commands: the sections of --help that a function takes, besides those of the process.
COMMANDS = {"info": ("info", "survey", ""), "chunks": ("chunks",), "convert": ("convert", "images", "arrays", "packed", "squashfs", "shards", "weights"),
            "tune": ("tune", "python", "loader", "bench")}
# Sections of a command that has other defaults, or fewer options, than the table.
OWN_SECTIONS = {"tune": ("bench",)}
# Types of what only the command has, by what stands for the value; else they are texts.
METAVARS = {"N": "int", "BYTES": "int", "X": "float", "DOLLARS": "float", "SIZE": "int | str", "RATE": "float | str"}
SHAPE = "str | Sequence[int | None]"
SHAPES = "str | Sequence[int | None] | Sequence[Sequence[int]]"
METAVARS |= {"AxB": SHAPE, "AxB,...": SHAPES, "TIME[..TIME]": "float | str", "RATE[..RATE]": "float | str"}
SECTION = re.compile(r"^\S.*?(?: \(in YAML: below '(\w+):'\))?:$")
OPTION = re.compile(r"^  --(\[no-\])?([a-z0-9-]+)(?: (\S+))?(?:  |$)")
# Of functions that have them as arguments of their own, or as their result.
OWN = {"window", "html"}


# Of options whose texts have a form of their own.
FORMS = dict.fromkeys(("transforms", "batch_transforms"), "str | Transform | Sequence[str | Transform]")
FORMS["dataset_args"] = "str | Mapping[str, Any]"


def of_table(table: str) -> dict[str, str]:
    return {name: FORMS.get(name, kind) for name, kind, _, _, _ in _native.options(table)}


def of_command(name: str) -> tuple[dict[str, str], list[str]]:
    """Names and types of the options of a command in the sections that it is asked for, and the help of those that are its
    own."""
    text = subprocess.run([command(), name, "--help"], capture_output=True, text=True, check=True).stdout
    section, key, found, lines = None, "", {}, []
    for line in text.splitlines():
        if head := SECTION.match(line):
            section, key = head[1] or ("" if line == "A store:" else None), ""
            continue
        if section not in COMMANDS[name]:
            continue
        if option := OPTION.match(line):
            key = option[2].replace("-", "_")
            found[key] = "bool" if option[1] else METAVARS.get(option[3], "str")
        try:
            known = of_table(section)
        except KeyError:  # the command's own
            known = {}
        if key in known:
            found[key] = known[key]
        if key and line and key not in OWN and (key not in known or section in OWN_SECTIONS.get(name, ())):
            lines.append(line)
    return {key: kind for key, kind in found.items() if key not in OWN}, lines


def typed(name: str, base: str, options: dict[str, str]) -> list[str]:
    return ["", "", f"class {name}({base}, total=False):", *(f"    {key}: {kind} | None" for key, kind in options.items())]


MADE = "written by scripts/make_python_options.py from the option tables."


def text() -> str:
    lines = ["# SPDX-License-Identifier: Apache-2.0",
             f'"""Keywords and their types: {MADE}"""',
             "from collections.abc import Mapping, Sequence",
             "from typing import Any, TypedDict",
             "",
             "from stoker._transform import Transform"]
    lines += typed("LoaderOptions", "TypedDict", of_table("loader"))
    lines += typed("ArrayOptions", "TypedDict", of_table("array"))
    lines += typed("ContextOptions", "TypedDict", of_table("context"))
    for name in COMMANDS:
        options = of_command(name)[0]
        if name == "tune":
            options |= {key: f"{options[key]} | Sequence[{options[key]}]" for key in TUNED}
        lines += typed(f"{name.capitalize()}Options", "ContextOptions", options)
    several = {key: f"{kind} | Sequence[{kind}]" for key, kind in (of_table("python") | of_table("loader") | of_table("bench")).items()}
    lines += typed("BenchOptions", "ContextOptions", several)
    return "\n".join(lines) + "\n"


def helps() -> str:
    lines = ["# SPDX-License-Identifier: Apache-2.0", f'"""The options of commands alone: {MADE}"""']
    for name in COMMANDS:
        own = of_command(name)[1]
        if own:
            lines += ["", f'{name.upper()} = """\\', *own, '"""']
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent / "python" / "stoker")
    Path(folder, "_options.py").write_text(text())
    Path(folder, "_functions").mkdir(exist_ok=True)
    Path(folder, "_functions", "help.py").write_text(helps())
