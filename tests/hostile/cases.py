# SPDX-License-Identifier: Apache-2.0
"""Crafted files. Each case is a function that fills a folder and gives the commands to run there: strings of words, `stoker` left out.

A function in FAILS_STILL is expected to break a limit; one that does not any more has to be taken out of it.
"""
import gzip
import json
import lzma
import struct
import zipfile
import zlib
from pathlib import Path

CASES = []
FAILS_STILL = {}


def case(function):
    CASES.append(function)
    return function


def zarr(folder, name="a.zarr", **changes):
    document = {"zarr_format": 3, "node_type": "array", "shape": [4, 4], "data_type": "float32",
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 2]}},
                "chunk_key_encoding": {"name": "default"}, "fill_value": 0,
                "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}
    document.update(changes)
    (folder / name).mkdir(parents=True)
    (folder / name / "zarr.json").write_text(json.dumps(document))


ARRAY = ["info a.zarr", "cat a.zarr --slice 0:1,0:1", "chunks a.zarr",
         "bench --dataset array:a.zarr?window=2x2 --num-batches 2 --num-epochs 1 --train-step-time 0"]


def netcdf3(dimensions, rank=1, count=1):
    """A header of one variable of doubles over dimensions of these lengths."""
    def word(n):
        return struct.pack(">I", n)
    dims = b"".join(word(1) + b"d\0\0\0" + word(n) for n in dimensions)
    ids = b"".join(word(i % max(len(dimensions), 1)) for i in range(rank))
    return (b"CDF\1" + word(0) + word(10) + word(len(dimensions)) + dims + bytes(8) + word(11) + word(count) + word(1) + b"v\0\0\0" +
            word(rank) + ids + bytes(8) + word(6) + word(0) + word(100))


NETCDF3 = ["info a.nc", "cat a.nc/v", "bench --dataset array:a.nc/v?window=1 --num-batches 2 --num-epochs 1 --train-step-time 0"]


@case
def netcdf3_giant(folder):
    (folder / "a.nc").write_bytes(netcdf3([2**32 - 1] * 4, rank=4) + bytes(64))
    return NETCDF3


@case
def netcdf3_many_entries(folder):
    (folder / "a.nc").write_bytes(netcdf3([5], count=2**31) + bytes(1 << 20))
    return NETCDF3


@case
def references_of_other_files(folder):
    array = {"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "|u1", "compressor": None, "filters": None, "order": "C",
             "fill_value": 0}
    (folder / "r.json").write_text(json.dumps({"version": 1, "refs": {"v/.zarray": array, "v/0": ["/etc/passwd", 0, 4]}}))
    return ["info r.json", "cat r.json/v"]


@case
def references_without_end(folder):
    array = {"zarr_format": 2, "shape": [1 << 50], "chunks": [1], "dtype": "|u1", "compressor": None, "filters": None, "order": "C",
             "fill_value": 0}
    gen = {"key": "v/{{i}}", "url": "x", "offset": "{{i}}", "length": "1", "dimensions": {"i": {"stop": 1 << 50}}}
    (folder / "r.json").write_text(json.dumps({"version": 1, "refs": {"v/.zarray": array}, "gen": [gen]}))
    return ["info r.json", "cat r.json/v --slice 0:4"]


@case
def json_of_many_values(folder):
    (folder / "g.zarr").mkdir()
    (folder / "g.zarr/zarr.json").write_text('{"zarr_format":3,"node_type":"group","attributes":{"a":[' + ",".join(["{}"] * 2000000) +
                                             "]}}")
    return ["info g.zarr"]


@case
def json_nested(folder):
    (folder / "g.zarr").mkdir()
    (folder / "g.zarr/zarr.json").write_text('{"zarr_format":3,"node_type":"group","attributes":' + '{"a":' * 100000 + "1" + "}" * 100001)
    return ["info g.zarr"]


@case
def groups_of_many_values(folder):
    for i in range(6):
        (folder / f"g.zarr/{i}").mkdir(parents=True)
        (folder / f"g.zarr/{i}/zarr.json").write_text('{"zarr_format":3,"node_type":"group","attributes":{"a":[' +
                                                      ",".join(["{}"] * 400000) + "]}}")
    (folder / "g.zarr/zarr.json").write_text('{"zarr_format":3,"node_type":"group","attributes":{}}')
    return ["info g.zarr"]


