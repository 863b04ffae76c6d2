#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/golden/tabled: shards of MDS and chunks of litdata, by the layouts that their writers have, without them.

    python3 scripts/make_tabled_golden.py

MDS: mosaicml/streaming, streaming/base/format/mds/{writer,encodings}.py. litdata: Lightning-AI/litdata,
src/litdata/streaming/{writer,serializers,item_loader}.py. tests/interop/test_tabled.py holds the readers against the writers themselves.
"""
import json
import os
import struct
import zlib

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
GOLDEN = os.path.join(ROOT, "tests", "golden", "tabled")
COUNT = 11


def shard(records, between=b""):
    """u32 n, u32 offsets[n + 1], `between`, the records."""
    at = [4 + 4 * (len(records) + 1) + len(between)]
    for record in records:
        at.append(at[-1] + len(record))
    return struct.pack(f"<{len(at) + 1}I", len(records), *at) + between + b"".join(records)


def png(grey):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(bytes([0, grey]))) + chunk(b"IEND", b""))


def pil(width, height, mode, pixels):
    return struct.pack("<3I", width, height, len(mode)) + mode + pixels


def mds_record(sizes, values):
    """The sizes of those that have none in the index, then all."""
    head = b"".join(struct.pack("<I", len(v)) for s, v in zip(sizes, values) if s is None)
    assert all(s is None or s == len(v) for s, v in zip(sizes, values))
    return head + b"".join(values)


MDS_COLUMNS = {"any": ("ndarray", None), "box": ("ndarray:int16:2,3", 12), "cls": ("uint16", 2), "n": ("str_int", None),
               "photo": ("png", None), "raw": ("pil", None), "text": ("str", None), "tok": ("ndarray:uint16", None)}


def mds_values(i):
    tokens = [10 * i + k for k in range(1 + i % 3)]
    return [bytes([33, 2 << 2 | 0, 2, 1]) + struct.pack("<2i", i, -i), struct.pack("<6h", *(6 * i + k - 30 for k in range(6))),
            struct.pack("<H", 1000 + i), str((-1) ** i * i * 10**12).encode(), png(i),
            pil(3, 2, b"L", bytes(6 * i + k for k in range(6))), f"text {i}".encode(),
            bytes([1 << 2 | 1]) + struct.pack("<H", len(tokens)) + struct.pack(f"<{len(tokens)}H", *tokens)]


def mds_index(columns, shards, **changes):
    """index.json of shards (name, bytes, samples)."""
    return {"version": 2, "shards": [
        {"column_encodings": [e for e, _ in columns.values()], "column_names": list(columns),
         "column_sizes": [s for _, s in columns.values()], "compression": None, "format": "mds", "hashes": [],
         "raw_data": {"basename": name, "bytes": length, "hashes": {}}, "samples": samples, "size_limit": 1 << 26, "version": 2,
         "zip_data": None} | changes for name, length, samples in shards]}


def mds():
    sizes = [s for _, s in MDS_COLUMNS.values()]
    records = [mds_record(sizes, mds_values(i)) for i in range(COUNT)]
    config = json.dumps({"format": "mds"}).encode()
    files, shards = {}, []
    for number, first in enumerate(range(0, COUNT, 4)):
        name, part = f"shard.{number:05}.mds", records[first:first + 4]
        files[name] = shard(part, config)
        shards.append((name, len(files[name]), len(part)))
    files["index.json"] = json.dumps(mds_index(MDS_COLUMNS, shards), sort_keys=True).encode()
    return files


def spec(tree):
    """data_spec of a sample, as torch.utils._pytree.treespec_dumps() has it."""
    def node(t):
        if isinstance(t, dict):
            return {"type": "builtins.dict", "context": json.dumps(list(t)), "children_spec": [node(v) for v in t.values()]}
        if isinstance(t, (list, tuple)):
            return {"type": f"builtins.{type(t).__name__}", "context": "null", "children_spec": [node(v) for v in t]}
        return {"type": None, "context": None, "children_spec": []}
    return json.dumps([1, node(tree)])


def litdata_index(formats, tree, chunks, dims=None, **config):
    return {"chunks": [{"chunk_bytes": length, "chunk_size": n, "dim": dims[i] if dims else None, "filename": name}
                       for i, (name, length, n) in enumerate(chunks)],
            "config": {"chunk_bytes": None, "chunk_size": 4, "compression": None, "data_format": formats, "data_spec": spec(tree),
                       "encryption": None, "item_loader": "TokensLoader" if dims else "PyTreeLoader"} | config}


LITDATA_TREE = {"image": 0, "label": 0, "f": 0, "b": 0, "text": 0, "t2": 0, "t1": 0, "np2": 0, "sub": {"x": 0, "y": [0, 0]}}
LITDATA_FORMATS = ["jpeg", "int", "float", "bool", "str", "tensor", "no_header_tensor:16", "numpy", "int", "bytes", "pil"]


def litdata_values(i):
    return [b"\xff\xd8 no picture %d" % i, struct.pack("<q", i - 5), struct.pack("<d", i / 2), bytes([i % 2]), f"text {i}".encode(),
            struct.pack(">4I", 13, 2, 2, 3) + struct.pack("<6h", *(6 * i + k - 30 for k in range(6))),
            struct.pack(f"<{i % 3}i", *(10 * i + k for k in range(i % 3))),
            struct.pack("<4I", 9, 2, 1 + i % 2, 2) + struct.pack(f"<{2 * (1 + i % 2)}f", *(i + k / 4 for k in range(2 * (1 + i % 2)))),
            struct.pack("<q", i << 40), bytes(range(i)), pil(1, 2, b"RGB", bytes(6 * i + k for k in range(6)))]


def litdata_record(values):
    return struct.pack(f"<{len(values)}I", *(len(v) for v in values)) + b"".join(values)


def litdata():
    records = [litdata_record(litdata_values(i)) for i in range(COUNT)]
    files, chunks = {}, []
    for number, first in enumerate(range(0, COUNT, 4)):
        name, part = f"chunk-0-{number}.bin", records[first:first + 4]
        files[name] = shard(part)
        chunks.append((name, len(files[name]), len(part)))
    files["index.json"] = json.dumps(litdata_index(LITDATA_FORMATS, LITDATA_TREE, chunks), sort_keys=True).encode()
    return files


def tokens():
    """Items of 5, 6, 7, ... tokens that count on, as uint16 of NumPy."""
    at, items = 0, []
    for i in range(COUNT):
        items.append(struct.pack(f"<{5 + i}H", *range(at, at + 5 + i)))
        at += 5 + i
    files, chunks, dims = {}, [], []
    for number, first in enumerate(range(0, COUNT, 4)):
        name, part = f"chunk-0-{number}.bin", items[first:first + 4]
        files[name] = shard(part)
        chunks.append((name, len(files[name]), len(part)))
        dims.append(sum(map(len, part)) // 2)
    files["index.json"] = json.dumps(litdata_index(["no_header_numpy:5"], 0, chunks, dims), sort_keys=True).encode()
    return files


if __name__ == "__main__":
    for kind, make in (("mds", mds), ("litdata", litdata), ("tokens", tokens)):
        os.makedirs(os.path.join(GOLDEN, kind), exist_ok=True)
        for name, data in make().items():
            with open(os.path.join(GOLDEN, kind, name), "wb") as f:
                f.write(data)
