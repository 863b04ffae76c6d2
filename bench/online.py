#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether workers and reads that move by themselves end where they belong: ./dev bench online [--cases N] [--first N] [--kind KIND]

A case is a planted load with `num_workers: auto` and `io_depth: auto`, on two cores, with which it begins with one worker and the reads
that suit the store: too few of the one, of the other, or of both for this load. Fixed settings from there to the most that auto
may come to are run, and then the best two of them and auto in turns, all of them from their 100th step on. The log of each run of auto
has what was changed, and when. What is true of a setting is the median of its rounds.

Loads: workers (they sleep, and too few do), latency (a late store), both, bandwidth (a narrow store, of which no more comes, and too few
workers), cores (workers that compute, on as many cores as they need); and, by --kind alone, uneven (of samples few take very long, so that
it takes some thousand steps to tell more from less: auto counts from its 3000th step on, and what was changed when does not).

Right is a load where auto has 95 % of the samples/s of the best fixed setting, nothing was changed later than the 100th step in most of its
rounds (a change that is due by then may be one window late), in none was a change made a second time after it had been undone (what is tried
and put back once is no such, nor what is tried again when the other option has moved), and auto delivered the same rows in the same order as a fixed setting. The order is that of a second pass of a
run (`stoker bench --hash`), which begins as wrong as the first one, in whose log there are to be changes; the log has none of the second. A
load is left out where the machine was disturbed in every round of a setting, whatever came out.
"""
import json
import statistics
import sys
from pathlib import Path

import verdicts_planted
from loads import Bench, Failed, each, in_turns, make_planted, parser, removes_what_it_made, run_one, without
from machine import cores
from verdicts_planted import us

SHARE = 0.95      # of the best fixed setting's rate
SETTLED = 100     # steps
WINDOW = 10       # steps, within which a change that is due by then may come
ROUNDS, LOADS = 5, 20
FINALISTS = 2
HASHED = 150      # steps whose rows are compared
OWN = ("num_workers", "io_depth", "prefetch_factor")
KINDS = ("workers", "latency", "both", "bandwidth", "cores")
UNEVEN, UNEVEN_SETTLED, UNEVEN_SECONDS = "uneven", 3000, 8.0
START_DEPTH = 64  # reads that suit a store that is late: what auto begins with


class Planter(verdicts_planted.Planter):
    """Loads of which a batch would take `need` times as long as the step with what auto begins with."""

    def __init__(self, seed, folder):
        super().__init__(seed, folder)
        self.batch = self.r.choice((16, 32))

    def load(self, spec):
        # From batch to batch the same, and short, so that what is ahead is ahead by few.
        case = self.case(set(), spec, "--shuffle=true", "--cache", "none")
        return without(case["command"], OWN)

    def sleeping(self, need):
        return f"delay={us(self.step * need / self.batch)}"

    def late(self, need):
        return self.slow(read_bytes=4096, latency=us(self.step * need * START_DEPTH / self.batch))

    def workers(self):
        return self.load(f"synthetic:?{self.sleeping(self.r.uniform(1.5, 6.5))}")

    def latency(self):
        return self.load(self.late(self.r.uniform(1.5, 3.5)))

    def both(self):
        return self.load(f"{self.late(self.r.uniform(1.3, 3))}&{self.sleeping(self.r.uniform(1.3, 5))}")

    def bandwidth(self):
        spec = self.slow(read_bytes=16384, latency="1ms", bandwidth=int(16384 * self.batch / self.step / self.r.uniform(1.2, 2)))
        return self.load(f"{spec}&{self.sleeping(self.r.uniform(2, 5))}")

    def uneven(self):
        # Half of the time of a batch is of few of its samples.
        self.batch, self.step = self.r.choice((4, 8, 16)), self.r.uniform(0.003, 0.005)
        each, tail = self.r.uniform(2.5, 6) * self.step / 2 / self.batch, self.r.uniform(10, 25) * self.step
        return self.load(f"synthetic:?delay={us(each)}&tail_share={each / tail:.6f}&tail_delay={us(tail)}&seed={self.r.randint(0, 999)}")

    def cores(self):
        return self.load(f"synthetic:?cpu={us(self.step * self.r.uniform(1.2, 1.6) / self.batch)}")


# ---- What was changed ------------------------------------------------------------------------------------------------

class Moves:
    """The changes of a run, as its log has them: [(step, option, from, to, whether it puts back what was tried)]."""

    def __init__(self, log):
        self.changes, self.first, self.last, step = [], None, None, 0
        with open(log, encoding="utf-8") as lines:
            for line in lines:
                if '"event": "pace"' not in line:
                    continue
                event = json.loads(line)
                self.first, self.last = self.first or event, event
                step += event["steps"]
                for option, before in (("num_workers", "workers"), ("io_depth", "depth")):
                    if event[option] != event[before]:
                        self.changes.append((step, option, event[before], event[option], event["why"].startswith("put back")))
        if not self.first:
            raise Failed(f"the log {log} has no event 'pace'")

    def settled(self):
        """The step of the last change."""
        return self.changes[-1][0] if self.changes else 0

    def again(self):
        """Changes that were made, undone and made again. What was tried and put back is none, unless it is tried again without
        a change of the other option between, which it may have waited for."""
        made = [(option, a, b) for _, option, a, b, _ in self.changes]
        return [c for i, (c, change) in enumerate(zip(made, self.changes))
                if not change[-1] and c in made[:i] and (c[0], c[2], c[1]) in made[made.index(c):i] and not self.moved(c[0], made.index(c), i)]

    def moved(self, option, first, end):
        """Whether the other option was changed, and that was kept, between two changes of this one."""
        between = [c for c in self.changes[first:end] if c[1] != option]
        return sum(1 for c in between if not c[-1]) > sum(1 for c in between if c[-1])


# ---- Running ---------------------------------------------------------------------------------------------------------

class Online(Bench):
    def __init__(self, args, folder):
        super().__init__(args.build / "stoker", args.any)
        self.rounds, self.scale, self.folder = args.rounds, 0.5 if args.quick else 1, Path(folder)
        self.uneven = args.kind == UNEVEN
        self.settled, self.seconds = (UNEVEN_SETTLED, UNEVEN_SECONDS) if self.uneven else (SETTLED, 3.0)
        self.wrap = ["taskset", "-c", ",".join(str(c) for c in cores()[:2])]

    def run(self, command, warmup, seconds, batches=30, log="none"):
        return self.bench(command, self.scale * seconds, self.wrap, batches=batches, warmup=warmup, log=log)

    def auto(self, command, seconds):
        """(row with its "moves", what disturbed it, ...) of a run from the start of auto on."""
        log = self.folder / "auto.jsonl"
        log.unlink(missing_ok=True)
        row, disturbed, took = self.run(command, self.settled, seconds, log=log)
        return {**row, "moves": Moves(log)}, disturbed, took

    def fixed(self, command, setting):
        # Events take time: what is held against auto writes them, too.
        log = self.folder / "fixed.jsonl"
        log.unlink(missing_ok=True)
        return self.run([*command, *flags(setting)], SETTLED, self.seconds, log=log)

    def order(self, command, setting):
        """(rows of some steps, as they were delivered; what was changed in the first pass) of auto, where no setting is given."""
        file, log = self.folder / "rows.txt", self.folder / "pass.jsonl"
        log.unlink(missing_ok=True)
        self.json([*self.wrap, self.stoker, "bench", *command, *flags(setting), "--num-epochs", "1", "--num-batches", str(HASHED),
                   "--hash", str(file), "--log", str(log), "--quiet", "--format", "json"])
        return file.read_bytes(), [] if setting else Moves(log).changes

    def case(self, command):
        first, _, _ = self.auto(command, 0.5)
        begun = first["moves"].first
        settings = settings_of(begun)
        # Which are the best is only looked for: they run again.
        rates = [self.run([*command, *flags(s)], 6, 0.8, batches=8)[0]["samples_per_s"] for s in settings]
        best = [s for _, s in sorted(zip(rates, settings), key=lambda x: -x[0])[:FINALISTS]]
        auto, *of_best = in_turns(self.rounds, [lambda: self.auto(command, self.seconds), *(lambda s=s: self.fixed(command, s) for s in best)])
        start = {"num_workers": begun["workers"], "io_depth": begun["depth"]}
        (rows, changes), (fixed, _) = self.order(command, {}), self.order(command, best[0])
        row = {"command": command, "start": start, "settings": settings, "rates": rates, "same_order": rows == fixed and bool(rows),
               "moved": len(changes), "left_out": "", "good": None, "uneven": self.uneven}
        return judge(row, auto, list(zip(best, of_best)))


def flags(setting):
    return [f"--{k.replace('_', '-')}={v}" for k, v in setting.items()]


def steps_of(least, most, start, times):
    """`times` less than start, start, and `times` as many each, within the bounds."""
    values = [v for v in (start // times, start) if v >= least]
    while values[-1] * times <= most:
        values.append(values[-1] * times)
    return values


def settings_of(event):
    """Fixed settings within the bounds that auto has."""
    least, most, depth_least, depth_most = event["limits"]
    workers = steps_of(least, most, event["workers"], 2)
    depths = steps_of(depth_least, depth_most, event["depth"], 4) if depth_least < depth_most else [event["depth"]]
    return [{"num_workers": w, "io_depth": d} for w in workers for d in depths]


# ---- Judging ---------------------------------------------------------------------------------------------------------

def median(rows):
    return statistics.median(r["samples_per_s"] for r in rows)


def judge(row, auto, fixed):
    """What a load came to; `fixed` are settings with what came of them."""
    if not auto["rows"] or not all(of["rows"] for _, of in fixed):
        return {**row, "left_out": (auto["disturbed"] + [d for _, of in fixed for d in of["disturbed"]])[0]}
    best, of_best = max(fixed, key=lambda f: median(f[1]["rows"]))
    moves, start = [r["moves"] for r in auto["rows"]], row["settings"].index(row["start"])
    row = {**row, "best": best, "best_rate": median(of_best["rows"]), "rate": median(auto["rows"]),
           "start_share": row["rates"][start] / max(row["rates"]),
           "ended": [(m.last["num_workers"], m.last["io_depth"]) for m in moves], "changes": [m.changes for m in moves],
           "settled": statistics.median(m.settled() for m in moves), "again": sum(len(m.again()) for m in moves)}
    row["share"] = row["rate"] / row["best_rate"]
    soon = row["uneven"] or row["settled"] <= SETTLED + WINDOW and not row["again"]
    row["good"] = row["share"] >= SHARE and soon and row["same_order"] and row["moved"] > 0
    return row


HEAD = (f"  {'load':16} {'start':>7} {'of best':>8} {'best fixed':>10} {'/s':>9} {'auto':>8} {'/s':>9} {'of best':>8} {'settled':>8} {'again':>6} "
        f"{'order':>6}")


def show(row):
    if row["left_out"]:
        print(f"  {row['case']:16} left out: {row['left_out']}", flush=True)
        return
    start, best = (f"{s['num_workers']} {s['io_depth']}" for s in (row["start"], row["best"]))
    ended = "{} {}".format(*row["ended"][len(row["ended"]) // 2])
    order = "unmoved" if not row["moved"] else "same" if row["same_order"] else "OTHER"
    print(f"  {row['case']:16} {start:>7} {100 * row['start_share']:6.1f} % {best:>10} {row['best_rate']:9.1f} {ended:>8} {row['rate']:9.1f} "
          f"{100 * row['share']:6.1f} % {row['settled']:8.0f} {row['again']:6} {order:>6}  {'good' if row['good'] else 'BAD'}", flush=True)


def words(judged):
    return (f"least share of the best {100 * min(r['share'] for r in judged):.1f} % (bar {100 * SHARE:.0f}); settled by step "
            f"{max(r['settled'] for r in judged):.0f} (bar {SETTLED + WINDOW}); changes made again {sum(r['again'] for r in judged)} (bar 0); "
            f"orders that are others {sum(not r['same_order'] for r in judged)} (bar 0)")


# ---- The command -----------------------------------------------------------------------------------------------------

def arguments():
    p = parser("online", __doc__, ROUNDS, "5 loads, 2 rounds, half as long: whether it works")
    p.add_argument("--cases", type=int, help=f"loads (default {LOADS})")
    p.add_argument("--kind", choices=(*KINDS, UNEVEN), help="only loads of this kind")
    args = p.parse_args()
    args.cases = args.cases or (len(KINDS) if args.quick else LOADS)
    args.rounds = min(args.rounds, 2) if args.quick else args.rounds
    return args


def loads_of(args, folder):
    """(name, command) of each."""
    files, kinds = make_planted(folder), [args.kind] if args.kind else KINDS
    for number in range(args.first, args.first + args.cases):
        kind, seed = kinds[number % len(kinds)], args.seed + number
        yield f"{kind} {seed}", getattr(Planter(seed, files), kind)()


def main():
    args = arguments()
    removes_what_it_made()
    return run_one("online", "planted", args, f"\nworkers and reads\n{HEAD}",
                   lambda folder: each(loads_of(args, folder), Online(args, folder).case, show), words)


if __name__ == "__main__":
    sys.exit(main())
