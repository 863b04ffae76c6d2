#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The public interface as text: functions, layouts of structs, values of constants.

    surface.py ROOT           compares it with tests/packaging/surface.txt; exit code 1 where they differ
    surface.py ROOT --write   writes that file, when CHANGELOG.md has changed too

The text holds a hash of CHANGELOG.md, so that nobody changes the interface without a word to its users.
"""
import difflib
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

STRUCT = re.compile(r"(?:typedef )?struct (\w+) \{(.*?)\n?\} ?(\w*);", re.S)
ENUM = re.compile(r"(?:typedef )?enum \w* ?\{(.*?)\} ?\w*;", re.S)
FUNCTION = re.compile(r'__attribute__ ?\(\(visibility\("default"\)\)\)([^;{]*\));')
INLINE = re.compile(r"static inline ([^;{]*\))\s*\{")
TYPEDEF = re.compile(r"typedef ([^{};]*);")


def one_line(text):
    text = re.sub(r"__attribute__ ?\(\((?:[^()]|\([^()]*\))*\)\)", "", text)
    return re.sub(r" ?\* ", " *", re.sub(r"\s+", " ", text)).strip()


def declarations(root):
    """What the headers declare, as the compiler sees it, without what they include from elsewhere."""
    done = subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-E", "-I", root / "include", root / "include/stoker/stoker.h"],
                          check=True, capture_output=True, text=True)
    kept, ours = [], False
    for line in done.stdout.split("\n"):
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            ours = "/stoker/" in marker.group(1)
        elif ours:
            kept.append(line)
    return "\n".join(kept)


def members(body):
    """Names and declarations of the members of a struct; one that is a struct or union itself is one line."""
    out, depth, piece = [], 0, ""
    for c in body:
        depth += (c == "{") - (c == "}")
        if c == ";" and depth == 0:
            text = one_line(piece)
            piece = ""
            if not text:
                continue
            function = re.search(r"\(\*(\w+)(?:\[\w*\])?\)\s*\(", text)
            if function:
                out.append((function.group(1), text))
                continue
            flat = re.sub(r"\{.*\}", "", text)
            kind = re.match(r"(.*?[\w*}] ?\**)(?=\b\w+(?:\[[^\]]*\])*(?:, |$))", flat)
            for name in re.findall(r"(\w+)(?:\[[^\]]*\])*(?=,|$)", flat[kind.start(1):] if "," not in flat else flat):
                array = re.search(r"\b" + name + r"((?:\[[^\]]*\])*)", flat).group(1)
                out.append((name, f"{kind.group(1).strip() if kind else ''} {name}{array}"))
        else:
            piece += c
    return out


def layouts(root, text):
    """Sizes, offsets and values, which only the compiler knows."""
    lines, program = [], ["#include <stdio.h>", "#include <stddef.h>", "#include <stoker/stoker.h>", "int main(void) {"]
    for name, body, _ in STRUCT.findall(text):
        program.append(f'printf("struct {name}: %zu bytes\\n", sizeof(struct {name}));')
        for member, declared in members(body):
            program.append(f'printf("    %zu: {declared}\\n", offsetof(struct {name}, {member}));')
    for body in ENUM.findall(text):
        for word in re.findall(r"(\w+)\s*(?:=[^,]*)?(?:,|$)", re.sub(r"\s+", " ", body).strip()):
            program.append(f'printf("constant {word}: %lld\\n", (long long){word});')
    program += ["return 0; }"]
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder) / "layout.c", Path(folder) / "layout"
        source.write_text("\n".join(program))
        subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-w", "-I", root / "include", "-o", binary, source], check=True)
        lines = subprocess.run([binary], check=True, capture_output=True, text=True).stdout.split("\n")
    return [line for line in lines if line]


def nested(text):
    """Structs that may grow within others, where they cannot."""
    sized = {name for name, body, _ in STRUCT.findall(text) if body.strip().startswith("uint32_t struct_size;")}
    return [f"{name} holds a {m.group(0)}" for name, body, _ in STRUCT.findall(text)
            for m in re.finditer(r"\b(?:" + "|".join(sorted(sized)) + r") \w+(?=[;,\[])", body)]


def surface(root):
    text = declarations(root)
    if nested(text):
        sys.exit("surface.py: structs with struct_size may grow, so none is a member: " + "; ".join(nested(text)))
    functions = sorted({"function " + one_line(f) for f in FUNCTION.findall(text)})
    inlines = sorted({"inline " + one_line(f) for f in INLINE.findall(text)})
    types = sorted({"type " + one_line(t) for t in TYPEDEF.findall(re.sub(r"\{[^{}]*\}", "", STRUCT.sub("", ENUM.sub("", text))))})
    return functions + inlines + types + layouts(root, text)


def main():
    root = Path(sys.argv[1])
    known = root / "tests/packaging/surface.txt"
    said = "CHANGELOG.md " + hashlib.sha256((root / "CHANGELOG.md").read_bytes()).hexdigest()[:16]
    now, before = surface(root), known.read_text().rstrip("\n").split("\n") if known.exists() else [""]
    if now == before[1:]:
        return 0
    if "--write" not in sys.argv:
        print("\n".join(difflib.unified_diff(before[1:], now, "surface.txt", "include/stoker", lineterm="", n=0)))
        print("surface.py: the interface has changed: say so in CHANGELOG.md, then run scripts/surface.py . --write")
        return 1
    if before[0] == said:
        print("surface.py: the interface has changed and CHANGELOG.md has not: write there what users have to know")
        return 1
    known.write_text("\n".join([said, *now]) + "\n")
    return 0


sys.exit(main())
