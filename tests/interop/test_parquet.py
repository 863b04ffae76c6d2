# SPDX-License-Identifier: Apache-2.0
"""Parquet files that pyarrow writes, over encodings, codecs, versions of pages and shares of nulls: read as pyarrow reads them."""
import itertools
import os
import shutil
import tempfile
import unittest

import numpy
import pyarrow
import pyarrow.parquet

import stoker

ROWS = 613
ENCODINGS = {
    "dictionary": {},
    "plain": {"use_dictionary": False},
    "delta": {"use_dictionary": False, "column_encoding": {
        "i": "DELTA_BINARY_PACKED", "u": "DELTA_BINARY_PACKED", "text": "DELTA_BYTE_ARRAY", "blob": "DELTA_LENGTH_BYTE_ARRAY"}},
    "split": {"use_dictionary": False, "column_encoding": {"i": "BYTE_STREAM_SPLIT", "f": "BYTE_STREAM_SPLIT"}},
}


def table(rng, share):
    def some(values, kind):
        return pyarrow.array([None if rng.random() < share else v for v in values], kind)
    n = range(ROWS)
    return pyarrow.table({
        "i": some([int(v) for v in rng.integers(-2**62, 2**62, ROWS)], pyarrow.int64()),
        "u": some([int(v) for v in rng.integers(0, 2**16, ROWS)], pyarrow.uint16()),
        "f": some([float(v) for v in rng.random(ROWS, dtype="f4")], pyarrow.float32()),
        "b": some([bool(v) for v in rng.integers(0, 2, ROWS)], pyarrow.bool_()),
        "text": some([f"a text {int(v)}" * (i % 3) for i, v in zip(n, rng.integers(0, 40, ROWS))], pyarrow.string()),
        "blob": some([rng.bytes(i % 37) for i in n], pyarrow.binary()),
        "tokens": pyarrow.array([[int(v) for v in rng.integers(0, 50, i % 7)] for i in n], pyarrow.list_(pyarrow.int32())),
    })


class Parquet(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def check(self, data, **options):
        path = os.path.join(self.folder, "a.parquet")
        pyarrow.parquet.write_table(data, path, row_group_size=400, data_page_size=1000, write_batch_size=50, **options)
        wanted = {name: data.column(name).to_pylist() for name in data.column_names}
        seen = set()
        for batch in stoker.Loader(f"parquet:{path}?nulls=mask", batch_size=32, shuffle=True, num_workers=2):
            for row, index in enumerate(int(i) for i in batch["index"]):
                seen.add(index)
                for name, values in wanted.items():
                    self.same(batch, name, row, values[index], (options, name, index))
        self.assertEqual(seen, set(range(ROWS)))

    def same(self, batch, name, row, wanted, where):
        value = batch[name]
        if isinstance(value, stoker.Ragged):
            found = value.values[int(value.offsets[row]):int(value.offsets[row + 1])]
            found = found.tolist() if name == "tokens" else numpy.asarray(found).tobytes()
        else:
            found = value[row]
            found = found if isinstance(found, (bytes, str)) else found.item()
        if name + "_mask" in batch:
            self.assertEqual(bool(batch[name + "_mask"][row]), wanted is not None, where)
        if wanted is None:
            return
        if isinstance(wanted, str) and isinstance(found, bytes):
            wanted = wanted.encode()
        self.assertEqual(found, wanted, where)

    def test_all(self):
        rng = numpy.random.default_rng(7)
        for share, encoding, version, index in itertools.product((0, 0.3), ENCODINGS, ("1.0", "2.0"), (False, True)):
            data = table(rng, share)
            for codec in ("none", "snappy", "gzip", "zstd", "lz4") if encoding == "plain" else ("zstd",):
                self.check(data, compression=codec, data_page_version=version, write_page_index=index, **ENCODINGS[encoding])


if __name__ == "__main__":
    unittest.main()
