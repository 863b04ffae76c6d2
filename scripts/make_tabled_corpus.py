#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of the fuzz targets mds and litdata: fuzz/corpus/{mds,litdata}.

    python3 scripts/make_tabled_corpus.py

How an input is cut into files stands in fuzz/tabled_support.h.
"""
import hashlib
import json
import os
import struct

from make_tabled_golden import (LITDATA_FORMATS, LITDATA_TREE, MDS_COLUMNS, litdata_index, litdata_record, litdata_values, mds_index,
                                mds_record, mds_values, pil, png, shard)

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def write(target, name, index, data):
    folder = os.path.join(ROOT, "fuzz", "corpus", target)
    os.makedirs(folder, exist_ok=True)
    text = index if isinstance(index, bytes) else json.dumps(index).encode()
    with open(os.path.join(folder, name), "wb") as f:
        f.write(struct.pack("<H", len(text)) + text + data)


def mds():
    def one(name, encoding, size, values, **changes):
        data = shard([mds_record([size], [v]) for v in values])
        write("mds", name, mds_index({"x": (encoding, size)}, [("a", len(data), len(values))], **changes), data)
        return data

    sizes = [s for _, s in MDS_COLUMNS.values()]
    data = shard([mds_record(sizes, mds_values(i)) for i in range(3)])
    write("mds", "all", mds_index(MDS_COLUMNS, [("a", len(data), 3), ("b", len(data), 3)]), data)
    write("mds", "cut", mds_index(MDS_COLUMNS, [("a", len(data), 3)]), data[:-5])
    write("mds", "more_records", mds_index(MDS_COLUMNS, [("a", len(data), 4)]), data)
    for name, encoding, size, values in (
            ("int", "int", 8, [bytes(8), b"\xff" * 8]), ("half", "float16", 2, [b"\0\x3c"]), ("str", "str", None, [b"", b"x"]),
            ("jpeg", "jpeg", None, [b"\xff\xd8", b"\xff"]), ("png", "png", None, [png(7)]), ("digits", "str_int", None, [b"-12", b"x"]),
            ("digits_long", "str_int", None, [b"9" * 19, b"-9223372036854775808"]),
            ("shaped", "ndarray:uint8:2,2", 4, [b"abcd"]), ("typed", "ndarray:int32", None, [b"\4\1" + bytes(4), b"\4\2" + bytes(8)]),
            ("open", "ndarray", None, [bytes([8, 8, 1, 3]) + b"abc"]), ("wide", "ndarray:uint8", None, [b"\7" + struct.pack("<Q", 2) + b"ab"]),
            ("wide_huge", "ndarray:uint8", None, [b"\x0b" + struct.pack("<2Q", 1 << 63, 2)]),
            ("rank_9", "ndarray:uint8", None, [b"\x24" + b"\1" * 10]), ("empty", "ndarray:uint8", None, [b"\4\0"]),
            ("no_type", "ndarray", None, [bytes([7, 4, 1, 3])]), ("grey", "pil", None, [pil(2, 2, b"L", b"abcd")]),
            ("rgb", "pil", None, [pil(1, 1, b"RGB", b"abc"), pil(1, 1, b"RGB", b"xyz")]),
            ("sizes", "pil", None, [pil(1, 1, b"L", b"a"), pil(2, 1, b"L", b"ab")]), ("palette", "pil", None, [pil(1, 1, b"P", b"a")]),
            ("pil_huge", "pil", None, [struct.pack("<3I", 0xffffffff, 0xffffffff, 3) + b"RGB"]),
            ("mode", "pil", None, [struct.pack("<3I", 1, 1, 0xffffffff)]), ("pickle", "pkl", None, [b"."]),
            ("list", "list[jpeg]", None, [bytes(8)]), ("unknown", "uint9", None, [b"x"])):
        one(name, encoding, size, values)
    one("zip", "int", 8, [bytes(8)], zip_data={"basename": "a.zstd", "bytes": 3, "hashes": {}})
    one("zip_gone", "int", 8, [bytes(8)], raw_data={"basename": "c", "bytes": 24, "hashes": {"sha1": "0"}},
        zip_data={"basename": "c.zstd", "bytes": 3, "hashes": {}})
    for name, hashes in (("hashed", {"sha1": None, "blake2b": "00"}), ("hashed_wrong", {"sha1": "0" * 40, "md5": "f" * 32}),
                         ("hashed_short", {"xxh64": "0"}), ("hashed_unknown", {"sha512": None})):
        data = shard([mds_record([8], [bytes(8)])])
        hashes = {k: hashlib.new(k, data).hexdigest() if v is None else v for k, v in hashes.items()}
        one(name, "int", 8, [bytes(8)], raw_data={"basename": "a", "bytes": len(data), "hashes": hashes})
    one("above", "int", 8, [bytes(8)], raw_data={"basename": "../a", "bytes": 24, "hashes": {}})
    one("version", "int", 8, [bytes(8)], version=3)
    data = shard([bytes(8)] * 2)
    index = mds_index({"x": ("int", 8)}, [("a", len(data), 2)])
    write("mds", "backwards", index, data[:8] + b"\x04" + data[9:])
    write("mds", "beyond", index, data[:8] + b"\xff" + data[9:])
    write("mds", "into_the_table", index, data[:4] + b"\x08" + data[5:])
    write("mds", "many", mds_index({"x": ("int", 8)}, [("a", len(data), 0xffffffff)]), b"\xff" * 4 + data[4:])
    write("mds", "other_columns", {"version": 2, "shards": index["shards"] + mds_index({"y": ("int", 8)}, [("b", len(data), 2)])["shards"]}, data)
    write("mds", "no_shards", {"version": 2, "shards": []}, b"")
    write("mds", "no_json", b"{", data)


def litdata():
    def one(name, form, values, **config):
        data = shard([litdata_record([v]) for v in values])
        write("litdata", name, litdata_index([form], {"x": 0}, [("a", len(data), len(values))], **config), data)

    data = shard([litdata_record(litdata_values(i)) for i in range(3)])
    index = litdata_index(LITDATA_FORMATS, LITDATA_TREE, [("a", len(data), 3), ("b", len(data), 3)])
    write("litdata", "all", index, data)
    write("litdata", "cut", index, data[:-5])
    write("litdata", "fewer_formats", litdata_index(LITDATA_FORMATS[:-1], LITDATA_TREE, [("a", len(data), 3)]), data)
    write("litdata", "more_formats", litdata_index(LITDATA_FORMATS + ["int"], LITDATA_TREE, [("a", len(data), 3)]), data)
    for name, form, values in (
            ("int", "int", [bytes(8)]), ("bool", "bool", [b"\1", b"\0"]), ("str", "str", [b"", b"x"]), ("jpeg", "jpeg", [b"\xff\xd8"]),
            ("image", "image:png", [png(7)]), ("file", "file:bin", [b"x"]), ("short", "int", [b"1234"]),
            ("tensor", "tensor", [struct.pack(">3I", 11, 1, 2) + b"ab", struct.pack(">3I", 11, 1, 1) + b"a"]),
            ("scalar", "tensor", [struct.pack(">2I", 0, 0) + bytes(4)]), ("half", "tensor", [struct.pack(">3I", 10, 1, 1) + b"ab"]),
            ("complex", "tensor", [struct.pack(">3I", 6, 1, 1) + bytes(16)]),
            ("huge", "tensor", [struct.pack(">5I", 11, 3, *[0xffffffff] * 3)]), ("rank", "tensor", [struct.pack(">2I", 11, 0xffffffff)]),
            ("type", "tensor", [struct.pack(">3I", 21, 1, 1) + b"a"]), ("numpy", "numpy", [struct.pack("<4I", 1, 2, 1, 2) + b"abcd"]),
            ("bare", "no_header_tensor:15", [b"abcd", b"abcdefgh"]), ("bare_rest", "no_header_numpy:5", [b"abc"]),
            ("bare_type", "no_header_numpy:15", [b"a"]), ("bare_number", "no_header_tensor:99999999999999999999", [b"a"]),
            ("raw", "pil", [pil(1, 1, b"RGBA", b"abcd")]), ("pickle", "pickle", [b"."]), ("json", "json", [b"[]"])):
        one(name, form, values)
    one("encrypted", "int", [bytes(8)], encryption={"algorithm": "fernet"})
    one("batches", "int", [bytes(8)], compression="zstd", compression_level="batch")
    one("packed", "int", [bytes(8)], compression="zstd")
    one("loader", "int", [bytes(8)], item_loader="ParquetLoader")
    one("no_spec", "int", [bytes(8)], data_spec=None)
    for name, text in (("spec_protocol", "[2, null]"), ("spec_cut", "[1"), ("spec_type", '[1, {"type": 7, "children_spec": [null]}]'),
                       ("spec_keys", '[1, {"type": "builtins.dict", "context": "[]", "children_spec": [{"type": null, "children_spec": []}]}]'),
                       ("spec_deep", "[1, " + '{"type": "l", "children_spec": [' * 14 + "7" + "]}" * 14 + "]")):
        one(name, "int", [bytes(8)], data_spec=text)
    items = [struct.pack(f"<{n}H", *range(n)) for n in (5, 0, 6)]
    data = shard(items)
    write("litdata", "tokens", litdata_index(["no_header_numpy:5"], 0, [("a", len(data), 3)], [11]), data)
    write("litdata", "tokens_of_texts", litdata_index(["str"], 0, [("a", len(data), 3)], [11]), data)
    arrow = shard([b"", b""]) + b"rows" + struct.pack("<I", 4) + b"LDARW01\0"
    write("litdata", "arrow", litdata_index(["str"], 0, [("a", len(arrow), 2)]), arrow)
    write("litdata", "framed", litdata_index(["str"], 0, [("a", 40, 2)]), b"LDFZ01\0\0" + bytes(32))
    write("litdata", "above", litdata_index(["int"], 0, [("/a", 40, 2)]), b"")
    write("litdata", "no_json", b"[]", b"")


if __name__ == "__main__":
    mds()
    litdata()
