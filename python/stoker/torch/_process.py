# SPDX-License-Identifier: Apache-2.0
"""A worker process as its consumer sees it."""
from __future__ import annotations

import _thread
import contextlib
import multiprocessing.forkserver
import os
import select
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from stoker import _native
from stoker.torch import _random
from stoker.torch._message import END, TASK, Answer, Task, receive_answer, send_task
from stoker.torch._worker import Descriptor, Plan, main

_IN_FLIGHT = 64  # tasks that lie in a socket: their answers fit in the other direction


@contextlib.contextmanager
def uninterrupted(later: bool = False) -> Iterator[None]:
    """Has Ctrl-C wait: a worker that has been started and is not known yet could not be ended.

    `later`: until a little behind this, as what leaves a `__del__()` is lost.
    """
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[Any] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came and later:
            threading.Timer(0.01, _thread.interrupt_main).start()
        elif came:
            handler(signal.SIGINT, came[0])


def check_process(pid: int) -> None:
    """Workers and threads are those of the process that began the loop, and so is what they answer."""
    if os.getpid() != pid:
        raise RuntimeError(f"this loop was begun by another process (pid {pid}), as before fork(): begin one here, by iter() of the loader")


class Work:
    """A batch that a worker has to make."""

    __slots__ = ("deaths", "task")

    def __init__(self, kind: int, epoch: int, number: int, index: Any) -> None:
        self.task = Task(kind, epoch, number, index)
        self.deaths = 0


class Process:
    """A worker as its consumer sees it."""

    def __init__(self, number: int, epoch: int, state: bytes | None) -> None:
        self.number = number
        self.tasks: deque[Work] = deque()  # sent or to be sent, and not answered
        self.sent = 0  # of them, from the first
        self.answers: deque[Answer] = deque()  # received, and not given
        self.active = True  # has more to give in this epoch
        self.state = state  # random state, and that of a dataset, behind the last answer
        self.given: bytes | None = None  # behind the last of this epoch that the consumer has
        self.deaths = 0  # without a batch to make, since its last answer or epoch
        self.before = state  # at the start of the epoch of the last answer
        self.epoch = epoch  # that one
        self.since = 0.0  # when it was told something, and had nothing to do

    def start(self, context: Any, plan: Plan, consumer: Descriptor, inherited: list[int]) -> None:
        self.slabs: dict[int, _native.Slab] = {}
        self.states = not plan.anyone  # answers have the random state behind them
        self.sent = 0
        self.lost = False  # an answer could not be taken
        forked = context.get_start_method() == "fork"
        with contextlib.ExitStack() as undo:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            undo.callback(ours.close)
            with theirs:
                self.stack = os.memfd_create("stoker-stack")
                undo.callback(os.close, self.stack)
                self.process = context.Process(
                    target=main, daemon=True,
                    args=(plan, self.number, theirs, consumer, Descriptor(self.stack),
                          [*inherited, ours.fileno()] if forked else [], self.state))
                self.process.start()
                undo.callback(self.kill)
            self.socket, self.fd = ours, ours.fileno()
            self.pidfd = os.pidfd_open(self.process.pid)
            undo.pop_all()

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
        if self.lost:
            raise EOFError
        try:
            answer = receive_answer(self.fd, self.slabs, self.states, self.state)
        except (OSError, MemoryError):  # of this process: another worker makes the batch again
            self.lost = True
            self.process.kill()
            raise
        if answer is None:
            return False
        while self.tasks and self.tasks[0].task[:3] != (TASK, answer.epoch, answer.number):  # they have no answer
            self.tasks.popleft()
            self.sent -= 1
        self.tasks.popleft()
        self.sent -= 1
        if answer.epoch != self.epoch:
            self._enter(answer.epoch)
        self.state, self.deaths = answer.state, 0
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
        if before == 0:
            return "its start\n"
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

    def _enter(self, epoch: int) -> None:
        """Behind the last answer of another epoch: an iterable dataset begins anew."""
        self.before, self.epoch = self.state and self.state[:_random.SIZE], epoch

    def has_begun(self, epoch: int) -> bool:
        """Whether `before` is of this epoch."""
        if self.epoch != epoch and not any(work.task.kind == TASK for work in self.tasks):
            self._enter(epoch)
        return self.epoch == epoch

    def wait(self, seconds: float) -> None:
        """Until it has ended, if it does; it is not reaped, which an interrupt could cut in two."""
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        poll.poll(1000 * seconds)

    def kill(self) -> None:
        """It has ended, whatever it was at."""
        self.process.kill()
        self.process.join()

    def close(self) -> None:
        """Its descriptors; the process has ended."""
        self.socket.close()
        self.fd = -1
        os.close(self.pidfd)
        os.close(self.stack)
        self.slabs.clear()


def preload(context: Any) -> None:
    """A fork server that has imported torch starts a worker in a tenth of a second instead of seconds."""
    if context.get_start_method() == "forkserver":
        known = multiprocessing.forkserver._forkserver._preload_modules  # type: ignore[attr-defined]
        context.set_forkserver_preload([*known, *(m for m in ("torch", "stoker.torch") if m not in known)])
