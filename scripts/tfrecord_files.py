# SPDX-License-Identifier: Apache-2.0
"""TFRecord shards of tf.train.Example and SequenceExample, written from the published format alone.

Framing: tensorflow.org/tutorials/load_data/tfrecord, "TFRecords format details"; CRC-32C: RFC 3720, appendix B.4.
Messages: tensorflow/core/example/{example,feature}.proto in the encoding of protobuf.dev/programming-guides/encoding.
A feature is given as ("bytes", [b"..."]), ("float", [1.5]) or ("int64", [-1]).
"""
import struct

TABLE = []
for n in range(256):
    for _ in range(8):
        n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
    TABLE.append(n)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(data):
    head = struct.pack("<Q", len(data))
    return head + struct.pack("<I", masked(head)) + data + struct.pack("<I", masked(data))


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def key(number, wire):
    return varint(number << 3 | wire)


def message(number, data):
    return key(number, 2) + varint(len(data)) + data


def values(kind, of, packed=True):
    """A BytesList, FloatList or Int64List."""
    if kind == "bytes":
        return b"".join(message(1, v) for v in of)
    if kind == "float":
        parts, wire = [struct.pack("<f", v) for v in of], 5
    else:
        parts, wire = [varint(v) for v in of], 0
    if packed:
        return message(1, b"".join(parts)) if of else b""
    return b"".join(key(1, wire) + p for p in parts)


def feature(kind, of, packed=True):
    return message({"bytes": 1, "float": 2, "int64": 3}[kind], values(kind, of, packed))


def entry(name, value):
    return message(1, message(1, name.encode()) + message(2, value))


def features(named, packed=True):
    return b"".join(entry(name, feature(kind, of, packed)) for name, (kind, of) in named.items())


def example(named, packed=True):
    return message(1, features(named, packed))


def sequence_example(context, lists, packed=True):
    """`lists`: name -> a list of features."""
    return message(1, features(context, packed)) + message(2, b"".join(
        entry(name, b"".join(message(1, feature(kind, of, packed)) for kind, of in steps))
        for name, steps in lists.items()))
