# SPDX-License-Identifier: Apache-2.0
"""What the ledger of waits and the probes cost: ./dev bench ledger [--pairs N] [--quick]

`tiny`'s batches beside a step of 1 ms that computes, by a loader as it is and by one that takes no stamps (bench/ledger.c,
bench/no_ledger.h), in turn: differences of pairs. Without workers all stamps are taken in the thread of the step. Then the
instructions of a batch without a step, counted by callgrind as the difference of a long run and a short one (reading the
clock is a call of the kernel there, and one instruction). The trainer's own timeline has no build without it; what the whole
trainer costs a step (bench/trainer_overhead.c, `barebones`) is its bound.
"""
import argparse
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STEP_US = 1000
MOST_OF_STEP, MOST_OF_TINY = 0.005, 0.01
COUNTED = (200, 3000)  # batches of the short and the long run under callgrind


def run(program, *options, wrap=()):
    done = subprocess.run([*wrap, program, *map(str, options)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"ledger: {program}: {done.stderr.strip()[-500:]}")
    return done


def interval(values):
    """(median, lower, upper): 95 % or more by ranks, whatever the distribution."""
    values, n = sorted(values), len(values)
    below, k = 0.0, 0
    while k < n // 2 and below + math.comb(n, k) / 2 ** n <= 0.025:
        below += math.comb(n, k) / 2 ** n
        k += 1
    k = max(k - 1, 0)
    return statistics.median(values), values[k], values[n - 1 - k]


def told(figure, bar):
    """Of (median, lower, upper): whether the bar holds."""
    _, lower, upper = figure
    return "holds" if upper <= bar else "is missed" if lower > bar else "is within the noise: more pairs, or an idle machine"


def paired(build, workers, pairs, batches):
    """Microseconds a step more with than without: of the thread of the step beside the step itself, a run's median, which what
    disturbs does not move; and of the processor, all threads, a mean, which it does."""
    outside, cpu = [], []
    for i in range(pairs):
        rows = {}
        for name in ("ledger", "ledger_without") if i % 2 else ("ledger_without", "ledger"):
            done = run(build / "bench" / name, "--step_us", STEP_US, "--batches", batches, "--num_workers", workers)
            rows[name] = json.loads(done.stdout)
        outside.append(rows["ledger"]["outside_us"] - rows["ledger_without"]["outside_us"])
        cpu.append(rows["ledger"]["cpu_us"] - rows["ledger_without"]["cpu_us"])
    return interval(outside), interval(cpu)


def instructions(program, workers, batches, folder):
    """All threads, from the start to the end of the program."""
    done = run(program, "--step_us", 0, "--warm", 50, "--batches", batches, "--num_workers", workers,
               wrap=("valgrind", "--tool=callgrind", "--fair-sched=yes", f"--callgrind-out-file={folder}/out"))
    return int(re.search(r"Collected : (\d+)", done.stderr)[1])


def counted(build, workers, rounds, folder):
    """Instructions of a batch with and without, medians."""
    each = {}
    for name in ("ledger", "ledger_without"):
        short, long = COUNTED
        each[name] = statistics.median((instructions(build / "bench" / name, workers, long, folder)
                                        - instructions(build / "bench" / name, workers, short, folder)) / (long - short)
                                       for _ in range(rounds))
    return each["ledger"], each["ledger_without"]


def main():
    p = argparse.ArgumentParser(prog="./dev bench ledger", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--pairs", type=int, help="of runs with and without (default 15)")
    p.add_argument("--batches", type=int, default=2000, help="of a run (default %(default)s)")
    p.add_argument("--quick", action="store_true", help="whether it works: 3 pairs of 200 batches, instructions without workers alone")
    p.add_argument("--build", type=Path, default=ROOT / "build", help=argparse.SUPPRESS)
    args = p.parse_args()
    if not (Path(os.environ.get("STOKER_TEST_DATA", "../shared/data")) / "mnist").is_dir():
        sys.exit("ledger: no mnist/; set STOKER_TEST_DATA to the folder that holds it")
    pairs, batches = args.pairs or (3 if args.quick else 15), 200 if args.quick else args.batches
    last = {"workload": "ledger"}

    trainer = json.loads(run(args.build / "bench/trainer_overhead", "--seconds", 1 if args.quick else 5).stdout)["barebones_us"]
    print(f"beside a step of {STEP_US} us, {pairs} pairs of {batches} batches; median (95 % interval)")
    print(f"  {'workers':>7} {'beside the step, us':>28} {'processor, us':>28} {'share':>8}  bar {100 * MOST_OF_STEP:.1f} %")
    for workers in (0, 2):
        outside, cpu = paired(args.build, workers, pairs, batches)
        share = outside[0] / STEP_US
        print(f"  {workers:7} " + " ".join(f"{m:10.3f} ({a:7.3f} .. {b:6.3f})" for m, a, b in (outside, cpu))
              + f" {100 * share:7.3f}%  {told([x / STEP_US for x in outside], MOST_OF_STEP)}", flush=True)
        last[f"step_share_{workers}"] = round(share, 6)
    print(f"  the whole of the trainer, its timeline included: {trainer:.3f} us, {100 * trainer / STEP_US:.3f} % of the step", flush=True)
    last["trainer_us"] = trainer

    if not shutil.which("valgrind"):
        print("no valgrind: instructions are not counted")
    else:
        print(f"\ninstructions of a batch of tiny\n  {'workers':>7} {'with':>12} {'without':>12} {'share':>8}  bar {100 * MOST_OF_TINY:.0f} %")
        with tempfile.TemporaryDirectory() as folder:
            for workers in (0,) if args.quick else (0, 2):
                with_it, without = counted(args.build, workers, 1 if args.quick or not workers else 3, folder)
                share = with_it / without - 1
                print(f"  {workers:7} {with_it:12.0f} {without:12.0f} {100 * share:7.3f}%  "
                      f"{'holds' if share <= MOST_OF_TINY else 'is missed'}", flush=True)
                last[f"instructions_share_{workers}"] = round(share, 6)
    print("\n" + json.dumps(last))
    return 0


if __name__ == "__main__":
    sys.exit(main())