@case
def claims_of_shapes(folder):
    zarr(folder, shape=[1 << 40, 1 << 20], chunk_grid={"name": "regular", "configuration": {"chunk_shape": [1, 1]}})
    return ARRAY


@case
def claims_of_chunks(folder):
    zarr(folder, shape=[1 << 30, 1 << 20], chunk_grid={"name": "regular", "configuration": {"chunk_shape": [1 << 30, 1 << 20]}})
    (folder / "a.zarr/c/0").mkdir(parents=True)
    (folder / "a.zarr/c/0/0").write_bytes(b"\0" * 100)
    return ARRAY


@case
def filters_that_change_the_type(folder):
    (folder / "a.zarr").mkdir()
    (folder / "a.zarr/.zarray").write_text(json.dumps({
        "zarr_format": 2, "shape": [4, 4], "chunks": [2, 2], "dtype": "<f8", "fill_value": 0, "order": "F", "compressor": None,
        "filters": [{"id": "astype", "encode_dtype": "|u1", "decode_dtype": "<f8"},
                    {"id": "delta", "dtype": "<f4", "astype": "<i2"}]}))
    (folder / "a.zarr/0.0").write_bytes(bytes(range(64)))
    return ["info a.zarr", "cat a.zarr"]


@case
def filters_that_change_the_size(folder):
    astype = {"decode_dtype": "<f8", "encode_dtype": "|u1"}
    zarr(folder, codecs=[{"name": "numcodecs.astype", "configuration": astype},
                         {"name": "transpose", "configuration": {"order": [1, 0]}},
                         {"name": "bytes", "configuration": {"endian": "little"}}])
    (folder / "a.zarr/c/0").mkdir(parents=True)
    (folder / "a.zarr/c/0/0").write_bytes(bytes(range(64)))
    return ARRAY


@case
def claims_of_objects(folder):
    zarr(folder, shape=[100000000, 2], chunk_grid={"name": "regular", "configuration": {"chunk_shape": [1, 2]}},
         codecs=[{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "gzip", "configuration": {"level": 1}}])
    return ["info array:a.zarr?window=1x2", "bench --dataset array:a.zarr?window=1x2 --num-batches 2 --train-step-time 0"]


@case
def coordinates_of_claims(folder):
    """As long as their dimensions, and nothing of them is there."""
    for shape, chunk in ((1 << 40, 1 << 20), (1 << 27, 1)):
        name = f"g{chunk}.zarr"
        grid = {"name": "regular", "configuration": {"chunk_shape": [chunk]}}
        for array in ("v", "time"):
            zarr(folder, f"{name}/{array}", shape=[shape], chunk_grid=grid, dimension_names=["time"],
                 attributes={"units": "days since 2000-01-01"})
    return [f"info array:g{chunk}.zarr/v?window=1&select=time=2000" for chunk in (1 << 20, 1)] + ["info g1.zarr/time"]


