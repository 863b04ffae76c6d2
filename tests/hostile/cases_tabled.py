# SPDX-License-Identifier: Apache-2.0
"""MDS and litdata: indexes and tables of offsets that claim more than there is."""
import json
import struct

from cases import case


def commands(kind):
    return [f"info {kind}:d", "info d",
            f"bench --dataset {kind}:d --batch-size 2 --num-batches 4 --num-epochs 1 --train-step-time 0 --on-error skip"]


def mds(folder, data, samples, columns, count=1, **changes):
    """`count` shards that are one file, of columns {name: (encoding, size)}."""
    (folder / "d").mkdir()
    (folder / "d/a.mds").write_bytes(data)
    one = {"version": 2, "format": "mds", "column_names": list(columns), "column_encodings": [e for e, _ in columns.values()],
           "column_sizes": [s for _, s in columns.values()], "samples": samples, "hashes": [], "compression": None, "zip_data": None,
           "raw_data": {"basename": "a.mds", "bytes": len(data), "hashes": {}}} | changes
    (folder / "d/index.json").write_text(json.dumps({"version": 2, "shards": [one] * count}))
    return commands("mds")


def litdata(folder, data, samples, formats, count=1, **config):
    (folder / "d").mkdir()
    (folder / "d/a.bin").write_bytes(data)
    chunk = {"filename": "a.bin", "chunk_size": samples, "chunk_bytes": len(data), "dim": None}
    (folder / "d/index.json").write_text(json.dumps({"chunks": [chunk] * count, "config": {"data_format": formats} | config}))
    return commands("litdata")


def shard(records):
    at = [4 + 4 * (len(records) + 1)]
    for record in records:
        at.append(at[-1] + len(record))
    return struct.pack(f"<{len(at) + 1}I", len(records), *at) + b"".join(records)


@case
def mds_of_many_samples(folder):
    return mds(folder, b"\xff" * 4096, 2**32 - 1, {"x": ("int", 8)})


@case
def mds_of_empty_samples_without_end(folder):
    """Offsets that all lead to the end, of one shard named many times."""
    n = 1 << 18
    return mds(folder, struct.pack(f"<{n + 2}I", n, *[4 * (n + 2)] * (n + 1)), n, {"x": ("str", None)}, count=64)


@case
def mds_of_giant_arrays(folder):
    head = bytes([66, 3 << 2 | 3]) + struct.pack("<3Q", 1 << 62, 1 << 62, 4)
    return mds(folder, shard([struct.pack("<I", len(head)) + head] * 3), 3, {"x": ("ndarray", None)})


@case
def mds_of_giant_shapes(folder):
    return mds(folder, shard([bytes(8)] * 3), 3, {"x": ("ndarray:uint8:1099511627776", 1 << 40)})


@case
def mds_of_giant_pictures(folder):
    head = struct.pack("<3I", 2**32 - 1, 2**32 - 1, 3) + b"RGB"
    return mds(folder, shard([struct.pack("<I", len(head)) + head] * 3), 3, {"x": ("pil", None)})


@case
def mds_of_many_columns(folder):
    return mds(folder, shard([bytes(8)]), 1, {f"x{i}": ("int", 8) for i in range(100000)})


@case
def mds_of_many_shards(folder):
    return mds(folder, shard([bytes(8)]), 1, {"x": ("int", 8)}, count=20000)


@case
def mds_outside(folder):
    (folder / "secret.mds").write_bytes(shard([bytes(8)]))
    return mds(folder, shard([bytes(8)]), 1, {"x": ("int", 8)}, raw_data={"basename": "../secret.mds", "bytes": 20, "hashes": {}})


@case
def litdata_of_deep_trees(folder):
    spec = "[1, " + '{"type": "l", "context": null, "children_spec": [' * 100000 + "]}" * 100000 + "]"
    return litdata(folder, shard([bytes(12)]), 1, ["int"], data_spec=spec)


@case
def litdata_of_wide_trees(folder):
    leaf = '{"type": null, "context": null, "children_spec": []}'
    spec = '[1, {"type": "l", "context": null, "children_spec": [' + ", ".join([leaf] * 100000) + "]}]"
    return litdata(folder, shard([bytes(12)]), 1, ["int"] * 100000, data_spec=spec)


@case
def litdata_of_giant_tensors(folder):
    head = struct.pack(">5I", 2, 3, *[2**32 - 1] * 3)
    return litdata(folder, shard([struct.pack("<I", len(head)) + head] * 3), 3, ["tensor"])
