#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write arrays with zarr-python, tensorstore and zarrs, and compare what `stoker cat` reads of them.

    python3 scripts/check_array_reader.py STOKER [SEED]

Data types x codecs x orders x byte orders x ranks 0 to 5 x edge chunks x shards, in the formats 2 and 3; of each array the
whole and a random part. Exit code 1, and a line for each, where something differs; 77 where a package is missing.
"""
import hashlib
import itertools
import json
import random
import subprocess
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

try:
    import ml_dtypes
    import numcodecs
    import numpy as np
    import tensorstore as ts
    import zarr
    import zarrs  # noqa: F401
    from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

warnings.simplefilter("ignore")
NUMBERS = ["bool", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
OTHERS = ["M8[ns]", "M8[D]", "m8[ms]", "S5", "U4", "V3"]
SHAPES = [(), (17,), (9, 14), (5, 7, 6), (4, 3, 5, 6), (3, 4, 2, 5, 3)]
CODECS = {"none": None, "gzip": GzipCodec(level=1), "zstd": ZstdCodec(level=1, checksum=True), "crc32c": Crc32cCodec(),
          **{f"{c}-{s}": BloscCodec(cname=c, shuffle=s, clevel=3)
             for c in ("lz4", "lz4hc", "blosclz", "zstd", "zlib") for s in ("noshuffle", "shuffle", "bitshuffle")}}
rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)


class Cases:
    """The arrays that were written, and what they hold."""

    def __init__(self, folder):
        self.folder, self.found, self.numbers = folder, [], itertools.count()

    def path(self, label):
        return str(self.folder / f"{next(self.numbers):04}-{label}")

    def add(self, path, data):
        self.found.append((path, data))

    def by_zarr(self, label, data, version, **options):
        path = self.path(f"{label}-v{version}")
        options.setdefault("compressors", None)
        fill = None if version == 2 else zarr.core.dtype.get_data_type_from_native_dtype(data.dtype).default_scalar()
        array = zarr.create_array(path, shape=data.shape, dtype=data.dtype, zarr_format=version, fill_value=fill, **options)
        array[...] = data
        self.add(path, data)

    def by_tensorstore(self, label, data, driver, metadata):
        path = self.path(f"ts-{label}")
        spec = {"driver": driver, "kvstore": {"driver": "file", "path": path + "/"},
                "metadata": {"shape": data.shape, **metadata}}
        ts.open(spec, create=True).result().write(data).result()
        self.add(path, data)


def values(dtype, shape):
    dtype = np.dtype(dtype)
    count = int(np.prod(shape, dtype=int))
    noise = np.frombuffer(rng.randbytes(count * dtype.itemsize), "u1")
    if dtype.kind == "b":
        return (noise & 1).astype(dtype).reshape(shape)
    if dtype.kind in "SU":
        words = np.array(["", "a", "zarr", "Öl" if dtype.kind == "U" else "long"])
        return words[noise[:count] % 4].astype(dtype).reshape(shape)
    if dtype.kind in "fc":  # noise has NaNs of many kinds, which some writers make quiet
        return (noise[:count * 2].view("i1")[:count] / 8).astype(dtype).reshape(shape)
    return noise.view(dtype).reshape(shape).copy()


def chunks_of(shape):
    """At least one axis has an edge where it can."""
    return tuple(rng.randint(1, max(1, n // 2 + 1)) for n in shape)


def shards_of(chunks):
    return tuple(c * rng.randint(1, 3) for c in chunks)


def zarr_v3(cases):
    for code in NUMBERS + OTHERS:
        for rank, shape in enumerate(SHAPES):
            name = rng.choice(list(CODECS))
            if code == "U4" and name == "crc32c" or np.dtype(code).kind in "SUV" and "-" in name:
                name = "zstd"  # Blosc takes no elements of such sizes from every writer
            endian = rng.choice(["little", "big"]) if np.dtype(code).kind in "iufc" else "little"
            chunks = chunks_of(shape)
            options = {"chunks": chunks, "compressors": CODECS[name], "serializer": BytesCodec(endian=endian)}
            if np.dtype(code).itemsize == 1 or np.dtype(code).kind in "SUVb":
                del options["serializer"]
            if rank > 1 and rng.random() < 0.5:
                axes = rng.sample(range(rank), rank)
                options["filters"] = [TransposeCodec(order=axes)]
            if rank and rng.random() < 0.4 and np.dtype(code).kind != "V":  # zarr-python cannot shard these
                options["shards"] = shards_of(chunks)
            cases.by_zarr(f"{''.join(c for c in code if c.isalnum())}-{name}", values(code, shape), 3, **options)
    for name, codec in CODECS.items():
        cases.by_zarr(name, values("i2", (30, 11)), 3, chunks=(8, 11), compressors=codec)
        cases.by_zarr(f"{name}-shards", values("f4", (30, 11)), 3, chunks=(4, 5), shards=(8, 15), compressors=codec)
    for inner, outer in itertools.product(["start", "end"], repeat=2):
        codec = ShardingCodec(chunk_shape=(2, 3), codecs=[BytesCodec(), ZstdCodec()], index_location=inner)
        codec = ShardingCodec(chunk_shape=(4, 6), codecs=[codec], index_location=outer)
        cases.by_zarr(f"nested-{inner}-{outer}", values("u4", (13, 20)), 3, chunks=(8, 12), serializer=codec)
    sparse = np.zeros((40, 30), "i4")
    sparse[17, 5:9] = 3
    cases.by_zarr("sparse", sparse, 3, chunks=(4, 5), shards=(16, 15), compressors=ZstdCodec())


def zarr_v2(cases):
    compressors = [None, numcodecs.Zlib(1), numcodecs.GZip(1), numcodecs.BZ2(1), numcodecs.LZMA(), numcodecs.Zstd(1),
                   numcodecs.LZ4()]
    compressors += [numcodecs.Blosc(c, 3, s) for c in ("lz4", "lz4hc", "blosclz", "zstd", "zlib") for s in (0, 1, 2)]
    for code in NUMBERS + OTHERS:
        for shape in SHAPES:
            dtype = np.dtype(code).newbyteorder(rng.choice("<>") if np.dtype(code).kind not in "SVb" else "=")
            cases.by_zarr("".join(c for c in code if c.isalnum()), values(np.dtype(code), shape).astype(dtype), 2,
                          chunks=chunks_of(shape), order=rng.choice("CF"), compressors=rng.choice(compressors), filters=None)
    for compressor in compressors:
        cases.by_zarr("compressor", values("i4", (30, 11)), 2, chunks=(8, 11), order=rng.choice("CF"), compressors=compressor, filters=None)
    data = np.arange(330, dtype="i4").reshape(30, 11)
    for filters in ([numcodecs.Delta("<i4")], [numcodecs.Shuffle(4)], [numcodecs.CRC32()], [numcodecs.Adler32()],
                    [numcodecs.Fletcher32()], [numcodecs.Delta("<i4", "<i2"), numcodecs.Shuffle(2)], [numcodecs.AsType("<i8", "<i4")]):
        cases.by_zarr("filter", data, 2, chunks=(8, 6), compressors=numcodecs.Zlib(1), filters=filters)


def texts(cases):
    """Texts and bytes of varying length, through zarr-python's pipeline and that of zarrs."""
    words = ["", "a", "grüße", "日本", "x" * 500, "q\"\\\n"]
    compressors = {2: [None, numcodecs.Zlib(1), numcodecs.LZ4(), numcodecs.Zstd(1), numcodecs.Blosc("lz4", 3, 0)],
                   3: [None, GzipCodec(level=1), ZstdCodec(level=1), Crc32cCodec(), BloscCodec(cname="zstd", shuffle="noshuffle")]}
    for pipeline, version, shape in itertools.product(("BatchedCodecPipeline", "ZarrsCodecPipeline"), (2, 3), SHAPES[:3]):
        zarr.config.set({"codec_pipeline.path": f"zarr{'s.' if pipeline[0] == 'Z' else '.core.codec_pipeline.'}{pipeline}"})
        for kind, compressor in itertools.product((str, zarr.dtype.VariableLengthBytes()), rng.sample(compressors[version], 2)):
            data = np.empty(shape, object)
            data.flat = [rng.choice(words) if kind is str else rng.randbytes(rng.randint(0, 9)) for _ in range(data.size)]
            chunks = chunks_of(shape)
            options = {"order": rng.choice("CF")} if version == 2 else {}
            if version == 3 and shape and rng.random() < 0.5:
                options["shards"] = shards_of(chunks)
            path = cases.path(f"texts-v{version}")
            zarr.create_array(path, shape=shape, dtype=kind, chunks=chunks, zarr_format=version, compressors=compressor,
                              **options)[...] = data
            cases.add(path, data)
    zarr.config.reset()


