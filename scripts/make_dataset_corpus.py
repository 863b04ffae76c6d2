#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of the fuzz targets of datasets: fuzz/corpus/{idx,npy,cifar}.

    python3 scripts/make_dataset_corpus.py

The npy seeds are the files of tests/golden/npy. How an input is cut into files stands in fuzz/fuzz_*.c.
"""
import gzip
import os
import struct

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
GOLDEN = os.path.join(ROOT, "tests", "golden", "npy")


def write(target, name, data):
    folder = os.path.join(ROOT, "fuzz", "corpus", target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data)


def cut(*parts):
    """All but the last part with their length in front."""
    return b"".join(struct.pack("<H", len(p)) + p for p in parts[:-1]) + parts[-1]


def idx():
    def images(n, rows, columns):
        return struct.pack(">4I", 0x803, n, rows, columns) + bytes(k % 251 for k in range(n * rows * columns))

    def labels(n):
        return struct.pack(">2I", 0x801, n) + bytes(k % 10 for k in range(n))

    def packed(data):
        return gzip.compress(data, mtime=0)

    write("idx", "plain", b"\0" + cut(images(5, 4, 3), labels(5)))
    write("idx", "gzip", b"\3" + cut(packed(images(5, 4, 3)), packed(labels(5))))
    write("idx", "members", b"\3" + cut(packed(images(2, 4, 3)[:20]) + packed(images(2, 4, 3)[20:]),
                                        packed(labels(2)) + bytes(8)))
    write("idx", "mixed", b"\2" + cut(images(1, 1, 1), packed(labels(1))))
    write("idx", "one_label_less", b"\0" + cut(images(3, 2, 2), labels(2)))
    write("idx", "longer", b"\0" + cut(images(3, 2, 2) + b"x", labels(3)))
    write("idx", "huge", b"\0" + cut(struct.pack(">4I", 0x803, 0xffffffff, 4096, 4096), labels(3)))
    write("idx", "bomb", b"\1" + cut(packed(struct.pack(">4I", 0x803, 60000, 28, 28)), labels(3)))
    write("idx", "swapped", b"\0" + cut(labels(3), images(3, 2, 2)))


def npy():
    def golden(name):
        with open(os.path.join(GOLDEN, name + ".npy"), "rb") as f:
            return f.read()

    pairs = {
        "same": ("little_int32", "big_int32"), "versions": ("version_2", "version_3"),
        "picture": ("picture", "labels_uint8"), "scalar": ("scalar", "scalar"),
        "complex": ("big_complex128", "little_complex128"), "half": ("big_float16", "little_bool"),
        "object": ("object", "structured"), "fortran": ("fortran", "fortran_1d"),
        "empty": ("empty", "hollow"), "ranks": ("rank_8", "rank_9"), "texts": ("unicode", "void"),
        "times": ("datetime", "longdouble"),
    }
    for name, (a, b) in pairs.items():
        write("npy", name, b"\0" + cut(golden(a), golden(b)))
    write("npy", "trailing", b"\1" + cut(golden("little_int8") + b"xyz", golden("version_1") + b"z"))
    for name in ("uint8", "int32_big", "column", "short", "huge", "float"):
        write("npy", "labels_" + name, b"\2" + cut(golden("little_float32"), golden("labels_" + name)))


def cifar():
    names = b"airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n"
    write("cifar", "whole", cut(b"", b"\7" + bytes(range(0, 250, 2))[:-1] + b"\0"))
    write("cifar", "names", cut(names, b"\1\2\3\0"))
    write("cifar", "few_names", cut(names[:30], b"\1\2\3\0"))
    write("cifar", "crlf", cut(names.replace(b"\n", b"\r\n"), b"\x09" * 7 + b"\0"))
    write("cifar", "cut", cut(b"", b"\0\1"))
    write("cifar", "label", cut(b"", b"\x0a\0"))
    write("cifar", "second_label", cut(b"", b"\1\x20" + b"\3" * 3070 + b"\x40\0"))


if __name__ == "__main__":
    idx()
    npy()
    cifar()
