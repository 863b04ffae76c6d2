# SPDX-License-Identifier: Apache-2.0
"""Workers that die or hang, consumers that die, and machines that have too little."""
import ctypes
import errno
import gc
import logging
import os
import random
import resource
import select
import signal
import subprocess
import sys
import time
import unittest
import warnings
from pathlib import Path
from unittest import mock

import numpy
import torch
from torch.utils import data as torch_data

from data import Case, Count, Drawn, LOADERS, Made, Marks, Squares, numbers, stoker_loader, wait_for
from processes import children, descendants, of_parent, private_dev_shm, there
from stoker.torch import _iterator, _native
from stoker.torch._message import END

DEATHS = {
    "a segmentation fault": lambda: ctypes.string_at(0),
    "SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "SIGABRT": os.abort,
    "SIGRTMIN": lambda: os.kill(os.getpid(), signal.SIGRTMIN),
    "an exit": lambda: os._exit(3),
    "an exit of 0": lambda: os._exit(0),
}


class Dies(Drawn):
    """Dies in one of its samples, behind its draws, the first `times` times that it comes there."""
    def __init__(self, size, at, how, folder, times=1):
        super().__init__(size)
        self.at, self.how, self.times = at, how, times
        self.marks = Marks(folder)

    def __getitem__(self, index):
        drawn = super().__getitem__(index)
        if index == self.at:
            before = self.marks.read()
            self.marks.add(f"{os.getpid()} {time.monotonic()}")
            if len(before) < self.times:
                DEATHS[self.how]()
        return drawn


class Sleeps(torch_data.Dataset):
    """Sample 0 of each worker comes at once; the next never."""
    def __init__(self, how="sleep"):
        self.how, self.taken = how, 0

    def __len__(self):
        return 100

    def __getitem__(self, index):
        self.taken += 1
        if self.taken > 1 and self.how == "sleep":
            time.sleep(300)
        if self.taken > 1 and self.how == "hold":  # C code that does not release the interpreter's lock
            ctypes.PyDLL(None).sleep(300)
        return index


