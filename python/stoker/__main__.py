# SPDX-License-Identifier: Apache-2.0
"""The command of the package: python -m stoker ..."""
import os
import sys
from pathlib import Path


def command() -> str:
    """Where the command is."""
    return str(Path(__file__).parent / "bin" / "stoker")


def environment() -> dict[str, str]:
    """For the command: this interpreter is the one that it finds first, for datasets of Python."""
    return os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}


def main() -> None:
    if not os.path.exists(command()):
        sys.exit(f"stoker: the command is not part of this installation: {command()} is not there")
    os.execve(command(), ["stoker", *sys.argv[1:]], environment())


if __name__ == "__main__":
    main()
