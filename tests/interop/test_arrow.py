# SPDX-License-Identifier: Apache-2.0
"""Arrow IPC of pyarrow: random tables in every packing are read, and batches go back to pyarrow by the C data interface; those of the
Python package to pyarrow and polars as well."""
import ctypes as c
import decimal
import os
import random
import shutil
import tempfile
import unittest

import numpy
import polars
import pyarrow
import pyarrow.compute
from pyarrow import ipc

import stoker

LIBRARY = os.environ.get("STOKER_LIBRARY") or os.path.join(os.path.dirname(os.environ["STOKER_COMMAND"]), "libstoker.so")
EOS = 1
NUMBERS = [kind() for kind in (pyarrow.int8, pyarrow.uint8, pyarrow.int16, pyarrow.uint16, pyarrow.int32, pyarrow.uint32, pyarrow.int64,
                               pyarrow.uint64, pyarrow.float16, pyarrow.float32, pyarrow.float64)]
TIMES = [pyarrow.date32(), pyarrow.time32("s"), pyarrow.time64("ns"), pyarrow.timestamp("us", "UTC"), pyarrow.duration("ms")]


class Error(c.Structure):
    _fields_ = [("status", c.c_int), ("stage", c.c_int), ("sample", c.c_uint64), ("offset", c.c_uint64), ("key", c.c_char * 256),
                ("text", c.c_char * 640)]


class Table(c.Structure):
    _fields_ = [("name", c.c_char_p), ("doc", c.c_char_p), ("struct_size", c.c_size_t), ("options", c.c_void_p), ("count", c.c_size_t)]


lib = c.CDLL(LIBRARY)
lib.stk_option_table_find.restype = c.POINTER(Table)
err = Error()


def ok(status):
    if status != 0:
        raise AssertionError(f"{err.text.decode()} ({status})")


def export(batch):
    """A batch as pyarrow takes it: 80 bytes of struct ArrowArray, 72 of struct ArrowSchema."""
    schema, array = c.create_string_buffer(72), c.create_string_buffer(80)
    ok(lib.stk_batch_export_arrow(batch, schema, array, c.byref(err)))
    taken = pyarrow.RecordBatch._import_from_c(c.addressof(array), c.addressof(schema))
    taken.validate(full=True)
    return taken


def read(spec, batch_size=16):
    """All rows, in order, as a table of pyarrow that no longer needs the loader."""
    context, dataset, loader = c.c_void_p(), c.c_void_p(), c.c_void_p()
    ok(lib.stk_context_create(None, c.byref(context), c.byref(err)))
    ok(lib.stk_dataset_open(context, spec.encode(), c.byref(dataset), c.byref(err)))
    table = lib.stk_option_table_find(b"loader")
    options = c.create_string_buffer(table.contents.struct_size)
    lib.stk_options_init(table, options, c.c_size_t(len(options)))
    for name, text in {"batch_size": batch_size, "epochs": 1, "num_workers": 2, "shuffle": "false"}.items():
        ok(lib.stk_options_set(table, options, name.encode(), str(text).encode(), c.byref(err)))
    ok(lib.stk_loader_create(dataset, options, c.byref(loader), c.byref(err)))
    rows, last = [], None
    while True:
        batch = c.c_void_p()
        status = lib.stk_loader_next(loader, c.c_int64(-1), c.byref(batch), c.byref(err))
        if status == EOS:
            break
        ok(status)
        if last is not None:
            rows += last.to_pylist()
        last = export(batch)
        lib.stk_batch_release(c.byref(batch))
    lib.stk_loader_destroy(c.byref(loader))
    lib.stk_dataset_close(c.byref(dataset))
    lib.stk_context_destroy(c.byref(context))
    return rows + last.to_pylist()  # the last one outlives all


