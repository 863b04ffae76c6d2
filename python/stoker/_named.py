# SPDX-License-Identifier: Apache-2.0
"""MODULE:NAME: an object of Python that a command line names."""
from __future__ import annotations

import difflib
import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


class Mistyped(ValueError):
    """What was typed does not name anything. Its text is all there is to say: where it was raised does not matter."""


def _of_file(path: Path) -> ModuleType:
    """As `python FILE.py` has it: modules beside it are found, and workers find it by its name."""
    if not path.is_file():
        raise Mistyped(f"there is no file {path}")
    if (folder := str(path.parent)) not in sys.path:
        sys.path.insert(0, folder)
    module = importlib.import_module(path.stem)
    if not module.__file__ or not path.samefile(module.__file__):
        raise Mistyped(f"{path} cannot be imported beside another module {path.stem} ({module.__file__}): rename the file")
    return module


def _of_name(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):  # it is one that the module imports
            raise
        raise Mistyped(f"there is no module '{error.name}' for {sys.executable}, in this folder or in PYTHONPATH") from None


def named(text: str) -> Any:
    """What "package.module:Name" or "folder/file.py:Name" names."""
    where, _, name = text.rpartition(":")
    if not where or not name:
        raise Mistyped(f"'{text}' is no MODULE:NAME, and no FILE.py:NAME")
    found: Any = _of_file(Path(where).resolve()) if where.endswith(".py") else _of_name(where)
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            near = difflib.get_close_matches(part, dir(found), 1)
            raise Mistyped(f"{where} has no '{part}'" + (f": did you mean '{near[0]}'?" if near else "")) from None
    return found
