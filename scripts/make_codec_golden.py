#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/golden/codec/chains.json: chunks as zarr-python and numcodecs write them.

    python3 scripts/make_codec_golden.py [FOLDER]

Needs zarr, numcodecs and google-crc32c. Each case has the type of the elements, the shape of the chunk, the metadata
of its codecs, and in base64 the encoded chunk, what it decodes to and, where that differs, what it was written from (C order, little
endian). "exact": an encoder has one way to write it. Left out is what zarr-python cannot read back itself: filters of numbers before big-endian bytes, and
quantize to another type, in v3. Made with zarr 3.1.6, numcodecs 0.16.6, NumPy 2.1.3.
"""
import base64
import json
import os
import sys
import warnings

import numcodecs
import numpy as np
import zarr

warnings.simplefilter("ignore")

FOLDER = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "tests", "golden", "codec")

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
BIG = {"name": "bytes", "configuration": {"endian": "big"}}


def named(name, **configuration):
    return {"name": name, "configuration": configuration}


def data(dtype, shape):
    n = int(np.prod(shape))
    rng = np.random.default_rng(n + len(dtype))
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if kind in "iu":
        return (np.cumsum(rng.integers(0, 5, n)) % 120).astype(dtype).reshape(shape)
    if kind == "f":
        return (1000 + np.cumsum(rng.normal(size=n)).reshape(shape)).astype(dtype)
    if kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    return np.arange(n).astype(dtype).reshape(shape)


def text(raw):
    return base64.b64encode(bytes(raw)).decode()


def little(array):
    array = np.ascontiguousarray(array)
    return array.astype(array.dtype.newbyteorder("<"))


def case(name, array, encoded, decoded, exact, **metadata):
    dtype = np.dtype(array.dtype)
    swap = {"c": dtype.itemsize // 2, "U": 4, "b": 1, "S": 1, "V": 1}.get(dtype.kind, dtype.itemsize)
    source, result = little(array).tobytes(), little(decoded).tobytes()
    if source != result:  # a codec that loses precision
        metadata["source"] = text(source)
    plain = dtype.name if dtype.kind in "biufc" else ""
    return {"name": name, "dtype": plain, "itemsize": dtype.itemsize, "swap_size": swap, "shape": list(array.shape),
            "exact": exact, "encoded": text(encoded), "decoded": text(result), **metadata}


def v3(name, dtype, shape, codecs, exact=False):
    """One chunk, through the codec pipeline of zarr-python."""
    array = data(dtype, shape)
    metadata = {"zarr_format": 3, "node_type": "array", "shape": list(shape), "data_type": np.dtype(dtype).name,
                "chunk_grid": named("regular", chunk_shape=list(shape)), "chunk_key_encoding": named("default"),
                "fill_value": False if np.dtype(dtype).kind == "b" else [0.0, 0.0] if np.dtype(dtype).kind == "c" else 0,
                "codecs": codecs, "attributes": {}}
    store = {}
    memory = zarr.storage.MemoryStore(store)
    store["zarr.json"] = zarr.core.buffer.cpu.Buffer.from_bytes(json.dumps(metadata).encode())
    z = zarr.open_array(memory, mode="r+")
    z[...] = array
    key = "c" + "".join("/0" for _ in shape)
    encoded = store[key].to_bytes()
    decoded = zarr.open_array(memory, mode="r")[...]
    return case(name, array, encoded, decoded, exact, codecs=codecs)


def v2(name, dtype, shape, order, filters, compressor, exact=False):
    array = data(dtype, shape)
    store = {}
    memory = zarr.storage.MemoryStore(store)
    z = zarr.create_array(memory, shape=shape, chunks=shape, dtype=dtype, order=order, zarr_format=2, filters=filters,
                          compressors=compressor, fill_value=None if np.dtype(dtype).kind in "SU" else 0)
    z[...] = array
    encoded = store[".".join("0" for _ in shape)].to_bytes()
    decoded = zarr.open_array(memory, mode="r")[...]
    metadata = json.loads(store[".zarray"].to_bytes())
    return case(name, array, encoded, decoded, exact, filters=metadata["filters"], compressor=metadata["compressor"],
                order=metadata["order"], big_endian=np.dtype(dtype).byteorder == ">")


def codec(name, dtype, shape, config, exact=True):
    """One codec of numcodecs on the bytes of an array."""
    array = data(dtype, shape)
    c = numcodecs.get_codec(dict(config))
    encoded = np.asarray(numcodecs.compat.ensure_contiguous_ndarray(c.encode(array))).tobytes()
    decoded = np.frombuffer(np.asarray(c.decode(encoded)).tobytes(), dtype=dtype).reshape(shape)
    big = np.dtype(dtype).byteorder == ">"
    return case(name, array, encoded, decoded, exact, filters=[config], compressor=None, order="C", big_endian=big)


def cases():
    for dtype in "bool int8 uint16 int32 uint64 float16 float32 float64 complex64 complex128".split():
        endian = [BYTES, BIG] if np.dtype(dtype).itemsize > 1 else [named("bytes")]
        for i, b in enumerate(endian):
            yield v3(f"{dtype} {'little big'.split()[i]}", dtype, (3, 5, 7), [b], True)
            yield v3(f"{dtype} zstd {i}", dtype, (3, 5, 7), [b, named("zstd", level=3, checksum=bool(i))])
            yield v3(f"{dtype} blosc {i}", dtype, (5, 5, 7), [b, named(
                "blosc", cname="zstd" if i else "lz4", clevel=5, shuffle="bitshuffle" if i else "shuffle",
                typesize=np.dtype(dtype).itemsize, blocksize=0)])
    for order in ([1, 0, 2], [2, 1, 0], [0, 2, 1], [1, 2, 0], [2, 0, 1]):
        for dtype in ("uint8", "uint16", "float32", "float64", "complex128"):
            yield v3(f"transpose {order} {dtype}", dtype, (4, 3, 5), [
                named("transpose", order=order), BYTES if dtype != "uint8" else named("bytes"), named("crc32c")], True)
    yield v3("transpose 4d", "int16", (2, 3, 4, 5), [named("transpose", order=[3, 1, 0, 2]), BIG], True)
    yield v3("gzip", "float64", (10, 10), [BYTES, named("gzip", level=5), named("crc32c")])
    yield v3("zstd twice", "int32", (10, 10), [BYTES, named("zstd", level=1, checksum=False), named("gzip", level=1)])
    number = {"dtype": "<f8", "astype": "<i4"}
    yield v3("numcodecs fixedscaleoffset", "float64", (6, 7), [
        named("numcodecs.fixedscaleoffset", scale=100, offset=1000, **number), BYTES], True)
    yield v3("numcodecs delta", "int32", (6, 7), [named("numcodecs.delta", dtype="<i4", astype="<i2"), BYTES], True)
    yield v3("numcodecs packbits", "bool", (5, 9), [named("numcodecs.packbits"), named("bytes")], True)
    yield v3("numcodecs quantize", "float64", (6, 7), [
        named("numcodecs.quantize", digits=2, dtype="<f8", astype="<f8"), BYTES], True)
    yield v3("numcodecs bitround", "float32", (6, 7), [named("numcodecs.bitround", keepbits=7), BYTES], True)
    yield v3("numcodecs astype", "int32", (6, 7), [
        named("numcodecs.astype", encode_dtype="<i2", decode_dtype="<i4"), BYTES], True)
    for c in (named("numcodecs.zlib", level=3), named("numcodecs.bz2", level=3), named("numcodecs.lz4", acceleration=2),
              named("numcodecs.lzma", format=1, preset=2), named("numcodecs.zstd", level=2),
              named("numcodecs.gzip", level=2), named("numcodecs.blosc", cname="lz4", clevel=2, shuffle=2)):
        yield v3(c["name"], "int16", (20, 10), [BYTES, c])
    for name in ("crc32", "crc32c", "adler32", "fletcher32"):
        yield v3("numcodecs " + name, "int16", (3, 5), [BYTES, named("numcodecs." + name)], True)
    yield v3("numcodecs shuffle", "float64", (11, 3), [BIG, named("numcodecs.shuffle", elementsize=8)], True)
    for order in "CF":
        for dtype in ("<u2", ">u2", "<f8", ">f4", "|b1", ">c8", "<c16", "|S5", "<U3", ">U3", "<M8[ns]"):
            yield v2(f"v2 {order} {dtype}", dtype, (4, 3, 5), order, None, None, True)
        yield v2(f"v2 {order} zstd", ">i4", (4, 3, 5), order, None, numcodecs.Zstd(level=1))
        yield v2(f"v2 {order} shuffle blosc", ">i4", (40, 3, 5), order, None, numcodecs.Blosc(cname="lz4", shuffle=1))
        yield v2(f"v2 {order} filters", "<i4", (4, 3, 5), order, [
            numcodecs.Delta("<i4"), numcodecs.Shuffle(4)], numcodecs.Zlib(1))
    yield v2("v2 big shuffle", ">i4", (7, 5), "C", [numcodecs.Shuffle(4)], None, True)
    yield v2("v2 big delta", ">i4", (7, 5), "C", [numcodecs.Delta(">i4", ">i2")], None, True)
    for dtype in "i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8".split():
        for end in "<>":
            yield codec(f"delta {end}{dtype}", end + dtype, (40,), {"id": "delta", "dtype": end + dtype})
        if dtype != "f2":
            yield codec(f"scale {dtype}", "<f8", (40,), {
                "id": "fixedscaleoffset", "scale": 0.5, "offset": 1000, "dtype": "<f8", "astype": "<" + dtype})
        for other in "i1 u2 i4 u8 f4 f8".split():
            yield codec(f"astype {dtype} as {other}", "<" + dtype, (20,), {
                "id": "astype", "decode_dtype": "<" + dtype, "encode_dtype": ">" + other})
    yield codec("delta wraps", "u1", (40,), {"id": "delta", "dtype": "u1", "astype": "i2"})
    yield codec("delta float of int", "<f4", (40,), {"id": "delta", "dtype": "<f4", "astype": "<i4"})
    yield codec("scale float32", "<f4", (40,), {
        "id": "fixedscaleoffset", "scale": 3, "offset": 7.3, "dtype": "<f4", "astype": "<f4"})
    yield codec("scale ints", "<i4", (40,), {
        "id": "fixedscaleoffset", "scale": 2, "offset": 10, "dtype": "<i4", "astype": "u1"})
    for digits in (-1, 0, 3, 9):
        for dtype in ("<f4", "<f8"):
            yield codec(f"quantize {digits} {dtype}", dtype, (40,), {
                "id": "quantize", "digits": digits, "dtype": dtype, "astype": "<f4"})
    raw = [{"id": 33, "preset": 3}]
    yield codec("lzma raw", "<i4", (100,), {"id": "lzma", "format": 3, "filters": raw}, False)
    yield codec("lzma raw delta", "<i4", (100,), {"id": "lzma", "format": 3, "filters": [
        {"id": 3, "dist": 4}, {"id": 33, "dict_size": 65536, "lc": 2, "lp": 1, "pb": 0}]}, False)
    yield codec("lzma raw lzma1", "<i4", (100,), {"id": "lzma", "format": 3, "filters": [
        {"id": 0x4000000000000001, "preset": 1}]}, False)
    yield codec("lzma alone", "<i4", (100,), {"id": "lzma", "format": 2}, False)
    yield codec("lzma check none", "<i4", (100,), {"id": "lzma", "format": 1, "check": 0}, False)
    for location in ("start", "end"):
        for name in ("crc32", "crc32c", "adler32"):
            yield codec(f"{name} {location}", "<i4", (9,), {"id": name, "location": location})
    for n in (1, 2, 3, 719, 721):
        yield codec(f"fletcher32 {n}", "u1", (n,), {"id": "fletcher32"})


def main():
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, "chains.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases()) + "\n]\n")


main()
