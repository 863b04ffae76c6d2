#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/golden/loader/order.txt: orders of epochs as docs/order.md defines them, computed by lists.

usage: make_order_golden.py > tests/golden/loader/order.txt

A line for each: shuffle size seed epoch block_size streams shuffle_buffer, the sum of (position + 1) * index modulo 2^64,
and the first indices.
"""

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


def main():
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
