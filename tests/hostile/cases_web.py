# SPDX-License-Identifier: Apache-2.0
"""Answers of web servers and of S3, and files of credentials."""
import gzip

from cases import CASES, case

HTTP = "--stores http(retries=1,first_byte_timeout=2s,stall_timeout=2s)"
WEB = [f"@served.py info {HTTP} http://HOST/d/a.npy", f"@served.py cat {HTTP} http://HOST/d/a.zarr",
       f"@served.py bench {HTTP} --dataset npy:http://HOST/d/a.npy --num-batches 1 --num-epochs 1 --train-step-time 0"]
BUCKET = "s3://bucket/d/"
STORE = "--stores s3(endpoint=http://HOST,anonymous=true,retries=1)"
S3 = [f"@served.py info {STORE} {BUCKET}a.npy", f"@served.py cat {STORE} {BUCKET}a.zarr",
      f"@served.py bench {STORE} --dataset images:{BUCKET} --num-batches 1 --num-epochs 1 --train-step-time 0"]

OK = b"HTTP/1.1 200 OK\r\n"
PARTIAL = b"HTTP/1.1 206 Partial Content\r\n"
CONTROLS = b"\x1b[2J\x1b]0;owned\x07"


def served(name, commands, answer, again=None):
    """A case of its own."""
    def fill(folder):
        (folder / "answer").write_bytes(answer)
        if again:
            (folder / "again").write_bytes(again)
        return commands
    fill.__name__ = name
    CASES.append(fill)


def with_length(body, head=OK):
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def entities(levels):
    return b"<!DOCTYPE a [<!ENTITY e0 \"ha\">" + b"".join(
        b'<!ENTITY e%d "%s">' % (i, b"&e%d;" % (i - 1) * 10) for i in range(1, levels)) + b"]>"


def page(inner, more=b""):
    return with_length(more + b"<ListBucketResult><EncodingType>url</EncodingType>" + inner + b"</ListBucketResult>")


