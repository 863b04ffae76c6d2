#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The corpus of fuzz/fuzz_windows.c:  make_windows_corpus.py ROOT/fuzz/corpus/windows

Each file: two bytes of length (little endian) and the options, two and a zarr.json or none, the bytes of every chunk.
"""
import json
import struct
import sys
from pathlib import Path

OPTIONS = ["", "window=2x2x3&stride=1x2x3", "window=time:2,y:4&overlap=time:1&nan=mask", "input=2&target=1&lead=1&stride=time:1",
           "range=time:1:4,x::5&window=1x1x5&mean=2&std=3&convert=float64", "window=0:3,2:6&nan=drop", "stack=true&nan=fill&fill=1",
           "window=9x9x9", "range=time:9:8", "variables=a,b", "window=2x4x3&missing=error", "window=1x4x6&normalize=true"]
CHUNK = bytes.fromhex("28b52ffd60000500")  # the head of a frame; what follows is short


def metadata(codecs, shape=(5, 4, 6), chunk=(2, 4, 3), dtype="float32"):
    return json.dumps({"zarr_format": 3, "node_type": "array", "shape": shape, "data_type": dtype, "fill_value": 0,
                       "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
                       "chunk_key_encoding": {"name": "default"}, "codecs": codecs}).encode()


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    plain = [{"name": "bytes", "configuration": {"endian": "little"}}]
    big = [{"name": "bytes", "configuration": {"endian": "big"}}]
    index = [*plain, {"name": "crc32c"}]
    shards = [{"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 2, 3], "codecs": plain, "index_codecs": index}}]
    cases = [(o, b"", CHUNK + b"\1\2\3") for o in OPTIONS]
    cases += [(OPTIONS[1], metadata(c), bytes(range(96))) for c in (plain, big, shards)]
    cases += [("window=4", metadata(plain, (9,), (4,), "int16"), b"12345678"),
              ("window=1x1x1&stride=1x1x1", metadata(plain, (2**40, 2**10, 2**9), (1, 1, 1), "uint8"), b"1"),
              ("window=2x2", metadata([*plain, {"name": "gzip", "configuration": {"level": 1}}], (4, 4), (2, 2), "uint8"), b"\x1f\x8b")]
    for i, (options, document, chunk) in enumerate(cases):
        o = options.encode()
        (out / f"{i:02d}").write_bytes(struct.pack("<H", len(o)) + o + struct.pack("<H", len(document)) + document + chunk)


if __name__ == "__main__":
    main()
