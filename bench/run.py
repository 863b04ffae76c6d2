#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ours against the rivals, alternately: ./dev bench NAME [--peers A,B] [--quick]

Prints every run as the rivals' JSON line, then a table of medians, and last one JSON object. The rivals' scripts are
looked for in STOKER_PEERS (default ../shared/peers beside the checkout); without them ours runs alone.
"""
import argparse
import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path.home() / ".cache/stoker-peers"
PEERS = Path(os.environ.get("STOKER_PEERS", ROOT.parent / "shared/peers"))
DATA = Path(os.environ.get("STOKER_TEST_DATA", PEERS.parent / "data"))
VENV = Path(os.environ.get("STOKER_PEERS_VENV", CACHE / "venv"))
VENVS = {"ffcv": Path(os.environ.get("STOKER_PEERS_FFCV_VENV", CACHE / "ffcv"))}
TIMEOUT = 600


@dataclass
class Case:
    """One comparison: the same work by ours, the rivals and a bound, judged by one figure."""
    name: str
    ours: str                        # program below bench/ of the build folder, with its options
    peers: dict = field(default_factory=dict)   # name -> options of the rivals' script
    bound: str = ""                  # program below bench/bounds/, or a number
    figure: str = "samples_per_s"    # of the JSON line
    lower: bool = False              # whether less is better
    bound_figure: str = ""           # of the bound's line, where it is another one
    seconds: bool = True             # whether ours takes --seconds
    bars: tuple = ()                 # (text, function of figures -> (value, whether it holds))


@dataclass
class Workload:
    doc: str
    cases: list
    script: str = ""                 # of the rivals


def median_of(rows, key):
    values = [r[key] for r in rows if isinstance(r.get(key), (int, float))]
    return statistics.median(values) if values else None


def tiny(batch, ratio, share=0.0):
    peers = {"ffcv": "--workers 2", "torch-index": "", "tfdata": "", "numpy": "", "torch-tensors": ""}
    bars = [
        (f"rate / ffcv >= {ratio}", lambda f: f.ratio("ffcv", "samples_per_s"), lambda x: x >= ratio),
        ("rate / torch-index >= 1", lambda f: f.ratio("torch-index", "samples_per_s"), lambda x: x >= 1),
        ("CPU / ffcv's <= 0.5", lambda f: f.ratio("ffcv", "cpu_s_per_1000"), lambda x: x <= 0.5),
    ]
    if share:
        bars.append((f"rate / bound >= {share}", lambda f: f.share(), lambda x: x >= share))
    return Case(f"batch {batch}", f"tiny --batch_size {batch} --num_workers 2",
                {k: f"{v} --batch {batch}".strip() for k, v in peers.items()},
                f"tiny_bound --batch {batch} --workers 2", bars=tuple(bars))


WORKLOADS = {
    "tiny": Workload("MNIST in memory -> shuffled, normalised float32 + label", [
        tiny(64, 5),
        Case("batch 256, plain files, cache encoded",
             "tiny --batch_size 256 --num_workers 2 --cache encoded --dataset mnist:{mnist}",
             bound="bench:tiny --batch_size 256 --num_workers 2",
             bars=(("rate / in memory >= 0.9", lambda f: f.share(), lambda x: x >= 0.9),)),
        tiny(256, 3, 0.8),
    ], "bench_tiny.py"),
    "engine": Workload("samples of 784 bytes that cost nothing", [
        Case("batch 64", "engine --batch_size 64 --num_workers 1", figure="engine_us_per_batch", lower=True,
             bars=(("us of engine a batch <= 20", lambda f: f.ours("engine_us_per_batch"), lambda x: x <= 20),)),
        # What "the same bytes" are decides the bound: one hot template, which synthetic: copies from; the batches
        # that are delivered, copied from slab to slab; 60,000 samples in random order, as a data set in memory is.
        Case("batch 256, beside one hot sample", "engine --batch_size 256 --num_workers 2",
             bound="memcpy_bound --batch 256 --source 1"),
        Case("batch 256, beside a gather", "engine --batch_size 256 --num_workers 2",
             bound="memcpy_bound --batch 256 --source 60000"),
        Case("batch 256", "engine --batch_size 256 --num_workers 2", bound="memcpy_bound --batch 256 --source 1280",
             bars=(("rate / memcpy >= 0.6", lambda f: f.share(), lambda x: x >= 0.6),)),
    ]),
    "tail": Workload("5 % of the samples take 50 ms, the others 1 ms; batches of 16", [
        Case("2 workers", "tail --num_workers 2",
             {p: "--workers 2" for p in ("torch-in-order", "torch-any-order", "spdl", "spdl-in-order", "grain-threads")},
             bound=str(2 / 3.45e-3),
             bars=(("work / workers, consumer free >= 0.97", lambda f: f.ours("throughput_share"), lambda x: x >= 0.97),)),
        Case("8 workers", "tail --num_workers 8",
             {p: "--workers 8" for p in ("torch-in-order", "torch-any-order", "spdl", "spdl-in-order", "grain-threads")},
             figure="wait_p95_ms", lower=True,
             bars=(("p95 wait in ms <= 0.5", lambda f: f.ours("wait_p95_ms"), lambda x: x <= 0.5),)),
    ], "bench_tail.py"),
    "turn": Workload("first batch, turn of the epoch, restore", [
        Case("batch 64", "turn --num_workers 2", figure="restore_ms", lower=True, seconds=False, bars=(
            ("first batch in ms <= 5", lambda f: f.ours("first_batch_ms"), lambda x: x <= 5),
            ("turn - step wait in ms <= 0.05", lambda f: f.ours("turn_wait_ms") - f.ours("step_wait_ms"),
             lambda x: x <= 0.05),
            ("restore in ms <= 1", lambda f: f.ours("restore_ms"), lambda x: x <= 1))),
    ]),
}


class Figures:
    """The rows of one case, by who made them."""

    def __init__(self, case):
        self.case, self.rows = case, {}

    def add(self, who, row):
        self.rows.setdefault(who, []).append(row)

    def median(self, who, key):
        return median_of(self.rows.get(who, []), key)

    def ours(self, key):
        value = self.median("stoker", key)
        if value is None:
            raise KeyError(key)
        return value

    def ratio(self, peer, key):
        theirs = self.median(peer, key)
        if not theirs:
            raise KeyError(peer)
        return self.ours(key) / theirs

    def bound(self):
        if not self.case.bound:
            return None
        if self.case.bound[0].isdigit():
            return float(self.case.bound)
        return self.median("bound", self.case.bound_figure or self.case.figure)

    def share(self):
        bound = self.bound()
        if not bound:
            raise KeyError("bound")
        mine = self.ours(self.case.figure)
        return bound / mine if self.case.lower else mine / bound

    def summary(self):
        """The case as one object: medians, the best rival, what is left to the bound."""
        figure, lower = self.case.figure, self.case.lower
        rivals = {p: self.median(p, figure) for p in self.rows if p not in ("stoker", "bound")}
        rivals = {p: v for p, v in rivals.items() if v}
        best = (min if lower else max)(rivals, key=rivals.get) if rivals else None
        mine = self.median("stoker", figure)
        out = {"case": self.case.name, "figure": figure, "stoker": mine, "peer": rivals.get(best), "best_peer": best,
               "ratio": None, "bound": self.bound(), "share_of_bound": None}
        if best and mine:
            out["ratio"] = round(rivals[best] / mine if lower else mine / rivals[best], 4)
        if mine and self.bound():
            out["share_of_bound"] = round(self.share(), 4)
        return out


def run(command, env=None, cwd=None):
    """The last JSON line that a command prints, or what went wrong."""
    try:
        p = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return None, f"took over {TIMEOUT} s"
    except OSError as e:
        return None, str(e)
    lines = [x for x in p.stdout.splitlines() if x.startswith("{")]
    if p.returncode == 0 and lines:
        return json.loads(lines[-1]), ""
    return None, (p.stderr or p.stdout).strip()[-400:] or f"exit code {p.returncode}"


def run_peer(workload, peer, options, seconds):
    venv = VENVS.get(peer, VENV)
    command = [str(venv / "bin/python"), str(PEERS / workload.script), "--peer", peer, *options.split(),
               "--seconds", str(seconds)]
    env = {**os.environ, "PYTHONWARNINGS": "ignore", "TF_CPP_MIN_LOG_LEVEL": "3", "GLOG_minloglevel": "3",
           "STOKER_TEST_DATA": str(DATA)}
    return run(command, env, PEERS)


def run_ours(build, folder, text, seconds):
    words = [w.format(mnist=build / "bench/mnist") for w in text.split()]
    if seconds:
        words += ["--seconds", str(seconds)]
    return run([str(build / folder / words[0]), *words[1:]], {**os.environ, "STOKER_TEST_DATA": str(DATA)})


def plain_mnist(build):
    """MNIST's files inflated, for the runs that read files."""
    folder = build / "bench/mnist"
    for packed in sorted((DATA / "mnist").glob("*.gz")):
        plain = folder / packed.stem
        if not plain.exists():
            folder.mkdir(parents=True, exist_ok=True)
            with gzip.open(packed) as src, open(f"{plain}.part", "wb") as dst:
                shutil.copyfileobj(src, dst)
            os.rename(f"{plain}.part", plain)


