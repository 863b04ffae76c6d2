# SPDX-License-Identifier: Apache-2.0
"""Objects of a web server on this machine, by other clients: ranges, windows of Zarr, photographs. One JSON line."""
import asyncio
import concurrent.futures
import os
import time

import numpy as np
from common import arguments, measure, report, version

BUCKET = "bucket"
SHAPE, CHUNKS, WINDOW, BATCH = (1024, 256, 256), (16, 64, 64), (4, 64, 64), 32
SHARDED, SHARDS = (4096, 256, 256), (256, 256, 256)


def boto3_client(a, connections):
    import boto3
    from botocore import UNSIGNED
    from botocore.config import Config
    return boto3.client("s3", endpoint_url=a.server, region_name="us-east-1", config=Config(
        signature_version=UNSIGNED, max_pool_connections=connections, s3={"addressing_style": "path"}))


# ---- Ranges: a.depth of them under way ----


def places(a):
    number = 0
    while True:
        yield number % (a.size // a.length) * a.length
        number += 1


def threaded(a, read):
    """So many threads, each with one range after another; lengths in the order in which they come."""
    at = places(a)
    with concurrent.futures.ThreadPoolExecutor(a.depth) as pool:
        under_way = {pool.submit(read, next(at)) for _ in range(a.depth)}
        while True:
            done, under_way = concurrent.futures.wait(under_way, return_when=concurrent.futures.FIRST_COMPLETED)
            for one in done:
                yield one.result()
                under_way.add(pool.submit(read, next(at)))


def in_loop(a, read):
    """So many tasks of one event loop; in portions, as it has to be left to hand them out."""
    loop, at = asyncio.new_event_loop(), places(a)

    async def portion():
        return await asyncio.gather(*(read(next(at)) for _ in range(a.depth)))
    while True:
        yield from loop.run_until_complete(portion())


def by_boto3(a):
    client = boto3_client(a, a.depth)

    def read(at):
        return len(client.get_object(Bucket=BUCKET, Key="x", Range=f"bytes={at}-{at + a.length - 1}")["Body"].read())
    return threaded(a, read), version("boto3")


def by_s3fs(a):
    import s3fs
    files = s3fs.S3FileSystem(anon=True, endpoint_url=a.server, asynchronous=True,
                              config_kwargs={"max_pool_connections": a.depth, "s3": {"addressing_style": "path"}})

    async def read(at):
        return len(await files._cat_file(f"{BUCKET}/x", start=at, end=at + a.length))
    return in_loop(a, read), version("s3fs", "aiobotocore")


def by_obstore(a):
    import obstore
    store = obstore.store.S3Store(BUCKET, endpoint=a.server, region="us-east-1", skip_signature=True, virtual_hosted_style_request=False,
                                  client_options={"allow_http": True})

    async def read(at):
        return len(await obstore.get_range_async(store, "x", start=at, length=a.length))
    return in_loop(a, read), version("obstore")


def by_s3torchconnector(a):
    from s3torchconnector import S3ClientConfig, S3ReaderConstructor
    from s3torchconnector._s3client import S3Client
    client = S3Client("us-east-1", endpoint=a.server, s3client_config=S3ClientConfig(force_path_style=True, unsigned=True))
    ranged = S3ReaderConstructor.range_based(buffer_size=0)

    def read(at):
        reader = client.get_object(BUCKET, "x", reader_constructor=ranged)
        reader.seek(at)
        return len(reader.read(a.length))
    return threaded(a, read), version("s3torchconnector")


# ---- Windows of an array ----


def boxes(seed):
    rng, high = np.random.default_rng(seed), np.array(SHAPE) - WINDOW + 1
    while True:
        yield [tuple(slice(int(s), int(s) + n) for s, n in zip(rng.integers(0, high), WINDOW)) for _ in range(BATCH)]


def by_tensorstore(a):
    import tensorstore as ts
    t = ts.open({"driver": "zarr3", "kvstore": {"driver": "http", "base_url": f"{a.server}/{BUCKET}/plain.zarr/"}}, open=True,
                read=True).result()

    def batch(b):
        return np.stack([r.result() for r in [t[box].read() for box in b]])
    return map(batch, boxes(a.seed)), version("tensorstore")


def by_zarr(a):
    import zarr
    z = zarr.open_array(zarr.storage.FsspecStore.from_url(f"{a.server}/{BUCKET}/plain.zarr", read_only=True), mode="r")
    return (np.stack([z[box] for box in b]) for b in boxes(a.seed)), version("zarr", "fsspec", "aiohttp")


# ---- Photographs ----


class Photographs:
    """Each by a request of boto3 in the worker that decodes it."""

    def __init__(self, a):
        from torchvision.transforms import v2
        self.a, self.client = a, None
        self.transform = v2.Compose([v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()])
        pages = boto3_client(a, 1).get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="images/")
        self.keys = [o["Key"] for page in pages for o in page.get("Contents", []) if o["Key"].lower().endswith((".jpg", ".jpeg"))]

    def __len__(self):
        return len(self.keys) * 40

    def __getitem__(self, i):
        import torch
        from torchvision import io
        if not self.client:
            torch.set_num_threads(1)
            self.client = boto3_client(self.a, 1)
        body = self.client.get_object(Bucket=BUCKET, Key=self.keys[i % len(self.keys)])["Body"].read()
        return self.transform(io.decode_jpeg(torch.frombuffer(bytearray(body), dtype=torch.uint8), mode=io.ImageReadMode.RGB))


def by_torch(a):
    from torch.utils.data import DataLoader
    return iter(DataLoader(Photographs(a), batch_size=64, shuffle=True, num_workers=a.workers, drop_last=True)), version("torch", "torchvision", "boto3")


# ---- The inputs ----


def prepare(a):
    """The rivals' field; and random bits, which take as many bytes on the way as in memory."""
    import zarr
    from prepare import field
    zstd = zarr.codecs.ZstdCodec(level=3)
    zarr.create_array(f"{a.folder}/plain.zarr", data=field(), chunks=CHUNKS, compressors=zstd)
    z = zarr.create_array(f"{a.folder}/sharded.zarr", shape=SHARDED, dtype="uint32", chunks=CHUNKS, shards=SHARDS, compressors=zstd)
    rng = np.random.default_rng(7)
    for at in range(0, SHARDED[0], SHARDS[0]):
        z[at:at + SHARDS[0]] = rng.integers(0, 1 << 32, SHARDS, np.uint32)


RANGES = {"boto3": by_boto3, "s3fs": by_s3fs, "obstore": by_obstore, "s3torchconnector": by_s3torchconnector}
BATCHES = {"tensorstore": by_tensorstore, "zarr-fsspec": by_zarr, "torch-boto3": by_torch}

if __name__ == "__main__":
    for name in [x for x in os.environ if x.startswith("AWS_")]:
        del os.environ[name]
    a = arguments({**RANGES, **BATCHES, "prepare": None}, server="", size=0, length=0, depth=0, folder="")
    if a.peer == "prepare":
        prepare(a)
    elif a.peer in RANGES:
        stream, made_by = RANGES[a.peer](a)

        def take(n):
            assert n == a.length
            return n / 1e6
        report("ranges", a.peer, made_by, {"length": a.length, "depth": a.depth}, measure(lambda: stream, take, a.seconds, warm=a.depth))
    else:
        stream, made_by = BATCHES[a.peer](a)
        report("cloud", a.peer, made_by, {"workers": a.workers}, measure(lambda: stream, len, a.seconds, warm=3))
