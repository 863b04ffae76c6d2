# SPDX-License-Identifier: Apache-2.0
"""One epoch of a loader: in this process, or by worker processes."""
from __future__ import annotations

import functools
import itertools
import logging
import os
import pickle
import select
import signal
import socket
import time
import warnings
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import IterDataPipe, MapDataPipe, RandomSampler, _DatasetKind, _utils
from torch.utils.data.dataloader import _BaseDataLoaderIter, _MultiProcessingDataLoaderIter, _sharding_worker_init_fn

from stoker import _native
from stoker.torch import _random
from stoker.torch._message import END, EPOCH, ERROR, TASK, Answer, value_of
from stoker.torch._openmp import one_thread
from stoker.torch._process import Process, Work, check_process, preload, uninterrupted
from stoker.torch._state import Moment, Place, generators_of, go_on, go_to, leave, length_of, to_bytes, to_tensor
from stoker.torch._worker import Descriptor, Fetcher, Plan

_LOG = logging.getLogger("stoker")
_LOOK = 60.0  # seconds of waiting before a worker is named, where no timeout is given
_MANY = 1000  # slabs of one worker
_LONG = 0.004  # seconds for which a worker has nothing to do, and this is worth a thought
_END = 5.0  # seconds that workers have to end


def plan_of(base: Any, loader: Any) -> Plan:
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


class Base(_BaseDataLoaderIter):
    """PyTorch's, with the note for its profiler only where that runs."""

    over = False  # the consumer has been told that the epoch has ended
    goes_on = False  # there are known to be more batches
    place: weakref.ref[Place] | None = None

    @uninterrupted(later=True)
    def __del__(self) -> None:
        leave(self)
        self._release()

    def _release(self) -> None:
        """End what makes batches, as far as it was begun."""

    def __next__(self) -> Any:
        try:
            if torch._C._autograd._profiler_enabled() or self._dataset_kind == _DatasetKind.Iterable:
                return super().__next__()
            data: Any = self._next_data()
        except StopIteration:
            self.over = True
            raise
        self._num_yielded += 1
        return data

    def _index(self) -> Any:
        return next(self._sampler_iter)

    def rest(self) -> dict[str, Any]:
        """What goes on with the next epoch."""
        return {}

    def _pinned(self, batch: Any) -> Any:
        pin: Any = _utils.pin_memory.pin_memory
        return pin(batch, self._pin_memory_device) if self._pin_memory else batch


class Inline(Base):
    """Batches made in this process."""

    def __init__(self, loader: Any, resumed: dict[str, Any] | None) -> None:
        self._generators = generators_of(loader)
        given = resumed["given"] if resumed else None
        if resumed and (given is None or resumed.get("made")):
            go_to(resumed["now"] if given is None else resumed["made"], self._generators)
        self._made = Moment(self._generators)
        super().__init__(loader)
        if self._timeout != 0:
            raise AssertionError("timeout needs num_workers > 0")
        if isinstance(self._dataset, (IterDataPipe, MapDataPipe)):
            torch.utils.data.graph_settings.apply_sharding(self._dataset, self._world_size, self._rank)
        place = to_bytes(resumed.get("place")) if resumed else None
        self._fetcher = Fetcher(plan_of(self, loader), self._dataset, place or b"")
        self._start: Moment | None = None  # before the first index: samplers draw then
        if resumed and given is not None:
            self._base_seed = resumed["base_seed"]
            self._skip(given, resumed["start"], make=self._dataset_kind == _DatasetKind.Iterable and not place)
            go_on(resumed, self._generators, self._num_workers)

    def _skip(self, count: int, start: dict[str, Any] | None, make: bool) -> None:
        """Batches that were given before; those of an iterable dataset that cannot say its place are made and left."""
        if start:
            go_to(start, self._generators)
        for _ in range(count):
            index = self._next_index_of_epoch()
            if make:
                self._fetcher.fetch(index)
        self._num_yielded = count

    def _next_index_of_epoch(self) -> Any:
        self._start = self._start or Moment(self._generators)
        return self._index()

    def _next_data(self) -> Any:
        index = self._next_index_of_epoch()
        if not self._fetcher.plan.positions:
            return self._pinned(self._fetcher.fetch(index))
        before = _random.current()
        self._fetcher.seed, self._fetcher.number = int(self._base_seed), self._num_yielded
        try:
            return self._pinned(self._fetcher.fetch(index))
        finally:
            _random.load(before)

    def state(self) -> dict[str, Any]:
        return {"given": self._num_yielded, "made": self._made.to_dict(), "start": self._start and self._start.to_dict(),
                "base_seed": self._base_seed, "place": to_tensor(self._fetcher.state() or None)}


