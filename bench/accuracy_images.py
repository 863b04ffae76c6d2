#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small CNN through our transforms and through torchvision's: is the accuracy the same within noise?

    accuracy_images.py [--build DIR] [--mnist DIR] [--work DIR] [--seeds N] [--epochs N]

MNIST's digits are written once as an ImageFolder of JPEG files: enlarged to 48 to 96 pixels, each side for itself, in
random colours, quality 90. One arm trains from the program stream_images (ours: decode, random_resized_crop,
normalize), the other from torchvision's ImageFolder, transforms.v2 and a DataLoader. For a seed, both arms begin with
the same weights and follow the same schedule; what they draw differs. Every network is tested through both libraries
(resize, center_crop): there a shift, other colours or another filter would show, for pictures and weights are the same.
A row made with a fault on purpose shows that it would.

Needs NumPy, Pillow, PyTorch, torchvision, and `ninja benchmarks`. Prints tables, then one JSON object; exit code 1
where the arms differ by more than noise, or the libraries give the networks other pictures.
"""
import argparse
import gzip
import json
import math
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

# The threads of PyTorch share the cores with those that decode: they must not spin for them.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch
from PIL import Image
from torch import nn
from torchvision import datasets
from torchvision.transforms import v2

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("STOKER_TEST_DATA", ROOT.parent / "shared/data"))
SIDE, ENLARGED, CLASSES = 32, 36, 10
MEAN, STD = (0.5, 0.45, 0.4), (0.25, 0.3, 0.35)
SETS = {"train": ("train", 6000), "test": ("t10k", 2000)}
VALUES = f"normalize({list(MEAN)}, {list(STD)}), layout(chw)"
OURS = {
    "train": f"random_resized_crop({SIDE}, scale=[0.4, 1.0]), {VALUES}",
    "test": f"resize({ENLARGED}), center_crop({SIDE}), {VALUES}",
    "exact": f"decode(dct_scaling=off), resize({ENLARGED}), center_crop({SIDE}), {VALUES}",
    # A fault on purpose: no antialiasing, and one padded row on top.
    "fault": f"resize({ENLARGED}, interpolation=nearest), pad([0, 1, 0, 0]), center_crop({SIDE}), {VALUES}",
}
BATCH, RATE = 64, 2e-3
ALIKE = 99.5  # % of the answers that have to be the same through both libraries, decoded at full size
STUDENT = {2: 4.30, 4: 2.78, 6: 2.45, 8: 2.31, 10: 2.23, 12: 2.18, 14: 2.14, 18: 2.10}  # 95 %, two-sided


# ---- The pictures ----

def read_idx(path, head):
    with gzip.open(path, "rb") as f:
        return np.frombuffer(f.read(), np.uint8, offset=head)


def colours(random):
    """Two colours whose grey values are at least 60 apart."""
    while True:
        pair = random.integers(0, 256, (2, 3))
        if abs(np.diff(pair @ (0.3, 0.6, 0.1))[0]) >= 60:
            return pair.astype(np.float32)


def write_set(mnist, stem, count, folder, random):
    digits = read_idx(mnist / f"{stem}-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28)
    labels = read_idx(mnist / f"{stem}-labels-idx1-ubyte.gz", 8)
    for label in range(CLASSES):
        (folder / str(label)).mkdir(parents=True, exist_ok=True)
    for i in range(count):
        size = tuple(int(n) for n in random.integers(48, 97, 2))
        share = np.asarray(Image.fromarray(digits[i]).resize(size, Image.BICUBIC), np.float32)[..., None] / 255
        back, fore = colours(random)
        pixels = back + (fore - back) * share + random.normal(0, 12, share.shape)
        picture = Image.fromarray(np.clip(np.round(pixels), 0, 255).astype(np.uint8), "RGB")
        picture.save(folder / str(labels[i]) / f"{i:05}.jpg", quality=90)


def write_pictures(mnist, work):
    done = work / "complete"
    if done.exists():
        return
    random = np.random.default_rng(20)
    for name, (stem, count) in SETS.items():
        write_set(mnist, stem, count, work / name, random)
    done.touch()


# ---- Batches ----

def ours(program, folder, transforms, epochs, seed, shuffle):
    """Batches of a child process; None at the end of each epoch."""
    command = [str(program), "--dataset", f"images:{folder}?index=none", "--transforms", transforms,
               "--epochs", str(epochs), "--seed", str(seed), "--shuffle", "true" if shuffle else "false",
               "--batch_size", str(BATCH), "--num_workers", "2", "--drop_last", "true" if shuffle else "false"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        while head := child.stdout.read(16):
            rows, size = np.frombuffer(head, np.uint64).tolist()
            if not rows:
                yield None
                continue
            pixels = np.frombuffer(bytearray(child.stdout.read(rows * size)), np.float32)
            labels = np.frombuffer(bytearray(child.stdout.read(rows * 8)), np.int64)
            yield torch.from_numpy(pixels).reshape(rows, 3, SIDE, SIDE), torch.from_numpy(labels)
    if child.returncode:
        sys.exit(f"{' '.join(command)}: exit code {child.returncode}")


def torchvisions(folder, train, epochs, seed):
    """The same through torchvision."""
    values = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    crop = [v2.RandomResizedCrop(SIDE, scale=(0.4, 1.0))] if train else [v2.Resize(ENLARGED), v2.CenterCrop(SIDE)]
    pictures = datasets.ImageFolder(folder, v2.Compose(crop + values))
    order = torch.Generator().manual_seed(1000 + seed)
    loader = torch.utils.data.DataLoader(pictures, BATCH, shuffle=train, drop_last=train, num_workers=2,
                                         persistent_workers=True, generator=order)
    for _ in range(epochs):
        yield from loader
        yield None


# ---- The network ----

def network(seed):
    torch.manual_seed(seed)
    layers = []
    for inputs, outputs in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 16, CLASSES))


def train(model, batches, steps):
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    for batch in batches:
        if batch is None:
            continue
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()
        optimizer.step()
        schedule.step()
    return model


def predict(model, batches):
    model.eval()
    with torch.no_grad():
        return torch.cat([model(images).argmax(1) for images, _ in batches])


# ---- Figures ----

def points(values):
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.2f} ({spread:.2f}; {min(values):.2f}-{max(values):.2f})"


def judge(a, b):
    """Difference of two means, and how large it may be by chance: 95 %, pooled variance."""
    n = len(a)
    pooled = math.sqrt((statistics.variance(a) + statistics.variance(b)) / 2)
    freedom = max(k for k in STUDENT if k <= 2 * n - 2)
    return statistics.mean(a) - statistics.mean(b), STUDENT[freedom] * pooled * math.sqrt(2 / n)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="where stream_images was built (build/)")
    parser.add_argument("--mnist", type=Path, default=DATA / "mnist", help="the four files of MNIST, .gz")
    parser.add_argument("--work", type=Path, help="where the pictures are kept (BUILD/bench/digits)")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=6)
    options = parser.parse_args()
    if options.seeds < 2:
        parser.error("--seeds: noise takes two at least")
    program, work = options.build / "bench/stream_images", options.work or options.build / "bench/digits"
    began = time.monotonic()
    torch.set_num_threads(2)
    write_pictures(options.mnist, work)

    tests = {k: [b for b in ours(program, work / "test", OURS[v], 1, 0, False) if b]
             for k, v in (("ours", "test"), ("exact", "exact"), ("fault", "fault"))}
    tests["torchvision"] = [b for b in torchvisions(work / "test", False, 1, 0) if b]
    labels = torch.cat([b[1] for b in tests["ours"]])
    if not torch.equal(labels, torch.cat([b[1] for b in tests["torchvision"]])):
        sys.exit("the labels of the two libraries are not the same")
    images = {k: torch.cat([b[0] for b in v]) for k, v in tests.items()}
    levels = {k: ((images[k] - images["torchvision"]) * torch.tensor(STD).reshape(3, 1, 1) * 255).abs()
              for k in tests if k != "torchvision"}

    accuracy, same = {}, {k: [] for k in levels}
    steps = options.epochs * (SETS["train"][1] // BATCH)
    for seed in range(options.seeds):
        for arm in ("ours", "torchvision"):
            batches = (ours(program, work / "train", OURS["train"], options.epochs, seed, True) if arm == "ours"
                       else torchvisions(work / "train", True, options.epochs, seed))
            model = train(network(seed), batches, steps)
            guesses = {k: predict(model, v) for k, v in tests.items()}
            for k, v in guesses.items():
                accuracy.setdefault((arm, k), []).append(100 * (v == labels).float().mean().item())
            for k in same:
                same[k].append(100 * (guesses[k] == guesses["torchvision"]).float().mean().item())
            ours_now, theirs_now = (accuracy[arm, k][-1] for k in ("ours", "torchvision"))
            print(f"seed {seed}, trained by {arm}: {ours_now:.2f} % tested by ours, {theirs_now:.2f} % by torchvision, "
                  f"{time.monotonic() - began:.0f} s", flush=True)

    print("\naccuracy in %, mean (standard deviation; range) over seeds\n| trained by | tested by ours | "
          "tested by torchvision | tested with a fault |\n|---|---|---|---|")
    for arm in ("ours", "torchvision"):
        print(f"| {arm} | " + " | ".join(points(accuracy[arm, k]) for k in ("ours", "torchvision", "fault")) + " |")
    gap, noise = judge(accuracy["ours", "ours"], accuracy["torchvision", "torchvision"])
    within, alike = abs(gap) <= noise, statistics.mean(same["exact"]) >= ALIKE
    print(f"\nours - torchvision, each by itself: {gap:+.2f} points; noise (95 %) +-{noise:.2f}: "
          f"{'within noise' if within else 'MORE THAN NOISE'}")
    print("test pictures, ours beside torchvision's, in levels of 255: "
          + ", ".join(f"{k}: mean {v.mean().item():.3f}, most {v.max().item():.1f}" for k, v in levels.items()))
    print("networks that answer alike through both, in %: " + ", ".join(f"{k}: {points(v)}" for k, v in same.items()))
    print(json.dumps({"gap": round(gap, 3), "noise": round(noise, 3), "within": within, "alike": alike,
                      "seeds": options.seeds, "epochs": options.epochs, "seconds": round(time.monotonic() - began),
                      "accuracy": {f"{a}/{k}": [round(x, 2) for x in v] for (a, k), v in accuracy.items()},
                      "same": {k: round(statistics.mean(v), 3) for k, v in same.items()}}))
    if not alike:
        print(f"networks answer otherwise through ours, by more than {100 - ALIKE:.1f} % of the pictures")
    return 0 if within and alike else 1


if __name__ == "__main__":
    sys.exit(main())
