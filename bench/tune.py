#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether `stoker tune` finds what an exhaustive grid finds: ./dev bench tune [--set planted|real] [--cases N] [--first N]

A case is a dataset, a step and a limit of memory. Every setting of the grid is run by `stoker bench`: workers 0, 1, 2, 4, 8, 1, 4, 16,
64 reads at a time, 1, 2, 4 batches ahead, ten seconds each, with as much memory_budget as keeps it below the limit. `stoker tune
--objective speed` looks for the best of the same dataset, as often as --repeat says. Then the best two of the grid within the limit and
every answer of the tuner, as it wrote it (-o), are run in turns. What is true of a setting is the median of its rounds.

Sets:
  planted  8 loads of verdicts_planted.py: sleeping workers and stores that are late, narrow or small
  real     photographs, arrays and tokens from this disk, photographs from a store that is late

Right is a case where the answer that came most often has 95 % of the samples/s of the best, tuning took at most a tenth of the grid's
time, no run of the tuner took more memory than the limit, and 9 of 10 answers are within 2 % of the usual one's rate. A case is left out
where the machine was disturbed in every round of a setting, in every tuning, or in more than a tenth of the grid's settings (each has
three tries), whatever came out.
"""
import collections
import itertools
import statistics
import sys
import tempfile
import time
from pathlib import Path

import verdicts_planted
from loads import (Bench, Failed, each, in_turns, make_planted, make_real, parser, removes_what_it_made, run_sets, tally,
                   without)

SHARE, TIME, ALIKE, SAME = 0.95, 0.10, 0.02, 0.9  # of the best's rate, of the grid's time, of a rate, of the answers
GRID = {"num_workers": (0, 1, 2, 4, 8), "io_depth": (1, 4, 16, 64), "prefetch_factor": (1, 2, 4)}
SMALL = {"num_workers": (0, 2, 8), "io_depth": (4, 64), "prefetch_factor": (2,)}
SETTINGS = 60       # of the whole grid: the time of a smaller one is taken for as many
TUNED = 0.3         # of the time of a run of the grid, for each run of the tuner: 3 s, its default, beside 10 s
TRIES = 3           # of a setting of the grid, where something disturbs it
BUDGETS = (1, 3 / 4, 1 / 2)  # of the limit: the memory_budget of a setting of the grid is the first with which it stays below
LEFT_OUT = 0.1      # share of the grid that may always have been disturbed
FINALISTS = 2       # of the grid
PLANTED = ("workers", "latency", "bandwidth", "small_reads")
REAL = ("photographs", "arrays", "tokens", "photographs, far")
MIB = 1 << 20
# Below what the greatest settings take, and room enough for good ones.
LIMITS = {"photographs": 48, "arrays": 96, "tokens": 32, "photographs, far": 64}
LIMIT_PLANTED = 24


class Case:
    """A load without workers, depth and prefetch, and the memory it may take, MiB."""

    def __init__(self, name, command, limit):
        self.name, self.limit = name, limit * MIB
        self.command = without(command, GRID)


def planted(number, seed, folder):
    kind = PLANTED[number % len(PLANTED)]
    case = getattr(verdicts_planted.Planter(seed + number, folder), kind)()
    return Case(f"{kind} {seed + number}", case["command"], LIMIT_PLANTED)


def real(number, loads):
    name = REAL[number % len(REAL)]
    return Case(name, [*loads[name], "--shuffle=true", "--train-step-time", "0.010"], LIMITS[name])


def cases_of(name, args, folder):
    n = args.cases or (8 if name == "planted" else 4)
    numbers = range(args.first, args.first + n)
    if name == "real":
        loads = make_real(folder, args.build / "stoker", lambda note: print(f"tune: {note}", flush=True))
        return [real(i, loads) for i in numbers]
    files = make_planted(folder)
    return [planted(i, args.seed, files) for i in numbers]


# ---- Running ---------------------------------------------------------------------------------------------------------

class Tune(Bench):
    def __init__(self, args):
        super().__init__(args.build / "stoker", args.any)
        self.rounds, self.repeat, self.seconds, self.values = args.rounds, args.repeat, args.grid_seconds, SMALL if args.quick else GRID

    def run(self, command, seconds):
        # A setting that is slow comes to few batches: its time is bounded, as that of all others.
        return self.bench(command, seconds, batches=20, most=2 * seconds)

    def setting(self, case, setting):
        """A row of the grid, with as much of the memory as it can have."""
        flags = [f"--{k.replace('_', '-')}={v}" for k, v in setting.items()]
        row = {"setting": setting, "rate": 0.0, "peak": 0, "took": 0.0, "disturbed": "", "failed": ""}
        for share in BUDGETS:
            row["command"] = [*case.command, *flags, "--memory-budget", str(int(share * case.limit))]
            try:
                # Of several budgets the time of the last one counts: a grid takes one run of each setting.
                found, row["disturbed"], row["took"] = self.calm(lambda: self.run(row["command"], self.seconds), TRIES)
            except Failed as error:
                row["failed"] = str(error)
                break
            row["rate"], row["peak"] = found["samples_per_s"], found["peak_bytes"]
            if row["peak"] <= case.limit:
                break
        return row

    def grid(self, case):
        """Rows of all settings, with how long each took and whether it always was disturbed; of one that cannot run, why."""
        return [self.setting(case, dict(zip(self.values, values))) for values in itertools.product(*self.values.values())]

    def tune(self, case, number, folder):
        """What one tuning came to."""
        file = Path(folder) / f"tuned{number}.yaml"
        # It takes a tenth of the time: where it took all, it is to be seen, and not to fail.
        found, disturbed, took = self.json(
            [self.stoker, "tune", *case.command, "--objective", "speed", "--max-memory", str(case.limit),
             "--min-seconds", f"{TUNED * self.seconds:.2f}", "--quiet", "--format", "json", "-o", str(file)],
            timeout=60 + 2 * self.seconds * SETTINGS)
        if not found["best"]:
            raise Failed(f"tune found nothing: {found['verdict']}")
        answer = {k: found["best"][k] for k in GRID}
        peak = max(p["peak_bytes"] for p in found["points"] if p["runs"] and p["peak_bytes"])
        return {"answer": answer, "label": found["best"]["label"], "file": file, "took": took, "peak": peak, "disturbed": disturbed,
                "runs": found["runs"], "model_error": found["model_error"], "verdict": found["verdict"]}

    def compare(self, case, best, answers):
        """Run settings of the grid and of the tuner in turns: what they came to, in this order."""
        commands = [row["command"] for row in best] + [[str(a["file"])] for a in answers]
        found = in_turns(self.rounds, [lambda c=c: self.run(c, self.seconds / 2) for c in commands])
        for of in found:
            of["rate"] = statistics.median(r["samples_per_s"] for r in of["rows"]) if of["rows"] else None
            of["peak"] = max((r["peak_bytes"] for r in of["rows"]), default=0)
        return found[:len(best)], found[len(best):]

    def case(self, case, folder):
        """All that is known of a case; `left_out` says why it cannot be judged."""
        row = {"limit": case.limit, "left_out": "", "good": None, "grid": self.grid(case)}
        row["tuned"] = [self.tune(case, i, folder) for i in range(self.repeat)]
        return judge(row, lambda best, answers: self.compare(case, best, answers))


# ---- Judging ---------------------------------------------------------------------------------------------------------

def finalists(row):
    within = [g for g in row["grid"] if g["rate"] and g["peak"] <= row["limit"]]
    return sorted(within, key=lambda g: -g["rate"])[:FINALISTS]


def judge(row, compare):
    """What a case came to. `compare` runs what is to be compared."""
    grid, tuned = row["grid"], [t for t in row["tuned"] if not t["disturbed"]]
    disturbed = sum(bool(g["disturbed"]) for g in grid)
    best = finalists(row)
    if not best:
        raise Failed(f"no setting of the grid runs within {row['limit']} bytes: {grid[0]['failed']}")
    if disturbed > LEFT_OUT * len(grid) or not tuned:
        return {**row, "left_out": f"{disturbed} of {len(grid)} settings of the grid and {len(row['tuned']) - len(tuned)} of "
                                   f"{len(row['tuned'])} tunings were disturbed"}
    answers = list({t["label"]: t for t in tuned}.values())
    of_grid, of_tuned = compare(best, answers)
    if not all(f["rows"] for f in of_grid + of_tuned):
        return {**row, "left_out": "each round of a setting that was to be compared was disturbed"}
    rates = {a["label"]: f["rate"] for a, f in zip(answers, of_tuned)}
    top = max(range(len(best)), key=lambda i: of_grid[i]["rate"])
    count = collections.Counter(t["label"] for t in tuned)
    # Of those that came as often the one with the least memory.
    usual = min(count, key=lambda label: (-count[label], next(f["peak"] for a, f in zip(answers, of_tuned) if a["label"] == label)))
    same = sum(abs(rates[t["label"]] / rates[usual] - 1) <= ALIKE for t in tuned) / len(tuned)
    grid_time = sum(g["took"] for g in grid) * SETTINGS / len(grid)
    row = {**row, "best": best[top]["setting"], "best_rate": of_grid[top]["rate"], "answers": dict(count), "rates": rates,
           "usual": usual, "rate": rates[usual], "share": rates[usual] / of_grid[top]["rate"],
           "least": min(rates.values()) / of_grid[top]["rate"], "same": same,
           "time": statistics.median(t["took"] for t in tuned) / grid_time,
           # Memory is what it is, whatever else the machine did.
           "peak": max([t["peak"] for t in row["tuned"]] + [f["peak"] for f in of_tuned])}
    row["good"] = row["share"] >= SHARE and row["time"] <= TIME and row["peak"] <= row["limit"] and row["same"] >= SAME
    return row


def setting_text(setting):
    return " ".join(str(setting[k]) for k in GRID)


HEAD = (f"  {'load':20} {'best of the grid':>16} {'/s':>9} {'tuned':48} {'/s':>9} {'of best':>8} {'least':>8} {'same':>6} {'time':>7} "
        f"{'MiB':>6} {'limit':>6}")


def show(row):
    if row["left_out"]:
        print(f"  {row['case']:20} left out: {row['left_out']}", flush=True)
        return
    print(f"  {row['case']:20} {setting_text(row['best']):>16} {row['best_rate']:9.1f} {row['usual'][:48]:48} {row['rate']:9.1f} "
          f"{100 * row['share']:6.1f} % {100 * row['least']:6.1f} % {100 * row['same']:4.0f} % {100 * row['time']:5.1f} % "
          f"{row['peak'] / MIB:6.1f} {row['limit'] / MIB:6.0f}  {'good' if row['good'] else 'BAD'}", flush=True)
    if len(row["answers"]) > 1:
        said = "; ".join(f"{n} of {sum(row['answers'].values())}: {label}, {row['rates'][label]:.1f}/s" for label, n in row["answers"].items())
        print(f"    answers: {said}", flush=True)


def words(judged):
    return (f"least share of the best {100 * min(r['share'] for r in judged):.1f} % (bar {100 * SHARE:.0f}); most of the grid's time "
            f"{100 * max(r['time'] for r in judged):.1f} % (bar {100 * TIME:.0f}); over the limit of memory "
            f"{sum(r['peak'] > r['limit'] for r in judged)} (bar 0); least that answered alike "
            f"{100 * min(r['same'] for r in judged):.0f} % (bar {100 * SAME:.0f})")


# ---- The command -----------------------------------------------------------------------------------------------------

def arguments():
    p = parser("tune", __doc__, 5, "a grid of 6 settings of 1 s, 2 tunings, 2 rounds: whether it works")
    p.add_argument("--set", choices=("planted", "real"), action="append", help="default both")
    p.add_argument("--cases", type=int, help="of each set (default: planted 8, real 4)")
    p.add_argument("--grid-seconds", type=float, help="of each setting of the grid (default 10); each run of the tuner has 0.3 of it")
    p.add_argument("--repeat", type=int, help="tunings of each case (default 10)")
    args = p.parse_args()
    args.grid_seconds = args.grid_seconds or (1.0 if args.quick else 10.0)
    args.repeat = args.repeat or (2 if args.quick else 10)
    args.rounds = min(args.rounds, 2) if args.quick else args.rounds
    return args


def run_set(name, args, bench):
    began = time.monotonic()
    print(f"\n{name}: workers, reads, batches ahead\n{HEAD}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        rows = each([(c.name, c) for c in cases_of(name, args, folder)], lambda c: bench.case(c, folder), show)
    print(f"  {time.monotonic() - began:.0f} s")
    return rows


def main():
    args = arguments()
    removes_what_it_made()
    bench = Tune(args)
    return run_sets("tune", args, lambda name: run_set(name, args, bench), lambda name, rows: tally(name, rows, words), "cases")


if __name__ == "__main__":
    sys.exit(main())
