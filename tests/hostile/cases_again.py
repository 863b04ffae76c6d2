# SPDX-License-Identifier: Apache-2.0
"""Small files of arrays that ask for the same bytes again and again."""
import json
import struct

from cases import HDF5, INT8, case, chunked, hdf5, space


def attribute_of_texts(name, elements):
    """An attribute whose elements are (bytes, address of a collection of the global heap)."""
    kind = struct.pack("<BBBBI", 0x19, 1, 0, 0, 16) + struct.pack("<BBBBI", 0x13, 0, 0, 0, 1)
    data = b"".join(struct.pack("<IQI", size, address, 1) for size, address in elements)
    return 12, (struct.pack("<BBHHH", 1, 0, 8, len(kind), 16) + name.ljust(8, b"\0") + kind + space(len(elements))[1] + data)


def collection(size, text):
    return b"GCOL\1\0\0\0" + struct.pack("<QHHIQ", size, 1, 1, 0, text)


@case
def hdf5_texts_of_one_object(folder):
    """64 GiB of texts that are one of a MiB."""
    text, at = 1 << 20, 2 << 20
    messages = [space(4), INT8, chunked(2**64 - 1, 4)] + [attribute_of_texts(b"a%d" % i, [(text, at)] * 4000) for i in range(16)]
    (folder / "a.h5").write_bytes(hdf5(messages, 4 << 20, [(at, collection(text + 32, text) + b"x" * text)]))
    return HDF5


@case
def hdf5_collections_read_again(folder):
    """More collections than are kept, each asked for again and again."""
    begin, size, texts = 16 << 20, 1 << 20, [(1, (16 << 20) + 64 * (i % 9)) for i in range(4000)]
    messages = [space(4), INT8, chunked(2**64 - 1, 4)] + [attribute_of_texts(b"a%d" % i, texts) for i in range(100)]
    (folder / "a.h5").write_bytes(hdf5(messages, begin + size + 4096, [(begin + 64 * i, collection(size, 1)) for i in range(9)]))
    return HDF5[:2]


@case
def hdf5_of_as_many_filters_as_can_be(folder):
    filters = struct.pack("<BB6x", 1, 32) + struct.pack("<HHHH5I4x", 5, 0, 1, 5, 5, 1, 4, 0, 1) * 32
    leaf = b"TREE\1" + struct.pack("<BHQQIIQQQ", 0, 1, 2**64 - 1, 2**64 - 1, 4, 1 << 31, 0, 0, 1024)
    (folder / "a.h5").write_bytes(hdf5([space(4), INT8, chunked(4096, 4), (11, filters)], 16384, [(4096, leaf)]))
    return HDF5


def references(folder, gen):
    array = json.dumps({"zarr_format": 2, "shape": [1 << 24], "chunks": [1], "dtype": "|u1", "compressor": None, "filters": None,
                        "order": "C", "fill_value": 0})
    (folder / "a.json").write_text(json.dumps({"version": 1, "refs": {".zgroup": '{"zarr_format": 2}', "v/.zarray": array}, "gen": [gen]}))
    return ["info a.json/v", "cat a.json/v --slice 0:1"]


@case
def references_of_long_templates(folder):
    return references(folder, {"key": "w/" + "{{i}}" * 12000, "url": "u", "dimensions": {"i": {"stop": 1 << 24}}})


@case
def references_to_long_names(folder):
    return references(folder, {"key": "v/{{i}}", "url": "u" * 60000 + "{{i}}", "dimensions": {"i": {"stop": 1 << 24}}})
