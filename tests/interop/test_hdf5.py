# SPDX-License-Identifier: Apache-2.0
"""HDF5 files of h5py, all bounds of versions, and of h5repack: what the library reads of them, h5py wrote."""
import itertools
import os
import shutil
import subprocess
import tempfile
import unittest

import h5py
import hdf5plugin
import numpy
from support import assert_reads, run, values

import stoker

BOUNDS = [("earliest", "v108"), ("earliest", "v110"), ("v108", "v108"), ("v110", "v110"), ("v112", "v112"),
          ("v114", "v114"), ("v200", "v200"), ("earliest", "latest"), ("latest", "latest")]
TYPES = ["i1", "u1", "<i2", ">i2", "u2", "<i4", ">i4", "u4", "i8", ">u8", "f2", "<f4", ">f4", "<f8", ">f8", "?"]
# Shape, chunks, unlimited dimensions: every index of chunks that the library knows.
GRIDS = {
    "contiguous": ((7, 9), None, None),
    "scalar": ((), None, None),
    "single": ((6, 5), (6, 5), (6, 5)),
    "fixed": ((23, 17), (5, 4), (23, 17)),
    "fixed, many": ((3000,), (1,), (3000,)),
    "extensible": ((41, 13), (3, 5), (None, 13)),
    "extensible, last": ((13, 41), (5, 3), (13, None)),
    "extensible, many": ((3000,), (1,), (None,)),
    "two unlimited": ((19, 21, 3), (4, 5, 2), (None, None, 3)),
    "all unlimited": ((9, 8, 7, 6), (4, 3, 7, 1), (None,) * 4),
}
FILTERS = {
    "none": {},
    "gzip": {"compression": "gzip", "compression_opts": 4},
    "gzip + shuffle": {"compression": "gzip", "shuffle": True},
    "all of its own": {"compression": "gzip", "shuffle": True, "fletcher32": True},
    "fletcher32": {"fletcher32": True},
    "zstd": {**hdf5plugin.Zstd()},
    "blosc": {**hdf5plugin.Blosc(cname="lz4", shuffle=hdf5plugin.Blosc.BITSHUFFLE)},
    "blosc zstd": {**hdf5plugin.Blosc(cname="zstd", shuffle=hdf5plugin.Blosc.SHUFFLE)},
    "lz4": {**hdf5plugin.LZ4()},
    "bzip2": {**hdf5plugin.BZip2()},
    "bitshuffle": {**hdf5plugin.Bitshuffle(cname="none")},
    "bitshuffle lz4": {**hdf5plugin.Bitshuffle(cname="lz4")},
    "bitshuffle zstd": {**hdf5plugin.Bitshuffle(cname="zstd")},
}


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.rng = numpy.random.default_rng(5)

    def path(self, name):
        return os.path.join(self.folder, name)

    def check(self, path, name, **options):
        with h5py.File(path) as file:
            wanted = file[name][()]
        wanted = numpy.asarray(wanted)
        assert_reads(self, f"{path}/{name}", wanted.view("i1") if wanted.dtype == bool else wanted, self.rng, **options)

    def test_every_index_of_chunks(self):
        for bounds, (grid, (shape, chunks, most)) in itertools.product(BOUNDS, GRIDS.items()):
            for filters in ("none", "gzip + shuffle"):
                if chunks is None and filters != "none":
                    continue
                with self.subTest(bounds=bounds, grid=grid, filters=filters):
                    path = self.path("x.h5")
                    with h5py.File(path, "w", libver=bounds) as file:
                        extra = {} if chunks is None else {"chunks": chunks, "maxshape": most, **FILTERS[filters]}
                        file.create_dataset("a/b/x", data=values(shape, "<f4", self.rng), **extra)
                    self.check(path, "a/b/x")

    def test_types(self):
        for bounds, dtype, chunks in itertools.product((BOUNDS[0], BOUNDS[-1]), TYPES, (None, (4, 3))):
            with self.subTest(bounds=bounds, dtype=dtype, chunks=chunks):
                path = self.path("x.h5")
                with h5py.File(path, "w", libver=bounds) as file:
                    file.create_dataset("x", data=values((11, 7), dtype, self.rng), chunks=chunks)
                self.check(path, "x")

    def test_filters(self):
        for bounds, (name, filters), dtype in itertools.product((BOUNDS[0], BOUNDS[-1]), FILTERS.items(),
                                                                ("u1", "<i2", ">i4", "<f4", "<f8")):
            with self.subTest(bounds=bounds, filters=name, dtype=dtype):
                path = self.path("x.h5")
                with h5py.File(path, "w", libver=bounds) as file:
                    file.create_dataset("x", data=values((37, 29), dtype, self.rng), chunks=(16, 10), **filters)
                self.check(path, "x")

    def test_scale_offset(self):
        for dtype, option in itertools.product(("u1", "<i2", ">i4", "u8", "<i8"), (True, 5)):
            with self.subTest(dtype=dtype, option=option):
                path = self.path("x.h5")
                with h5py.File(path, "w") as file:
                    data = values((31, 9), dtype, self.rng) % (2 ** 5 if option == 5 else 97)
                    file.create_dataset("x", data=data, chunks=(8, 9), scaleoffset=option)
                self.check(path, "x")
        for dtype in ("<f4", ">f8"):
            path = self.path("x.h5")
            with h5py.File(path, "w") as file:
                file.create_dataset("x", data=values((31, 9), dtype, self.rng), chunks=(8, 9), scaleoffset=2)
            self.check(path, "x")

    def test_filters_left_out_of_a_chunk(self):
        path = self.path("x.h5")
        data = values((8, 6), "<i4", self.rng)
        with h5py.File(path, "w") as file:
            made = file.create_dataset("x", (8, 6), "<i4", chunks=(4, 6), compression="gzip", shuffle=True)
            made.id.write_direct_chunk((0, 0), data[:4].tobytes(), filter_mask=3)
            made[4:] = data[4:]
        self.check(path, "x")
        assert_reads(self, f"{path}/x", data, self.rng)

    def test_compact(self):
        path = self.path("x.h5")
        for bounds in (BOUNDS[0], BOUNDS[-1]):
            with h5py.File(path, "w", libver=bounds) as file:
                plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                plist.set_layout(h5py.h5d.COMPACT)
                dataset = h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F64BE, h5py.h5s.create_simple((5, 3)), dcpl=plist)
                dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, values((5, 3), "f8", self.rng))
            self.check(path, "x")

    def test_what_was_never_written(self):
        path = self.path("x.h5")
        for bounds, fill in itertools.product((BOUNDS[0], BOUNDS[-1]), (None, -7)):
            with h5py.File(path, "w", libver=bounds) as file:
                made = file.create_dataset("x", (20, 20), "<i4", chunks=(6, 6), maxshape=(None, 20), fillvalue=fill)
                made[3:5, 10:19] = 5
                file.create_dataset("none", (4, 4), "<f4", chunks=(2, 2))
                file.create_dataset("contiguous", (4, 4), "<f4", fillvalue=fill)
            for name in ("x", "none", "contiguous"):
                self.check(path, name)

    def test_early_allocation(self):
        path = self.path("x.h5")
        with h5py.File(path, "w", libver="latest") as file:
            plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plist.set_chunk((4, 3))
            plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
            dataset = h5py.h5d.create(file.id, b"x", h5py.h5t.STD_I32LE, h5py.h5s.create_simple((10, 10)), dcpl=plist)
            dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, values((10, 10), "i4", self.rng))
        self.check(path, "x")

    def test_many_attributes_and_many_names(self):
        for bounds in BOUNDS:
            path = self.path("x.h5")
            with h5py.File(path, "w", libver=bounds, track_order=True) as file:
                group = file.create_group("g", track_order=True)
                for i in range(300):
                    group[f"a dataset with quite a long name, number {i:04}"] = numpy.arange(i % 7 + 1)
                for i in range(40):
                    group.attrs[f"attribute {i}"] = i * 0.5
                group[f"a dataset with quite a long name, number {299:04}"].attrs["units"] = "K"
            self.check(path, f"g/a dataset with quite a long name, number {298:04}")
            self.assertIn("units", run("info", f"{path}/g/a dataset with quite a long name, number 0299"))

    def test_user_block_and_links(self):
        path = self.path("x.h5")
        with h5py.File(path, "w", userblock_size=1024) as file:
            file["deep/x"] = values((9, 4), "f4", self.rng)
            file["soft"] = h5py.SoftLink("/deep/x")
            file["hard"] = file["deep/x"]
        for name in ("deep/x", "soft", "hard"):
            self.check(path, name)

    def test_what_reads_other_files_is_refused(self):
        path, other = self.path("x.h5"), self.path("other.h5")
        with h5py.File(other, "w") as file:
            file["x"] = numpy.arange(10)
        with open(self.path("raw"), "wb") as file:
            file.write(bytes(80))
        with h5py.File(path, "w") as file:
            file["link"] = h5py.ExternalLink("other.h5", "x")
            file.create_dataset("outside", (10,), "f8", external=[(self.path("raw"), 0, 80)])
            layout = h5py.VirtualLayout((10,), "i8")
            layout[:] = h5py.VirtualSource(other, "x", (10,))
            file.create_virtual_dataset("virtual", layout)
        for name, word in (("link", "external"), ("outside", "other files"), ("virtual", "virtual")):
            self.assertIn(word, run("cat", f"{path}/{name}", fails=True).lower())

    def test_what_is_no_sample_is_refused_by_name(self):
        path = self.path("x.h5")
        with h5py.File(path, "w") as file:
            file["records"] = numpy.zeros(3, [("a", "i4"), ("b", "f4")])
            file.create_dataset("references", (2,), h5py.ref_dtype)
        for name, word in (("records", "compound"), ("references", "reference")):
            self.assertIn(word, run("cat", f"{path}/{name}", fails=True).lower())

    @unittest.skipUnless(shutil.which("h5repack"), "h5repack (hdf5-tools) is not installed")
    def test_h5repack(self):
        path, packed = self.path("x.h5"), self.path("packed.h5")
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=values((40, 30), "<f4", self.rng), chunks=(16, 16))
        for options in (["-f", "GZIP=5"], ["-f", "SHUF", "-f", "GZIP=1", "-f", "FLET"], ["-f", "SZIP=8,NN"],
                        ["-f", "SZIP=16,EC"], ["-l", "CHUNK=7x11"], ["-l", "CONTI"], ["-L"], ["-f", "SOFF=2,DS"]):
            with self.subTest(options=options):
                subprocess.run(["h5repack", *options, path, packed], check=True, timeout=60)
                self.check(packed, "x")


if __name__ == "__main__":
    unittest.main()
