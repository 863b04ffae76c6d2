#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Headers as another version of Stoker had or will have them: other_version.py INCLUDE TO shorter|longer

Of every struct that begins with struct_size the last member is taken away (an earlier version), or another one stands
behind it (a later one). Tables of functions stay whole in the earlier version: what they lack is refused by name.
"""
import re
import sys
from pathlib import Path

SIZED = re.compile(r"(struct (\w+) \{)(\s*uint32_t struct_size;.*?)(\n\})", re.S)


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def shorter(match):
    head, name, body, end = match.groups()
    members = [m for m in without_comments(body).split(";") if m.strip()]
    if name.endswith("_ops") or len(members) < 2:
        return match.group(0)
    return head + "".join(m + ";" for m in members[:-1]) + end


def longer(match):
    head, _, body, end = match.groups()
    return head + body + "\n    uint64_t of_a_later_version[4];" + end


def main():
    include, to, how = Path(sys.argv[1]), Path(sys.argv[2]), {"shorter": shorter, "longer": longer}[sys.argv[3]]
    (to / "stoker").mkdir(parents=True, exist_ok=True)
    changed = 0
    for header in sorted((include / "stoker").glob("*.h")):
        text, n = SIZED.subn(how, header.read_text())
        (to / "stoker" / header.name).write_text(text)
        changed += n
    if changed < 40:
        sys.exit(f"other_version.py: only {changed} structs begin with struct_size")


main()
