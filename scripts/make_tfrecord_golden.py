#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the shards of tests/golden/tfrecord with the writer of tfrecord_files.py.

    python3 scripts/make_tfrecord_golden.py [FOLDER]

Record k of `examples-0000?-of-00002` (three in each, k = 0..5), numbers packed where k is even: image/encoded: the head of a PNG and
k bytes; image/class/label: k - 2; embedding: k + j / 4 for j < 3; tokens: (-1)^j j 300^(j % 4) for j < k; text: "record k". Record k of
`sequences.tfrecord` (three) has context length: k, and feature_lists tokens: k + 1 steps of two values s, -s; flat: none.
tests/unit/dataset/test_tfrecord.c computes the same.
"""
import os
import sys

import tfrecord_files as tf

FOLDER = sys.argv[1] if len(sys.argv) > 1 else os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "tfrecord")


def example(k):
    return tf.example({
        "image/encoded": ("bytes", [b"\x89PNG\r\n\x1a\n" + bytes(range(k))]),
        "image/class/label": ("int64", [k - 2]),
        "embedding": ("float", [k + j / 4 for j in range(3)]),
        "tokens": ("int64", [(-1) ** j * j * 300 ** (j % 4) for j in range(k)]),
        "text": ("bytes", [b"record %d" % k]),
    }, packed=k % 2 == 0)


def sequence(k):
    return tf.sequence_example({"length": ("int64", [k])},
                               {"tokens": [("int64", [s, -s]) for s in range(k + 1)], "flat": []}, packed=k != 1)


def write(name, records):
    with open(os.path.join(FOLDER, name), "wb") as f:
        for data in records:
            f.write(tf.record(data))


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for shard in range(2):
        write("examples-%05d-of-00002" % shard, [example(k) for k in range(3 * shard, 3 * shard + 3)])
    write("sequences.tfrecord", [sequence(k) for k in range(3)])


if __name__ == "__main__":
    main()
