# SPDX-License-Identifier: Apache-2.0
"""The command of the package: python -m stoker ..."""
import os
import sys
from pathlib import Path


def main() -> None:
    command = Path(__file__).parent / "bin" / "stoker"
    if not command.exists():
        sys.exit(f"stoker: the command is not part of this installation: {command} is not there")
    os.execv(command, ["stoker", *sys.argv[1:]])


if __name__ == "__main__":
    main()
