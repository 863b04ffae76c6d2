#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write fuzz/corpus/filters and fuzz/corpus/texts: small chunks from the golden files, with the bytes that
fuzz/fuzz_filters.c and fuzz/fuzz_texts.c take in front of them.

    python3 scripts/make_filters_corpus.py
"""
import base64
import json
import os
import re
import struct
import zlib

ROOT = os.path.join(os.path.dirname(__file__), "..")
KINDS = {"hdf5.szip": 0, "hdf5.nbit": 1, "hdf5.scaleoffset": 2, "hdf5.lz4": 3, "hdf5.bitshuffle": 4, "hdf5.zfp": 5, "zfp": 6,
         "numcodecs.zfpy": 7}
MOST = 10  # seeds of each kind
MODES = ["reversible", "expert", "fixed_rate", "fixed_precision", "fixed_accuracy"]


def parameters(name, configuration):
    v = configuration.get("values")
    return {
        "hdf5.szip": lambda: [v[0], v[1], v[2], v[3] & 255, v[3] >> 8, 0],
        "hdf5.nbit": lambda: [v[1], *v[5:8], 0, 0],
        "hdf5.scaleoffset": lambda: [v[0], v[1] & 255, v[3], v[6], v[7], v[8] & 255],
        "hdf5.lz4": lambda: [v[0] & 255 if v else 0, v[0] >> 8 & 255 if v else 0, 0, 0, 0, 0],
        "hdf5.bitshuffle": lambda: [v[2], v[3] // 8, v[4] if len(v) > 4 else 0, 0, 0, 0],
        "hdf5.zfp": lambda: [*struct.pack("<I", v[2]), v[3] >> 27, v[3] >> 24 & 7],
        "zfp": lambda: [MODES.index(configuration["mode"]), int(configuration.get("rate", 8)) & 255, 0, 0, 0, 0],
        "numcodecs.zfpy": lambda: [0] * 6,
    }[name]()


def filters():
    kinds = {}
    for name, data in chunks():
        kinds.setdefault(data[0], []).append((name, data))
    for found in kinds.values():
        yield from found[::-(-len(found) // MOST)]
    yield from optional()


def optional():
    """As zarrs writes them: a mask of bits, and the values that are there."""
    for bits in range(8):
        mask = bytes([1, 0, 1, 1, 0]) if bits & 1 else b"\x0d"
        values = struct.pack(">3i" if bits & 2 else "<3i", 7, -1, 1 << 20)
        values = zlib.compress(values) if bits & 4 else values
        yield f"optional {bits}", bytes([8, 2, 5, bits, 0, 0, 0, 0, 0]) + struct.pack("<QQ", len(mask), len(values)) + mask + values


def chunks():
    seen = set()
    for file in ("hdf5.json", "zfp.json"):
        with open(os.path.join(ROOT, "tests", "golden", "codec", file)) as f:
            cases = json.load(f)
        for case in cases:
            if "codecs" not in case:
                continue
            codec = case["codecs"][-1]
            count = len(base64.b64decode(case["decoded"])) // case["itemsize"]
            names = [c["name"] for c in case["codecs"][1:]]
            if names[:1] == ["fletcher32"] and names[-1:] == ["zlib"] and count < 256:
                kind, values = 9, [0] * 6
            elif len(case["codecs"]) <= 2 and codec["name"] in KINDS and count < 256:
                kind, values = KINDS[codec["name"]], parameters(codec["name"], codec.get("configuration", {}))
            else:
                continue
            real = case["dtype"].startswith("float")
            head = bytes([kind, case["itemsize"].bit_length() - 1 | (16 if real else 0), count, *values])
            if head in seen:
                continue
            seen.add(head)
            yield case["name"], head + base64.b64decode(case["encoded"])


def texts():
    words = ["", "a", "grüße", "日本", "x" * 40, "six"]
    for bits in range(32):
        chunk = struct.pack("<I", 6)
        for word in words:
            raw = word.encode() if not bits & 2 else bytes(len(word)) + b"\xff"
            chunk += struct.pack("<I", len(raw)) + raw
        if bits & 4 and bits & 1:
            chunk = zlib.compress(chunk)
        if bits & 16 and not bits & 1:
            chunk += struct.pack("<QQ", 0, len(chunk))
        yield f"bits {bits}", bytes([bits]) + chunk


def main():
    for name, cases in (("filters", filters()), ("texts", texts())):
        folder = os.path.join(ROOT, "fuzz", "corpus", name)
        os.makedirs(folder, exist_ok=True)
        for case, data in cases:
            with open(os.path.join(folder, re.sub("[^a-z0-9]+", "_", case.replace("<", "l").replace(">", "b").lower()).strip("_")), "wb") as f:
                f.write(data)


main()