def tensorstore(cases):
    for code, endian in itertools.product(["bfloat16", "float16", "float64", "int64", "uint8", "complex64", "bool"], ["little", "big"]):
        dtype = np.dtype(getattr(ml_dtypes, code, code))
        for rank, shape in enumerate(SHAPES):
            chunks = chunks_of(shape)
            data = values("f4", shape).astype(dtype) if code == "bfloat16" else values(dtype, shape)
            serial = {"name": "bytes", "configuration": {"endian": endian}} if dtype.itemsize > 1 else {"name": "bytes"}
            inner = [serial, rng.choice([{"name": "gzip", "configuration": {"level": 1}}, {"name": "crc32c"},
                                         {"name": "zstd", "configuration": {"level": 1}},
                                         {"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "bitshuffle",
                                                                             "typesize": dtype.itemsize, "blocksize": 0}}])]
            transpose = {"name": "transpose", "configuration": {"order": rng.sample(range(rank), rank)}}
            if rank > 1 and rng.random() < 0.5:
                inner.insert(0, transpose)
            if rank and rng.random() < 0.5:
                sharding = {"chunk_shape": chunks, "codecs": inner, "index_location": rng.choice(["start", "end"]),
                            "index_codecs": [{"name": "bytes", "configuration": {"endian": rng.choice(["little", "big"])}}, {"name": "crc32c"}]}
                inner, chunks = [{"name": "sharding_indexed", "configuration": sharding}], shards_of(chunks)
            cases.by_tensorstore(f"{code}-{endian}", data, "zarr3", {
                "data_type": code, "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}}, "codecs": inner})
    for code, order in itertools.product(["<f4", ">f4", ">i2", "|b1", "<c16", "<u8"], "CF"):
        data = values(np.dtype(code).newbyteorder("="), (7, 5, 4))
        cases.by_tensorstore(f"v2-{code[1:]}{order}", data, "zarr", {
            "dtype": code, "chunks": [4, 2, 3], "order": order, "compressor": rng.choice([None, {"id": "zlib", "level": 1}, {
                "id": "blosc", "cname": "zstd", "clevel": 1, "shuffle": 1}])})


def by_zarrs(cases):
    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
    for code, name in itertools.product(["i2", "f4", "f8"], ["none", "gzip", "zstd", "crc32c", "zstd-bitshuffle", "lz4-shuffle"]):
        cases.by_zarr(f"zarrs-{code}-{name}", values(code, (19, 23)), 3, chunks=(6, 5), compressors=CODECS[name])
        cases.by_zarr(f"zarrs-{code}-{name}-shards", values(code, (19, 23)), 3, chunks=(3, 5), shards=(6, 10), compressors=CODECS[name])
    zarr.config.reset()


def part_of(shape):
    """A random slice, as text and as NumPy takes it."""
    slices = []
    for n in shape:
        start = rng.randrange(n)
        slices.append(slice(start, rng.randint(start + 1, n), rng.randint(1, 3)))
    return ",".join(f"{s.start}:{s.stop}:{s.step}" for s in slices), tuple(slices)


def little(data):
    data = data.astype(data.dtype.newbyteorder("<")) if data.dtype.byteorder == ">" else data
    return np.ascontiguousarray(data).tobytes()


def check_texts(path, what, arguments, expected):
    run = subprocess.run([sys.argv[1], "cat", path, *arguments], capture_output=True, text=True)
    found = [json.loads(line) for line in run.stdout.splitlines()]
    if run.returncode != 0:
        return f"{path}: {what}: {run.stderr.strip()}"
    if found != [value if isinstance(value, str) else list(value) for value in np.asarray(expected, object).reshape(-1)]:
        return f"{path}: {what}: other texts"
    return None


def check(case):
    """What is wrong with one array, or nothing."""
    path, data, text, part = case
    for what, arguments, expected in (("the whole", [], data), (f"--slice {text}", ["--slice", text], data[part])):
        if what.endswith(" "):
            continue
        if data.dtype == object:
            problem = check_texts(path, what, arguments, expected)
            if problem:
                return problem
            continue
        run = subprocess.run([sys.argv[1], "cat", path, "--dump", "sha256", "--num-threads", "2", *arguments], capture_output=True, text=True)
        if run.returncode != 0:
            return f"{path}: {what}: {run.stderr.strip()}"
        if run.stdout.strip() != hashlib.sha256(little(expected)).hexdigest():
            return f"{path}: {what}: other values, of {data.dtype} {data.shape}"
    return None


def main():
    with tempfile.TemporaryDirectory() as folder:
        cases = Cases(Path(folder))
        for write in (zarr_v3, zarr_v2, texts, tensorstore, by_zarrs):
            write(cases)
        with ThreadPoolExecutor(2) as pool:
            problems = [p for p in pool.map(check, [(path, data, *part_of(data.shape)) for path, data in cases.found]) if p]
    for problem in problems:
        print(problem)
    print(f"{len(cases.found)} arrays, {len(problems)} read wrongly")
    return 1 if problems or len(cases.found) < 400 else 0


if __name__ == "__main__":
    sys.exit(main())