class Deaths(Case):
    def of_torch(self, size, batch_size, **options):
        torch.manual_seed(5)
        return list(torch_data.DataLoader(Drawn(size), batch_size, True, **options))

    def test_in_a_sample(self):
        """Another worker goes on where it was: the epoch is PyTorch's undisturbed one, random numbers included."""
        for how, workers, options in (("a segmentation fault", 1, {}), ("a segmentation fault", 2, {}), ("SIGKILL", 2, {}),
                                      ("SIGKILL", 3, dict(persistent_workers=True)), ("SIGABRT", 2, {}), ("an exit", 2, {}),
                                      ("an exit of 0", 2, {})):
            wanted = self.of_torch(40, 3, num_workers=workers)
            for at in (wanted[0][0][0].item(), wanted[6][0][1].item(), wanted[-1][0][-1].item()):
                with self.subTest(how=how, workers=workers, at=at):
                    torch.manual_seed(5)
                    dataset = Dies(40, at, how, self.folder())
                    loader = stoker_loader(dataset, 3, True, num_workers=workers, **options)
                    with self.assertLogs("stoker", "WARNING") as logs:
                        got = list(loader)
                    self.assertSame(got, wanted)
                    dead, live = (line.split()[0] for line in dataset.marks.read())
                    self.assertRegex(logs.output[0], rf"\b{dead}\b")
                    self.assertRegex(logs.output[0], rf"\b{at}\b")
                    self.assertNotEqual(dead, live)
                    self.assertGone([int(dead)])

    def test_workers_are_at_work_again_soon(self):
        for context in ("fork", "forkserver"):
            with self.subTest(context=context):
                dataset = Dies(12, 4, "SIGKILL", self.folder())
                loader = stoker_loader(dataset, 1, num_workers=2, multiprocessing_context=context)
                with self.assertLogs("stoker", "WARNING"):
                    self.assertEqual([batch[0].item() for batch in loader], list(range(12)))
                died, again = (float(line.split()[1]) for line in dataset.marks.read())
                self.assertLess(again - died, 2)

    def test_a_batch_that_kills_twice(self):
        """It fails with its indices; all others are those of no death."""
        for persistent in (False, True):
            dataset = Dies(20, 7, "SIGKILL", self.folder(), times=100)
            iterator = iter(stoker_loader(dataset, 2, num_workers=2, persistent_workers=persistent))
            with self.assertLogs("stoker", "WARNING"), self.assertRaisesRegex(RuntimeError, r"is killed by signal: Killed.*\[6, 7\]"):
                got = [next(iterator)[0].tolist() for _ in range(3)]
                next(iterator)
            got += [indices.tolist() for indices, *_ in iterator]
            self.assertEqual(got, [[i, i + 1] for i in range(0, 20, 2) if i != 6])
            self.assertEqual(len(dataset.marks.read()), 2)

    def test_on_worker_error_fail(self):
        for name, text in (("SIGKILL", "Killed"), ("a segmentation fault", "Segmentation fault"), ("SIGRTMIN", "Real-time signal 0")):
            dataset = Dies(20, 7, name, self.folder())
            iterator = iter(stoker_loader(dataset, 2, num_workers=2, on_worker_error="fail"))
            with self.assertRaisesRegex(RuntimeError, rf"DataLoader worker \(pid \d+\) is killed by signal: {text}"):
                list(iterator)
            self.assertEqual(len(dataset.marks.read()), 1)
            self.eventually(lambda: not children(), "workers are left")
            with self.assertRaises(StopIteration):
                next(iterator)

    def test_of_a_stream(self):
        """Its place is not known: it fails."""
        class Stream(torch_data.IterableDataset):
            def __iter__(self):
                yield from range(4)
                os.kill(os.getpid(), signal.SIGKILL)
        with self.assertRaisesRegex(RuntimeError, "is killed by signal: Killed"):
            list(stoker_loader(Stream(), 1, num_workers=2))
        self.eventually(lambda: not children(), "workers are left")

    def test_between_epochs(self):
        """Persistent workers that die while nobody waits for them."""
        loader = stoker_loader(Squares(10), 2, num_workers=2, persistent_workers=True)
        wanted = numbers(loader)
        for victims in (1, 2):
            for pid in children()[:victims]:
                os.kill(pid, signal.SIGKILL)
            with self.assertLogs("stoker", "WARNING"):
                self.assertEqual(numbers(loader), wanted)
        self.assertEqual(len(children()), 2)
        del loader
        self.eventually(lambda: not children(), "workers are left")

    def test_a_batch_that_kills_twice_in_a_later_epoch(self):
        """Persistent workers: what says that the epoch begins comes before it."""
        folder = self.folder()
        armed = Marks(folder, "armed")

        def sample(index):
            if index == 2 and armed.read():
                armed.add("dies")
                os.kill(os.getpid(), signal.SIGKILL)
            if index == 0 and armed.read():  # not before the other worker's deaths
                self.eventually(lambda: len(armed.read()) > 2, "no deaths")
                time.sleep(0.3)
            return index
        loader = stoker_loader(Made(20, sample), 2, num_workers=2, persistent_workers=True)
        wanted = numbers(loader)
        armed.add("now")
        iterator = iter(loader)
        with self.assertLogs("stoker", "WARNING"):
            got = [next(iterator).tolist()]
        with self.assertRaisesRegex(RuntimeError, r"is killed by signal: Killed.*\[2, 3\]"):
            next(iterator)
        self.assertEqual(got + numbers(iterator), wanted[:1] + wanted[2:])

    def test_random_numbers_of_positions_in_a_later_epoch(self):
        def run(dataset):
            torch.manual_seed(5)
            loader = stoker_loader(dataset, 3, True, num_workers=2, persistent_workers=True, rng="stoker")
            return [list(loader) for _ in range(2)]
        wanted = run(Drawn(40))

        class DiesLater(Dies):
            def __getitem__(self, index):
                self.marks.add("came") if index == self.at else None
                if index == self.at and len(self.marks.read()) == 2:
                    os.kill(os.getpid(), signal.SIGKILL)
                return Drawn.__getitem__(self, index)
        for at in (wanted[1][6][0][1].item(), wanted[1][-1][0][-1].item()):
            with self.assertLogs("stoker", "WARNING"):
                self.assertSame(run(DiesLater(40, at, "SIGKILL", self.folder())), wanted)

    def test_in_worker_init_fn(self):
        """No worker of it ever works: an error, not a loop without end."""
        with self.assertLogs("stoker", "WARNING"), self.assertRaisesRegex(RuntimeError, "exited unexpectedly with exit code 1"):
            list(stoker_loader(Squares(4), 2, num_workers=1, worker_init_fn=lambda worker: os._exit(1)))

    def test_in_worker_init_fn_without_a_batch(self):
        """More workers than batches: one that cannot start is not started for ever."""
        folder = self.folder()

        def begin(worker):
            if worker == 2:
                starts.add(worker)
                os._exit(3)
        for persistent in (False, True):
            starts = Marks(folder, str(persistent))
            loader = stoker_loader(Made(2, lambda i: time.sleep(1) or i), 1, num_workers=3, worker_init_fn=begin, persistent_workers=persistent)
            with self.assertLogs("stoker", "WARNING"), self.assertRaisesRegex(RuntimeError, "with exit code 3"):
                list(loader)
            self.assertEqual(len(starts.read()), 2)

    def test_of_a_stream_that_has_ended(self):
        """What its worker is asked for since then is no batch that could fail."""
        class Short(torch_data.IterableDataset):
            at = 0

            def __iter__(self):
                first = torch_data.get_worker_info().id == 0
                while self.at < (8 if first else 1):
                    if self.at == 7:  # not before the other one has died twice
                        wait_for(marks.path + ".twice")
                    self.at += 1
                    yield self.at

            def state_dict(self):
                return self.at

            def load_state_dict(self, state):
                self.at = state
                marks.add(os.getpid())
                if len(marks.read()) == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
                Path(marks.path + ".twice").touch()
        for taken, in_order in ((2, True), (4, True), (1, False), (2, False), (3, False), (4, False)):
            marks = Marks(self.folder())
            iterator = iter(stoker_loader(Short(), None, num_workers=2, prefetch_factor=4, in_order=in_order))
            got = [next(iterator) for _ in range(taken)]
            short = iterator._processes[1]

            def ended():
                iterator._received(short)
                return not short.active or any(answer.kind == END for answer in short.answers)
            self.eventually(ended, "the end is not said")
            os.kill(short.process.pid, signal.SIGKILL)
            with self.assertLogs("stoker", "WARNING"):
                got += list(iterator)
            self.assertEqual(sorted(got), [1, *range(1, 9)])
            self.assertGreater(len(marks.read()), 1)

    def test_out_of_order(self):
        dataset = Dies(30, 7, "SIGKILL", self.folder())
        with self.assertLogs("stoker", "WARNING"):
            got = [batch[0].item() for batch in stoker_loader(dataset, 1, num_workers=3, in_order=False)]
        self.assertEqual(sorted(got), list(range(30)))

    def test_with_batches_that_are_kept(self):
        """Memory of a dead worker stays the consumer's."""
        for how in ("SIGKILL", "a segmentation fault"):
            dataset = Dies(60, 31, how, self.folder())
            with self.assertLogs("stoker", "WARNING"):
                kept = list(stoker_loader(dataset, 2, num_workers=2))
            self.assertEqual([batch[0].tolist() for batch in kept], [[i, i + 1] for i in range(0, 60, 2)])

    def test_by_a_limit_of_memory(self):
        """What a sample cannot have is an exception of the sample."""
        def greedy(index):
            if index == 2:
                resource.setrlimit(resource.RLIMIT_AS, (1 << 34, resource.getrlimit(resource.RLIMIT_AS)[1]))
                return numpy.ones(1 << 36)
            return index
        iterator = iter(stoker_loader(Made(4, greedy), 1, num_workers=1))
        self.assertEqual([next(iterator).item() for _ in range(2)], [0, 1])
        with self.assertRaisesRegex((MemoryError, RuntimeError), "MemoryError.*index 2"):
            next(iterator)


