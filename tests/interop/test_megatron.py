# SPDX-License-Identifier: Apache-2.0
"""Token files of Megatron: what megatron-core's builder writes, the library reads as its IndexedDataset does."""
import os
import shutil
import tempfile
import unittest

import numpy
import torch
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder

import stoker

DOCUMENTS, LENGTH, PAD = 40, 16, 0


def rows(spec, field="tokens"):
    """All samples in order, taken in another one."""
    found = {}
    for batch in stoker.Loader(spec, batch_size=7, shuffle=True, num_workers=2):
        for row, index in enumerate(batch["index"]):
            found[int(index)] = batch[field][row].copy()
    return [found[i] for i in range(len(found))]


def cut(tokens):
    """Windows of LENGTH, the last one filled up."""
    filled = numpy.concatenate([tokens, numpy.full(-len(tokens) % LENGTH, PAD)])
    return filled.reshape(-1, LENGTH)


class Tokens(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.rng = numpy.random.default_rng(7)

    def write(self, dtype, sentences=1):
        """A dataset of documents of some sentences each; IndexedDataset's reader of it."""
        prefix = os.path.join(self.folder, f"{numpy.dtype(dtype).name}_{sentences}")
        builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=dtype)
        for _ in range(DOCUMENTS):
            for _ in range(sentences):
                most = min(numpy.iinfo(dtype).max, 2**31 - 1)
                builder.add_item(torch.from_numpy(self.rng.integers(1, most, int(self.rng.integers(1, 60)))))
            builder.end_document()
        builder.finalize(f"{prefix}.idx")
        return prefix, IndexedDataset(prefix)

    def documents(self, dataset):
        bounds = dataset.document_indices
        return [numpy.concatenate([dataset[i] for i in range(a, b)]) for a, b in zip(bounds, bounds[1:])]

    def test_row(self):
        for dtype in (numpy.uint16, numpy.int32, numpy.int64, numpy.uint8):
            prefix, dataset = self.write(dtype)
            row = numpy.concatenate([dataset[i] for i in range(len(dataset))])
            for name in (prefix, f"{prefix}.idx", f"{prefix}.bin"):
                with self.subTest(dtype=dtype, name=name):
                    found = numpy.array(rows(f"tokens:{name}?length={LENGTH}"))
                    self.assertEqual(len(found), len(row) // LENGTH)
                    self.assertTrue(numpy.array_equal(found.ravel(), row[:found.size]))

    def test_documents(self):
        for sentences in (1, 3):
            prefix, dataset = self.write(numpy.uint16, sentences)
            self.assertEqual(len(dataset), DOCUMENTS * sentences)
            wanted = numpy.concatenate([cut(d) for d in self.documents(dataset)])
            found = numpy.array(rows(f"tokens:{prefix}?length={LENGTH}&documents=split"))
            self.assertTrue(numpy.array_equal(found, wanted))

    def test_packed(self):
        """Every document of the dataset is in one pack, whole."""
        prefix, dataset = self.write(numpy.int32)
        spec = f"tokens:{prefix}?length=64&documents=pack"
        found = []
        for tokens, numbers in zip(rows(spec), rows(spec, "documents")):
            found += [tuple(tokens[numbers == n]) for n in range(1, int(numbers.max()) + 1)]
        self.assertEqual(sorted(found), sorted(tuple(d) for d in self.documents(dataset)))


if __name__ == "__main__":
    unittest.main()
