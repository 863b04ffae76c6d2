#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/golden/parquet: samples in a tar, and the Parquet file that they become with codec=none, page_size=40 and row_group_rows=4.

    python3 scripts/make_parquet_writer_golden.py [FOLDER]

A writer of its own, by parquet.thrift, Encodings.md and PageIndex.md of github.com/apache/parquet-format. Where pyarrow is there it reads the file again.
"""
import io
import os
import struct
import sys
import tarfile
import zlib

import numpy

FOLDER = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "parquet")
ROWS, GROUP, PAGE = 9, 4, 40
TRUE, I8, I32, I64, BINARY, LIST, STRUCT = 1, 3, 5, 6, 8, 9, 12
PLAIN, RLE, RLE_DICTIONARY = 0, 3, 8

codes = [numpy.arange(k % 4 * 5, dtype="u1") * 7 + k for k in range(ROWS)]
flags = [numpy.array(k % 3 == 0) for k in range(ROWS)]
keys = [numpy.array(30 - 11 * k, dtype="i2") for k in range(ROWS)]
halves = [numpy.array(k / 2 - 1, dtype="f2") for k in range(ROWS)]
labels = [k * 5 % 3 for k in range(ROWS)]
pictures = [b"\xff\xd8\xff\xe0" + bytes(range(k * 3)) for k in range(ROWS)]
texts = [b"text %d " % k * (k % 3) for k in range(ROWS)]
vectors = [numpy.array([k, -k / 2, numpy.nan if k == 5 else 0], "f4") for k in range(ROWS)]


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def zigzag(n):
    return varint(n * 2 if n >= 0 else -n * 2 - 1)


def binary(b):
    return varint(len(b)) + b


def fields(*members):
    """A structure of (number, type, encoded value), in their order; None is left out."""
    out, last = b"", 0
    for number, kind, value in filter(None, members):
        out, last = out + bytes([number - last << 4 | kind]) + value, number
    return out + b"\0"


def number(at, value, kind=I32):
    return at, kind, zigzag(value)


def text(at, value):
    return at, BINARY, binary(value.encode())


def items(at, kind, values):
    values = list(values)
    return at, LIST, (bytes([len(values) << 4 | kind]) if len(values) < 15 else bytes([15 << 4 | kind]) + varint(len(values))) + b"".join(values)


def struct_of(at, *members):
    return at, STRUCT, fields(*members)


def hybrid(levels, width):
    out, at = b"", 0

    def alike(i):
        n = 1
        while i + n < len(levels) and levels[i + n] == levels[i]:
            n += 1
        return n

    while at < len(levels):
        if alike(at) >= 8:
            out += varint(alike(at) << 1) + bytes([levels[at]])
            at += alike(at)
            continue
        end = min(at + 8, len(levels))
        while end < len(levels) and alike(end) < 8:
            end = min(end + 8, len(levels))
        groups = (end - at + 7) // 8
        bits = sum(v << i * width for i, v in enumerate(levels[at:end]))
        out += varint(groups << 1 | 1) + bits.to_bytes(groups * width, "little")
        at = end
    return out


def levels(values, width):
    packed = hybrid(values, width)
    return struct.pack("<I", len(packed)) + packed


class Column:
    """path, values of each row, physical type, greatest definition, how wide a value is as pages are filled, PLAIN values, bounds of values"""

    def __init__(self, path, rows, kind, definition, size, plain, bounds=None, repeated=False, codes=False, definitions=1):
        self.__dict__.update(locals())

    def page_rows(self, rows):
        """The rows of a group in pages."""
        pages = [[]]
        for row in rows:
            if pages[-1] and sum(map(self.size, pages[-1])) + self.size(row) > PAGE:
                pages.append([])
            pages[-1].append(row)
        return pages

    def body(self, rows):
        out = b""
        if self.repeated:
            out += levels([k > 0 for row in rows for k in range(max(len(row), 1))], 1)
            out += levels([min(len(row), 1) for row in rows for _ in range(max(len(row), 1))], 1)
        elif self.definition:
            out += levels([self.definitions] * len(rows), self.definition)
        values = [v for row in rows for v in (row if self.repeated else [row] if row is not None else [])]
        return out + (b"\x08" + hybrid(values, 8) if self.codes else self.plain(values))

    def values(self, rows):
        return [v for row in rows for v in (row if self.repeated else [row])]


def ints(values):
    return b"".join(struct.pack("<i", int(v)) for v in values)


def strings(values):
    return b"".join(struct.pack("<I", len(v)) + v for v in values)


def bits(values):
    return sum(bool(v) << i for i, v in enumerate(values)).to_bytes((len(values) + 7) // 8, "little")


COLUMNS = [
    Column(["label"], labels, 2, 0, lambda row: 8, lambda v: struct.pack(f"<{len(v)}q", *v), lambda v: struct.pack("<q", v)),
    Column(["codes", "list", "element"], [list(map(int, c)) for c in codes], 1, 1, len, ints, lambda v: struct.pack("<i", v), True, True),
    Column(["flag"], [bool(f) for f in flags], 0, 0, lambda row: 1, bits, lambda v: bytes([v])),
    Column(["half"], [float(h) for h in halves], 7, 0, lambda row: 2, lambda v: struct.pack(f"<{len(v)}e", *v)),
    Column(["image", "bytes"], pictures, 6, 2, lambda row: len(row) + 4, strings, definitions=2),
    Column(["image", "path"], [None] * ROWS, 6, 2, lambda row: 0, strings, definitions=1),
    Column(["key"], [int(k) for k in keys], 1, 0, lambda row: 4, ints, lambda v: struct.pack("<i", v)),
    Column(["text"], texts, 6, 0, lambda row: len(row) + 4, strings),
    Column(["vector", "list", "element"], [[float(x) for x in v] for v in vectors], 4, 1, lambda row: 4 * len(row),
           lambda v: struct.pack(f"<{len(v)}f", *v), lambda v: struct.pack("<f", v), True),
]


def page(kind, body, header):
    return fields(number(1, kind), number(2, len(body)), number(3, len(body)),
                  number(4, struct.unpack("<i", struct.pack("<I", zlib.crc32(body)))[0]), header) + body


def bound(column, values, most):
    values = [v for v in values if v == v]
    v = (max if most else min)(values)
    return column.bounds((0.0 if most else -0.0) if isinstance(v, float) and v == 0 else v)


def write_chunk(column, rows, at):
    """Its bytes, and ColumnMetaData, OffsetIndex and ColumnIndex."""
    out = page(2, ints(range(256)), struct_of(7, number(1, 256), number(2, PLAIN))) if column.codes else b""
    data_at, places, nulls, counts = len(out), [], [], 0
    pages, first = column.page_rows(rows), 0
    for part in pages:
        empty = sum(row is None or column.repeated and not row for row in part)
        count = len(column.values([row for row in part if row is not None])) + empty
        body = column.body(part)
        whole = page(0, body, struct_of(5, number(1, count), number(2, RLE_DICTIONARY if column.codes else PLAIN), number(3, RLE), number(4, RLE)))
        places.append(fields(number(1, at + len(out), I64), number(2, len(whole)), number(3, first, I64)))
        out, first, counts = out + whole, first + len(part), counts + count
        nulls.append(empty)
    present = [v for v in column.values(rows) if v is not None and v == v]
    encodings = [PLAIN] + [RLE] * bool(column.definition) + [RLE_DICTIONARY] * column.codes
    bounded = column.bounds and present
    statistics = [number(3, sum(nulls), I64)] + ([(5, BINARY, binary(bound(column, present, True))), (6, BINARY, binary(bound(column, present, False)))]
                                                 if bounded else [])
    metadata = fields(number(1, column.kind), items(2, I32, map(zigzag, encodings)), items(3, BINARY, (binary(p.encode()) for p in column.path)),
                      number(4, 0), number(5, counts, I64), number(6, len(out), I64), number(7, len(out), I64), number(9, at + data_at, I64),
                      number(11, at, I64) if data_at else None, struct_of(12, *statistics))
    index = b""
    if column.bounds:
        parts = [column.values(part) for part in pages]
        least, most = [[bound(column, p, m) if p else b"" for p in parts] for m in (False, True)]
        order = [p for p in parts if p]
        ascending = all(min(a) <= min(b) and max(a) <= max(b) for a, b in zip(order, order[1:]))
        index = fields(items(1, TRUE, (b"\1" if not p else b"\2" for p in parts)), items(2, BINARY, map(binary, least)),
                       items(3, BINARY, map(binary, most)), number(4, int(ascending)), items(5, I64, map(zigzag, nulls)))
    return out, metadata, fields(items(1, STRUCT, places)), index


def integer(width, signed):
    return struct_of(10, struct_of(10, (1, I8, bytes([width])), (2, TRUE if signed else 2, b"")))


def of_list(name):
    return [fields(number(3, 0), text(4, name), number(5, 1), number(6, 3), struct_of(10, struct_of(3))), fields(number(3, 2), text(4, "list"), number(5, 1))]


SCHEMA = [
    fields(text(4, "schema"), number(5, 8)),
    fields(number(1, 2), number(3, 0), text(4, "label"), number(6, 18), integer(64, True)),
    *of_list("codes"), fields(number(1, 1), number(3, 0), text(4, "element"), number(6, 11), integer(8, False)),
    fields(number(1, 0), number(3, 0), text(4, "flag")),
    fields(number(1, 7), number(2, 2), number(3, 0), text(4, "half"), struct_of(10, struct_of(15))),
    fields(number(3, 1), text(4, "image"), number(5, 2)), fields(number(1, 6), number(3, 1), text(4, "bytes")),
    fields(number(1, 6), number(3, 1), text(4, "path"), number(6, 0), struct_of(10, struct_of(1))),
    fields(number(1, 1), number(3, 0), text(4, "key"), number(6, 16), integer(16, True)),
    fields(number(1, 6), number(3, 0), text(4, "text")),
    *of_list("vector"), fields(number(1, 4), number(3, 0), text(4, "element")),
]
FEATURES = ('{"info":{"features":{"label":{"dtype":"int64","_type":"Value"},"codes":{"feature":{"dtype":"uint8","_type":"Value"},"_type":"Sequence"},"flag":{"dtype":"bool","_type":"Value"},'
            '"half":{"dtype":"float16","_type":"Value"},'
            '"image":{"_type":"Image"},"key":{"dtype":"int16","_type":"Value"},'
            '"text":{"dtype":"binary","_type":"Value"},"vector":{"feature":{"dtype":"float32","_type":"Value"},"_type":"Sequence"}}}}')
FIELDS = ('[{"name":"label","layout":"fixed","dtype":"int64","shape":[]},{"name":"codes","layout":"ragged","dtype":"uint8","shape":[-1]},{"name":"flag","layout":"fixed","dtype":"bool","shape":[]},'
          '{"name":"half","layout":"fixed","dtype":"float16","shape":[]},'
          '{"name":"image","layout":"bytes","dtype":"uint8","shape":[-1,-1,3],"picture":true},{"name":"key","layout":"fixed","dtype":"int16","shape":[]},'
          '{"name":"text","layout":"bytes","dtype":"uint8","shape":[-1]},'
          '{"name":"vector","layout":"fixed","dtype":"float32","shape":[3]}]')


def write_file():
    out, groups = b"PAR1", []
    for first in range(0, ROWS, GROUP):
        chunks, begun = [], len(out)
        for column in COLUMNS:
            data, *parts = write_chunk(column, column.rows[first:first + GROUP], len(out))
            out += data
            chunks.append(parts)
        groups.append((chunks, min(GROUP, ROWS - first), begun, len(out) - begun))
    indexes, places = [b"".join(c[k] for chunks, *_ in groups for c in chunks) for k in (2, 1)]
    index_at, place_at = len(out), len(out) + len(indexes)
    out += indexes + places
    row_groups = []
    for chunks, rows, begun, size in groups:
        found = []
        for metadata, place, index in chunks:
            found.append(fields(number(2, 0, I64), (3, STRUCT, metadata), number(4, place_at, I64), number(5, len(place)),
                                number(6, index_at, I64) if index else None, number(7, len(index)) if index else None))
            place_at, index_at = place_at + len(place), index_at + len(index)
        row_groups.append(fields(items(1, STRUCT, found), number(2, size, I64), number(3, rows, I64), number(5, begun, I64), number(6, size, I64)))
    footer = fields(number(1, 2), items(2, STRUCT, SCHEMA), number(3, ROWS, I64), items(4, STRUCT, row_groups),
                    items(5, STRUCT, [fields(text(1, "huggingface"), text(2, FEATURES)), fields(text(1, "stoker.fields"), text(2, FIELDS))]),
                    text(6, "stoker version 0.1.0"), items(7, STRUCT, [fields(struct_of(1))] * len(COLUMNS)))
    return out + footer + struct.pack("<I", len(footer)) + b"PAR1"


def write_tar(path):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for k in range(ROWS):
            members = {"jpg": pictures[k], "cls": b"%d" % labels[k], "text": texts[k]}
            for name, array in (("codes", codes[k]), ("flag", flags[k]), ("half", halves[k]), ("key", keys[k]), ("vector", vectors[k])):
                file = io.BytesIO()
                numpy.save(file, array)
                members[name + ".npy"] = file.getvalue()
            for name, data in sorted(members.items()):
                member = tarfile.TarInfo(f"{k:04d}.{name}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))


os.makedirs(FOLDER, exist_ok=True)
write_tar(os.path.join(FOLDER, "samples.tar"))
with open(os.path.join(FOLDER, "samples.parquet"), "wb") as file:
    file.write(write_file())
try:
    import pyarrow.parquet
    print(pyarrow.parquet.ParquetFile(os.path.join(FOLDER, "samples.parquet"), page_checksum_verification=True).read())
except ImportError:
    print("pyarrow is not there: the file was not read again")
