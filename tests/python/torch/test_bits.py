# SPDX-License-Identifier: Apache-2.0
"""Seeded runs of stoker.torch.DataLoader with rng="torch" are those of torch's DataLoader, to the bit."""
import random
import unittest

import numpy
import torch
from torch.utils import data as torch_data
from torchvision.transforms import v2

from data import Case, Drawn, Point, stoker_loader

EPOCHS = 3


class Pictures(torch_data.Dataset):
    """Pictures of noise under random transforms, which draw in the worker."""
    def __init__(self, size):
        self.pixels = numpy.random.default_rng(1).integers(0, 256, (size, 3, 20, 24), numpy.uint8)
        self.transform = v2.Compose([v2.RandomResizedCrop(12, antialias=True), v2.RandomHorizontalFlip(), v2.ColorJitter(0.4, 0.4, 0.4, 0.1),
                                     v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.2] * 3),
                                     v2.RandomErasing(0.5), v2.GaussianNoise()])

    def __len__(self):
        return len(self.pixels)

    def __getitem__(self, index):
        return self.transform(torch.from_numpy(self.pixels[index])), index % 10


class Mixed(torch_data.Dataset):
    """Structures of draws of all three generators, of every kind of value."""
    def __len__(self):
        return 37

    def __getitem__(self, index):
        return {"index": index, "text": f"{random.random()}", "point": Point(numpy.random.randn(2, 3), torch.randn(4)),
                "list": [numpy.float32(numpy.random.rand()), random.randrange(2**40), random.random() < 0.5],
                "bytes": random.randbytes(3), "words": (str(index), torch.randint(0, 9, (2,), dtype=torch.int16))}


class Stream(torch_data.IterableDataset):
    """A shard of draws, of another length for each worker."""
    def __iter__(self):
        info = torch_data.get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        for index in range(worker, 40 - 7 * worker, workers):
            yield index, random.random(), numpy.random.rand(3), torch.rand(2)


class Ragged(Drawn):
    """What no batch can be stacked of, for a collate function that draws, too."""
    def __getitem__(self, index):
        return torch.rand(random.randrange(1, 9)), numpy.random.rand(random.randrange(3))


def padded(samples):
    noise = torch.rand(1) + random.random() + numpy.random.rand()
    return torch.nn.utils.rnn.pad_sequence([sample for sample, _ in samples]) + noise, [array for _, array in samples]


def seeded(seed=11):
    generator = torch.Generator()
    generator.manual_seed(seed)
    return generator


def reseed(worker):
    seed = torch.initial_seed() % 2**32
    numpy.random.seed(seed), random.seed(seed + worker)


def weighted():
    return torch_data.WeightedRandomSampler(torch.arange(1.0, 51), 60)


