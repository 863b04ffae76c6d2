# SPDX-License-Identifier: Apache-2.0
"""What is there of a process, before and after epochs.

STOKER_TEST_EPOCHS is the number of epochs (1,000 for a proof); kills and breaks are a fifth of them, epochs under spawn a
fiftieth.
"""
import gc
import os
import threading
from pathlib import Path

import numpy

from data import Case
from processes import children


EPOCHS = int(os.environ.get("STOKER_TEST_EPOCHS", "50"))
WARM = 10
ROOM = 3 << 20  # what an allocator may hold back; a batch of each epoch alone is 1.6 kB of tensors and a slab


def rss():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def slabs():
    """Memory shared with workers that is mapped now."""
    return Path("/proc/self/maps").read_text().count("memfd:")


def workers(epoch):
    """One, and two in every fifth epoch: a fork of what torch has mapped is most of an epoch's time."""
    return 1 + (epoch % 5 == 0)


def sample(index):
    return numpy.full((28, 28), index, "f4"), index


class Leaks(Case):
    private = False  # /dev/shm

    def things(self):
        """What there is of this process now."""
        gc.collect()
        self.eventually(lambda: not children(), f"children are left: {children()}")
        return dict(files=len(os.listdir("/proc/self/fd")), threads=threading.active_count(), slabs=slabs(),
                    tasks=len(os.listdir("/proc/self/task")), shm=os.listdir("/dev/shm") if self.private else None)

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
        if count >= 200:  # an allocator takes a piece now and then, what leaks grows all the time
            parts = numpy.array_split(numpy.array(sizes[-(count // 2):]), 5)
            slopes = [numpy.polyfit(numpy.arange(len(part)), part, 1)[0] for part in parts]
            self.assertLess(numpy.median(slopes), 512, f"bytes an epoch: {slopes}")
