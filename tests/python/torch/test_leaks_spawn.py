# SPDX-License-Identifier: Apache-2.0
"""Nothing is left of epochs whose workers are spawned."""
import gc
import os
import unittest

from torch.utils import data as torch_data

from data import stoker_loader
from leaks import EPOCHS, Leaks, sample


class Samples(torch_data.Dataset):
    """For spawn: found by name."""
    def __len__(self):
        return 32

    def __getitem__(self, index):
        return sample(index)


class Left(Leaks):
    def test_epochs_under_spawn(self):
        before = None
        for i in range(max(1, EPOCHS // 50) + 1):
            loader = stoker_loader(Samples(), 8, num_workers=1, multiprocessing_context="spawn")
            self.assertEqual(sum(labels.sum().item() for _, labels in loader), 496)
            del loader
            gc.collect()
            things = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
            before = before or things
            self.assertEqual(things, before)


if __name__ == "__main__":
    unittest.main()