class Hangs(Case):
    def stuck(self, index):
        if index == 3:
            self.marks.add(os.getpid())
            if len(self.marks.read()) <= self.times:
                here_it_hangs(self.how)
        return index

    def loader(self, how, times=1, **options):
        self.marks, self.how, self.times = Marks(self.folder()), how, times
        return stoker_loader(Made(8, self.stuck), 1, num_workers=2, **options)

    def test_named_with_its_stack_and_ended(self):
        for how in ("sleep", "hold", "loop", "stop"):
            with self.subTest(how=how):
                iterator = iter(self.loader(how, timeout=0.5))
                got = [next(iterator).item() for _ in range(3)]
                with self.assertRaisesRegex(RuntimeError, "timed out after 0.5 seconds") as caught:
                    next(iterator)
                pid = int(self.marks.read()[0])
                self.assertIn(str(pid), str(caught.exception))
                if how != "stop":  # a process that is stopped says nothing
                    self.assertIn("here_it_hangs", str(caught.exception))
                self.eventually(lambda: state(pid) in ("gone", "Z"), "it was not ended", 2)
                got += [batch.item() for batch in iterator]  # who goes on has it done by another
                self.assertEqual(got, list(range(8)))

    def test_named_without_a_timeout(self):
        with mock.patch.object(_iterator, "_LOOK", 0.3), self.assertLogs("stoker", "WARNING") as logs:
            iterator = iter(self.loader("until", times=1))
            got = []
            for batch in iterator:
                got.append(batch.item())
        self.assertEqual(got, list(range(8)))
        self.assertIn("here_it_hangs", logs.output[0])
        self.assertRegex(logs.output[0], rf"pid {self.marks.read()[0]}\b")

    def test_named_while_it_starts(self):
        """The signal that asks for its stack does not end a worker that cannot answer yet."""
        with mock.patch.object(_iterator, "_LOOK", 0.1), self.assertLogs("stoker", "WARNING") as logs:
            self.assertEqual(numbers(stoker_loader(Squares(4), 2, num_workers=1, multiprocessing_context="spawn")), [[0, 1], [4, 9]])
        self.assertNotRegex("".join(logs.output), "exited unexpectedly|is killed")
        self.assertIn("its start", logs.output[0])

    def test_a_timeout_is_for_one_batch(self):
        loader = stoker_loader(Made(8, lambda i: time.sleep(0.3) or i), 1, num_workers=1, timeout=2)
        self.assertEqual([batch.item() for batch in loader], list(range(8)))

    def test_the_end_of_a_loader_whose_worker_hangs(self):
        self.no_patience()
        for how in ("sleep", "hold", "stop"):
            iterator = iter(self.loader(how))
            next(iterator)
            self.eventually(lambda: self.marks.read(), "no worker hangs")
            began = time.monotonic()
            del iterator
            self.eventually(lambda: not children(), "workers are left", 20)
            self.assertLess(time.monotonic() - began, 15)


