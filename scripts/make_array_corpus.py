#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make the first inputs of the fuzz targets of arrays from the golden arrays and from damaged shards.

    make_array_corpus.py      writes fuzz/corpus/zarr_*
"""
import struct
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICK_V3 = {"type_f4", "big_i8", "type_M8ns", "type_U6", "type_V3", "rank_0", "rank_5", "transposed_3", "codec_blosc_lz4_shuffle",
           "codec_two", "keys_v2_dot", "fill_nan", "fill_large", "fill_complex", "attributes"}
PICK_SHARDS = {"plain", "index_start", "nested_end", "transposed_outside", "sparse"}
PICK_V2 = {"type_f4", "big_i4", "type_S7", "record", "rank_3_F", "compressor_04", "compressor_06", "filter_0", "filter_7", "packbits",
           "scaled", "fill_bytes", "attributes"}


def unpack(name):
    data, at, files = (ROOT / f"tests/golden/array/{name}.pack").read_bytes(), 0, {}
    while at < len(data):
        (n,) = struct.unpack_from("<I", data, at)
        key = data[at + 4:at + 4 + n].decode()
        (size,) = struct.unpack_from("<Q", data, at + 4 + n)
        at += 12 + n
        files[key] = data[at:at + size]
        at += size
    return files


def part(data):
    return struct.pack("<H", len(data)) + data


def write(target, name, data):
    folder = ROOT / f"fuzz/corpus/{target}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def first_chunk(files, name):
    other = {"expected", "about", "zarr.json", ".zarray", ".zattrs"}
    chunks = [k for k in files if k.startswith(f"{name}/") and k.split("/", 1)[1] not in other]
    return files[sorted(chunks)[0]] if chunks else b""


def main():
    for pack, picks in [("zarr_v3", PICK_V3), ("shards", PICK_SHARDS)]:
        files = unpack(pack)
        for name in sorted(picks):
            write("zarr_v3", f"{pack}_{name}", part(files[f"{name}/zarr.json"]) + first_chunk(files, name))
    files = unpack("zarr_v2")
    for name in sorted(PICK_V2):
        attributes = files.get(f"{name}/.zattrs", b"")
        write("zarr_v2", name, part(files[f"{name}/.zarray"]) + part(attributes) + first_chunk(files, name))
    write("zarr_group", "v3", b"\0" + unpack("group_v3")["consolidated/zarr.json"])
    write("zarr_group", "v2", b"\1" + unpack("group_v2")["consolidated/.zmetadata"])
    write("zarr_group", "parent", b'\0{"zarr_format":3,"node_type":"group","consolidated_metadata":{"kind":"inline","metadata":{"../a":{"node_type":"array"}}}}')
    chunk = bytes(range(16))
    inner = struct.pack("<8Q", 0, 4, 4, 4, 8, 4, 12, 4)
    whole = struct.pack("<8Q", 0, 16, 16, 16, 32, 16, 48, 16)
    write("zarr_shard", "plain", b"\0" + chunk * 4 + whole)
    write("zarr_shard", "start", b"\1" + struct.pack("<8Q", 64, 16, 80, 16, 96, 16, 112, 16) + chunk * 4)
    write("zarr_shard", "nested", b"\2" + (chunk + inner) * 4 + struct.pack("<8Q", 0, 80, 80, 80, 160, 80, 240, 80))
    write("zarr_shard", "transposed", b"\x10" + chunk * 4 + whole)
    write("zarr_shard", "absent", b"\0" + b"\xff" * 64)
    write("zarr_shard", "overlap", b"\0" + chunk * 4 + struct.pack("<8Q", 0, 16, 8, 16, 32, 16, 48, 16))
    write("zarr_shard", "outside", b"\0" + chunk * 4 + struct.pack("<8Q", 0, 16, 2**63, 2**63, 32, 16, 48, 16))
    write("zarr_shard", "short", b"\0" + chunk)


if __name__ == "__main__":
    main()
