# SPDX-License-Identifier: Apache-2.0
"""Which worker of stoker.torch.DataLoader makes which batch, where any may: rng="stoker"."""
import os
import tempfile
import time
import unittest
import unittest.mock
from pathlib import Path

import torch

from data import Made
from stoker.torch import DataLoader, _iterator
from test_workers import Noisy, Same


class Queued(Same):
    def test_no_batch_lies_with_a_worker_that_takes_long(self):
        with tempfile.TemporaryDirectory() as folder:
            def sample(i):
                time.sleep(0.4)
                behind = {0: 3, 4: 7}.get(i)  # comes behind this one
                ended = time.monotonic() + 20
                while behind is not None and not os.path.exists(f"{folder}/{behind}"):
                    if time.monotonic() > ended:
                        raise TimeoutError(f"{behind} was not made")
                    time.sleep(0.01)
                time.sleep(0.8 if i == 0 else 0)  # the other worker is seen to have nothing to do
                Path(f"{folder}/{i}").touch()
                return i
            with unittest.mock.patch.object(_iterator, "_LONG", 0.3):
                loader = DataLoader(Made(8, sample), None, num_workers=2, rng="stoker")
                self.assertEqual(list(loader), list(range(8)))

    def test_batches_are_those_of_any_number_of_workers(self):
        class Slow(Noisy):
            def __getitem__(self, i):
                time.sleep(0.02 if i % 7 == 0 else 0)
                return super().__getitem__(i)

        def run(workers, dataset):
            torch.manual_seed(3)
            loader = DataLoader(dataset, 7, True, num_workers=workers, rng="stoker", persistent_workers=workers > 0)
            iterator = iter(loader)
            first = [next(iterator), next(iterator)]
            state = loader.state_dict()
            rest = list(iterator)
            other = DataLoader(dataset, 7, True, num_workers=workers, rng="stoker")
            other.load_state_dict(state)
            self.assert_same(list(other), rest)
            return first + rest + list(loader)
        with unittest.mock.patch.object(_iterator, "_LONG", 0.001), tempfile.TemporaryDirectory() as folder:
            wanted = run(0, Slow())
            for workers in (1, 2, 5):
                self.assert_same(run(workers, Slow()), wanted)
            with self.assertLogs("stoker", "WARNING"):
                self.assert_same(run(2, Slow(21, os.path.join(folder, "died"))), wanted)


if __name__ == "__main__":
    unittest.main()
