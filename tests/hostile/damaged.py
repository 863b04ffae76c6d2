#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""damaged.py STOKER HOW: make of every file of the cache in `cache` what nobody wrote there."""
import os
import sys
from pathlib import Path


def damage(path, how):
    data = path.read_bytes()
    if how == "longer":
        with path.open("r+b") as f:
            f.truncate(1 << 40)
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "forged":  # sizes and counts at their most
        path.write_bytes(data[:8] + b"\xff" * 56 + data[64:])
    elif how == "noise":
        path.write_bytes(os.urandom(len(data)))
    else:
        path.unlink()
        if how == "links":
            path.symlink_to("/etc/passwd")
        elif how == "victims":
            path.symlink_to(Path("../victim").resolve())
        elif how == "pipes":
            os.mkfifo(path)
        elif how == "folders":
            path.mkdir()


for file in [p for p in Path("cache").rglob("*") if p.is_file()]:
    damage(file, sys.argv[2])
