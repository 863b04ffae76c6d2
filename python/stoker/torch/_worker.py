# SPDX-License-Identifier: Apache-2.0
"""A worker process: takes indices, makes batches."""
from __future__ import annotations

import faulthandler
import gc
import itertools
import os
import pickle
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch._utils import ExceptionWrapper
from torch._C import _set_worker_signal_handlers
from torch.utils.data._utils import worker as _torch_worker

from stoker import _native
from stoker.torch import _collate, _random
from stoker.torch._message import BATCH, END, EPOCH, ERROR, Skeleton, Task, Writer, receive_task


def _caught(where: str) -> Any:
    """The exception that is being handled, for the consumer."""
    return ExceptionWrapper(where=where)  # type: ignore[no-untyped-call]


class Descriptor:
    """A descriptor that reaches a process of any start method."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __reduce__(self) -> Any:
        from multiprocessing.reduction import DupFd

        return _detached, (DupFd(self.fd),)


def _detached(duplicate: Any) -> Descriptor:
    return Descriptor(duplicate.detach())


@dataclass
class Plan:
    """What every worker of a loader is told."""

    dataset: Any
    iterable: bool
    auto_collation: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    base_seed: int
    init_fn: Callable[[int], None] | None
    num_workers: int
    shared_seed: int | None
    positions: bool  # rng="stoker": random numbers depend on the place in the order alone

    @property
    def anyone(self) -> bool:
        """Whether any worker may make any batch: none has a state that the next batch depends on."""
        return self.positions and not self.iterable


class Fetcher:
    """Samples of a dataset, as an index asks for them. `at` is the index of the sample that is being made, behind the last
    one that of the batch."""

    def __init__(self, plan: Plan, dataset: Any, state: bytes = b"") -> None:
        self.plan, self.dataset = plan, dataset
        self.ended: bool
        of_iterator, value, self.ended = pickle.loads(state) if state else (False, None, False)
        if state and not of_iterator:
            dataset.load_state_dict(value)
        self.iterator = iter(dataset) if plan.iterable else None
        if of_iterator:
            self.iterator.load_state_dict(value)  # type: ignore[union-attr]
        self.seed: int | None = None  # rng="stoker": with `number` and the sample's place in the batch it decides
        self.number = 0
        self.at: Any = None
        self.taken = 0
        self.asked: list[Any] = []
        self.ready: Iterator[Any] | None = None

    def begin(self, index: Any) -> int:
        """take() gives the samples of this batch from now on: how many there may be."""
        self.taken = 0
        if self.iterator is None and getattr(self.dataset, "__getitems__", None):
            self.at = index
            self._seed_batch()
            samples = list(self.dataset.__getitems__(index))
            self.ready = iter(samples)
            return len(samples)
        self.asked = list(index)  # whose length is true, and stays so
        self.ready = None
        return len(self.asked)

    def take(self, count: int) -> list[Any]:
        """The next samples of the batch; fewer: there are no more. StopIteration: an iterable dataset has none for it."""
        if self.ready is not None:
            samples = list(itertools.islice(self.ready, count))
        elif self.iterator is not None:
            wanted = 0 if self.ended else min(count, len(self.asked) - self.taken)
            samples = list(itertools.islice(self.iterator, wanted))
            self.ended = self.ended or len(samples) < wanted
            if not samples and not self.taken:
                raise StopIteration
        else:
            samples = self._samples(self.asked[self.taken:self.taken + count])
        self.taken += len(samples)
        return samples

    def _samples(self, indices: list[Any]) -> list[Any]:
        samples: list[Any] = []
        try:
            if self.seed is None:
                _native.fetch(self.dataset, indices, samples)
            else:
                for place, at in enumerate(indices, self.taken):
                    _random.seed_position(self.seed, self.number, place)
                    samples.append(self.dataset[at])
        except Exception as e:
            self.at = indices[len(samples)]
            if isinstance(e, StopIteration):
                raise RuntimeError(f"the dataset raised StopIteration at index {self.at!r}") from e
            raise
        self.at = self.asked  # what fails now is the batch
        return samples

    def fetch(self, index: Any) -> Any:
        """The batch. StopIteration: an iterable dataset has no more."""
        try:
            return self._fetch(index)
        except StopIteration as e:
            if self.iterator is None:
                raise RuntimeError(f"StopIteration was raised at index {self.at!r}") from e
            raise

    def _fetch(self, index: Any) -> Any:
        if not self.plan.auto_collation:
            self.at = index if self.iterator is None else None
            self._seed_batch()
            return self.plan.collate_fn(self.dataset[index] if self.iterator is None else next(self.iterator))
        wanted = self.begin(index)
        samples = self.take(wanted)
        self.end_where_short(len(samples), wanted)
        self.at = index if self.iterator is None else None
        return self.plan.collate_fn(samples)

    def _seed_batch(self) -> None:
        if self.seed is not None:
            _random.seed_position(self.seed, self.number, 0)

    def state(self) -> bytes:
        """Where an iterable dataset that can say so is."""
        sources: list[tuple[bool, Any]] = [(True, self.iterator), (False, self.dataset)] if self.plan.iterable else []
        for of_iterator, source in sources:
            if hasattr(source, "state_dict"):
                return pickle.dumps((of_iterator, source.state_dict(), self.ended))
        return b""

    def end_where_short(self, count: int, wanted: int) -> None:
        if self.iterator is not None and self.plan.drop_last and count < wanted:
            raise StopIteration

    def place(self) -> str:
        """Where an error came from, for its text."""
        if self.at is None:
            return ""
        if isinstance(self.at, list) and len(self.at) > 8:
            return f" (indices {str(self.at[:8])[:-1]}, ...])"
        return f" (ind{'ices' if isinstance(self.at, list) else 'ex'} {self.at!r})"


class Worker:
    def __init__(self, plan: Plan, number: int, to: socket.socket) -> None:
        self.plan, self.number, self.socket = plan, number, to
        self.base_seed = plan.base_seed
        self.writer = Writer(to, not plan.anyone)
        self.fetcher: Fetcher | None = None
        self.dataset = plan.dataset
        self.shared = torch.Generator()
        self.failed: Any = None
        standard = plan.auto_collation and _collate.is_standard(plan.collate_fn)
        self.collator = _collate.Collator(self.writer) if standard else None
        self.ended = False

    def _where(self) -> str:
        return f"in DataLoader worker process {self.number}{self.fetcher.place() if self.fetcher else ''}"

    def prepare(self, state: bytes = b"") -> None:
        """What comes before the first task: an error is that of the first batch."""
        from torch.utils.data import IterDataPipe
        from torch.utils.data.graph_settings import apply_random_seed

        seed = self.plan.base_seed + self.number
        _random.seed_worker(self.plan.base_seed, self.number)
        if isinstance(self.dataset, IterDataPipe):
            self.shared.manual_seed(self.plan.shared_seed or 0)
            self.dataset = apply_random_seed(self.dataset, self.shared)
        _torch_worker._worker_info = _torch_worker.WorkerInfo(
            id=self.number, num_workers=self.plan.num_workers, seed=seed, dataset=self.dataset)
        try:
            if self.plan.init_fn is not None:
                self.plan.init_fn(self.number)
            self.fetcher = Fetcher(self.plan, self.dataset, state)
        except Exception:
            self.failed = _caught(self._where())

    def begin_epoch(self, base_seed: int, shared_seed: int | None) -> None:
        from torch.utils.data import IterDataPipe
        from torch.utils.data.graph_settings import apply_random_seed

        if isinstance(self.dataset, IterDataPipe):
            self.shared.manual_seed(shared_seed or 0)
            self.dataset = apply_random_seed(self.dataset, self.shared)
        self.base_seed, self.ended = base_seed, False
        try:
            self.fetcher = Fetcher(self.plan, self.dataset)
        except Exception:
            self.failed = _caught(self._where())

    def _batch(self, index: Any, number: int) -> tuple[bytes, list[pickle.PickleBuffer]]:
        """The pickled skeleton of the batch, whose tensors are in the slab."""
        fetcher = self.fetcher
        assert fetcher is not None
        if self.plan.positions:
            fetcher.seed, fetcher.number = self.base_seed, number
        if self.collator is not None:
            wanted = fetcher.begin(index)
            made = self.collator.collate(fetcher.take, wanted)
            fetcher.end_where_short(fetcher.taken, wanted)
            return made
        batch = fetcher.fetch(index)
        skeleton = Skeleton(self.writer)
        return skeleton.write(batch), skeleton.buffers

    def answer(self, task: Task) -> None:
        kind = BATCH
        buffers: list[pickle.PickleBuffer] = []
        try:
            if self.failed is not None:
                error, self.failed = self.failed, None
                kind, payload = ERROR, self._pickled(error)
            else:
                payload, buffers = self._batch(task.index, task.number)
        except Exception as e:
            self.writer.forget()
            if isinstance(e, StopIteration) and self.plan.iterable:
                self.ended, kind, payload = True, END, b""
            else:
                kind, payload = ERROR, self._pickled(_caught(self._where()))
        state = b""
        try:
            state = self.fetcher.state() if self.fetcher else b""
        except Exception:
            self.writer.forget()
            self.ended = False
            kind, payload, buffers = ERROR, self._pickled(_caught(self._where())), []
        try:
            self.writer.fill(payload, buffers, state)
        except (OSError, MemoryError):
            self.writer.forget()
            self.ended = False
            kind = ERROR
            self.writer.fill(self._pickled(_caught(self._where())), [], b"")
        self.writer.send(kind, task)

    def _pickled(self, error: Any) -> bytes:
        if issubclass(error.exc_type, StopIteration):  # which would end the consumer's loop
            error.exc_type = RuntimeError
        try:
            return pickle.dumps(error)
        except Exception:  # its class cannot be found by name: the text says it all
            error.exc_type = RuntimeError
            return pickle.dumps(error)

    def run(self) -> None:
        while (task := receive_task(self.socket)) is not None:
            if task.kind == EPOCH:
                self.begin_epoch(*task.index)
            elif not self.ended:
                self.answer(task)


def main(plan: Plan, number: int, to: socket.socket, consumer: Descriptor, stack: Descriptor, inherited: list[int],
         state: bytes | None) -> None:
    """The life of a worker process; `state` is the random state of the one that it replaces."""
    gc.freeze()  # what is inherited is the consumer's: looking for garbage in it would copy its pages
    for fd in inherited:
        os.close(fd)
    _native.end_with(consumer.fd)
    faulthandler.register(signal.SIGUSR1, file=stack.fd, all_threads=True)
    os.write(stack.fd, b"\n")  # from now on that signal is answered, and does not end this process
    interruptible = callable(signal.getsignal(signal.SIGINT))
    try:
        if interruptible:  # the handler is the consumer's, who has Ctrl-C wait while it starts workers
            signal.signal(signal.SIGINT, signal.default_int_handler)
        _set_worker_signal_handlers()
        torch.multiprocessing._set_thread_name("pt_data_worker")
        torch.set_num_threads(1)
        worker = Worker(plan, number, to)
        worker.prepare(state[_random.SIZE:] if state else b"")
        if state:
            _random.load(state[:_random.SIZE])
        worker.run()
    except (KeyboardInterrupt, BrokenPipeError, ConnectionResetError):
        pass  # the consumer has been told too, or is gone
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _torch_worker._worker_info = None
