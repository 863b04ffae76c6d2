#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ours against the rivals, alternately: ./dev bench NAME [--peers A,B] [--quick]

Prints every run as the rivals' JSON line, then a table of medians, and last one JSON object. The rivals' scripts are
looked for in STOKER_PEERS (default ../shared/peers beside the checkout); without them ours runs alone.
"""
import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import clouds
import ranks
import shards
import tables
from cases import Case, Workload
from files import CACHE, DATA, PEERS, ROOT, VENV, WORK, many_chunks, pack_photographs, photographs, plain_mnist

VENVS = {"ffcv": Path(os.environ.get("STOKER_PEERS_FFCV_VENV", CACHE / "ffcv")),
         "rechunker": Path(os.environ.get("STOKER_PEERS_RECHUNKER_VENV", CACHE / "rechunker")),
         **{peer: tables.VENV for peer in tables.RIVALS}}
RECHUNKER = ("rechunker==0.5.4", "zarr==2.18.7", "numcodecs==0.15.2", "xarray==2026.9.0", "dask[array]==2026.8.0",
             "netCDF4==1.7.5.1.post1")
TIMEOUT = 600
SCRIPTS = ("ledger", "online", "scale", "tune", "verdicts", "whatif")  # benchmarks of another kind, with options of their own


def median_of(rows, key):
    values = [r[key] for r in rows if isinstance(r.get(key), (int, float))]
    return statistics.median(values) if values else None


def tiny(batch, ratio, share=0.0):
    peers = {"ffcv": "--workers 2", "torch-index": "", "tfdata": "", "numpy": "", "torch-tensors": ""}
    bars = [
        (f"rate / ffcv >= {ratio}", lambda f: f.ratio("ffcv", "samples_per_s"), lambda x: x >= ratio),
        ("rate / torch-index >= 1", lambda f: f.ratio("torch-index", "samples_per_s"), lambda x: x >= 1),
        ("CPU / ffcv's <= 0.5", lambda f: f.ratio("ffcv", "cpu_s_per_1000"), lambda x: x <= 0.5),
    ]
    if share:
        bars.append((f"rate / bound >= {share}", lambda f: f.share(), lambda x: x >= share))
    return Case(f"batch {batch}", f"tiny --batch_size {batch} --num_workers 2",
                {k: f"{v} --batch {batch}".strip() for k, v in peers.items()},
                f"tiny_bound --batch {batch} --workers 2", bars=tuple(bars))


def resnet(threads):
    rivals = ("torch", "torch-nhwc")
    return Case(f"{threads} thread{'s' if threads > 1 else ''}", f"resnet --threads {threads}",
                {p: f"--threads {threads}" for p in rivals}, bars=(
                    ("rate / the better of torch's layouts >= 1.1",
                     lambda f: min(f.ratio(p, "samples_per_s") for p in rivals), lambda x: x >= 1.1),))


W1 = "--dataset images:{images}?index=none --num_workers 2"
W2 = ("--num_workers 2 --dataset images:{packed}/one_size.zarr", "--num_workers 2 --dataset images:{packed}/short_side.zarr")
NORMALIZED = "random_resized_crop(224),horizontal_flip,normalize(imagenet)"

# Random windows of the peers: at any place. Ours: the same, an epoch of all windows side by side, and from memory.
W6B = {**{p: "" for p in ("tensorstore", "zarrs", "zarr", "xarray-dask")}, "torch-zarrs": "--workers 2"}
SOMEWHERE = "windows --shuffle true --num_workers 2 --dataset array:{arrays}/plain.zarr?window=4x64x64&stride=1x1x1"


def windows(name, ours, ratio, bars=()):
    return Case(name, ours, W6B, bars=(
        (f"rate / the best rival's random windows >= {ratio}",
         lambda f: min(f.ratio(p, "samples_per_s") for p in W6B if f.median(p, "samples_per_s")),
         lambda x: x >= ratio), *bars))


def array(layout, bound):
    rivals = ("tensorstore", "zarrs", "zarr")
    folder = "{arrays}/" + layout + ".zarr"
    return Case(f"whole array, {layout}", f"arrays --url {folder} --threads 2",
                {p: f"--mode all --layout {layout}" for p in rivals},
                f"bench:bare_zstd --folder {folder} --threads 2 {bound}", bars=(
                    ("rate / libzstd alone >= 0.85", lambda f: f.share(), lambda x: x >= 0.85),
                    ("rate / the best of tensorstore, zarrs, zarr-python >= 1.4",
                     lambda f: min(f.ratio(p, "samples_per_s") for p in rivals), lambda x: x >= 1.4)))


SEVEN = ("torch-netcdf4", "torch-h5py", "torch-xarray")
FIELD_WINDOWS = "--num_workers 2 --dataset array:{netcdf}/field.nc/v?window=4x64x64"


def netcdf_windows(name, ours, ratio):
    return Case(name, f"windows {ours}", {p: "--workers 2" for p in SEVEN}, bars=(
        (f"rate / netCDF4 in DataLoader, random windows >= {ratio}",
         lambda f: f.ratio("torch-netcdf4", "samples_per_s"), lambda x: x >= ratio),
        (f"CPU / netCDF4's in DataLoader <= 1 / {ratio}", lambda f: f.ratio("torch-netcdf4", "cpu_s_per_1000"),
         lambda x: x <= 1 / ratio)))


def netcdf_all(threads, ratio, bars=()):
    return Case(f"whole variable, {threads} thread{'s' if threads > 1 else ''}",
                f"arrays --url {{netcdf}}/field.nc/v --threads {threads}", {"h5py": "", "netcdf4": ""},
                f"bench:bare_deflate --url {{netcdf}}/field.nc/v --threads {threads}", script="bench/rivals/hdf5.py", bars=(
                    (f"rate / h5py >= {ratio}", lambda f: f.ratio("h5py", "samples_per_s"), lambda x: x >= ratio), *bars))


def chunk_index(kind, name):
    return Case(name, f"index --url {{netcdf}}/many-{kind}.h5/v", {"chunk_iter": f"--kind {kind}"}, figure="index_ms",
                lower=True, bars=(("h5py's ms / ours >= 1", lambda f: 1 / f.ratio("chunk_iter", "index_ms"),
                                   lambda x: x >= 1),))


def rechunk(chunks):
    rivals = ("rechunker", "xarray-dask")
    return Case(f"16x64x64 -> {chunks}", f"bench/rechunk.py {{stoker}} {{netcdf}}/field.nc --chunks {chunks}",
                {p: f"--chunks {chunks}" for p in rivals}, seconds=False, bars=(
                    ("rate / the better of rechunker, xarray + Dask >= 4",
                     lambda f: min(f.ratio(p, "samples_per_s") for p in rivals), lambda x: x >= 4),
                    ("CPU / the better's <= 1/4", lambda f: max(f.ratio(p, "cpu_s_per_1000") for p in rivals),
                     lambda x: x <= 1 / 4),
                    ("memory / the better's <= 1/4", lambda f: max(f.ratio(p, "peak_rss_mib") for p in rivals),
                     lambda x: x <= 1 / 4)))


def beyond_bare(f, who):
    """What a batch takes beyond the bare calls of its dataset."""
    return 1 / f.median(who, "samples_per_s") - 1 / f.of("bare", "samples_per_s")


def pydata(kind, *bars):
    options = f"--kind {kind} --workers 2"
    where = " --data {images}" if kind in ("folder", "opaque") else ""
    return Case(kind, f"bench/python/loops.py {kind}{where}", {"torch": options, "bare": options}, bars=bars)


def over_torch(least):
    return (f"rate / torch's >= {least}", lambda f: f.ratio("torch", "samples_per_s"), lambda x: x >= least)


def over_bare(least):
    return (f"rate / two bare processes >= {least}", lambda f: f.ratio("bare", "samples_per_s"), lambda x: x >= least)


FIRST_BATCH = ("s to the first batch / torch's <= 0.7", lambda f: f.ratio("torch", "first_batch_s"), lambda x: x <= 0.7)

WORKLOADS = {
    "cloud": clouds.CLOUD,
    "records": shards.RECORDS,
    "ranks": ranks.RANKS,
    "tables": tables.TABLES,
    "arrays": Workload("a float32 array of 268 MB, Zarr v3, zstd, chunks 16x64x64 -> memory; MB/s", [
        array("plain", ""), array("sharded", "--per_shard 64"),
        Case("300 arrays opened", "arrays --mode open", figure="open_ms", lower=True, bars=(
            ("ms to open 300 arrays, consolidated <= 20", lambda f: f.ours("open_ms"), lambda x: x <= 20),)),
    ], "bench_arrays.py"),
    "images": Workload("photographs of a plain ImageFolder -> decode, random resized crop 224, flip; uint8 batches of 64", [
        Case("plain folder", f"images {W1}",
             {p: "--workers 2" for p in ("tfdata", "ffcv", "dali", "torch-tvio", "torch-pil", "spdl-tvio")},
             bound="bench:bare_images --workers 2 --folder {images}", bars=(
                 ("rate / tf.data >= 1.4", lambda f: f.ratio("tfdata", "samples_per_s"), lambda x: x >= 1.4),
                 ("rate / ffcv >= 2.3", lambda f: f.ratio("ffcv", "samples_per_s"), lambda x: x >= 2.3),
                 ("rate / best DataLoader >= 3", lambda f: min(f.ratio(p, "samples_per_s") for p in ("torch-tvio", "torch-pil")),
                  lambda x: x >= 3),
                 ("CPU / tf.data's <= 0.75", lambda f: f.ratio("tfdata", "cpu_s_per_1000"), lambda x: x <= 0.75),
                 ("rate / bare loop >= 0.92", lambda f: f.share(), lambda x: x >= 0.92))),
        Case("plain folder, beside shards", f"images {W1}", {"tfrecord": "--workers 2 --decode 1"},
             script="bench_shards.py", bars=(
                 ("rate / tf.data over TFRecord >= 1.3", lambda f: f.ratio("tfrecord", "samples_per_s"),
                  lambda x: x >= 1.3),)),
        Case("float32 planes, normalised", f"images {W1} --transforms {NORMALIZED},layout(chw)",
             bound=f"bench:images {W1}",
             bars=(("rate / uint8 >= 0.87", lambda f: f.share(), lambda x: x >= 1 / 1.15),)),
    ], "bench_images.py"),
    "index": Workload("where 100,000 chunks of an HDF5 dataset lie: opened, and opened again", [
        chunk_index("earliest", "B-tree of version 1"), chunk_index("latest", "fixed array"),
        Case("opened again", "index --mode kept --url {netcdf}/many-earliest.h5/v", figure="index_ms", lower=True, bars=(
            ("ms <= 100", lambda f: f.ours("index_ms"), lambda x: x <= 100),)),
    ], "bench/rivals/hdf5.py"),
    "netcdf": Workload("float32 (1024, 256, 256) of NetCDF-4, chunks of 16x64x64, deflate and shuffle: windows, and all of it", [
        netcdf_windows("random windows, no cache", f"--shuffle true --cache none {FIELD_WINDOWS}&stride=1x1x1", 3),
        netcdf_windows("an epoch of all windows, block shuffle", f"--shuffle block --warm 4096 {FIELD_WINDOWS}", 10),
        netcdf_windows("random windows, decoded cache of all",
                       f"--shuffle true --cache decoded --memory_budget 600MiB --warm 8000 {FIELD_WINDOWS}&stride=1x1x1", 50),
        netcdf_all(1, 1.8),
        netcdf_all(2, 3.2, (("rate / libdeflate and unshuffle alone >= 0.85", lambda f: f.share(), lambda x: x >= 0.85),)),
    ], "bench_netcdf.py"),
    "overhead": Workload("the trainer alone, around a module that computes nothing", [
        Case("empty module", "trainer_overhead", figure="defaults_us", lower=True, bars=(
            ("us a step with defaults <= 5", lambda f: f.ours("defaults_us"), lambda x: x <= 5),
            ("us a step with barebones <= 1", lambda f: f.ours("barebones_us"), lambda x: x <= 1))),
    ]),
    "packed": Workload("photographs packed as pixels, of 256x256 or the shorter side 256 -> the same crop and flip", [
        Case(name, f"images {ours}", {p: "--workers 2" for p in ("ffcv", "dali", "torch", "pillow")},
             bound=f"bench:images {ours} --cache decoded", bars=(
                 ("rate / ffcv >= 2", lambda f: f.ratio("ffcv", "samples_per_s"), lambda x: x >= 2),
                 ("rate / the same from memory >= 0.7", lambda f: f.share(), lambda x: x >= 0.7)))
        for name, ours in zip(("one size", "short side"), W2)
    ] + [
        Case("beside the files", f"images {W2[0]}", bound=f"bench:images {W1}", bars=(
            ("rate / that of the JPEG files >= 4", lambda f: f.share(), lambda x: x >= 4),)),
    ], "bench_raw.py"),
    "python": Workload("the package: datasets of C, and datasets written in Python in two worker processes", [
        pydata("small", over_torch(10), over_bare(0.4), FIRST_BATCH),
        pydata("large", over_torch(4), ("CPU / torch's <= 0.3", lambda f: f.ratio("torch", "cpu_s_per_1000"),
                                        lambda x: x <= 0.3)),
        pydata("folder", over_torch(3)),
        pydata("opaque", over_bare(0.97), ("what a batch takes beyond bare / torch's <= 1/3", lambda f: beyond_bare(
            f, "stoker") / beyond_bare(f, "torch"), lambda x: x <= 1 / 3)),
        Case("tail, 2 workers", "bench/python/loops.py tail --num_workers 2",
             {p: "--workers 2" for p in ("torch-in-order", "grain-procs")}, bound=str(2 / 3.45e-3), script="bench_tail.py",
             bars=(("work / workers >= 0.97", lambda f: f.share(), lambda x: x >= 0.97),)),
        Case("tail, 8 workers", "bench/python/loops.py tail --num_workers 8 --consumer_ms 10",
             {p: "--workers 8" for p in ("torch-in-order", "grain-procs")}, figure="wait_p95_ms", lower=True,
             script="bench_tail.py",
             bars=(("p95 wait in ms <= 0.5", lambda f: f.ours("wait_p95_ms"), lambda x: x <= 0.5),)),
        Case("MNIST in memory, batches of 256", "bench/python/loops.py mnist --data {data}/mnist",
             {"torch-index": "--batch 256"}, bound="bench:tiny --batch_size 256 --num_workers 2", script="bench_tiny.py",
             bars=(("rate / ours from C >= 0.85", lambda f: f.share(), lambda x: x >= 0.85),
                   ("rate / torch-index >= 1.2", lambda f: f.ratio("torch-index", "samples_per_s"), lambda x: x >= 1.2))),
        Case("photographs", "bench/python/loops.py images --data {images}",
             {p: "--workers 2" for p in ("tfdata", "ffcv", "torch-tvio")}, bound=f"bench:images {W1}",
             script="bench_images.py", bars=(
                 ("rate / ours from C >= 0.97", lambda f: f.share(), lambda x: x >= 0.97),
                 ("rate / tf.data >= 2", lambda f: f.ratio("tfdata", "samples_per_s"), lambda x: x >= 2),
                 ("rate / ffcv >= 3", lambda f: f.ratio("ffcv", "samples_per_s"), lambda x: x >= 3),
                 ("rate / DataLoader >= 3", lambda f: f.ratio("torch-tvio", "samples_per_s"), lambda x: x >= 3))),
    ], "bench_pydata.py"),
    "rechunk": Workload("a NetCDF-4 variable of 268 MB -> Zarr v2 in other chunks, not verified; MB/s", [
        rechunk("1024x16x16"), rechunk("1x256x256"),
    ], "bench/rivals/rechunk.py"),
    "resnet": Workload("a training step of ResNet-18 on 32x32 pictures, 3x3 stem, batches of 64", [
        resnet(1), resnet(2),
    ], "bench_resnet.py"),
    "save": Workload("a checkpoint of 550 MB saved while its model trains: an MLP of three layers of 4,608, Adam", [
        Case("550 MB", "save", figure="blocked_steps", lower=True, seconds=False, bars=(
            ("steps that a save blocks < 1", lambda f: f.ours("blocked_steps"), lambda x: x < 1),
            ("steps that the first one blocks < 1", lambda f: f.ours("first_blocked_steps"), lambda x: x < 1))),
    ]),
    "tiny": Workload("MNIST in memory -> shuffled, normalised float32 + label", [
        tiny(64, 5),
        Case("batch 256, plain files, cache encoded",
             "tiny --batch_size 256 --num_workers 2 --cache encoded --dataset mnist:{mnist}",
             bound="bench:tiny --batch_size 256 --num_workers 2",
             bars=(("rate / in memory >= 0.9", lambda f: f.share(), lambda x: x >= 0.9),)),
        tiny(256, 3, 0.8),
    ], "bench_tiny.py"),
    "engine": Workload("samples of 784 bytes that cost nothing", [
        Case("batch 64", "engine --batch_size 64 --num_workers 1", figure="engine_us_per_batch", lower=True,
             bars=(("us of engine a batch <= 20", lambda f: f.ours("engine_us_per_batch"), lambda x: x <= 20),)),
        # What "the same bytes" are decides the bound: one hot template, which synthetic: copies from; the batches
        # that are delivered, copied from slab to slab; 60,000 samples in random order, as a data set in memory is.
        Case("batch 256, beside one hot sample", "engine --batch_size 256 --num_workers 2",
             bound="memcpy_bound --batch 256 --source 1"),
        Case("batch 256, beside a gather", "engine --batch_size 256 --num_workers 2",
             bound="memcpy_bound --batch 256 --source 60000"),
        Case("batch 256", "engine --batch_size 256 --num_workers 2", bound="memcpy_bound --batch 256 --source 1280",
             bars=(("rate / memcpy >= 0.6", lambda f: f.share(), lambda x: x >= 0.6),)),
    ]),
    "tail": Workload("5 % of the samples take 50 ms, the others 1 ms; batches of 16", [
        Case("2 workers", "tail --num_workers 2",
             {p: "--workers 2" for p in ("torch-in-order", "torch-any-order", "spdl", "spdl-in-order", "grain-threads")},
             bound=str(2 / 3.45e-3),
             bars=(("work / workers, consumer free >= 0.97", lambda f: f.ours("throughput_share"), lambda x: x >= 0.97),)),
        Case("8 workers", "tail --num_workers 8",
             {p: "--workers 8" for p in ("torch-in-order", "torch-any-order", "spdl", "spdl-in-order", "grain-threads")},
             figure="wait_p95_ms", lower=True,
             bars=(("p95 wait in ms <= 0.5", lambda f: f.ours("wait_p95_ms"), lambda x: x <= 0.5),)),
    ], "bench_tail.py"),
    "train": Workload("5 epochs of MNIST from its files, MLP 784-128-64-10, Adam, batches of 64", [
        Case("5 epochs", "train --num_workers 1 --threads 1", {
            "torch-index 1": "--workers 0 --threads 1", "torch-index 2": "--workers 0 --threads 2",
            "torch-article": "--workers 0", "lightning": "--workers 0"}, seconds=False, bars=(
                ("rate / torch-index, the better of 1 and 2 threads >= 3",
                 lambda f: min(f.ratio(f"torch-index {n}", "samples_per_s") for n in (1, 2)), lambda x: x >= 3),
                ("rate / torch-article >= 20", lambda f: f.ratio("torch-article", "samples_per_s"), lambda x: x >= 20),
                ("rate / lightning >= 25", lambda f: f.ratio("lightning", "samples_per_s"), lambda x: x >= 25),
                ("accuracy - torch-index's, in points, within 0.4",
                 lambda f: 100 * (f.ours("test_accuracy") - f.of("torch-index 1", "test_accuracy")),
                 lambda x: abs(x) <= 0.4),
                ("s to the first step <= 0.3", lambda f: f.ours("startup_s"), lambda x: x <= 0.3))),
        Case("the step alone", "train --mode compute --threads 1", {"compute": "--workers 0 --threads 1"},
             figure="us_per_step", lower=True, bars=(
                 ("torch's us a step / ours >= 3", lambda f: 1 / f.ratio("compute", "us_per_step"),
                  lambda x: x >= 3),)),
    ], "bench_train.py"),
    "report": Workload("reading event logs, and the page of a million events in a browser", [
        Case("page of 10^6 events", "scripts/check_report.py {stoker} --made 1000000 --json", figure="drawn_s", lower=True,
             seconds=False, bars=(
                 ("MB of the page <= 3", lambda f: f.ours("page_mb"), lambda x: x <= 3),
                 ("s from load to drawn, the worst of four <= 2", lambda f: f.ours("drawn_s"), lambda x: x <= 2),
                 ("ms a frame of zooming <= 50", lambda f: f.ours("zoom_frame_ms"), lambda x: x <= 50))),
        Case("10^7 events", "report --events 10000000", figure="mb_per_s", seconds=False, bars=(
            ("MB/s >= 50", lambda f: f.ours("mb_per_s"), lambda x: x >= 50),
            ("MiB of memory <= 64", lambda f: f.ours("peak_rss_mib"), lambda x: x <= 64))),
    ]),
    "tokens": Workload("random windows of 2,049 from 512 MiB of uint16 -> int64 input and target of [16, 2048]", [
        Case("mapped file", "tokens --num_workers 2 --dataset tokens:{tokens}?length=2048&target=true&stride=1&mmap=true",
             {"numpy": "", "torch 0": "", "torch 2": "--workers 2", "grain": "", "litdata": ""},
             bound="tokens_bound --workers 2 --file {tokens}", bars=(
                 ("rate / gather loop >= 0.8", lambda f: f.share(), lambda x: x >= 0.8),
                 ("rate / the best rival loader's >= 5",
                  lambda f: min(f.ratio(p, "samples_per_s") for p in ("torch 0", "torch 2", "grain", "litdata")),
                  lambda x: x >= 5))),
        Case("read by range", "tokens --num_workers 2 --dataset tokens:{tokens}?length=2048&target=true&stride=1",
             bound="tokens_bound --workers 2 --file {tokens}"),
    ], "bench_tokens.py"),
    "windows": Workload("windows of 4x64x64 from float32 (1024, 256, 256) in zstd chunks of 16x64x64; batches of 32", [
        windows("random, no cache", SOMEWHERE + " --cache none", 1.2),
        windows("random, no cache, 64 MiB", SOMEWHERE + " --cache none --memory_budget 64MiB", 1.2),
        windows("random, decoded cache of all", SOMEWHERE + " --cache decoded --memory_budget 600MiB --warm 8000", 20),
        windows("an epoch of all windows, block shuffle",
                "windows --shuffle block --num_workers 2 --warm 4096 --dataset array:{arrays}/plain.zarr?window=4x64x64", 10,
                (("rate / xarray + Dask >= 100", lambda f: f.ratio("xarray-dask", "samples_per_s"), lambda x: x >= 100),)),
        Case("the same, sharded",
             "windows --shuffle block --num_workers 2 --warm 4096 --dataset array:{arrays}/sharded.zarr?window=4x64x64"),
    ], "bench_arrays.py"),
    "turn": Workload("first batch, turn of the epoch, restore", [
        Case("batch 64", "turn --num_workers 2", figure="restore_ms", lower=True, seconds=False, bars=(
            ("first batch in ms <= 5", lambda f: f.ours("first_batch_ms"), lambda x: x <= 5),
            ("turn - step wait in ms <= 0.05", lambda f: f.ours("turn_wait_ms") - f.ours("step_wait_ms"),
             lambda x: x <= 0.05),
            ("restore in ms <= 1", lambda f: f.ours("restore_ms"), lambda x: x <= 1))),
    ]),
}


class Figures:
    """The rows of one case, by who made them."""

    def __init__(self, case):
        self.case, self.rows = case, {}

    def add(self, who, row):
        self.rows.setdefault(who, []).append(row)

    def median(self, who, key):
        return median_of(self.rows.get(who, []), key)

    def ours(self, key):
        value = self.median("stoker", key)
        if value is None:
            raise KeyError(key)
        return value

    def of(self, peer, key):
        value = self.median(peer, key)
        if value is None:
            raise KeyError(peer)
        return value

    def ratio(self, peer, key):
        theirs = self.median(peer, key)
        if not theirs:
            raise KeyError(peer)
        return self.ours(key) / theirs

    def bound(self):
        if not self.case.bound:
            return None
        if self.case.bound[0].isdigit():
            return float(self.case.bound)
        return self.median("bound", self.case.bound_figure or self.case.figure)

    def share(self):
        bound = self.bound()
        if not bound:
            raise KeyError("bound")
        mine = self.ours(self.case.figure)
        return bound / mine if self.case.lower else mine / bound

    def summary(self):
        """The case as one object: medians, the best rival, what is left to the bound."""
        figure, lower = self.case.figure, self.case.lower
        rivals = {p: self.median(p, figure) for p in self.rows if p not in ("stoker", "bound")}
        rivals = {p: v for p, v in rivals.items() if v}
        best = (min if lower else max)(rivals, key=rivals.get) if rivals else None
        mine = self.median("stoker", figure)
        out = {"case": self.case.name, "figure": figure, "stoker": mine, "peer": rivals.get(best), "best_peer": best,
               "ratio": None, "bound": self.bound(), "share_of_bound": None}
        if best and mine:
            out["ratio"] = round(rivals[best] / mine if lower else mine / rivals[best], 4)
        if mine and self.bound():
            out["share_of_bound"] = round(self.share(), 4)
        return out


def run(command, env=None, cwd=None):
    """The last JSON line that a command prints, or what went wrong."""
    try:
        p = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return None, f"took over {TIMEOUT} s"
    except OSError as e:
        return None, str(e)
    lines = [x for x in p.stdout.splitlines() if x.startswith("{")]
    if p.returncode == 0 and lines:
        return json.loads(lines[-1]), ""
    return None, (p.stderr or p.stdout).strip()[-400:] or f"exit code {p.returncode}"


def rivals_script(name):
    """Below the tree where it has a folder; it takes what it measures with from the rivals' common.py all the same."""
    return ROOT / name if "/" in name else PEERS / name


