# SPDX-License-Identifier: Apache-2.0
"""The servers of tests/cloud, by clients that are not ours: each serves what tests of the cloud stores ask of it."""
import os
import shutil
import socket
import ssl
import subprocess
import sys
import unittest
from pathlib import Path

import boto3
import botocore
from boto3.s3.transfer import TransferConfig

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cloud"))
import servers  # noqa: E402

PART = 5 << 20


def client(server, **changes):
    settings = {"aws_access_key_id": server.key, "aws_secret_access_key": server.secret, "region_name": server.region, **changes}
    config = botocore.config.Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}, proxies={})
    return boto3.client("s3", endpoint_url=server.endpoint, config=config, **settings)


class Servers(unittest.TestCase):
    def start(self, manager):
        try:
            return self.enterContext(manager)
        except servers.Missing as missing:
            self.skipTest(str(missing))

    def folder(self):
        return self.start(servers.folder())

    def refused(self, code, call, **arguments):
        with self.assertRaises(botocore.exceptions.ClientError) as caught:
            call(**arguments)
        self.assertEqual(caught.exception.response["Error"]["Code"], code)

    def check_s3(self, server, etag_of_parts=True):
        """What S3 has to do for us: keys of all sorts, ranges, lists by folder and page, uploads in parts with checksums."""
        s3 = client(server)
        s3.create_bucket(Bucket="bucket")
        keys = ["a/1", "a/b/1", "a/b/2", "a/c", "e f&<>+=:", "z\u00e4"]
        for key in keys:
            s3.put_object(Bucket="bucket", Key=key, Body=key.encode())
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket="bucket", PaginationConfig={"PageSize": 2})
        self.assertEqual([x["Key"] for page in pages for x in page["Contents"]], keys)
        listed = s3.list_objects_v2(Bucket="bucket", Prefix="a/", Delimiter="/")
        self.assertEqual([x["Key"] for x in listed["Contents"]], ["a/1", "a/c"])
        self.assertEqual([x["Prefix"] for x in listed["CommonPrefixes"]], ["a/b/"])
        for key in keys:
            self.assertEqual(s3.get_object(Bucket="bucket", Key=key)["Body"].read(), key.encode())
        for wanted, part in (("bytes=0-0", b"e"), ("bytes=2-", b"f&<>+=:"), ("bytes=-2", b"=:")):
            got = s3.get_object(Bucket="bucket", Key=keys[4], Range=wanted)
            self.assertEqual((got["ResponseMetadata"]["HTTPStatusCode"], got["Body"].read()), (206, part))
        self.refused("NoSuchKey", s3.get_object, Bucket="bucket", Key="none")
        etag = s3.head_object(Bucket="bucket", Key="a/1")["ETag"]
        self.assertEqual(s3.get_object(Bucket="bucket", Key="a/1", IfMatch=etag)["Body"].read(), b"a/1")
        self.refused("PreconditionFailed", s3.get_object, Bucket="bucket", Key="a/1", IfMatch='"0"')
        big = self.folder() / "big"
        big.write_bytes(os.urandom(2 * PART + 123))
        config = TransferConfig(multipart_threshold=PART, multipart_chunksize=PART)
        for algorithm in ("CRC32", "SHA256"):
            s3.upload_file(str(big), "bucket", "big", ExtraArgs={"ChecksumAlgorithm": algorithm}, Config=config)
            self.assertEqual(s3.get_object(Bucket="bucket", Key="big")["Body"].read(), big.read_bytes())
            self.assertEqual(s3.head_object(Bucket="bucket", Key="big")["ETag"].endswith('-3"'), etag_of_parts)
        begun = s3.create_multipart_upload(Bucket="bucket", Key="orphan")
        self.assertEqual([x["Key"] for x in s3.list_multipart_uploads(Bucket="bucket")["Uploads"]], ["orphan"])
        s3.abort_multipart_upload(Bucket="bucket", Key="orphan", UploadId=begun["UploadId"])
        self.assertNotIn("Uploads", s3.list_multipart_uploads(Bucket="bucket"))
        s3.delete_object(Bucket="bucket", Key="big")
        self.refused("404", s3.head_object, Bucket="bucket", Key="big")

    def test_swift_does_as_s3_and_checks_signatures(self):
        server = self.start(servers.swift())
        self.check_s3(server)
        self.refused("SignatureDoesNotMatch", client(server, aws_secret_access_key="wrong").list_objects_v2, Bucket="bucket")
        self.refused("SignatureDoesNotMatch", client(server, aws_access_key_id="nobody").list_objects_v2, Bucket="bucket")
        link = client(server).generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": "a/1"})
        self.assertEqual(servers.ask(link)[::2], (200, b"a/1"))

    def test_moto_does_as_s3(self):
        self.check_s3(self.start(servers.moto()))

    def test_our_own_does_as_s3(self):
        for arguments in ((), ("--root", self.folder())):
            server = self.start(servers.cloud_server("--s3", *arguments))
            server.key, server.secret, server.region = "any", "any", "us-east-1"
            self.check_s3(server, etag_of_parts=not arguments)

    def test_our_own_does_wrong_when_told(self):
        server = self.start(servers.cloud_server("--s3"))
        server.key, server.secret, server.region = "any", "any", "us-east-1"
        s3 = client(server)
        s3.put_object(Bucket="bucket", Key="x", Body=b"0123456789")
        number = server.fault(method="GET", path="/bucket/*", code="ExpiredToken", count=1)
        self.refused("ExpiredToken", s3.get_object, Bucket="bucket", Key="x")
        self.assertEqual(s3.get_object(Bucket="bucket", Key="x")["Body"].read(), b"0123456789")
        self.assertEqual(server.struck(number), 1)
        server.fault(cut="close", at=4)
        with self.assertRaises(Exception):
            s3.get_object(Bucket="bucket", Key="x")["Body"].read()
        self.assertEqual(server.counters()["failed"], 1)
        with self.assertRaises(ValueError):
            server.fault(colour="red")

    def test_nginx_serves_files(self):
        root = self.folder()
        root.chmod(0o755)
        (root / "x").write_bytes(b"0123456789")
        server = self.start(servers.nginx(root))
        status, headers, body = servers.ask(server.endpoint + "/x", headers={"Range": "bytes=-3"})
        self.assertEqual((status, headers["Content-Range"], body), (206, "bytes 7-9/10", b"789"))
        self.assertEqual(servers.ask(server.endpoint + "/a/y", "PUT", b"hello")[0], 201)
        self.assertEqual((root / "a/y").read_bytes(), b"hello")
        self.assertEqual(servers.ask(server.endpoint + "/a/y", "DELETE")[0], 204)

    def agreed(self, server, ca):
        """The protocol that both sides settle on, or what is wrong with the certificate."""
        context = ssl.create_default_context(cafile=str(ca))
        context.set_alpn_protocols(["h2", "http/1.1"])
        port = int(server.endpoint.rsplit(":", 1)[1])
        try:
            with socket.create_connection(("127.0.0.1", port)) as plain, context.wrap_socket(plain, server_hostname="127.0.0.1") as tls:
                return tls.selected_alpn_protocol()
        except ssl.SSLCertVerificationError as error:
            return error.verify_message

    def test_nginx_speaks_tls_and_http_2(self):
        root = self.folder()
        root.chmod(0o755)
        (root / "x").write_bytes(b"0123456789")
        tls = self.folder()
        try:
            servers.certificates(tls)
        except servers.Missing as missing:
            self.skipTest(str(missing))
        cases = [({}, "http/1.1"), ({"http2": True}, "h2"), ({"certificate": "expired"}, "certificate has expired"),
                 ({"certificate": "other"}, "IP address mismatch, certificate is not valid for '127.0.0.1'."),
                 ({"certificate": "self"}, "self-signed certificate")]
        for options, wanted in cases:
            with self.subTest(**options):
                server = self.start(servers.nginx(root, tls=tls, **options))
                self.assertEqual(self.agreed(server, tls / "ca.pem"), wanted)
                if options.get("http2") and shutil.which("curl"):
                    got = subprocess.run(["curl", "-s", "--noproxy", "*", "-w", " %{http_version}", "--cacert", tls / "ca.pem",
                                          server.endpoint + "/x"], capture_output=True, text=True, timeout=60, check=True)
                    self.assertEqual(got.stdout, "0123456789 2")

    def test_all_of_them_end(self):
        pids = []
        root = self.folder()
        for start in (servers.cloud_server, lambda: servers.nginx(root), servers.moto):
            try:
                with start() as server:
                    pids.append(server.pid)
            except servers.Missing:
                continue
        for pid in pids:
            with self.assertRaises(ProcessLookupError):
                os.kill(pid, 0)


if __name__ == "__main__":
    unittest.main()
