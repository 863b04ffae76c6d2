#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/golden/array/texts.pack: arrays of texts and bytes of varying length as zarr-python writes them.

    python3 scripts/make_texts_golden.py [FOLDER]

Needs zarr. A pack is that of scripts/make_array_golden.py: each array has its objects, "about" (its type and shape) and
"expected" (for each element its length as 4 bytes, and its bytes). Made with zarr 3.1.6, numcodecs 0.16.6.
"""
import os
import struct
import sys
import warnings

import numcodecs
import numpy as np
import zarr

warnings.simplefilter("ignore")

FOLDER = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "tests", "golden", "array")
WORDS = ["", "a", "grüße", "日本", "x" * 300, "q\"\\\n", "0", "one", "💧", "four"]
TEXT = str
BYTES = zarr.dtype.VariableLengthBytes()


def texts(shape):
    return np.array([WORDS[i % len(WORDS)] + str(i // 7) * (i % 3) for i in range(int(np.prod(shape)))],
                    dtype=object).reshape(shape)


def raw(shape):
    return np.array([bytes(range(i % 9)) + b"\xff" * (i % 2) for i in range(int(np.prod(shape)))],
                    dtype=object).reshape(shape)


def array(name, values, kind, part=None, **options):
    """Of `part` only that is written; the rest is fill value."""
    store = {}
    z = zarr.create_array(zarr.storage.MemoryStore(store), shape=values.shape, dtype=kind, **options)
    if part is None:
        z[...] = values
    else:
        z[part] = values[part]
    got = np.asarray(z[...], dtype=object)
    expected = b""
    for value in got.reshape(-1):
        data = value.encode() if isinstance(value, str) else bytes(value)
        expected += struct.pack("<I", len(data)) + data
    files = {key: value.to_bytes() for key, value in store.items()}
    about = " ".join(["string" if kind is TEXT else "bytes", *map(str, values.shape)])
    return name, {**files, "about": about.encode(), "expected": expected}


def arrays():
    yield array("v3", texts((33,)), TEXT, chunks=(5,))
    yield array("v3_none", texts((33,)), TEXT, chunks=(5,), compressors=None)
    yield array("v3_gzip_crc32c", texts((4, 9)), TEXT, chunks=(3, 4),
                compressors=[zarr.codecs.GzipCodec(level=1), zarr.codecs.Crc32cCodec()])
    yield array("v3_blosc", texts((4, 9)), TEXT, chunks=(3, 4), compressors=[zarr.codecs.BloscCodec(typesize=1)])
    yield array("v3_shards", texts((33,)), TEXT, chunks=(5,), shards=(15,))
    yield array("v3_shards_fill", texts((40,)), TEXT, chunks=(5,), shards=(15,), part=slice(16, 19), fill_value="füll")
    yield array("v3_scalar", texts(()), TEXT)
    yield array("v3_fill", texts((7,)), TEXT, chunks=(2,), part=slice(2, 4), fill_value="füll")
    yield array("v3_empty", texts((0, 3)), TEXT, chunks=(1, 1))
    yield array("v3_bytes", raw((3, 11)), BYTES, chunks=(2, 4))
    yield array("v3_bytes_fill", raw((9,)), BYTES, chunks=(4,), part=slice(4, 5), fill_value=b"\1\2\3\4")
    for order in "CF":
        yield array(f"v2_{order}", texts((5, 6)), TEXT, chunks=(2, 4), order=order, zarr_format=2)
    for compressor in (None, numcodecs.Zlib(1), numcodecs.LZ4(), numcodecs.Blosc(), numcodecs.BZ2(1), numcodecs.LZMA()):
        yield array(f"v2_{compressor and compressor.codec_id}", texts((23,)), TEXT, chunks=(10,), zarr_format=2,
                    compressors=compressor)
    yield array("v2_fill", texts((7,)), TEXT, chunks=(2,), part=slice(2, 4), fill_value="f", zarr_format=2)
    yield array("v2_bytes", raw((13,)), BYTES, chunks=(4,), zarr_format=2)


def main():
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, "texts.pack"), "wb") as f:
        for name, files in arrays():
            for key, data in files.items():
                path = f"{name}/{key}".encode()
                f.write(struct.pack("<I", len(path)) + path + struct.pack("<Q", len(data)) + data)


main()
