#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/golden/store/zip, archives made by Python's zipfile, and fuzz/corpus/zip, the same and damaged ones.

    python3 scripts/make_zip_golden.py

What each sound archive holds, as zipfile reads it, stands in NAME.txt beside it: a line "SIZE CRC NAME" for each file.
"""
import io
import os
import random
import shutil
import struct
import zipfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
GOLDEN = os.path.join(ROOT, "tests/golden/store/zip")
CORPUS = os.path.join(ROOT, "fuzz/corpus/zip")
WHEN = (2024, 5, 6, 7, 8, 10)


class Unseekable(io.RawIOBase):
    """A file that is written to its end, as a pipe: zipfile writes sums and sizes behind the data."""

    def __init__(self):
        self.data = bytearray()

    def writable(self):
        return True

    def write(self, data):
        self.data += data
        return len(data)


def noise(size, seed=1):
    return random.Random(seed).randbytes(size)


def words(size, seed=2):
    draw = random.Random(seed)
    return bytes(draw.choice(b"abcdefgh    ") for _ in range(size))


def info(name, method=zipfile.ZIP_STORED, mode=0o100644):
    entry = zipfile.ZipInfo(name, WHEN)
    entry.compress_type = method
    entry.external_attr = mode << 16
    entry.create_system = 3
    return entry


def made(files, method=zipfile.ZIP_STORED, comment=b"", prefix=b"", zip64=False, stream=False):
    out = Unseekable() if stream else io.BytesIO()
    out.write(prefix)
    with zipfile.ZipFile(out, "w", method) as z:
        z.comment = comment
        for name, data in files.items():
            with z.open(info(name, method), "w", force_zip64=zip64) as f:
                f.write(data)
    return bytes(out.data) if stream else out.getvalue()


FILES = {"b/one.bin": noise(700), "a.txt": b"hello\n", "b/c/two.txt": words(900), "empty": b"", "b-x": words(30)}


def mixed():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr(info("folder/", mode=0o040755), b"")
        for i, (name, data) in enumerate(FILES.items()):
            z.writestr(info(name, (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)[i % 2]), data)
        entry = info("folder/link", mode=0o120777)
        z.writestr(entry, b"../a.txt")
    return out.getvalue()


def names():
    return made({"grün/día.txt": b"utf-8", "plain": b"ascii", "日本/語": b"three bytes"})


def cp437():
    """A name of bytes beyond ASCII without the flag of UTF-8."""
    data = made({"AA.txt": b"old"})
    return data.replace(b"AA.txt", b"\x81\xe1.txt")


def sound():
    return {
        "stored": made(FILES), "deflated": made(FILES, zipfile.ZIP_DEFLATED), "mixed": mixed(), "names": names(),
        "cp437": cp437(), "zip64": made(FILES, zip64=True), "stream": made(FILES, zipfile.ZIP_DEFLATED, stream=True),
        "stream_stored": made(FILES, stream=True), "comment": made(FILES, comment=b"a comment"),
        "prefix": made(FILES, prefix=b"#!/bin/sh\nexit 0\n" + noise(90)), "nothing": made({}),
        "prefix_not_counted": b"#!/bin/sh\nexit 0\n" + noise(90) + made(FILES),
        "zip64_end": zip64_end(made(FILES)),
    }


def parts(data):
    """What an archive without a comment consists of: members, central directory, and its numbers."""
    end = len(data) - 22
    count, length, offset = struct.unpack("<HII", data[end + 10:end + 20])
    return data[:offset], data[offset:end], count


def joined(members, directory, count, offset=None):
    offset = len(members) if offset is None else offset
    return members + directory + struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, count, count, len(directory), offset, 0)


def zip64_end(data):
    members, directory, count = parts(data)
    at = len(members) + len(directory)
    end64 = struct.pack("<IQHHIIQQQQ", 0x06064b50, 44, 45, 45, 0, 0, count, count, len(directory), len(members))
    locator = struct.pack("<IIQI", 0x07064b50, 0, at, 1)
    end = struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, 0xffff, 0xffff, 0xffffffff, 0xffffffff, 0)
    return members + directory + end64 + locator + end


def changed(data, at, value, size=2):
    return data[:at] + value.to_bytes(size, "little") + data[at + size:]


def unnamed(data):
    """The one file, whose name has one letter, without it."""
    members, directory, count = parts(data)
    return joined(members[:26] + bytes(2) + members[28:30] + members[31:],
                  directory[:28] + bytes(2) + directory[30:46] + directory[47:], count)


def damaged():
    """name -> an archive that is to be refused when it is opened, or of which a file is to be refused."""
    one = made({"a": words(50)}, zipfile.ZIP_DEFLATED)
    raw = made({"a": words(50)})
    members, directory, count = parts(one)
    central = len(members)
    two = parts(made({"a": words(50), "b": words(50)}))
    return {
        "encrypted": changed(one, central + 8, 1), "method": changed(one, central + 10, 12),
        "local_method": changed(one, 8, 0), "local_name": changed(one, 30, ord("b"), 1),
        "local_size": changed(one, 22, 49, 4), "local_signature": changed(one, 0, 0, 4),
        "local_extra": changed(raw, 28, 9), "crc": changed(raw, 40, 0, 1), "crc_deflated": changed(
            changed(one, central + 16, 7, 4), 14, 7, 4),
        "bomb": changed(changed(one, central + 24, 1 << 31, 4), 22, 1 << 31, 4),
        "longer": changed(changed(one, central + 24, 60, 4), 22, 60, 4),
        "shorter": changed(changed(one, central + 24, 40, 4), 22, 40, 4),
        "deflated_nothing": changed(changed(changed(raw, len(parts(raw)[0]) + 10, 8, 2), len(parts(raw)[0]) + 20, 0, 4),
                                    len(parts(raw)[0]) + 24, 500, 4),
        "stored_sizes": changed(raw, len(parts(raw)[0]) + 24, 49, 4),
        "count_more": joined(members, directory, 2), "count_less": joined(*two[:2], 1),
        "overlap": joined(two[0], two[1][:42] + bytes(4) + two[1][46:47 + 42] + bytes(4) + two[1][47 + 46:], 2),
        "beyond": changed(one, central + 42, 1 << 30, 4), "cut": one[:-5], "half": one[:len(one) // 2],
        "no_directory": one[:30] + one[-22:], "duplicate": joined(two[0], two[1].replace(b"b", b"a"), 2),
        "dots": made({"a/../b": b""}), "absolute": made({"/etc/passwd": b""}), "empty_name": unnamed(raw),
        "backslash": made({"aXb": b""}).replace(b"aXb", b"a\\b"), "file_and_folder": made({"a": b"", "a/b": b""}),
        "two_slashes": made({"a//b": b""}), "utf8": names().replace("ü".encode(), b"\xff\xff"),
        "disk": changed(one, len(one) - 18, 1), "masked": changed(one, central + 8, 1 << 13),
        "zip64_lies": changed(zip64_end(made({"a": b""})), len(made({"a": b""})) - 22 + 48, 1 << 40, 8),
    }


def write(folder, name, data):
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data)


def main():
    for folder in (GOLDEN, CORPUS):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
    for name, data in sound().items():
        write(GOLDEN, name + ".zip", data)
        write(CORPUS, name, data)
        with zipfile.ZipFile(io.BytesIO(data)) as z:
            assert z.testzip() is None
            lines = [f"{e.file_size} {e.CRC:08x} {e.filename}\n" for e in z.infolist()]
        write(GOLDEN, name + ".txt", "".join(lines).encode())
    for name, data in damaged().items():
        write(GOLDEN, "bad_" + name + ".zip", data)
        write(CORPUS, "bad_" + name, data)


if __name__ == "__main__":
    main()
