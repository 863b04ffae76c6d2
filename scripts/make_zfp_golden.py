#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/golden/codec/zfp.json: chunks as zarrs (`zfp`) and numcodecs (`zfpy`) write them.

    python3 scripts/make_zfp_golden.py [FOLDER]

Needs zfpy and numcodecs. The fields are those of scripts/make_codec_golden.py. The streams of `zfp`, which has no
header, are those of zfpy without one. Made with zfpy 1.0.1, numcodecs 0.16.6, NumPy 2.4.6.
"""
import base64
import json
import os
import sys

import numcodecs
import numpy as np
import zfpy

FOLDER = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "tests", "golden", "codec")
MODES = {
    "reversible": ({}, {"mode": "reversible"}),
    "rate": ({"rate": 12}, {"mode": "fixed_rate", "rate": 12}),
    "precision": ({"precision": 18}, {"mode": "fixed_precision", "precision": 18}),
    "accuracy": ({"tolerance": 0.02}, {"mode": "fixed_accuracy", "tolerance": 0.02}),
}


def text(raw):
    return base64.b64encode(bytes(raw)).decode()


def data(dtype, shape):
    rng = np.random.default_rng(int(np.prod(shape)))
    return (100 + np.cumsum(rng.normal(size=shape), axis=-1) * 10).astype(dtype)


def case(name, array, encoded, decoded, **metadata):
    return {"name": name, "dtype": array.dtype.name, "itemsize": array.itemsize, "swap_size": array.itemsize,
            "shape": list(array.shape), "exact": False, "read": True, "encoded": text(encoded),
            "decoded": text(np.ascontiguousarray(decoded).tobytes()), **metadata}


def cases():
    for dtype in ("int32", "int64", "float32", "float64"):
        for shape in ((1,), (37,), (9, 10), (5, 6, 7), (3, 4, 5, 2)):
            array = data(dtype, shape)
            for mode, (arguments, configuration) in MODES.items():
                if mode == "accuracy" and dtype.startswith("int"):
                    continue
                headed = zfpy.compress_numpy(array, write_header=True, **arguments)
                bare = zfpy.compress_numpy(array, write_header=False, **arguments)
                decoded = zfpy.decompress_numpy(headed)
                yield case(f"zfp {mode} {dtype} {shape}", array, bare, decoded,
                           codecs=[{"name": "zfp", "configuration": configuration}])
                if mode != "reversible":
                    codec = numcodecs.get_codec({"id": "zfpy", "mode": {"accuracy": 4, "precision": 3, "rate": 2}[mode],
                                                 **arguments})
                    yield case(f"zfpy {mode} {dtype} {shape}", array, codec.encode(array), decoded,
                               codecs=[{"name": "numcodecs.zfpy"}])
    array = data("float64", (9, 10))
    yield case("zfpy as a compressor", array, zfpy.compress_numpy(array, tolerance=0.1), zfpy.decompress_numpy(
        zfpy.compress_numpy(array, tolerance=0.1)), filters=None, compressor={"id": "zfpy", "mode": 4, "tolerance": 0.1})


def main():
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, "zfp.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases()) + "\n]\n")


main()
