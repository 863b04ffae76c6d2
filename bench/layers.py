#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Layers, losses and a network's first step by themselves, ours and PyTorch's alternately.

    layers.py [--build DIR] [--rounds N] [--only WORK] [--seconds S] [--clock wall|cpu] [--rows N]

Each round runs ours (the program `layers` of `ninja benchmarks`, a new process), then PyTorch's. A figure is the median over
rounds of the median of a round's calls, in ms; the ratio is the median of the rounds' ratios. For the first step both make
network and optimizer anew in a new process: ours beyond a later step, with the making, against PyTorch's whole first step.

`--clock cpu` counts the processors' time of all threads, for one thread on a machine that others use.

Needs PyTorch, and torchvision for ResNet-18.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BARS = {"gelu": 1.0, "gelu_tanh": 1.0, "silu": 1.0, "cross_entropy": 1.0, "linear": 1.0, "linear_bf16": 1.0,
        "resnet18": 1.2}


CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
now = time.perf_counter


def calls(once, seconds):
    once()
    each, end = [], time.perf_counter() + seconds
    while len(each) < 3 or time.perf_counter() < end:
        t = now()
        once()
        each.append((now() - t) * 1e3)
    return statistics.median(each)


def torch_function(work, threads, size, seconds):
    import torch
    torch.set_num_threads(threads)
    x, dy = torch.randn(size), torch.randn(size)
    ops, f = torch.ops.aten, torch.nn.functional
    pairs = {"gelu": (lambda: f.gelu(x), lambda: ops.gelu_backward(dy, x)),
             "gelu_tanh": (lambda: f.gelu(x, approximate="tanh"), lambda: ops.gelu_backward(dy, x, approximate="tanh")),
             "silu": (lambda: f.silu(x), lambda: ops.silu_backward(dy, x))}
    forward, backward = pairs[work]
    with torch.no_grad():
        return {"ms": calls(lambda: (forward(), backward()), seconds)}


def torch_cross_entropy(threads, size, rows, seconds):
    import torch
    torch.set_num_threads(threads)
    x = torch.randn(rows, size, requires_grad=True)
    y = torch.arange(rows) * 7 % 10

    def once():
        x.grad = None
        torch.nn.functional.cross_entropy(x, y).backward()
    return {"ms": calls(once, seconds)}


def torch_linear(threads, rows, bf16, seconds):
    import torch
    torch.set_num_threads(threads)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024), torch.nn.ReLU(),
                                torch.nn.Linear(1024, 1024))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    x = torch.randn(rows, 1024)
    y = torch.arange(rows) % 10

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            out = model(x)
        torch.nn.functional.cross_entropy(out.float(), y).backward()
        optimizer.step()
    return {"ms": calls(step, seconds)}


def torch_resnet18(threads, rows, seconds):
    import torch
    import torchvision
    torch.set_num_threads(threads)
    model = torchvision.models.resnet18(num_classes=10)
    model.conv1 = torch.nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    model.maxpool = torch.nn.Identity()
    model = model.to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    x = torch.randn(rows, 3, 32, 32).to(memory_format=torch.channels_last)
    y = torch.arange(rows) % 10

    def step():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    t = now()
    step()
    first = (now() - t) * 1e3
    return {"first_ms": first, "ms": calls(step, seconds)}


def theirs(a, work, threads):
    global now
    now = CLOCKS[a.clock]
    if work == "cross_entropy":
        return torch_cross_entropy(threads, 20000, a.rows, a.seconds)
    if work.startswith("linear"):
        return torch_linear(threads, a.rows, work == "linear_bf16", a.seconds)
    if work != "resnet18":
        return torch_function(work, threads, a.size, a.seconds)
    if a.first_of:
        return torch_resnet18(threads, a.rows, a.seconds)
    # A first step is one in a new process.
    command = [sys.executable, __file__, "--first-of", work, "--threads", str(threads), "--seconds", str(a.seconds),
               "--clock", a.clock, "--rows", str(a.rows)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def ours(a, work, threads):
    size = 20000 if work == "cross_entropy" else a.size
    command = [f"{a.build}/bench/layers", "--work", work, "--threads", str(threads), "--size", str(size),
               "--seconds", str(a.seconds), "--clock", a.clock, "--rows", str(a.rows)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(a, work, threads):
    rounds = [(ours(a, work, threads), theirs(a, work, threads)) for _ in range(a.rounds)]
    mine = statistics.median(o["ms"] for o, _ in rounds)
    other = statistics.median(t["ms"] for _, t in rounds)
    ratios = sorted(t["ms"] / o["ms"] for o, t in rounds)
    print(f"| {work} | {threads} | {mine:.3f} | {other:.3f} | {statistics.median(ratios):.2f} "
          f"({ratios[0]:.2f}-{ratios[-1]:.2f}) | {BARS[work]} |", flush=True)
    if work == "resnet18":
        shares = sorted((o["made_ms"] + o["first_ms"] - o["ms"]) / t["first_ms"] for o, t in rounds)
        print(f"|   its first step, beyond a later one / whole | {threads} | "
              f"{statistics.median(o['made_ms'] + o['first_ms'] - o['ms'] for o, _ in rounds):.0f} | "
              f"{statistics.median(t['first_ms'] for _, t in rounds):.0f} | {statistics.median(shares):.2f} "
              f"({shares[0]:.2f}-{shares[-1]:.2f}) of it | at most 0.5 |", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=ROOT / "build")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--seconds", type=float, default=0.5)
    p.add_argument("--size", type=int, default=1 << 20)
    p.add_argument("--threads", type=int, default=0, help="1 or 2; default both")
    p.add_argument("--only", help="works, parted by commas")
    p.add_argument("--clock", choices=CLOCKS, default="wall")
    p.add_argument("--rows", type=int, default=64, help="of a batch")
    p.add_argument("--first-of", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.first_of:
        print(json.dumps(theirs(a, a.first_of, a.threads)))
        return 0
    print(f"load {os.getloadavg()[0]:.1f}, {a.clock}\n| work | threads | ours ms | PyTorch ms | times as fast | wanted |\n"
          "|---|---|---|---|---|---|")
    for work in a.only.split(",") if a.only else BARS:
        for threads in (a.threads,) if a.threads else (1, 2):
            measure(a, work, threads)
    print(f"\nload {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
