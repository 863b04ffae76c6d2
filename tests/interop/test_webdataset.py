# SPDX-License-Identifier: Apache-2.0
"""Shards of WebDataset: what the package webdataset writes is read as it reads it, and it reads what is written here."""
import io
import json
import os
import shutil
import tempfile
import unittest

import numpy
import webdataset
from PIL import Image
from support import run

import stoker

COUNT, A_SHARD = 61, 17
LONG = "folder-of-a-long-name/" * 9  # beyond what ustar holds


def jpeg(rng, i):
    stream = io.BytesIO()
    Image.fromarray(rng.integers(0, 255, (16 + i % 5, 20, 3), dtype=numpy.uint8)).save(stream, "JPEG")
    return stream.getvalue()


def theirs(paths):
    """Samples as the package webdataset has them: the bytes of each member by its extension."""
    return list(webdataset.WebDataset(paths, shardshuffle=False, empty_check=False))


def ours(spec):
    """Samples as dictionaries of their fields, in the order of the dataset, taken in another order."""
    found = {}
    for batch in stoker.Loader(spec, batch_size=7, shuffle=True, num_workers=2):
        for row, index in enumerate(batch.pop("index")):
            found[int(index)] = one = {}
            for name, value in batch.items():
                if isinstance(value, stoker.Ragged):
                    one[name] = value.values[int(value.offsets[row]):int(value.offsets[row + 1])].copy()
                else:
                    one[name] = value[row].copy()
    return [found[i] for i in range(len(found))]


class Shards(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.rng = numpy.random.default_rng(7)

    def path(self, name):
        return os.path.join(self.folder, name)

    def shards(self, folder):
        return [self.path(f"{folder}/{n}") for n in sorted(os.listdir(self.path(folder))) if n.endswith(".tar")]

    def sample(self, i):
        rng = self.rng
        return {"__key__": f"{LONG if i % 9 == 0 else 'train/'}{i:06d}", "jpg": jpeg(rng, i), "cls": i % 10, "txt": f"\u00e9 {i}",
                "json": {"a": [i, None]}, "bin": bytes(range(i)), "emb.npy": rng.standard_normal(16).astype("f4"),
                "tok.npy": rng.integers(0, 2**30, 1 + i * 7 % 40)}

    def write(self, folder):
        os.makedirs(self.path(folder))
        samples = [self.sample(i) for i in range(COUNT)]
        with webdataset.ShardWriter(self.path(f"{folder}/train-%04d.tar"), maxcount=A_SHARD, verbose=0) as writer:
            for sample in samples:
                writer.write(sample)
        self.assertEqual(len(self.shards(folder)), -(-COUNT // A_SHARD))
        return samples

    def check(self, found, members):
        """Fields against members."""
        self.assertEqual(len(found), len(members))
        for i, (have, want) in enumerate(zip(found, members)):
            with self.subTest(sample=i):
                for field, member in (("image", "jpg"), ("txt", "txt"), ("json", "json"), ("bin", "bin")):
                    self.assertEqual(have[field].tobytes(), want[member])
                self.assertEqual(int(have["label"]), int(want["cls"]))
                for name in ("emb", "tok"):
                    array = numpy.load(io.BytesIO(want[f"{name}.npy"]))
                    self.assertEqual(have[name].dtype, array.dtype)
                    self.assertTrue(numpy.array_equal(have[name], array))

    def test_read(self):
        samples = self.write("in")
        members = theirs(self.shards("in"))
        self.assertEqual([m["__key__"] for m in members], [s["__key__"] for s in samples])
        self.assertEqual(json.loads(members[5]["json"]), samples[5]["json"])
        self.check(ours(f"webdataset:{self.path('in')}?index=none"), members)
        braces = self.path(f"in/train-{{0000..{len(self.shards('in')) - 1:04d}}}.tar")
        self.check(ours(f"webdataset:{braces}"), members)

    def test_written(self):
        self.write("in")
        run("convert", f"webdataset:{self.path('in')}?index=none", f"webdataset:{self.path('out')}", "--shard-size", "40KiB")
        self.assertGreater(len(self.shards("out")), 3)
        before, after = theirs(self.shards("in")), theirs(self.shards("out"))
        self.assertEqual(len(after), COUNT)
        self.assertEqual(len({m["__key__"] for m in after}), COUNT)
        for want, have in zip(before, after):
            with self.subTest(sample=want["__key__"]):
                self.assertEqual({n for n in have if n[0] != "_"}, {n for n in want if n[0] != "_"})
                for name in ("jpg", "cls", "txt", "json", "bin"):
                    self.assertEqual(have[name], want[name])
                for name in ("emb.npy", "tok.npy"):
                    self.assertTrue(numpy.array_equal(numpy.load(io.BytesIO(have[name])), numpy.load(io.BytesIO(want[name]))))
        self.check(ours(f"webdataset:{self.path('out')}"), after)

    def test_pixels_written(self):
        run("convert", "digits:?size=50", f"webdataset:{self.path('digits')}")
        wanted = ours("digits:?size=50")
        found = theirs(self.shards("digits"))
        self.assertEqual(len(found), len(wanted))
        for have, want in zip(found, wanted):
            self.assertEqual(int(have["cls"]), int(want["label"]))
            self.assertTrue(numpy.array_equal(numpy.load(io.BytesIO(have["image.npy"])), want["image"]))

    def test_npz(self):
        os.makedirs(self.path("npz"))
        rows = [{"a": self.rng.random((2, 3)), "b": numpy.arange(4, dtype="i2") + i} for i in range(COUNT)]
        with webdataset.TarWriter(self.path("npz/0.tar")) as writer:
            for i, row in enumerate(rows):
                writer.write({"__key__": f"{i:04d}", "npz": row})
        for have, want, member in zip(ours(f"webdataset:{self.path('npz')}"), rows, theirs(self.shards("npz"))):
            archive = numpy.load(io.BytesIO(member["npz"]))
            for name in want:
                self.assertTrue(numpy.array_equal(archive[name], want[name]))
                self.assertTrue(numpy.array_equal(have[f"npz.{name}"], want[name]))


if __name__ == "__main__":
    unittest.main()
