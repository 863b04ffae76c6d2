#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write fuzz/corpus/netcdf3 and fuzz/corpus/kerchunk from tests/golden/array/netcdf3.pack."""
import os
import struct


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(os.path.join(root, "tests/golden/array/netcdf3.pack"), "rb") as f:
        data = f.read()
    files, at = {}, 0
    while at < len(data):
        n, = struct.unpack_from("<I", data, at)
        name = data[at + 4:at + 4 + n].decode()
        size, = struct.unpack_from("<Q", data, at + 4 + n)
        files[name] = data[at + 12 + n:at + 12 + n + size]
        at += 12 + n + size
    files["files/empty.nc"] = b"CDF\x01" + bytes(28)
    pairs = {"classic": ("classic", "offset64"), "cdf5": ("cdf5", "alone_i1"), "join": ("join_0", "join_1"),
             "scipy": ("scipy1", "scipy2"), "alone": ("alone_i2", "alone_i2"), "empty": ("empty", "empty")}
    for target in "netcdf3", "kerchunk":
        os.makedirs(os.path.join(root, "fuzz/corpus", target), exist_ok=True)
    for name, (one, two) in pairs.items():
        first = files[f"files/{one}.nc"]
        with open(os.path.join(root, "fuzz/corpus/netcdf3", name), "wb") as f:
            f.write(struct.pack("<H", len(first)) + first + files[f"files/{two}.nc"])
    for name in "refs", "old":
        with open(os.path.join(root, "fuzz/corpus/kerchunk", name), "wb") as f:
            f.write(files[f"files/{name}.json"])


if __name__ == "__main__":
    main()
