#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of the fuzz target of files that are compressed as a whole: fuzz/corpus/unpack.

    python3 scripts/make_unpack_corpus.py
"""
import gzip
import os
import zlib

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fuzz", "corpus", "unpack")
TEXT = b"samples of a shard " * 20


def frame(data, last=True):
    """zstd [RFC 8878]: one segment of less than 256 bytes, a raw block, no sum."""
    header = (len(data) << 3 | last).to_bytes(3, "little")
    return b"\x28\xb5\x2f\xfd\x20" + bytes([len(data)]) + header + data


os.makedirs(FOLDER, exist_ok=True)
gz, z = gzip.compress(TEXT, mtime=0), zlib.compress(TEXT)
for name, data in (("gzip", gz), ("gzip_two", gz + gz), ("gzip_cut", gz[:-5]), ("zlib", z), ("zlib_cut", z[:-2]),
                   ("zlib_more", z + b"x"), ("zlib_sum", z[:-1] + b"\0"), ("zstd", frame(b"samples")),
                   ("zstd_two", frame(b"one") + frame(b"two")), ("zstd_cut", frame(b"samples")[:-2]),
                   ("zstd_open", frame(b"samples", False)), ("zstd_window", b"\x28\xb5\x2f\xfd\x00\xf8\x09\0\0x")):
    with open(os.path.join(FOLDER, name), "wb") as f:
        f.write(data)
