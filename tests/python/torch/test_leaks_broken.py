# SPDX-License-Identifier: Apache-2.0
"""Nothing is left of epochs that are left in the middle, and of workers that are killed."""
import gc
import logging
import os
import random
import signal
import time
import unittest

from processes import children, private_dev_shm

PRIVATE = __name__ == "__main__" and private_dev_shm("64k")  # before the modules that start threads

import torch

from data import Made, stoker_loader
from leaks import EPOCHS, ROOM, WARM, Leaks, rss, sample, workers


class Counting(logging.Handler):
    """Warnings, by number."""
    def __init__(self):
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record):
        self.count += 1


class Left(Leaks):
    private = PRIVATE

    def test_epochs_that_are_left(self):
        draw = random.Random(1)
        persistent = stoker_loader(Made(64, sample), 4, num_workers=2, persistent_workers=True)

        def epoch(i):
            loader = stoker_loader(Made(64, sample), 4, num_workers=workers(i), prefetch_factor=draw.randrange(1, 5))
            stop = draw.randrange(17)
            for k, (_, labels) in enumerate(loader):
                if k == stop:
                    break
            iterator = iter(loader)
            kept = [next(iterator) for _ in range(draw.randrange(4))]
            if i % 2:
                del iterator
            for k, (_, labels) in enumerate(persistent):
                self.assertEqual(labels.tolist(), list(range(4 * k, 4 * k + 4)))
                if k == stop:
                    break
            self.assertEqual([labels[0].item() for _, labels in kept], [4 * k for k in range(len(kept))])
        self.addCleanup(lambda: self.assertEqual(children(), []))
        for i in range(WARM):
            epoch(i)
        gc.collect()
        files, memory = len(os.listdir("/proc/self/fd")), rss()
        for i in range(EPOCHS // 5):
            epoch(i)
        gc.collect()
        self.eventually(lambda: len(children()) == 2, "workers of left epochs are there")
        self.assertEqual(len(os.listdir("/proc/self/fd")), files)
        self.assertLess(rss() - memory, ROOM)
        del persistent, epoch
        self.things()

    def test_workers_that_are_killed(self):
        """At any moment, while they work, wait or write: the epoch is that of no kill."""
        draw = random.Random(2)

        def drawn(seed, **options):
            torch.manual_seed(seed)
            return stoker_loader(Made(60, lambda i: (torch.rand(500), i)), 3, num_workers=2, **options)
        undisturbed = [[[part.clone() for part in batch] for batch in drawn(seed)] for seed in range(8)]

        def epoch(i):
            loader = drawn(i % 8, persistent_workers=draw.random() < 0.5)
            got, at = [], draw.randrange(15)
            for k, batch in enumerate(loader):
                got.append(batch)
                if k == at:
                    victims = children()
                    if victims:
                        time.sleep(draw.random() * 0.003)
                        os.kill(draw.choice(victims), signal.SIGKILL)
            self.assertSame(got, undisturbed[i % 8])
        deaths = Counting()  # assertLogs() would keep all that is said
        logger = logging.getLogger("stoker")
        logger.addHandler(deaths)
        self.addCleanup(logger.removeHandler, deaths)
        self.check(epoch, max(10, EPOCHS // 5))
        self.assertGreater(deaths.count, 0)


if __name__ == "__main__":
    unittest.main()
