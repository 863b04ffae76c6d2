#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hostile files through the command, under limits: nothing crashes, hangs, writes outside of its folder or passes its limit.

    run.py ROOT STOKER [--jobs N] [--list] [NAME...]
"""
import argparse
import concurrent.futures
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import cases
import cases_again  # noqa: F401: adds to the cases
import cases_cache  # noqa: F401
import cases_packed  # noqa: F401: likewise
import cases_pickles  # noqa: F401
import cases_squashfs  # noqa: F401
import cases_tabled  # noqa: F401
import cases_tfrecord  # noqa: F401
import cases_tokens  # noqa: F401
import cases_web  # noqa: F401
import cases_zip  # noqa: F401
from sandbox import Sandbox


def every_case(root):
    chosen = list(cases.CASES)
    for folder in sorted((root / "fuzz/corpus").iterdir()):
        chosen += [cases.from_corpus(path, folder.name) for path in sorted(folder.iterdir()) if path.is_file()]
    return chosen


def words_of(command, stoker):
    """"@X.py WORDS" is a script beside this one, to which the program is the first argument."""
    words = command.split()
    if not words[0].startswith("@"):
        return [stoker, *words]
    return [sys.executable, "-B", str(Path(__file__).resolve().parent / words[0][1:]), stoker, *words[1:]]


def run_case(box, stoker, case, number):
    """Lines that say what is wrong."""
    wrong = []
    with tempfile.TemporaryDirectory(prefix="stoker-hostile-") as outer:
        # What a forged name may point at.
        (Path(outer) / "victim").write_text("untouched")
        folder = Path(outer) / "case"
        folder.mkdir()
        for i, command in enumerate(case(folder)):
            what, _, text = box.run(words_of(command, stoker), folder, f"{number}-{i}")
            if what:
                wrong.append(f"{case.__name__}: stoker {command}: {what}\n    " + "\n    ".join(text.splitlines()[-3:]))
        # Folders without the right to be read, say, are ours to remove.
        shutil.rmtree(folder, ignore_errors=True)
    return wrong


def probe(box):
    """What each limit is there for is noticed here."""
    probes = {
        "memory": [sys.executable, "-c", "x = b'a' * (200 << 20)"],
        "a signal": ["sh", "-c", "kill -SEGV $$"],
        "the terminal": ["printf", "\\033[2J"],
        "a strange status": ["sh", "-c", "exit 9"],
    }
    if not box.alone:
        probes["writing beside"] = ["sh", "-c", "echo changed > ../victim"]
    for what, command in probes.items():
        with tempfile.TemporaryDirectory(prefix="stoker-hostile-") as outer:
            (Path(outer) / "victim").write_text("untouched")
            (Path(outer) / "case").mkdir()
            wrong, status, _ = box.run(command, Path(outer) / "case", "probe")
            if not wrong and not (what == "memory" and status):
                raise SystemExit(f"hostile: {what} is not watched here")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("stoker", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--list", action="store_true")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    chosen = [c for c in every_case(arguments.root.resolve())
              if not arguments.names or any(n in c.__name__ for n in arguments.names)]
    if arguments.list:
        print("\n".join(c.__name__ for c in chosen))
        return 0
    box, began, failed = Sandbox(), time.monotonic(), 0
    probe(box)
    print(f"hostile: {len(chosen)} cases, {box.describe()}")
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        futures = {pool.submit(run_case, box, str(arguments.stoker.resolve()), c, i): c for i, c in enumerate(chosen)}
        for future in concurrent.futures.as_completed(futures):
            wrong, expected = future.result(), cases.FAILS_STILL.get(futures[future].__name__)
            if wrong and not expected:
                failed += 1
                print("\n".join(wrong), flush=True)
            elif wrong:
                print(f"hostile: as expected so far ({expected}): {wrong[0].splitlines()[0]}")
            elif expected:
                failed += 1
                print(f"{futures[future].__name__}: passes now: take it out of FAILS_STILL")
    print(f"hostile: {failed} of {len(chosen)} failed; {time.monotonic() - began:.0f} s")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
