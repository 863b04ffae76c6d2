# SPDX-License-Identifier: Apache-2.0
"""The command of the package: python -m stoker ..."""
import os
import sys
from pathlib import Path


def command() -> str:
    """Where the command is."""
    return str(Path(__file__).parent / "bin" / "stoker")


def environment() -> dict[str, str]:
    """For the command: datasets of Python are for this interpreter, where it is one of its own."""
    return os.environ | ({"STOKER_PYTHON": sys.executable} if sys.executable else {})


def main() -> None:
    if not os.path.exists(command()):
        sys.exit(f"stoker: the command is not part of this installation: {command()} is not there")
    os.execve(command(), ["stoker", *sys.argv[1:]], environment())


if __name__ == "__main__":
    main()