def runs_of(workload, case, chosen, build, seconds):
    """(name, function) of everything that one round of a case runs, ours first."""
    ours_seconds = seconds if case.seconds else None
    runs = [("stoker", lambda: run_ours(build, "bench", case.ours, ours_seconds))]
    if case.bound and not case.bound[0].isdigit():
        folder, text = ("bench", case.bound[6:]) if case.bound.startswith("bench:") else ("bench/bounds", case.bound)
        runs.append(("bound", lambda: run_ours(build, folder, text, seconds)))
    for peer, options in case.peers.items():
        if chosen is None or peer in chosen:
            runs.append((peer, lambda peer=peer, options=options: run_peer(workload, peer, options, seconds)))
    return runs


def measure(workload, case, args, chosen):
    figures, failed = Figures(case), set()
    for _ in range(args.repeat):
        for who, go in runs_of(workload, case, chosen, args.build, args.seconds):
            if who in failed:
                continue
            row, error = go()
            if row is None:
                failed.add(who)
                print(f"bench: {who} ({case.name}) failed and is left out: {error}", file=sys.stderr, flush=True)
                continue
            figures.add(who, row)
            print(json.dumps(row), flush=True)
    return figures


def number(x):
    return "-" if x is None else f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def table(figures):
    keys = ["samples_per_s", "cpu_s_per_1000", "first_batch_s", "peak_rss_mib"]
    if figures.case.figure not in keys:
        keys.insert(0, figures.case.figure)
    print(f"\n{figures.case.name}")
    rows = [["who", "runs", *keys, f"{figures.case.figure} min-max"]]
    for who, found in figures.rows.items():
        values = [r[figures.case.figure] for r in found if figures.case.figure in r]
        spread = f"{number(min(values))}-{number(max(values))}" if values else "-"
        rows.append([who, str(len(found)), *(number(figures.median(who, k)) for k in keys), spread])
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    for r in rows:
        print("  " + "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths))))
    for text, value, holds in figures.case.bars:
        try:
            x = value(figures)
            print(f"  {'held  ' if holds(x) else 'MISSED'}  {text}: {x:.4g}")
        except KeyError as e:
            print(f"  unknown {text}: no figure of {e.args[0]}")


def warn_of_load(own=0):
    """Say when others work on this machine: their share moves from run to run. `own` is what the runs make themselves."""
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    if load > own + cores / 4:
        print(f"bench: the load of this machine is {load:.1f} on {cores} cores: other work runs, the figures are not "
              "to be kept", file=sys.stderr, flush=True)


def setup(extra):
    script = PEERS / "setup"
    if not script.exists():
        sys.exit(f"bench: no {script}; set STOKER_PEERS to the folder of the rivals' scripts")
    sys.exit(subprocess.run([str(script), *extra], cwd=PEERS, check=False).returncode)


def main():
    p = argparse.ArgumentParser(prog="./dev bench", description=__doc__.split("\n")[0])
    p.add_argument("name", nargs="?", choices=sorted(WORKLOADS), metavar="NAME",
                   help="; ".join(f"{k}: {w.doc}" for k, w in WORKLOADS.items()))
    p.add_argument("--peers", help="rivals to run, parted by commas; default all of the workload, '' none")
    p.add_argument("--case", help="only cases whose name contains this")
    p.add_argument("--quick", action="store_true", help="one round of 2 s: whether it works, not how fast it is")
    p.add_argument("--repeat", type=int, help="rounds (default 5)")
    p.add_argument("--seconds", type=float, help="measured window of each run (default 10)")
    p.add_argument("--setup", action="store_true", help="make the rivals' environments and inputs, and stop")
    p.add_argument("--list", action="store_true", help="print the workloads and stop")
    p.add_argument("--build", type=Path, default=ROOT / "build", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.setup:
        setup([])
    if args.list or not args.name:
        for name, w in WORKLOADS.items():
            print(f"{name:8} {w.doc}; {', '.join(c.name for c in w.cases)}")
        return 0 if args.list else 2
    args.repeat = args.repeat or (1 if args.quick else 5)
    args.seconds = args.seconds or (2.0 if args.quick else 10.0)
    args.build = args.build.resolve()

    workload = WORKLOADS[args.name]
    chosen = None if args.peers is None else {x for x in args.peers.split(",") if x}
    known = {x for c in workload.cases for x in c.peers}
    if chosen and chosen - known:
        sys.exit(f"bench: no rival {', '.join(sorted(chosen - known))} in {args.name}; there are {', '.join(sorted(known))}")
    if known and not (PEERS / workload.script).exists():
        print(f"bench: no rivals in {PEERS} (set STOKER_PEERS); ours runs alone", file=sys.stderr)
        chosen = set()
    if args.name in ("tiny", "turn") and not (DATA / "mnist").is_dir():
        sys.exit(f"bench: no {DATA / 'mnist'}; set STOKER_TEST_DATA to the folder that holds mnist/")
    if any("{mnist}" in c.ours for c in workload.cases):
        plain_mnist(args.build)

    cases = [c for c in workload.cases if not args.case or args.case in c.name]
    if not cases:
        sys.exit(f"bench: no case of {args.name} has {args.case!r} in its name")
    warn_of_load()
    found = [measure(workload, c, args, chosen) for c in cases]
    for figures in found:
        table(figures)
    warn_of_load(own=2)
    summaries = [f.summary() for f in found]
    last = {"workload": args.name, **summaries[-1], "cases": summaries}
    print("\n" + json.dumps(last))
    return 0 if all(s["stoker"] is not None for s in summaries) else 1


if __name__ == "__main__":
    sys.exit(main())