@case
def dictionaries_of_lzma(folder):
    (folder / "a.zarr").mkdir()
    (folder / "a.zarr/.zarray").write_text(json.dumps({
        "zarr_format": 2, "shape": [40 * 4096], "chunks": [4096], "dtype": "|u1", "fill_value": 0, "order": "C", "filters": None,
        "compressor": {"id": "lzma", "format": 2}}))
    chunk = bytearray(lzma.compress(bytes(4096), format=lzma.FORMAT_ALONE))
    for i in range(40):
        struct.pack_into("<I", chunk, 1, (2 + i % 2) << (24 - i // 2))
        (folder / f"a.zarr/{i}").write_bytes(bytes(chunk))
    return ["cat a.zarr", "bench --dataset array:a.zarr?window=4096 --num-batches 2 --train-step-time 0"]


@case
def bomb_in_a_chunk(folder):
    zarr(folder, codecs=[{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "gzip", "configuration": {"level": 1}}])
    (folder / "a.zarr/c/0").mkdir(parents=True)
    (folder / "a.zarr/c/0/0").write_bytes(gzip.compress(b"\0" * (32 << 20)) * 16)
    return ARRAY


def texts(folder, chunk, compressor=None):
    (folder / "a.zarr").mkdir()
    (folder / "a.zarr/.zarray").write_text(json.dumps({
        "zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "|O", "fill_value": "", "order": "C",
        "filters": [{"id": "vlen-utf8"}], "compressor": compressor}))
    for i in range(2):
        (folder / f"a.zarr/{i}").write_bytes(chunk)
    return ["info a.zarr", "cat a.zarr", "bench --dataset array:a.zarr?window=2 --num-batches 2 --train-step-time 0"]


@case
def bomb_of_texts(folder):
    inner = zlib.compressobj(9)
    head = struct.pack("<II", 2, 0xfffffff0)
    return texts(folder, inner.compress(head) + b"".join(inner.compress(bytes(1 << 20)) for _ in range(900)) + inner.flush(),
                 {"id": "zlib"})


@case
def texts_that_claim(folder):
    return texts(folder, struct.pack("<III", 2, 0xffffffff, 0xffffffff))


@case
def texts_too_many(folder):
    return texts(folder, struct.pack("<I", 0xffffffff) + bytes(64))


def filtered(folder, name, values, chunk, dtype="int32"):
    zarr(folder, data_type=dtype, codecs=[{"name": "bytes", "configuration": {"endian": "little"}},
                                          {"name": "hdf5." + name, "configuration": {"values": values}}])
    (folder / "a.zarr/c/0").mkdir(parents=True)
    (folder / "a.zarr/c/0/0").write_bytes(chunk)
    return ARRAY


@case
def filter_claims_size(folder):
    return filtered(folder, "lz4", [], struct.pack(">QI", 1 << 60, 1 << 31) + bytes(64))


@case
def filter_claims_block(folder):
    return filtered(folder, "bitshuffle", [0, 4, 4, 0, 3], struct.pack(">QII", 16, 0xfffffff8, 0xffffffff) + bytes(64))


@case
def filter_of_giant_scanlines(folder):
    return filtered(folder, "szip", [36, 32, 8, 4096], struct.pack("<I", 16) + b"\xff" * 64)


@case
def filter_of_other_elements(folder):
    return filtered(folder, "nbit", [8, 0, 0xffffffff, 1, 4, 0, 9, 0], bytes(64))


@case
def filter_with_header_of_zfp(folder):
    zarr(folder, codecs=["numcodecs.zfpy"])
    (folder / "a.zarr/c/0").mkdir(parents=True)
    (folder / "a.zarr/c/0/0").write_bytes(b"zfp\5" + b"\xff" * 200)
    return ARRAY


@case
def bomb_of_idx(folder):
    (folder / "m").mkdir()
    piece = gzip.compress(b"\0" * (32 << 20))
    head = gzip.compress(struct.pack(">4B3I", 0, 0, 8, 3, 600000, 28, 28))
    (folder / "m/train-images-idx3-ubyte.gz").write_bytes(head + piece * 16)
    (folder / "m/train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(struct.pack(">4BI", 0, 0, 8, 1, 600000)) + piece)
    return ["info mnist:m", "bench --dataset mnist:m --memory-budget 8MiB --num-batches 2 --num-epochs 1 --train-step-time 0",
            "convert mnist:m to -q"]


def jpeg_of_scans(side, scans):
    """A progressive JPEG of one component: after its one DC scan, SCANS scans of AC coefficients that say nothing in few bytes."""
    blocks = (side // 8) ** 2
    parts = [b"\xff\xd8", b"\xff\xdb\0\x43\0" + b"\1" * 64, b"\xff\xc2" + struct.pack(">HBHHB3B", 11, 8, side, side, 1, 1, 0x11, 0),
             b"\xff\xc4" + struct.pack(">HB", 20, 0x00) + b"\1" + b"\0" * 15 + b"\0",
             b"\xff\xc4" + struct.pack(">HB", 20, 0x10) + b"\1" + b"\0" * 15 + b"\xe0",
             b"\xff\xda" + struct.pack(">HB2B3B", 8, 1, 1, 0x00, 0, 0, 0), b"\0" * (blocks // 8 + 1)]
    for i in range(scans):
        at = 1 + i % 63
        parts += [b"\xff\xda" + struct.pack(">HB2B3B", 8, 1, 1, 0x00, at, at, 0), b"\0" * (blocks // 16384 * 15 // 8 + 4)]
    return b"".join(parts) + b"\xff\xd9"


PICTURES = ["info images:p", "convert p to --max-side 8 -q",
            "bench --dataset images:p --transforms resize(8),to_float --batch-size 1 --num-batches 2 --num-epochs 1 --train-step-time 0"]


@case
def jpeg_of_many_scans(folder):
    (folder / "p/a").mkdir(parents=True)
    (folder / "p/a/1.jpg").write_bytes(jpeg_of_scans(7680, 99))
    return PICTURES


@case
def jpeg_of_many_coefficients(folder):
    (folder / "p/a").mkdir(parents=True)
    for i in range(4):
        (folder / f"p/a/{i}.jpg").write_bytes(jpeg_of_scans((7680, 2560)[i > 0], 9))
    return PICTURES + ["convert p to1 --max-side 8 -q --on-error skip"]


@case
def jpeg_of_scans_without_end(folder):
    (folder / "p/a").mkdir(parents=True)
    (folder / "p/a/1.jpg").write_bytes(jpeg_of_scans(4096, 20000))
    return PICTURES


@case
def png_of_zeros(folder):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    (folder / "p/a").mkdir(parents=True)
    data = zlib.compress(b"\0" * (64 << 20), 9)
    (folder / "p/a/1.png").write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)) +
                                       chunk(b"IDAT", data) + chunk(b"IEND", b""))
    return PICTURES


@case
def links_in_circles(folder):
    (folder / "p/a").mkdir(parents=True)
    (folder / "p/a/up").symlink_to("..")
    (folder / "p/a/1.jpg").write_bytes(b"no picture")
    return ["info images:p", "info p", "convert p to -q"]


@case
def links_in_nests(folder):
    """2^24 paths by 24 folders."""
    for i in range(24):
        (folder / f"p/{i}").mkdir(parents=True)
        for name in "ab":
            (folder / f"p/{i}/{name}").symlink_to(f"../{i + 1}")
    (folder / "p/24").mkdir()
    return ["info images:p/0", "info p"]


@case
def links_of_groups_in_circles(folder):
    (folder / "g.zarr/a").mkdir(parents=True)
    for name in ("g.zarr", "g.zarr/a"):
        (folder / name / "zarr.json").write_text('{"zarr_format":3,"node_type":"group","attributes":{}}')
    (folder / "g.zarr/a/b").symlink_to("..")
    (folder / "g.zarr/a/c").symlink_to("..")
    return ["info g.zarr"]


@case
def links_out_of_the_root(folder):
    (folder / "p/a").mkdir(parents=True)
    (folder / "p/a/1.jpg").symlink_to("../../../victim")
    (folder / "to").symlink_to("..")
    return ["info images:p", "convert p to -q"]


@case
def lists_that_leave(folder):
    (folder / "p/a").mkdir(parents=True)
    (folder / "p/list.txt").write_text(".//../../victim 0\n..//victim 1\n/etc/passwd 2\n./../victim 3\n")
    return ["info images:p?list=list.txt", "bench --dataset images:p?list=list.txt --num-batches 1 --num-epochs 1 --train-step-time 0"]


@case
def journal_that_names_others(folder):
    (folder / "p/a").mkdir(parents=True)
    (folder / "to/.stoker-convert").mkdir(parents=True)
    for name in ("to/.stoker-convert/journal", "to/.stoker-journal", "to/.stoker-convert.journal"):
        (folder / name).write_text("stoker-convert 1\nold ../victim\nold ../../victim\nold /victim\ndone ../victim 1 2 3 4 5 6 7\n")
    return ["convert p to -q", "convert p to -q --mode overwrite"]


@case
def logs_with_controls(folder):
    bad = "\\u001b]0;owned\\u0007\\u001b[2J\\u009b31m"
    lines = [f'{{"event": "run start", "time": 1, "locals": {{"source": "{bad}", "num_epochs": 1, "batch_size": 16}}}}']
    lines += [f'{{"event": "{bad} start", "time": {i}, "{bad}": "{bad}"}}' for i in range(2, 40)]
    lines += [f'{{"event": "training start", "time": {i}, "wait": 1e308}}' for i in range(40, 60)]
    (folder / "a.log").write_text("\n".join(lines) + "\n")
    (folder / "raw.log").write_bytes(b'{"event": "\x1b[2J\xc2\x9b31m", "time": 1}\n' * 50)
    return ["report a.log", "report raw.log", "report a.log raw.log", "info a.log"]


@case
def names_with_controls(folder):
    (folder / "p/\x1b[2Ja").mkdir(parents=True)
    (folder / "p/\x1b[2Ja/\x07\u009b31m.jpg").write_bytes(b"no picture")
    return ["info images:p", "convert p to -q", "info p"]


@case
def lines_without_end(folder):
    (folder / "a.log").write_bytes(b'{"event": "' + b"x" * (80 << 20))
    (folder / "big.yaml").write_bytes(b"a: &a [x,x]\n" + b"".join(b"a%d: &a%d [*a,*a]\n" % (i, i) for i in range(10000)))
    return ["report a.log", "train --config big.yaml", "bench --config big.yaml"]


@case
def npy_that_claims(folder):
    head = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 1000000), }"
    (folder / "a.npy").write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head)
    long = b"{'descr': " + b"[" * 60000 + b"}"
    (folder / "b.npy").write_bytes(b"\x93NUMPY\2\0" + struct.pack("<I", len(long)) + long)
    return ["info npy:a.npy", "cat a.npy", "info npy:b.npy", "cat b.npy"]


@case
def safetensors_that_claims(folder):
    head = json.dumps({f"t{i}": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]} for i in range(1000)}).encode()
    (folder / "a.safetensors").write_bytes(struct.pack("<Q", len(head)) + head)
    (folder / "b.safetensors").write_bytes(struct.pack("<Q", 1 << 62) + b"{}")
    return ["info a.safetensors", "info b.safetensors", "train --dataset digits: --ckpt-path a.safetensors"]


