# SPDX-License-Identifier: Apache-2.0
"""TFRecord shards."""
import struct
import sys
from pathlib import Path

from cases import case

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import tfrecord_files as tf  # noqa: E402

TFRECORD = ["info a.tfrecord", "info tfrecord:a.tfrecord?schema=a:int64[],b:bytes", "convert a.tfrecord tfrecord:out",
            "bench --dataset tfrecord:a.tfrecord?schema=a:int64[] --num-batches 2 --num-epochs 1 --train-step-time 0"]


def large(data_length, fill):
    """A record whose checksum of the data is not right, as that of so much would take long."""
    head = struct.pack("<Q", data_length)
    return head + struct.pack("<I", tf.masked(head)) + fill + bytes(data_length - len(fill)) + bytes(4)


@case
def tfrecord_of_many_records(folder):
    (folder / "a.tfrecord").write_bytes(tf.record(b"") * 400000)
    return TFRECORD


@case
def tfrecord_of_one_large_record(folder):
    (folder / "a.tfrecord").write_bytes(large(300 << 20, b"\x0a"))
    return TFRECORD


@case
def tfrecord_longer_than_memory(folder):
    with open(folder / "a.tfrecord", "wb") as f:
        head = struct.pack("<Q", 1 << 30)
        f.write(head + struct.pack("<I", tf.masked(head)))
        f.truncate((1 << 30) + 16)
    return TFRECORD


@case
def tfrecord_of_many_features(folder):
    (folder / "a.tfrecord").write_bytes(tf.record(tf.message(1, b"".join(tf.entry(f"{i:x}", b"") for i in range(20000)))))
    return TFRECORD


@case
def tfrecord_of_many_entries(folder):
    (folder / "a.tfrecord").write_bytes(tf.record(tf.message(1, b"\x0a\0" * 200000)) * 4)
    return TFRECORD


@case
def tfrecord_of_groups(folder):
    (folder / "a.tfrecord").write_bytes(tf.record(tf.key(5, 3) * 500000))
    return TFRECORD


@case
def tfrecord_of_many_numbers(folder):
    numbers = tf.message(1, tf.entry("a", tf.message(3, tf.message(1, bytes(1 << 20)))))
    (folder / "a.tfrecord").write_bytes(tf.record(numbers) * 8)
    return TFRECORD


@case
def tfrecord_of_long_names(folder):
    (folder / "a.tfrecord").write_bytes(tf.record(tf.example({"\x1b[2J" * 200: ("int64", [1]), "a,b=c:d[3]": ("int64", [1]),
                                                              "../../victim": ("bytes", [b"x"])})))
    return TFRECORD


@case
def tfrecord_with_a_forged_list(folder):
    (folder / "a.tfrecord").write_bytes(tf.record(tf.example({"a": ("int64", [1])})))
    (folder / "a.tfrecord.idx").write_bytes(b"0 18446744073709551615\n" * 100000)
    return TFRECORD
