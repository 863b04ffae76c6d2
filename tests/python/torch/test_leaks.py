# SPDX-License-Identifier: Apache-2.0
"""Nothing is left of an epoch, however it ends: memory, descriptors, processes, threads, mappings, /dev/shm.

STOKER_TEST_EPOCHS is the number of epochs (1,000 for a proof); kills and breaks are a fifth of them, epochs under spawn a
fiftieth.
"""
import gc
import logging
import os
import random
import signal
import threading
import time
import unittest
from pathlib import Path

from processes import children, private_dev_shm

PRIVATE = __name__ == "__main__" and private_dev_shm("64k")  # before the modules that start threads

import numpy
import torch
from torch.utils import data as torch_data

from data import Case, Made, numbers, stoker_loader


EPOCHS = int(os.environ.get("STOKER_TEST_EPOCHS", "50"))
WARM = 10
ROOM = 3 << 20  # what an allocator may hold back; a batch of each epoch alone is 1.6 kB of tensors and a slab


def rss():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def slabs():
    """Memory shared with workers that is mapped now."""
    return Path("/proc/self/maps").read_text().count("memfd:")


def sample(index):
    return numpy.full((28, 28), index, "f4"), index


def sample_and_size(index):
    """The pid and memory of the worker besides."""
    return numpy.full((28, 28), index, "f4"), os.getpid(), rss()


class Samples(torch_data.Dataset):
    """For spawn: found by name."""
    def __len__(self):
        return 32

    def __getitem__(self, index):
        return sample(index)


class Counting(logging.Handler):
    """Warnings, by number."""
    def __init__(self):
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record):
        self.count += 1


class Left(Case):
    def things(self):
        """What there is of this process now."""
        gc.collect()
        self.eventually(lambda: not children(), f"children are left: {children()}")
        return dict(files=len(os.listdir("/proc/self/fd")), threads=threading.active_count(), slabs=slabs(),
                    tasks=len(os.listdir("/proc/self/task")), shm=os.listdir("/dev/shm") if PRIVATE else None)

    def test_dev_shm_is_private(self):
        """Of 64 KiB, and empty, in all of these tests."""
        if not PRIVATE:
            self.skipTest("user and mount namespaces are not allowed here: what is left in /dev/shm is not looked at")
        self.assertEqual(os.listdir("/dev/shm"), [])
        self.assertEqual(os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize, 64 << 10)

    def check(self, epoch, count, room=ROOM):
        """Runs epochs; what is there after the first ones is all that is there after the last."""
        for i in range(WARM):
            epoch(i)
        before, memory = self.things(), rss()
        sizes = []
        for i in range(count):
            epoch(i)
            sizes.append(rss())
        self.assertEqual(self.things(), before)
        self.assertLess(rss() - memory, room, f"memory grows: {sizes[::max(1, count // 20)]}")
        if count >= 200:  # a straight line through all of them
            slope = numpy.polyfit(numpy.arange(count // 2), sizes[-(count // 2):], 1)[0]
            self.assertLess(slope, 512, "bytes an epoch")

    def test_epochs(self):
        def epoch(i):
            self.assertEqual(sum(labels.sum().item() for _, labels in stoker_loader(Made(64, sample), 8, num_workers=2)), 2016)
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

    def test_epochs_that_are_left(self):
        draw = random.Random(1)
        persistent = stoker_loader(Made(64, sample), 4, num_workers=2, persistent_workers=True)

        def epoch(i):
            loader = stoker_loader(Made(64, sample), 4, num_workers=2, prefetch_factor=draw.randrange(1, 5))
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

        def epoch(i):
            persistent = draw.random() < 0.5
            loader = stoker_loader(Made(60, lambda i: (torch.rand(500), i)), 3, num_workers=2, persistent_workers=persistent)
            torch.manual_seed(i)
            wanted = list(loader)
            torch.manual_seed(i)
            loader = stoker_loader(Made(60, lambda i: (torch.rand(500), i)), 3, num_workers=2, persistent_workers=persistent)
            got, at = [], draw.randrange(15)
            for k, batch in enumerate(loader):
                got.append(batch)
                if k == at:
                    victims = children()
                    if victims:
                        time.sleep(draw.random() * 0.003)
                        os.kill(draw.choice(victims), signal.SIGKILL)
            self.assertSame(got, wanted)
        deaths = Counting()  # assertLogs() would keep all that is said
        logger = logging.getLogger("stoker")
        logger.addHandler(deaths)
        self.addCleanup(logger.removeHandler, deaths)
        self.check(epoch, max(10, EPOCHS // 5))
        self.assertGreater(deaths.count, 0)

    def test_errors_and_timeouts(self):
        def epoch(i):
            with self.assertRaises(ZeroDivisionError):
                numbers(stoker_loader(Made(9, lambda i: 1 // (i - 5)), 1, num_workers=2, persistent_workers=i % 2 == 0))
            if i % 5 == 0:
                with self.assertRaises(RuntimeError):
                    numbers(stoker_loader(Made(9, lambda i: i == 3 and time.sleep(60)), 1, num_workers=2, timeout=0.1))
        self.check(epoch, EPOCHS // 5)


if __name__ == "__main__":
    unittest.main()
