# SPDX-License-Identifier: Apache-2.0
"""The random states of a process: of `random`, of NumPy's global generator and of torch's default one.

A state is one row of bytes, the same whatever way it was read: torch's own bytes, then for NumPy and for `random` 624 words,
a position, a flag and the spare number of a pair of normal ones. Reading through the public functions takes 70 us, as they
make a tuple of every word; where the words lie in memory is found out once, by looking for known ones, and then they are
copied.
"""
from __future__ import annotations

import _random
import array
import ctypes
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


_SPARE, _PYTHON = _numpy_spare(), _python_words()


def _save_numpy(target: Any, at: int) -> None:
    used: Any = numpy.random.mtrand._rand
    source = used._bit_generator
    if _SPARE is None or type(source) is not numpy.random.MT19937:
        state = used.get_state(legacy=False)
        known = state["bit_generator"] == "MT19937"
        words = (*state["state"]["key"], state["state"]["pos"]) if known else (0,) * (_WORDS + 1)
        spare = (state["has_gauss"], state["gauss"]) if known else (0, 0.0)
        _pack(target, at, words, *spare)
        return
    _native.copy_memory(target, at, source.ctypes.state_address, _MT.size)
    _native.copy_memory(target, at + _MT.size, id(used) + _SPARE, 4)
    _native.copy_memory(target, at + _MT.size + 4, id(used) + _SPARE + 8, 8)


def _save_python(target: Any, at: int) -> None:
    used: Any = random._inst
    spare = used.gauss_next
    if _PYTHON is None:
        _pack(target, at, used.getstate()[1], spare is not None, spare or 0.0)
        return
    _native.copy_memory(target, at, id(used) + _PYTHON + 4, _MT.size - 4)
    _native.copy_memory(target, at + _MT.size - 4, id(used) + _PYTHON, 4)
    _SPARE_NUMBER.pack_into(memoryview(target), at + _MT.size, spare is not None, spare or 0.0)


def _pack(target: Any, at: int, words: Sequence[int], flag: bool, spare: float) -> None:
    _MT.pack_into(memoryview(target), at, *words)
    _SPARE_NUMBER.pack_into(memoryview(target), at + _MT.size, flag, spare)


def save(target: Any, at: int) -> None:
    """Write the state of this process now, SIZE bytes, to a place of a slab or a bytearray."""
    of_torch = torch.default_generator.get_state()
    _native.copy_memory(target, at, of_torch.data_ptr(), _TORCH)
    _save_numpy(target, at + _TORCH)
    _save_python(target, at + _TORCH + _ONE)


def current() -> bytes:
    """The state of this process now."""
    state = bytearray(SIZE)
    save(state, 0)
    return bytes(state)


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
