#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rules of the source text: layers, lengths, banned calls, licence lines, names of seams.

    lint.py ROOT      prints FILE:LINE: what is wrong and the remedy; exit code 1 if there is anything
"""
import os
import re
import subprocess
import sys
from pathlib import Path

import forks
import mutants
import names
import pages
import readers

MAX_FILE_LINES = 600
MAX_HEADER_LINES = 250
MAX_BYTES = 300_000
MAX_FUNCTION_LINES = 150
MAX_COMPLEXITY = 25

# Room -> the rooms below it that it may include. What it sees of them is a seam: a header that is named as its folder, of a
# room ("store/store.h") or of a part of one that has a folder of its own ("codec/image/image.h"). Only base is open as a whole.
DATASET = {"base", "codec", "store", "array"}
LAYERS = {
    "base": set(),
    "codec": {"base"},
    "device": {"base"},
    # Who this process is among several, and how they meet.
    "dist": {"base", "device"},
    "measure": {"base"},
    "store": {"base", "codec"},
    "array": {"base", "codec", "store"},
    "dataset": DATASET,
    "transform": {"base", "store", "codec", "device"},
    "loader": {"base", "store", "dataset", "transform", "device"},
    "nn": {"base", "device"},
    "checkpoint": {"base", "store", "device"},
    # Conversion writes pictures, too, and makes them smaller as the transforms do.
    "convert": DATASET | {"dataset", "transform"},
    # A program's way: public headers, and what base and measure have for all rooms.
    "bench": {"base", "measure", "store"},
    "recipe": {"base", "measure"},
    "train": {"base", "codec", "store", "device", "dist", "nn", "checkpoint"},
}
# The engine of reads is a part of its room without a folder of its own.
SEAMS = {"store/fetch.h"}
# Public headers of another name than their folder's.
OWN = {"array": {"chunks"}, "dist": {"collectives", "heartbeat", "ranks", "strategy"}, "loader": {"arrow", "dlpack"}, "bench": {"array", "chunks", "convert", "dataset", "loader", "report", "store", "tune"}, "measure": {"live", "machine", "report"}, "nn": {"model"},
       "train": {"trainer", "module", "profiler"}}
# Folders whose files could be an outsider's: base, what is public, and the folder itself.
OUTSIDERS = {"train/callbacks", "train/loggers", "train/profilers"}
# Public headers that rooms take as a program does: figures are of a loader and a trainer, and a profile is summed up as figures are.
TAKES = {"measure": {"dataset", "loader", "store", "trainer"}, "train": {"measure", "loader"}}
# Rooms on top: of the others they take the public headers, as a program does.
ON_TOP = {"recipe"}
PUBLIC_ONLY = ("cli", "examples", "python")

# Of the command, those that may name the terminal: they print what is no foreign text, or clean it.
PRINTERS = {"cli/args.c", "cli/bench.c", "cli/console.c", "cli/launch.c", "cli/main.c", "cli/output.c"}
# Those that call a store's submit() and cancel(): the fetcher, and a store around another. The engines below have their own.
SUBMITS = {"src/store/fetch_run.c", "src/store/slow.c", "src/store/container_read.c", "src/store/cache/read.c", "src/store/cache/below.c", "src/base/aio.c", "src/array/kerchunk/inline_store.c"}
# In the library. fprintf() is for a FILE that the caller gave, as in stk_options_help().
BANNED = {
    "strcpy": "snprintf() or stk__copy_tail()", "strcat": "snprintf()", "sprintf": "snprintf()",
    "vsprintf": "vsnprintf()", "gets": "fgets()", "atoi": "strtol() with its checks", "atol": "strtol()",
    "atof": "strtod() with its checks", "strtok": "strtok_r() or a loop", "rand": "stk__draw()", "srand": "stk__draw()",
    "random": "stk__draw()", "malloc": "stk__alloc()", "calloc": "stk__calloc()", "realloc": "stk__realloc()",
    "aligned_alloc": "stk__alloc_buffer()", "posix_memalign": "stk__alloc_buffer()", "free": "stk__free()",
    "strdup": "stk__strdup()", "strndup": "stk__alloc()", "asprintf": "stk__format()", "alloca": "stk__alloc()",
    "printf": "stk__log()", "puts": "stk__log()", "putchar": "stk__log()", "perror": "stk__fail()",
    "exit": "a status", "_exit": "a status", "abort": "a status", "assert": "a status",
    **{"json_load" + way: "stk__json_parse(), which knows what a text will take"
       for way in ("s", "b", "f", "fd", "_file", "_callback")},
    "unlink": "stk__remove_file()", "unlinkat": "stk__remove_file()", "rmdir": "stk__remove_folder()",
    **dict.fromkeys(("rename", "renameat", "renameat2", "link", "linkat"), "a put of a store, or stk__durable_begin()"),
    "fsync": "stk__sync()", "fdatasync": "stk__sync()", "syncfs": "stk__sync_all()",
    "getrandom": "stk__system_random()", "remove": "stk__remove_file()", "getenv": "an option", "setenv": "nothing", "signal": "nothing", "sigaction": "nothing",
}
ALLOCATOR = {"malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign", "free"}
EXCEPTIONS = {("src/base/memory.c", name) for name in ALLOCATOR} | {("src/base/json.c", "json_loadb"),
                                                                    ("src/base/remove.c", "unlinkat"),
                                                                    ("src/base/system_random.c", "getrandom"),
                                                                    # A secret is named by its environment variable.
                                                                    ("src/base/options_value.c", "getenv"),
                                                                    # Pictures get their names in groups, made safe by two syncfs().
                                                                    ("src/convert/target_folder.c", "renameat")}
EXCEPTIONS |= {("src/base/durable.c", name) for name in ("fsync", "syncfs", "renameat", "renameat2", "linkat")}

CODE = {".c", ".h", ".py", ".sh", ".cmake", ".cu", ".cuh", ".in", ".map"}
NAMED = {"dev", "run", "CMakeLists.txt", ".clang-format", ".gitignore"}
SPDX = "SPDX-License-Identifier: Apache-2.0"
SPDX_FREE = {".clang-format", ".gitignore"}
LATER = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
SOMEBODYS_PATH = re.compile(r"(?<![\w.}])/(home|root|work|mnt|Users)/\w")

problems = []


def problem(path, line, text):
    problems.append(f"{path}:{line}: {text}")


def blank(match):
    """Spaces in place of a comment or string, so that lines and columns stay."""
    return re.sub(r"[^\n]", " ", match.group(0))


def strip(text, strings=True):
    pattern = r"/\*.*?\*/|//[^\n]*"
    if strings:
        pattern += r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
        return re.sub(pattern, blank, text, flags=re.S)
    # A string is matched first, so that what looks like a comment in it stays.
    return re.sub(r"(\"(?:\\.|[^\"\\\n])*\")|" + pattern, lambda m: m.group(1) or blank(m), text, flags=re.S)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def is_seam(name):
    """Whether a header is what other rooms see: named as the folder that it is in."""
    return name in SEAMS or Path(name).stem == Path(name).parent.name


def check_includes(path, text):
    parts = path.parts
    for m in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', strip(text, strings=False), re.M):
        kind, name = m.groups()
        line = line_of(text, m.start())
        if parts[0] in PUBLIC_ONLY:
            if kind == '"' and "/" in name:
                problem(path, line, f'includes "{name}"; {parts[0]} may include <stoker/...> only')
        elif parts[0] == "src" and len(parts) > 2:
            folder = parts[1]
            if folder not in LAYERS:
                problem(path, line, f"folder src/{folder} is not in the layer table of scripts/lint.py")
                return
            if kind == '"':
                to = name.split("/")[0]
                if "/" not in name:
                    problem(path, line, f'includes "{name}"; write it from src/ on: "{folder}/{name}"')
                elif (within := "/".join(parts[1:3])) in OUTSIDERS and to != "base" and not name.startswith(within + "/"):
                    problem(path, line, f'includes "{name}"; {within} may include base/, <stoker/...> and its own folder only')
                elif to != folder and to not in LAYERS[folder]:
                    problem(path, line, f'includes "{name}"; {folder} may include {sorted(LAYERS[folder]) or "nothing"}')
                elif to not in {folder, "base"} and not is_seam(name):
                    problem(path, line, f'includes "{name}", which is private to {to}: of other rooms only seams')
            elif name.startswith("stoker/"):
                to = name[7:-2]
                allowed = LAYERS[folder] | {folder, "base", "options", "plugin"}
                allowed |= OWN.get(folder, set()) | TAKES.get(folder, set())
                if to not in allowed and folder not in ON_TOP:
                    problem(path, line, f"includes <{name}>, which is above {folder}")
        elif parts[:2] == ("include", "stoker"):
            if kind == '"' or (not name.startswith("stoker/") and "/" in name):
                problem(path, line, f"a public header includes {name}; only <stoker/...> and the C standard library")


def check_functions(path, text):
    """Bodies begin with '{' alone in the first column and end with '}' there, as the style has it."""
    code = strip(text)
    lines = code.split("\n")
    start = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            start = number
        elif line.startswith("}") and start is not None:
            body = "\n".join(lines[start:number - 1])
            length = number - start + 1
            words = len(re.findall(r"\b(?:if|for|while|case)\b|&&|\|\||\?", body))
            head = next((x for x in reversed(lines[:start - 1]) if "(" in x), "?")
            name = re.findall(r"(\w+)\s*\(", head)[:1] or ["?"]
            if length > MAX_FUNCTION_LINES:
                problem(path, start, f"{name[0]}() has {length} lines; {MAX_FUNCTION_LINES} are the most: split it")
            if words + 1 > MAX_COMPLEXITY:
                problem(path, start, f"{name[0]}() has complexity {words + 1}; {MAX_COMPLEXITY} is the most: split it")
            start = None


def check_header(path, text):
    """A private header is small: a room is a few parts. Templates of kernels are code, whatever their name."""
    count = text.count("\n")
    if path.suffix == ".h" and not path.stem.endswith("_loops") and count > MAX_HEADER_LINES:
        problem(path, count, f"{count} lines; {MAX_HEADER_LINES} are the most of a private header: split it by what it is about")


def check_banned(path, text):
    code = strip(text)
    for m in re.finditer(r"(?<![\w.>])(\w+)\s*\(", code):
        name = m.group(1)
        if name in BANNED and (str(path), name) not in EXCEPTIONS:
            problem(path, line_of(code, m.start()), f"{name}() is not for the library: {BANNED[name]}")
    for m in re.finditer(r"\b(stdout|stderr)\b", code):
        problem(path, line_of(code, m.start()), f"{m.group(1)}: the library does not print: stk__log()")
    for m in re.finditer(r"\bops\s*->\s*(submit|cancel)\b", code):
        if str(path) not in SUBMITS:
            problem(path, line_of(code, m.start()), f"ops->{m.group(1)}(): reads go by stk__fetcher_add() or stk_store_read()")
    for m in re.finditer(r"^(?!static|typedef|extern)[a-z][\w *]*?\b(\w+)\([^;{]*\)\n\{", code, re.M):
        if not m.group(1).startswith("stk_"):
            problem(path, line_of(code, m.start()), f"{m.group(1)}() is not static: stk__... or stk_...")


def check_printers(path, text):
    code = strip(text)
    for m in re.finditer(r"(?<![\w.>])((?:stdout|stderr)\b|(?:printf|puts|putchar|perror)(?=\s*\())", code):
        problem(path, line_of(code, m.start()), f"{m.group(1)}: print to cli->out or by cli_error(), which clean foreign text")


def check_file(root, path):
    text = (root / path).read_text(encoding="utf-8")
    count = text.count("\n")
    if path.suffix in {".c", ".h", ".py", ".cu"} and count > MAX_FILE_LINES:
        problem(path, count, f"{count} lines; {MAX_FILE_LINES} are the most: one file is one idea")
    if str(path) not in SPDX_FREE and SPDX not in "\n".join(text.split("\n")[:5]):
        problem(path, 1, f"no line with {SPDX} among the first five")
    for number, line in enumerate(text.split("\n"), 1):
        if path.name != "lint.py" and (m := LATER.search(line)):
            problem(path, number, f"{m.group(1)}: do it now or write an issue")
        if path.name != "lint.py" and SOMEBODYS_PATH.search(line):
            problem(path, number, "the path of one machine")
        if line != line.rstrip():
            problem(path, number, "spaces at the end of the line")
    if text and not text.endswith("\n"):
        problem(path, count + 1, "no line end at the end of the file")
    if path.suffix not in {".c", ".h"}:
        return
    check_includes(path, text)
    if path.suffix == ".c":
        check_functions(path, text)
    if path.parts[0] == "cli" and str(path) not in PRINTERS:
        check_printers(path, text)
    if path.parts[0] == "cli" and str(path) != "cli/output.c":
        for m in re.finditer(r"(?<![\w.>])(unlink|unlinkat|rmdir|remove)\s*\(", strip(text)):
            problem(path, line_of(strip(text), m.start()), f"{m.group(1)}() is not for commands: cli_remove_partial()")
    if path.parts[0] == "src":
        check_banned(path, text)
        check_header(path, text)
        if len(path.parts) == 3 and path.stem == path.parts[1] and path.suffix == ".h":
            if not re.fullmatch(r"/\* .+ -> .+ \*/", text.split("\n", 1)[0]):
                problem(path, 1, "the first line of a seam header is its arrow: /* key, range -> bytes */")


def check_kept(root):
    """What git keeps is text of a readable size, but for pictures of the report and what scripts make for tests."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, check=False)
    for name in filter(None, listed.stdout.decode().split("\0")):
        path = root / name
        if not path.is_file():
            continue
        size = path.stat().st_size
        if size > MAX_BYTES:
            problem(Path(name), 1, f"{size} bytes, more than {MAX_BYTES}: git keeps no large files")
        made = name.startswith(("tests/golden/", "docs/report/")) or "corpus" in path.parts
        if not made and b"\0" in path.read_bytes()[:MAX_BYTES]:
            problem(Path(name), 1, "is no text: binary files are in tests/golden, docs/report and corpora alone")


def sources(root):
    """The files that rules are for. Folders in which something is being built or fetched meanwhile are not looked into."""
    for folder, below, names_here in os.walk(root):
        at = Path(folder).relative_to(root)
        passed = {".git", "shared"} | {name for name in below if name.startswith("build")} if not at.parts else set()
        below[:] = sorted(set(below) - passed - {"__pycache__", "corpus"})
        for name in names_here:
            path = at / name
            if (path.suffix in CODE or name in NAMED) and (root / path).is_file():
                yield path


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    files = sorted(sources(root))
    for path in files:
        check_file(root, path)
    for folder in sorted(p for p in (root / "src").iterdir() if p.is_dir() and any(p.rglob("*.c"))):
        if not (folder / f"{folder.name}.h").exists():
            problem(folder.relative_to(root), 1, f"no seam header {folder.name}.h")
    check_kept(root)
    mutants.check(root, problem)
    names.check(root, problem, strip)
    forks.check(root, problem)
    readers.check(root, problem, strip)
    pages.check(root, problem)
    print("\n".join(problems) if problems else f"lint: {len(files)} files follow the rules")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
