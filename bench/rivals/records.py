# SPDX-License-Identifier: Apache-2.0
"""Record shards and documents by other loaders, and the files that the workload `records` reads. One JSON line."""
import json
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import numpy as np
from common import arguments, forever, measure, report, version

LENGTH = 2048
SMALL, SMALL_RECORDS, SMALL_SHARDS = 4096, 131_072, 4
TINY, TINY_RECORDS = 64, 1_000_000
TOKENS, MEAN = 1 << 27, 800


# ---- Files ----


def tar_of(path, count, body):
    """A tar whose members are made one by one: `body(i)`. The headers differ in the name alone, so they are patched."""
    with open(path, "wb") as out:
        for i in range(count):
            data = body(i)
            info = tarfile.TarInfo(f"{i:08d}.bin")
            info.size = len(data)
            out.write(info.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % 512))
        out.write(bytes(1024))


def shards(folder):
    """Random records of 4 KiB in four tars, and one tar of a million tiny ones."""
    rng, each = np.random.default_rng(0), SMALL_RECORDS // SMALL_SHARDS
    pool = rng.integers(0, 256, SMALL * 1024, dtype=np.uint8).tobytes()
    (folder / "small").mkdir(parents=True)
    for s in range(SMALL_SHARDS):
        tar_of(folder / f"small/part-{s}.tar", each, lambda i: pool[i % 1023 * SMALL:][:SMALL])
    (folder / "tiny").mkdir()
    tar_of(folder / "tiny/part.tar", TINY_RECORDS, lambda i: pool[i % 4096 * TINY:][:TINY])


def documents(folder):
    """uint16 documents of log-normal lengths, as Megatron-LM keeps them."""
    rng = np.random.default_rng(1)
    lengths = np.maximum(rng.lognormal(np.log(MEAN) - 0.5, 1.0, TOKENS // MEAN), 1).astype(np.int32)
    tokens = rng.integers(0, 50257, int(lengths.sum()), dtype=np.uint16)
    tokens.tofile(folder / "documents.bin")
    starts = np.concatenate(([0], np.cumsum(lengths[:-1], dtype=np.int64))) * 2
    with open(folder / "documents.idx", "wb") as out:
        out.write(b"MMIDIDX\0\0" + (1).to_bytes(8, "little") + bytes([8]))
        out.write(len(lengths).to_bytes(8, "little") + (len(lengths) + 1).to_bytes(8, "little"))
        lengths.tofile(out)
        starts.astype(np.int64).tofile(out)
        np.arange(len(lengths) + 1, dtype=np.int64).tofile(out)


def prepare(a):
    folder = Path(a.folder)
    shards(folder)
    documents(folder)
    print("{}")


# ---- Documents ----


def lengths_of(folder):
    with open(Path(folder) / "documents.idx", "rb") as f:
        head = f.read(34)
        n = int.from_bytes(head[18:26], "little")
        return np.frombuffer(f.read(4 * n), np.int32)


class Documents:
    """A map-style source: item i is document i."""

    def __init__(self, folder):
        self.folder, self.tokens = folder, None
        self.ends = np.cumsum(lengths_of(folder), dtype=np.int64)

    def __len__(self):
        return len(self.ends)

    def __getitem__(self, i):
        if self.tokens is None:
            self.tokens = np.memmap(Path(self.folder) / "documents.bin", np.uint16, "r")
        i = int(i)
        begin = self.ends[i - 1] if i else 0
        return {"tokens": np.asarray(self.tokens[begin:min(self.ends[i], begin + LENGTH)]).astype(np.int64)}


def grain_packing(a):
    import grain.python as g

    def open_stream():
        ds = g.MapDataset.source(Documents(a.folder)).seed(a.seed).shuffle().repeat()
        ds = ds.to_iter_dataset(g.ReadOptions(num_threads=1))
        ds = g.experimental.FirstFitPackIterDataset(ds, length_struct={"tokens": LENGTH}, num_packing_bins=64)
        return ds.batch(a.batch, drop_remainder=True)

    return open_stream, lambda b: len(first_of(b)), version("grain")


def first_of(batch):
    batch = batch[0] if isinstance(batch, tuple) else batch
    return batch["tokens"]


def numpy_windows(a):
    """Windows by hand: a permutation of all, gathered from the mapping."""
    tokens, rng = np.memmap(Path(a.folder) / "documents.bin", np.uint16, "r"), np.random.default_rng(a.seed)
    reach, n = np.arange(LENGTH + 1), (len(tokens) - 1) // LENGTH

    def epoch():
        order = rng.permutation(n)
        for k in range(0, n - a.batch + 1, a.batch):
            w = tokens[(order[k:k + a.batch, None] * LENGTH) + reach].astype(np.int64)
            yield w[:, :-1], w[:, 1:]

    return lambda: forever(epoch), lambda b: len(b[0]), version("numpy")


# ---- Indexes ----


def wds2idx(a):
    """DALI's script, which writes the index of a tar: a new process each time, as people run it."""
    script, ms = Path(sys.executable).parent / "wds2idx", []
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        while not ms or time.perf_counter() - begin < a.seconds:
            start = time.perf_counter()
            subprocess.run([sys.executable, str(script), str(Path(a.folder) / "tiny/part.tar"), f"{folder}/idx"], check=True,
                           stdout=subprocess.DEVNULL)
            ms.append((time.perf_counter() - start) * 1e3)
    print(json.dumps({"workload": "records-index", "peer": "wds2idx", "index_ms": round(float(np.median(ms)), 1)}))


PEERS = {"grain": grain_packing, "numpy": numpy_windows}
ALONE = {"prepare": prepare, "wds2idx": wds2idx}

if __name__ == "__main__":
    a = arguments({**PEERS, **ALONE}, folder="", batch=16)
    if a.peer in ALONE:
        ALONE[a.peer](a)
        sys.exit()
    open_stream, size, ver = PEERS[a.peer](a)
    report("records", a.peer, ver, {"workers": a.workers, "batch": a.batch}, measure(open_stream, size, a.seconds, warm=16))
