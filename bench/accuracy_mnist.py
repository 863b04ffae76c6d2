#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An MLP on MNIST, trained by ours and by PyTorch: is the accuracy the same within noise?

    accuracy_mnist.py [--build DIR] [--mnist DIR] [--seeds N] [--epochs N]

784-128-64-10, ReLU, Adam 1e-3, batches of 64, normalised pixels, 5 epochs over all 60,000 digits, tested on the 10,000.
Ours is the program `train` of `ninja benchmarks`, through files, loader and trainer; PyTorch's arm is a plain loop over
tensors. Both draw initial weights and order from the seed, each in its own way. Prints a line for each run, then one
JSON object; exit code 1 where one of ours is below 97.0 %, or the means are more than 0.4 points apart.

Needs NumPy, PyTorch and the four IDX files of MNIST.
"""
import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("STOKER_TEST_DATA", ROOT.parent / "shared/data"))
BATCH, LEAST, APART = 64, 97.0, 0.4


def read_idx(folder, name, head):
    """The payload of an IDX file, plain or gzip."""
    path = folder / name
    with (open(path, "rb") if path.exists() else gzip.open(f"{path}.gz", "rb")) as f:
        return np.frombuffer(f.read(), np.uint8, offset=head)


def load(folder, part):
    pixels = read_idx(folder, f"{part}-images-idx3-ubyte", 16).reshape(-1, 784)
    labels = read_idx(folder, f"{part}-labels-idx1-ubyte", 8)
    x = (torch.from_numpy(pixels.astype(np.float32)) / 255 - 0.1307) / 0.3081
    return x, torch.from_numpy(labels.astype(np.int64))


def train_torch(train, test, seed, epochs):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x, y = train
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for i in range(0, len(x), BATCH):
            rows = order[i:i + BATCH]
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
    with torch.no_grad():
        return 100 * (model(test[0]).argmax(1) == test[1]).float().mean().item()


def train_ours(build, folder, seed, epochs):
    command = [str(build / "bench/train"), "--dataset", f"mnist:{folder}", "--seed", str(seed), "--epochs", str(epochs)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return 100 * json.loads(out.splitlines()[-1])["test_accuracy"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--mnist", type=Path, default=DATA / "mnist")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()
    if not args.mnist.is_dir():
        sys.exit(f"accuracy_mnist: no {args.mnist}; set STOKER_TEST_DATA or --mnist")
    torch.set_num_threads(1)
    train, test = load(args.mnist, "train"), load(args.mnist, "t10k")
    accuracy = {"stoker": [], "torch": []}
    for seed in range(1, args.seeds + 1):
        accuracy["stoker"].append(train_ours(args.build, args.mnist, seed, args.epochs))
        accuracy["torch"].append(train_torch(train, test, seed, args.epochs))
        print(f"seed {seed}: stoker {accuracy['stoker'][-1]:.2f} %, torch {accuracy['torch'][-1]:.2f} %", flush=True)
    apart = statistics.mean(accuracy["stoker"]) - statistics.mean(accuracy["torch"])
    good = min(accuracy["stoker"]) >= LEAST and abs(apart) <= APART
    print(f"least of stoker's {min(accuracy['stoker']):.2f} % (bar {LEAST} %), means {apart:+.2f} points apart "
          f"(bar {APART})")
    print(json.dumps({"accuracy": accuracy, "epochs": args.epochs, "points_apart": round(apart, 3), "torch":
                      torch.__version__, "good": good}))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
