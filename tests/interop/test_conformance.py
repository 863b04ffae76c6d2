# SPDX-License-Identifier: Apache-2.0
"""Apache's public conformance files of Parquet and Arrow (scripts/fetch_conformance.py): columns of the supported shapes read equal to pyarrow,
the others are refused by name, and no file, damaged ones included, ends the command in any other way than an error that names it."""
import json
import math
import os
import subprocess
import sys
import unittest
from pathlib import Path

import numpy
import pyarrow
import pyarrow.compute
import pyarrow.parquet as pq
from pyarrow import ipc

ROOT = Path(__file__).resolve().parents[2]
COMMAND = os.environ.get("STOKER_COMMAND", "stoker")
FILES = Path(os.environ.get("STOKER_CONFORMANCE") or Path(COMMAND).resolve().parent / "conformance")


def setUpModule():
    subprocess.run([sys.executable, str(ROOT / "scripts/fetch_conformance.py"), str(FILES)], check=True)


def stoker(*arguments):
    """Exit code, standard output, standard error; a signal fails the test."""
    done = subprocess.run([COMMAND, *arguments], capture_output=True, timeout=120)
    error = done.stderr.decode(errors="replace")
    if done.returncode not in (0, 1, 2) or "Sanitizer" in error or "runtime error" in error:
        raise AssertionError(f"{arguments}: exit code {done.returncode}: {error}")
    return done.returncode, done.stdout.decode(), error


# Why files are refused as a whole, or their rows: what docs/tables.md says is not read, and damage.
REASONS = ["has no column that can be a field", "without a row", "has a null within its list",
           "its dictionary has a null", "its dictionary comes in parts", "its numbers are big endian", "two columns have the name",
           "the checksum of a page does not match", "a page without compression says two sizes"]
EQUAL = {"parquet": 60, "arrow": 40}  # files at least


# ---- What pyarrow reads, in the words of JSON --------------------------------------------------------------------------------------------


def plain(array):
    """Rows as `stoker cat --format json` has them."""
    kind = array.type
    if pyarrow.types.is_dictionary(kind):
        return plain(array.dictionary_decode())
    if isinstance(kind, pyarrow.BaseExtensionType):
        return plain(array.storage)
    if pyarrow.types.is_temporal(kind) and not pyarrow.types.is_interval(kind):
        width = pyarrow.int32() if kind in (pyarrow.date32(), pyarrow.time32("s"), pyarrow.time32("ms")) else pyarrow.int64()
        return array.view(width).to_pylist()
    if pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind) or pyarrow.types.is_fixed_size_list(kind):
        return [None if row is None else row if isinstance(row, list) else list(row) for row in lists(array)]
    return [value(v, kind) for v in array.to_pylist()]


def lists(array):
    """Rows of a list array, of values as JSON has them."""
    for scalar in array:
        yield None if not scalar.is_valid else plain(scalar.values)


def value(v, kind):
    if v is None:
        return None
    if pyarrow.types.is_decimal(kind):
        return float(v)
    if pyarrow.types.is_float32(kind) or pyarrow.types.is_float16(kind):
        return float(str(numpy.dtype(kind.to_pandas_dtype()).type(v)))
    if pyarrow.types.is_fixed_size_binary(kind):
        return list(v)
    if isinstance(v, bytes):
        try:
            return v.decode()
        except UnicodeDecodeError:
            return list(v)
    return v


def flat(table):
    """name -> array, structs and lists of structs taken apart."""
    while any(pyarrow.types.is_struct(field.type) and field.type.num_fields for field in table.schema):
        table = table.flatten()
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if is_bare(column.type):
            continue
        array = column.combine_chunks()
        if pyarrow.types.is_list(array.type) and pyarrow.types.is_struct(array.type.value_type):
            for i, field in enumerate(array.type.value_type):
                inner = pyarrow.compute.struct_field(array.values, [i])
                columns[f"{name}.{field.name}"] = pyarrow.ListArray.from_arrays(array.offsets, inner, mask=array.is_null())
        else:
            columns[name] = array
    return columns