def torch_zip(path, pickle, entries=()):
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("a/data.pkl", pickle)
        for name, data in entries:
            z.writestr(name, data)


def torch_tensor(sizes, steps, key=b"0", offset=0):
    def tuple_of(numbers):
        return b"(" + b"".join(b"\x8a\x08" + struct.pack("<q", n) for n in numbers) + b"t"

    return (b"ctorch._utils\n_rebuild_tensor_v2\n((U\7storagectorch\nFloatStorage\nU" + bytes([len(key)]) + key + b"U\3cpuK\1tQK" + bytes([offset]) +
            tuple_of(sizes) + tuple_of(steps) + b"\x89ccollections\nOrderedDict\n)RtR")


TRAIN = "train --dataset digits:?size=64 --transforms to_float --layers flatten,linear(10) --max-steps 1 --weights "


@case
def pth_with_code(folder):
    torch_zip(folder / "a.pth", b"\x80\2cos\nsystem\nU\x14echo changed > victim\x85R.")
    torch_zip(folder / "b.pth", b"\x80\2cposix\nsystem\nU\x17echo changed > ../victim\x85R.")
    torch_zip(folder / "c.pth", b"\x80\2cbuiltins\neval\nU\x03exit()\x85R.")
    return [TRAIN + "a.pth", TRAIN + "b.pth", TRAIN + "c.pth"]


