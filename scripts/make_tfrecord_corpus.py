#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of the fuzz targets of TFRecord shards and their records: fuzz/corpus/{tfrecord,example}.

    python3 scripts/make_tfrecord_corpus.py

How an input is cut stands in fuzz/fuzz_tfrecord.c and fuzz/fuzz_example.c.
"""
import os
import struct
import zlib

import tfrecord_files as tf

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")

PICTURE = {"image/encoded": ("bytes", [b"\xff\xd8\xff\xe0JPEG"]), "image/class/label": ("int64", [3])}
NUMBERS = {"embedding": ("float", [1.5, -2, 3]), "tokens": ("int64", [1, -1, 300, -32768, 32767])}
LETTERS = {"a": ("int64", [1, 2, -3]), "b": ("int64", [1, 2, 3]), "d": ("float", [0.5] * 3), "e": ("float", [1, 2, 3, 4]),
           "f": ("bytes", [bytes(8)])}


def write(target, name, data):
    folder = os.path.join(ROOT, "fuzz", "corpus", target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data)


def cut(*parts):
    """Each part with its length in front."""
    return b"".join(struct.pack("<H", len(p)) + p for p in parts)


def head(length):
    data = struct.pack("<Q", length)
    return data + struct.pack("<I", tf.masked(data))


def shards():
    two = [tf.example(PICTURE), tf.example(NUMBERS)]
    whole = b"".join(tf.record(data) for data in two)
    write("tfrecord", "whole", b"\0" + whole)
    write("tfrecord", "records", b"\1" + cut(*two))
    write("tfrecord", "unpacked", b"\1" + cut(tf.example(NUMBERS, packed=False), b""))
    write("tfrecord", "empty", b"\0")
    write("tfrecord", "cut_head", b"\0" + whole[:-len(tf.record(two[1])) + 5])
    write("tfrecord", "cut_data", b"\0" + whole[:-6])
    write("tfrecord", "huge", b"\0" + tf.record(two[0]) + head(1 << 63))
    write("tfrecord", "longest", b"\0" + head(1 << 30) + b"x")
    write("tfrecord", "wrap", b"\0" + head((1 << 64) - 4) + b"x")
    write("tfrecord", "flip_head", b"\0" + bytes([whole[0] ^ 1]) + whole[1:])
    write("tfrecord", "flip_data", b"\0" + whole[:20] + bytes([whole[20] ^ 1]) + whole[21:])
    write("tfrecord", "gzip", b"\0\x1f\x8b\x08\0\0\0\0\0\0\x03" + bytes(20))
    write("tfrecord", "zlib", b"\0" + zlib.compress(whole))
    write("tfrecord", "nothing", b"\1" + cut(b""))
    first, second = (len(tf.record(data)) for data in two)
    for name, lines in {"listed": f"0 {first}\n{first} {second}\n", "as_one": f"0 {first + second}", "gap": f"0 {first}\n{first + 1} {second}\n",
                        "beyond": f"0 {1 << 40}\n", "digits": "0 99999999999999999999\n", "text": "offset size\n"}.items():
        write("tfrecord", "list_" + name, b"\2" + cut(lines.encode()) + whole)
    write("tfrecord", "list_wrong", b"\2" + cut(f"0 {first - 2}\n{first - 2} {second + 2}".encode()) + whole)


def examples():
    def seed(name, record, schema=b"a:int64[],f:bytes,x/y=d:float[]"):
        write("example", name, cut(schema) + record)

    letters = tf.example(LETTERS)
    steps = {"a": [("int64", [1, 2]), ("int64", [3])], "d": [("float", [1.5])], "f": []}
    nested = tf.key(5, 3) * 15 + tf.key(5, 4) * 15
    seed("letters", letters)
    seed("unpacked", tf.example(LETTERS, packed=False))
    seed("picture", tf.example(PICTURE), b"image/encoded:image, l=image/class/label:int64")
    seed("sequence", tf.sequence_example({"b": ("int64", [1, 2, 3])}, steps))
    seed("twice", letters + letters)
    seed("later", tf.message(1, tf.entry("a", tf.feature("int64", [1])) + tf.entry("a", tf.feature("float", [1]))))
    seed("kinds", tf.message(1, tf.entry("a", tf.feature("float", [1]) + tf.feature("int64", [1]) + tf.feature("int64", [2], False))))
    seed("groups", nested + letters + nested)
    seed("deep", tf.key(5, 3) * 100)
    seed("entries", tf.message(1, tf.message(1, b"") * 1000))
    seed("varints", tf.message(1, tf.entry("a", tf.message(3, tf.message(1, b"\xff" * 9 + b"\1" + b"\x80" * 9 + b"\2")))))
    seed("long", b"\x0a" + tf.varint((1 << 64) - 1))
    seed("gigabytes", b"\x0a" + tf.varint((1 << 31) - 1) + b"x")
    seed("floats", tf.message(1, tf.entry("d", tf.message(2, tf.message(1, b"12345")))))
    seed("several", tf.message(1, tf.entry("f", tf.feature("bytes", [b"a", b"b"]))))
    seed("shapes", letters, b"e:float[2x2],q=e:float[4],b:uint8[3],f:raw_float64[1],g=f:raw_int8[..8]")
    seed("wrong", letters, b"e:float[2x,a:int64[99999999999999],=:,[")
    seed("empty", b"", b"")


if __name__ == "__main__":
    shards()
    examples()
