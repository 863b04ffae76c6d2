# SPDX-License-Identifier: Apache-2.0
"""Tables that stoker writes as Arrow, Parquet, CSV and JSON lines, read by PyArrow, polars, DuckDB and Python: types, nulls, lists, tensors."""
import csv
import json
import math
import os
import random
import shutil
import tempfile
import unittest

import duckdb
import numpy
import polars
import pyarrow
import pyarrow.feather
import pyarrow.parquet as pq
from pyarrow import ipc
from support import run

ROWS = 300
NUMBERS = {"bool": pyarrow.bool_(), "int8": pyarrow.int8(), "uint8": pyarrow.uint8(), "int16": pyarrow.int16(), "uint16": pyarrow.uint16(),
           "int32": pyarrow.int32(), "uint32": pyarrow.uint32(), "int64": pyarrow.int64(), "uint64": pyarrow.uint64(),
           "float32": pyarrow.float32(), "float64": pyarrow.float64()}
TEXTS = ["", "plain", "a,b\tc", 'she said "no"', "two\nlines\r\n", "\u00e9\U0001f600", "12", "null", " padded "]
SETTINGS = ["", "?codec=zstd", "?codec=none", "?batch_rows=7", "?batch_size=1KiB&codec=zstd&level=19"]


def number(rng, name):
    if name == "bool":
        return rng.random() < 0.5
    if name.startswith("float"):
        value = rng.choice([0.1, -1e-40, 1.5e30, -0.0, math.inf, rng.gauss(0, 1)])
        return float(numpy.float32(value)) if name == "float32" else value
    bounds = numpy.iinfo(name)
    return rng.choice([int(bounds.min), int(bounds.max), rng.randrange(0, 100)])


