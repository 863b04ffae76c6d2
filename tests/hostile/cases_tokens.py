# SPDX-License-Identifier: Apache-2.0
"""Indexes of tokens that claim more than there is, and files of documents without number."""
import struct

from cases import case

COMMANDS = ["info tokens:x.bin?length=4", "info tokens:x?length=4&documents=pack",
            "bench --dataset tokens:x.idx?length=4&documents=split --num-batches 2 --num-epochs 1 --train-step-time 0"]


def index(folder, sequences, bounds, body, tokens=10, code=8):
    (folder / "x.idx").write_bytes(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, sequences, bounds) + body)
    (folder / "x.bin").write_bytes(bytes(2 * tokens))
    return COMMANDS


@case
def tokens_of_more_sequences_than_bytes(folder):
    return index(folder, 1 << 63, 1 << 63, bytes(64))


@case
def tokens_whose_counts_wrap(folder):
    # 12 * sequences + 8 * bounds is 64 modulo 2^64.
    return index(folder, ((1 << 64) + 64 - 8 * 6) // 12 + 1, 6, bytes(64))


@case
def tokens_beyond_their_file(folder):
    return index(folder, 2, 3, struct.pack("<2i2q3q", 5, 0x7fffffff, 0, 10, 0, 1, 2))


@case
def tokens_at_places_anywhere(folder):
    return index(folder, 2, 3, struct.pack("<2i2q3q", 5, 5, -(1 << 63), (1 << 63) - 1, 0, 1, 2))


@case
def tokens_of_negative_lengths(folder):
    return index(folder, 3, 2, struct.pack("<3i3q2q", 20, -10, 0, 0, 40, 20, 0, 3))


@case
def tokens_of_many_documents(folder):
    """Four million sequences, each a document: of one token and of none by turns."""
    n = 1 << 22
    body = struct.pack("<2i", 1, 0) * (n // 2) + b"".join(struct.pack("<2q", 2 * i, 2 * i + 2) for i in range(n // 2))
    return index(folder, n, n + 1, body + struct.pack(f"<{n + 1}q", *range(n + 1)), n // 2)


@case
def tokens_that_all_end_documents(folder):
    (folder / "x.bin").write_bytes(bytes(1 << 24))
    return ["info tokens:x.bin?length=4&documents=pack&eod=0",
            "info tokens:x.bin?length=1073741824&documents=pack&eod=0",
            "info tokens:x.bin?length=1&documents=split&eod=0&dtype=uint8&stride=1"]
