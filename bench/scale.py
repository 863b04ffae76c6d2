#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether many ranks come to what the scale model said: ./dev bench scale [--cases N] [--first N] [--ranks 2,4,8]

A case is a small training on two cores with one thread of the step and one worker a rank, so that four and eight ranks share cores by
design. One rank is recorded, and a training of two ranks tells how long an all-reduce takes by itself (`comm_alone` of `stoker report`
over their logs, the least of its rounds) and what two cores take from each other (`own` over the step of the one): from both `stoker report --scale` predicts the efficiency of more ranks. Then one rank and
2, 4 and 8 of them (`stoker launch`, MPI) are trained in turns. Efficiency is samples/s of all ranks over as many times those of one; what
is true is the median of the rounds. The log that is predicted from is of another training than those it is held against.

Loads: step (convolutions, of which next to nothing is sent), gradients (wide layers, whose gradients are sent), data (pictures that are
blurred: the worker is the limit).

Right is a load whose efficiency is predicted within 10 % at each number of ranks. Because a machine of two cores has none to spare, a
training is disturbed where other programs use a tenth of a core; a load is left out where every round of a number of ranks was disturbed.
"""
import json
import statistics
import sys
import time
from pathlib import Path

from loads import Bench, Failed, each, in_turns, parser, removes_what_it_made, run_one
from machine import cores

NEAR = 0.10     # of the efficiency
ROUNDS = 3
CORES = 2
TRIES = 3       # of what is recorded, where something disturbs it
TIMEOUT = 600
MIB = 1 << 20
# Layers, transforms, samples of a batch, steps, parameters.
LOADS = {
    "step": ('"conv2d(16, 3)", relu, "conv2d(32, 3)", relu, flatten, "linear(10)"', "normalize(mnist)", 32, 150),
    "gradients": ('flatten, "linear(1024)", relu, "linear(1024)", relu, "linear(10)"', "normalize(mnist)", 64, 150),
    "data": ('flatten, "linear(64)", relu, "linear(10)"', "gaussian_blur(9), gaussian_blur(9), normalize(mnist)", 64, 150),
}

CONFIG = """data: {{dataset: "digits:?size=60000"}}
loader: {{batch_size: {batch}, shuffle: true, num_workers: 1, transforms: "{transforms}"}}
model: {{layers: [{layers}]}}
optimizer: {{name: sgd, lr: 0.01}}
trainer: {{max_steps: {steps}, seed_everything: 1, barebones: true}}
"""


class Scale(Bench):
    def __init__(self, args, folder):
        super().__init__(args.build / "stoker", args.any)
        self.rounds, self.ranks, self.short, self.folder = args.rounds, args.ranks, args.quick, Path(folder)
        self.wrap = ["taskset", "-c", ",".join(str(c) for c in cores()[:CORES])]

    def config(self, name):
        layers, transforms, batch, steps = LOADS[name]
        file = self.folder / f"{name}.yaml"
        file.write_text(CONFIG.format(layers=layers, transforms=transforms, batch=batch, steps=steps // 3 if self.short else steps))
        return file

    def train(self, config, ranks, log):
        """({"samples_per_s" of all ranks, "world"}, what disturbed it, how long it took) of a training; its logs stay."""
        for old in self.folder.glob(f"{log.stem}*.jsonl"):
            old.unlink()
        train = [self.stoker, "train", str(config), "--compute-threads", "1", "--log", str(log), "--default-root-dir", str(self.folder)]
        launch = [self.stoker, "launch", "-n", str(ranks), "--"] if ranks > 1 else []
        began = time.monotonic()
        done, disturbed = self.machine.run([*self.wrap, *launch, *train], TIMEOUT)
        if not done or done.returncode != 0:
            raise Failed(f"{self.why(done, TIMEOUT)}: training of {ranks} ranks")
        found = self.report(sorted(self.folder.glob(f"{log.stem}*.jsonl")))
        if len(found["runs"]) != ranks:
            raise Failed(f"{len(found['runs'])} of {ranks} ranks have a log")
        row = {"samples_per_s": sum(r["samples_per_s"] for r in found["runs"]), "world": (found.get("worlds") or [None])[0]}
        return row, "" if self.anyhow else disturbed, time.monotonic() - began

    def report(self, logs, *more):
        done, _ = self.machine.run([self.stoker, "report", *map(str, logs), "--html", "none", "--format", "json", *more], TIMEOUT)
        if not done or done.returncode != 0:
            raise Failed(f"{self.why(done, TIMEOUT)}: report")
        return json.loads(done.stdout)

    def contention(self, log, pairs):
        """How many times as long a step takes on two cores as on one; the least of the pairs, as the most is what disturbed it."""
        one = self.report([log])["runs"][0]["step_mean"]
        return max(min(statistics.mean(r["own"] for r in p["world"]["ranks"]) for p in pairs) / one, 1)

    def predict(self, log, alone, contention):
        """The efficiency of each number of ranks; `alone`: s of an all-reduce of two."""
        # Of two ranks each sends its gradients once: bytes over bytes/s is the time.
        asked = f"ranks={','.join(map(str, self.ranks))},per_machine={max(self.ranks)},cores={CORES},gradients={MIB},beta={MIB / max(alone, 1e-6):.0f}B/s,contention={contention:.4f}"
        return {p["ranks"]: p["efficiency"] for p in self.report([log], "--scale", asked)["scale"]}

    def case(self, name):
        config, log = self.config(name), self.folder / "recorded.jsonl"
        _, recording, _ = self.calm(lambda: self.train(config, 1, log), TRIES)
        pairs = [self.calm(lambda: self.train(config, 2, self.folder / "pair.jsonl"), TRIES)[0] for _ in range(1 if self.short else TRIES)]
        alone = min(p["world"]["comm_alone"] for p in pairs)
        contention = self.contention(log, pairs)
        predicted = self.predict(log, alone, contention)
        counts = [1, *self.ranks]
        found = in_turns(self.rounds, [lambda n=n: self.train(config, n, self.folder / "turn.jsonl") for n in counts])
        row = {"recording": recording, "all_reduce": alone, "contention": contention, "predicted": predicted, "left_out": "", "good": None}
        return judge(row, dict(zip(counts, found)))


# ---- Judging ---------------------------------------------------------------------------------------------------------

def judge(row, found):
    """What a load came to beside what was predicted."""
    silent = [n for n, f in found.items() if not f["rows"]]
    if row["recording"] or silent:
        return {**row, "left_out": row["recording"] or found[silent[0]]["disturbed"][0]}
    rates = {n: statistics.median(r["samples_per_s"] for r in f["rows"]) for n, f in found.items()}
    efficiency = {n: rate / n / rates[1] for n, rate in rates.items() if n > 1}
    off = {n: row["predicted"][n] / is_ - 1 for n, is_ in efficiency.items()}
    return {**row, "rates": rates, "efficiency": efficiency, "off": off, "share": max(abs(o) for o in off.values()),
            "good": all(abs(o) <= NEAR for o in off.values())}


def show(row):
    if row["left_out"]:
        print(f"  {row['case']:12} left out: {row['left_out']}", flush=True)
        return
    print(f"  {row['case']:12} {row['rates'][1]:10.1f} {1e3 * row['all_reduce']:12.2f} {row['contention']:10.2f}", flush=True)
    for n, off in row["off"].items():
        print(f"  {'':47} {n:5} {row['rates'][n]:10.1f} {100 * row['predicted'][n]:10.1f} {100 * row['efficiency'][n]:10.1f} {100 * off:+8.1f} %  "
              f"{'good' if abs(off) <= NEAR else 'BAD'}", flush=True)


def words(judged):
    off = sorted(abs(o) for r in judged for o in r["off"].values())
    return f"efficiency off by {100 * statistics.median(off):.1f} % in the median, {100 * off[-1]:.1f} % at most (bar {100 * NEAR:.0f})"


# ---- The command -----------------------------------------------------------------------------------------------------

def arguments():
    p = parser("scale", __doc__, ROUNDS, "one round, a third of the steps: whether it works")
    p.add_argument("--cases", type=int, help=f"loads (default {len(LOADS)})")
    p.add_argument("--ranks", default="2,4,8", help="numbers of ranks (default %(default)s)")
    args = p.parse_args()
    args.ranks = [int(n) for n in args.ranks.split(",")]
    args.rounds = 1 if args.quick else args.rounds
    return args


def main():
    args = arguments()
    removes_what_it_made()
    head = f"\n  {'load':12} {'one, /s':>10} {'reduce, ms':>12} {'contention':>10} {'ranks':>5} {'all, /s':>10} {'predicted':>10} {'measured':>10} {'off':>10}"
    names = list(LOADS)[args.first:][:args.cases]
    return run_one("scale", "ranks", args, head,
                   lambda folder: each([(name, name) for name in names], Scale(args, folder).case, show), words)


if __name__ == "__main__":
    sys.exit(main())
