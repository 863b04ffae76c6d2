# SPDX-License-Identifier: Apache-2.0
"""Workers of torch's DataLoader and of ours: how they start, run ahead, fail and end."""
import gc
import itertools
import json
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
import unittest
from pathlib import Path

import numpy
import torch
from torch.utils import data as torch_data

from stoker import torch as stoker_torch
from data import Case, Count, Drawn, Made, Marks, Squares, both, numbers, stoker_loader, wait_for


def pid_of(index):
    return os.getpid()


class Strange(Exception):
    """An exception that is not made of one message."""
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


class Plain(Exception):
    pass


class Local(LookupError):
    pass


def raises(error):
    """A dataset's function: sample 3 raises."""
    def function(index):
        if index == 3:
            raise error
        return index
    return function


@both
class Workers:
    def test_persistent(self):
        for persistent in (False, True):
            folder = self.folder()
            started = Marks(folder)
            loader = self.DataLoader(Made(6, pid_of), None, num_workers=2, persistent_workers=persistent, worker_init_fn=started.add)
            epochs = [list(loader) for _ in range(3)]
            for pids in epochs:
                self.assertEqual(pids, pids[:2] * 3)
            self.assertEqual(len({pid for pids in epochs for pid in pids}), 2 if persistent else 6)
            self.assertEqual(sorted(started.read()), sorted(["0", "1"] * (1 if persistent else 3)))
            del loader
            gc.collect()
            self.assertGone(pid for pids in epochs for pid in pids)

    def test_persistent_ones_begin_again(self):
        for dataset in (Squares(40), Count(0, 40)):
            loader = self.DataLoader(dataset, 3, num_workers=2, persistent_workers=True, prefetch_factor=4)
            whole = numbers(loader)
            for taken in (0, 1, 5, len(whole)):
                part = numbers(itertools.islice(loader, taken))
                self.assertEqual(part, whole[:taken])
            self.assertIs(iter(loader), iter(loader))
            self.assertEqual(numbers(loader), whole)

    def test_run_ahead_by_prefetch_factor(self):
        for workers, factor in ((1, 1), (2, 1), (2, 3), (3, 2)):
            with self.subTest(workers=workers, factor=factor):
                marks = Marks(self.folder())
                loader = self.DataLoader(Made(40, lambda i: marks.add(i) or i), 1, num_workers=workers, prefetch_factor=factor)
                iterator, ahead = iter(loader), workers * factor
                for taken in range(4):
                    self.eventually(lambda: len(marks.read()) >= ahead + taken, "workers do not run ahead")
                    time.sleep(0.02)
                    self.assertEqual(sorted(map(int, marks.read())), list(range(ahead + taken)))
                    self.assertEqual(next(iterator).item(), taken)
                self.assertEqual([batch.item() for batch in iterator], list(range(4, 40)))

    def test_more_workers_than_batches(self):
        for persistent in (False, True):
            loader = self.DataLoader(Squares(3), 2, num_workers=4, persistent_workers=persistent)
            for _ in range(2):
                self.assertEqual(numbers(loader), [[0, 1], [4]])

    def test_end_with_the_epoch(self):
        loader = self.DataLoader(Made(9, pid_of), None, num_workers=3)
        self.assertGone(list(loader))

    def test_their_processes_are_known_behind_their_end(self):
        for dataset in (Made(9, pid_of), Count(0, 9)):
            for left in (False, True):
                iterator = iter(self.DataLoader(dataset, None, num_workers=3))
                next(iterator) if left else list(iterator)
                workers = iterator._workers
                pids = [worker.pid for worker in workers]
                del iterator
                gc.collect()
                self.assertEqual(len(set(pids)), 3)
                self.assertGone(pids)
                for worker in workers:
                    worker.join(20)
                    worker.terminate()
                    self.assertFalse(worker.is_alive())
                self.assertEqual([worker.exitcode for worker in workers], [0, 0, 0])

    def test_end_with_a_break(self):
        for persistent in (False, True):
            loader = self.DataLoader(Made(1000, pid_of), None, num_workers=2, persistent_workers=persistent)
            pids = set()
            for pid in loader:
                pids.add(pid)
                if len(pids) == 2:
                    break
            del loader
            gc.collect()
            self.assertGone(pids)

    def test_end_with_their_iterator(self):
        loader = self.DataLoader(Made(1000, pid_of), None, num_workers=2)
        iterator = iter(loader)
        pids = {next(iterator), next(iterator)}
        self.assertEqual(len(pids), 2)
        del iterator
        gc.collect()
        self.assertGone(pids)

    def test_end_with_an_error_of_the_consumer(self):
        pids = set()

        def consume():
            for pid in self.DataLoader(Made(1000, pid_of), None, num_workers=2):
                pids.add(pid)
                if len(pids) == 2:
                    raise Plain("the consumer")
        with self.assertRaisesRegex(Plain, "the consumer"):
            consume()
        gc.collect()
        self.assertGone(pids)

    def test_end_when_they_are_blocked(self):
        """A worker in the middle of a long sample does not hold up the end for as long as the sample takes."""
        self.no_patience()
        folder = self.folder()
        loader = self.DataLoader(Made(4, lambda i: i == 0 or time.sleep(60)), 1, num_workers=2)
        iterator = iter(loader)
        next(iterator)
        began = time.monotonic()
        del iterator, loader, folder
        gc.collect()
        self.assertLess(time.monotonic() - began, 30)

    def test_nested(self):
        """A loader of no workers in a worker; one of workers there is refused, as daemons have no children."""
        def inner(index):
            return numbers(self.DataLoader(Squares(4), 2, num_workers=index))
        self.assertEqual(list(self.DataLoader(Made(1, inner), None, num_workers=1)), [[[0, 1], [4, 9]]])
        with self.assertRaisesRegex(AssertionError, "daemonic"):
            list(self.DataLoader(Made(2, inner), None, sampler=[1], num_workers=1))

    def test_in_threads(self):
        got = {}

        def consume(name, workers):
            got[name] = [numbers(self.DataLoader(Squares(20), 3, num_workers=workers)) for _ in range(2)]
        threads = [threading.Thread(target=consume, args=(f"{workers} {k}", workers)) for k, workers in enumerate((0, 1, 2, 2))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        wanted = numbers(self.DataLoader(Squares(20), 3))
        self.assertEqual(list(got.values()), [[wanted] * 2] * 4)

    def test_made_here_taken_in_a_thread(self):
        got = []
        iterator = iter(self.DataLoader(Squares(20), 3, num_workers=2))
        thread = threading.Thread(target=lambda: got.extend(numbers(iterator)))
        thread.start()
        thread.join(60)
        self.assertEqual(got, numbers(self.DataLoader(Squares(20), 3)))

    def test_other_threads_run_while_it_waits(self):
        ticks, ended = [], threading.Event()

        def tick():
            while not ended.wait(0.001):
                ticks.append(1)
        thread = threading.Thread(target=tick)
        thread.start()
        list(self.DataLoader(Made(1, lambda i: time.sleep(0.3) or i), 1, num_workers=1))
        ended.set()
        thread.join()
        self.assertGreater(len(ticks), 30)

    def test_one_thread_of_torch(self):
        before = torch.get_num_threads()
        self.assertEqual(list(self.DataLoader(Made(2, lambda i: torch.get_num_threads()), None, num_workers=2)), [1, 1])
        self.assertEqual(torch.get_num_threads(), before)

    def test_an_interrupted_wait(self):
        """What a signal's handler raises comes out of next(), and the workers end."""
        self.no_patience()
        def handler(number, frame):
            raise KeyboardInterrupt
        flag = self.folder() + "/never"
        before = signal.signal(signal.SIGALRM, handler)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        marks = Marks(self.folder())
        loader = self.DataLoader(Made(2, lambda i: marks.add(os.getpid()) or wait_for(flag)), 1, num_workers=2)
        iterator = iter(loader)
        self.eventually(lambda: len(marks.read()) == 2, "workers do not start")
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        began = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            next(iterator)
        self.assertLess(time.monotonic() - began, 0.5)
        del iterator, loader
        gc.collect()
        self.assertGone(map(int, marks.read()), 15)

    def test_a_fork_of_the_consumer(self):
        """A child made in the middle of an epoch ends without a word, and leaves the workers alone."""
        iterator = iter(self.DataLoader(Squares(9), 1, num_workers=2))
        got = [next(iterator).item()]
        self.assertEqual(subprocess.run(["true"]).returncode, 0)
        child = os.fork()
        if child == 0:
            os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(got + [batch.item() for batch in iterator], [i * i for i in range(9)])

    def test_other_children_end_meanwhile(self):
        """SIGCHLD of a child that is none of ours."""
        iterator = iter(self.DataLoader(Made(9, lambda i: time.sleep(0.05) or i), 1, num_workers=2))
        child = subprocess.Popen(["false"])
        self.assertEqual([batch.item() for batch in iterator], list(range(9)))
        self.assertEqual(child.wait(), 1)

    def test_a_worker_that_forks(self):
        def forks(index):
            return subprocess.run(["echo", str(index)], capture_output=True).stdout
        self.assertEqual(list(self.DataLoader(Made(4, forks), None, num_workers=2)), [b"0\n", b"1\n", b"2\n", b"3\n"])


@both
class Contexts:
    def test_spawn_and_forkserver(self):
        """The same epoch, to the bit, whatever way the workers start."""
        if self.ours:
            # forkserver is slow as torch has it: a server imports nothing, each of its children torch
            contexts = "fork", "spawn", "forkserver"
        else:
            contexts = "fork", "spawn"
        epochs = []
        for context in contexts:
            torch.manual_seed(2)
            loader = self.DataLoader(Drawn(7), 2, True, num_workers=2, multiprocessing_context=context, persistent_workers=True)
            self.assertEqual(loader.multiprocessing_context.get_start_method(), context)
            epochs.append([list(loader) for _ in range(2)])
        for epoch in epochs[1:]:
            self.assertSame(epoch, epochs[0])

    def test_what_spawn_cannot_send(self):
        for what in (dict(dataset=Made(4, lambda i: i)), dict(dataset=Squares(4), collate_fn=lambda samples: samples),
                     dict(dataset=Squares(4), worker_init_fn=lambda worker: None)):
            loader = self.DataLoader(num_workers=2, multiprocessing_context="spawn", **what)
            with self.assertRaisesRegex((AttributeError, pickle.PicklingError, TypeError), "(?i)pickle"):
                list(loader)
        gc.collect()
        self.assertEqual(multiprocessing.active_children(), [])


@both
class Errors:
    def test_come_in_their_place(self):
        for workers in (0, 1, 2):
            iterator = iter(self.DataLoader(Made(12, raises(Plain("number three"))), 2, num_workers=workers))
            self.assertEqual(next(iterator).tolist(), [0, 1])
            with self.assertRaisesRegex(Plain, "number three") as caught:
                next(iterator)
            self.assertIs(type(caught.exception), Plain)
            self.assertEqual(numbers(iterator), [[4, 5], [6, 7], [8, 9], [10, 11]])

    def test_have_the_traceback_of_the_worker(self):
        with self.assertRaises(ValueError) as caught:
            list(self.DataLoader(Made(12, raises(ValueError("number three"))), 2, num_workers=2))
        words = str(caught.exception)
        for part in ("Caught ValueError in DataLoader worker process 1", "Traceback (most recent call last)", "in function",
                     "test_dataloader_life.py", "raise error", "ValueError: number three"):
            self.assertIn(part, words)

    def test_of_every_type(self):
        for error in (KeyError("which"), KeyError(("a", 3)), IndexError(3), OSError(2, "no file"), Local("mine"), ZeroDivisionError(),
                      AssertionError("x" * 100000), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), Strange(1, 2),
                      NotImplementedError("abstract"), MemoryError("none left"), FileNotFoundError("gone.txt")):
            for workers in (0, 1):
                with self.subTest(error=type(error), workers=workers):
                    refuses = workers and isinstance(error, (Strange, UnicodeDecodeError))
                    with self.assertRaises(RuntimeError if refuses else type(error)) as caught:
                        list(self.DataLoader(Made(5, raises(error)), 1, num_workers=workers))
                    self.assertIn(str(error) if not refuses else type(error).__name__, str(caught.exception))
                    if workers and isinstance(error, KeyError):  # its lines are lines
                        self.assertIn("\nOriginal Traceback", repr(caught.exception))

    def test_of_collate(self):
        def broken(samples):
            if 4 in samples:
                raise Plain("does not collate")
            return samples
        for workers in (0, 2):
            iterator = iter(self.DataLoader(Squares(6), 2, num_workers=workers, collate_fn=broken))
            self.assertEqual(next(iterator), [0, 1])
            with self.assertRaisesRegex(Plain, "does not collate"):
                next(iterator)
            self.assertEqual(list(iterator), [[16, 25]])

    def test_of_worker_init_fn(self):
        def broken(worker):
            raise Plain(f"not worker {worker}")
        for persistent in (False, True):
            loader = self.DataLoader(Squares(6), 2, num_workers=1, worker_init_fn=broken, persistent_workers=persistent)
            with self.assertRaisesRegex(Plain, "not worker 0"):
                next(iter(loader))

    def test_in_every_epoch(self):
        loader = self.DataLoader(Made(4, raises(Plain("three"))), 1, num_workers=2, persistent_workers=True)
        for _ in range(3):
            got = []
            with self.assertRaisesRegex(Plain, "three"):
                for batch in loader:
                    got.append(batch.item())
            self.assertEqual(got, [0, 1, 2])

    def test_out_of_order(self):
        iterator = iter(self.DataLoader(Made(12, raises(Plain("three"))), 1, num_workers=2, in_order=False))
        got, caught = [], 0
        while True:
            try:
                got.append(next(iterator).item())
            except Plain:
                caught += 1
            except StopIteration:
                break
        self.assertEqual((sorted(got), caught), ([0, 1, 2, *range(4, 12)], 1))

    def test_of_many_batches_at_once(self):
        def all_raise(index):
            raise Plain(f"sample {index}")
        iterator = iter(self.DataLoader(Made(10, all_raise), 1, num_workers=3))
        for i in range(10):
            with self.assertRaisesRegex(Plain, f"sample {i}"):
                next(iterator)
        with self.assertRaises(StopIteration):
            next(iterator)

    def test_timeout(self):
        self.no_patience()
        for persistent in (False, True):
            flag = self.folder() + "/never"
            loader = self.DataLoader(Made(4, lambda i: i == 0 or wait_for(flag)), 1, num_workers=1, timeout=0.5,
                                     persistent_workers=persistent)
            iterator = iter(loader)
            next(iterator)
            began = time.monotonic()
            with self.assertRaisesRegex(RuntimeError, "timed out after 0.5 seconds"):
                next(iterator)
            self.assertGreater(time.monotonic() - began, 0.45)
            self.assertLess(time.monotonic() - began, 10)
            del iterator, loader
            gc.collect()

    def test_timeout_that_is_long_enough(self):
        loader = self.DataLoader(Made(6, lambda i: time.sleep(0.05) or i), 1, num_workers=2, timeout=20)
        self.assertEqual([batch.item() for batch in loader], list(range(6)))

    def test_a_dead_worker_is_noticed(self):
        """torch's ends the epoch with an error; ours does it again, and that fails as well."""
        by_signal, by_itself = "is killed by signal: Killed", "exited unexpectedly"
        for how, text in ((lambda i: os.kill(os.getpid(), signal.SIGKILL), by_signal if self.ours else f"({by_signal}|{by_itself})"),
                          (lambda i: os._exit(3), by_itself + " with exit code 3" * self.ours)):
            began = time.monotonic()
            with self.assertRaisesRegex(RuntimeError, rf"DataLoader worker \(pid(\(s\))? [\d, ]+\) {text}"):
                list(self.DataLoader(Made(4, how), 1, num_workers=2))
            self.assertLess(time.monotonic() - began, 20)