def command(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "gone"


def here_it_hangs(how):
    if how == "sleep":
        time.sleep(300)
    elif how == "hold":
        ctypes.PyDLL(None).sleep(300)
    elif how == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif how == "until":
        time.sleep(1)
    while how == "loop":
        pass


class Consumers(Case):
    CODE = ("import sys\nfrom data import stoker_loader\nfrom test_crash import Sleeps\n"
            "iterator = iter(stoker_loader(Sleeps(sys.argv[2]), 1, num_workers=2, multiprocessing_context=sys.argv[1]))\n"
            "next(iterator), next(iterator)\nprint('ready', flush=True)\nsys.stdin.read()\n")

    def test_killed(self):
        """Whatever the workers are at, they end within 2 s, and so do the helpers of multiprocessing."""
        started = {(context, how): subprocess.Popen([sys.executable, "-c", self.CODE, context, how], stdin=subprocess.PIPE,
                                                    stdout=subprocess.PIPE, cwd=Path(__file__).parent, text=True)
                   for context, how in (("fork", "hold"), ("forkserver", "sleep"), ("spawn", "sleep"))}
        for (context, how), child in started.items():
            with self.subTest(context=context):
                self.addCleanup(child.communicate)
                self.addCleanup(child.kill)
                self.assertEqual(child.stdout.readline(), "ready\n")
                found = descendants(child.pid)
                workers = [pid for pid in found if b"resource_tracker" not in command(pid) and b"forkserver import main" not in command(pid)]
                workers += [pid for server in set(found) - set(workers) for pid in of_parent(server)]
                self.assertEqual(len(workers), 2)
                child.kill()
                child.wait()
                self.assertGone(workers, 2)
                self.assertGone(found, 60)  # a fork server that has imported torch has a long end

    def test_killed_at_any_moment(self):
        """Also while its workers start: a fork of this process that is killed."""
        draw = random.Random(4)
        for i in range(15):
            child = os.fork()
            if child == 0:
                try:
                    while True:
                        numbers(stoker_loader(Squares(50), 1, num_workers=3, persistent_workers=i % 2 == 0))
                finally:
                    os._exit(1)
            time.sleep(draw.random() * 0.3)
            os.kill(child, signal.SIGSTOP)  # it starts no more while they are counted
            found = descendants(child)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            self.assertGone(found, 2)

    def test_interrupted_while_a_loop_goes(self):
        """What is raised in a __del__() is lost: Ctrl-C comes behind it."""
        def leave(loop):
            os.kill(os.getpid(), signal.SIGINT)
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        for module, options in ((_iterator, dict(num_workers=0)), (_iterator, dict(num_workers=2)),
                                (_iterator, dict(num_workers=2, workers="thread")), (_native, dict(native="auto"))):
            loader = stoker_loader(torch_data.TensorDataset(torch.arange(6)), 2, **dict(dict(native=False), **options))
            with self.subTest(options), self.assertRaises(KeyboardInterrupt), mock.patch.object(module, "leave", leave):
                next(iter(loader))
                gc.collect()
                for _ in range(2000):  # it wakes no sleep
                    time.sleep(0.01)
            self.eventually(lambda: not children(), "workers are left")

    def test_interrupted_with_its_workers(self):
        """Ctrl-C reaches all processes of a terminal: one KeyboardInterrupt, of the consumer, and no other word."""
        draw = random.Random(6)
        for _ in range(10):
            said = os.path.join(self.folder(), "said")
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                self.interrupted(said, writing)
            os.close(writing)
            self.assertEqual(os.read(reading, 1), b"r")
            os.close(reading)
            time.sleep(draw.random() * 0.3)
            os.killpg(child, signal.SIGINT)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7, Path(said).read_text())
            self.assertEqual(Path(said).read_text(), "")

    def interrupted(self, said, writing):
        status = 1
        os.setsid()
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT, 0o600), 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        warnings.simplefilter("ignore", ResourceWarning)  # of what the interpreter itself had open
        files = len(os.listdir("/proc/self/fd"))
        try:
            os.write(writing, b"r")
            while True:
                numbers(stoker_loader(Made(30, lambda i: time.sleep(0.001) or i), 1, num_workers=2))
        except KeyboardInterrupt:
            status = 7
        finally:
            gc.collect()  # the iterator was held by the traceback
            os._exit(8 if children() else 9 if len(os.listdir("/proc/self/fd")) != files else status)


