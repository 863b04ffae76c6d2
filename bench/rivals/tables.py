# SPDX-License-Identifier: Apache-2.0
"""Tables read by other libraries, and the files that the workload `tables` reads. One JSON line."""
import json
import time
from pathlib import Path

import numpy as np
from common import arguments, forever, measure, report, version

ROWS, GROUP, CSV_ROWS = 1 << 20, 128 << 10, 400_000
ENCODINGS = {"plain": "PLAIN", "delta": "DELTA_BINARY_PACKED", "split": "BYTE_STREAM_SPLIT", "dictionary": None}


# ---- Files ----


def columns_of(name, rng):
    """Four columns that an encoding suits."""
    if name == "dictionary":
        return {f"i{i}": rng.integers(0, 1000, ROWS).astype(np.int32) for i in range(2)} | {
            f"d{i}": rng.integers(0, 1000, ROWS) / 8 for i in range(2)}
    if name == "delta":
        return {f"i{i}": np.cumsum(rng.integers(0, 100, ROWS)).astype(t) for i, t in enumerate((np.int32, np.int64) * 2)}
    return {f"f{i}": rng.normal(size=ROWS).astype(t) for i, t in enumerate((np.float32, np.float64) * 2)}


def photographs(file):
    """The rivals' photographs as the datasets library writes them: row groups of 100, pictures as a structure of bytes and path."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from prepare import shuffled
    items = shuffled()
    images = pa.array([{"bytes": f.read_bytes(), "path": f.name} for f, _ in items], pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
    features = {"image": {"_type": "Image"}, "label": {"dtype": "int64", "_type": "Value"}}
    schema = pa.schema([("image", images.type), ("label", pa.int64())], {"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(pa.table([images, pa.array([label for _, label in items], pa.int64())], schema=schema), file, row_group_size=100)


def prepare(a):
    import bench_parquet
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq
    folder = Path(a.folder)
    folder.mkdir(parents=True)
    rng = np.random.default_rng(1)
    for name, encoding in ENCODINGS.items():
        columns = columns_of(name, rng)
        how = {"use_dictionary": True} if encoding is None else {
            "use_dictionary": False, "column_encoding": {c: encoding for c in columns}}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet", row_group_size=GROUP, compression="snappy", **how)
    cells = {f"x{i}": rng.normal(size=CSV_ROWS) for i in range(6)} | {
        f"n{i}": rng.integers(0, 1 << 30, CSV_ROWS) for i in range(4)}
    pyarrow.csv.write_csv(pa.table(cells), folder / "numbers.csv")
    photographs(folder / "photographs.parquet")
    if not bench_parquet.FILE.exists():
        bench_parquet.make()
    print("{}")


# ---- Whole files ----


def whole(a, read, rows, name, versions):
    """Read a file again and again."""
    report("tables", name, versions, {"workers": a.workers},
           measure(lambda: forever(lambda: iter([read()])), lambda _: rows, a.seconds, 2))


def pyarrow_all(a):
    import pyarrow as pa
    import pyarrow.parquet as pq
    pa.set_cpu_count(max(1, a.workers))
    rows = pq.ParquetFile(a.file).metadata.num_rows
    whole(a, lambda: pq.read_table(a.file, use_threads=a.workers > 1), rows, "pyarrow-all", version("pyarrow"))


def duckdb_all(a):
    import duckdb
    db = duckdb.connect()
    db.execute(f"SET threads TO {max(1, a.workers)}")
    sql = f"SELECT * FROM read_parquet('{a.file}')"
    rows = db.execute(f"SELECT count(*) FROM read_parquet('{a.file}')").fetchone()[0]
    whole(a, lambda: db.execute(sql).fetchnumpy(), rows, "duckdb-all", version("duckdb"))


def polars_csv(a):
    import polars
    whole(a, lambda: polars.read_csv(a.file), CSV_ROWS, "polars-csv", version("polars"))


# ---- Photographs ----


def hf_photographs(a):
    """The datasets library in PyTorch's DataLoader, with the decoder and the transforms of W1."""
    import datasets
    from bench_images import REPEAT, torch_transform
    from torch.utils.data import DataLoader
    from torchvision.transforms import v2
    transform, to_tensor = torch_transform(), v2.functional.pil_to_tensor

    def ready(batch):
        return {"image": [to_tensor(transform(i.convert("RGB"))) for i in batch["image"]], "label": batch["label"]}

    data = datasets.Dataset.from_parquet(a.file, cache_dir=str(Path(a.file).parent / "hf"))
    data = datasets.concatenate_datasets([data] * REPEAT).with_transform(ready)

    def epoch():
        return DataLoader(data, batch_size=64, shuffle=True, num_workers=a.workers, drop_last=True)

    report("W1-parquet", "hf-photographs", version("datasets", "torch", "torchvision", "pillow"), {"workers": a.workers, "batch": 64},
           measure(lambda: forever(epoch), lambda b: len(b["label"]), a.seconds, 5))


# ---- One row ----


def take(a):
    """A row at random, of a file that is open."""
    import pyarrow.dataset as ds
    data, rng = ds.dataset(a.file), np.random.default_rng(a.seed)
    rows = data.count_rows()
    data.take([0])
    n, t0 = 0, time.perf_counter()
    while time.perf_counter() - t0 < a.seconds:
        data.take([int(rng.integers(rows))])
        n += 1
    report("tables", "take", version("pyarrow"), {},
           {"samples_per_s": round(n / (time.perf_counter() - t0), 2), "n_samples": n})


PEERS = {"prepare": prepare, "hf-photographs": hf_photographs, "pyarrow-all": pyarrow_all, "duckdb-all": duckdb_all, "polars-csv": polars_csv, "take": take}

if __name__ == "__main__":
    args = arguments(PEERS, folder="", file="")
    PEERS[args.peer](args)