def run_peer(build, script, peer, options, seconds, server):
    peer = peer.split()[0]  # what follows tells two settings of one rival apart
    python = clouds.python() if server else VENVS.get(peer, VENV) / "bin/python"
    words = [w.format(records=shards.folder_of(build), tables=tables.folder_of(build), numbers=tables.numbers())
             for w in options.split()]
    command = [str(python), str(rivals_script(script)), "--peer", peer, *words, "--seconds", str(seconds)]
    if server:
        command += ["--server", server]
    env = {**os.environ, "PYTHONWARNINGS": "ignore", "TF_CPP_MIN_LOG_LEVEL": "3", "GLOG_minloglevel": "3",
           "STOKER_TEST_DATA": str(DATA), "PYTHONPATH": str(PEERS)}
    return run(command, env, PEERS)


def run_ours(build, folder, text, seconds, server, other):
    places = {"mnist": build / "bench/mnist", "images": photographs(), "arrays": WORK / "arrays",
              "netcdf": WORK / "netcdf", "tokens": WORK / "tokens/tokens.bin", "stoker": build / "stoker", "data": DATA,
              "packed": build / "bench/packed", "cloud": build / "bench/cloud", "server": server, "other": other,
              "shards": WORK / "shards", "records": shards.folder_of(build),
              "tables": tables.folder_of(build), "numbers": tables.numbers()}
    words = [w.format(**places) for w in text.split()]
    if seconds:
        words += ["--seconds", str(seconds)]
    env = {**os.environ, "STOKER_TEST_DATA": str(DATA)}
    if words[0].startswith("bench/python/"):
        program = [str(VENV / "bin/python"), str(ROOT / words[0])]
        env["PYTHONPATH"] = str(build / "python")
    elif words[0].endswith(".py"):
        program = [sys.executable, str(ROOT / words[0])]
    else:
        program = [str(build / folder / words[0])]
    return run([*program, *words[1:]], env)