# dataset, options made anew for each run
CONFIGURATIONS = {
    "nothing": (lambda: Drawn(50), lambda: {}),
    "no workers, shuffled": (lambda: Drawn(50), lambda: dict(batch_size=8, shuffle=True)),
    "no workers, generator": (lambda: Drawn(50), lambda: dict(batch_size=8, shuffle=True, generator=seeded())),
    "no workers, pictures": (lambda: Pictures(20), lambda: dict(batch_size=8, shuffle=True)),
    "no workers, stream": (Stream, lambda: dict(batch_size=4)),
    "one worker": (lambda: Drawn(50), lambda: dict(batch_size=8, num_workers=1)),
    "one worker, shuffled": (lambda: Drawn(50), lambda: dict(batch_size=8, num_workers=1, shuffle=True)),
    "two workers, shuffled": (lambda: Drawn(50), lambda: dict(batch_size=8, num_workers=2, shuffle=True)),
    "three workers, shuffled": (lambda: Drawn(50), lambda: dict(batch_size=7, num_workers=3, shuffle=True)),
    "drop_last": (lambda: Drawn(50), lambda: dict(batch_size=7, num_workers=2, shuffle=True, drop_last=True)),
    "generator": (lambda: Drawn(50), lambda: dict(batch_size=8, num_workers=2, shuffle=True, generator=seeded())),
    "persistent": (lambda: Drawn(50), lambda: dict(batch_size=8, num_workers=2, shuffle=True, persistent_workers=True)),
    "persistent, generator": (lambda: Drawn(50), lambda: dict(batch_size=8, num_workers=3, shuffle=True, persistent_workers=True, generator=seeded())),
    "prefetch_factor 1": (lambda: Drawn(50), lambda: dict(batch_size=8, num_workers=2, shuffle=True, prefetch_factor=1)),
    "prefetch_factor 7": (lambda: Drawn(50), lambda: dict(batch_size=3, num_workers=2, shuffle=True, prefetch_factor=7)),
    "no batches": (lambda: Drawn(20), lambda: dict(batch_size=None, num_workers=2, shuffle=True)),
    "no batches, no workers": (lambda: Drawn(20), lambda: dict(batch_size=None, shuffle=True)),
    "mixed": (Mixed, lambda: dict(batch_size=8, num_workers=2, shuffle=True)),
    "mixed, persistent": (Mixed, lambda: dict(batch_size=5, num_workers=3, persistent_workers=True)),
    "mixed, no batches": (Mixed, lambda: dict(batch_size=None, num_workers=2)),
    "pictures": (lambda: Pictures(40), lambda: dict(batch_size=8, num_workers=2, shuffle=True)),
    "pictures, persistent": (lambda: Pictures(40), lambda: dict(batch_size=6, num_workers=2, shuffle=True, persistent_workers=True)),
    "collate_fn": (lambda: Ragged(50), lambda: dict(batch_size=8, num_workers=2, shuffle=True, collate_fn=padded)),
    "worker_init_fn": (lambda: Drawn(50), lambda: dict(batch_size=8, num_workers=2, shuffle=True, worker_init_fn=reseed)),
    "sampler": (lambda: Drawn(50), lambda: dict(batch_size=8, num_workers=2, sampler=weighted())),
    "replacement": (lambda: Drawn(50), lambda: dict(batch_size=8, num_workers=2, sampler=torch_data.RandomSampler(range(50), True, 30, seeded(3)))),
    "batch_sampler": (lambda: Drawn(50), lambda: dict(num_workers=2, batch_sampler=torch_data.BatchSampler(torch_data.SubsetRandomSampler(range(9, 40)), 4, False))),
    "subset": (lambda: torch_data.random_split(Drawn(50), [30, 20], seeded(4))[0], lambda: dict(batch_size=4, num_workers=2, shuffle=True)),
    "tensors": (lambda: torch_data.TensorDataset(torch.arange(60.0).view(30, 2), torch.arange(30)), lambda: dict(batch_size=4, num_workers=2, shuffle=True)),
    "stream": (Stream, lambda: dict(batch_size=4, num_workers=2)),
    "stream, three workers": (Stream, lambda: dict(batch_size=3, num_workers=3, drop_last=True)),
    "stream, persistent": (Stream, lambda: dict(batch_size=4, num_workers=2, persistent_workers=True, prefetch_factor=3)),
    "stream, no batches": (Stream, lambda: dict(batch_size=None, num_workers=2)),
    "stream, generator": (Stream, lambda: dict(batch_size=4, num_workers=2, generator=seeded())),
}


class Bits(Case):
    def run_of(self, loader, dataset, options):
        """Every batch, and what the generators of the process draw between the epochs and after them."""
        random.seed(1), numpy.random.seed(2), torch.manual_seed(3)
        made, batches, draws = loader(dataset(), **options()), [], []
        for epoch in range(EPOCHS):
            batches.append(list(made))
            draws.append((random.random(), numpy.random.random(), torch.rand(2)))
        if made.generator is not None:
            draws.append(torch.rand(2, generator=made.generator))
        return batches, draws

    def test_configurations(self):
        for name, (dataset, options) in CONFIGURATIONS.items():
            with self.subTest(name=name):
                wanted = self.run_of(torch_data.DataLoader, dataset, options)
                self.assertSame(self.run_of(stoker_loader, dataset, options), wanted, name)
                self.assertGreater(sum(map(len, wanted[0])), EPOCHS)

    def test_epochs_that_are_left(self):
        """What an epoch that is left has drawn, in persistent workers for the batches that they made ahead as well."""
        def left(loader, options):
            random.seed(1), numpy.random.seed(2), torch.manual_seed(3)
            made, taken = loader(Drawn(50), 5, True, **options()), []
            for stop in (1, 3, 20, 10, 1):
                for k, batch in enumerate(made):
                    taken.append(batch)
                    if k + 1 == stop:
                        break
                taken.append(torch.rand(1))
            return taken
        for options in (lambda: dict(), lambda: dict(num_workers=2), lambda: dict(num_workers=2, persistent_workers=True),
                        lambda: dict(num_workers=2, generator=seeded())):
            with self.subTest(options=options()):
                self.assertSame(left(stoker_loader, options), left(torch_data.DataLoader, options))


if __name__ == "__main__":
    unittest.main()