@case
def pth_that_claims(folder):
    data = [("a/data/0", b"\0\0\0\0")]
    torch_zip(folder / "a.pth", b"\x80\2}U\1a" + torch_tensor([1 << 20, 1 << 20], [0, 0]) + b"s.", data)
    torch_zip(folder / "b.pth", b"\x80\2}U\1a" + torch_tensor([1 << 62, 1 << 62], [1 << 62, 1]) + b"s.", data)
    many = b"".join(b"U\4%04d" % i + torch_tensor([1 << 17], [0]) for i in range(9999))
    torch_zip(folder / "c.pth", b"\x80\2}(" + many + b"u.", data)
    torch_zip(folder / "d.pth", b"\x80\2" + b"]" * (8 << 20))
    torch_zip(folder / "e.pth", b"\x80\2" + b"(" * (8 << 20))
    torch_zip(folder / "f.pth", b"\x80\2Nr\xff\xff\xff\x7f.")
    torch_zip(folder / "g.pth", b"\x80\2]q\0" + b"h\0a" * (2 << 20) + b".")
    most = (1 << 63) - 1
    torch_zip(folder / "h.pth", b"\x80\2}U\1a" + torch_tensor([2, 2], [most, most], offset=1) + b"s.", data)
    return [TRAIN + name + ".pth" for name in "abcdefgh"]


@case
def zips_that_claim(folder):
    torch_zip(folder / "a.pth", b"\x80\2}.", [(f"a/data/{i}", b"") for i in range(60000)])
    whole = (folder / "a.pth").read_bytes()
    end = whole.rindex(b"PK\5\6")
    (folder / "b.pth").write_bytes(whole[:end + 10] + b"\xff" * 10 + whole[end + 20:])
    locator = b"PK\6\7" + struct.pack("<IQI", 0, len(whole) - 100, 1)
    (folder / "c.pth").write_bytes(whole[:end] + locator + whole[end:])
    (folder / "d.pth").write_bytes(b"PK\3\4" + b"PK\5\6" * 20000)
    return [TRAIN + name + ".pth" for name in "abcd"]