def runs_of(workload, case, chosen, build, seconds, servers):
    """(name, function) of everything that one round of a case runs, ours first."""
    ours_seconds = seconds if case.seconds else None
    runs = [("stoker", lambda: run_ours(build, "bench", case.ours, ours_seconds, *servers))]
    if case.bound and not case.bound[0].isdigit():
        folder, text = ("bench", case.bound[6:]) if case.bound.startswith("bench:") else ("bench/bounds", case.bound)
        runs.append(("bound", lambda: run_ours(build, folder, text, seconds, *servers)))
    for peer, options in case.peers.items():
        if chosen is None or peer in chosen:
            runs.append((peer, lambda peer=peer, options=options: run_peer(build, case.script or workload.script, peer, options,
                                                                           seconds, servers[0])))
    return runs


def measure(workload, case, args, chosen):
    figures, failed = Figures(case), set()
    with clouds.serve(args.build, case.server) as server, clouds.serve(args.build, case.other) as other:
        for _ in range(args.repeat):
            for who, go in runs_of(workload, case, chosen, args.build, args.seconds, (server, other)):
                if who in failed:
                    continue
                row, error = go()
                if row is None:
                    failed.add(who)
                    print(f"bench: {who} ({case.name}) failed and is left out: {error}", file=sys.stderr, flush=True)
                    continue
                figures.add(who, row)
                print(json.dumps(row), flush=True)
    return figures