def is_bare(kind):
    """pyarrow has no arrays of it."""
    return str(kind) in ("month_interval", "day_time_interval")


def same(a, b):
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or math.isnan(a) and math.isnan(b) or math.isclose(a, b, rel_tol=1e-15)  # decimals
    return a == b and (type(a) is type(b) or {type(a), type(b)} <= {int, float})


# ---- Files -------------------------------------------------------------------------------------------------------------------------------


class Conformance(unittest.TestCase):
    def compare(self, spec, out, table):
        """Columns that stoker reads are equal; gives those that it leaves out."""
        rows = [json.loads(line) for line in out.splitlines()]
        self.assertEqual(len(rows), table.num_rows, spec)
        wanted, found = flat(table), set().union(*rows) if rows else set()
        for name in found:
            whole = next((n for n in (name, f"{name}.bytes") if n in wanted), None)
            if whole is None:
                self.assertTrue(any(map(is_bare, table.schema.types)), f"{spec}: {name} is no column of {list(wanted)}")
                continue
            for i, (row, want) in enumerate(zip(rows, plain(wanted[whole]), strict=True)):
                self.assertTrue(same(row[name], want), f"{spec}: {name}, row {i}: {row[name]!r}, and pyarrow {want!r}")
        return set(wanted) - found

    def check(self, spec, table):
        """Equal, or refused for a reason that is known; columns that are left out are refused by name where they are asked for. Whether it was read."""
        code, out, error = stoker("cat", spec, "--format", "json")
        if "has a null within its list" in error:
            code, out, error = stoker("cat", f"{spec}?nulls=zero", "--format", "json")
            self.assertEqual(code, 0, error)
            self.assertEqual(len(out.splitlines()), table.num_rows, spec)
            return False  # zeros in the place of nulls
        if code != 0:
            self.assertIn(Path(spec).name, error)
            self.assertTrue(any(reason in error for reason in REASONS), error)
            return False
        for column in self.compare(spec, out, table):
            code, _, error = stoker("cat", f"{spec}?columns={column}", "--format", "json")
            self.assertNotEqual(code, 0, f"{spec}: {column}")
            self.assertIn(column.split(".")[0], error, spec)
        return True

    def all_of(self, kind, paths, read):
        equal = 0
        for path in paths:
            with self.subTest(path=f"{path.parent.name}/{path.name}"):
                try:
                    table = read(path)
                except (OSError, ValueError, NotImplementedError, pyarrow.ArrowException):
                    table = None
                if table is not None and table.num_rows:
                    equal += self.check(f"{kind}:{path}", table)
                else:
                    stoker("cat", f"{kind}:{path}", "--format", "json")
        self.assertGreaterEqual(equal, EQUAL[kind])

    def test_parquet(self):
        self.all_of("parquet", sorted((FILES / "parquet-testing").rglob("*.parquet")), pq.read_table)

    def test_encrypted(self):
        for path in sorted((FILES / "parquet-testing").rglob("*.encrypted")):
            with self.subTest(path=path.name):
                code, _, error = stoker("cat", f"parquet:{path}", "--format", "json")
                self.assertNotEqual(code, 0)
                self.assertIn("encrypted", error)

    def test_arrow(self):
        def read(path):
            with open(path, "rb") as file:
                return (ipc.open_file if path.suffix == ".arrow_file" else ipc.open_stream)(file).read_all()
        self.all_of("arrow", sorted(p for p in (FILES / "arrow-testing/data").rglob("*") if p.suffix in (".arrow_file", ".stream")), read)

    def test_damaged(self):
        """What fuzzers found in other readers."""
        tried = 0
        for path in sorted(p for p in (FILES / "arrow-testing/data").rglob("*") if p.is_file()):
            kind = "parquet" if "parquet" in path.parts else "arrow" if "arrow-ipc" in str(path.parent) else "csv" if "csv" in path.parts else None
            if kind and path.suffix not in (".arrow_file", ".stream", ".gz", ".md"):
                stoker("cat", f"{kind}:{path}", "--format", "json", "-o", os.devnull)
                tried += 1
        self.assertGreater(tried, 100)


if __name__ == "__main__":
    unittest.main()