@case
def hdf5_by_libhdf5(folder):
    """Files that lead elsewhere, are cut, or have bytes changed where structure is: libhdf5 may crash, in its own process."""
    whole = (Path(__file__).parents[1] / "golden/array/libhdf5/kinds.h5").read_bytes()
    (folder / "a.h5").write_bytes(whole)
    names = []
    for i in range(10):
        changed = bytearray(whole[:len(whole) * (i + 1) // 10] if i % 2 else whole)
        for at in range(8 + 37 * i, len(changed), 211):
            changed[at] ^= 1 << at % 8
        names.append(f"{i}.h5")
        (folder / names[-1]).write_bytes(changed)
    return ([f"cat a.h5/{name}?format=libhdf5" for name in ("outside", "virtual", "link", "through", "group/round/group/round/big")] +
            ["info a.h5?format=libhdf5"] + [f"info {name}?format=libhdf5" for name in names] +
            [f"cat {name}/chunked?format=libhdf5" for name in names])


def hdf5(messages, size=8192, blocks=()):
    """A file of version 0 whose root has one link, x, to a dataset of these messages, with blocks at places of it."""
    def header(messages):
        packed = b"".join(struct.pack("<HHB3x", kind, len(body), 0) + body for kind, body in messages)
        return struct.pack("<BxHIII", 1, len(messages), 1, len(packed), 0) + packed
    file = bytearray(size)
    file[:96] = (b"\x89HDF\r\n\x1a\n" + bytes(5) + b"\x08\x08" + bytes(1) + struct.pack("<HHIQQQQ", 4, 16, 0, 0, 2**64 - 1, size, 2**64 - 1) +
                 struct.pack("<QQQQQ", 0, 96, 0, 0, 0))
    link = header([(6, struct.pack("<BBB", 1, 0, 1) + b"x" + struct.pack("<Q", 512) + bytes(4))])
    data = header(messages)
    file[96:96 + len(link)] = link
    file[512:512 + len(data)] = data
    for at, block in blocks:
        file[at:at + len(block)] = block
    return bytes(file)


def space(*shape):
    return 1, struct.pack("<BBB5x", 1, len(shape), 0) + b"".join(struct.pack("<Q", n) for n in shape)


INT8 = (3, struct.pack("<IIHHI", 0x10, 1, 0, 8, 0))
HDF5 = ["info a.h5", "info a.h5/x", "cat a.h5/x --slice 0:1", "chunks a.h5/x",
        "bench --dataset array:a.h5/x?window=2 --num-batches 2 --num-epochs 1 --train-step-time 0"]


def chunked(address, *chunk):
    body = struct.pack("<BBBQ", 3, 2, len(chunk) + 1, address) + b"".join(struct.pack("<I", n) for n in (*chunk, 1))
    return 8, body + bytes(-len(body) % 8)


def tree(level, entries):
    body = b"".join(struct.pack("<IIQQQ", 1, 0, number, 0, child) for number, child in entries)
    return b"TREE\1" + struct.pack("<BHQQ", level, len(entries), 2**64 - 1, 2**64 - 1) + body


@case
def hdf5_tree_in_itself(folder):
    loops = [(1024, tree(1, [(i, 1024) for i in range(64)])), (4096, tree(2, [(i, 4096) for i in range(64)]))]
    (folder / "a.h5").write_bytes(hdf5([space(4096), INT8, chunked(4096, 1)], 16384, loops))
    return HDF5


@case
def hdf5_tree_of_shared_nodes(folder):
    levels = [(2048 * (i + 2), tree(9 - i, [(0, 2048 * (i + 3))] * 40)) for i in range(9)]
    leaf = [(2048 * 11, tree(0, [(i, 1024) for i in range(40)]))]
    (folder / "a.h5").write_bytes(hdf5([space(4096), INT8, chunked(4096, 1)], 65536, levels + leaf))
    return HDF5


@case
def hdf5_of_endless_shape(folder):
    (folder / "a.h5").write_bytes(hdf5([space(2**62), INT8, chunked(2**64 - 1, 1)]))
    return HDF5


@case
def hdf5_of_large_chunks(folder):
    (folder / "a.h5").write_bytes(hdf5([space(2**32 - 1), INT8, chunked(4096, 2**32 - 2)], blocks=[(4096, tree(0, [(0, 1024)]))]))
    return HDF5


@case
def hdf5_header_that_goes_on_in_itself(folder):
    (folder / "a.h5").write_bytes(hdf5([space(4), INT8] + [(16, struct.pack("<QQ", 512, 200))] * 20))
    return HDF5


@case
def hdf5_header_of_all_the_file(folder):
    messages = [space(4), INT8, (16, struct.pack("<QQ", 1024, 24 << 20))]
    (folder / "a.h5").write_bytes(hdf5(messages, 25 << 20))
    return HDF5


@case
def hdf5_values_outside(folder):
    (folder / "a.h5").write_bytes(hdf5([space(2**40), INT8, (8, struct.pack("<BBQQ6x", 3, 1, 4096, 2**40))]))
    return HDF5


@case
def hdf5_group_in_itself(folder):
    (folder / "a.h5").write_bytes(hdf5([(6, struct.pack("<BBB", 1, 0, 1) + name + struct.pack("<Q", 512) + bytes(4)) for name in (b"a", b"b")]))
    return ["info a.h5", "info a.h5/x", "info a.h5/x/a/b/a/b", "cat a.h5/x/a"]


@case
def hdf5_attribute_of_endless_shape(folder):
    attribute = struct.pack("<BBHHH", 1, 0, 8, 16, 16) + b"a".ljust(8, b"\0") + INT8[1] + space(2**60)[1]
    (folder / "a.h5").write_bytes(hdf5([space(4), INT8, chunked(2**64 - 1, 4), (12, attribute)]))
    return HDF5


# Where an input of a fuzz target stands as a file, and what reads it there.
CORPORA = {
    "jpeg": ("p/a/1.jpg", PICTURES[:2]), "png": ("p/a/1.png", PICTURES[:2]), "npy": ("a.npy", ["cat a.npy", "info npy:a.npy"]),
    "log": ("a.log", ["report a.log"]), "safetensors": ("a.safetensors", ["info a.safetensors"]),
    "zip": ("a.zip", ["info zip:a.zip!/", "info a.zip", "cat zip:a.zip!/a.zarr"]), "pth": ("a.pth", [TRAIN + "a.pth"]),
    "hdf5": ("a.h5", ["info a.h5", "chunks a.h5/masks", "info hdf5:a.h5"]), "npz": ("a.npz", ["info a.npz"]),
    "hdf5_index": (".a.h5.stoker-index", []),
    "options": ("a.yaml", ["train --config a.yaml", "bench --config a.yaml"]),
    "zarr_v3": ("a.zarr/zarr.json", ARRAY[:2]), "zarr_v2": ("a.zarr/.zarray", ARRAY[:2]),
    "zarr_group": ("a.zarr/zarr.json", ["info a.zarr"]), "zarr_shard": ("a.zarr/c/0/0", ["info a.zarr"]),
    "windows": ("a.zarr/zarr.json", ARRAY[:2]), "idx": ("m/train-images-idx3-ubyte", ["info mnist:m"]),
    "cifar": ("m/test_batch.bin", ["info cifar10:m?split=test"]), "pickles": ("m/test_batch", ["info cifar10:m?split=test", "info m"]), "images_index": ("p/.stoker-index", ["info images:p"]),
    "webdataset": ("w/a.tar", ["info webdataset:w?index=none", "info w/a.tar?missing=empty"]),
    "chain": ("a.zarr/zarr.json", ARRAY[:1]), "codecs": ("a.npy", ["cat a.npy"]),
    "tfrecord": ("a.tfrecord", ["info a.tfrecord", "convert a.tfrecord tfrecord:out"]),
}
# Bytes in front that a target takes for itself.
AHEAD = {"npy": 3, "npz": 1, "log": 1, "zarr_v3": 2, "zarr_v2": 2, "zarr_group": 1, "windows": 2, "idx": 3, "cifar": 2, "pickles": 1, "tfrecord": 1, "webdataset": 1}


def from_corpus(path, target):
    def fill(folder):
        name, commands = CORPORA.get(target, (path.name, [f"info {path.name}"]))
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(Path(path).read_bytes()[AHEAD.get(target, 0):])
        return commands

    fill.__name__ = f"corpus/{target}/{path.name}"
    return fill
