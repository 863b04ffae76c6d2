#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the libraries export is what the public headers declare, and every global name is stk_...

    lint_symbols.py ROOT BUILD
"""
import re
import subprocess
import sys
from pathlib import Path


def defined(library, *options):
    out = subprocess.run(["nm", "--defined-only", "-P", *options, str(library)], check=True, capture_output=True,
                         text=True).stdout
    # Lines of an archive's members have no type; version names are type A.
    rows = [line.split() for line in out.splitlines() if len(line.split()) >= 2]
    return {r[0].split("@")[0] for r in rows if r[1] in "TDBRVWGSCi"}


def declared(folder):
    names = set()
    for header in folder.glob("*.h"):
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        for m in re.finditer(r"^STK_API\b([^;]*);", text, re.M):
            names.add(re.search(r"(\w+)\s*\(", re.sub(r"STK_PRINTF\([^)]*\)|\(\*", "", m.group(1))).group(1))
    return names


def main():
    root, build = Path(sys.argv[1]), Path(sys.argv[2])
    shared, static = build / "libstoker.so", build / "libstoker.a"
    exported, public = defined(shared, "-D"), declared(root / "include/stoker")
    problems = [f"{name}: exported by {shared.name} but in no public header" for name in sorted(exported - public)]
    problems += [f"{name}: in a public header but not exported by {shared.name}" for name in sorted(public - exported)]
    problems += [f"{name}: a global name of {static.name} without stk_" for name in sorted(defined(static, "-g"))
                 if not name.startswith("stk_")]
    print("\n".join(problems) if problems else f"lint: {len(public)} public functions, all exported and no others")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