@both
class Interpreter:
    """Interpreters that end: forks of one that has imported all, each of which goes to its own end."""
    ENDS = {
        "a live iterator": ("iterator = iter(make()); next(iterator)", 0, ""),
        "a live iterator of persistent workers": ("loader = make(persistent_workers=True); iterator = iter(loader); next(iterator)", 0, ""),
        "an error of the consumer": ("for batch in make():\n    raise ValueError('the consumer')", 1, "ValueError: the consumer"),
        "Ctrl-C": ("for k, batch in enumerate(make()):\n    if k == 3: os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT, "KeyboardInterrupt"),
    }
    HEAD = textwrap.dedent("""
        import json, os, signal, sys
        from data import LOADERS, Made
        def sample(i):
            os.write(1, b"%d\\n" % os.getpid())  # at once: workers write beside each other
            return i
        def make(**options):
            return LOADERS[loader](Made(1000, sample), 2, num_workers=2, **options)
        def begins(name):
            pid = os.fork()
            if pid:
                pids.append(pid)
                return False
            for fd, what in (1, "out"), (2, "err"):
                os.dup2(os.open(f"{name}.{what}", os.O_WRONLY | os.O_CREAT, 0o600), fd)
            return True
        loader, ends, pids = sys.argv[1], json.loads(sys.argv[2]), []
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for name, code in ends.items():
            if begins(name):
                exec(code)
                break
        else:
            print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]))
        """)

    def test_ends(self):
        folder = Path(self.folder())
        codes = {str(folder / name): code for name, (code, _, _) in self.ENDS.items()}
        done = subprocess.run([sys.executable, "-c", self.HEAD, "Stoker" if self.ours else "Torch", json.dumps(codes)],
                              capture_output=True, text=True, cwd=Path(__file__).parent, timeout=120)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for got, (name, (_, status, words)) in zip(json.loads(done.stdout), self.ENDS.items(), strict=True):
            with self.subTest(name=name):
                out, err = ((folder / f"{name}.{what}").read_text() for what in ("out", "err"))
                self.assertEqual(got, status, err)
                if words:
                    self.assertEqual(err.strip().split("\n")[-1], words)
                    self.assertNotIn("Exception ignored", err)
                else:
                    self.assertEqual(err, "")
                pids = {int(line) for line in out.split()}
                self.assertIn(len(pids), (1, 2))
                self.assertGone(pids)


class Differences(Case):
    """What ours does otherwise, on purpose: docs/python.md lists it."""
    def both(self, check):
        for name, loader in (("Stoker", stoker_loader), ("Torch", torch_data.DataLoader)):
            with self.subTest(loader=name):
                check(loader, name == "Stoker")

    def test_stop_iteration_of_a_sample(self):
        """torch's ends the epoch in silence."""
        def check(loader, ours):
            for workers in (0, 2):
                iterator = iter(loader(Made(6, raises(StopIteration("early"))), 1, num_workers=workers))
                got = [next(iterator).item() for _ in range(3)]
                if ours:
                    with self.assertRaisesRegex(RuntimeError, "StopIteration"):
                        next(iterator)
                else:
                    with self.assertRaises(StopIteration):
                        next(iterator)
                self.assertEqual(got, [0, 1, 2])
        self.both(check)

    def test_errors_name_their_indices(self):
        def check(loader, ours):
            for options in (dict(), dict(collate_fn=list)):
                with self.assertRaises(Plain) as caught:
                    list(loader(Made(60, raises(Plain("of it"))), 2, sampler=[51, 40, 41, 3], num_workers=2, **options))
                self.assertEqual("(index 3)" in str(caught.exception), ours)
            with self.assertRaises(RuntimeError) as caught:
                list(loader(Made(60, lambda i: torch.ones(1 + (i == 52))), 2, sampler=[50, 51, 53, 52], num_workers=2))
            self.assertEqual("(indices [53, 52])" in str(caught.exception), ours)  # it is the batch that fails
        self.both(check)

    def test_a_batch_that_does_not_pickle(self):
        """torch's waits for ever; only a timeout shows it."""
        def check(loader, ours):
            made = loader(Squares(4), 2, num_workers=1, collate_fn=lambda samples: lambda: samples, timeout=0 if ours else 1)
            with self.assertRaisesRegex(Exception, "(?i)pickle" if ours else "timed out"):
                next(iter(made))

            class Hidden(Exception):
                pass
            made = loader(Made(4, raises(Hidden("is local"))), 1, sampler=[3], num_workers=1, timeout=0 if ours else 1)
            with self.assertRaisesRegex(Exception, "Hidden.*is local" if ours else "timed out"):
                next(iter(made))
        self.both(check)

    def test_a_timeout_names_the_worker(self):
        self.no_patience()
        flag = self.folder() + "/never"

        def stuck_here(index):
            wait_for(flag)

        def check(loader, ours):
            with self.assertRaises(RuntimeError) as caught:
                next(iter(loader(Made(4, stuck_here), 2, num_workers=1, timeout=0.5)))
            self.assertEqual("stuck_here" in str(caught.exception), ours)
        self.both(check)

    def test_views_of_one_memory(self):
        """torch's leaves a worker's views of one tensor views of one tensor; ours makes each a tensor of its own."""
        def views(samples):
            whole = torch.arange(10.0)
            return whole, whole[2:5]

        def check(loader, ours):
            for workers in (0, 1):
                whole, part = next(iter(loader([0], 1, num_workers=workers, collate_fn=views)))
                self.assertSame((whole, part), (torch.arange(10.0), torch.tensor([2.0, 3.0, 4.0])))
                whole[3] = 99
                self.assertEqual(part[1].item(), 3 if ours and workers else 99)
        self.both(check)

    def test_arrays_in_a_tuple(self):
        """torch's takes each for a sample; ours, whatever `native` is, for a field. In a list each is a sample of both."""
        arrays = torch.arange(3), torch.arange(3, 6)

        def check(loader, ours):
            for workers in (0, 1):
                wanted = [[torch.tensor([0, 1, 2]), torch.tensor([3, 4, 5])]] if ours else [torch.stack(arrays)]
                self.assertSame(list(loader(arrays, 3, num_workers=workers)), wanted)
                self.assertSame(list(loader(list(arrays), 3, num_workers=workers)), [torch.stack(arrays)])
        self.both(check)
        self.assertSame(list(stoker_torch.DataLoader(list(arrays), 3)), [torch.stack(arrays)])

    def test_nothing_in_dev_shm(self):
        def mapped():
            """Files of it in this process and its children, deleted ones too."""
            child = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
            maps = [Path(f"/proc/{pid}/maps") for pid in (os.getpid(), *child)]
            return {line.split(None, 5)[5] for file in maps if file.exists() for line in file.read_text().splitlines() if "/dev/shm/" in line}

        def check(loader, ours):
            before = mapped()  # another test's tensors may still be there
            iterator = iter(loader(Made(40, lambda i: torch.ones(1000)), 4, num_workers=2))
            batch = next(iterator)
            self.assertEqual(bool(mapped() - before), not ours)
            del batch
        self.both(check)


if __name__ == "__main__":
    unittest.main()
