# SPDX-License-Identifier: Apache-2.0
"""A dataset written in Python, in worker processes: each sample is made with random numbers, and any number of workers gives
the same training, to the bit.

    python examples/python/python_dataset.py --workers 0
    python examples/python/python_dataset.py --workers 2
"""
import argparse
import random
import time

import numpy
import torch
from torch import nn

from stoker.torch import DataLoader


class Waves(torch.utils.data.Dataset):
    """Noisy waves; what is to be learnt is their frequency. Python's, NumPy's and PyTorch's generators may be used alike."""

    def __init__(self, size, points=256):
        self.size = size
        self.time = numpy.linspace(0, 1, points, dtype=numpy.float32)

    def __len__(self):
        return self.size

    def __getitem__(self, place):
        frequency = 1 + place % 8
        wave = numpy.sin(2 * numpy.pi * (frequency * self.time + random.random())).astype(numpy.float32)
        wave += numpy.random.normal(0, 0.3, len(wave)).astype(numpy.float32)
        return {"wave": torch.from_numpy(wave) * (0.5 + torch.rand(1)), "frequency": place % 8}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="two epochs of a few samples")
    given = parser.parse_args()

    torch.manual_seed(1)
    loader = DataLoader(Waves(640 if given.quick else 20000), batch_size=64, shuffle=True, num_workers=given.workers,
                        rng="stoker")
    model = nn.Sequential(nn.Unflatten(1, (1, -1)), nn.Conv1d(1, 16, 9, 4), nn.ReLU(), nn.Conv1d(16, 16, 9, 4), nn.ReLU(),
                          nn.Flatten(), nn.LazyLinear(8))
    model(torch.zeros(1, 256))
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for epoch in range(2 if given.quick else given.epochs):
        begin = time.perf_counter()
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch["wave"]), batch["frequency"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.6f}, {time.perf_counter() - begin:.2f} s")


if __name__ == "__main__":
    main()
