# SPDX-License-Identifier: Apache-2.0
"""The random states of a process: of `random`, of NumPy's global generator and of torch's default one.

A state is one row of bytes, the same whatever way it was read: torch's own bytes, then for NumPy and for `random` 624 words,
a position, a flag and the spare number of a pair of normal ones. Reading through the public functions takes 70 us, as they
make a tuple of every word; where the words lie in memory is found out once, by looking for known ones, and then they are
compared with those of the last look, and copied where they are others.
"""
from __future__ import annotations

import _random
import array
import ctypes
import os
import random
import struct
from collections.abc import Sequence
from typing import Any

import numpy
import torch

from stoker import _native

_WORDS = 624
_TORCH = torch.Generator().get_state().numel()
_MT = struct.Struct(f"={_WORDS}Ii")  # words, position
_SPARE_NUMBER = struct.Struct("=id")  # whether there is one, and it
_ONE = _MT.size + _SPARE_NUMBER.size
# Where torch's bytes have their words and the numbers kept for normal draws; CPUGeneratorImplState of its CPUGeneratorImpl.cpp.
_TORCH_WORDS = 24
_TORCH_NORMAL = _TORCH_WORDS + 8 * _WORDS
_TORCH_BEFORE = 20  # bytes of a generator before its words: the seed, the place and whether there was a seed
SIZE = _TORCH + 2 * _ONE


def _numpy_spare() -> int | None:
    """Where a RandomState of NumPy has its flag and its spare number, seen from its start."""
    probe = numpy.random.RandomState(1)
    size = type(probe).__basicsize__
    before = ctypes.string_at(id(probe), size)
    probe.standard_normal()
    after = ctypes.string_at(id(probe), size)
    at = after.find(struct.pack("=d", probe.get_state(legacy=False)["gauss"])) - 8
    known = at >= 0 and before[at:at + 4] == struct.pack("=i", 0) and after[at:at + 4] == struct.pack("=i", 1)
    return at if known else None


def _python_words() -> int | None:
    """Where random.Random has its position, with the words behind it, seen from its start."""
    probe = random.Random(1)
    probe.random()
    *words, position = probe.getstate()[1]
    memory = ctypes.string_at(id(probe), _random.Random.__basicsize__)
    at = memory.find(struct.pack("=i", position) + array.array("I", words).tobytes())
    return at if at >= 0 else None


def _torch_state() -> tuple[int, int] | None:
    """Where a generator of torch has all that its state is made of, seen from its start, and how many bytes that is.

    The numbers kept for normal draws are found by known ones, as the words are.
    """
    probe = torch.Generator().manual_seed(1)
    state = bytearray(probe.get_state().numpy())
    words = numpy.frombuffer(state, numpy.uint64, _WORDS, _TORCH_WORDS).astype(numpy.uint32).tobytes()
    numbers = struct.pack("=d", 1.2345678), struct.pack("=f", 7.654321)
    state[_TORCH_NORMAL + 8:_TORCH_NORMAL + 16] = numbers[0]
    state[_TORCH_NORMAL + 24:_TORCH_NORMAL + 28] = struct.pack("=i", 1)
    state[_TORCH - 8:_TORCH] = numbers[1] + struct.pack("=i", 1)
    try:
        probe.set_state(torch.frombuffer(state, dtype=torch.uint8))
        with open("/proc/self/mem", "rb", buffering=0) as own:  # what is not there is an error, and no fault
            memory = os.pread(own.fileno(), 4096, probe._cdata)  # type: ignore[attr-defined]
    except (OSError, RuntimeError):
        return None
    at = memory.find(words)
    found = [memory.find(number, at + len(words)) for number in numbers]
    if at < _TORCH_BEFORE or min(found) < 0:
        return None
    end = max(place + len(number) + 1 for place, number in zip(found, numbers))  # each has its flag behind it
    return at - _TORCH_BEFORE, end - at + _TORCH_BEFORE


_SPARE, _PYTHON, _OF_TORCH = _numpy_spare(), _python_words(), _torch_state()


