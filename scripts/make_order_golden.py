#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/golden/loader/order.txt: orders of epochs as docs/order.md defines them, computed by lists.

usage: make_order_golden.py > tests/golden/loader/order.txt
       make_order_golden.py --mix > tests/golden/loader/order_mix.txt

A line for each: shuffle size seed epoch block_size streams shuffle_buffer, the sum of (position + 1) * index modulo 2^64,
and the first indices. With --mix, of several sources: shuffle length seed epoch block_size streams shuffle_buffer, the
number of sources, slots and samples of each, and the same.
"""

import sys

SHOWN = 12
M32 = 2**32 - 1


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & M32, (p0 >> 32) ^ c[3] ^ k[1], p0 & M32]
        k = [(k[0] + 0x9E3779B9) & M32, (k[1] + 0xBB67AE85) & M32]
    return c


class Permutation:
    def __init__(self, size, seed, epoch, which):
        words = []
        for block in range(3):
            words += philox((which, (epoch >> 32) & 0xFFFF, epoch & M32, block), (seed & M32, seed >> 32))
        self.size, self.keys = size, words[:8]
        self.swap = size > 1 and words[8] & 1 == 1
        bits = 6
        while 2**bits < size:
            bits += 1
        self.right_bits = bits - bits // 2
        self.left_mask, self.right_mask = 2 ** (bits // 2) - 1, 2**self.right_bits - 1

    @staticmethod
    def mix(x, key):
        x ^= key
        x = x * 0x7FEB352D & M32
        x ^= x >> 15
        x = x * 0x846CA68B & M32
        return x >> 7

    def __call__(self, x):
        if self.swap and x < 2:
            x = 1 - x
        while True:
            left, right = x >> self.right_bits, x & self.right_mask
            for i in range(0, 8, 2):
                left ^= self.mix(right, self.keys[i]) & self.left_mask
                right ^= self.mix(left, self.keys[i + 1]) & self.right_mask
            x = left << self.right_bits | right
            if x < self.size:
                return x


def primes(n):
    found, p = [], 2
    while n > 1:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    return found


def stream_of_piece(piece, streams):
    factors = primes(streams)
    digits = []
    for p in reversed(factors):  # of the piece, the lowest first: base of the largest factor
        digits.append(piece % p)
        piece //= p
    stream, weight = 0, 1
    for p, digit in zip(factors, reversed(digits)):
        stream += digit * weight
        weight *= p
    return stream


def block_order(size, seed, epoch, block_size, streams, buffer_blocks):
    count = -(-size // block_size)
    streams, buffer_blocks = min(streams, count), min(buffer_blocks, count)
    line = []  # (place, sample)
    place = 0
    for column in range(streams):
        blocks = list(range(column, count, streams))
        mixed = Permutation(len(blocks), seed, epoch, 1 + column)
        for row in range(len(blocks)):
            first = blocks[mixed(row)] * block_size
            line += [(place, sample) for sample in range(first, min(first + block_size, size))]
            place += 1
    orders, at = {}, 0
    for piece in range(streams):
        s = stream_of_piece(piece, streams)
        length = size // streams + (s < size % streams)
        part = line[at : at + length]
        at += length
        places = sorted({p for p, _ in part}, reverse=piece % 2 == 1)
        mixed_part = []
        for k in range(0, len(places), buffer_blocks):
            wanted = set(places[k : k + buffer_blocks])
            samples = [sample for p, sample in part if p in wanted]
            mixed = Permutation(len(samples), seed, epoch, 1 + streams + k // buffer_blocks * streams + s)
            turn = [samples[mixed(i)] for i in range(len(samples))]
            mixed_part += reversed(turn) if piece % 2 else turn
        orders[s] = mixed_part
    return [orders[p % streams][p // streams] for p in range(size)]


def order(shuffle, size, seed, epoch, block_size, streams, buffer_blocks):
    if shuffle == "false":
        return list(range(size))
    if shuffle == "true":
        full = Permutation(size, seed, epoch, 0)
        return [full(p) for p in range(size)]
    return block_order(size, seed, epoch, block_size, streams, buffer_blocks)


def pattern(counts):
    """Each slot goes to the source that is owed the most, the first of several."""
    owed, slots = [0] * len(counts), []
    for _ in range(sum(counts)):
        owed = [o + c for o, c in zip(owed, counts)]
        best = owed.index(max(owed))
        owed[best] -= sum(counts)
        slots.append(best)
    return slots


def derived(seed, number):
    w = philox((number & M32, number >> 32 & 0xFFFF | 5 << 16, 0, 0), (seed & M32, seed >> 32))
    return w[0] | w[1] << 32


def mix_order(shuffle, length, seed, epoch, block_size, streams, buffer_blocks, sources):
    """The sources' samples, each with the index of its first draw."""
    counts, sizes = [c for c, _ in sources], [n for _, n in sources]
    slots = pattern(counts)
    if shuffle == "false":
        return list(range(length))
    places = [[i for i, s in enumerate(slots) if s == source] for source in range(len(sources))]
    key, draw, taken, orders = derived(seed, 0), [0] * len(sources), [], {}
    for p in range(length):
        rounds, within = divmod(p, len(slots))
        word = philox((rounds & M32, rounds >> 32 | 5 << 16, epoch & M32, 0), (key & M32, key >> 32))[0]
        turn = word * len(slots) >> 32 if (rounds + 1) * len(slots) <= length else 0
        s = slots[(within + turn) % len(slots)]
        taken.append((s, draw[s]))
        draw[s] += 1
    indices = []
    for s, k in taken:
        n, d = sizes[s], draw[s]
        number, place = (epoch * -(-d // n) + k // n, k % n) if d >= n else (epoch // (n // d), k + epoch % (n // d) * d)
        if (s, number) not in orders:
            orders[s, number] = order(shuffle, n, derived(seed, 1 + s), number, block_size, streams, buffer_blocks)
        sample = orders[s, number][place]
        indices.append(sample // counts[s] * len(slots) + places[s][sample % counts[s]])
    return indices


def print_mixes():
    for sources, lengths in (
        (((1, 30), (1, 40)), (60, 80, 33)), (((7, 140), (3, 20)), (60, 200, 777)),
        (((5, 100), (3, 33), (2, 1000)), (110, 5000, 321)), (((1, 1), (12, 7)), (13, 26, 5)), (((4, 64),), (64, 200)),
    ):
        for length in lengths:
            for shuffle, block_size, streams, buffer_blocks in (
                ("false", 0, 0, 0), ("true", 0, 0, 0), ("block", 8, 4, 2), ("block", 5, 3, 1)):
                for seed, epoch in ((0, 0), (2**63 + 5, 7)):
                    case = (shuffle, length, seed, epoch, block_size, streams, buffer_blocks)
                    indices = mix_order(*case, sources)
                    total = sum((p + 1) * index for p, index in enumerate(indices)) % 2**64
                    flat = [number for source in sources for number in source]
                    print(*case, len(sources), *flat, total, *indices[:SHOWN])


def main():
    if sys.argv[1:] == ["--mix"]:
        print_mixes()
        return
    cases = [("false", 20, 0, 0, 0, 0, 0)]
    for size in (1, 2, 3, 6, 64, 100, 256, 1000, 4096, 60000):
        for seed, epoch in ((0, 0), (0, 1), (1, 0), (2**63 + 12345, 7)):
            cases.append(("true", size, seed, epoch, 0, 0, 0))
    cases.append(("true", 100, 3, 5 * 2**32 + 2, 0, 0, 0))
    for size, block_size, streams, buffer_blocks in (
        (1, 1, 1, 1), (64, 8, 4, 2), (1000, 1, 16, 16), (1000, 37, 4, 3), (1003, 10, 6, 4), (5000, 64, 12, 1),
        (4999, 16, 9, 5), (60000, 64, 16, 16), (8192, 64, 16, 2), (100, 64, 16, 16), (777, 50, 1, 16),
    ):
        for seed, epoch in ((0, 0), (7, 3)):
            cases.append(("block", size, seed, epoch, block_size, streams, buffer_blocks))
    for case in cases:
        indices = order(*case)
        assert sorted(indices) == list(range(case[1]))
        total = sum((p + 1) * index for p, index in enumerate(indices)) % 2**64
        print(*case, total, *indices[:SHOWN])


if __name__ == "__main__":
    main()
