#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check that `digits:` is neither too easy nor too hard.

A multinomial logistic regression, trained until it gains no more, must stay under 93 % on the
test set; an MLP of 784-128-64-10 with ReLU must pass 97 % after 5 epochs of Adam (1e-3, batches
of 64). Needs NumPy and PyTorch.

    check_digits.py DIR

DIR holds the four files of MNIST's names, as IDX (train-images-idx3-ubyte, ...; .gz too) or as npy
(train-images.npy, train-labels.npy, test-images.npy, test-labels.npy).
"""
import argparse
import gzip
import json
import pathlib
import sys

import numpy as np
import torch
from torch import nn

LINEAR_MOST = 0.93
MLP_LEAST = 0.97
SETS = {"train": "train", "test": "t10k"}


def read_idx(path):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as f:
        data = f.read()
    rank = data[3]
    shape = np.frombuffer(data, ">u4", rank, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape)


def read(folder, name, what):
    npy = folder / f"{name}-{what}.npy"
    if npy.exists():
        return np.load(npy)
    for stem in {SETS[name], name}:
        for suffix in ("", ".gz"):
            path = folder / f"{stem}-{what}-idx{3 if what == 'images' else 1}-ubyte{suffix}"
            if path.exists():
                return read_idx(path)
    sys.exit(f"{folder} has no {what} of the {name} set, neither IDX nor npy")


def load(folder, name):
    images = read(folder, name, "images").reshape(-1, 784)
    labels = read(folder, name, "labels").reshape(-1)
    if len(images) != len(labels):
        sys.exit(f"{len(images)} images but {len(labels)} labels in the {name} set of {folder}")
    pixels = images.astype(np.float32) / 255
    return torch.from_numpy(pixels), torch.from_numpy(labels.astype(np.int64))


def accuracy(model, images, labels):
    with torch.no_grad():
        return (model(images).argmax(1) == labels).float().mean().item()


def train(model, images, labels, epochs, batch_size, rate, decay):
    optimizer = torch.optim.Adam(model.parameters(), rate)
    for epoch in range(epochs):
        if decay:
            for group in optimizer.param_groups:
                group["lr"] = rate * (1 - epoch / epochs)
        order = torch.randperm(len(images))
        for rows in order.split(batch_size):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
            optimizer.step()
        yield epoch


def check(folder, seed, linear_epochs):
    images, labels = load(folder, "train")
    test_images, test_labels = load(folder, "test")
    torch.manual_seed(seed)

    # Well trained: many epochs, a falling rate, and the best of all epochs counts against the data.
    linear = nn.Linear(784, 10)
    best = max(accuracy(linear, test_images, test_labels)
               for _ in train(linear, images, labels, linear_epochs, 256, 2e-3, True))

    mlp = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(),
                        nn.Linear(64, 10))
    for _ in train(mlp, images, labels, 5, 64, 1e-3, False):
        pass
    return {"seed": seed, "linear_best": round(best, 4),
            "mlp": round(accuracy(mlp, test_images, test_labels), 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=1, help="how many times, with seeds from 0")
    parser.add_argument("--linear-epochs", type=int, default=40)
    options = parser.parse_args()
    good = True
    for seed in range(options.seeds):
        result = check(options.folder, seed, options.linear_epochs)
        result["good"] = result["linear_best"] < LINEAR_MOST and result["mlp"] > MLP_LEAST
        good = good and result["good"]
        print(json.dumps(result), flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
