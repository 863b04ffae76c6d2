# SPDX-License-Identifier: Apache-2.0
"""Nothing is left of an epoch, whole or ended by an error: memory, descriptors, processes, threads, mappings, /dev/shm."""
import os
import time
import unittest
from pathlib import Path

from processes import private_dev_shm

PRIVATE = __name__ == "__main__" and private_dev_shm("64k")  # before the modules that start threads

import numpy

from data import Made, numbers, stoker_loader
from leaks import EPOCHS, ROOM, WARM, Leaks, rss, sample, slabs, workers


def sample_and_size(index):
    """The pid and memory of the worker besides."""
    return numpy.full((28, 28), index, "f4"), os.getpid(), rss()


class Left(Leaks):
    private = PRIVATE

    def test_dev_shm_is_private(self):
        """Of 64 KiB, and empty, in all of these tests."""
        if not PRIVATE:
            self.skipTest("user and mount namespaces are not allowed here: what is left in /dev/shm is not looked at")
        self.assertEqual(os.listdir("/dev/shm"), [])
        self.assertEqual(os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize, 64 << 10)

    def test_epochs(self):
        def epoch(i):
            self.assertEqual(sum(labels.sum().item() for _, labels in stoker_loader(Made(64, sample), 8, num_workers=workers(i))), 2016)
        self.check(epoch, EPOCHS)

    def test_epochs_of_persistent_workers(self):
        """A worker makes a slab when all that it has are the consumer's: batches that were asked for ahead, and the one in use."""
        before = self.things()["slabs"]
        loader = stoker_loader(Made(64, sample_and_size), 8, num_workers=2, prefetch_factor=2, persistent_workers=True)
        most = 2 * (2 + 1)
        sizes = {}

        def epoch(i):
            last = {pid: size for _, pids, bytes_ in loader for pid, size in zip(pids.tolist(), bytes_.tolist())}
            for pid, size in last.items():
                sizes.setdefault(pid, []).append(size)
        for i in range(WARM):
            epoch(i)
        files, memory = len(os.listdir("/proc/self/fd")), rss()
        for i in range(EPOCHS):
            epoch(i)
        self.assertEqual(len(os.listdir("/proc/self/fd")), files)
        self.assertLessEqual(slabs() - before, most)
        self.assertLess(rss() - memory, ROOM)
        self.assertEqual(len(sizes), 2)
        for pid, of_worker in sizes.items():
            self.assertLess(of_worker[-1] - of_worker[WARM // 2], ROOM, "memory of a worker grows")
            self.assertLess(len(os.listdir(f"/proc/{pid}/fd")), 40)
        del loader
        self.things()

    def test_errors_and_timeouts(self):
        def epoch(i):
            with self.assertRaises(ZeroDivisionError):
                numbers(stoker_loader(Made(9, lambda i: 1 // (i - 5)), 1, num_workers=workers(i), persistent_workers=i % 2 == 0))
            if i % 5 == 0:
                with self.assertRaises(RuntimeError):
                    numbers(stoker_loader(Made(9, lambda i: i == 3 and time.sleep(60)), 1, num_workers=2, timeout=0.1))
        self.check(epoch, EPOCHS // 5)


if __name__ == "__main__":
    unittest.main()
