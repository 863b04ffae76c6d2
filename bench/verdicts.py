#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the verdict names what was planted: ./dev bench verdicts [--cases N] [--set fit|judge] [--quick]

Each case plants one cause (`synthetic:`, `slow+`, options of the loader) of random strength and runs `stoker bench` on it.
Right is a verdict of the planted limit whose share is within 10 points of the time that the step truly did not run.
Thresholds are fitted on the set `fit`; the set `judge` has other seeds, and is what counts. `mixed` holds two causes at
once and healthy runs: there no verdict may name anything else.
"""
import argparse
import concurrent.futures
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SEEDS = {"fit": 1000, "judge": 5000, "mixed": 9000}
WITHIN = 0.10
FILES, FILE_BYTES = 600, 1 << 20


def ms(seconds):
    return f"{seconds * 1e6:.0f}us"


class Planter:
    """Random cases. `lost` is the share of the time that the planted cause shall take from the step."""

    def __init__(self, seed, folder):
        self.r, self.folder = random.Random(seed), folder
        self.step = self.r.uniform(0.006, 0.020)
        self.lost = self.r.uniform(0.25, 0.85)
        self.batch = self.r.choice((8, 16, 32))
        self.whole = self.step / (1 - self.lost)  # of a batch

    def case(self, limits, spec, *options, workers=2, batch=None, pin=False):
        batch = batch or self.batch
        spec = f"{spec}{'&' if '?' in spec else '?'}shape=8x8x1"
        command = ["--dataset", spec, "--batch-size", str(batch), "--num-workers", str(workers),
                   "--train-step-time", f"{self.step:.6f}", *options]
        return {"limits": limits, "command": command, "seconds": max(1.0, 40 * self.whole), "pin": pin}

    def slow(self, **options):
        return f"synthetic:slow+file://{self.folder}?" + "&".join(f"{k}={v}" for k, v in options.items())

    def latency(self):
        depth = self.r.choice((2, 4, 8))
        return self.case({"storage latency"},
                         self.slow(read_bytes=self.r.choice((4096, 16384, 65536)), latency=ms(self.whole * depth / self.batch),
                                   jitter=ms(self.whole * depth / self.batch / 4)),
                         "--io-depth", str(depth), "--shuffle=true", "--prefetch-factor", "4")

    def small_reads(self):
        batch = self.r.choice((128, 256))
        return self.case({"small reads"}, self.slow(read_bytes=self.r.choice((1024, 8192)), latency=ms(self.whole * 64 / batch)),
                         "--io-depth", "64", "--shuffle=true", batch=batch)

    def bandwidth(self):
        size = self.r.choice((65536, 131072, 262144))
        return self.case({"storage bandwidth"},
                         self.slow(read_bytes=size, latency=ms(self.r.uniform(0, 0.001)), bandwidth=int(self.batch * size / self.whole)),
                         "--io-depth", str(self.r.choice((8, 16, 32))), "--shuffle=true", "--prefetch-factor", "4")

    def workers(self):
        workers = self.r.randint(1, 4)
        return self.case({"workers"}, f"synthetic:?delay={ms(self.whole * workers / self.batch)}", workers=workers)

    def one_core(self):
        return self.case({"one core"}, f"synthetic:?delay={ms((self.whole - self.step) / self.batch)}", workers=0)

    def cores(self):
        return self.case({"cores"}, f"synthetic:?cpu={ms(self.whole / self.batch)}", workers=1, pin=True)

    def stragglers(self):
        every = self.r.randint(8, 16)
        late = every * self.step * self.lost / (1 - self.lost) + 8 * self.step
        return self.case({"stragglers"}, f"synthetic:?tail_share={1 / every / self.batch:.6f}&tail_delay={ms(late)}&seed={self.r.randint(0, 999)}",
                         workers=4)

    def budget(self):
        depth = self.r.choice((3, 5, 8))
        return self.case({"memory budget"}, self.slow(read_bytes=1 << 20, latency=ms(1.3 * self.whole * depth / self.batch)),
                         "--io-depth", "64", "--shuffle=true", "--memory-budget", f"{5 * depth // 4 + 2}MiB")

    def turn(self):
        steps = self.r.randint(7, 12)
        return self.case({"epoch turn"},
                         self.slow(read_bytes=4096, size=steps * self.batch, latency=ms(steps * self.step * self.lost / (1 - self.lost))),
                         "--persistent-workers=false", "--io-depth", "512", "--prefetch-factor", "8")

    def healthy(self):
        self.lost = self.r.uniform(0.2, 0.6)
        part = self.step * self.lost / self.batch
        return self.r.choice((
            lambda: self.case({"step"}, f"synthetic:?delay={ms(2 * part)}"),
            lambda: self.case({"step"}, self.slow(read_bytes=4096, latency=ms(8 * part)), "--io-depth", "8", "--prefetch-factor", "8"),
            lambda: self.case({"step"}, self.slow(read_bytes=65536, bandwidth=int(65536 / part)), "--prefetch-factor", "8"),
        ))()

    def two(self):
        part, depth = self.whole / self.batch, 4
        return self.case({"storage latency", "workers"},
                         self.slow(read_bytes=4096, latency=ms(part * depth), delay=ms(2 * part * self.r.uniform(0.8, 1.2))),
                         "--io-depth", str(depth), "--shuffle=true", "--prefetch-factor", "4")


KINDS = {"fit": ("latency", "small_reads", "bandwidth", "workers", "one_core", "cores", "stragglers", "budget", "turn"),
         "mixed": ("healthy", "two")}
KINDS["judge"] = KINDS["fit"]


def run(stoker, kind, seed, folder, quick):
    case = getattr(Planter(seed, folder), kind)()
    command = [str(stoker), "bench", *case["command"], "--min-seconds", f"{case['seconds'] / (2 if quick else 1):.2f}",
               "--min-batches", "15" if quick else "30",
               "--warmup", "6", "--max-seconds", "20", "--log", "none", "--quiet", "--format", "json"]
    if case["pin"]:
        command = ["taskset", "-c", str(sorted(os.sched_getaffinity(0))[seed % len(os.sched_getaffinity(0))]), *command]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return {"kind": kind, "seed": seed, "good": False, "why": f"failed: {done.stderr.strip()[-200:]}", "command": command}
    row = json.loads(done.stdout)["settings"][0]
    lost, share = 1 - row["step_share"], row["limit_share"]
    healthy = case["limits"] == {"step"}
    # What came out too weak to be felt is none of the step's.
    named = row["limit"] in case["limits"] or (row["limit"] == "step" and lost < 0.05)
    near = healthy or kind == "two" or abs(share - lost) <= WITHIN
    # The loader took nothing from the step that it did not account for.
    parts = sum(v for k, v in row.items() if k.startswith("wait_") and k[5:] not in ("mean", "p50", "p95", "p99", "max"))
    return {"kind": kind, "seed": seed, "good": named and near, "limit": row["limit"], "wanted": sorted(case["limits"]),
            "share": share, "lost": lost, "known": parts / max(row["wall"], 1e-9), "other": row["wait_other"] / max(row["wall"], 1e-9),
            "ordering": row["wait_ordering"] / max(row["wall"], 1e-9), "command": command}


def report(name, rows, least):
    print(f"\n{name}: {'kind':12} {'right':>9} {'mean |share - lost|':>20} {'other':>7} {'ordering':>9}")
    for kind in KINDS[name]:
        mine = [r for r in rows if r["kind"] == kind]
        known = [r for r in mine if "share" in r]
        n = max(len(known), 1)
        print(f"{'':{len(name)}}  {kind:12} {sum(r['good'] for r in mine):4} / {len(mine):2} "
              f"{sum(abs(r['share'] - r['lost']) for r in known) / n:20.3f} {100 * sum(r['other'] for r in known) / n:6.2f}% "
              f"{100 * sum(r['ordering'] for r in known) / n:8.2f}%")
    for r in rows:
        if not r["good"]:
            said = r.get("why") or f"said {r['limit']} {r['share']:.2f}, wanted {'/'.join(r['wanted'])} {r['lost']:.2f}"
            print(f"  wrong: {r['kind']} {r['seed']}: {said}\n    {' '.join(r['command'])}")
    good = sum(r["good"] for r in rows)
    print(f"{name}: {good} of {len(rows)} right, {100 * good / max(len(rows), 1):.1f} % (bar: {100 * least:.0f} %)", flush=True)
    return good / max(len(rows), 1)


def main():
    p = argparse.ArgumentParser(prog="./dev bench verdicts", description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--cases", type=int, help="of each set (default 200)")
    p.add_argument("--set", choices=sorted(SEEDS), action="append", help="default judge and mixed")
    p.add_argument("--kind", action="append", help="only this kind")
    p.add_argument("--quick", action="store_true", help="two cases of each kind, half as long; healthy ones only on an idle machine")
    p.add_argument("--least", type=float, default=0.95, help="share that is to be right (default %(default)s)")
    p.add_argument("--jobs", type=int, default=1, help="cases at once; most of them sleep")
    p.add_argument("--build", type=Path, default=ROOT / "build", help=argparse.SUPPRESS)
    args = p.parse_args()
    found, all_rows = {}, []
    # Where others compute, a step is late whatever the loader does.
    busy = args.quick and os.getloadavg()[0] > len(os.sched_getaffinity(0)) / 4
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for i in range(FILES):
            with open(f"{folder}/{i:04}", "wb") as f:
                f.truncate(FILE_BYTES)
        for name in args.set or ["judge", "mixed"]:
            kinds = [k for k in KINDS[name] if (not args.kind or k in args.kind) and not (busy and k == "healthy")]
            n = 2 * len(kinds) if args.quick else args.cases or 200
            rows = list(pool.map(lambda i, k=kinds, s=SEEDS[name]: run(args.build / "stoker", k[i % len(k)], s + i, folder, args.quick), range(n)))
            found[name] = report(name, rows, args.least)
            all_rows += rows
    print(json.dumps({"workload": "verdicts", **{k: round(v, 4) for k, v in found.items()}}))
    # Sets of a few cases are judged together: one late wake-up is no set.
    shares = [sum(r["good"] for r in all_rows) / max(len(all_rows), 1)] if args.quick else found.values()
    return 0 if all(v >= args.least for v in shares) else 1


if __name__ == "__main__":
    sys.exit(main())
