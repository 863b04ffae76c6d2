# SPDX-License-Identifier: Apache-2.0
"""The workload `cloud`: objects of a web server on this machine, which answers as S3 does where it is asked to, late or shaped where a case says so.

The server is that of the tests, in a process of its own, whose time is in nobody's figures; but it runs on the same cores. Its objects lie
in the page cache: photographs of the data, the array of the workload `windows`, and one of random bits in shards, whose bytes on the way are known.
"""
import contextlib
import os
import shutil
import sys
from pathlib import Path

from cases import Case, Workload
from files import ROOT, VENV, made_by_rival, photographs

sys.path.insert(0, str(ROOT / "tests/cloud"))
import servers  # noqa: E402

BYTES = 1 << 28     # of the object that ranges are read of
WINDOW = 4 * 64 * 64 * 4
SHAPED = 200_000_000
ANONYMOUS = "?endpoint={server}&anonymous=true"
SCRIPT = "bench/rivals/cloud.py"
PACKAGES = ("boto3", "s3fs>=2025", "obstore", "s3torchconnector", "tensorstore", "zarr>=3", "aiohttp", "torch", "torchvision")


def ranges(length, depth):
    options = f"--size {BYTES} --length {length} --depth {depth}"

    def cpu(peer, most):
        return (f"bytes a CPU second / {peer}'s >= {most}", lambda f: 1 / f.ratio(peer, "cpu_s_per_1000"), lambda x: x >= most)

    return Case(f"ranges of {length >> 10} KiB", f"ranges --url s3://bucket/x{ANONYMOUS} {options}",
                {p: options for p in ("boto3", "s3fs", "obstore", "s3torchconnector")},
                f"bench:bare_ranges --url {{server}}/bucket/x {options}", figure="cpu_s_per_1000", lower=True, bars=(
                    cpu("boto3", 3), cpu("s3fs", 3), cpu("obstore", 1), cpu("s3torchconnector", 1),
                    ("bytes a CPU second / libcurl's alone >= 0.9", lambda f: f.share(), lambda x: x >= 0.9)),
                server="--s3 --root {cloud}")


def from_cache(name, ours, dataset, plain):
    return Case(f"{name} from a warm cache", f"{ours} --dataset {dataset}", bound=f"bench:{ours} --dataset {plain}", bars=(
        ("rate / plain files' >= 0.9", lambda f: f.share(), lambda x: x >= 0.9),), server="--s3 --root {cloud}")


STALLED = "--fault path=*/images/*,chance=0.01,cut=stall,at=before-head"
IMAGES = f"images:s3://bucket/images/{ANONYMOUS}"

CLOUD = Workload("objects of a web server: ranges, Zarr, photographs; slow, stalled, cached", [
    ranges(128 << 10, 32),
    ranges(8 << 20, 8),
    Case("64 MiB shards, 30 ms, 200 MB/s", "windows --seconds 4 --shuffle block --warm 32 --dataset array:{server}/bucket/sharded.zarr?window=4x64x64",
         bound=str(SHAPED / WINDOW), seconds=False, bars=(("rate / bandwidth >= 0.95", lambda f: f.share(), lambda x: x >= 0.95),),
         server=f"--latency-ms 30 --bandwidth-all {SHAPED} --root {{cloud}}"),
    Case("random windows, 30 ms",
         "windows --shuffle true --cache none --dataset array:{server}/bucket/plain.zarr?window=4x64x64&stride=1x1x1",
         {"tensorstore": "", "zarr-fsspec": ""}, bars=(
             ("rate / tensorstore >= 2", lambda f: f.ratio("tensorstore", "samples_per_s"), lambda x: x >= 2),
             ("rate / zarr-python and fsspec >= 5", lambda f: f.ratio("zarr-fsspec", "samples_per_s"), lambda x: x >= 5)),
         server="--latency-ms 30 --root {cloud}"),
    Case("photographs, 30 ms", f"images --num_workers 2 --dataset {IMAGES}&index=none", {"torch-boto3": "--workers 8"}, bars=(
        ("rate / torch and boto3, 8 workers >= 5", lambda f: f.ratio("torch-boto3", "samples_per_s"), lambda x: x >= 5),
        ("memory / theirs <= 1/4", lambda f: f.ratio("torch-boto3", "peak_rss_mib"), lambda x: x <= 1 / 4)),
         server="--s3 --latency-ms 30 --root {cloud}"),
    Case("1 % of requests stalled", f"images --num_workers 2 --dataset {IMAGES}&index=none", figure="gap_p99_ms", lower=True,
         bound=f"bench:images --num_workers 2 --dataset {IMAGES.replace('{server}', '{other}')}&index=none", bars=(
             ("p99 of the time between batches / the clean run's <= 2", lambda f: 1 / f.share(), lambda x: x <= 2),),
         server=f"--s3 --root {{cloud}} {STALLED}", other="--s3 --root {cloud}"),
    from_cache("photographs", "images --num_workers 2", f"images:cache+s3://bucket/images/{ANONYMOUS}&index=none&dir={{cloud}}/cache",
               "images:{cloud}/bucket/images?index=none"),
    from_cache("windows", "windows --shuffle true --cache none", "array:cache+{server}/bucket/plain.zarr?window=4x64x64&stride=1x1x1&dir={cloud}/cache",
               "array:{cloud}/bucket/plain.zarr?window=4x64x64&stride=1x1x1"),
], SCRIPT)


def prepare(build):
    """The folder that the server serves, made where it is missing."""
    folder = build / "bench/cloud"
    if (folder / "bucket").is_dir():
        return folder
    part = build / "bench/cloud.part"
    shutil.rmtree(part, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    (part / "bucket").mkdir(parents=True)
    with open(part / "bucket/x", "wb") as out:
        for _ in range(BYTES >> 20):
            out.write(os.urandom(1 << 20))
    shutil.copytree(photographs(), part / "bucket/images")
    made_by_rival(python(), SCRIPT, part / "bucket", "arrays")
    part.rename(folder)
    return folder


def python():
    return Path(os.environ.get("STOKER_PEERS_CLOUD_VENV", VENV.parent / "cloud")) / "bin/python"


@contextlib.contextmanager
def serve(build, options):
    """The address of a server with these options, as long as the block lasts; "" without options."""
    if not options:
        yield ""
        return
    servers.CLOUD_SERVER = build / "tests/cloud_server"
    with servers.cloud_server(*options.format(cloud=build / "bench/cloud").split()) as server:
        yield server.endpoint
