# SPDX-License-Identifier: Apache-2.0
"""Tables that h5py and NumPy write, as batches: each row of all fields once, in the order that the seed gives, as its file has it."""
import itertools
import os
import shutil
import tempfile
import unittest

import h5py
import numpy
from support import run, values

import stoker

ROWS = 97
BOUNDS = [("earliest", "v108"), ("v110", "v110"), ("latest", "latest")]


class Tables(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.rng = numpy.random.default_rng(7)
        self.fields = {"images": self.rng.integers(0, 256, (ROWS, 9, 7, 3)).astype("u1"), "labels": self.rng.integers(0, 10, ROWS).astype("<i2"),
                       "features": values((ROWS, 11), ">f4", self.rng)}

    def path(self, name):
        return os.path.join(self.folder, name)

    def check(self, spec, **options):
        wanted = {"image": self.fields["images"], "label": self.fields["labels"].astype("i8"),
                  "features": self.fields["features"].astype("<f4")}
        seen = []
        loader = stoker.Loader(spec, batch_size=16, epochs=1, seed=3, memory_budget="32MiB", **options)
        for batch in loader:
            rows = numpy.array(batch["index"])
            seen += rows.tolist()
            for name, array in wanted.items():
                numpy.testing.assert_array_equal(numpy.asarray(batch[name]), array[rows], f"{spec} {name}")
        self.assertEqual(sorted(seen), list(range(ROWS)), spec)
        return seen

    def test_hdf5_in_chunks(self):
        orders = set()
        path = self.path("x.h5")
        for bounds, rows, shuffled in itertools.product(BOUNDS, (1, 8, 30, ROWS), (False, True)):
            with self.subTest(bounds=bounds, rows=rows, shuffled=shuffled):
                with h5py.File(path, "w", libver=bounds) as file:
                    for name, array in self.fields.items():
                        file.create_dataset(name, data=array, chunks=(rows, *array.shape[1:]), compression="gzip", shuffle=shuffled)
                self.check(f"hdf5:{path}", shuffle="block")
                orders.add(tuple(self.check(path, shuffle="true", num_workers=2)))
        self.assertEqual(len(orders), 1)

    def test_hdf5_of_one_piece_and_in_groups(self):
        path = self.path("x.h5")
        with h5py.File(path, "w") as file:
            group = file.create_group("deep/train")
            for name, array in self.fields.items():
                group[name] = array
        for spec in (f"hdf5:{path}?group=deep/train", f"hdf5:{path}/deep/train",
                     f"hdf5:{path}?fields=deep/train/features,deep/train/images,deep/train/labels"):
            self.check(spec, shuffle="true")

    def test_hdf5_with_chunks_that_cut_rows(self):
        path = self.path("x.h5")
        with h5py.File(path, "w") as file:
            file.create_dataset("images", data=self.fields["images"], chunks=(10, 4, 7, 2), compression="gzip")
            file.create_dataset("labels", data=self.fields["labels"], maxshape=(None,), chunks=(13,))
            file.create_dataset("features", data=self.fields["features"], maxshape=(None, None), chunks=(5, 6), fletcher32=True)
        self.check(f"hdf5:{path}", shuffle="true", cache="none")

    def test_npz(self):
        for save in (numpy.savez, numpy.savez_compressed):
            path = self.path("x.npz")
            save(path, **self.fields)
            self.check(path, shuffle="true")
            self.check(f"npz:{path}?fields=labels,features,images", shuffle="block")

    def test_what_cannot_be_rows(self):
        path = self.path("x.h5")
        with h5py.File(path, "w") as file:
            file["images"] = self.fields["images"]
            file["labels"] = self.fields["labels"]
            file["few"] = numpy.arange(5)
            file["records"] = numpy.zeros(ROWS, [("a", "i4"), ("b", "f4")])
            file.create_dataset("references", (ROWS,), h5py.ref_dtype)
            file.create_dataset("texts", (ROWS,), h5py.string_dtype())
        for name, word in (("records", "compound"), ("references", "reference"), ("texts", "variable length"), ("few", "has 5 rows")):
            self.assertIn(word, run("info", f"hdf5:{path}?fields=images,{name}", fails=True))
        self.assertIn("left out", run("info", f"hdf5:{path}"))


if __name__ == "__main__":
    unittest.main()
