# SPDX-License-Identifier: Apache-2.0
"""One epoch of a loader: in this process, or by worker processes."""
from __future__ import annotations

import functools
import itertools
import logging
import multiprocessing.forkserver
import os
import pickle
import select
import signal
import socket
import time
import warnings
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import IterDataPipe, MapDataPipe, _DatasetKind, _utils
from torch.utils.data.dataloader import _BaseDataLoaderIter, _MultiProcessingDataLoaderIter, _sharding_worker_init_fn

from stoker import _native
from stoker.torch._message import END, EPOCH, ERROR, TASK, Answer, Task, receive_answer, send_task, value_of
from stoker.torch._worker import Descriptor, Fetcher, Plan, main

_LOG = logging.getLogger("stoker")
_IN_FLIGHT = 64  # tasks that lie in a socket: their answers fit in the other direction
_LOOK = 60.0  # seconds of waiting before a worker is named, where no timeout is given
_END = 5.0  # seconds that workers have to end


def _plan(base: Any, loader: Any) -> Plan:
    init_fn = loader.worker_init_fn
    if isinstance(base._dataset, (IterDataPipe, MapDataPipe)):
        init_fn = functools.partial(_sharding_worker_init_fn, init_fn, base._world_size, base._rank)
    return Plan(
        dataset=base._dataset, iterable=base._dataset_kind == _DatasetKind.Iterable,
        auto_collation=base._auto_collation, collate_fn=base._collate_fn, drop_last=base._drop_last,
        base_seed=base._base_seed, init_fn=init_fn, num_workers=base._num_workers, shared_seed=base._shared_seed,
        positions=loader.rng == "stoker")


def _exception_of(error: Any) -> Exception:
    """Without a variable that holds it in any frame: such a cycle would keep the workers alive."""
    try:
        error.reraise()
    except Exception as e:
        return e.with_traceback(None)
    raise AssertionError("an error that is none")


class _Base(_BaseDataLoaderIter):
    """PyTorch's, with the note for its profiler only where that runs."""

    def __next__(self) -> Any:
        if torch._C._autograd._profiler_enabled() or self._dataset_kind == _DatasetKind.Iterable:
            return super().__next__()
        data: Any = self._next_data()
        self._num_yielded += 1
        return data

    def _index(self) -> Any:
        return next(self._sampler_iter)

    def _pinned(self, batch: Any) -> Any:
        pin: Any = _utils.pin_memory.pin_memory
        return pin(batch, self._pin_memory_device) if self._pin_memory else batch


