#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the verdict names what was planted: ./dev bench verdicts [--set fit|judge|real] [--cases N] [--first N]

Sets:
  fit    one cause at a time, of random strength (`synthetic:`, `slow+`, options of the loader): the thresholds of
         stoker/measure.h were chosen on it
  judge  the same kinds of cases with other seeds: nothing is chosen on it, it counts
  real   pictures and arrays behind real codecs, capped processors, two causes at once, healthy runs

Right is a verdict of the planted limit whose share is within 10 points of the time that the step truly did not run. Of
two causes the larger is to be named, or either where the one is less than 1.5 times the other; the share is not asked for,
as the other has one, too. A healthy run is to be called one. What is true is known from the planting: the cause, and how long
the steps alone take, against the time that passed. A case while which something else disturbed the machine is run again, and
left out where it always is disturbed, whether it came out right or wrong: nobody looks before that is decided.

--record FILE.log writes the runs that were judged, thinned to what a verdict needs, and FILE.txt with what was planted in each:
tests/golden/report/verdicts.log is such a file, which test_verdicts.c judges again in every build.
"""
import argparse
import collections
import concurrent.futures
import json
import sys
import tempfile
import time
from pathlib import Path

import loads
import verdicts_planted
import verdicts_real
from machine import SKIPPED, Cap, Machine

KINDS = {"fit": verdicts_planted.KINDS, "judge": verdicts_planted.KINDS, "real": verdicts_real.KINDS}
SEEDS = {"fit": 1000, "judge": 5000, "real": 9000}
WITHIN = 0.10  # between the verdict's share and the true one
FELT = 0.05    # below this share of the time nothing is lost
AGAIN = 2      # more tries of a case that was disturbed


class NotPlanted(Exception):
    """A case that could not be made."""

    def __init__(self, row, disturbed):
        super().__init__(row["why"])
        self.row, self.disturbed = row, disturbed


class Bench:
    """Runs cases. What is quick is measured half as long, and no longer than `patience` seconds in all."""

    def __init__(self, stoker, quick, recording=False):
        self.recording = recording
        self.stoker, self.quick, self.machine, self.cap = str(stoker), quick, Machine(), None
        self.until = time.monotonic() + (120 if quick else 1e9)
        self.folder = tempfile.TemporaryDirectory()
        self.files, self.data, self.known, self.doubt = Path(self.folder.name) / "files", None, {}, ""
        self.log = Path(self.folder.name) / "log"

    def __enter__(self):
        self.files.mkdir()
        verdicts_planted.make_files(self.files)
        return self

    def __exit__(self, *_):
        if self.cap:
            self.cap.close()
        self.folder.cleanup()

    def prepare(self, name):
        if name == "real" and not self.data and not self.quick:
            self.cap = Cap()
            self.data = verdicts_real.Data(self.folder.name, self.stoker)
            for note in (*self.data.notes, f"processors are capped by {self.cap}"):
                print(f"verdicts: {note}", flush=True)

    def bench(self, command, wrap, seconds, batches, record=False):
        self.log.unlink(missing_ok=True)
        command = [*wrap, self.stoker, "bench", *command, "--min-seconds", f"{seconds:.2f}", "--min-batches", str(batches),
                   "--warmup", "6", "--max-seconds", "8" if self.quick else "20", "--log", str(self.log) if record else "none", "--quiet", "--format", "json"]
        done, disturbed = self.machine.run(command, 60)
        if not done or done.returncode != 0:
            return {"why": f"failed: {loads.Bench.why(done, 60)}", "command": command}, disturbed
        return {**json.loads(done.stdout)["settings"][0], "command": command}, disturbed

    def free(self, command, wrap):
        """Seconds of a batch without a step, the least of some runs: what disturbs makes it more."""
        key = (*wrap, *command)
        if key not in self.known:
            found, disturbed = [], "yes"
            while disturbed and len(found) < 1 + AGAIN:
                row, disturbed = self.bench([*command, "--train-step-time", "0"], wrap, 0.8, 20)
                if "why" in row:
                    raise NotPlanted(row, disturbed)
                found.append(row["wall"] / max(row["steps"], 1))
            if disturbed:
                self.doubt = f"while it was planned {disturbed}"
                return min(found)
            self.known[key] = min(found)
        return self.known[key]

    def once(self, name, kind, seed):
        self.doubt = ""
        try:
            planter = verdicts_real.RealPlanter(seed, self.data, self.files, self.cap, self.free) if name == "real" \
                else verdicts_planted.Planter(seed, self.files)
            case = getattr(planter, kind)()
        except NotPlanted as error:
            return {"good": False, **error.row}, error.disturbed
        scale = 0.5 if self.quick else 1
        row, disturbed = self.bench(case["command"], case["wrap"], scale * case["seconds"], round(30 * scale), self.recording)
        if "why" in row:
            return {"good": False, **row}, disturbed or self.doubt
        return {**judge(case, row), "recorded": thinned(self.log) if self.recording else []}, disturbed or self.doubt

    def run(self, name, kind, seed):
        """The last try of a case."""
        for _ in range(1 + AGAIN):
            if time.monotonic() > self.until:
                return {"kind": kind, "seed": seed, "good": None, "why": "no time was left", "command": []}
            row, disturbed = self.once(name, kind, seed)
            if not disturbed:
                break
            # Decided without a look at what came out.
            row = {**row, "good": None, "disturbed": disturbed}
            time.sleep(1)
        return {"kind": kind, "seed": seed, **row}


KEPT = {"run start", "ledger", "figures", "run end"}
STEPS_KEPT = 4  # events of steps


def thinned(path):
    """The lines of a log that a verdict needs, and a few steps."""
    kept, steps = [], 0
    for line in path.read_text().splitlines():
        event = json.loads(line)
        steps += event["event"].startswith("training")
        if event["event"] not in KEPT and not (event["event"].startswith("training") and steps <= STEPS_KEPT):
            continue
        if event["event"] == "ledger" and "epoch" in event:
            continue
        if event["event"] == "run start":
            event = {k: event[k] for k in ("event", "time", "time_ns", "pid") if k in event}
        kept.append(json.dumps(event))
    return kept


def record(path, rows):
    """One log of all runs, and beside it a line for each: what was planted, and the share that it took."""
    with open(path, "w", encoding="utf-8") as log, open(path.with_suffix(".txt"), "w", encoding="utf-8") as truth:
        for number, row in enumerate(row for row in rows if row.get("recorded")):
            for line in row["recorded"]:
                event = json.loads(line)
                # Runs are told apart by their process.
                log.write(json.dumps({**event, "pid": number + 1} if "pid" in event or event["event"] == "run start" else event) + "\n")
            truth.write(f"{row['kind']} {row['seed']}: {'/'.join(row['wanted'])}: {row['lost']:.3f}"
                        f"{' any' if row['any_share'] else ''}\n")


def judge(case, row):
    """What a case came to."""
    steps, limit, share = max(row["steps"], 1), row["limit"], row["limit_share"]
    # What is true is known from the planting: the steps alone take this long, and the rest of the time they waited.
    waited = max(0.0, 1 - (case["step"] * steps / row["wall"] if "step" in case and not case.get("short") else row["step_share"]))
    # A step that has too little of a core is longer than alone: that, too, is lost, and shares may be of the one or of both.
    losses = (waited, 1 - case["step"] * steps / row["wall"]) if case.get("short") else (waited,)
    lost = min(losses, key=lambda x: abs(share - x))
    # What came out too weak to be felt is none of the step's.
    named = limit in case["limits"] or (limit == "step" and max(losses) < FELT)
    if case.get("healthy"):
        named = named and row["leak_bytes_per_epoch"] == 0
    near = case.get("healthy") or case.get("two") or limit == "step" or abs(share - lost) <= WITHIN
    return {"good": bool(named and near), "limit": limit, "any_share": bool(case.get("healthy") or case.get("two")), "wanted": sorted(case["limits"]), "share": share, "lost": lost,
            "near": bool(near), "other": row["wait_other"] / max(row["wall"], 1e-9),
            "ordering": row["wait_ordering"] / max(row["wall"], 1e-9), "command": row["command"]}


def report(name, kinds, rows, least):
    """One table of a set. Returns (right, judged)."""
    print(f"\n{name}")
    print(f"  {'cause':20} {'cases':>5} {'named':>6} {'near':>5} {'right':>6} {'left out':>9} {'mean |share - lost|':>20} "
          f"{'other':>7} {'ordering':>9}  called")
    for kind in kinds:
        mine = [r for r in rows if r["kind"] == kind and r["good"] is not None]
        out = sum(r["kind"] == kind and r["good"] is None for r in rows)
        known = [r for r in mine if "limit" in r]
        n = max(len(known), 1)
        called = collections.Counter(r["limit"] for r in known)
        print(f"  {kind:20} {len(mine):5} {sum(r['limit'] in r['wanted'] for r in known):6} {sum(r['near'] for r in known):5} "
              f"{sum(r['good'] for r in mine):6} {out:9} {sum(abs(r['share'] - r['lost']) for r in known) / n:20.3f} "
              f"{100 * sum(r['other'] for r in known) / n:6.2f}% {100 * sum(r['ordering'] for r in known) / n:8.2f}%  "
              + ", ".join(f"{k} {v}" for k, v in called.most_common()))
    for r in rows:
        if not r["good"]:
            said = r.get("why") or f"said {r['limit']} {r['share']:.2f}, wanted {'/'.join(r['wanted'])} {r['lost']:.2f}"
            print(f"  {'wrong' if r['good'] is False else 'left out'}: {r['kind']} {r['seed']}: {said}"
                  + (f" ({r['disturbed']})" if r.get("disturbed") else "") + f"\n    {' '.join(r['command'])}")
    judged = [r for r in rows if r["good"] is not None]
    good = sum(r["good"] for r in judged)
    print(f"{name}: {good} of {len(judged)} right, {100 * good / max(len(judged), 1):.1f} % (bar: {100 * least:.0f} %); "
          f"{len(rows) - len(judged)} left out", flush=True)
    return good, len(judged)


def arguments():
    p = argparse.ArgumentParser(prog="./dev bench verdicts", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cases", type=int, help="of each set (default 200)")
    p.add_argument("--first", type=int, default=0, help="number of the first case (default 0): a set may be run in parts")
    p.add_argument("--set", choices=sorted(SEEDS), action="append", help="default judge and real")
    p.add_argument("--seed", type=int, help="of the first case of each set (default: fit 1000, judge 5000, real 9000)")
    p.add_argument("--kind", action="append", help="only this kind")
    p.add_argument("--quick", action="store_true",
                   help="two cases of each kind of judge and of real ones that need no codec, half as long, for at most two minutes")
    p.add_argument("--least", type=float, default=0.95, help="share that is to be right (default %(default)s)")
    p.add_argument("--record", type=Path, help="log to write the judged runs to, thinned")
    p.add_argument("--jobs", type=int, default=1, help="cases at once: only for sets whose cases sleep")
    p.add_argument("--build", type=Path, default=loads.ROOT / "build", help=argparse.SUPPRESS)
    return p.parse_args()


def main():
    args = arguments()
    loads.removes_what_it_made()
    found, all_good, all_judged, count = {}, 0, 0, 0
    recorded = []
    with Bench(args.build / "stoker", args.quick, bool(args.record)) as bench, concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for name in args.set or ["judge", "real"]:
            kinds = [k for k in KINDS[name] if not args.kind or k in args.kind]
            if args.quick and name == "real":
                kinds = [k for k in kinds if k.endswith("_waits")]
            if not kinds:
                continue
            bench.prepare(name)
            seed = SEEDS[name] if args.seed is None else args.seed
            n = 2 * len(kinds) if args.quick else args.cases or 200
            rows = list(pool.map(lambda i, name=name, k=kinds, s=seed: bench.run(name, k[i % len(k)], s + i), range(args.first, args.first + n)))
            good, judged = report(name, kinds, rows, args.least)
            recorded += [r for r in rows if r["good"] is not None]
            found[name] = good / max(judged, 1)
            all_good, all_judged, count = all_good + good, all_judged + judged, count + n
    if args.record:
        record(args.record, recorded)
    print(json.dumps({"workload": "verdicts", **{k: round(v, 4) for k, v in found.items()}}))
    if all_judged < count / 2:
        print(f"verdicts: skipped: this machine is too busy with other things for {count - all_judged} of {count} cases")
        return SKIPPED
    # Sets of a few cases are judged together: one late wake-up is no set.
    shares = [all_good / all_judged] if args.quick else found.values()
    return 0 if all(v >= args.least for v in shares) else 1


if __name__ == "__main__":
    sys.exit(main())
