#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of the fuzz targets of datasets: fuzz/corpus/{idx,npy,npz,cifar,tar,megatron}.

    python3 scripts/make_dataset_corpus.py

The npy seeds are the files of tests/golden/npy, npz ones those of tests/golden/rows, too. How an input is cut into files stands in fuzz/fuzz_*.c.
"""
import gzip
import io
import os
import struct
import tarfile

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


def npz():
    def golden(name):
        with open(os.path.join(GOLDEN, name), "rb") as f:
            return f.read()

    def npy_of(shape, data, descr="|u1"):
        head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
        return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + data

    rows = os.path.join(GOLDEN, "..", "rows")
    for name in ("stored", "deflated", "columns", "short", "lone", "empty"):
        with open(os.path.join(rows, name + ".npz"), "rb") as f:
            write("npz", name, b"\4" + f.read())
    two = cut(golden("little_int32.npy"), golden("big_float64.npy"))
    for name, bits in (("made", 0), ("asked", 1), ("made_deflated", 2), ("asked_deflated", 3)):
        write("npz", name, bytes([bits]) + two)
    write("npz", "lengths", b"\1" + cut(npy_of("(4, 3)", bytes(12)), npy_of("(3, 4)", bytes(12))))
    write("npz", "tie", b"\0" + cut(npy_of("(4, 3)", bytes(12)), npy_of("(3, 4)", bytes(12))))
    write("npz", "over", b"\2" + cut(npy_of("(4294967296, 4294967296)", bytes(9)), npy_of("(9,)", bytes(9))))
    write("npz", "claims", b"\2" + cut(npy_of("(1099511627776,)", bytes(9)), npy_of("(9,)", bytes(9))))
    write("npz", "objects", b"\0" + cut(npy_of("(2,)", b"\x80\4N.", "|O"), npy_of("(9,)", bytes(9))))


def tar():
    def archive(form, *members):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=form) as t:
            for name, kind, data in members:
                info = tarfile.TarInfo(name)
                info.type, info.size, info.linkname = kind, len(data), "../x" if kind == tarfile.SYMTYPE else ""
                t.addfile(info, io.BytesIO(data))
        return out.getvalue()[:-(-out.tell() % 512 or 7 * 1024)]

    files = [("d", tarfile.DIRTYPE, b""), ("d/one", tarfile.REGTYPE, b"1" * 600), ("d/two", tarfile.REGTYPE, b"")]
    gnu = archive(tarfile.GNU_FORMAT, *files)
    posix = archive(tarfile.USTAR_FORMAT, *files)
    write("tar", "gnu", b"\0" + gnu)
    write("tar", "passed", b"\2" + gnu)
    write("tar", "posix", b"\0" + posix)
    write("tar", "packed", b"\1" + gzip.compress(gnu, mtime=0))
    write("tar", "members", b"\1" + gzip.compress(gnu[:700], mtime=0) + gzip.compress(gnu[700:], mtime=0) + bytes(9))
    write("tar", "cut", b"\1" + gzip.compress(gnu, mtime=0)[:-9])
    write("tar", "prefix", b"\0" + archive(tarfile.USTAR_FORMAT, ("p" * 60 + "/" + "n" * 90, tarfile.REGTYPE, b"x")))
    write("tar", "link", b"\0" + archive(tarfile.GNU_FORMAT, ("d/link", tarfile.SYMTYPE, b"")))
    write("tar", "long", b"\0" + archive(tarfile.GNU_FORMAT, ("d/" + "n" * 120, tarfile.REGTYPE, b"x")))
    write("tar", "pax", b"\0" + archive(tarfile.PAX_FORMAT, ("d/" + "n" * 120, tarfile.REGTYPE, b"x")))
    write("tar", "above", b"\0" + archive(tarfile.GNU_FORMAT, ("d/../../x", tarfile.REGTYPE, b"x")))
    write("tar", "absolute", b"\0" + archive(tarfile.GNU_FORMAT, ("/x", tarfile.REGTYPE, b"x")))


def megatron_index(lengths, bounds=None, code=8, pointers=None, counts=None, version=1, modes=b"", magic=b"MMIDIDX\0\0"):
    """A Megatron index, by the layout in megatron/core/datasets/indexed_dataset.py."""
    size = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 8, 7: 4, 8: 2}.get(code, 2)
    pointers = pointers or [sum(lengths[:i]) * size for i in range(len(lengths))]
    bounds = list(range(len(lengths) + 1)) if bounds is None else bounds
    return (magic + struct.pack("<QBQQ", version, code, *(counts or (len(lengths), len(bounds))))
            + struct.pack(f"<{len(lengths)}i", *lengths) + struct.pack(f"<{len(pointers)}q", *pointers)
            + struct.pack(f"<{len(bounds)}q", *bounds) + modes)


def megatron():
    lengths = [3, 0, 20, 1, 7, 16, 2]
    row = bytes(range(98))
    for bits in (0, 25, 13, 20, 2, 7, 26, 30, 11, 15, 19, 23):
        write("megatron", f"good_{bits:02d}", bytes([bits]) + cut(megatron_index(lengths), row))
    for bits in range(32, 64, 5):
        write("megatron", f"raw_{bits:02d}", bytes([bits]) + cut(b"", bytes(x % 7 for x in range(70))))
    wide = struct.pack("<9q", 1, 2, 3, 0, -1, 1 << 31, -(1 << 31), 1 << 62, 5)
    for name, index, data in (
            ("grouped", megatron_index(lengths, [0, 2, 2, 5, 7]), row), ("modes", megatron_index(lengths, modes=bytes(7)), row),
            ("none", megatron_index([], [0]), b""), ("wide", megatron_index([4, 5], code=5), wide),
            ("float", megatron_index([4, 5], code=7), row[:36]), ("type", megatron_index([4, 5], code=9), row[:18]),
            ("version", megatron_index(lengths, version=2), row), ("magic", megatron_index(lengths, magic=b"TNTIDX\0\0\0"), row),
            ("counts", megatron_index(lengths, counts=(1 << 63, 1 << 63)), row),
            ("overflow", megatron_index(lengths, counts=((1 << 64) // 12 + 1, 8)), row),
            ("negative", megatron_index([3, -1, 47]), row), ("long", megatron_index([3, 0x7fffffff]), row),
            ("beyond", megatron_index([3, 4], pointers=[0, 1 << 62]), row[:14]),
            ("backwards", megatron_index([3, 4], pointers=[8, 0]), row[:14]),
            ("below", megatron_index([3, 4], pointers=[-2, 4]), row[:14]), ("short", megatron_index(lengths), row[:-2]),
            ("longer", megatron_index(lengths), row + b"xy"), ("cut", megatron_index(lengths)[:-3], row),
            ("head", megatron_index(lengths)[:20], row), ("falling", megatron_index(lengths, [0, 5, 2, 7]), row),
            ("first", megatron_index(lengths, [1, 7]), row), ("last", megatron_index(lengths, [0, 5]), row),
            ("past", megatron_index(lengths, [0, 8]), row), ("no_bounds", megatron_index(lengths, []), row)):
        write("megatron", name, b"\x0f" + cut(index, data))


if __name__ == "__main__":
    idx()
    npy()
    npz()
    cifar()
    tar()
    megatron()
