# SPDX-License-Identifier: Apache-2.0
"""Shards of MDS and chunks of litdata: what mosaicml-streaming and litdata write, the library reads as they do."""
import io
import json
import os
import shutil
import tempfile
import unittest

import numpy
import torch
from litdata import StreamingDataset
from litdata.streaming.item_loader import TokensLoader
from litdata.streaming.writer import BinaryWriter
from PIL import Image
from streaming import MDSWriter
from streaming.base.format.mds.reader import MDSReader
from support import run

import stoker

COUNT = 61


def jpeg(rng, i):
    stream = io.BytesIO()
    Image.fromarray(rng.integers(0, 255, (16 + i % 5, 20, 3), dtype=numpy.uint8)).save(stream, "JPEG")
    return stream.getvalue()


def samples(spec):
    """Each sample as a dictionary of its fields, in the order of the dataset, taken in another order."""
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


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.rng = numpy.random.default_rng(7)

    def path(self, name):
        return os.path.join(self.folder, name)

    def check(self, ours, wanted, renamed):
        self.assertEqual(len(ours), len(wanted))
        for i, (have, want) in enumerate(zip(ours, wanted)):
            for name, value in want.items():
                got = have[renamed.get(name, name)]
                with self.subTest(sample=i, field=name):
                    if isinstance(value, (bytes, str)):
                        self.assertEqual(got.tobytes(), value.encode() if isinstance(value, str) else value)
                    else:
                        value = numpy.asarray(value)
                        value = value.reshape(-1) if got.ndim == 1 else value  # ragged values have no shape
                        self.assertEqual(got.shape, value.shape)
                        self.assertEqual(got.tobytes(), value.astype(got.dtype).tobytes())
                        self.assertTrue(numpy.array_equal(got.astype(value.dtype), value))


class Mds(Folder):
    SCALARS = ("int", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "float16", "float32", "float64")

    def write(self, name, columns, rows, **options):
        with MDSWriter(columns=columns, out=self.path(name), **options) as writer:
            for row in rows:
                writer.write(row)
        return self.path(name)

    def read_by_them(self, folder):
        """Samples by the reader of mosaicml-streaming."""
        with open(os.path.join(folder, "index.json")) as file:
            shards = json.load(file)["shards"]
        for shard in shards:
            reader = MDSReader.from_json(folder, "", shard)
            for i in range(reader.samples):
                yield reader[i]

    def test_scalars(self):
        columns = {name: name for name in self.SCALARS}
        rows = [{name: numpy.dtype(name).type((i * 37 % 120)) for name in self.SCALARS if name != "int"} | {"int": -i << 40}
                for i in range(COUNT)]
        folder = self.write("scalars", columns, rows, size_limit=700)
        self.assertGreater(len(os.listdir(folder)), 3)
        self.check(samples(f"mds:{folder}"), list(self.read_by_them(folder)), {})
        self.check(samples(folder), rows, {})

    def test_what_varies(self):
        columns = {"photo": "jpeg", "cls": "uint16", "text": "str", "blob": "bytes", "meta": "json", "big": "str_int",
                   "real": "str_float", "row": "ndarray:float32", "box": "ndarray:int16:2,3", "any": "ndarray", "boxes": "ndarray"}
        rows = [{"photo": jpeg(self.rng, i), "cls": i % 10, "text": f"\u00e9 {i}", "blob": bytes(range(i)), "meta": {"a": [i, None]},
                 "big": (-1) ** i * i * 10**15, "real": i / 7, "row": self.rng.random(1 + i * 5 % 400).astype("f4"),
                 "box": numpy.full((2, 3), i, "i2"), "any": self.rng.random((3, 1, 2)), "boxes": numpy.full((1 + i % 4, 300), i, "u8")}
                for i in range(COUNT)]
        folder = self.write("varies", columns, rows, size_limit=20000, hashes=["sha1"])
        ours = samples(f"mds:{folder}")
        theirs = []
        for row, other in zip(rows, self.read_by_them(folder)):
            self.assertEqual(other["meta"], row["meta"])
            theirs.append(other | {"photo": row["photo"], "meta": json.dumps(row["meta"]), "real": str(other["real"])})
        self.check(ours, theirs, {"photo": "image", "cls": "label"})
        self.assertIn("sha1, not checked", run("info", folder))

    def test_hashes(self):
        rows = [{"a": i, "b": "x" * i} for i in range(COUNT)]
        for hashes in (["sha1"], ["md5"], ["sha256"], ["xxh32"], ["xxh64"], ["xxh128"], ["xxh3_64"], ["xxh3_128"], ["blake2b", "xxh64"]):
            with self.subTest(hashes=hashes):
                folder = self.write("-".join(hashes), {"a": "int", "b": "str"}, rows, size_limit=500, hashes=hashes)
                self.check(samples(f"mds:{folder}?hashes=check"), rows, {})
                self.assertIn("checked of each shard", run("info", f"mds:{folder}?hashes=check"))
                name = sorted(n for n in os.listdir(folder) if n.endswith(".mds"))[1]
                with open(os.path.join(folder, name), "r+b") as file:
                    file.seek(-1, 2)
                    last = file.read(1)
                    file.seek(-1, 2)
                    file.write(bytes([last[0] ^ 1]))
                says = run("info", f"mds:{folder}?hashes=check", fails=True)
                self.assertIn(f"{name}: its {'xxh3_128' if hashes == ['xxh128'] else hashes[-1]} is", says)
        folder = self.write("other", {"a": "int", "b": "str"}, rows, hashes=["blake2b"])
        self.assertIn("blake2b", run("info", folder))
        self.assertIn("to check, but for blake2b", run("info", f"mds:{folder}?hashes=check", fails=True))

    def test_raw_pictures(self):
        for mode, channels in (("L", 1), ("RGB", 3), ("RGBA", 4)):
            pictures = self.rng.integers(0, 255, (COUNT, 5, 6, channels), dtype="u1")
            rows = [{"pic": Image.fromarray(p if channels > 1 else p[..., 0], mode), "label": i} for i, p in enumerate(pictures)]
            folder = self.write(mode, {"pic": "pil", "label": "int"}, rows)
            self.check(samples(folder), [{"image": p, "label": i} for i, p in enumerate(pictures)], {})
        rows = [{"pic": Image.fromarray(self.rng.integers(0, 255, (5 + i, 6, 3), dtype="u1")), "label": i} for i in range(4)]
        folder = self.write("sizes", {"pic": "pil", "label": "int"}, rows)
        self.assertIn("of several sizes", run("info", folder, fails=True))
        self.assertEqual([int(s["label"]) for s in samples(f"mds:{folder}?fields=label")], [0, 1, 2, 3])

    def test_refused(self):
        folder = self.write("pickle", {"a": "int", "b": "pkl"}, [{"a": 1, "b": {1}}])
        self.assertIn("fields=a", run("info", folder, fails=True))
        self.check(samples(f"{folder}?fields=a"), [{"a": 1}], {})
        folder = self.write("packed", {"a": "int", "b": "str"}, [{"a": i, "b": "x" * i} for i in range(COUNT)], compression="gz:6")
        self.assertIn("unpack each", run("info", folder, fails=True))
        import gzip
        for name in os.listdir(folder):
            if name.endswith(".gz"):
                with gzip.open(os.path.join(folder, name)) as packed, open(os.path.join(folder, name[:-3]), "wb") as plain:
                    plain.write(packed.read())
        self.check(samples(folder), [{"a": i, "b": "x" * i} for i in range(COUNT)], {})


