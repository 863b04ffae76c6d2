# SPDX-License-Identifier: Apache-2.0
"""What is there of a process, before and after epochs.

STOKER_TEST_EPOCHS is the number of epochs (1,000 for a proof); kills and breaks are a fifth of them, epochs under spawn a
fiftieth.
"""
import ctypes
import gc
import os
import sys
import threading
from pathlib import Path

import numpy

from data import Case
from processes import children


EPOCHS = int(os.environ.get("STOKER_TEST_EPOCHS", "50"))
WARM = 10
ROOM = 6 << 20  # what allocators may hold back, and the interpreter's tables grow by now and then (that of names by 1.9 MB)


class Given(ctypes.Structure):
    """What mallinfo2() of the C library fills."""
    _fields_ = [(name, ctypes.c_size_t) for name in
                "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]


mallinfo = ctypes.CDLL(None).mallinfo2
mallinfo.restype = Given


def rss():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def given():
    """Bytes that malloc() has given out, and objects that the interpreter has: unlike rss() a leak of a few bytes shows in them."""
    of = mallinfo()
    return of.uordblks + of.hblkhd, sys.getallocatedblocks()


def growth(values):
    """Of an epoch, in the median of five parts of all: what leaks grows all the time, a table at once."""
    parts = numpy.array_split(numpy.array(values), 5)
    return numpy.median([numpy.polyfit(numpy.arange(len(part)), part, 1)[0] for part in parts])


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
        gc.freeze()  # what is there is not looked through after each epoch
        self.addCleanup(gc.unfreeze)
        sizes = []
        for i in range(count):
            epoch(i)
            gc.collect()
            sizes.append((rss(), *given()))
        self.assertEqual(self.things(), before)
        self.assertLess(rss() - memory, room, f"memory grows: {sizes[::max(1, count // 20)]}")
        if count >= 200:
            _, given_out, objects = zip(*sizes[-(count // 2):])
            self.assertLess(growth(given_out), 512, f"bytes an epoch: {given_out}")
            self.assertLess(growth(objects), 16, f"objects an epoch: {objects}")  # a few are those of `sizes`
