#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/golden/codec/hdf5.json: chunks as HDF5 and its registered filters write them.

    python3 scripts/make_hdf5_codec_golden.py [FOLDER]

Needs h5py and hdf5plugin. The fields are those of scripts/make_codec_golden.py; "codecs" is the pipeline as the reader
of HDF5 gives it to a chain, the values of each filter as the file has them. "decoded" is what HDF5 reads back. Made
with h5py 3.16.0 (HDF5 2.0.0), hdf5plugin 7.1.0, NumPy 2.4.6.
"""
import base64
import json
import os
import sys

import h5py
import hdf5plugin
import numpy as np
from h5py import h5d, h5p, h5s, h5t, h5z

FOLDER = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "tests", "golden", "codec")

PLAIN = {1: "zlib", 3: "fletcher32", 307: "bz2", 32001: "blosc", 32015: "zstd"}
VALUES = {4: "hdf5.szip", 5: "hdf5.nbit", 6: "hdf5.scaleoffset", 32004: "hdf5.lz4", 32008: "hdf5.bitshuffle",
          32013: "hdf5.zfp"}


def named(name, **configuration):
    return {"name": name, "configuration": configuration}


def data(dtype, shape):
    n = int(np.prod(shape))
    rng = np.random.default_rng(n + np.dtype(dtype).itemsize)
    walk = np.cumsum(rng.integers(-3, 5, n))
    if np.dtype(dtype).kind == "f":
        return (1000 + walk / 7).astype(dtype).reshape(shape)
    return (walk % 120).astype(dtype).reshape(shape)


def even(dtype, shape):
    """Values of few bits: szip keeps no chunk that it cannot make smaller."""
    return np.sort(data("u1", shape) // 4, axis=-1).astype(dtype)


def codecs_of(plist, dtype):
    order = "big" if np.dtype(dtype).newbyteorder("=") != np.dtype(dtype) else "little"
    codecs = [named("bytes", endian=order) if np.dtype(dtype).itemsize > 1 else named("bytes")]
    for i in range(plist.get_nfilters()):
        code, _, values, _ = plist.get_filter(i)
        if code == 2:
            codecs.append(named("shuffle", elementsize=int(values[0])))
        elif code in PLAIN:
            codecs.append(named(PLAIN[code]))
        else:
            codecs.append(named(VALUES[code], values=[int(v) for v in values]))
    return codecs


def case(name, array, filters, kind=None, fill=None, chunk=None):
    """One chunk through a pipeline. `filters`: calls on the property list; `kind`: another type in the file."""
    chunk = chunk or array.shape
    with h5py.File("golden", "w", driver="core", backing_store=False) as f:
        plist = h5p.create(h5p.DATASET_CREATE)
        plist.set_chunk(chunk)
        if fill is not None:
            plist.set_fill_value(np.array(fill, array.dtype))
        for add in filters:
            add(plist)
        space = h5s.create_simple(array.shape)
        kind = kind or h5t.py_create(array.dtype)
        d = h5d.create(f.id, b"x", kind, space, plist)
        d.write(h5s.ALL, h5s.ALL, np.ascontiguousarray(array))
        mask, raw = d.read_direct_chunk((0,) * array.ndim)
        assert mask == 0, (name, mask)
        whole = np.zeros(chunk, array.dtype)
        d.read(h5s.ALL, h5s.ALL, whole)
        codecs = codecs_of(d.get_create_plist(), array.dtype)
    dtype = array.dtype
    little = np.ascontiguousarray(whole.astype(dtype.newbyteorder("<")))
    return {"name": name, "dtype": dtype.newbyteorder("=").name, "itemsize": dtype.itemsize,
            "swap_size": dtype.itemsize, "shape": list(chunk), "exact": False, "read": True,
            "encoded": base64.b64encode(raw).decode(), "decoded": base64.b64encode(little.tobytes()).decode(),
            "codecs": codecs}


def shuffle(p):
    p.set_shuffle()


def deflate(p):
    p.set_deflate(4)


def fletcher(p):
    p.set_fletcher32()


def szip(mask, block):
    return lambda p: p.set_szip(mask, block)


def scale(kind, factor):
    return lambda p: p.set_scaleoffset(kind, factor)


def nbit(p):
    p.set_filter(h5z.FILTER_NBIT, 0, ())


def plugin(filter_):
    return lambda p: p.set_filter(filter_.filter_id, 0, filter_.filter_options)


def bits(base, precision, offset, order=h5t.ORDER_LE):
    kind = base.copy()
    kind.set_precision(precision)
    kind.set_offset(offset)
    kind.set_order(order)
    return kind


def cases():
    # netcdf-c's order and h5py's; 105 elements of 8 bytes and 4 of the sum are no whole number of words of 16
    yield case("fletcher32 shuffle deflate", data("<i4", (7, 15)), [fletcher, shuffle, deflate])
    yield case("fletcher32 shuffle8 deflate", data("<f8", (7, 15)), [fletcher, shuffle, deflate])
    yield case("big fletcher32 shuffle", data(">f8", (7, 15)), [fletcher, shuffle])
    yield case("shuffle deflate fletcher32", data("<i2", (7, 15)), [shuffle, deflate, fletcher])
    yield case("big shuffle deflate fletcher32", data(">f4", (7, 15)), [shuffle, deflate, fletcher])
    for n in (1, 2, 3, 719, 720, 721, 1443):
        yield case(f"fletcher32 {n}", data("u1", (n,)), [fletcher])
    yield case("fletcher32 ones", np.full(16, 255, "u1"), [fletcher])
    for dtype in "u1 <i2 >i2 <u4 >f4 <f8 >i8".split():
        for mask, word in ((h5z.SZIP_NN_OPTION_MASK, "nn"), (h5z.SZIP_EC_OPTION_MASK, "ec")):
            yield case(f"szip {word} {dtype}", even(dtype, (5, 48)), [szip(mask, 16)])
    yield case("szip odd lines", data("<i2", (5, 37)), [szip(h5z.SZIP_NN_OPTION_MASK, 8)])
    yield case("szip odd lines of floats", even("<f4", (5, 37)), [szip(h5z.SZIP_NN_OPTION_MASK, 8)])
    yield case("szip odd lines of doubles", even(">f8", (5, 101)), [szip(h5z.SZIP_EC_OPTION_MASK, 32)])
    yield case("szip block 2", data("u1", (3, 50)), [szip(h5z.SZIP_NN_OPTION_MASK, 2)])
    yield case("shuffle szip fletcher32", even("<i4", (8, 40)), [shuffle, szip(h5z.SZIP_NN_OPTION_MASK, 16), fletcher])
    for precision, offset in ((12, 0), (12, 2), (9, 0), (16, 0), (9, 7), (11, 5)):
        for order, dtype in ((h5t.ORDER_LE, "<u2"), (h5t.ORDER_BE, ">u2")):
            array = data(dtype, (5, 13)) % (1 << min(precision, 15))
            kind = bits(h5t.STD_U16LE, precision, offset, order)
            yield nbit_case(f"nbit {precision} at {offset} {dtype}", array.astype(dtype), kind, offset)
    yield nbit_case("nbit 17", data("<u4", (31,)), bits(h5t.STD_U32LE, 17, 3), 3)
    yield nbit_case("nbit 57", data("<u8", (31,)), bits(h5t.STD_U64LE, 57, 5), 5)
    yield nbit_case("nbit 61 big", data(">u8", (31,)), bits(h5t.STD_U64LE, 61, 0, h5t.ORDER_BE), 0)
    yield nbit_case("nbit deflate", data("<u2", (40,)), bits(h5t.STD_U16LE, 11, 0), 0, [nbit, deflate])
    for dtype in "u1 i1 <i2 >u2 <u4 >i4 <i8 >u8".split():
        for fill in (None, 7):
            yield case(f"scaleoffset {dtype} fill {fill}", data(dtype, (5, 13)), [scale(h5z.SO_INT, 0)], fill=fill)
    wide = data("<i4", (40,))
    wide[3], wide[9] = -2**31, 2**31 - 1
    yield case("scaleoffset all bits but one", wide // 2, [scale(h5z.SO_INT, 0)])
    yield case("scaleoffset constant", np.full(30, -5, "<i2"), [scale(h5z.SO_INT, 0)])
    yield case("scaleoffset no loss", data("<i2", (30,)), [scale(h5z.SO_INT, 16)])
    yield case("scaleoffset given bits", data("<i2", (30,)), [scale(h5z.SO_INT, 8)])
    for dtype in "<f4 >f4 <f8 >f8".split():
        for factor in (0, 1, 3):
            yield case(f"scaleoffset {factor} {dtype}", data(dtype, (5, 13)), [scale(h5z.SO_FLOAT_DSCALE, factor)])
        with_fill = data(dtype, (5, 13))
        with_fill[2, 3:8] = -999
        yield case(f"scaleoffset fill {dtype}", with_fill, [scale(h5z.SO_FLOAT_DSCALE, 2)], fill=-999)
    yield case("scaleoffset shuffle deflate", data("<i4", (40,)), [scale(h5z.SO_INT, 0), shuffle, deflate])
    for block in (0, 256):
        yield case(f"lz4 {block}", data("<i4", (12, 17)), [plugin(hdf5plugin.LZ4(nbytes=block))])
    noise = np.random.default_rng(1).integers(0, 256, 250).astype("u1")
    yield case("lz4 raw block", noise, [plugin(hdf5plugin.LZ4(nbytes=128))])
    for dtype in "u1 <i2 >i2 <f4 <f8".split():
        for cname in ("none", "lz4", "zstd"):
            for nelems in (0, 64):
                for n in (5, 64, 203):
                    if nelems and n != 203:
                        continue
                    yield case(f"bitshuffle {cname} {nelems} {n} {dtype}", data(dtype, (n,)),
                               [plugin(hdf5plugin.Bitshuffle(nelems=nelems, cname=cname))])
    yield case("bitshuffle lz4 many blocks", data("<i4", (50, 90)), [plugin(hdf5plugin.Bitshuffle(cname="lz4"))])
    yield case("blosc", data("<f4", (20, 17)), [plugin(hdf5plugin.Blosc(cname="lz4", clevel=5, shuffle=1))])
    yield case("zstd", data("<f4", (20, 17)), [plugin(hdf5plugin.Zstd())])
    yield case("bzip2", data("<f4", (20, 17)), [plugin(hdf5plugin.BZip2())])
    for dtype in "<i4 <i8 <f4 <f8".split():
        for shape in ((37,), (9, 10), (5, 6, 7), (3, 4, 5, 6)):
            yield case(f"zfp reversible {dtype} {shape}", data(dtype, shape), [plugin(hdf5plugin.Zfp(reversible=True))])
    yield case("zfp rate", data("<f4", (9, 10)), [plugin(hdf5plugin.Zfp(rate=8))])
    yield case("zfp precision", data("<f8", (9, 10)), [plugin(hdf5plugin.Zfp(precision=20))])
    yield case("zfp accuracy", data("<f4", (9, 10)), [plugin(hdf5plugin.Zfp(accuracy=0.01))])
    yield case("zfp expert", data("<f4", (9, 10)), [plugin(hdf5plugin.Zfp(minbits=1, maxbits=16657, maxprec=64,
                                                                         minexp=-1074))])
    yield case("zfp flat dimensions", data("<f4", (1, 9, 1, 10)), [plugin(hdf5plugin.Zfp(reversible=True))])


def nbit_case(name, array, kind, offset, filters=(nbit,)):
    """What the filter gives has the bits at their offset; HDF5's conversion takes them out behind it."""
    c = case(name, array, list(filters), kind)
    raw = np.frombuffer(base64.b64decode(c["decoded"]), array.dtype.newbyteorder("<"))
    c["decoded"] = base64.b64encode((raw << offset).astype(raw.dtype).tobytes()).decode()
    return c


def main():
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, "hdf5.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases()) + "\n]\n")


main()
