#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make the arrays of tests/golden/array with zarr-python, tensorstore and zarrs.

    make_array_golden.py [FOLDER]      needs: zarr >= 3.1, numcodecs, tensorstore, zarrs, ml_dtypes, numpy

Each .pack file holds the trees of many arrays: a record is the length of its key (4 bytes, little endian), the key, the
length of its content (8 bytes), the content. Beside its own files an array NAME has NAME/expected, its values in C order and
little endian, and NAME/about: dtype and shape.
"""
import json
import shutil
import struct
import sys
import tempfile
import warnings
from pathlib import Path

import ml_dtypes
import numcodecs
import numpy as np
import tensorstore as ts
import zarr
from zarr.codecs import (BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec)

warnings.simplefilter("ignore")
ROOT = Path(__file__).resolve().parent.parent
OUT = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests/golden/array"
NUMBERS = ["bool", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]


class Pack:
    def __init__(self, name):
        self.name, self.records, self.names = name, [], set()
        self.folder = Path(tempfile.mkdtemp())

    def path(self, name):
        assert name not in self.names, name
        self.names.add(name)
        return self.folder / name

    def put(self, key, content):
        self.records.append(struct.pack("<I", len(key)) + key.encode() + struct.pack("<Q", len(content)) + content)

    def take(self, name):
        for file in sorted((self.folder / name).rglob("*")):
            if file.is_file():
                content = file.read_bytes()
                if file.name.startswith(".z") or file.name == "zarr.json":  # without the spaces
                    content = json.dumps(json.loads(content), separators=(",", ":")).encode()
                self.put(f"{name}/{file.relative_to(self.folder / name)}", content)

    def done(self, name, data, type_name=None):
        """The array was written: take its files, and what it holds."""
        self.take(name)
        little = data.astype(data.dtype.newbyteorder("<")) if data.dtype.byteorder == ">" else data
        self.put(f"{name}/expected", np.ascontiguousarray(little).tobytes())
        label = type_name or about(data.dtype)
        self.put(f"{name}/about", " ".join([label, *map(str, data.shape)]).encode())

    def write(self):
        shutil.rmtree(self.folder)
        body = b"".join(self.records)
        (OUT / f"{self.name}.pack").write_bytes(body)
        print(f"{self.name}.pack: {len(self.names)} arrays, {len(body)} bytes")


def about(dtype):
    if dtype.kind in "SUV":
        return f"{dtype.kind}{dtype.itemsize // (4 if dtype.kind == 'U' else 1)}"
    return dtype.name


def values(dtype, shape, seed=1):
    dtype = np.dtype(dtype)
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        low, high = max(np.iinfo(dtype).min, -1000), min(np.iinfo(dtype).max, 1000)
        data = np.array(rng.integers(low, high + 1, shape)).astype(dtype)
        if data.size > 1:
            data.flat[-1] = np.iinfo(dtype).max
        return data
    if dtype.kind == "f":
        return np.array(np.round(rng.normal(size=shape), 2)).astype(dtype)
    if dtype.kind == "c":
        return np.array(np.round(rng.normal(size=shape), 1) + 1j * np.round(rng.normal(size=shape), 1)).astype(dtype)
    if dtype.kind in "mM":
        data = np.array(rng.integers(0, 10**6, shape)).astype(f"{dtype.byteorder.replace('=', '<')}i8").view(dtype)
        if data.size > 1:
            data.flat[1] = np.array("NaT", dtype=dtype)
        return data
    if dtype.kind in "SU":
        words = np.array(["", "a", "zarr", "window", "Überraschung" if dtype.kind == "U" else "longer text"])
        return words[rng.integers(0, len(words), shape)].astype(dtype)
    if dtype.kind == "V":
        return np.frombuffer(rng.bytes(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape)
    raise ValueError(dtype)


def by_zarr(pack, name, data, version, **options):
    options.setdefault("chunks", data.shape or ())
    options.setdefault("fill_value", None if version == 2 else zarr.core.dtype.get_data_type_from_native_dtype(data.dtype).default_scalar())
    array = zarr.create_array(str(pack.path(name)), shape=data.shape, dtype=data.dtype, zarr_format=version, **options)
    array[...] = data
    pack.done(name, data)


def v3():
    pack = Pack("zarr_v3")
    plain = dict(compressors=None)
    for code in NUMBERS:
        by_zarr(pack, f"type_{code}", values(code, (7, 5)), 3, chunks=(3, 4), compressors=ZstdCodec(level=3))
        if np.dtype(code).itemsize > 1:
            by_zarr(pack, f"big_{code}", values(code, (7, 5)), 3, chunks=(3, 4), serializer=BytesCodec(endian="big"), **plain)
    for code in ["M8[ns]", "M8[D]", "m8[s]", "m8[10us]", "S5", "U6", "V3"]:
        name = "".join(c for c in code if c.isalnum())
        by_zarr(pack, f"type_{name}", values(code, (6, 4)), 3, chunks=(4, 4), compressors=ZstdCodec())
    shapes = [(), (17,), (7, 5), (4, 5, 6), (3, 4, 2, 5), (2, 3, 4, 3, 2)]
    for rank, shape in enumerate(shapes):
        chunks = tuple(max(1, (n + 1) // 2) for n in shape)
        by_zarr(pack, f"rank_{rank}", values("i2", shape), 3, chunks=chunks, compressors=GzipCodec(level=5))
        by_zarr(pack, f"rank_{rank}_raw", values("u4", shape), 3, chunks=chunks, **plain)
    order = {2: (1, 0), 3: (2, 0, 1), 4: (1, 3, 0, 2)}
    for rank, axes in order.items():
        by_zarr(pack, f"transposed_{rank}", values("f4", shapes[rank]), 3, chunks=tuple((n + 1) // 2 for n in shapes[rank]),
                filters=[TransposeCodec(order=axes)], compressors=ZstdCodec())
    codecs = {"gzip": GzipCodec(level=1), "zstd": ZstdCodec(level=1, checksum=True), "crc32c": Crc32cCodec()}
    for inner in ["lz4", "lz4hc", "blosclz", "zstd", "zlib"]:
        for shuffle in ["noshuffle", "shuffle", "bitshuffle"]:
            codecs[f"blosc_{inner}_{shuffle}"] = BloscCodec(cname=inner, shuffle=shuffle, clevel=5)
    for name, codec in codecs.items():
        by_zarr(pack, f"codec_{name}", values("f4", (24, 5)), 3, chunks=(16, 5), compressors=[codec])
    by_zarr(pack, "codec_two", values("f8", (20,)), 3, chunks=(8,), compressors=[ZstdCodec(), Crc32cCodec()])
    for separator in "./":
        for kind in ["default", "v2"]:
            label = {".": "dot", "/": "slash"}[separator]
            by_zarr(pack, f"keys_{kind}_{label}", values("u1", (4, 5)), 3, chunks=(2, 2), **plain,
                    chunk_key_encoding={"name": kind, "separator": separator})
    by_zarr(pack, "keys_v2_scalar", values("i4", ()), 3, chunks=(), chunk_key_encoding={"name": "v2", "separator": "."}, **plain)
    for name, code, fill in [("nan", "f4", np.nan), ("infinity", "f8", -np.inf), ("half", "f2", 0.1), ("large", "u8", 2**64 - 1),
                             ("least", "i8", -2**63), ("true", "bool", True), ("complex", "c8", complex(1.5, np.nan)),
                             ("third", "f4", 1 / 3)]:
        data = np.full((6, 6), fill, code)
        data[2:4, 2:4] = values(code, (2, 2))
        by_zarr(pack, f"fill_{name}", data, 3, chunks=(2, 2), fill_value=np.dtype(code).type(fill), compressors=ZstdCodec())
    by_zarr(pack, "empty", np.zeros((0, 3), "f4"), 3, chunks=(1, 3), **plain)
    named = zarr.create_array(str(pack.path("attributes")), shape=(3, 4), chunks=(2, 2), dtype="f4", compressors=None,
                              dimension_names=["time", None], attributes={"units": "K", "scale_factor": 0.5, "deep": {"a": [1, None]}})
    named[...] = values("f4", (3, 4))
    pack.done("attributes", values("f4", (3, 4)))
    pack.write()


def shards():
    pack = Pack("shards")
    data = values("u2", (13, 22))
    by_zarr(pack, "plain", data, 3, chunks=(4, 5), shards=(8, 10), compressors=ZstdCodec())
    for where in ["start", "end"]:
        codec = ShardingCodec(chunk_shape=(4, 5), codecs=[BytesCodec(), GzipCodec(level=1)], index_location=where)
        by_zarr(pack, f"index_{where}", data, 3, chunks=(8, 10), serializer=codec, compressors=None)
        codec = ShardingCodec(chunk_shape=(4, 5), codecs=[BytesCodec()], index_codecs=[BytesCodec(endian="big")], index_location=where)
        by_zarr(pack, f"index_{where}_big", data, 3, chunks=(8, 10), serializer=codec, compressors=None)
    inner = ShardingCodec(chunk_shape=(2, 5), codecs=[BytesCodec(), ZstdCodec()], index_location="start")
    for where in ["start", "end"]:
        outer = ShardingCodec(chunk_shape=(4, 10), codecs=[inner], index_location=where)
        by_zarr(pack, f"nested_{where}", data, 3, chunks=(8, 20), serializer=outer, compressors=None)
    sparse = np.full((16, 16), 7, "i4")
    sparse[3, 3] = 1
    sparse[9:12, 12:] = 2
    by_zarr(pack, "sparse", sparse, 3, chunks=(2, 4), shards=(8, 8), fill_value=7, compressors=ZstdCodec())
    by_zarr(pack, "scalar_like", values("f8", (1,)), 3, chunks=(1,), shards=(1,), compressors=ZstdCodec())
    cube = values("f4", (6, 7, 8))
    codec = ShardingCodec(chunk_shape=(2, 2, 4), codecs=[TransposeCodec(order=(2, 1, 0)), BytesCodec(), ZstdCodec()])
    by_zarr(pack, "transposed_inside", cube, 3, chunks=(4, 4, 8), serializer=codec, compressors=None)
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(pack.path("transposed_outside")) + "/"},
            "metadata": {"shape": [6, 7, 8], "data_type": "float32", "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 4, 8]}},
                         "codecs": [{"name": "transpose", "configuration": {"order": [2, 0, 1]}},
                                    {"name": "sharding_indexed", "configuration": {
                                        "chunk_shape": [4, 2, 2], "index_location": "start",
                                        "codecs": [{"name": "transpose", "configuration": {"order": [1, 0, 2]}},
                                                   {"name": "bytes", "configuration": {"endian": "little"}},
                                                   {"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0}}],
                                        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]}}]}}
    ts.open(spec, create=True).result().write(cube).result()
    pack.done("transposed_outside", cube)
    pack.write()


def tensorstore_and_zarrs():
    pack = Pack("others")
    for code in ["bfloat16", "float16", "int64", "complex64", "bool"]:
        dtype = np.dtype(getattr(ml_dtypes, code, code))
        data = values("f4", (9, 4)).astype(dtype) if code == "bfloat16" else values(dtype, (9, 4))
        for endian in ["little", "big"]:
            name = f"tensorstore_{code}_{endian}"
            spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(pack.path(name)) + "/"},
                    "metadata": {"shape": [9, 4], "data_type": code, "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 3]}},
                                 "codecs": [{"name": "bytes", "configuration": {"endian": endian}} if dtype.itemsize > 1 else {"name": "bytes"},
                                            {"name": "gzip", "configuration": {"level": 5}}]}}
            ts.open(spec, create=True).result().write(data).result()
            pack.done(name, data, code)
    for code, order in [("<f4", "F"), (">f4", "C"), (">i2", "F"), ("|b1", "C"), ("<c16", "F"), ("bfloat16", "C")]:
        native = np.dtype(ml_dtypes.bfloat16) if code == "bfloat16" else np.dtype(code)
        data = values(native.newbyteorder("<") if code != "bfloat16" else "f4", (6, 5, 3)).astype(native.newbyteorder("=") if code != "bfloat16" else native)
        name = "tensorstore_v2_" + "".join(c for c in code if c.isalnum()) + order
        spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": str(pack.path(name)) + "/"},
                "metadata": {"shape": [6, 5, 3], "dtype": code, "chunks": [4, 2, 3], "order": order,
                             "compressor": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": -1}}}
        ts.open(spec, create=True).result().write(data).result()
        pack.done(name, data, "bfloat16" if code == "bfloat16" else None)
    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
    import zarrs  # noqa: F401
    data = values("f4", (10, 12))
    by_zarr(pack, "zarrs_zstd", data, 3, chunks=(4, 5), compressors=ZstdCodec(checksum=True))
    by_zarr(pack, "zarrs_blosc", data, 3, chunks=(4, 5), compressors=BloscCodec(cname="zstd", shuffle="bitshuffle"))
    by_zarr(pack, "zarrs_shards", data, 3, chunks=(2, 3), shards=(4, 6), compressors=GzipCodec())
    zarr.config.reset()
    pack.write()


def v2():
    pack = Pack("zarr_v2")
    none = dict(compressors=None, filters=None)
    for code in NUMBERS + ["M8[ns]", "m8[h]", "S7", "U5", "V4"]:
        name = "".join(c for c in code if c.isalnum())
        by_zarr(pack, f"type_{name}", values(code, (7, 5)), 2, chunks=(3, 4), **none)
        if np.dtype(code).itemsize > 1 and np.dtype(code).kind not in "SV":
            by_zarr(pack, f"big_{name}", values(np.dtype(code).newbyteorder(">"), (7, 5)), 2, chunks=(3, 4), **none)
    record = np.array([(1, 2.5, b"ab"), (3, -4, b"c")] * 5, dtype=[("a", "<i2"), ("b", "<f8"), ("c", "S3")])
    by_zarr(pack, "record", record, 2, chunks=(4,), **none)
    for rank, shape in enumerate([(), (17,), (7, 5), (4, 5, 6), (3, 4, 2, 5), (2, 3, 4, 3, 2)]):
        chunks = tuple(max(1, (n + 1) // 2) for n in shape)
        for order in "CF":
            by_zarr(pack, f"rank_{rank}_{order}", values("i2", shape), 2, chunks=chunks, order=order, compressors=numcodecs.Zlib(), filters=None)
    compressors = [numcodecs.Zlib(1), numcodecs.GZip(1), numcodecs.BZ2(1), numcodecs.LZMA(), numcodecs.Zstd(1), numcodecs.LZ4()]
    compressors += [numcodecs.Blosc(cname, 5, shuffle) for cname in ["lz4", "lz4hc", "blosclz", "zstd", "zlib"] for shuffle in [0, 1, 2, -1]]
    for i, compressor in enumerate(compressors):
        by_zarr(pack, f"compressor_{i:02}", values("f4", (24, 5)), 2, chunks=(16, 5), compressors=compressor, filters=None)
    filters = [[numcodecs.Delta("<i4")], [numcodecs.Delta("<i4", astype="<i8")], [numcodecs.Shuffle(4)], [numcodecs.CRC32()],
               [numcodecs.Adler32()], [numcodecs.Fletcher32()], [numcodecs.CRC32C()], [numcodecs.Delta("<i4"), numcodecs.Shuffle(4)],
               [numcodecs.AsType("<i8", "<i4")]]
    for i, chain in enumerate(filters):
        by_zarr(pack, f"filter_{i}", np.arange(60, dtype="<i4").reshape(12, 5) * 3, 2, chunks=(5, 5), compressors=numcodecs.Zlib(), filters=chain)
    by_zarr(pack, "packbits", values("bool", (21,)), 2, chunks=(9,), compressors=numcodecs.Zlib(), filters=[numcodecs.PackBits()])
    for name, chain, data in [("scaled", [numcodecs.FixedScaleOffset(offset=10, scale=4, dtype="<f8", astype="<i2")], np.arange(30) / 4 + 10),
                              ("quantized", [numcodecs.Quantize(2, "<f8")], np.arange(30) / 7), ("rounded", [numcodecs.BitRound(6)], (np.arange(30) / 7).astype("f4"))]:
        array = zarr.create_array(str(pack.path(name)), shape=data.shape, dtype=data.dtype, chunks=(8,), zarr_format=2, filters=chain, compressors=numcodecs.Zlib())
        array[...] = data
        pack.done(name, array[...])
    by_zarr(pack, "separator", values("u1", (4, 5)), 2, chunks=(2, 2), chunk_key_encoding={"name": "v2", "separator": "/"}, **none)
    for name, code, fill in [("nan", "f4", np.nan), ("infinity", "f8", np.inf), ("large", "u8", 2**64 - 1), ("bytes", "S4", b"ab"), ("text", "U3", "äb")]:
        data = np.full((6, 6), fill, code)
        data[2:4, 2:4] = values(code, (2, 2))
        by_zarr(pack, f"fill_{name}", data, 2, chunks=(2, 2), fill_value=np.dtype(code).type(fill), **none)
    array = zarr.create_array(str(pack.path("attributes")), shape=(3, 4), chunks=(2, 2), dtype="f4", zarr_format=2, **none,
                              attributes={"_ARRAY_DIMENSIONS": ["y", "x"], "_FillValue": float("nan"), "large": 2**63})
    array[...] = values("f4", (3, 4))
    pack.done("attributes", values("f4", (3, 4)))
    pack.write()


def groups():
    """A tree of both versions, with and without consolidated metadata."""
    for version in (2, 3):
        pack = Pack(f"group_v{version}")
        for name in ["plain", "consolidated"]:
            root = zarr.create_group(str(pack.path(name)), zarr_format=version, attributes={"title": "weather"})
            inner = root.create_group("surface")
            for place, group in [("t2m", root), ("wind", inner)]:
                group.create_array(place, shape=(4, 3), chunks=(2, 3), dtype="i2", compressors=None, filters=None)[...] = np.arange(12).reshape(4, 3)
            root.create_group("void")
            if name == "consolidated":
                zarr.consolidate_metadata(str(pack.folder / name), zarr_format=version)
            pack.take(name)
        pack.write()


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    v3()
    shards()
    tensorstore_and_zarrs()
    v2()
    groups()
