# SPDX-License-Identifier: Apache-2.0
"""TFRecord shards of the package tfrecord, which uses the published messages: what it writes is read, and what is written it reads."""
import os
import shutil
import tempfile
import unittest

import numpy
from support import run
from tfrecord import TFRecordWriter, tfrecord_loader
from tfrecord.tools.tfrecord2idx import create_index

import stoker

RECORDS, SHARDS = 40, 3


class Shards(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.rng = numpy.random.default_rng(7)

    def path(self, name):
        return os.path.join(self.folder, name)

    def record(self):
        rng = self.rng
        return {
            "picture": bytes(rng.integers(0, 256, int(rng.integers(1, 300)), dtype="u1")),
            "label": int(rng.integers(-2**63, 2**63 - 1)),
            "embedding": [float(v) for v in rng.standard_normal(16).astype("f4")],
            "tokens": [int(v) for v in rng.integers(-2**40, 2**40, int(rng.integers(1, 50)))],
        }

    def write(self, folder):
        """Records in shards, in order."""
        os.makedirs(self.path(folder))
        records = []
        for shard in range(SHARDS):
            writer = TFRecordWriter(self.path(f"{folder}/part-{shard:05d}-of-{SHARDS:05d}"))
            for _ in range(RECORDS):
                records.append(self.record())
                r = records[-1]
                writer.write({"picture": (r["picture"], "byte"), "label": (r["label"], "int"), "embedding": (r["embedding"], "float"),
                              "tokens": (r["tokens"], "int")})
            writer.close()
        return records

    def samples(self, spec):
        found = []
        for batch in stoker.Loader(spec, batch_size=16, shuffle=False):
            for i in range(len(batch["index"])):
                def cut(name):
                    values, offsets = batch[name]
                    return values[offsets[i]:offsets[i + 1]]

                found.append({"picture": cut("picture").tobytes(), "label": int(batch["label"][i]),
                              "embedding": batch["embedding"][i].tolist(), "tokens": cut("tokens").tolist()})
        return found

    def test_read(self):
        records = self.write("in")
        for schema in ("", "&schema=label:int64,tokens:int64[],picture:bytes,embedding:float[16]"):
            found = self.samples(f"tfrecord:{self.path('in')}?index=none{schema}")
            self.assertEqual(found, records)

    def test_listed(self):
        records = self.write("in")
        for name in os.listdir(self.path("in")):
            create_index(self.path(f"in/{name}"), self.path(f"in/{name}.idx"))
        self.assertEqual(self.samples(f"tfrecord:{self.path('in')}?index=none"), records)

    def test_written(self):
        records = self.write("in")
        run("convert", f"tfrecord:{self.path('in')}", f"tfrecord:{self.path('out')}?shard_size=9KiB")
        names = sorted(n for n in os.listdir(self.path("out")) if n.endswith(".tfrecord"))
        self.assertGreater(len(names), SHARDS)
        found = []
        for name in names:
            found += list(tfrecord_loader(self.path(f"out/{name}"), None, {
                "picture": "byte", "label": "int", "embedding": "float", "tokens": "int"}))
        self.assertEqual(len(found), len(records))
        for got, wanted in zip(found, records):
            self.assertEqual(bytes(got["picture"]), wanted["picture"])
            self.assertEqual(got["label"].tolist(), [wanted["label"]])
            self.assertEqual(got["embedding"].tolist(), wanted["embedding"])
            self.assertEqual(got["tokens"].tolist(), wanted["tokens"])

    def test_sequences(self):
        path, wanted = self.path("s.tfrecord"), []
        writer = TFRecordWriter(path)
        for _ in range(RECORDS):
            steps = self.rng.integers(0, 2**30, (int(self.rng.integers(1, 9)), 3))
            wanted.append((len(steps), steps.ravel().tolist()))
            writer.write({"length": (len(steps), "int")}, {"steps": ([s.tolist() for s in steps], "int")})
        writer.close()
        found = []
        for batch in stoker.Loader(f"tfrecord:{path}?index=none", batch_size=7, shuffle=False):
            values, offsets = batch["steps"]
            found += [(int(n), values[offsets[i]:offsets[i + 1]].tolist()) for i, n in enumerate(batch["length"])]
        self.assertEqual(found, wanted)


if __name__ == "__main__":
    unittest.main()