class Inline(_Base):
    """Batches made in this process."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        if self._timeout != 0:
            raise AssertionError("timeout needs num_workers > 0")
        if isinstance(self._dataset, (IterDataPipe, MapDataPipe)):
            torch.utils.data.graph_settings.apply_sharding(self._dataset, self._world_size, self._rank)
        self._fetcher = Fetcher(_plan(self, loader), self._dataset)

    def _next_data(self) -> Any:
        return self._pinned(self._fetcher.fetch(self._index()))


class _Task:
    """A batch that a worker has to make."""

    def __init__(self, kind: int, epoch: int, number: int, index: Any) -> None:
        self.task = Task(kind, epoch, number, index)
        self.deaths = 0


class _Process:
    """A worker as its consumer sees it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.tasks: deque[_Task] = deque()  # sent or to be sent, and not answered
        self.sent = 0  # of them, from the first
        self.answers: deque[Answer] = deque()  # received, and not given
        self.active = True  # has more to give in this epoch
        self.state: bytes | None = None  # random state behind the last answer
        self.given: bytes | None = None  # behind the last that the consumer has

    def start(self, context: Any, plan: Plan, consumer: Descriptor, inherited: list[int]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.stack = os.memfd_create("stoker-stack")
        self.slabs: dict[int, _native.Slab] = {}
        self.sent = 0
        forked = context.get_start_method() == "fork"
        self.process = context.Process(
            target=main, daemon=True,
            args=(plan, self.number, theirs, consumer, Descriptor(self.stack),
                  [*inherited, ours.fileno()] if forked else [], self.state))
        try:
            self.process.start()
        except BaseException:
            ours.close()
            os.close(self.stack)
            raise
        finally:
            theirs.close()
        self.socket = ours
        self.pidfd = os.pidfd_open(self.process.pid)

    def dispatch(self) -> None:
        """Send what the socket takes. A worker that is gone is seen later."""
        try:
            while self.sent < min(len(self.tasks), _IN_FLIGHT):
                send_task(self.socket, self.tasks[self.sent].task)
                self.sent += 1
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            pass

    def receive(self) -> bool:
        """Take one answer from the socket. False: there is none. EOFError: there will be none."""
        try:
            answer = receive_answer(self.socket, self.slabs)
        except BlockingIOError:
            return False
        except ConnectionResetError:
            answer = None
        if answer is None:
            raise EOFError
        while self.tasks and self.tasks[0].task[:3] != (TASK, answer.epoch, answer.number):  # they have no answer
            self.tasks.popleft()
            self.sent -= 1
        self.tasks.popleft()
        self.sent -= 1
        self.state = answer.state
        self.answers.append(answer)
        if answer.kind == END:
            self.drop_until_epoch(answer.epoch)
        elif len(self.tasks) > self.sent:
            self.dispatch()
        return True

    def drop_until_epoch(self, epoch: int) -> None:
        """A worker that has come to its end leaves the rest of the tasks of that epoch unanswered."""
        while self.tasks and self.tasks[0].task.epoch == epoch:
            self.tasks.popleft()
            self.sent = max(0, self.sent - 1)

    def python_stack(self) -> str:
        """Where it is, as faulthandler writes it."""
        before = os.fstat(self.stack).st_size
        try:
            os.kill(self.process.pid, signal.SIGUSR1)
        except ProcessLookupError:
            return ""
        for _ in range(50):
            time.sleep(0.01)
            size = os.fstat(self.stack).st_size
            if size > before and size == before + len(text := os.pread(self.stack, size - before, before)):
                if text.count(b"\n") > 1:
                    time.sleep(0.02)
                    return os.pread(self.stack, 1 << 16, before).decode(errors="replace")
        return ""

    def kill(self) -> None:
        self.process.kill()

    def close(self) -> None:
        """Its descriptors; the process has ended."""
        self.process.close()
        self.socket.close()
        os.close(self.pidfd)
        os.close(self.stack)
        self.slabs.clear()


def _preload(context: Any) -> None:
    """A fork server that has imported torch starts a worker in a tenth of a second instead of seconds."""
    if context.get_start_method() == "forkserver":
        known = multiprocessing.forkserver._forkserver._preload_modules  # type: ignore[attr-defined]
        context.set_forkserver_preload([*known, *(m for m in ("torch", "stoker.torch") if m not in known)])


class Workers(_Base, _MultiProcessingDataLoaderIter):
    """Batches made by worker processes, in the order and by the workers that PyTorch's loader has."""

    def __init__(self, loader: Any) -> None:
        self._processes: list[_Process] = []
        self._pid = os.getpid()
        _BaseDataLoaderIter.__init__(self, loader)
        if loader.prefetch_factor <= 0:
            raise AssertionError("prefetch_factor must be greater than 0 with workers")
        self._prefetch: int = loader.prefetch_factor
        self._in_order: bool = loader.in_order
        self._restart = loader.on_worker_error == "restart"
        self._context = loader.multiprocessing_context or torch.multiprocessing.get_context()
        self._plan = _plan(self, loader)
        self._epoch = -1
        self._poll = select.poll()
        _preload(self._context)
        self._consumer = Descriptor(os.pidfd_open(self._pid))
        self._start_epoch()

    # ---- Processes ----

    @property
    def _workers(self) -> list[Any]:  # type: ignore[override]
        return [process.process for process in self._processes]

    def _start(self, process: _Process) -> None:
        inherited = [p.socket.fileno() for p in self._processes if p is not process]
        try:
            process.start(self._context, self._plan, self._consumer, inherited)
        except (TypeError, AttributeError, pickle.PicklingError):
            warnings.warn(
                "A worker cannot be started, as what it is given cannot be pickled: the dataset, collate_fn or worker_init_fn. "
                "With multiprocessing_context='fork' nothing is pickled.", stacklevel=2)
            raise
        self._poll.register(process.socket, select.POLLIN)
        self._poll.register(process.pidfd, select.POLLIN)

    def _end(self, process: _Process) -> int | None:
        """Reap a process that has ended or been killed: its exit code."""
        self._poll.unregister(process.socket)
        self._poll.unregister(process.pidfd)
        process.process.join()
        code: int | None = process.process.exitcode
        process.close()
        return code

    def _replace(self, process: _Process) -> None:
        """A worker has died: another one goes on where its last answer ended, or the batch fails."""
        pid = process.process.pid
        code = self._end(process)
        how = f"by {signal.Signals(-code).name}" if code is not None and code < 0 else f"with exit code {code}"
        message = f"DataLoader worker (pid(s) {pid}) exited unexpectedly, {how}"
        first = process.tasks[0] if process.tasks else None
        if first is not None:
            first.deaths += 1
            message += f", in the batch of {first.task.index!r}"
        if not self._restart or self._plan.iterable:
            self._shutdown_workers(gone=process)
            raise RuntimeError(message)
        if first is not None and first.deaths > 1:
            process.tasks.popleft()
            self._failures[first.task.number] = message + ", as the worker before it did"
        else:
            _LOG.warning("%s: another one does its work again", message)
        self._start(process)
        process.dispatch()

    def _shutdown_workers(self, gone: _Process | None = None) -> None:
        if os.getpid() != self._pid or _utils is None or _utils.python_exit_status is not False:
            return
        live = [p for p in self._processes if p is not gone]
        self._processes = []
        for process in live:
            process.socket.shutdown(socket.SHUT_RDWR)
        deadline = time.monotonic() + _END
        for process in live:
            process.process.join(max(0.0, deadline - time.monotonic()))
            if process.process.exitcode is None:
                process.process.terminate()
                process.process.join(1)
            if process.process.exitcode is None:
                process.kill()
                process.process.join()
            process.close()
        if live or gone:
            os.close(self._consumer.fd)

    def __del__(self) -> None:
        if getattr(self, "_processes", None):
            self._shutdown_workers()

    # ---- Tasks ----

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        _BaseDataLoaderIter._reset(self, loader, first_iter)
        self._start_epoch()

    def _start_epoch(self) -> None:
        self._epoch += 1
        self._sent = self._given = 0  # batches of this epoch
        self._owner: dict[int, _Process] = {}
        self._failures: dict[int, str] = {}
        fresh = not self._processes
        if fresh:
            self._processes = []
            for number in range(self._num_workers):
                process = _Process(number)
                self._start(process)
                self._processes.append(process)
        self._turn = itertools.cycle(self._processes)
        for process in self._processes:
            process.active = True
            process.answers.clear()
            if not fresh:
                process.tasks.append(_Task(EPOCH, self._epoch, 0, self._shared_seed))
                process.dispatch()
        self._counts = dict.fromkeys(range(self._num_workers), 0)
        for _ in range(self._prefetch * self._num_workers):
            self._send_next()

    def _choose(self) -> _Process | None:
        most = self._prefetch * self._num_workers
        for process in itertools.islice(self._turn, self._num_workers):
            if process.active and (
                self._in_order or self._counts[process.number] < most // sum(p.active for p in self._processes)
            ):
                return process
        return None

    def _send_next(self) -> None:
        try:
            index = self._index()
        except StopIteration:
            return
        process = self._choose()
        if process is None:
            return
        process.tasks.append(_Task(TASK, self._epoch, self._sent, index))
        self._owner[self._sent] = process
        self._counts[process.number] += 1
        self._sent += 1
        process.dispatch()

    # ---- Batches ----

    def _ready(self) -> tuple[int, _Process, Answer | None] | None:
        """The next batch that may be given, if it is here: its number, worker and answer (None: it failed)."""
        while self._in_order or not self._owner:
            if self._given >= self._sent:
                raise StopIteration
            process = self._owner.get(self._given)
            if process is not None and (process.active or process.answers):
                break
            self._owner.pop(self._given, None)
            self._given += 1
        candidates = [process] if self._in_order and process else self._processes
        for candidate in candidates:
            while candidate.answers or self._received(candidate):
                answer = candidate.answers.popleft()
                if answer.epoch != self._epoch:
                    continue
                if answer.kind == END:
                    self._retire(candidate)
                    return self._ready()
                return answer.number, candidate, answer
        for number in self._failures:
            if not self._in_order or number == self._given:
                return number, self._owner[number], None
        return None

    def _received(self, process: _Process) -> bool:
        try:
            return process.receive()
        except EOFError:
            return False  # the wait finds out

    def _retire(self, process: _Process) -> None:
        process.active = False
        self._owner = {number: owner for number, owner in self._owner.items() if owner is not process}
        self._send_next()

    def _next_data(self) -> Any:
        if not self._processes:
            raise StopIteration
        deadline = time.monotonic() + (self._timeout or _LOOK)
        try:
            while (found := self._ready()) is None:
                deadline = self._wait(deadline)
        except StopIteration:
            if not self._persistent_workers:
                self._shutdown_workers()
            raise
        number, process, answer = found
        del self._owner[number]
        self._given += number == self._given
        self._counts[process.number] -= 1
        self._send_next()
        if answer is None:
            raise RuntimeError(self._failures.pop(number))
        process.given = answer.state
        value = value_of(answer)
        if answer.kind == ERROR:
            raise _exception_of(value)
        return self._pinned(value)

    def _wait(self, deadline: float) -> float:
        """Wait for anything to happen. The time at which patience ends."""
        events = self._poll.poll(1000 * max(0.0, deadline - time.monotonic()))
        if not events:
            return self._late()
        ready = {fd for fd, _ in events}
        for process in list(self._processes):
            if process.pidfd in ready:
                while self._received(process):
                    pass
                self._replace(process)
            elif process.socket.fileno() in ready:
                self._received(process)
        return deadline

    def _late(self) -> float:
        """Time is over: name the worker that is waited for, and end it where a timeout was given."""
        owner = self._owner.get(self._given)
        late = [owner] if self._in_order and owner else [p for p in self._processes if p.tasks]
        text = "".join(f"\nworker {p.number} (pid {p.process.pid}) is at\n{p.python_stack()}" for p in late)
        if not self._timeout:
            _LOG.warning("no batch for %.0f seconds:%s", _LOOK, text)
            return time.monotonic() + 2 * _LOOK
        for process in late:
            process.kill()
        raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds{text}")
