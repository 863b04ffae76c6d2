# SPDX-License-Identifier: Apache-2.0
"""stoker.Loader(output="torch"): values, types and memory of its tensors."""
import json
import tempfile
import unittest
from pathlib import Path

import numpy
import torch

import stoker


class Output(unittest.TestCase):
    def test_types_are_those_of_numpy(self):
        with tempfile.TemporaryDirectory() as folder:
            for dtype in ("bool", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16"):
                given = (numpy.arange(23 * 6) % 2 if dtype == "bool" else numpy.arange(23 * 6)).astype(dtype).reshape(23, 6)
                numpy.save(f"{folder}/x.npy", given)
                with stoker.Loader(f"npy:{folder}/x.npy", batch_size=5, output="torch", as_tuple=True) as loader:
                    got = torch.cat([batch[0].clone() for batch in loader])
                self.assertEqual(got.dtype, torch.from_numpy(given).dtype)
                torch.testing.assert_close(got, torch.from_numpy(given), rtol=0, atol=0)

    def test_bfloat16(self):
        given = torch.arange(-16, 16).to(torch.bfloat16).reshape(8, 4) / 3
        array = {"zarr_format": 3, "node_type": "array", "shape": [8, 4], "data_type": "bfloat16", "fill_value": 0,
                 "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8, 4]}},
                 "chunk_key_encoding": {"name": "default"},
                 "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "zarr.json").write_text(json.dumps(array))
            Path(folder, "c/0").mkdir(parents=True)
            Path(folder, "c/0/0").write_bytes(given.view(torch.int16).numpy().tobytes())
            with stoker.Loader(f"array:{folder}?window=1,4", batch_size=8, output="torch", as_tuple=True) as loader:
                (values, *_), = loader
        self.assertEqual(values.dtype, torch.bfloat16)
        self.assertTrue(torch.equal(values.reshape(8, 4), given))

    def test_a_tensor_outlives_its_loader(self):
        with stoker.Loader("digits:", batch_size=32, output="torch") as loader:
            kept = next(iter(loader))
            views = kept["image"][3:5, 4:9], kept["label"].clone()
            first = views[0].clone(), kept["label"][3:5].clone()
        del kept, loader
        self.assertTrue(torch.equal(views[0], first[0]))
        with stoker.Loader("digits:", batch_size=2, output="torch") as loader:
            batches = iter(loader)
            next(batches)
            self.assertTrue(torch.equal(next(batches)["label"], views[1][2:4]))


if __name__ == "__main__":
    unittest.main()