for name, answer, again in [
        ("http_line_of_1_mb", OK + b"X: " + b"a" * (1 << 20) + b"\r\n\r\n", None),
        ("http_lines_without_end", OK, b"X-More: and so on\r\n" * 1000),
        ("http_line_without_end", OK + b"X: ", b"a" * 65536),
        ("http_status_line_without_end", b"HTTP/1.1 200 ", b"a" * 65536),
        ("http_heads_without_end", b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
        ("http_body_without_end", OK + b"\r\n", bytes(65536)),
        ("http_chunks_without_end", OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1000\r\n" + bytes(4096) + b"\r\n"),
        ("http_chunk_extensions_without_end", OK + b"Transfer-Encoding: chunked\r\n\r\n1;", b"a=b;" * 16384),
        ("http_trailers_without_end", OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n" * 10000),
        ("http_chunk_of_2_to_64", OK + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", None),
        ("http_redirect_to_itself", b"HTTP/1.1 302 x\r\nLocation: ?\r\nContent-Length: 0\r\n\r\n", None),
        ("http_redirect_that_grows", b"HTTP/1.1 302 x\r\nLocation: " + b"a/" * 900 + b"\r\nContent-Length: 0\r\n\r\n", None),
        ("http_redirect_to_a_file", b"HTTP/1.1 302 x\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n", None),
        ("http_length_below_zero", OK + b"Content-Length: -1\r\n\r\nabc", None),
        ("http_length_of_2_to_63", OK + b"Content-Length: 9223372036854775807\r\nETag: \"a\"\r\n\r\nabc", None),
        ("http_lengths", OK + b"Content-Length: 5\r\nContent-Length: 50000\r\n\r\nabcde", None),
        ("http_range_of_much", PARTIAL + b"Content-Range: bytes 0-0/18446744073709551614\r\nContent-Length: 1\r\n\r\na", None),
        ("http_range_of_another", PARTIAL + b"Content-Range: bytes 5-9/10\r\nContent-Length: 5\r\n\r\nabcde", None),
        ("http_ranges", PARTIAL + b"Content-Type: multipart/byteranges; boundary=b\r\nContent-Length: 60\r\n\r\n--b\r\n" + b"a" * 55, None),
        ("http_packed", with_length(gzip.compress(bytes(100 << 20)), OK + b"Content-Encoding: gzip\r\n"), None),
        ("http_controls", with_length(b"", b"HTTP/1.1 500 " + CONTROLS + b"\r\nETag: \"" + CONTROLS + b"\"\r\n"), None),
        ("http_location_with_controls", b"HTTP/1.1 302 x\r\nLocation: http://" + CONTROLS + b"/\r\nContent-Length: 0\r\n\r\n", None),
        ("http_zeros", with_length(b"", OK + b"ETag: \"a\0b\"\r\nX\0Y: z\r\n\0\r\n"), None),
        ("http_not_http", b"\x16\x03\x03" + b"SSH-2.0-x\r\n" * 10, None),
        ("http_json_that_is_deep", with_length(b"[" * (8 << 20)), None)]:
    served(name, WEB, answer, again)

for name, answer, again in [
        ("s3_list_of_entities", page(b"<Name>&e9;</Name>", entities(10)), None),
        ("s3_list_that_is_deep", page(b"<a>" * (1 << 20)), None),
        ("s3_list_of_many", page(b"<Contents><Key>a.jpg</Key><Size>1</Size></Contents>" * 200000), None),
        ("s3_list_without_end", OK + b"\r\n<ListBucketResult>", b"<Contents><Key>a.jpg</Key><Size>1</Size></Contents>" * 1000),
        ("s3_pages_without_end", page(b"<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"), None),
        ("s3_list_of_long_keys", page(b"<Contents><Key>" + b"a" * (4 << 20) + b"</Key><Size>1</Size></Contents>"), None),
        ("s3_list_of_controls", page(b"<Contents><Key>d/%1b%5b2J%07.jpg</Key><Size>1</Size></Contents>"), None),
        ("s3_list_of_paths", page(b"<Contents><Key>d/../../victim</Key><Size>9</Size></Contents>"), None),
        ("s3_error_with_controls", with_length(b"<Error><Code>" + CONTROLS + b"</Code><Message>&#27;[2J" + CONTROLS + b"</Message></Error>",
                                               b"HTTP/1.1 403 x\r\n"), None),
        ("s3_error_without_end", b"HTTP/1.1 403 x\r\n\r\n<Error>", b"<Code>" * 10000),
        ("s3_region_of_another", with_length(b"<Error><Code>PermanentRedirect</Code><Region>a.evil/</Region></Error>",
                                             b"HTTP/1.1 301 x\r\nx-amz-bucket-region: ../b\r\n"), None)]:
    served(name, S3, answer, again)


def credentials(name, config, commands=None):
    def fill(folder):
        (folder / "answer").write_bytes(with_length(b"{}"))
        (folder / "config").write_bytes(config)
        (folder / "credentials").write_bytes(config)
        return commands or ["@served.py info --stores s3(endpoint=http://HOST,retries=0,config_file=config,credentials_file=credentials,"
                            "metadata_endpoint='') s3://bucket/d/a.npy"]
    fill.__name__ = name
    CASES.append(fill)


credentials("credentials_of_zeros", bytes(1 << 20))
credentials("credentials_of_100_mb", b"[default]\nregion = a\n" * (5 << 20))
credentials("credentials_of_one_line", b"[default]\naws_access_key_id = " + b"a" * (16 << 20))
credentials("credentials_of_odd_bytes", b"\xff\xfe[\0d\0e\0f\0a\0u\0l\0t\0]\n[default\n]]]\n=\n = \naws_access_key_id\n[\n[]\n[default]\n=x\n")
credentials("credentials_with_controls", b"[default]\naws_access_key_id = " + CONTROLS + b"\naws_secret_access_key = a\rb\n")
credentials("credentials_of_a_role_of_itself", b"[default]\nsource_profile = default\nrole_arn = x\n[profile default]\nsource_profile = default\n")
credentials("credentials_process_without_end", b"[default]\ncredential_process = yes\n")


@case
def credentials_that_are_a_folder(folder):
    (folder / "answer").write_bytes(with_length(b"{}"))
    (folder / "config").mkdir()
    return ["@served.py info --stores s3(endpoint=http://HOST,retries=0,config_file=config,credentials_file=/dev/zero,"
            "metadata_endpoint='') s3://bucket/d/a.npy"]
