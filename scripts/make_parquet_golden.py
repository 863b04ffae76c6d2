#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the Parquet files of the tests, tests/golden/parquet, and the seeds of the fuzz target: fuzz/corpus/parquet.

They are written by Arrow C++ (pyarrow). Values follow from the row, as tests/unit/dataset/test_parquet.c has them, so that what is read is compared
with formulas.
"""
import decimal
import os

import numpy
import pyarrow
import pyarrow.parquet

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GOLDEN = os.path.join(HERE, "tests", "golden", "parquet")
CORPUS = os.path.join(HERE, "fuzz", "corpus", "parquet")
ROWS = 60
DELTA = {"id": "DELTA_BINARY_PACKED", "small": "DELTA_BINARY_PACKED", "word": "DELTA_BYTE_ARRAY", "blob": "DELTA_LENGTH_BYTE_ARRAY",
         "fixed": "DELTA_BYTE_ARRAY", "flag": "RLE", "when": "DELTA_BINARY_PACKED", "tokens.list.element": "DELTA_BINARY_PACKED"}
SPLIT = {"id": "BYTE_STREAM_SPLIT", "f": "BYTE_STREAM_SPLIT", "d": "BYTE_STREAM_SPLIT", "h": "BYTE_STREAM_SPLIT", "fixed": "BYTE_STREAM_SPLIT"}


def gaps(values):
    """None in every seventh row."""
    return [None if i % 7 == 3 else value for i, value in enumerate(values)]


def table(rows):
    n = range(rows)
    a = pyarrow
    return a.table({
        "id": a.array([7 * i - 100 for i in n], a.int64()),
        "small": a.array([i % 5 - 2 for i in n], a.int8()),
        "wide": a.array([2**64 - 1 - i for i in n], a.uint64()),
        "f": a.array([i / 4 for i in n], a.float32()),
        "d": a.array([-i / 8 for i in n], a.float64()),
        "h": a.array([numpy.float16(i / 2) for i in n], a.float16()),
        "flag": a.array([i % 3 == 0 for i in n], a.bool_()),
        "word": a.array([f"word {i // 4}" for i in n]),
        "blob": a.array([bytes([i, 255 - i]) * (i % 4) for i in n], a.binary()),
        "fixed": a.array([bytes([i, 1, 2, 3, 4]) for i in n], a.binary(5)),
        "price": a.array([decimal.Decimal(125 * i - 500).scaleb(-2) for i in n], a.decimal128(9, 2)),
        "when": a.array([10**15 + i for i in n], a.int64()).cast(a.timestamp("us", "UTC")),
        "tokens": a.array([[i + k for k in range(i % 4)] for i in n], a.list_(a.int32())),
        "s": a.array([{"x": i, "t": {"y": str(i)}} for i in n], a.struct([("x", a.int16()), ("t", a.struct([("y", a.string())]))])),
        "maybe": a.array(gaps(range(rows)), a.int32()),
        "perhaps": a.array(gaps([f"p{i % 3}" for i in n])),
        "nothing": a.array([None] * rows, a.int64()),
        "pairs": a.array([[("k", i)] for i in n], a.map_(a.string(), a.int32())),
        "deep": a.array([[[i]] for i in n]),
        "words": a.array([["a"] for i in n]),
    })


def write(folder, name, rows=ROWS, only=None, **options):
    os.makedirs(folder, exist_ok=True)
    data = table(rows) if only is None else table(rows).select(only)
    pyarrow.parquet.write_table(data, os.path.join(folder, name + (".parquet" if folder == GOLDEN else "")), row_group_size=35, write_batch_size=8, data_page_size=64,
                                store_schema=False, **options)


def values():
    """Of fuzz_parquet_values.c: which encoding, a width, a count, bytes."""
    folder = CORPUS + "_values"
    os.makedirs(folder, exist_ok=True)
    for name, data in {
            "plain": b"\0\0\3" + b"\2\0\0\0ab" + b"\0\0\0\0" + b"\1\0\0\0c",
            "lengths": b"\1\0\3" + b"\x80\1\4\3\4" + b"\1\2\0\0\0" + b"\1" + bytes(7) + b"abcdefghij",
            "prefixes": b"\2\0\2" + b"\x80\1\4\2\0" + b"\4\0\0\0\0" + b"\x80\1\4\2\x08" + b"\3\0\0\0\0" + b"axisle",
            "levels": b"\3\1\7" + b"\x08\1\6\0",
            "runs": b"\4\3\x0d" + b"\x0a\3\3\x88\xc6\xfa",
            "delta": b"\5\1\x08" + b"\x80\1\4\x08\x0e\3\2\0\0\0\xc0\x3f" + bytes(5),
            "booleans": b"\6\0\x09\5\1"}.items():
        with open(os.path.join(folder, name), "wb") as f:
            f.write(data)


def main():
    first, second = {"data_page_version": "1.0"}, {"data_page_version": "2.0"}
    write(GOLDEN, "dictionary_snappy", compression="snappy", **first)
    write(GOLDEN, "dictionary_index", compression="zstd", write_page_index=True, write_page_checksum=True, **second)
    write(GOLDEN, "plain", compression="none", use_dictionary=False, **first)
    write(GOLDEN, "plain_gzip", compression="gzip", use_dictionary=False, write_page_index=True, **second)
    write(GOLDEN, "delta_zstd", compression="zstd", use_dictionary=False, column_encoding=DELTA, **second)
    write(GOLDEN, "delta_index", compression="none", use_dictionary=False, column_encoding=DELTA, write_page_index=True, **first)
    write(GOLDEN, "split_lz4", compression="lz4", use_dictionary=False, column_encoding=SPLIT, **first)
    write(GOLDEN, "brotli", compression="brotli", **second)
    times = pyarrow.table({"t": pyarrow.array([10**15 + i for i in range(9)], pyarrow.int64()).cast(pyarrow.timestamp("us"))})
    pyarrow.parquet.write_table(times, os.path.join(GOLDEN, "int96.parquet"), use_deprecated_int96_timestamps=True, compression="none")
    for unit in ("ns", "us"):
        pyarrow.parquet.write_table(times.cast(pyarrow.schema({"t": pyarrow.timestamp(unit)})), os.path.join(GOLDEN, f"times_{unit}.parquet"),
                                    use_dictionary=False, compression="none", store_schema=False)
    unnamed = pyarrow.table([pyarrow.array([1, 2]), pyarrow.array([3, 4])], names=["word", ""])
    pyarrow.parquet.write_table(unnamed, os.path.join(GOLDEN, "unnamed.parquet"), store_schema=False, compression="none")
    holes = [None if i % 11 == 5 else [None if (i + k) % 5 == 3 else i + k for k in range(i % 4)] for i in range(40)]
    lists = pyarrow.table({"coded": pyarrow.array(holes, pyarrow.list_(pyarrow.int32())), "plain": pyarrow.array(holes, pyarrow.list_(pyarrow.float64()))})
    for name, page in (("holes", first), ("holes_pages", second)):
        pyarrow.parquet.write_table(lists, os.path.join(GOLDEN, name + ".parquet"), use_dictionary=["coded.list.element"], write_batch_size=8, data_page_size=64,
                                    row_group_size=30, store_schema=False, compression="none", **page)
    few = ["id", "small", "flag", "word", "fixed", "price", "tokens", "s", "maybe", "perhaps"]
    write(CORPUS, "dictionary", rows=20, only=few, compression="none", **first)
    write(CORPUS, "index", rows=20, only=few, compression="none", write_page_index=True, **second)
    write(CORPUS, "delta", rows=20, only=[c for c in few if c != "tokens"], compression="none", use_dictionary=False,
          column_encoding={k: v for k, v in DELTA.items() if k in few}, **second)
    write(CORPUS, "split", rows=20, only=["id", "f", "h", "fixed"], compression="none", use_dictionary=False, column_encoding=SPLIT, **first)
    write(CORPUS, "packed", rows=20, only=["word", "tokens"], compression="snappy", **first)
    values()


if __name__ == "__main__":
    main()
