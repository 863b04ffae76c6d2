#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of the fuzz targets of record shards: fuzz/corpus/{webdataset,records_index}.

    python3 scripts/make_records_corpus.py
"""
import io
import os
import struct
import tarfile
import zipfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
NPY = b"\x93NUMPY\x01\x00\x76\x00" + b"{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }".ljust(117) + b"\n"


def write(target, name, data):
    folder = os.path.join(ROOT, "fuzz", "corpus", target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data)


def archive(members, form=tarfile.USTAR_FORMAT, kind=tarfile.REGTYPE):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form, encoding="utf-8") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            info.type = kind
            info.linkname = "target" if kind != tarfile.REGTYPE else ""
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue().rstrip(b"\0") + bytes(1536 - len(out.getvalue().rstrip(b"\0")) % 512)


def npz(files, packed):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as archived:
        for name, data in files:
            archived.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED)
    return out.getvalue()


def shards():
    plain = [("a.jpg", b"\xff\xd8\xff"), ("a.cls", b"3\n"), ("b.jpg", b"x"), ("b.cls", b"-1")]
    long = "d" * 90 + "/" + "n" * 80
    write("webdataset", "ustar", b"\0" + archive(plain))
    write("webdataset", "pax", b"\0" + archive([(long + ".txt", b"text"), ("\u00e9.txt", b"")], tarfile.PAX_FORMAT))
    write("webdataset", "gnu", b"\0" + archive([(long + ".txt", b"text"), ("b.txt", b"")], tarfile.GNU_FORMAT))
    write("webdataset", "missing", b"\1" + archive([("a.txt", b"x"), ("b.cls", b"1")]))
    write("webdataset", "empty", b"\2" + archive([("a.txt", b"x"), ("b.cls", b"1"), ("c.jpg", b"")]))
    write("webdataset", "npy", b"\0" + archive([("a.npy", NPY + b"\1\0\2\0"), ("b.npy", NPY + b"\3\0\4\0")]))
    write("webdataset", "ragged", b"\0" + archive([("a.npy", NPY + b"\1\0\2\0"), ("b.npy", NPY + b"\3\0")]))
    write("webdataset", "link", b"\0" + archive([("a.jpg", b"")], kind=tarfile.SYMTYPE))
    write("webdataset", "above", b"\0" + archive([("../a.jpg", b"x")]))
    write("webdataset", "cut", b"\0" + archive(plain)[:1100])
    write("webdataset", "gzip", b"\0\x1f\x8b\x08" + bytes(600))
    for name, packed in (("npz", False), ("npz_deflated", True)):
        arrays = npz([("a.npy", NPY + b"\1\0\2\0"), ("b.npy", NPY + b"\3\0\4\0")], packed)
        write("webdataset", name, b"\0" + archive([("a.npz", arrays), ("a.cls", b"1"), ("b.npz", arrays), ("b.cls", b"2")]))
        write("webdataset", name + "_cut", b"\0" + archive([("a.npz", arrays[:-120]), ("a.cls", b"1")]))
    two = archive([("a.txt", b"x"), ("b.txt", b"yy")])
    for name, lines in (("listed", "v1.2 2\ntxt 512 1 a.txt\ntxt 1536 2 b.txt\n"), ("listed_cut", "v1.2 2\ntxt 512 1 a.txt\ntxt"),
                        ("listed_beyond", "v1.2 1\ntxt 512 99999999 a.txt\n"), ("listed_name", "v1.2 1\ntxt 512 1 ../a.txt\n"),
                        ("listed_old", "v1.1 2\ntxt 512 1\ntxt 1536 2\n"), ("listed_twice", "v1.2 1\ntxt 512 1 a.txt txt 1536 2 a.txt\n"),
                        ("listed_most", "v1.2 9999999999999999999\ntxt 512 1 a.txt\n")):
        write("webdataset", name, b"\x80" + struct.pack("<H", len(lines)) + lines.encode() + two)


def indexes():
    """As the page of the format says: src/dataset/records/index.c."""
    def index(shard_rows, parts, starts, kinds, keys, of=7):
        text = b"".join(t + b"\0" for t in kinds + keys)
        head = struct.pack("<QQQQQQ", of, len(shard_rows), len(starts) - 1, len(parts), len(kinds), len(text))
        body = b"".join(struct.pack("<QQqqQQQQ", *row) for row in shard_rows)
        body += b"".join(struct.pack("<QQ", offset << 8 | kind, length) for kind, offset, length in parts)
        body += struct.pack(f"<{len(starts)}I", *starts)
        return b"\x89STKREC\n" + struct.pack("<II", 2, 72) + bytes(8) + head + body + text

    two = [(2000, 9, 1, 2, 3, 1, 2, 0), (1536, 8, 1, 2, 3, 2, 2, 0)]
    parts = [(0, 512, 5), (1, 1536, 7), (0, 512, 0), (1, 512, 1024)]
    write("records_index", "two", index(two, parts, [0, 2, 3, 4], [b"jpg", b"cls"], [b"a.tar", b"b.tar"]))
    write("records_index", "one", index([(9, 1, 0, 0, 0, 1, 1, 0)], [(0, 0, 9)], [0, 1], [b""], [b"x"]))
    write("records_index", "beyond", index([(9, 1, 0, 0, 0, 1, 1, 0)], [(0, 1, 9)], [0, 1], [b""], [b"x"]))
    write("records_index", "twice", index([(9, 1, 0, 0, 0, 1, 2, 0)], [(0, 1, 1), (0, 1, 1)], [0, 2], [b""], [b"x"]))
    write("records_index", "starts", index(two, parts, [0, 3, 2, 4], [b"jpg", b"cls"], [b"a.tar", b"b.tar"]))
    write("records_index", "above", index([(9, 1, 0, 0, 0, 1, 1, 0)], [(0, 0, 9)], [0, 1], [b""], [b"../x"]))
    write("records_index", "none", index([], [], [0], [], []))


shards()
indexes()
