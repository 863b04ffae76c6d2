# SPDX-License-Identifier: Apache-2.0
"""What 'stoker top' shows of loaders of Python, also of several ranks."""
import contextlib
import json
import os
import subprocess
import sys
import time
import unittest
from pathlib import Path

import stoker

COMMAND = Path(stoker.__file__).parent / "bin" / "stoker"
LIMIT = 30  # s, for a sheet to be there


def work():
    """Of a process of its own: batches until its input ends."""
    os.set_blocking(sys.stdin.fileno(), False)
    with stoker.Loader("synthetic:?delay=1ms", batch_size=8, num_workers=2, **json.loads(os.environ["OPTIONS"])) as loader:
        epoch = 0
        while sys.stdin.buffer.read(1) != b"":
            loader.set_epoch(epoch)
            epoch += 1
            for _, _ in zip(range(20), loader):
                pass


def start(**options):
    return subprocess.Popen([sys.executable, __file__, "work"], stdin=subprocess.PIPE, env={**os.environ, "OPTIONS": json.dumps(options)})


def look(process):
    """The state of a process, once it has one with batches."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end and process.poll() is None:
        done = subprocess.run([COMMAND, "top", "--once", "--format", "json", str(process.pid)], capture_output=True, text=True)
        state = json.loads(done.stdout) if done.returncode == 0 else {}
        if state.get("batches"):
            return state
        time.sleep(0.1)
    raise AssertionError(f"no sheet: {done.stderr}")


class Sheets(unittest.TestCase):
    def setUp(self):
        self.processes = []

    def tearDown(self):
        for process in self.processes:
            process.stdin.close()
            self.assertEqual(process.wait(timeout=LIMIT), 0)

    def test_a_loader(self):
        self.processes = [start()]
        state = look(self.processes[0])
        self.assertEqual((state["command"], state["label"]), ("python", "synthetic:?delay=1ms"))
        self.assertEqual(state["pid"], self.processes[0].pid)
        self.assertIn(len(state["workers"]), (1, 2))  # those that did something
        self.assertGreater(state["samples"], 0)

    def test_ranks(self):
        self.processes = [start(rank=rank, world_size=2) for rank in range(2)]
        labels = [look(process)["label"] for process in self.processes]
        self.assertEqual(labels, [f"rank {rank} of 2, synthetic:?delay=1ms" for rank in range(2)])

    def test_two_loaders(self):
        """Both of a process are shown, each with its own figures: an object on a line."""
        of = [("synthetic:?delay=1ms", 8), ("synthetic:?delay=2ms", 16)]
        with contextlib.ExitStack() as stack:
            loaders = [stack.enter_context(stoker.Loader(spec, batch_size=size, num_workers=1)) for spec, size in of]
            end = time.monotonic() + LIMIT
            while len(sheets()) < 2 and time.monotonic() < end:
                for loader in loaders:
                    for _, _ in zip(range(20), loader):
                        pass
            done = subprocess.run([COMMAND, "top", "--once", "--format", "json", str(os.getpid())], capture_output=True, text=True)
            states = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual(sorted((state["label"], state["loaders"][0]["batch_size"]) for state in states), sorted(of), done.stderr)
            drawn = subprocess.run([COMMAND, "top", "--once", str(os.getpid())], capture_output=True, text=True).stdout
            self.assertEqual([drawn.count(f": {spec}\n") for spec, _ in of], [1, 1], drawn)

    def test_none_once_it_is_closed(self):
        with stoker.Loader("synthetic:?delay=1ms", batch_size=8, num_workers=2) as loader:
            end = time.monotonic() + LIMIT
            while not sheets() and time.monotonic() < end:
                for _, _ in zip(range(20), loader):
                    pass
            self.assertEqual(len(sheets()), 1)
        self.assertEqual(sheets(), [])


def sheets():
    """Descriptors of this process that are sheets."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith("/memfd:stoker-live"):
                found.append(name)
        except FileNotFoundError:  # that of the listing itself
            pass
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work()
    else:
        unittest.main()
