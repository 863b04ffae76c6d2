# SPDX-License-Identifier: Apache-2.0
"""Loaders that run in C: their state."""
import itertools
import unittest

import torch
from torchvision.transforms import v2

import stoker.torch
from native_support import Eager, Infinite, Uneven, cifar, mnist


class State(unittest.TestCase):
    """What is left of a run is what it would have been."""

    def rest_of(self, loader, batches, epochs):
        seen = [[part.tolist() for part in batch] for batch in batches]
        for _ in range(epochs):
            seen += [[part.tolist() for part in batch] for batch in loader]
        return seen + [torch.randint(1 << 40, (1,)).item()]

    def test_goes_on(self):
        dataset = cifar(24)
        dataset.data = dataset.data[:, :8, :8]
        dataset.transform = v2.Compose([v2.RandomCrop(8, padding=2), v2.RandomHorizontalFlip(), v2.PILToTensor()])
        cases = {"shuffled": dict(shuffle=True), "eager": dict(sampler=Eager(24)), "uneven": dict(batch_sampler=Uneven(24)),
                 "generator": dict(shuffle=True, generator=True), "workers": dict(shuffle=True, num_workers=2),
                 "eager, workers": dict(sampler=Eager(24), num_workers=1),
                 "persistent": dict(shuffle=True, num_workers=2, persistent_workers=True)}
        for name, options in cases.items():
            # A sampler draws from its generator once more when it is asked for the end, which a state at the last batch is not.
            for epoch, taken in ((0, 0), (0, 2), (1, 1), (1, 3 if name == "generator" else 4), (2, 3)):
                with self.subTest(name, epoch=epoch, taken=taken):
                    def make():
                        given = {"batch_size": 6} if "batch_sampler" not in options else {}
                        generator = torch.Generator().manual_seed(4) if "generator" in options else None
                        return stoker.torch.DataLoader(dataset, native=True, **{**given, **options, "generator": generator})
                    torch.manual_seed(2)
                    loader = make()
                    for _ in range(epoch):
                        for batch in loader:
                            pass
                    batches = iter(loader)
                    for _ in range(taken):
                        next(batches)
                    state = loader.state_dict()
                    wanted = self.rest_of(loader, batches, 2)
                    torch.manual_seed(77)
                    other = make()
                    other.load_state_dict(state)
                    rest = iter(other) if taken < len(loader) else ()
                    self.assertEqual(self.rest_of(other, rest, 2), wanted)

    def test_a_sampler_without_end(self):
        """Its loop goes on behind its length, each time round with other draws."""
        dataset = cifar(24, transform=v2.Compose([v2.RandomCrop(32, padding=4), v2.PILToTensor()]))
        for workers in (0, 2):
            for taken in (1, 4, 5, 6, 9):
                with self.subTest(workers=workers, taken=taken):
                    def make():
                        return stoker.torch.DataLoader(dataset, 6, sampler=Infinite(24), native=True, num_workers=workers)
                    loader = make()
                    batches = iter(loader)
                    for _ in range(taken):
                        next(batches)
                    state = loader.state_dict()
                    wanted = list(itertools.islice(batches, 3))
                    other = make()
                    other.load_state_dict(state)
                    for got, batch in zip(itertools.islice(other, 3), wanted, strict=True):
                        self.assertTrue(all(map(torch.equal, got, batch)))
        dataset.targets = list(range(24))
        seen = {}
        for pictures, labels in itertools.islice(make(), 12):
            for picture, label in zip(pictures, labels.tolist(), strict=True):
                seen.setdefault(label, []).append(picture.tolist())
        self.assertEqual({len(each) for each in seen.values()}, {3})
        self.assertLess(sum(first == second for first, second, _ in seen.values()), 6)

    def test_between_epochs(self):
        for options in (dict(), dict(num_workers=1), dict(num_workers=1, persistent_workers=True)):
            def make():
                transform = v2.Compose([v2.RandomCrop(28, padding=2), v2.PILToTensor()])
                return stoker.torch.DataLoader(mnist(9, transform=transform), 4, shuffle=True, native=True, **options)
            torch.manual_seed(2)
            loader = make()
            for _ in loader:
                pass
            state = loader.state_dict()
            wanted = self.rest_of(loader, (), 2)
            other = make()
            other.dataset.data, other.dataset.targets = loader.dataset.data, loader.dataset.targets
            other.load_state_dict(state)
            self.assertEqual(self.rest_of(other, (), 2), wanted)


if __name__ == "__main__":
    unittest.main()