class Tables(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.rng = random.Random(19)

    def path(self, name):
        return os.path.join(self.folder, name)

    def table(self, share, lists=True):
        """`share` of the values are null."""
        def maybe(make):
            return [None if self.rng.random() < share else make() for _ in range(ROWS)]
        columns = {name: pyarrow.array(maybe(lambda: number(self.rng, name)), kind) for name, kind in NUMBERS.items()}
        columns["text"] = pyarrow.array(maybe(lambda: self.rng.choice(TEXTS)), pyarrow.string())
        columns["last"] = pyarrow.array(range(ROWS), pyarrow.int64())
        if lists:
            columns["bytes"] = pyarrow.array(maybe(lambda: self.rng.randbytes(self.rng.randrange(20))), pyarrow.binary())
            for name in ("bool", "int16", "float32"):
                columns[f"list_{name}"] = pyarrow.array(maybe(lambda: [number(self.rng, name) for _ in range(self.rng.randrange(4))]),
                                                        pyarrow.list_(pyarrow.field("item", NUMBERS[name], nullable=False)))
        return pyarrow.table(columns)

    def write(self, table):
        pq.write_table(table, self.path("source.parquet"))
        return self.path("source.parquet")

    def same(self, found, wanted):
        self.assertEqual(found.column_names, wanted.column_names)
        for name in wanted.column_names:
            self.assertEqual(repr(found[name].to_pylist()), repr(wanted[name].to_pylist()), name)

    def test_arrow(self):
        for share in (0, 0.3, 0.97):
            wanted = self.table(share)
            source = self.write(wanted)
            for setting in SETTINGS:
                with self.subTest(share=share, setting=setting):
                    target = self.path("x.arrow")
                    run("convert", source, f"arrow:{target}{setting}", "--overwrite", "-q")
                    found = ipc.open_file(target).read_all()
                    found.validate(full=True)
                    self.same(found, wanted)
                    for name in wanted.column_names:
                        self.assertEqual(found.schema.field(name).type, wanted.schema.field(name).type, name)
                    self.same(pyarrow.feather.read_table(target), wanted)
                    self.same(ipc.open_file(pyarrow.memory_map(target)).read_all(), wanted)
                    self.assertEqual([repr(row) for row in polars.read_ipc(target).rows()],
                                     [repr(tuple(row.values())) for row in wanted.to_pylist()])

    def test_arrow_of_duckdb(self):
        wanted = self.table(0.3)
        target = self.path("x.arrow")
        run("convert", self.write(wanted), target, "-q")
        found = ipc.open_file(target).read_all()
        self.assertEqual(duckdb.sql("select sum(last), count(int32), count(text) from found").fetchall(),
                         [(sum(range(ROWS)), ROWS - wanted["int32"].null_count, ROWS - wanted["text"].null_count)])

    def test_tensors(self):
        rng = numpy.random.default_rng(3)
        arrays = {name: rng.integers(0, 2, (40, 2, 3)).astype(name) for name in [*NUMBERS, "float16"]}
        numpy.savez(self.path("x.npz"), **arrays)
        run("convert", f"npz:{self.path('x.npz')}", self.path("x.arrow"), "-q")
        found = ipc.open_file(self.path("x.arrow")).read_all()
        found.validate(full=True)
        for name, array in arrays.items():
            self.assertEqual(found[name].to_pylist(), array.reshape(40, 6).tolist(), name)
            self.assertEqual(found.schema.field(name).type.list_size, 6)
        run("convert", f"npz:{self.path('x.npz')}", self.path("x.jsonl"), "-q")
        with open(self.path("x.jsonl")) as lines:
            for i, row in enumerate(map(json.loads, lines)):
                self.assertEqual(row, {name: array[i].tolist() for name, array in arrays.items()})

    def test_parquet(self):
        for share in (0, 0.3, 0.97):
            wanted = self.table(share)
            run("convert", self.write(wanted), self.path("x.parquet"), "--overwrite", "-q")
            file = pq.ParquetFile(self.path("x.parquet"), page_checksum_verification=True)
            found = file.read()
            self.same(found, wanted)
            self.assertEqual(found.schema.field("text").type, pyarrow.string())
            for i, name in enumerate(wanted.column_names[:len(NUMBERS) + 2]):
                self.assertEqual(file.metadata.row_group(0).column(i).statistics.null_count, wanted[name].null_count, name)
            self.assertEqual([repr(row) for row in polars.read_parquet(self.path("x.parquet")).rows()],
                             [repr(tuple(row.values())) for row in wanted.to_pylist()])
            self.assertEqual(repr(duckdb.sql(f"select * from '{self.path('x.parquet')}'").fetchall()),
                             repr([tuple(row.values()) for row in wanted.to_pylist()]))

    def test_jsonl(self):
        wanted = self.table(0.3).drop_columns("bytes")
        run("convert", self.write(wanted), self.path("x.jsonl"), "-q")
        with open(self.path("x.jsonl"), newline="\n") as lines:
            self.assertEqual([repr(json.loads(line)) for line in lines],
                             [repr(row) for row in self.floats(wanted)])

    @staticmethod
    def floats(table):
        """Rows, with float32 as the shortest decimal that means it."""
        rows = table.to_pylist()
        for row in rows:
            if row["float32"] is not None:
                row["float32"] = float(str(numpy.float32(row["float32"])))
            if row.get("list_float32"):
                row["list_float32"] = [float(str(numpy.float32(v))) for v in row["list_float32"]]
        return rows

    def test_csv(self):
        wanted = self.table(0.3, lists=False)
        source = self.write(wanted)
        for kind, delimiter in (("csv", ","), ("tsv", "\t")):
            run("convert", source, self.path(f"x.{kind}"), "-q")
            with open(self.path(f"x.{kind}"), newline="") as file:
                rows = list(csv.reader(file, delimiter=delimiter))
            self.assertEqual(rows[0], wanted.column_names)
            for row, want in zip(rows[1:], self.floats(wanted), strict=True):
                for cell, (name, value) in zip(row, want.items(), strict=True):
                    if value is None:
                        self.assertEqual(cell, "", name)
                    elif isinstance(value, bool):
                        self.assertEqual(cell, str(value).lower())
                    else:
                        self.assertEqual(repr(type(value)(cell)), repr(value), name)
            frame = polars.read_csv(self.path(f"x.{kind}"), separator=delimiter)
            self.assertEqual([text or "" for text in frame["text"]], [text or "" for text in wanted["text"].to_pylist()])
            self.assertEqual(frame["last"].to_list(), list(range(ROWS)))


if __name__ == "__main__":
    unittest.main()