class Watch:
    """The random state of this process, as it was when one looked last."""

    def __init__(self) -> None:
        self._size = _OF_TORCH[1] if _OF_TORCH else 0
        self._memory = bytearray(SIZE + self._size)  # the state, and that of torch as it lies in memory
        self._found: tuple[Any, Any, Any, Any] | None = None  # the generators whose places are known
        self._pieces: tuple[tuple[int, int, int], ...] = ()
        self._spare: float | None = None  # of random
        self.moved()

    @property
    def state(self) -> bytes:
        return bytes(self._memory[:SIZE])

    def moved(self) -> bool:
        """Look: whether the state is another one than it was."""
        numpys: Any = numpy.random.mtrand._rand
        pythons: Any = random._inst
        found, torchs = self._found, torch.default_generator
        if not found or found[0] is not numpys or found[1] is not numpys._bit_generator or found[2] is not pythons or found[3] is not torchs:
            self._find(numpys, pythons, torchs)
        moved = _native.copy_memory(self._memory, self._pieces)
        if moved or not self._size:
            state = torchs.get_state()
            moved |= _native.copy_memory(self._memory, ((0, state.data_ptr(), _TORCH),))
        if _SPARE is None or type(numpys._bit_generator) is not numpy.random.MT19937:
            moved |= self._put(_TORCH, _numpy_state(numpys))
        if _PYTHON is None:
            moved |= self._put(_TORCH + _ONE, _MT.pack(*pythons.getstate()[1]))
        spare = pythons.gauss_next
        if spare is not self._spare:
            self._spare, moved = spare, True
            self._put(_TORCH + _ONE + _MT.size, _SPARE_NUMBER.pack(spare is not None, spare or 0.0))
        return moved

    def _put(self, at: int, value: bytes) -> bool:
        moved = self._memory[at:at + len(value)] != value
        self._memory[at:at + len(value)] = value
        return moved

    def _find(self, numpys: Any, pythons: Any, torchs: Any) -> None:
        source = numpys._bit_generator
        pieces: list[tuple[int, int, int]] = []
        if _OF_TORCH is not None:
            pieces.append((SIZE, torchs._cdata + _OF_TORCH[0], _OF_TORCH[1]))
        if _SPARE is not None and type(source) is numpy.random.MT19937:
            spare, at = id(numpys) + _SPARE, _TORCH + _MT.size
            pieces += [(_TORCH, source.ctypes.state_address, _MT.size), (at, spare, 4), (at + 4, spare + 8, 8)]
        if _PYTHON is not None:
            words, at = id(pythons) + _PYTHON, _TORCH + _ONE
            pieces += [(at, words + 4, _MT.size - 4), (at + _MT.size - 4, words, 4)]
        self._found, self._pieces = (numpys, source, pythons, torchs), tuple(pieces)


def _numpy_state(used: Any) -> bytes:
    """By the public functions."""
    state = used.get_state(legacy=False)
    known = state["bit_generator"] == "MT19937"
    words = (*state["state"]["key"], state["state"]["pos"]) if known else (0,) * (_WORDS + 1)
    return _MT.pack(*words) + _SPARE_NUMBER.pack(*((state["has_gauss"], state["gauss"]) if known else (0, 0.0)))


def current() -> bytes:
    """The state of this process now."""
    return Watch().state


def _parts(state: bytes, at: int) -> tuple[tuple[int, ...], int, bool, float]:
    *words, position = _MT.unpack_from(state, at)
    return (tuple(words), position, *_SPARE_NUMBER.unpack_from(state, at + _MT.size))


def load(state: bytes) -> None:
    """Go on from what save() returned."""
    if len(state) != SIZE:
        raise ValueError(f"a random state has {SIZE} bytes, not {len(state)}")
    torch.set_rng_state(torch.frombuffer(bytearray(state[:_TORCH]), dtype=torch.uint8))
    words, position, flag, spare = _parts(state, _TORCH)
    if any(words):  # else NumPy's global generator was another one
        numpy.random.set_state(("MT19937", numpy.array(words, numpy.uint32), position, flag, spare))
    words, position, flag, spare = _parts(state, _TORCH + _ONE)
    random.setstate((3, (*words, position), spare if flag else None))


def seed_worker(base_seed: int, worker: int) -> None:
    """As PyTorch seeds its worker of this number."""
    from torch.utils.data._utils.worker import _generate_state

    random.seed(base_seed + worker)
    torch.manual_seed(base_seed + worker)
    numpy.random.seed(_generate_state(base_seed, worker))  # type: ignore[no-untyped-call]


_MASK = (1 << 64) - 1


def _mixed(value: int) -> int:
    """splitmix64, of S. Vigna."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def seed_position(*position: int) -> None:
    """Set all three to what depends on these numbers alone: a seed, a batch, a place in it."""
    used: Any = numpy.random.mtrand._rand
    source = used._bit_generator
    if _SPARE is None or _PYTHON is None or type(source) is not numpy.random.MT19937:
        seed = 0
        for number in position:
            seed = _mixed(seed ^ (number & _MASK))
        torch.default_generator.manual_seed(seed & 0xFFFFFFFF)
        numpy.random.seed(seed >> 32)
        words: Any = numpy.random.RandomState(_mixed(seed) >> 32).get_state()
        random.setstate((3, (*map(int, words[1]), _WORDS), None))
        return
    other: Any = random._inst
    address = source.ctypes.state_address
    torch.default_generator.manual_seed(
        _native.seed_twisters(address, id(used) + _SPARE, id(other) + _PYTHON, *position))
    other.gauss_next = None
