# SPDX-License-Identifier: Apache-2.0
"""What whatif.py, tune.py, online.py and in part verdicts.py share: loads, runs of `stoker` on them, in turns, options and exit status."""
import argparse
import json
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import verdicts_planted
import verdicts_real
from machine import SKIPPED, Machine

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 120  # s that a command may take where nothing else is said


class Failed(Exception):
    """A command of a case."""


def changed(command, change):
    """The command with other values of flags: {"num_workers": "4"}."""
    command = list(command)
    for name, value in change.items():
        flag = "--" + name.replace("_", "-")
        if flag in command:
            command[command.index(flag) + 1] = value
        else:
            command += [flag, value]
    return command


def without(command, names):
    """The command without these flags and their values."""
    command = list(command)
    for name in names:
        flag = "--" + name.replace("_", "-")
        if flag in command:
            at = command.index(flag)
            del command[at:at + 2]
    return command


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


# ---- Loads -----------------------------------------------------------------------------------------------------------

def make_planted(folder):
    """The files of planted loads, in a folder of their own."""
    files = Path(folder) / "files"
    files.mkdir()
    verdicts_planted.make_files(files)
    return files


def make_tokens(folder):
    """A file of uint16 tokens, as of a text."""
    file = Path(folder) / "tokens.bin"
    file.write_bytes(random.Random(3).randbytes(1 << 24))
    return file


def make_table(folder, stoker):
    """A Parquet file of numbers, with row groups of 8,000 rows and pages of some hundreds."""
    rows, file, r = Path(folder) / "rows.csv", Path(folder) / "rows.parquet", random.Random(4)
    rows.write_text("a,b,c\n" + "".join(f"{r.getrandbits(32)},{r.random()},{i % 7}\n" for i in range(240000)))
    subprocess.run([str(stoker), "convert", f"csv:{rows}", f"parquet:{file}?row_group_rows=8000&page_size=2KiB", "--quiet"], check=True)
    return file


def make_real(folder, stoker, note):
    """Loads of real data by their names, as options of `stoker bench`; `note` is told what could not be had."""
    data = verdicts_real.Data(folder, stoker)
    for line in data.notes:
        note(line)
    jpeg, array, tokens = data.jpeg, data.folder / f"{data.codecs[-1]}.zarr", make_tokens(folder)
    table = make_table(folder, stoker)
    blocks = ("--shuffle", "block", "--streams", "4", "--num-workers", "1", "--io-depth", "8")
    photographs = ("--batch-size", "16", "--num-workers", "2", *verdicts_real.CROP)
    arrays = ("--batch-size", "64", "--num-workers", "2")
    return {
        "photographs": ("--dataset", f"images:{jpeg}?index=none", *photographs),
        "arrays": ("--dataset", f"array:{array}?window=4x128x128", *arrays),
        "tokens": ("--dataset", f"tokens:{tokens}?length=2048", "--batch-size", "256", "--num-workers", "2"),
        "arrays, by blocks": ("--dataset", f"array:{array}?window=1x32x32", *blocks, "--shuffle-buffer", "8", "--batch-size", "64",
                              "--memory-budget", "5MiB"),
        "table, by blocks": ("--dataset", f"parquet:{table}", *blocks, "--shuffle-buffer", "2", "--batch-size", "1024",
                             "--memory-budget", "4MiB"),
        "photographs, far": ("--dataset", f"images:slow+file://{jpeg}?latency=20ms&index=none", *photographs, "--io-depth", "4"),
        "arrays, narrow": ("--dataset", f"array:slow+file://{array}?latency=2ms&bandwidth=30MB/s&window=4x128x128", *arrays,
                           "--io-depth", "8"),
    }


# ---- Running ---------------------------------------------------------------------------------------------------------

