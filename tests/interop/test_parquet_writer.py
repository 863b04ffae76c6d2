# SPDX-License-Identifier: Apache-2.0
"""Parquet files that stoker writes, read by PyArrow, DuckDB, polars and fastparquet: values, shapes of lists, pages, statistics, indexes of pages."""
import io
import json
import os
import pathlib
import shutil
import tarfile
import tempfile
import unittest

import duckdb
import fastparquet
import numpy
import polars
import pyarrow
import pyarrow.parquet as pq
from support import run

ROWS = 211
TYPES = ["bool", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"]
SETTINGS = ["", "?codec=none", "?page_size=100&row_group_size=3000", "?page_size=1&level=19", "?row_group_rows=50&page_size=1KiB"]


def numbers(rng, dtype, shape):
    dtype = numpy.dtype(dtype)
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    bounds = numpy.iinfo(dtype)
    return rng.integers(bounds.min, bounds.max, shape, dtype=dtype, endpoint=True)


class Written(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.rng = numpy.random.default_rng(11)

    def path(self, name):
        return os.path.join(self.folder, name)

    def convert(self, source, target="x.parquet", setting=""):
        run("convert", source, f"parquet:{self.path(target)}{setting}", "--overwrite", "-q")
        return self.path(target)

    def check_index(self, path):
        """The checksums of pages are right, chunks lie in the file, and their bounds are those of the values."""
        file = pq.ParquetFile(path, page_checksum_verification=True)
        size = os.path.getsize(path)
        for g in range(file.num_row_groups):
            table = file.read_row_group(g)
            for c in range(file.metadata.num_columns):
                chunk = file.metadata.row_group(g).column(c)
                self.assertTrue(chunk.has_offset_index, chunk.path_in_schema)
                start = chunk.dictionary_page_offset or chunk.data_page_offset
                self.assertLess(start + chunk.total_compressed_size, size)
                column = table.column(chunk.path_in_schema.split(".")[0])
                if chunk.statistics is not None and chunk.statistics.has_min_max:
                    flat = column.combine_chunks()
                    while isinstance(flat, pyarrow.ListArray):
                        flat = flat.flatten()
                    values = numpy.array(flat.to_pylist())
                    self.assertEqual(chunk.statistics.min, values.min(), chunk.path_in_schema)
                    self.assertEqual(chunk.statistics.max, values.max(), chunk.path_in_schema)
        return file

    def check(self, path, wanted):
        """`wanted`: name -> list of rows."""
        file = self.check_index(path)
        table = file.read()
        self.assertEqual(sorted(table.column_names), sorted(wanted))
        for name, rows in wanted.items():
            self.assertEqual(table[name].to_pylist(), rows, name)
        named = ", ".join(f'"{name}"' for name in wanted)
        for row, found in enumerate(duckdb.sql(f"select {named} from read_parquet('{path}')").fetchall()):
            for value, (name, rows) in zip(found, wanted.items()):
                self.assertEqual(value, rows[row], f"DuckDB {name} {row}")
        frame = polars.read_parquet(path)
        for name, rows in wanted.items():
            self.assertEqual(frame[name].to_list(), rows, f"polars {name}")
        return file

    def check_types(self, rank):
        fields = {t: numbers(self.rng, t, (ROWS, *(3, 4)[:rank])) for t in TYPES}
        numpy.savez(self.path("x.npz"), **fields)
        wanted = {name: array.reshape(ROWS, -1).tolist() if rank else array.tolist() for name, array in fields.items()}
        for setting in SETTINGS:
            with self.subTest(setting=setting, rank=rank):
                path = self.convert(f"npz:{self.path('x.npz')}", setting=setting)
                file = self.check(path, wanted)
                self.assertEqual(file.num_row_groups > 1, "row_group" in setting)
                for name, array in fields.items():
                    kind = file.schema_arrow.field(name).type
                    self.assertEqual(kind.value_type if rank else kind, pyarrow.from_numpy_dtype(array.dtype), name)
        return path, fields

    def test_types(self):
        self.check_types(2)
        self.check_types(1)
        path, fields = self.check_types(0)
        del fields["f2"]  # fastparquet has no float16
        frame = fastparquet.ParquetFile(path).to_pandas(columns=list(fields))
        for name, array in fields.items():
            numpy.testing.assert_array_equal(frame[name].to_numpy(), array, name)

    def test_not_numbers(self):
        special = numpy.array([numpy.nan] * 40 + [1.5, -0.0, 0.0, numpy.inf, -numpy.inf] + [numpy.nan] * 60, "f4")
        numpy.savez(self.path("x.npz"), a=special, b=numpy.full(len(special), numpy.nan), c=numpy.zeros(len(special)))
        path = self.convert(f"npz:{self.path('x.npz')}", setting="?page_size=64")
        table = pq.read_table(path)
        numpy.testing.assert_array_equal(table["a"].to_numpy(), special)
        numpy.testing.assert_array_equal(polars.read_parquet(path)["a"].to_numpy(), special)
        chunks = [pq.ParquetFile(path).metadata.row_group(0).column(i) for i in range(3)]
        self.assertEqual([chunks[0].statistics.min, chunks[0].statistics.max], [-numpy.inf, numpy.inf])
        self.assertFalse(chunks[1].statistics.has_min_max)
        self.assertTrue(numpy.signbit(chunks[2].statistics.min))
        self.assertEqual([c.has_column_index for c in chunks], [False, False, True])
        self.assertEqual(duckdb.sql(f"select count(*) from '{path}' where a = 1.5").fetchall(), [(1,)])

    def records(self):
        rows = []
        for i in range(ROWS):
            length = int(self.rng.integers(0, 40)) if i % 3 else 0
            rows.append({"text": bytes(self.rng.integers(0, 256, int(self.rng.integers(0, 300)), dtype="u1")),
                         "tokens": numbers(self.rng, "i2", length), "flags": numbers(self.rng, "bool", length), "codes": numbers(self.rng, "u1", i % 5)})
        with tarfile.open(self.path("x.tar"), "w", format=tarfile.USTAR_FORMAT) as tar:
            for i, row in enumerate(rows):
                for name, value in row.items():
                    if not isinstance(value, bytes):
                        file = io.BytesIO()
                        numpy.save(file, value)
                        value = file.getvalue()
                    member = tarfile.TarInfo(f"{i:06d}.{name}" + ("" if name == "text" else ".npy"))
                    member.size = len(value)
                    tar.addfile(member, io.BytesIO(value))
        return rows

    def test_lists_and_bytes(self):
        rows = self.records()
        wanted = {name: [row[name] if name == "text" else row[name].tolist() for row in rows] for name in rows[0]}
        for setting in SETTINGS:
            with self.subTest(setting=setting):
                path = self.convert(f"webdataset:{self.path('x.tar')}?index=none", setting=setting)
                names = pq.read_schema(path).names
                self.check(path, {name: wanted[name.removesuffix(".npy")] for name in names})

    def test_filters(self):
        numpy.savez(self.path("x.npz"), key=numpy.arange(5000, dtype="i4") * 3, other=numbers(self.rng, "f8", 5000))
        path = self.convert(f"npz:{self.path('x.npz')}", setting="?page_size=512&row_group_rows=1000")
        other = numpy.load(self.path("x.npz"))["other"]
        for key in (0, 3, 2997, 3000, 7500, 14997):
            self.assertEqual(pq.read_table(path, filters=[("key", "==", key)])["other"].to_pylist(), [other[key // 3]])
            self.assertEqual(duckdb.sql(f"select other from '{path}' where key = {key}").fetchall(), [(other[key // 3],)])
            self.assertEqual(polars.scan_parquet(path).filter(polars.col("key") == key).collect()["other"].to_list(), [other[key // 3]])

    def test_pictures(self):
        golden = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "images")
        wanted = {}
        for label, name in enumerate(("dog", "cat")):
            os.makedirs(self.path(f"in/{name}"))
            for k in range(3):
                file = ("base_420.jpg", "base_444.jpg", "comment.jpg")[k]
                shutil.copy(os.path.join(golden, file), self.path(f"in/{name}/{k}.jpg"))
                wanted[f"{name}/{k}.jpg"] = pathlib.Path(golden, file).read_bytes()
        path = self.convert(f"images:{self.path('in')}")
        table = pq.read_table(path)
        order = sorted(wanted)
        self.assertEqual(table["image"].to_pylist(), [{"bytes": wanted[name], "path": None} for name in order])
        self.assertEqual(table["label"].to_pylist(), [0, 0, 0, 1, 1, 1])
        features = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
        self.assertEqual(features, {"image": {"_type": "Image"}, "label": {"names": ["cat", "dog"], "_type": "ClassLabel"}})
        # What that library compares a column with before it takes the feature.
        self.assertEqual(table.schema.field("image"), pyarrow.field("image", pyarrow.struct({"bytes": pyarrow.binary(), "path": pyarrow.string()})))
        self.assertEqual(table.schema.field("label"), pyarrow.field("label", pyarrow.int64()))
        self.assertEqual(polars.read_parquet(path)["image"].struct.field("bytes").to_list(), [wanted[name] for name in order])
        self.assertEqual([row[0] for row in duckdb.sql(f"select image.bytes from '{path}'").fetchall()], [wanted[name] for name in order])
        self.assertEqual(pq.ParquetFile(path).metadata.row_group(0).column(0).compression, "UNCOMPRESSED")

    def test_shards(self):
        array = numbers(self.rng, "f8", 4000)
        numpy.savez(self.path("x.npz"), a=array)
        folder = self.convert(f"npz:{self.path('x.npz')}", "out", "?shard_size=9KiB&page_size=512")
        names = sorted(os.listdir(folder))
        self.assertEqual(names, [f"shard-{i:06d}.parquet" for i in range(len(names))])
        self.assertGreater(len(names), 3)
        self.assertEqual(pq.read_table(folder)["a"].to_pylist(), array.tolist())


if __name__ == "__main__":
    unittest.main()
