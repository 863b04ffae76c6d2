# SPDX-License-Identifier: Apache-2.0
"""What a consumer and a worker say to each other: small messages on a socket, values in slabs.

A task is the index of a batch. An answer is a slab: the header, the random state behind the batch, the tensors of the batch,
and its skeleton, which is the pickle of the batch with a place in the slab for each tensor. An answer whose random state is
that of the one before has none. Each message is one packet, so a process that is killed leaves no half of one.
"""
from __future__ import annotations

import array
import functools
import io
import os
import pickle
import socket
import struct
from typing import Any, NamedTuple

import torch

from stoker import _native
from stoker.torch import _random

HEADER = 64  # bytes of a slab that are the native module's
INLINE = 4096  # bytes of a payload that travel in the message
_SHORT = 512  # bytes of one that may be that of the batch before: it has tensors and little else

BATCH, ERROR, END = range(3)  # kinds of answers
TASK, EPOCH = range(2)  # kinds of tasks

_TASK = struct.Struct("=BBIQQ")  # kind, whether the payload is numbers, epoch, number, bytes of the payload
# Kind, whether the random state has moved, epoch, number, slab, slab that is gone + 1, place and size of the payload and of the dataset's state, buffers.
_ANSWER = struct.Struct("=BBIQIIQQQQI")
_BUFFER = struct.Struct("=QQ")

# What DLPack calls the types: code, bits.
DTYPES: dict[torch.dtype, tuple[int, int]] = {
    torch.int8: (0, 8), torch.int16: (0, 16), torch.int32: (0, 32), torch.int64: (0, 64),
    torch.uint8: (1, 8), torch.uint16: (1, 16), torch.uint32: (1, 32), torch.uint64: (1, 64),
    torch.float16: (2, 16), torch.float32: (2, 32), torch.float64: (2, 64), torch.bfloat16: (4, 16),
    torch.complex64: (5, 64), torch.complex128: (5, 128), torch.bool: (6, 8),
}

Place = tuple[Any, ...]  # [type, ]offset, code, bits, shape[, strides]


def memory_of(lease: Any) -> memoryview:
    """All bytes of a slab; it holds the slab."""
    return memoryview(lease)


def tensor_at(lease: _native.Lease, place: Place) -> torch.Tensor:
    """The tensor that lies at a place of a slab; it holds the slab. A type that DLPack has not comes first in its place."""
    if type(place[0]) is torch.dtype:
        return tensor_at(lease, place[1:]).view(place[0])
    made: torch.Tensor = torch._C._from_dlpack(lease.tensor(*place))
    return made


def _send(to: socket.socket, packet: bytes, fd: int | None, flags: int = 0) -> None:
    if fd is None:
        to.send(packet, flags)
    else:
        to.sendmsg([packet], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))], flags)


class Placed(NamedTuple):
    """A tensor of a batch that lies in the slab."""

    place: Place


# ---- Tasks ----


class Task(NamedTuple):
    kind: int
    epoch: int
    number: int
    index: Any


def send_task(to: socket.socket, task: Task) -> None:
    """Without waiting: BlockingIOError where the socket is full."""
    if _native.task_send(to.fileno(), *task):  # a list of ints
        return
    payload = pickle.dumps(task.index, 5)
    if len(payload) <= INLINE:
        _native.task_send(to.fileno(), task.kind, task.epoch, task.number, payload)
        return
    slab, fd = _native.slab_create(HEADER + len(payload))
    try:
        memory_of(slab.lease(False))[HEADER:] = payload
        _send(to, _TASK.pack(task.kind, False, task.epoch, task.number, len(payload)), fd, socket.MSG_DONTWAIT)
    finally:
        os.close(fd)


def receive_task(source: socket.socket) -> Task | None:
    """The next one; None: there will be none."""
    parts = _native.task_receive(source.fileno())
    if parts is None:
        return None
    kind, epoch, number, payload, slab = parts
    if slab is not None:
        payload = memory_of(slab.lease(False))[HEADER:HEADER + payload]
    return Task(kind, epoch, number, payload if type(payload) is list else pickle.loads(payload))


# ---- Answers ----


class Answer(NamedTuple):
    kind: int
    epoch: int
    number: int
    lease: _native.Lease
    payload: bytes | memoryview
    buffers: list[memoryview]
    state: bytes  # random, and behind it the dataset's


