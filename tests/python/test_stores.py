# SPDX-License-Identifier: Apache-2.0
"""What the environment says of object stores: the package finds the credentials that the command finds."""
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.parse
from pathlib import Path
from unittest import mock

import numpy

import stoker

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "cloud"))
import servers

CANARY = "C4nary"
MINE = ("AWS_", "GOOGLE_", "CLOUDSDK_", "GCE_", "STORAGE_")


class Tokens(http.server.BaseHTTPRequestHandler):
    """A token service for a user's login."""
    def do_POST(self):
        body = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.server.asked.append(body)
        good = body.get("refresh_token") == [CANARY + "/refresh"] and body.get("client_secret") == [CANARY]
        answer = {"access_token": "a-token", "expires_in": 3600} if good else {"error": "invalid_grant"}
        data = json.dumps(answer).encode()
        self.send_response(200 if good else 400)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments):
        pass


class TestEnvironment(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name)
        (self.path / "root" / "bucket").mkdir(parents=True)
        self.values = numpy.arange(12, dtype="i4").reshape(3, 4)
        numpy.save(self.path / "root" / "bucket" / "x.npy", self.values)
        (self.path / "home").mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(MINE)}
        patch = mock.patch.dict(os.environ, kept | {"HOME": str(self.path / "home"), "AWS_EC2_METADATA_DISABLED": "true"}, clear=True)
        patch.start()
        self.addCleanup(patch.stop)

    def server(self, *arguments):
        try:
            context = servers.cloud_server("--s3", "--root", self.path / "root", *arguments)
            server = context.__enter__()
        except servers.Missing as missing:
            self.skipTest(str(missing))
        self.addCleanup(context.__exit__, None, None, None)
        return server

    def assert_command_reads(self, url):
        command = Path(stoker.__file__).parent / "bin" / "stoker"
        done = subprocess.run([command, "info", url], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("3, 4", done.stdout)

    def test_amazon(self):
        server = self.server()
        os.environ["AWS_ENDPOINT_URL_S3"] = server.endpoint
        with self.assertRaisesRegex(stoker.Error, "no credentials for s3"):
            stoker.Array("s3://bucket/x.npy")
        os.environ["AWS_ACCESS_KEY_ID"] = "AKID"
        os.environ["AWS_SECRET_ACCESS_KEY"] = CANARY
        numpy.testing.assert_array_equal(stoker.Array("s3://bucket/x.npy")[:], self.values)
        self.assert_command_reads("s3://bucket/x.npy")
        # Those of a profile, as the AWS tools have them.
        del os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
        (self.path / "home" / ".aws").mkdir()
        (self.path / "home" / ".aws" / "credentials").write_text(
            f"[default]\naws_access_key_id = AKID\naws_secret_access_key = {CANARY}\n")
        numpy.testing.assert_array_equal(stoker.Array("s3://bucket/x.npy")[:], self.values)
        self.assert_command_reads("s3://bucket/x.npy")

    def test_google(self):
        server = self.server("--token", "a-token")
        tokens = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Tokens)
        tokens.asked = []
        thread = threading.Thread(target=tokens.serve_forever, daemon=True)
        thread.start()
        self.addCleanup(tokens.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(tokens.shutdown)
        user = {"type": "authorized_user", "client_id": "i", "client_secret": CANARY, "refresh_token": CANARY + "/refresh",
                "token_uri": f"http://127.0.0.1:{tokens.server_address[1]}/token"}
        url = "gs://bucket/x.npy"
        os.environ["STORAGE_EMULATOR_HOST"] = server.endpoint
        os.environ["NO_GCE_CHECK"] = "true"
        with self.assertRaisesRegex(stoker.Error, "set GOOGLE_APPLICATION_CREDENTIALS"):
            stoker.Array(url)
        (self.path / "user.json").write_text(json.dumps(user))
        os.environ["GOOGLE_APPLICATION_CREDENTIALS"] = str(self.path / "user.json")
        numpy.testing.assert_array_equal(stoker.Array(url)[:], self.values)
        self.assert_command_reads(url)
        self.assertEqual({request["grant_type"][0] for request in tokens.asked}, {"refresh_token"})
        # What gcloud has left.
        del os.environ["GOOGLE_APPLICATION_CREDENTIALS"]
        gcloud = self.path / "home" / ".config" / "gcloud"
        gcloud.mkdir(parents=True)
        (gcloud / "application_default_credentials.json").write_text(json.dumps(user | {"client_secret": "wrong" + CANARY}))
        with self.assertRaisesRegex(stoker.Error, "HTTP 400, invalid_grant") as raised:
            stoker.Array(url)
        self.assertNotIn(CANARY, str(raised.exception))
        (gcloud / "application_default_credentials.json").write_text(json.dumps(user))
        numpy.testing.assert_array_equal(stoker.Array(url)[:], self.values)
        self.assert_command_reads(url)


if __name__ == "__main__":
    unittest.main()
