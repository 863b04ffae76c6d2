#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/golden/arrow and the fuzz corpus of arrow: files and streams of Arrow IPC, by pyarrow.

    python3 -m pip install pyarrow
    python3 scripts/make_arrow_golden.py

Values are those of tests/unit/dataset/test_arrow.c, told by the number of the row.
"""
import decimal
import os

import numpy
import pyarrow as pa
from pyarrow import ipc

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
GOLDEN = os.path.join(ROOT, "tests", "golden", "arrow")
CORPUS = os.path.join(ROOT, "fuzz", "corpus", "arrow")
ROWS, FIRST = 11, 5  # of all, and of the first batch
WORDS = ["a", "bb", "ccc"]


def types(rows):
    st = pa.StructArray.from_arrays([pa.array([10 * i for i in rows], pa.int32()), pa.array([f"in {i}" for i in rows])], ["x", "y"])
    return {
        "b": pa.array([i % 3 == 0 for i in rows]), "i8": pa.array([-i for i in rows], pa.int8()),
        "u64": pa.array([i * 10**18 for i in rows], pa.uint64()), "f16": pa.array([i / 2 for i in rows], pa.float32()).cast(pa.float16()),
        "f64": pa.array([i / 8 for i in rows], pa.float64()),
        "dec": pa.array([decimal.Decimal(100 * i + 25).scaleb(-2) * (-1) ** i for i in rows], pa.decimal128(9, 2)),
        "day": pa.array(rows, pa.int32()).cast(pa.date32()), "ts": pa.array([i * 1000 for i in rows], pa.timestamp("us", "UTC")),
        "s": pa.array(["x" * (i % 4) + str(i) for i in rows]), "bin": pa.array([bytes([i] * i) for i in rows], pa.large_binary()),
        "fsb": pa.array([bytes([i, i + 1, i + 2]) for i in rows], pa.binary(3)),
        "li": pa.array([[i + k for k in range(i % 3)] for i in rows], pa.list_(pa.int16())),
        "lb": pa.array([[k % 2 == 0 for k in range(i % 4)] for i in rows], pa.large_list(pa.bool_())),
        "fl": pa.array([[i, -i] for i in rows], pa.list_(pa.float32(), 2)), "st": st,
        "cat": pa.array([WORDS[i % 3] for i in rows]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())),
    }


def nulls(rows):
    def some(values, kind):
        return pa.array([None if i % 3 == 1 else v for i, v in zip(rows, values)], kind)

    st = pa.StructArray.from_arrays([pa.array(rows, pa.int32()), some(rows, pa.int64())], ["x", "y"],
                                    mask=pa.array([i % 5 == 2 for i in rows]))
    return {
        "v": some(rows, pa.int32()), "b": some([True] * len(rows), pa.bool_()), "s": some([f"row {i}" for i in rows], pa.string()),
        "li": some([[i] * 2 for i in rows], pa.list_(pa.int32())), "fl": some([[i, i] for i in rows], pa.list_(pa.int16(), 2)),
        "cat": some([WORDS[i % 3] for i in rows], pa.string()).dictionary_encode(), "st": st,
        "hole": pa.array([[i, None if i == 4 else 7] for i in rows], pa.list_(pa.int32())),
    }


def holes(rows):
    """Lists that hold nulls, above values that are anything."""
    def cut(values, kind, width):
        mask = [(k // width + k % width) % 3 == 0 for k in range(len(values))]
        return pa.array(numpy.asarray(values), kind, mask=numpy.asarray(mask)) if not pa.types.is_decimal(kind) else pa.array(
            [None if hole else decimal.Decimal(v) / 4 for v, hole in zip(values, mask)], kind)

    pairs = [10 * i + k for i in rows for k in range(2)]
    offsets = pa.array(range(0, len(pairs) + 1, 2), pa.int32())
    return {
        "li": pa.ListArray.from_arrays(offsets, cut(pairs, pa.int32(), 2)),
        "lb": pa.ListArray.from_arrays(offsets, cut([True] * len(pairs), pa.bool_(), 2)),
        "ld": pa.ListArray.from_arrays(offsets, cut(pairs, pa.decimal128(9, 2), 2)),
        "fl": pa.FixedSizeListArray.from_arrays(cut(pairs, pa.int32(), 2), 2),
        "fb": pa.FixedSizeListArray.from_arrays(cut([True] * len(pairs), pa.bool_(), 2), 2),
    }


def views(rows):
    def texts(kind):
        made = [None if i % 3 == 1 else f"row {i}" if i % 2 else f"text {i}, which is longer than twelve bytes" for i in rows]
        return pa.array([v if v is None or kind == pa.string_view() else v.encode() for v in made], kind)

    return {
        # Two buffers of texts, where one array is put behind another.
        "t": pa.concat_arrays([texts(pa.string_view())[:2], texts(pa.string_view())[2:]]), "b": texts(pa.binary_view()),
        "n": pa.array(rows, pa.int32()), "all": pa.array([f"no null is here: {i}" for i in rows], pa.string_view()),
        "st": pa.StructArray.from_arrays([pa.array([f"in a struct: {i}" for i in rows], pa.string_view())], ["x"]),
    }


def refused(rows):
    return {
        "v": pa.array(rows, pa.int32()), "none": pa.nulls(len(rows)), "map": pa.array([[("k", 1)]] * len(rows), pa.map_(pa.string(), pa.int32())),
        "lists": pa.array([[[1]]] * len(rows), pa.list_(pa.list_(pa.int32()))),
        "union": pa.UnionArray.from_sparse(pa.array([0] * len(rows), pa.int8()), [pa.array(rows, pa.int32())]),
        "view": pa.array([[1, 2]] * len(rows), pa.list_view(pa.int32())),
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([len(rows)], pa.int32()), pa.array([1])),
        "strings": pa.array([["a"]] * len(rows), pa.list_(pa.string())), "w": pa.array([2 * i for i in rows], pa.int32()),
    }


def batches(columns, parts):
    for part in parts:
        made = columns(part)
        yield pa.record_batch(list(made.values()), names=list(made))


def write(path, columns, stream=False, parts=(range(FIRST), range(FIRST, ROWS)), **options):
    made = list(batches(columns, [list(part) for part in parts]))
    if not stream:  # a file has one dictionary of a column
        made = pa.Table.from_batches(made).unify_dictionaries().to_batches()
    version = ipc.MetadataVersion.V4 if options.pop("old", False) else ipc.MetadataVersion.V5
    with (ipc.new_stream if stream else ipc.new_file)(path, made[0].schema,
                                                      options=ipc.IpcWriteOptions(metadata_version=version, **options)) as writer:
        for batch in made:
            writer.write_batch(batch)


def main():
    for folder in (GOLDEN, CORPUS):
        os.makedirs(folder, exist_ok=True)

    def golden(name, *arguments, **options):
        write(os.path.join(GOLDEN, name), *arguments, **options)

    golden("types.arrow", types)
    golden("types_lz4.feather", types, compression="lz4")
    golden("types_zstd.arrow", types, compression="zstd")
    golden("types_old.arrow", types, old=True, use_legacy_format=True)
    golden("types.arrows", types, stream=True)
    golden("nulls.arrow", nulls)
    golden("nulls_lz4.arrows", nulls, stream=True, compression="lz4")
    golden("holes.arrow", holes)
    golden("holes_lz4.arrows", holes, stream=True, compression="lz4")
    golden("views.arrow", views)
    golden("views_zstd.arrows", views, stream=True, compression="zstd")
    golden("refused.arrow", refused)
    for name, columns, options in (("types", types, {}), ("nulls", nulls, {}), ("lz4", nulls, {"compression": "lz4"}),
                                   ("zstd", types, {"compression": "zstd"}), ("stream", nulls, {"stream": True}),
                                   ("old", types, {"stream": True, "old": True, "use_legacy_format": True}), ("refused", refused, {}),
                                   ("holes", holes, {}), ("holes_lz4", holes, {"compression": "lz4"}), ("views", views, {}), ("views_lz4", views, {"compression": "lz4"})):
        write(os.path.join(CORPUS, name), columns, parts=(range(2), range(2, 5)), **options)


if __name__ == "__main__":
    main()
