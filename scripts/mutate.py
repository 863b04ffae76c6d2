#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plant each fault of tests/mutants/ in a copy of the tree, build what its tests need, and see whether one of them fails.

    mutate.py ROOT [--sample N] [--room NAME] [--jobs N] [NAME...]

Exit code 1 where less than 95 % are noticed, an entry is stale, or one does not build or fails without the fault.
"""
import argparse
import concurrent.futures
import filecmp
import hashlib
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import mutants

LEAST = 0.95
SHORTEST_S = 60   # for a test to end; beyond is a test that hangs, and the fault is noticed
SLOWER = 10       # times what the test took without the fault


class Failure(Exception):
    pass


def run(command, folder, env=None, limit=None):
    """Exit code and output; what runs past the limit is killed with all it started, and has failed."""
    process = subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
    try:
        said, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
    return process.returncode, said


def copy_tree(root, to):
    """The files that git knows or would add. What is there and the same stays, so that the build is incremental."""
    listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=root, check=True,
                            stdout=subprocess.PIPE).stdout.decode().split("\0")
    wanted = {name for name in listed if name and (root / name).is_file()}
    for name in wanted:
        target = to / name
        if target.is_file() and filecmp.cmp(root / name, target, shallow=False):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, target)
        shutil.copymode(root / name, target)
    for path in list(to.rglob("*")):
        name = path.relative_to(to)
        if name.parts[0] != "build" and path.is_file() and str(name) not in wanted:
            path.unlink()


class Tree:
    """One copy and its build folder, for one mutant at a time."""

    def __init__(self, root, folder):
        self.root, self.folder, self.build = root, folder, folder / "build"
        folder.mkdir(parents=True, exist_ok=True)
        copy_tree(root, folder)
        self.build.mkdir(exist_ok=True)
        self.env = dict(os.environ, CTEST_OUTPUT_ON_FAILURE="1")
        self.env.setdefault("STOKER_TEST_DATA", str(root.parent / "shared" / "data"))
        code, text = run(["cmake", "-S", str(folder), "-B", str(self.build), "-G", "Ninja", "-DSTOKER_BUILD_TESTS=ON",
                          "-DSTOKER_BUILD_BENCH=OFF", "-DSTOKER_BUILD_EXAMPLES=OFF", "-DSTOKER_BUILD_PYTHON=ON"], folder)
        if code:
            raise Failure(f"cmake fails in {self.build}:\n{text[-2000:]}")
        # ctest itself names no program before it is built.
        self.commands = {}
        for listed in self.build.rglob("CTestTestfile.cmake"):
            for line in re.findall(r"^ *add_test\((.*)\)$", listed.read_text(), re.M):
                name, *words = [a or b for a, b in re.findall(r'\[=\[(.*?)\]=\]|"(.*?)"|\S+', line)]
                self.commands[name] = words
        code, text = run(["ninja", "-t", "targets", "all"], self.build)
        self.outputs = {line.split(":")[0] for line in text.splitlines()}

    def targets(self, tests):
        """What a test runs: its program, the command where it asks for it, and what is preloaded there."""
        wanted = set()
        for test in tests:
            if test not in self.commands:
                raise Failure(f"no test {test} is built here")
            for word in self.commands[test]:
                word = os.path.relpath(word, self.build) if os.path.isabs(word) else word
                # With a shared library the links by which it is found.
                wanted |= {x for x in self.outputs if word == x or (".so" in x and word.startswith(x + "."))}
            # A test that is given the build itself installs it.
            if str(self.build) in self.commands[test]:
                wanted |= {x for x in self.outputs if x in ("stoker", "stoker_share") or x.startswith("libstoker.")}
            source = mutants.source_of(self.folder, test)
            if test.startswith("python/"):
                wanted |= {"stoker"} | {x for x in self.outputs if x.startswith("python/") and x.endswith(".so")}
                continue
            if source is None or source.suffix != ".c" or "test_binary(" in source.read_text():
                wanted |= {"stoker"} | {x for x in self.outputs if re.fullmatch(r"tests/\w+\.so", x)}
        if not wanted:
            raise Failure(f"nothing is built for {' '.join(tests)}")
        return sorted(wanted)

    def make(self, tests):
        code, text = run(["ninja", *self.targets(tests)], self.build)
        return code == 0, text

    def test(self, tests, limit, stop=True):
        """Names of those that failed, of those skipped, seconds, and what ctest said."""
        pattern = "^(" + "|".join(re.escape(t) for t in tests) + ")$"
        began = time.monotonic()
        # A test's own time limit is longer, and stands before --timeout of ctest.
        env = self.env
        if any(test.startswith("python/torch/") for test in tests):
            if "STOKER_TORCH_PYTHON" not in env:
                raise Failure("STOKER_TORCH_PYTHON names no interpreter with tests/python/requirements.txt")
            env = dict(env, STOKER_TEST_PYTHON=env["STOKER_TORCH_PYTHON"])
        code, text = run(["ctest", "-C", "torch", "-R", pattern, "--no-tests=error", *(["--stop-on-failure"] if stop else [])],
                         self.build, env, limit * len(tests))
        skipped = re.findall(r"Test +#\d+: (\S+) \.+ *\*+Skipped", text)
        failed = [m for m, what in re.findall(r"Test +#\d+: (\S+) \.+ *\*+(\w[\w ]*)", text) if what.strip()[:7] != "Skipped"]
        if code and not failed:
            failed = ["ctest"]
        return failed, skipped, time.monotonic() - began, text

    def plant(self, mutant):
        path = self.folder / mutant.file
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(mutant.find, mutant.replacement), encoding="utf-8")
        return path, text


def baseline(tree, chosen):
    """Without a fault everything passes on a quiet machine, and is built, so that each mutant compiles one file."""
    tests = sorted({t for m in chosen for t in m.tests})
    built, text = tree.make(tests)
    if not built:
        raise Failure(f"the tree does not build without a fault:\n{text[-2000:]}")
    took = {}
    for test in tests:
        failed, skipped, took[test], text = tree.test([test], 600)
        if failed or skipped:
            raise Failure(f"{test} {'fails' if failed else 'is skipped'} without a fault: it shows nothing\n{text[-2000:]}")
    return took


def judge(tree, mutant, took):
    path, text = tree.plant(mutant)
    try:
        built, said = tree.make(mutant.tests)
        if not built:
            errors = [x for x in said.splitlines() if "error" in x][:3]
            return "does not build", "; ".join(errors)
        limit = max(SHORTEST_S, SLOWER * max(took.get(t, 0) for t in mutant.tests))
        failed, *_ = tree.test(mutant.tests, limit)
        return ("killed", failed[0]) if failed else ("SURVIVED", " ".join(mutant.tests))
    finally:
        path.write_text(text, encoding="utf-8")


def choose(all_of_them, arguments, root):
    """By name, by room, or a sample that the commit draws: the same for everybody who has it."""
    chosen = [m for m in all_of_them if (not arguments.room or m.room == arguments.room)
              and (not arguments.names or m.name in arguments.names)]
    unknown = set(arguments.names) - {m.name for m in all_of_them}
    if unknown or not chosen:
        raise Failure(f"no mutant {' '.join(sorted(unknown)) or 'to run'}")
    chosen = [m for m in chosen if m.tests]
    if arguments.sample and arguments.sample < len(chosen):
        commit = run(["git", "rev-parse", "HEAD"], root)[1].strip()
        print(f"mutate: {arguments.sample} of {len(chosen)}, drawn by commit {commit}")
        chosen.sort(key=lambda m: hashlib.sha256(f"{commit} {m.name}".encode()).digest())
        chosen = chosen[:arguments.sample]
    return chosen


def run_all(root, chosen, jobs):
    free, results = queue.SimpleQueue(), {}
    trees = [Tree(root, root / "build" / "mutants" / str(i)) for i in range(min(jobs, len(chosen)))]
    # Every tree is built whole before; the tests run once.
    with concurrent.futures.ThreadPoolExecutor(len(trees)) as pool:
        futures = [pool.submit(tree.make, sorted({t for m in chosen for t in m.tests})) for tree in trees[1:]]
        for future in futures:
            future.result()
        took = baseline(trees[0], chosen)
        for tree in trees:
            free.put(tree)

        def one(mutant):
            tree = free.get()
            try:
                began = time.monotonic()
                return mutant, *judge(tree, mutant, took), time.monotonic() - began
            finally:
                free.put(tree)

        width = max(len(m.name) for m in chosen)
        for future in concurrent.futures.as_completed([pool.submit(one, m) for m in chosen]):
            mutant, outcome, by, seconds = future.result()
            results[mutant.name] = outcome
            print(f"  {mutant.name:{width}}  {outcome:9}  {seconds:5.1f} s  {by}", flush=True)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("root", type=Path)
    parser.add_argument("--sample", type=int)
    parser.add_argument("--room")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--tests", action="store_true", help="print the tests that would run, and do nothing")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_intermixed_args()
    root = arguments.root.resolve()
    problems = []
    every = mutants.check(root, lambda path, line, text: problems.append(f"{path}:{line}: {text}"))
    if problems:
        print("\n".join(problems))
        return 1
    began = time.monotonic()
    try:
        chosen = choose(every, arguments, root)
        if arguments.tests:
            print("\n".join(sorted({t for m in chosen for t in m.tests})))
            return 0
        results = run_all(root, chosen, arguments.jobs)
    except Failure as failure:
        print(f"mutate: {failure}")
        return 1
    killed = sum(x == "killed" for x in results.values())
    broken = [name for name, x in results.items() if x == "does not build"]
    share = killed / len(results)
    explained = sum("explained" in m.fields for m in every)
    print(f"mutate: {killed} of {len(results)} killed, {100 * share:.1f} % (at least {100 * LEAST:.0f} %); "
          f"{explained} explained; {time.monotonic() - began:.0f} s")
    if broken:
        print(f"mutate: do not build, so their entries are wrong: {' '.join(broken)}")
    return 1 if broken or share < LEAST else 0


if __name__ == "__main__":
    sys.exit(main())