class Workers(Base, _MultiProcessingDataLoaderIter):
    """Batches made by worker processes, in the order and by the workers that PyTorch's loader has."""

    def __init__(self, loader: Any, resumed: dict[str, Any] | None) -> None:
        self._processes: list[Process] = []
        self._workers: list[Any] = []  # as PyTorch's: they stay here when they have ended
        self._pid = os.getpid()
        self._consumer: Descriptor | None = None
        self._copying = False
        self._generators = generators_of(loader)
        if resumed and resumed["given"] is None:
            go_to(resumed["now"], self._generators)
        _BaseDataLoaderIter.__init__(self, loader)
        if loader.prefetch_factor <= 0:
            raise AssertionError("prefetch_factor must be greater than 0 with workers")
        self._prefetch: int = loader.prefetch_factor
        self._in_order: bool = loader.in_order
        self._restart = loader.on_worker_error == "restart"
        self._context = loader.multiprocessing_context or torch.multiprocessing.get_context()
        self._epoch = -1
        self._poll = select.poll()
        if resumed and resumed["base_seed"] is not None:
            self._base_seed, self._epoch = resumed["base_seed"], resumed["epoch"] - 1
            go_to(resumed["now"], self._generators)  # this seed had been drawn before
        self._plan = plan_of(self, loader)
        self._anyone = self._plan.anyone
        preload(self._context)
        try:
            with uninterrupted():
                self._consumer = Descriptor(os.pidfd_open(self._pid))
            self._start_epoch(loader, resumed)
        except BaseException:
            self._shutdown_workers()
            raise

    # ---- Processes ----

    def _launch(self, process: Process) -> None:
        assert self._consumer is not None
        inherited = [p.socket.fileno() for p in self._processes if p is not process]
        try:
            with uninterrupted():
                process.start(self._context, self._plan, self._consumer, inherited)
                self._poll.register(process.socket, select.POLLIN)
                self._poll.register(process.pidfd, select.POLLIN)
                self._processes[process.number:process.number + 1] = [process]
                self._workers[process.number:process.number + 1] = [process.process]
                self._sockets = [p.fd for p in self._processes]
        except (TypeError, AttributeError, pickle.PicklingError):
            warnings.warn(
                "A worker cannot be started, as what it is given cannot be pickled: the dataset, collate_fn or worker_init_fn. "
                "With multiprocessing_context='fork' nothing is pickled.", stacklevel=2)
            raise

    def _end(self, process: Process) -> int | None:
        """Reap a process that has ended or been killed: its exit code."""
        self._poll.unregister(process.socket)
        self._poll.unregister(process.pidfd)
        process.process.join()
        code: int | None = process.process.exitcode
        process.close()
        return code

    @uninterrupted()
    def _replace(self, process: Process) -> None:
        """A worker has died: another one goes on where its last answer ended, or the batch fails."""
        pid = process.process.pid
        code = self._end(process)
        if code is not None and code < 0:
            message = f"DataLoader worker (pid {pid}) is killed by signal: {signal.strsignal(-code)}"
        else:
            message = f"DataLoader worker (pid(s) {pid}) exited unexpectedly with exit code {code}"
        ended = not process.active or any(answer.kind == END and answer.epoch == self._epoch for answer in process.answers)
        if ended:  # what it was asked for since is no batch
            process.drop_until_epoch(self._epoch)
        first = next((work for work in process.tasks if work.task.kind == TASK), None)
        if first is not None:
            first.deaths += 1
            message += f", in the batch of {first.task.index!r}"
        elif not ended:
            process.deaths += 1
        if not self._restart or process.deaths > 1 or (self._plan.iterable and len(process.state or b"") <= _random.SIZE):
            self._shutdown_workers(gone=process)
            raise RuntimeError(message)
        if first is not None and first.deaths > 1:
            process.tasks.remove(first)
            if first.task.epoch == self._epoch:
                self._failures[first.task.number] = message + ", as the worker before it did"
        else:
            _LOG.warning("%s: another one does its work again", message)
        try:
            self._launch(process)
        except BaseException:
            self._shutdown_workers(gone=process)
            raise
        process.dispatch()

    def _shutdown_workers(self, gone: Process | None = None) -> None:
        if os.getpid() != self._pid or _utils is None or _utils.python_exit_status is not False:
            return
        live = [p for p in self._processes if p is not gone]
        try:
            for process in live:
                process.socket.shutdown(socket.SHUT_RDWR)
            deadline = time.monotonic() + _END
            for process in live:
                process.wait(max(0.0, deadline - time.monotonic()))
        finally:
            with uninterrupted():
                self._processes = []
                for process in live:
                    process.kill()
                    process.close()
                if self._consumer is not None:
                    os.close(self._consumer.fd)
                    self._consumer = None

    def _release(self) -> None:
        if hasattr(self, "_consumer"):
            self._shutdown_workers()

    # ---- Tasks ----

    @property
    def goes_on(self) -> bool:  # type: ignore[override]
        return self._sent > self._given

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        if self._plan.positions:  # as loaders without persistent workers draw
            self._base_seed = int(torch.empty((), dtype=torch.int64).random_(generator=loader.generator).item())
        self._start_epoch(loader, None)

    def _start_epoch(self, loader: Any, resumed: dict[str, Any] | None) -> None:
        begun = resumed if resumed and resumed["given"] is not None else None
        if begun and begun["start"]:
            go_to(begun["start"], self._generators)
        self.over = False
        self._start = Moment(self._generators)
        _BaseDataLoaderIter._reset(self, loader)
        self._plan.base_seed, self._plan.shared_seed = int(self._base_seed), self._shared_seed  # of workers that start now
        self._epoch += 1
        self._sent = self._given = 0  # batches of this epoch
        self._dropped = 0  # batches that a resumed loop makes again, and does not give
        random = type(getattr(loader._index_sampler, "sampler", loader._index_sampler)) is RandomSampler
        self._permuted = length_of(loader._index_sampler) if random else None  # batches whose order is made at once
        self._owner: dict[int, Process] = {}
        self._failures: dict[int, str] = {}
        self._queue: deque[Work] = deque()  # what no worker has been chosen for
        self._sparing = False  # a worker gets another batch when it has none
        self._left = time.monotonic()  # when the consumer went away
        if self._processes:
            for process in self._processes:
                process.active, process.given, process.deaths = True, None, 0
                process.answers.clear()
                process.tasks.append(Work(EPOCH, self._epoch, 0, (self._base_seed, self._shared_seed)))
                process.dispatch()
        else:
            states = resumed["workers"] if resumed else None
            for number in range(self._num_workers):
                process = Process(number, self._epoch, to_bytes(states[number]) if states else None)
                self._launch(process)
        self._turn = itertools.cycle(self._processes)
        if begun:
            self._skip(begun)
        self._counts = dict.fromkeys(range(self._num_workers), 0)
        for _ in range(self._prefetch * self._num_workers):
            self._send_next()
        if begun:
            go_on(begun, self._generators, self._num_workers)

    def _skip(self, begun: dict[str, Any]) -> None:
        """Behind what was given before."""
        if begun["again"]:
            self._dropped = begun["given"]
            return
        self._sent = self._given = self._num_yielded = begun["given"]
        for _ in range(0 if self._plan.iterable else begun["given"]):
            next(self._sampler_iter)
        for _ in range(begun["turn"] if self._num_workers == begun["num_workers"] else 0):
            next(self._turn)

    def state(self) -> dict[str, Any]:
        if not self._in_order:
            raise RuntimeError("with in_order=False there is no place in the order to go on from")
        states = [] if self._anyone else [self._behind(p) for p in self._processes]
        again = self._plan.iterable and not any(s is not None and len(s) > _random.SIZE for s in states)
        if again:
            states = [process.before for process in self._processes]
        owners = [owner for number, owner in sorted(self._owner.items()) if number >= self._given]
        return {"given": self._num_yielded, "start": self._start.to_dict(), "base_seed": self._base_seed, "epoch": self._epoch,
                "turn": owners[0].number if owners else 0, "again": again, "workers": [to_tensor(s) for s in states] or None}

    def rest(self) -> dict[str, Any]:
        if not self._persistent_workers or self._plan.positions or not self._processes:
            return {}
        states = [to_tensor(process.state and process.state[:_random.SIZE]) for process in self._processes]
        return {"base_seed": self._base_seed, "epoch": self._epoch + 1, "workers": states}

    def _behind(self, process: Process) -> bytes | None:
        """Its state behind the last batch that the consumer has."""
        if process.given is not None:
            return process.given
        check_process(self._pid)
        deadline = time.monotonic() + (self._timeout or _LOOK)
        while not process.has_begun(self._epoch):  # it still does what an epoch that was left early had asked for
            deadline = self._wait(deadline)
        return process.before

    def _choose(self) -> Process | None:
        most = self._prefetch * self._num_workers
        for process in itertools.islice(self._turn, self._num_workers):
            if process.active and (
                self._in_order or self._counts[process.number] < most // sum(p.active for p in self._processes)
            ):
                return process
        return None

    def _index(self) -> Any:
        if self._permuted is None or 0 < self._sent < self._permuted - 1:
            return next(self._sampler_iter)
        with one_thread():  # behind the last index, too, a permutation is made
            return next(self._sampler_iter)

    def _send_next(self) -> None:
        try:
            index = self._index()
        except StopIteration:
            return
        work = Work(TASK, self._epoch, self._sent, index)
        if self._anyone:
            self._queue.append(work)
            self._send_queued()
        elif (process := self._choose()) is None:
            return
        else:
            self._assign(process, work)
        self._sent += 1

    def _assign(self, process: Process, work: Work) -> None:
        if not process.tasks:
            process.since = time.monotonic()
        process.tasks.append(work)
        self._owner[work.task.number] = process
        self._counts[process.number] += 1
        process.dispatch()

    def _send_queued(self) -> None:
        """To the workers that have least to do. One that is told little ahead leaves more to the others, should it take long."""
        while self._queue:
            process = self._processes[0]
            for other in self._processes:
                if len(other.tasks) < len(process.tasks):
                    process = other
            if self._sparing and process.tasks and self._owner:
                return
            self._assign(process, self._queue.popleft())

    def _look(self) -> None:
        """What has come while the consumer was away. Workers that had nothing to do for long are told more ahead."""
        received = True
        while received:
            received = False
            for number in _native.readable(self._sockets):
                received |= self._received(self._processes[number])
        if self._queue and not all([process.tasks for process in self._processes]):
            self._sparing = self._sparing and time.monotonic() - self._left < _LONG
            self._send_queued()

    def _wait_for_any(self, deadline: float) -> float:
        """Wait, and find out whether batches lie with a worker that another one would have made by now."""
        loads = [len(process.tasks) for process in self._processes]
        began = time.monotonic()
        deadline = self._wait(deadline)
        if self._in_order and min(loads) == 0 and max(loads) > 1 and time.monotonic() - began > _LONG:
            self._sparing = True
        self._send_queued()
        return deadline

    # ---- Batches ----

    def _ready(self) -> tuple[int, Process, Answer | None] | None:
        """The next batch that may be given, if it is here: its number, worker and answer (None: it failed)."""
        while self._in_order or not self._owner:
            if self._given >= self._sent:
                raise StopIteration
            process = self._owner.get(self._given)
            if process is not None and (process.active or process.answers):
                break
            self._owner.pop(self._given, None)
            self._given += 1
        for number in self._failures:
            if not self._in_order or number == self._given:
                return number, self._owner[number], None
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
        return None

    def _received(self, process: Process) -> bool:
        try:
            received = process.receive()
        except EOFError:
            return False  # the wait finds out
        if self._sparing and received and time.monotonic() - process.since < _LONG:
            self._sparing = False  # what it is told takes as long as telling it
        return received

    def _retire(self, process: Process) -> None:
        process.active = False
        self._owner = {number: owner for number, owner in self._owner.items() if owner is not process}
        self._send_next()

    def _next_data(self) -> Any:
        while self._dropped:
            self._next_answer()
            self._dropped -= 1
            self._num_yielded += 1
        process, answer = self._next_answer()
        value = value_of(answer, self._is_kept(process))
        if answer.kind == ERROR:
            raise _exception_of(value)
        return self._pinned(value)

    def _next_answer(self) -> tuple[Process, Answer]:
        check_process(self._pid)
        if not self._processes:
            raise StopIteration
        if self._anyone:
            self._look()
        try:
            if (found := self._ready()) is None:
                deadline = time.monotonic() + (self._timeout or _LOOK)
                wait = self._wait_for_any if self._anyone else self._wait
                while found is None:
                    deadline = wait(deadline)
                    found = self._ready()
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
        self._left = time.monotonic()
        return process, answer

    def _is_kept(self, process: Process) -> bool:
        """Whether so many batches are kept that more are copied: each takes one of the mappings that a process may have."""
        many = len(process.slabs) > _MANY
        if many and not self._copying:
            self._copying = True
            warnings.warn(f"more than {_MANY} batches of a worker are kept: those that follow are copied out of its memory",
                          stacklevel=4)
        return many

    def _wait(self, deadline: float) -> float:
        """Wait for anything to happen. The time at which patience ends."""
        events = self._poll.poll(1000 * max(0.0, deadline - time.monotonic()))
        if not events:
            return self._late()
        if len(events) == 1 and events[0][0] in self._sockets:
            self._received(self._processes[self._sockets.index(events[0][0])])
            return deadline
        ready = {fd for fd, _ in events}
        for process in list(self._processes):
            if process.pidfd in ready:
                while self._received(process):
                    pass
                self._replace(process)
            elif process.fd in ready:
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
            process.process.join()
        raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds{text}")
