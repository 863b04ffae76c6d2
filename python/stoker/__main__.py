# SPDX-License-Identifier: Apache-2.0
"""The command of the package: python -m stoker ..."""
import os
import sys
from pathlib import Path


def command() -> str:
    """Where the command is."""
    return str(Path(__file__).parent / "bin" / "stoker")


def main() -> None:
    if not os.path.exists(command()):
        sys.exit(f"stoker: the command is not part of this installation: {command()} is not there")
    os.execv(command(), ["stoker", *sys.argv[1:]])


if __name__ == "__main__":
    main()
