#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write random shards of WebDataset with Python's tarfile, and what tarfile reads of them.

    python3 scripts/check_tarfile.py FOLDER [SEED]

good-K.tar with good-K.txt: a line "SAMPLE FIELD SIZE CRC32" for each member of a sample, as tarfile reads it back; some with good-K.idx as
wds2idx of DALI writes it. bad-K.tar holds one member that is refused, and bad-K.txt a word of the message.
tests/parity/dataset/test_tarfile.c reads them.
"""
import io
import os
import random
import sys
import tarfile
import zlib

FOLDER, SEED = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1
FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT, "binary": tarfile.GNU_FORMAT}
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789_-"
WIDE = LETTERS + "äßéλж雪☃"


def word(rng, letters, least, most):
    return "".join(rng.choice(letters) for _ in range(rng.randint(least, most)))


def add(tar, name, data, kind=tarfile.REGTYPE, **more):
    info = tarfile.TarInfo(name)
    info.size, info.type, info.mtime = len(data), kind, 1700000000
    for key, value in more.items():
        setattr(info, key, value)
    tar.addfile(info, io.BytesIO(data))


def open_tar(path, form):
    return tarfile.open(path, "w", format=FORMATS[form], encoding="utf-8")


def base_256(path):
    """Write the sizes of all members as GNU does from 8 GiB on."""
    with tarfile.open(path, encoding="utf-8") as tar:
        heads = [(m.offset_data - 512, m.size) for m in tar]
    with open(path, "r+b") as f:
        for at, size in heads:
            f.seek(at)
            head = bytearray(f.read(512))
            head[124:136] = b"\x80" + size.to_bytes(11, "big")
            head[148:156] = b" " * 8
            head[148:156] = b"%06o\0 " % sum(head)
            f.seek(at)
            f.write(head)


def stem(rng, form, index):
    letters = LETTERS if form == "ustar" else WIDE
    folders = [word(rng, letters, 1, 40) for _ in range(rng.randint(0, 2))]
    if form != "ustar" and rng.random() < 0.3:
        folders += [word(rng, letters, 60, 120) for _ in range(rng.randint(1, 6))]
    return rng.choice(["", "./"]) + "".join(f + "/" for f in folders) + f"{index:05}" + word(rng, letters, 0, 30)


def good(rng, number, form):
    path = os.path.join(FOLDER, f"good-{number}.tar")
    with open_tar(path, form) as tar:
        for index in range(rng.randint(1, 40)):
            name = stem(rng, form, index)
            if rng.random() < 0.2:
                add(tar, f"folder{index}", b"", tarfile.DIRTYPE)
            if rng.random() < 0.2:
                add(tar, f"README{index}", b"of no sample")
            for ending in ("txt", "meta.bin"):
                add(tar, f"{name}.{ending}", rng.randbytes(rng.choice([0, 1, 511, 512, 513, rng.randint(0, 5000)])))
    if form == "binary":
        base_256(path)
    lines, indexed, keys = [], [], {}
    with tarfile.open(path, encoding="utf-8") as tar:
        for m in tar:
            base = os.path.basename(m.name)
            if not m.isreg():
                continue
            key, _, ending = m.name[:len(m.name) - len(base)] + base.partition(".")[0], None, base.partition(".")[2]
            # wds2idx takes a file without an extension for one of its whole name.
            if ending:
                data = tar.extractfile(m).read()
                lines.append(f"{keys.setdefault(key, len(keys))} {ending} {len(data)} {zlib.crc32(data)}\n")
            entry = f"{ending or m.name} {m.offset_data} {m.size} {m.name}"
            if indexed and ending and indexed[-1][0] == key:
                indexed[-1][1].append(entry)
            else:
                indexed.append((key, [entry]))
    with open(path[:-4] + ".txt", "w") as f:
        f.writelines(lines)
    if number % 2:
        with open(path[:-4] + ".idx", "w") as f:
            f.write(f"v1.2 {len(indexed)}\n" + "".join(" ".join(entries) + "\n" for _, entries in indexed))


def bad(number, what, name="b.txt", kind=tarfile.REGTYPE, form="gnu", **more):
    path = os.path.join(FOLDER, f"bad-{number}.tar")
    with open_tar(path, form) as tar:
        add(tar, "a.txt", b"sound")
        add(tar, name, b"", kind, **more)
    with open(path[:-4] + ".txt", "w") as f:
        f.write(what + "\n")


def main():
    rng = random.Random(SEED)
    for number in range(24):
        good(rng, number, list(FORMATS)[number // 2 % len(FORMATS)])
    kinds = [("symbolic link", {"kind": tarfile.SYMTYPE, "linkname": "a.txt"}), ("hard link", {"kind": tarfile.LNKTYPE, "linkname": "a.txt"}),
             ("device", {"kind": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3}), ("device", {"kind": tarfile.BLKTYPE}),
             ("pipe", {"kind": tarfile.FIFOTYPE}), ("sparse", {"kind": tarfile.GNUTYPE_SPARSE}),
             ("sparse", {"form": "pax", "pax_headers": {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}}),
             ("below", {"name": "../b.txt"}), ("below", {"name": "/b.txt", "form": "pax"}), ("below", {"name": "c/../../b.txt"})]
    for number, (what, more) in enumerate(kinds):
        bad(number, what, **more)


main()
