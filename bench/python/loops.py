# SPDX-License-Identifier: Apache-2.0
"""Loops of Python over the package's loaders, as the rivals' scripts measure theirs: one JSON line.

The window opens after warm-up batches of a stream that does not end, and the consumer does nothing with a batch.
"""
import argparse
import importlib
import json
import os
import random
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy

import stoker
from stoker._batch import rows_of

TICK = os.sysconf("SC_CLK_TCK")
PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20
WARM = 20


class Small:
    """Pictures of 784 bytes that lie in memory."""

    def __init__(self) -> None:
        self.x = numpy.random.default_rng(1).integers(0, 256, (60000, 28, 28), numpy.uint8)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> Any:
        return self.x[i], int(i) % 10


class Large:
    """600 kB a sample, about a tenth of a millisecond of NumPy."""

    def __len__(self) -> int:
        return 8192

    def __getitem__(self, i: int) -> Any:
        x = numpy.empty((150, 1000), numpy.float32)
        x.fill(i)
        return x, int(i)


class Slow:
    """Sleeps by index: 5 % of the samples take 50 ms, the others 1 ms; 64 kB a sample."""

    def __len__(self) -> int:
        return 1 << 16

    def __getitem__(self, i: int) -> Any:
        time.sleep(0.05 if random.Random(int(i)).random() < 0.05 else 0.001)
        return numpy.full(16384, i, numpy.float32)


def same(picture: Any) -> Any:
    """A transform that no loader can know."""
    return picture


def folder(path: str, opaque: bool) -> Any:
    import torch
    import torchvision
    from torchvision.transforms import v2

    steps = [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(), v2.PILToTensor(),
             v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    if opaque:
        steps.insert(0, v2.Lambda(same))
    return torchvision.datasets.ImageFolder(path, v2.Compose(steps))


def data_loader(dataset: Any, batch_size: int, num_workers: int, **options: Any) -> Any:
    """As a user of PyTorch has it, with the import changed."""
    import torch
    from stoker.torch import DataLoader

    torch.manual_seed(1)
    return DataLoader(dataset, batch_size=batch_size, shuffle=True, num_workers=num_workers, drop_last=True,
                      persistent_workers=num_workers > 0, **options)


def dataset_of(work: str, data: str) -> Any:
    """None: the library has it."""
    made = {"small": Small, "large": Large, "tail": Slow, "folder": lambda: folder(data, False), "opaque": lambda: folder(data, True)}
    return made[work]() if work in made else None


def loader_of(args: argparse.Namespace, dataset: Any) -> Any:
    n = args.num_workers
    if args.work == "mnist":
        return stoker.Loader(f"mnist:{args.data}", batch_size=256, shuffle=True, drop_last=True, num_workers=n,
                             transforms="normalize(mnist)", output="torch", as_tuple=True)
    if args.work == "images":
        return stoker.Loader(f"images:{args.data}?index=none", batch_size=64, shuffle=True, drop_last=True, num_workers=n,
                             transforms="random_resized_crop(224), horizontal_flip", output="torch", as_tuple=True)
    if args.work == "tail":
        return data_loader(dataset, 16, n, rng="stoker")
    return data_loader(dataset, 32 if args.work == "large" else 64, n)


def forever(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


def tree() -> list[int]:
    """This process and all below it."""
    found = [os.getpid()]
    for pid in found:
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children") as f:
                    found += map(int, f.read().split())
        except OSError:
            pass
    return found


def cpu_seconds() -> float:
    """User and system time of the tree, ended children included."""
    own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    total = sum(r.ru_utime + r.ru_stime for r in own)
    for pid in tree()[1:]:
        try:
            with open(f"/proc/{pid}/stat") as f:
                total += sum(map(int, f.read().rsplit(")", 1)[1].split()[11:15])) / TICK
        except OSError:
            pass
    return total


class Peak(threading.Thread):
    """The largest resident set of the tree, looked at five times a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.mib = 0.0
        self.start()

    def run(self) -> None:
        while True:
            total = 0
            for pid in tree():
                try:
                    with open(f"/proc/{pid}/statm") as f:
                        total += int(f.read().split()[1])
                except OSError:
                    pass
            self.mib = max(self.mib, total * PAGE_MIB)
            time.sleep(0.2)


def measure(make: Callable[[], Any], seconds: float, work: float) -> dict[str, Any]:
    """`work`: seconds that the consumer takes for a batch."""
    peak, start = Peak(), time.perf_counter()
    stream = forever(make())
    next(stream)
    first = time.perf_counter() - start
    for _ in range(WARM - 1):
        next(stream)
    n, waits, cpu, began = 0, [], cpu_seconds(), time.perf_counter()
    while (now := time.perf_counter()) - began < seconds:
        n += rows_of(next(stream)) or 0
        waits.append(time.perf_counter() - now)
        if work:
            time.sleep(work)
    took, cpu = time.perf_counter() - began, cpu_seconds() - cpu
    return {"samples_per_s": round(n / took, 2), "cpu_s_per_1000": round(cpu / n * 1000, 4),
            "first_batch_s": round(first, 4), "peak_rss_mib": round(peak.mib), "n_samples": n,
            "wait_p95_ms": round(float(numpy.percentile(waits, 95)) * 1000, 3)}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("work", choices=("mnist", "images", "small", "large", "folder", "opaque", "tail"))
    p.add_argument("--data", default="", help="the folder of mnist, images, folder and opaque")
    p.add_argument("--num_workers", type=int, default=2)
    p.add_argument("--consumer_ms", type=float, default=0, help="what the consumer takes for a batch")
    p.add_argument("--seconds", type=float, default=5)
    args = p.parse_args()
    # What an import takes is not the first batch's, nor what the making of a dataset takes.
    importlib.import_module("torch" if args.work in ("mnist", "images") else "stoker.torch")
    dataset = dataset_of(args.work, args.data)
    row = measure(lambda: loader_of(args, dataset), args.seconds, args.consumer_ms / 1000)
    print(json.dumps({"workload": f"python-{args.work}", "peer": "stoker", "version": stoker.__version__,
                      "config": {"num_workers": args.num_workers}, **row}))
    sys.stdout.flush()
    os._exit(0)  # an epoch is under way


if __name__ == "__main__":
    main()
