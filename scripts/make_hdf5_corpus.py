#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make fuzz/corpus/hdf5 of the packs of HDF5 in tests/golden/array, and fuzz/corpus/hdf5_index."""
import struct
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SMALL = 16000  # bytes of a seed at most


def files(pack):
    data, at = (ROOT / f"tests/golden/array/{pack}.pack").read_bytes(), 0
    while at < len(data):
        length, = struct.unpack_from("<I", data, at)
        key = data[at + 4:at + 4 + length].decode()
        size, = struct.unpack_from("<Q", data, at + 4 + length)
        begin = at + 12 + length
        at = begin + size
        if key.startswith("files/"):
            yield Path(key).stem, data[begin:at]


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def sidecar(sections, identity=7):
    table, chunks = b"", b""
    for dataset, fingerprint, entries in sections:
        packed = b"".join(struct.pack("<QQII", *entry) for entry in entries)
        table += struct.pack("<QQQQII", dataset, fingerprint, 40 + 40 * len(sections) + len(chunks), len(entries), crc32c(packed), 0)
        chunks += packed
    head = struct.pack("<8sIIQQ", b"stkHDF5i", 1, len(sections), 100000, identity)
    return head + struct.pack("<II", crc32c(head + table), 0) + table + chunks


def main():
    out = ROOT / "fuzz/corpus/hdf5"
    for name, data in [*files("hdf5"), *files("hdf5_chunks")]:
        if len(data) <= SMALL:
            (out / name).write_bytes(data)
    for name in ("table", "tie"):
        (out / name).write_bytes((ROOT / f"tests/golden/rows/{name}.h5").read_bytes())
    out = ROOT / "fuzz/corpus/hdf5_index"
    dense = [(i, 500 + 10 * i, 10, 0) for i in range(40)]
    sparse = [(3 * i, 9000 - 10 * i, 7, i % 3) for i in range(30)]
    (out / "dense").write_bytes(sidecar([(96, 5, dense)]))
    (out / "two").write_bytes(sidecar([(50, 9, sparse), (96, 5, dense)]))
    (out / "sparse").write_bytes(sidecar([(96, 5, sparse)]))
    (out / "other_file").write_bytes(sidecar([(96, 5, sparse)], identity=8))
    (out / "twice").write_bytes(sidecar([(96, 5, dense[:3] + dense[2:5])]))
    (out / "outside").write_bytes(sidecar([(96, 5, dense[:3] + [(9, 99999, 2, 0)])]))


if __name__ == "__main__":
    main()