class Litdata(Folder):
    def write(self, name, rows, **options):
        folder = self.path(name)
        os.makedirs(folder)
        writer = BinaryWriter(folder, **options)
        for i, row in enumerate(rows):
            writer[i] = row
        writer.done()
        writer.merge()
        return folder

    def test_leaves(self):
        rows = [{"pic": Image.open(io.BytesIO(jpeg(self.rng, i))), "label": i % 10, "text": f"\u00e9 {i}", "f": i / 7, "b": i % 2 == 0,
                 "blob": bytes(range(i)), "t2": torch.full((2, 3), i, dtype=torch.int16),
                 "t1": torch.arange(1 + i % 7, dtype=torch.int32), "n2": numpy.full((1 + i % 3, 2), i, "f4"),
                 "n1": numpy.arange(4, dtype="u2") + i, "raw": Image.fromarray(numpy.full((5, 6, 3), i, "u1")), "sub": {"x": i, "y": 2.5}}
                for i in range(COUNT)]
        folder = self.write("leaves", rows, chunk_bytes=9000)
        self.assertGreater(len(os.listdir(folder)), 3)
        theirs = []
        for other in StreamingDataset(folder):
            sub = other.pop("sub")
            other.pop("pic")
            other["raw"] = numpy.asarray(other["raw"])
            theirs.append(other | {"sub.x": sub["x"], "sub.y": sub["y"]})
        ours = samples(f"litdata:{folder}?fields=pic,label,text,f,b,blob,t2,t1,n2,n1,raw,sub.x,sub.y")
        # A JPEG of no file is encoded again by litdata: its bytes are not those that were given.
        for one in ours:
            self.assertEqual(one["pic"][:2].tobytes(), b"\xff\xd8")
        self.check(ours, theirs, {})

    def test_places(self):
        rows = [(torch.arange(i, i + 5), i) for i in range(COUNT)]
        folder = self.write("places", rows, chunk_size=9)
        self.check(samples(folder), [{"0": a.numpy(), "label": i} for a, i in rows], {})
        folder = self.write("single", [torch.arange(i + 1) for i in range(COUNT)], chunk_size=9)
        self.check(samples(folder), [{"value": numpy.arange(i + 1)} for i in range(COUNT)], {})

    def test_tokens(self):
        for make, name in ((lambda x: torch.tensor(x), "torch"), (lambda x: numpy.array(x, "u2"), "numpy")):
            rows = [list(range(100 * i, 100 * i + 37 + i % 9)) for i in range(COUNT)]
            folder = self.write(name, [make(row) for row in rows], chunk_size=300, item_loader=TokensLoader())
            self.check(samples(folder), [{"tokens": numpy.array(row)} for row in rows], {})
            theirs = [numpy.asarray(x) for x in StreamingDataset(folder, item_loader=TokensLoader(block_size=16))]
            self.assertGreater(len(theirs), 50)
            self.check(samples(f"litdata:{folder}?block_size=16"), [{"tokens": x} for x in theirs], {})

    def test_refused(self):
        folder = self.write("pickle", [{"a": i, "b": {1}} for i in range(3)], chunk_size=2)
        self.assertIn("fields=a", run("info", folder, fails=True))
        self.check(samples(f"{folder}?fields=a"), [{"a": i} for i in range(3)], {})
        folder = self.write("texts", [{"a": "x" * i} for i in range(3)], chunk_size=2)
        self.assertIn("Arrow", run("info", folder, fails=True))


if __name__ == "__main__":
    unittest.main()
