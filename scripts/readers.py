#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every reader of outside bytes has a row in docs/internals/readers.md: what is one is said there.

check(ROOT, problem) holds the page against the source, in both directions.
"""
import re
from pathlib import Path

PAGE = Path("docs/internals/readers.md")
# Calls that bring bytes or names from outside, or take a text of another syntax apart.
CALLS = re.compile(r"(?<![\w.>])(stk_store_read|stk_store_list|stk__json_parse|json_load\w*|yaml_parser_parse|read|pread|preadv|"
                   r"fread|fgets|fgetc|getc|getline|getdelim|fscanf|sscanf|mmap|readlink|readlinkat|readdir|getdents64|recv|"
                   r"recvmsg|inflate|getxattr|fgetxattr)\s*\(")
# And what takes bytes with their length under one of these names.
BYTES = re.compile(r"const (?:void|char|uint8_t|unsigned char) \*\s*\w+,\s*(?:size_t|uint64_t|int64_t) "
                   r"(?:length|size|n|bytes|count|\w+_length|\w+_size)\b")
NAMES = re.compile(r"(?:^|_)(parse|read|load|peek|decode|feed|recognize|recognise|measure|begin|offer|import|scan|inflate)(?:_|$)")
# And what takes the text of a state, that ends with a 0.
STATES = re.compile(r"(?:^|_)(?:state_parse|loops_read|lines_read)$")
FUNCTION = re.compile(r"^([a-z][^;{}#]*?)\b(\w+)\(([^;{}]*)\)\n\{\n(.*?)^\}", re.M | re.S)
ROW = re.compile(r"^\| `([\w/]+\.c):(\w+)` \|(.*)\|$")


def readers(root, strip):
    """(file, function) of all that reads as the page defines it."""
    found = {}
    for folder in ("src", "cli"):
        for path in sorted((root / folder).rglob("*.c")):
            code = strip(path.read_text(encoding="utf-8"))
            for m in FUNCTION.finditer(code):
                head, name, arguments, body = m.groups()
                takes = not head.startswith("static") and (STATES.search(name) or NAMES.search(name) and
                                                           BYTES.search(" ".join(arguments.split())))
                if takes or CALLS.search(body):
                    found[str(path.relative_to(root)), name] = code.count("\n", 0, m.start()) + 1
    return found


def check_row(root, where, cells, problem):
    """A row of the table of readers: bytes from | fuzz target | limit of bytes | of work | of depth."""
    if len(cells) != 5 or not all(cells):
        problem(*where, "a reader's row has five cells behind its name: bytes from, fuzz target, limits of bytes, work, depth")
        return
    if cells[1].startswith("none: "):
        return
    for name in cells[1].split():
        if not (root / "fuzz" / f"fuzz_{name}.c").is_file():
            problem(*where, f"no fuzz/fuzz_{name}.c; name a target, or write \"none: why\"")
        elif not any((root / "fuzz/corpus" / name).glob("*")):
            problem(*where, f"fuzz/corpus/{name} is empty")


def check(root, problem, strip):
    found = readers(root, strip)
    rows, table = {}, None
    for number, line in enumerate((root / PAGE).read_text(encoding="utf-8").split("\n"), 1):
        if line.startswith("## "):
            table = line
        m = ROW.match(line)
        if not m:
            if line.startswith("| `"):
                problem(PAGE, number, "a row begins with `FILE.c:FUNCTION` alone")
            continue
        key, cells = (m[1], m[2]), [x.strip() for x in m[3].split("|")]
        if key in rows:
            problem(PAGE, number, f"{m[1]}:{m[2]} has a row already, line {rows[key]}")
        rows[key] = number
        if key not in found:
            problem(PAGE, number, f"{m[1]}:{m[2]} is not there or reads nothing any more: remove or rename its row")
        if table == "## Readers":
            check_row(root, (PAGE, number), cells, problem)
        elif len(cells) != 1 or not cells[0]:
            problem(PAGE, number, "one cell says why it is no reader of outside bytes")
    for (path, name), line in found.items():
        if (path, name) not in rows:
            problem(path, line, f"{name}() reads outside bytes and has no row in {PAGE}")