class _Reader(pickle.Unpickler):
    lease: _native.Lease
    made: dict[Place, torch.Tensor]
    copied: bool

    def persistent_load(self, place: Place) -> torch.Tensor:
        if place not in self.made:
            tensor = tensor_at(self.lease, place)
            self.made[place] = tensor.clone() if self.copied else tensor
        return self.made[place]


class _PlainReader(pickle.Unpickler):
    """Nothing but what pickle itself knows; the places of tensors as they are."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(name)

    def persistent_load(self, place: Place) -> Placed:
        return Placed(place)


@functools.lru_cache(maxsize=8)
def _plain_of(payload: bytes) -> tuple[tuple[Any, ...] | None, tuple[Place, ...]] | None:
    """Of a payload that is a list or dict of tensors, each of its own: keys (None: a list) and places.

    Batches of default_collate follow each other with the same payload, if they are of one size.
    """
    try:
        value = _PlainReader(io.BytesIO(payload)).load()
    except Exception:
        return None
    if type(value) is list:
        keys, found = None, value
    elif type(value) is dict and all(type(key) is str for key in value):
        keys, found = tuple(value), list(value.values())
    else:
        return None
    if not all(type(one) is Placed and type(one.place[0]) is int for one in found):
        return None
    places = tuple(one.place for one in found)
    return (keys, places) if len(set(places)) == len(places) else None


def value_of(answer: Answer, copied: bool = False) -> Any:
    """The batch or the error that an answer has; `copied`: in memory of its own."""
    payload = answer.payload
    if not copied and not answer.buffers and type(payload) is bytes and len(payload) <= _SHORT and (known := _plain_of(payload)):
        keys, places = known
        tensors = answer.lease.tensors(places, torch._C._from_dlpack)
        return tensors if keys is None else dict(zip(keys, tensors))
    buffers = [bytearray(buffer) for buffer in answer.buffers] if copied else answer.buffers
    reader = _Reader(io.BytesIO(answer.payload), buffers=buffers)
    reader.lease, reader.made, reader.copied = answer.lease, {}, copied
    return reader.load()


def receive_answer(source: int, slabs: dict[int, _native.Slab], states: bool, before: bytes | None) -> Answer | None:
    """Without waiting. None: there is none; EOFError: there will be none. `states`: with the random state, which may be that
    of the answer `before`."""
    parts = _native.answer_receive(source, slabs, _random.SIZE if states else 0, before)
    return None if parts is None else Answer(*parts)


# ---- Writing answers ----


class _Own(NamedTuple):
    slab: _native.Slab
    lease: _native.Lease
    memory: memoryview


def _aligned(size: int) -> int:
    return -(-size // 64) * 64


class Writer:
    """Answers of one worker, and the slabs that it has made."""

    def __init__(self, to: socket.socket, states: bool) -> None:
        self._to = to
        self._random = _random.Watch() if states else None  # the random state of the last answer
        self._known = False  # there was one
        self._first = HEADER + (_aligned(_random.SIZE) if states else 0)
        self._slabs: dict[int, _Own] = {}
        self._next = 0
        self._hint = 0
        self._begin()

    def _begin(self) -> None:
        self._cursor = self._first
        self._which: int | None = None
        self._fd: int | None = None
        self._gone: int | None = None

    def reserve(self, size: int) -> int:
        """Room for so many bytes of the answer that is being made: where it is."""
        at = self._cursor
        self._cursor = at + _aligned(size)
        return at

    def _create(self, size: int) -> _native.Lease:
        """A new slab, in steps of an eighth, so that batches of about one size have slabs of one size."""
        step = 1 << max(12, size.bit_length() - 4)
        slab, self._fd = _native.slab_create(-(-size // step) * step)
        lease = slab.lease(False)
        self._which = self._next
        self._next += 1
        self._slabs[self._which] = _Own(slab, lease, memory_of(lease))
        return lease

    def _drop(self, which: int) -> None:
        del self._slabs[which]
        self._gone = which

    def open(self) -> _native.Lease:
        """The memory of this answer: all that is reserved lies in it. Reserve again, and it is another."""
        need = max(self._cursor, self._hint)
        if self._which is not None:
            own = self._slabs[self._which]
            if len(own.slab) >= self._cursor:
                return own.lease
            if self._fd is not None:  # the consumer has not seen it
                os.close(self._fd)
                del self._slabs[self._which]
            lease = self._create(need)
            memory_of(lease)[self._first:len(own.slab)] = own.memory[self._first:]
            return lease
        free = [which for which, own in self._slabs.items() if not own.slab.given]
        fitting = next((which for which in free if len(self._slabs[which].slab) >= need), None)
        if len(free) > 4 or (free and fitting is None):
            self._drop(next((which for which in free if which != fitting), free[0]))
        if fitting is None:
            return self._create(need)
        self._which = fitting
        return self._slabs[fitting].lease

    def fill(self, payload: bytes, buffers: list[pickle.PickleBuffer], extra: bytes) -> None:
        """All of the answer; `extra` is the dataset's state."""
        if not buffers and not extra and len(payload) <= INLINE:
            self.open()
            self._places, self._inline = (0, len(payload), 0, 0, 0), payload
            return
        table = b""
        for buffer in buffers:
            raw = buffer.raw()
            at = self.reserve(raw.nbytes)
            memory_of(self.open())[at:at + raw.nbytes] = raw
            table += _BUFFER.pack(at, raw.nbytes)
        payload = table + payload
        place = self.reserve(len(payload)) if len(payload) > INLINE else 0
        extra_place = self.reserve(len(extra))
        self.open()
        assert self._which is not None
        own = self._slabs[self._which]
        if place:
            own.memory[place:place + len(payload)] = payload
        own.memory[extra_place:extra_place + len(extra)] = extra
        self._places = place, len(payload), extra_place, len(extra), len(buffers)
        self._inline = b"" if place else payload

    def send(self, kind: int, task: Task) -> None:
        """Hand over what was filled in."""
        assert self._which is not None
        own = self._slabs[self._which]
        moved = self._random is not None and (self._random.moved() or not self._known)
        if self._random is not None and moved:
            own.memory[HEADER:HEADER + _random.SIZE] = self._random.state
        own.slab.give()
        packet = _ANSWER.pack(kind, moved, task.epoch, task.number, self._which, 0 if self._gone is None else self._gone + 1, *self._places)
        try:
            _send(self._to, packet + self._inline, self._fd)
            self._known = True
        finally:
            if self._fd is not None:
                os.close(self._fd)
            self._hint = max(self._cursor, self._hint - self._hint // 64)
            self._begin()

    def forget(self) -> None:
        """Begin the answer anew, whatever was reserved."""
        self._cursor = self._first


class Skeleton(pickle.Pickler):
    """Pickle a batch: its plain tensors are copied into the slab, or lie there already (`Placed`)."""

    def __init__(self, writer: Writer) -> None:
        self._file = io.BytesIO()
        self.buffers: list[pickle.PickleBuffer] = []
        super().__init__(self._file, 5, buffer_callback=self.buffers.append)
        self._writer = writer
        self._copies: dict[int, tuple[torch.Tensor, Place]] = {}

    def persistent_id(self, obj: Any) -> Place | None:
        if type(obj) is Placed:
            return obj.place
        if type(obj) is not torch.Tensor or not plain(obj):
            return None
        if id(obj) not in self._copies:
            strides = () if obj.is_contiguous() else (torch.empty_like(obj, device="meta").stride(),)
            at = self._writer.reserve(obj.numel() * obj.element_size())
            kind = (at, *DTYPES[obj.dtype]) if obj.dtype in DTYPES else (obj.dtype, at, 1, 8 * obj.dtype.itemsize)
            self._copies[id(obj)] = obj, (*kind, tuple(obj.shape), *strides)
        return self._copies[id(obj)][1]

    def write(self, batch: Any) -> bytes:
        self.dump(batch)
        if self._copies:
            lease = self._writer.open()
            for tensor, place in self._copies.values():
                tensor_at(lease, place).copy_(tensor)
        return self._file.getvalue()


def plain(t: torch.Tensor) -> bool:
    """Whether it is its bytes and strides, and nothing more."""
    return (t.layout == torch.strided and t.device.type == "cpu" and not t.is_nested and not t.requires_grad and not t.is_conj()
            and not t.is_neg() and (t.dtype in DTYPES or t.dtype == torch.complex32
                                    or (t.dtype.itemsize == 1 and t.dtype.is_floating_point)))