class Bench:
    """Runs `stoker`, and knows what disturbed it. `anyhow`: whatever did is no matter."""

    def __init__(self, stoker, anyhow=False):
        self.stoker, self.anyhow, self.machine = str(stoker), anyhow, Machine()

    def json(self, command, timeout=LIMIT):
        """(what a command printed, what disturbed it, how long it took)."""
        began = time.monotonic()
        done, disturbed = self.machine.run(command, timeout)
        took = time.monotonic() - began
        if not done or done.returncode != 0:
            raise Failed(f"{self.why(done, timeout)}: {' '.join(command)}")
        return json.loads(done.stdout), "" if self.anyhow else disturbed, took

    @staticmethod
    def why(done, timeout):
        """What a command failed of."""
        if not done:
            return f"took more than {timeout} s"
        return (re.findall(r'"error": "([^"]*)"', done.stdout) or [done.stderr.strip()[-200:]])[0]

    def bench(self, command, seconds, wrap=(), batches=40, warmup=6, most=30, log="none"):
        """(row, what disturbed it, how long it took) of one run of `stoker bench`."""
        found, disturbed, took = self.json(
            [*wrap, self.stoker, "bench", *command, "--min-seconds", f"{seconds:.2f}", "--min-batches", str(batches), "--warmup", str(warmup),
             "--max-seconds", f"{max(most, seconds):.0f}", "--log", str(log), "--quiet", "--format", "json"])
        return found["settings"][0], disturbed, took

    def calm(self, run, tries):
        """The first of some tries that nothing disturbed, or the last one. `run` gives what `bench` does."""
        for _ in range(tries):
            found = run()
            if not found[1]:
                break
        return found


def in_turns(rounds, runs):
    """Run things in turns: [{"rows", "disturbed"}] for each of `runs`, that give (row, what disturbed it, ...)."""
    found = [{"rows": [], "disturbed": []} for _ in runs]
    for _ in range(rounds):
        for run, mine in zip(runs, found):
            row, disturbed, *_ = run()
            if disturbed:
                mine["disturbed"].append(disturbed)
            else:
                mine["rows"].append(row)
    return found


# ---- Judging ---------------------------------------------------------------------------------------------------------

def each(cases, run, show):
    """Rows of (name, case), shown as they come; one that fails is not good."""
    rows = []
    for name, case in cases:
        try:
            row = {"case": name, **run(case)}
            show(row)
        except Failed as error:
            print(f"  {name}: failed: {error}", flush=True)
            row = {"case": name, "good": False}
        rows.append(row)
    return rows


def tally(name, rows, words):
    """(whether all that could be judged are right, how many, of how many); `words` says what those with figures came to."""
    known = [r for r in rows if r["good"] is not None]
    if not known:
        print(f"{name}: nothing could be judged")
        return True, 0, len(rows)
    good = sum(r["good"] for r in known)
    judged = [r for r in known if "share" in r]
    text = f": {words(judged)}" if judged else ""
    print(f"{name}: {good} of {len(known)} right, {len(rows) - len(known)} left out{text}: {'good' if good == len(known) else 'BAD'}", flush=True)
    return good == len(known), len(known), len(rows)


# ---- The command -----------------------------------------------------------------------------------------------------

def parser(name, doc, rounds, quick):
    """Options that all have."""
    p = argparse.ArgumentParser(prog=f"./dev bench {name}", description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--first", type=int, default=0, help="number of the first load")
    p.add_argument("--seed", type=int, default=7000, help="of the first planted load (default %(default)s)")
    p.add_argument("--rounds", type=int, default=rounds, help="runs of each setting that is compared, in turns (default %(default)s)")
    p.add_argument("--quick", action="store_true", help=quick)
    p.add_argument("--any", action="store_true", help="judge what was disturbed, too: for a look on a busy machine")
    p.add_argument("--json", type=Path, help="file for all rows")
    p.add_argument("--build", type=Path, default=ROOT / "build", help=argparse.SUPPRESS)
    return p


def removes_what_it_made():
    """What is ended from outside, too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def run_sets(name, args, run_set, verdict, what):
    """Run both sets, or those that were asked for: the exit status."""
    all_rows, found, judged, count = [], {}, 0, 0
    for one in args.set or ["planted", "real"]:
        rows = run_set(one)
        found[one], known, of = verdict(one, rows)
        all_rows, judged, count = all_rows + rows, judged + known, count + of
    return end(name, args, all_rows, found, (judged, count), what)


def run_one(name, key, args, head, rows_of, words):
    """Run the only set there is, whose rows rows_of(folder) gives: the exit status."""
    began = time.monotonic()
    print(head, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        rows = rows_of(folder)
    print(f"  {time.monotonic() - began:.0f} s")
    good, *judged = tally(name, rows, words)
    return end(name, args, rows, {key: good}, judged, "loads")


def end(name, args, rows, found, judged, what):
    """The last lines, the file of rows, and the exit status: of sets that are right or not, and settings that could be judged."""
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1, default=str))
    print(json.dumps({"workload": name, **found}))
    known, count = judged
    if known < count / 2:
        print(f"{name}: skipped: this machine is too busy with other things for {count - known} of {count} {what}")
        return SKIPPED
    return 0 if all(found.values()) else 1