def number(x):
    return "-" if x is None else f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def table(figures):
    keys = ["samples_per_s", "cpu_s_per_1000", "first_batch_s", "peak_rss_mib"]
    if figures.case.figure not in keys:
        keys.insert(0, figures.case.figure)
    print(f"\n{figures.case.name}")
    rows = [["who", "runs", *keys, f"{figures.case.figure} min-max"]]
    for who, found in figures.rows.items():
        values = [r[figures.case.figure] for r in found if figures.case.figure in r]
        spread = f"{number(min(values))}-{number(max(values))}" if values else "-"
        rows.append([who, str(len(found)), *(number(figures.median(who, k)) for k in keys), spread])
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    for r in rows:
        print("  " + "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths))))
    for text, value, holds in figures.case.bars:
        try:
            x = value(figures)
            print(f"  {'held  ' if holds(x) else 'MISSED'}  {text}: {x:.4g}")
        except KeyError as e:
            print(f"  unknown {text}: no figure of {e.args[0]}")


def warn_of_load(own=0):
    """Say when others work on this machine: their share moves from run to run. `own` is what the runs make themselves."""
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    if load > own + cores / 4:
        print(f"bench: the load of this machine is {load:.1f} on {cores} cores: other work runs, the figures are not "
              "to be kept", file=sys.stderr, flush=True)


def setup(extra):
    script = PEERS / "setup"
    if not script.exists():
        sys.exit(f"bench: no {script}; set STOKER_PEERS to the folder of the rivals' scripts")
    status = subprocess.run([str(script), *extra], cwd=PEERS, check=False).returncode
    # rechunker wants a zarr older than the others have; the clients of stores are many.
    sys.exit(status or make_venv(VENVS["rechunker"], RECHUNKER) or make_venv(clouds.python().parent.parent, clouds.PACKAGES)
             or make_venv(tables.VENV, tables.PACKAGES) or tables.borrow())


def make_venv(venv, packages):
    if venv.exists():
        return 0
    python = os.environ.get("PYTHON", "/usr/bin/python3")
    made = subprocess.run([python, "-m", "venv", str(venv)], check=False)
    return made.returncode or subprocess.run([str(venv / "bin/pip"), "install", "-q", *packages], check=False).returncode


def main():
    for name in SCRIPTS:
        if name in sys.argv[1:]:
            sys.argv.remove(name)
            sys.exit(importlib.import_module(name).main())
    p = argparse.ArgumentParser(prog="./dev bench", description=__doc__.split("\n")[0])
    p.add_argument("name", nargs="?", choices=sorted(WORKLOADS), metavar="NAME",
                   help="; ".join(f"{k}: {w.doc}" for k, w in WORKLOADS.items()).replace("%", "%%"))
    p.add_argument("--peers", help="rivals to run, parted by commas; default all of the workload, '' none")
    p.add_argument("--case", help="only cases whose name contains this")
    p.add_argument("--quick", action="store_true", help="one round of 2 s: whether it works, not how fast it is")
    p.add_argument("--repeat", type=int, help="rounds (default 5)")
    p.add_argument("--seconds", type=float, help="measured window of each run (default 10)")
    p.add_argument("--setup", action="store_true", help="make the rivals' environments and inputs, and stop")
    p.add_argument("--list", action="store_true", help="print the workloads and stop")
    p.add_argument("--build", type=Path, default=ROOT / "build", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.setup:
        setup([])
    if args.list or not args.name:
        for name, w in WORKLOADS.items():
            print(f"{name:8} {w.doc}; {', '.join(c.name for c in w.cases)}")
        for name in SCRIPTS:
            print(f"{name:8} {importlib.import_module(name).__doc__.partition(':')[0]}")
        return 0 if args.list else 2
    args.repeat = args.repeat or (1 if args.quick else 5)
    args.seconds = args.seconds or (2.0 if args.quick else 10.0)
    args.build = args.build.resolve()

    workload = WORKLOADS[args.name]
    chosen = None if args.peers is None else {x for x in args.peers.split(",") if x}
    known = {x for c in workload.cases for x in c.peers}
    if chosen and chosen - known:
        sys.exit(f"bench: no rival {', '.join(sorted(chosen - known))} in {args.name}; there are {', '.join(sorted(known))}")
    if known and not ((PEERS / "common.py").exists() and rivals_script(workload.script).exists()):
        print(f"bench: no rivals in {PEERS} (set STOKER_PEERS); ours runs alone", file=sys.stderr)
        chosen = set()
    if args.name in ("tiny", "turn", "train") and not (DATA / "mnist").is_dir():
        sys.exit(f"bench: no {DATA / 'mnist'}; set STOKER_TEST_DATA to the folder that holds mnist/")
    if args.name in ("images", "packed") and not photographs().is_dir():
        sys.exit(f"bench: no {photographs()}; set STOKER_TEST_DATA to the folder that holds imagenet-sample/")
    if args.name in ("arrays", "records", "tokens", "windows") and not (WORK / "arrays").is_dir():
        sys.exit(f"bench: no {WORK / 'arrays'}; ./dev bench --setup makes it")
    if args.name in ("index", "netcdf", "rechunk") and not (WORK / "netcdf").is_dir():
        sys.exit(f"bench: no {WORK / 'netcdf'}; ./dev bench --setup makes it")
    if args.name == "cloud":
        clouds.prepare(args.build)
    if args.name == "records":
        shards.prepare(args.build)
    if args.name == "tables":
        tables.prepare(args.build)
    if args.name == "index":
        many_chunks()
    if args.name == "packed":
        pack_photographs(args.build)
    if any("{mnist}" in c.ours for c in workload.cases):
        plain_mnist(args.build)

    cases = [c for c in workload.cases if not args.case or args.case in c.name]
    if not cases:
        sys.exit(f"bench: no case of {args.name} has {args.case!r} in its name")
    warn_of_load()
    found = [measure(workload, c, args, chosen) for c in cases]
    for figures in found:
        table(figures)
    warn_of_load(own=2)
    summaries = [f.summary() for f in found]
    last = {"workload": args.name, **summaries[-1], "cases": summaries}
    print("\n" + json.dumps(last))
    return 0 if all(s["stoker"] is not None for s in summaries) else 1


if __name__ == "__main__":
    sys.exit(main())