class Arrow(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.rng = numpy.random.default_rng(7)
        random.seed(7)

    def some(self, values, kind, nulls):
        return pyarrow.array([None if self.rng.random() < nulls else v for v in values], kind)

    def columns(self, n, nulls):
        rng, made = self.rng, {}
        for kind in NUMBERS:
            dtype = numpy.dtype(kind.to_pandas_dtype())
            values = rng.normal(size=n).astype(dtype) if dtype.kind == "f" else numpy.frombuffer(rng.bytes(n * dtype.itemsize), dtype)
            made[str(kind)] = self.some(list(values), kind, nulls)
        for kind in TIMES:
            stored = pyarrow.int32() if kind.bit_width == 32 else pyarrow.int64()
            made[str(kind)] = self.some([int(v) for v in rng.integers(0, 80000, n)], stored, nulls).cast(kind)
        words = ["".join(random.choice("abcé日") for _ in range(random.randrange(9))) for _ in range(n)]
        made["text"] = self.some(words, pyarrow.string(), nulls)
        made["bytes"] = self.some([w.encode() for w in words], pyarrow.large_binary(), nulls)
        made["fixed"] = self.some([rng.bytes(5) for _ in range(n)], pyarrow.binary(5), nulls)
        made["bool"] = self.some([bool(v) for v in rng.integers(0, 2, n)], pyarrow.bool_(), nulls)
        cents = [decimal.Decimal(int(v)).scaleb(-2) for v in rng.integers(-10**9, 10**9, n)]
        made["cents"] = self.some(cents, pyarrow.decimal128(20, 2), nulls)
        def within(values, kind):
            return [None if rng.random() < nulls / 2 else kind(v) for v in values]

        made["list"] = self.some([within(rng.integers(0, 99, random.randrange(4)), int) for _ in range(n)], pyarrow.list_(pyarrow.int16()), nulls)
        made["flags"] = self.some([within(rng.integers(0, 2, random.randrange(4)), bool) for _ in range(n)],
                                  pyarrow.large_list(pyarrow.bool_()), nulls)
        made["three"] = self.some([within(rng.integers(0, 99, 3), float) for _ in range(n)], pyarrow.list_(pyarrow.float32(), 3), nulls)
        made["word"] = self.some([random.choice(["a", "bb", "ccc"]) for _ in range(n)], pyarrow.string(), nulls).dictionary_encode()
        made["in"] = pyarrow.StructArray.from_arrays([made["text"], made["word"], made["int32"]], ["text", "word", "number"],
                                                     mask=pyarrow.array(rng.random(n) < nulls))
        return made

    @staticmethod
    def expected(table):
        """Rows as samples have them: structs taken apart, nulls as zeros."""
        columns = {}
        for name in table.column_names:
            column = table[name].combine_chunks()
            if pyarrow.types.is_struct(column.type):
                for i, field in enumerate(column.type):
                    columns[f"{name}.{field.name}"] = pyarrow.compute.if_else(column.is_valid(), column.field(i).cast(field.type.value_type)
                                                                              if pyarrow.types.is_dictionary(field.type) else column.field(i), None)
            else:
                columns[name] = column
        found = {}
        for name, column in columns.items():
            kind = column.type
            if kind in TIMES:
                column = column.cast(pyarrow.int32() if kind.bit_width == 32 else pyarrow.int64())
            empty = (b"" if pyarrow.types.is_string(kind) or pyarrow.types.is_large_binary(kind) or pyarrow.types.is_dictionary(kind) else
                     [0] * 5 if kind == pyarrow.binary(5) else [0.0] * 3 if pyarrow.types.is_fixed_size_list(kind) else
                     [] if pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind) else 0)
            found[name] = [empty if v is None else v.encode() if isinstance(v, str) else list(v) if kind == pyarrow.binary(5) else
                           [0 if x is None else x for x in v] if isinstance(v, list) else float(v) if isinstance(v, decimal.Decimal) else v for v in column.to_pylist()]
        return [dict(zip(found, row)) for row in zip(*found.values())]

    def check(self, nulls, stream, sizes, **options):
        batches = []
        for n in sizes:
            made = self.columns(n, nulls)
            batches.append(pyarrow.record_batch(list(made.values()), names=list(made)))
        if not stream:
            batches = pyarrow.Table.from_batches(batches).unify_dictionaries().to_batches()
        path = os.path.join(self.folder, "x.arrows" if stream else "x.arrow")
        with (ipc.new_stream if stream else ipc.new_file)(path, batches[0].schema, options=ipc.IpcWriteOptions(**options)) as writer:
            for batch in batches:
                writer.write_batch(batch)
        wanted = self.expected(pyarrow.Table.from_batches(batches))
        found = read(f"arrow:{path}?nulls=zero")
        self.assertEqual(len(found), len(wanted))
        for i, row in enumerate(wanted):
            for name, value in row.items():
                self.assertEqual(found[i][name], value, (i, name))

    def test_files_and_streams(self):
        for nulls in (0, 0.3, 0.95):
            for packed in (None, "lz4", "zstd"):
                for stream in (False, True):
                    for sizes in ([1], [7, 100], [64, 0, 333]):
                        with self.subTest(nulls=nulls, packed=packed, stream=stream, sizes=sizes):
                            self.check(nulls, stream, sizes, compression=packed)

    def test_older_metadata(self):
        for stream in (False, True):
            self.check(0.3, stream, [20, 30], metadata_version=ipc.MetadataVersion.V4, use_legacy_format=True)


class Package(unittest.TestCase):
    """stoker.Loader(output="arrow")."""

    def batches(self, **options):
        loader = stoker.Loader("digits:?size=100", output="arrow", **options)
        self.addCleanup(loader.close)
        return loader

    def test_pyarrow(self):
        before = pyarrow.total_allocated_bytes()
        parts = [pyarrow.record_batch(batch) for batch in self.batches(batch_size=10)]
        self.assertEqual(pyarrow.total_allocated_bytes(), before)  # without a copy
        for part in parts:
            part.validate(full=True)
        table = pyarrow.Table.from_batches(parts)
        with stoker.Loader("digits:?size=100", batch_size=100) as loader:
            wanted = next(iter(loader))
        self.assertEqual(table["label"].to_pylist(), wanted["label"].tolist())
        self.assertEqual(table["image"].to_pylist(), wanted["image"].reshape(100, -1).tolist())

    def test_slabs_come_back(self):
        loader = self.batches(batch_size=10, num_workers=1, epochs=1)
        places = set()
        for batch in loader:
            part = pyarrow.record_batch(batch)
            places.add(part["label"].buffers()[1].address)
            del batch, part
        self.assertLessEqual(len(places), loader.stats().depth + 1)

    def test_polars(self):
        frames = [polars.Series(batch).struct.unnest() for batch in self.batches(batch_size=10)]
        self.assertEqual(polars.concat(frames)["index"].to_list(), list(range(100)))


if __name__ == "__main__":
    unittest.main()
