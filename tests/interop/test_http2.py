# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 against nginx: one connection for many requests, and all that holds over HTTP/1.1 holds there."""
import json
import sys
import unittest
from pathlib import Path

import numpy

import stoker

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cloud"))
import servers  # noqa: E402

SIDE = 8  # chunks on each axis


class Http2(unittest.TestCase):
    def setUp(self):
        self.root, self.tls = (self.start(servers.folder()) for _ in range(2))
        self.root.chmod(0o755)
        try:
            servers.certificates(self.tls)
        except servers.Missing as missing:
            self.skipTest(str(missing))
        self.values = numpy.random.default_rng(1).integers(0, 1 << 30, (SIDE * 64, SIDE * 64), dtype="i4")
        self.zarr = self.root / "a.zarr"
        self.zarr.mkdir()
        about = {"zarr_format": 2, "shape": self.values.shape, "chunks": (64, 64), "dtype": "<i4", "order": "C", "compressor": None,
                 "fill_value": 0, "filters": None}
        (self.zarr / ".zarray").write_text(json.dumps(about))
        for y in range(SIDE):
            for x in range(SIDE):
                chunk = self.values[64 * y:64 * (y + 1), 64 * x:64 * (x + 1)]
                (self.zarr / f"{y}.{x}").write_bytes(chunk.tobytes())

    def start(self, manager):
        try:
            return self.enterContext(manager)
        except servers.Missing as missing:
            self.skipTest(str(missing))

    def read(self, server, **options):
        options = {"http2": "true", "ca_file": self.tls / "ca.pem"} | options
        url = f"{server.endpoint}/a.zarr?" + "&".join(f"{name}={value}" for name, value in options.items())
        return stoker.Array(url)[:]

    def chunks(self, server):
        """(protocols, connections, paths) of the answers that were chunks."""
        asked = [one for one in server.requests() if one[4][-3:-2].isdigit() and one[3] == "GET"]
        return {one[0] for one in asked}, {one[1] for one in asked}, [one[4] for one in asked]

    def test_one_connection(self):
        server = self.start(servers.nginx(self.root, tls=self.tls, http2=True))
        numpy.testing.assert_array_equal(self.read(server), self.values)
        protocols, connections, paths = self.chunks(server)
        self.assertEqual(protocols, {"HTTP/2.0"})
        self.assertEqual(len(connections), 1)
        self.assertEqual(len(set(paths)), SIDE * SIDE)
        self.assertLessEqual(len(paths), SIDE * SIDE + 12)  # second requests are few

    def test_not_asked_for(self):
        server = self.start(servers.nginx(self.root, tls=self.tls, http2=True))
        numpy.testing.assert_array_equal(self.read(server, http2="false"), self.values)
        self.assertEqual(self.chunks(server)[0], {"HTTP/1.1"})

    def test_not_offered(self):
        """The server knows HTTP/1.1 alone: many connections."""
        server = self.start(servers.nginx(self.root, tls=self.tls))
        numpy.testing.assert_array_equal(self.read(server), self.values)
        self.assertEqual(self.chunks(server)[0], {"HTTP/1.1"})

    def behind(self, **fault):
        """nginx before the tests' own server, whose faults come through."""
        origin = self.start(servers.cloud_server("--root", self.root, "--threads", "2"))
        self.number = origin.fault(**fault)
        self.origin = origin
        return self.start(servers.nginx(self.root, tls=self.tls, http2=True, upstream=origin.endpoint))

    def test_late(self):
        """What is never answered is asked for a second time, and the connection stays that of all."""
        server = self.behind(path="*/7.*", skip=2, count=2, cut="stall", at="before-head")
        numpy.testing.assert_array_equal(self.read(server, first_byte_timeout="60s", stall_timeout="60s"), self.values)
        self.assertEqual(self.origin.struck(self.number), 2)
        protocols, connections, _ = self.chunks(server)
        self.assertEqual((protocols, len(connections)), ({"HTTP/2.0"}, 1))

    def test_cut(self):
        """A stream that ends early goes on from where it was."""
        server = self.behind(path="*/3.*", count=5, cut="close", at="5000")
        numpy.testing.assert_array_equal(self.read(server), self.values)
        self.assertEqual(self.origin.struck(self.number), 5)
        self.assertEqual(len(self.chunks(server)[1]), 1)

    def test_storm(self):
        server = self.behind(path="*/[0-9].[0-9]", count=30, status="503")
        numpy.testing.assert_array_equal(self.read(server), self.values)
        self.assertEqual(self.origin.struck(self.number), 30)


if __name__ == "__main__":
    unittest.main()
