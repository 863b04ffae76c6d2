#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What torchvision reads in small archives of its own layout.

    python3 scripts/check_torchvision.py FOLDER

Writes the archives to FOLDER and what torchvision finds in them to FOLDER/expected.txt, and the addresses and checksums of what it
downloads to FOLDER/published.txt; tests/parity/dataset/test_torchvision.c holds both against ours. Exit code 77 where a package is missing.
"""
import random
import struct
import sys
from pathlib import Path

try:
    import numpy as np
    from torchvision import datasets
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

sys.path.insert(0, str(Path(__file__).parent))
from make_cifar_golden import line, write, write_10, write_100  # noqa: E402

EMNIST = {"balanced": (0, 47), "byclass": (0, 62), "bymerge": (0, 47), "digits": (0, 10), "letters": (1, 27), "mnist": (0, 10)}


# The archives are not those whose MD5 torchvision knows.
class Ten(datasets.CIFAR10):
    train_list = [[name, None] for name, _ in datasets.CIFAR10.train_list]
    test_list = [[name, None] for name, _ in datasets.CIFAR10.test_list]
    meta = dict(datasets.CIFAR10.meta, md5=None)


class Hundred(datasets.CIFAR100):
    train_list = [[name, None] for name, _ in datasets.CIFAR100.train_list]
    test_list = [[name, None] for name, _ in datasets.CIFAR100.test_list]
    meta = dict(datasets.CIFAR100.meta, md5=None)


def write_idx(folder, prefix, first, end, seed):
    """A picture of each label, in an order of its own."""
    rng = random.Random(seed)
    labels = rng.sample(range(first, end), end - first)
    write(folder / f"{prefix}-images-idx3-ubyte", struct.pack(">4I", 0x803, len(labels), 28, 28) + rng.randbytes(784 * len(labels)))
    write(folder / f"{prefix}-labels-idx1-ubyte", struct.pack(">2I", 0x801, len(labels)) + bytes(labels))


def lines(dataset, kind, split, option):
    for k in range(len(dataset)):
        picture, label = dataset[k]
        yield line(kind, split, option, k, label, np.asarray(picture), dataset.classes)


IDX = {"fashion_mnist": datasets.FashionMNIST, "kmnist": datasets.KMNIST}
SPLITS = {"train": "train", "test": "t10k"}


def published():
    """Kind, URL and MD5 of each file, one a line."""
    for kind, of in {"mnist": datasets.MNIST, **IDX}.items():
        for place, mirror in enumerate(of.mirrors):
            for name, md5 in of.resources:
                yield f"{kind} {place} {mirror}{name} {md5}\n"
    yield f"emnist 0 {datasets.EMNIST.url} {datasets.EMNIST.md5}\n"
    for kind, of in {"cifar10": datasets.CIFAR10, "cifar100": datasets.CIFAR100}.items():
        yield f"{kind} 0 {of.url} {of.tgz_md5}\n"


def main():
    folder = Path(sys.argv[1])
    write_10(folder)
    write_100(folder)
    for split, name in SPLITS.items():
        for kind, of in IDX.items():
            write_idx(folder / of.__name__ / "raw", name, 0, 10, kind + split)
        for option, (first, end) in EMNIST.items():
            write_idx(folder / "EMNIST/raw", f"emnist-{option}-{split}", first, end, option + split)
    found = []
    for split in SPLITS:
        train = split == "train"
        found += lines(Ten(folder, train), "cifar10", split, None)
        found += lines(Hundred(folder, train), "cifar100", split, None)
        for kind, of in IDX.items():
            found += lines(of(folder, train), kind, split, None)
        for option in EMNIST:
            found += lines(datasets.EMNIST(folder, option, train=train), "emnist", split, f"set={option}")
    (folder / "expected.txt").write_text("".join(found))
    (folder / "published.txt").write_text("".join(published()))


if __name__ == "__main__":
    main()
