#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The lists of planted faults, tests/mutants/*.txt: one-line faults that a test has to notice.

    name: loader-budget-transient
    file: src/loader/plan.c
    find: text that occurs exactly once in the file
    with: what stands there instead
    tests: unit/loader/limits property/loader/budget

Entries are parted by empty lines; a line that begins with # is a comment. `\\n` in `find` and `with` stands for a line's end,
an empty `with:` removes the text. In place of `tests:`, `explained:` says why no test can see the fault.

read(ROOT) gives all entries; check(ROOT, problem) holds them against the tree, so that none is stale.
"""
from pathlib import Path

FOLDER = Path("tests/mutants")
FIELDS = {"name", "file", "find", "with", "tests", "explained"}


class Mutant:
    def __init__(self, where, line):
        self.where, self.line, self.fields = where, line, {}

    @property
    def name(self):
        return self.fields.get("name", "?")

    @property
    def room(self):
        return self.where.stem

    @property
    def file(self):
        return self.fields["file"]

    @property
    def tests(self):
        return self.fields.get("tests", "").split()

    @property
    def find(self):
        return self.fields["find"].replace("\\n", "\n")

    @property
    def replacement(self):
        return self.fields["with"].replace("\\n", "\n")


def read(root, problem):
    mutants = []
    for path in sorted((root / FOLDER).glob("*.txt")):
        current = None
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            if line.startswith("#"):
                continue
            if not line.strip():
                current = None
                continue
            if current is None:
                current = Mutant(path.relative_to(root), number)
                mutants.append(current)
            key, colon, value = line.partition(":")
            if not colon or key not in FIELDS:
                problem(current.where, number, f"not one of {', '.join(sorted(FIELDS))}: {line}")
            elif key in current.fields:
                problem(current.where, number, f"{key}: is there twice; an empty line parts entries")
            else:
                # One space after the colon; others belong to the text.
                current.fields[key] = value.removeprefix(" ")
    return mutants


def source_of(root, test):
    """The file of a CTest test by its name, or None."""
    folder, _, base = test.rpartition("/")
    if test.startswith("cli/transcript_"):
        candidates = [root / "tests/cli" / f"{base.removeprefix('transcript_')}.test"]
    elif folder == "fuzz":
        candidates = [root / "fuzz" / f"fuzz_{base}.c", root / "fuzz" / f"{base}.c"]
    else:
        candidates = [root / "tests" / folder / f"test_{base}{ending}" for ending in (".c", ".py")]
    for path in candidates:
        if path.is_file():
            return path
    lists = root / "tests/CMakeLists.txt"
    return lists if f"add_test(NAME {test}\n" in lists.read_text().replace(" COMMAND", "\n") else None


def check(root, problem):
    seen = {}
    mutants = read(root, problem)
    for m in mutants:
        def wrong(text, m=m):
            problem(m.where, m.line, f"mutant {m.name}: {text}")

        missing = {"name", "file", "find", "with"} - m.fields.keys()
        if missing:
            wrong(f"no {', '.join(sorted(missing))}")
            continue
        if m.name in seen:
            wrong(f"the name is taken by {seen[m.name].where}:{seen[m.name].line}")
        seen[m.name] = m
        if ("tests" in m.fields) == ("explained" in m.fields):
            wrong("either tests: or explained:")
        if m.find == m.replacement:
            wrong("find: and with: are the same")
        if not (root / m.file).is_file():
            wrong(f"no file {m.file}")
            continue
        count = (root / m.file).read_text(encoding="utf-8").count(m.find)
        if count != 1:
            wrong(f"its text is {count} times in {m.file}, not once: mend the entry: {m.fields['find']}")
        for test in m.tests:
            if source_of(root, test) is None:
                wrong(f"no test {test}")
    return mutants