class Machines(Case):
    def in_a_child(self, check):
        """Runs check() in a fork of this process: what it limits ends with it."""
        said = os.path.join(self.folder(), "said")
        child = os.fork()
        if child == 0:
            status = 1
            try:
                check()
                status = 0
            except unittest.SkipTest:
                status = 77
            except BaseException:
                import traceback
                Path(said).write_text(traceback.format_exc())
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == 77:
            self.skipTest("user and mount namespaces are not allowed here: no small /dev/shm")
        self.assertEqual(status, 0, os.path.exists(said) and Path(said).read_text())

    def test_dev_shm_of_64_kib(self):
        """torch's cannot; ours needs nothing of it."""
        def large(index):
            return numpy.full((3, 200, 200), index, "f4"), index

        def own(samples):
            return {"images": torch.stack([torch.from_numpy(image) for image, _ in samples]), "labels": [label for _, label in samples]}

        def check():
            if not private_dev_shm("64k"):
                raise unittest.SkipTest
            for options in (dict(), dict(collate_fn=own), dict(persistent_workers=True)):
                kept = list(stoker_loader(Made(60, large), 4, num_workers=2, **options))
                for k, batch in enumerate(kept):
                    images = batch["images"] if "collate_fn" in options else batch[0]
                    assert images.shape == (4, 3, 200, 200) and images[:, 0, 7, 7].tolist() == list(range(4 * k, 4 * k + 4))
            assert os.listdir("/dev/shm") == []
            logging.disable()
            try:
                list(LOADERS["Torch"](Made(60, large), 4, num_workers=2))
            except (RuntimeError, OSError):
                pass
            else:
                raise AssertionError("64 KiB of /dev/shm are enough for torch's: this test shows nothing")
        self.in_a_child(check)

    def test_no_locked_memory(self):
        def check():
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
            assert numbers(stoker_loader(Squares(6), 2, num_workers=2)) == [[0, 1], [4, 9], [16, 25]]
        self.in_a_child(check)

    def test_few_descriptors(self):
        """One OSError, and nothing is left; as many as are needed do."""
        def check():
            own = max(map(int, os.listdir("/proc/self/fd"))) + 1
            while os.dup(0) < own:  # no gaps: the limit is for the numbers
                pass
            own += 1
            refused = 0
            for room in range(0, 40):
                resource.setrlimit(resource.RLIMIT_NOFILE, (own + room, 4096))
                try:
                    got = numbers(stoker_loader(Squares(6), 2, num_workers=2))
                except OSError as error:
                    assert error.errno == 24, error
                    refused += 1
                else:
                    assert got == [[0, 1], [4, 9], [16, 25]]
                    break
                resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
                gc.collect()
                deadline = time.monotonic() + 10
                while children() and time.monotonic() < deadline:
                    time.sleep(0.005)
                assert not children(), room
                # where its second pipe fails multiprocessing forgets the first
                assert len(os.listdir("/proc/self/fd")) <= own + 3, room
                os.closerange(own, own + room)
            else:
                raise AssertionError("40 descriptors are not enough")
            assert refused > 3, refused
        self.in_a_child(check)

    def test_an_answer_that_cannot_be_taken(self):
        """For want of descriptors or memory: an OSError, and whoever goes on has this batch, too."""
        def check(limit, small):
            loader = stoker_loader(Made(12, lambda i: torch.full((4000000,), i)), 2, num_workers=2)
            iterator = iter(loader)
            for process in iterator._processes:
                select.select([process.socket], [], [], 60)
            before = resource.getrlimit(limit)
            resource.setrlimit(limit, (small(), before[1]))
            with self.assertRaises(OSError) as caught:
                next(iterator)
            resource.setrlimit(limit, before)
            self.assertIn(caught.exception.errno, (errno.EMFILE, errno.ENOMEM))
            with self.assertLogs("stoker", "WARNING"):
                self.assertEqual([batch[:, 0].tolist() for batch in iterator], [[i, i + 1] for i in range(0, 12, 2)])
        full = lambda: int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        for limit, small in ((resource.RLIMIT_NOFILE, lambda: 3), (resource.RLIMIT_AS, lambda: full() + (1 << 25))):
            with self.subTest(limit=limit):
                self.in_a_child(lambda: check(limit, small))

    def test_a_file_size_limit(self):
        """RLIMIT_FSIZE also counts for memfds: an error, not a hang."""
        def check():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
            try:
                list(stoker_loader(Made(8, lambda i: torch.ones(100000)), 2, num_workers=2))
            except (RuntimeError, OSError):
                pass
        self.in_a_child(check)

    def test_a_slab_that_cannot_be_had(self):
        """An error of the batch that has too much, and its worker goes on."""
        def check():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
            samples = [b"0", b"1", bytes(1 << 21), b"3"]
            iterator = iter(stoker_loader(Made(4, samples.__getitem__), None, num_workers=1))
            assert [next(iterator), next(iterator)] == samples[:2]
            try:
                next(iterator)
            except OSError as error:
                assert "index 2" in str(error), error
            else:
                raise AssertionError("no error")
            assert list(iterator) == samples[3:]
        self.in_a_child(check)


if __name__ == "__main__":
    unittest.main()
