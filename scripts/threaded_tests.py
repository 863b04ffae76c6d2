#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tests that can reach a second thread, as an expression for `ctest -R`.

    threaded_tests.py BUILD [--list]

By symbols: from what the test's object calls, through the objects of the library, to pthread_create or the tables of drivers, behind
which any may stand. The objects that fill those tables are not followed. A test that is no program of ours, a transcript say, runs the
command and counts as threaded.
"""
import re
import subprocess
import sys
from pathlib import Path

# A driver that is found by name may be any.
ENDS = {"pthread_create", "fork", "stk_driver_at", "stk_driver_find", "stk__driver_find"}
COMPOSITION = "stoker.c.o"


def symbols(path):
    """{member: (defined, undefined)}"""
    found, member = {}, None
    for line in subprocess.run(["nm", "-A", "--no-sort", str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True, check=True).stdout.splitlines():
        m = re.match(r"^(.*?):(?:[0-9a-f]+)? +(\w) (\S+)$", line.replace(".o:", ".o:", 1))
        if not m:
            continue
        member, kind, name = m[1].rsplit(":", 1)[-1], m[2], m[3].split("@")[0]
        defined, undefined = found.setdefault(member, (set(), set()))
        (undefined if kind in "Uw" else defined).add(name)
    return found


def main():
    build = Path(sys.argv[1])
    # By their paths: an archive has only names, and two rooms may have the same.
    objects = build / "CMakeFiles/stoker_objects.dir/src"
    library = {}
    for path in objects.rglob("*.o"):
        if path.name != COMPOSITION:
            library.update(symbols(path))
    home = {name: m for m, (defined, _) in library.items() for name in defined}
    support = {m: v for m, v in symbols(build / "tests/libtest_support.a").items()}
    home.update({name: m for m, (defined, _) in support.items() for name in defined})
    calls = {m: v[1] for m, v in (library | support).items()}
    reach = {m for m, undefined in calls.items() if undefined & ENDS}
    grown = True
    while grown:
        more = {m for m, undefined in calls.items() if m not in reach and any(home.get(x) in reach for x in undefined)}
        grown, reach = bool(more), reach | more
    tests = []
    for listed in (build / "tests/CTestTestfile.cmake", build / "fuzz/CTestTestfile.cmake"):
        for name, command in re.findall(r'^add_test\(\[=\[(.*?)\]=\] "(.*?)"', listed.read_text(), re.M):
            target = Path(command).name
            objects = list(build.glob(f"*/CMakeFiles/{target}.dir/**/*.o"))
            undefined = {x for o in objects for v in symbols(o).values() for x in v[1]}
            if not objects or undefined & ENDS or any(home.get(x) in reach for x in undefined):
                tests.append(name)
    print("\n".join(sorted(tests)) if "--list" in sys.argv else "^(" + "|".join(map(re.escape, sorted(tests))) + ")$")


if __name__ == "__main__":
    main()
