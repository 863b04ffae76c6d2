#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the files of tests/golden/safetensors with Python's safetensors, the reference implementation.

    python3 scripts/make_checkpoint_golden.py [FOLDER]
    python3 scripts/make_checkpoint_golden.py --check FILE    reads a file with it and prints what it holds

Element k of a tensor is the number k modulo 100 (of BOOL: modulo 2): tests/golden/checkpoint/test_safetensors_python.c
computes the same. Needs numpy and safetensors, and xxhash to make the files; made with safetensors 0.8.
"""
import ctypes
import json
import os
import struct
import sys

import numpy as np
import safetensors
from safetensors import TensorSpec, deserialize, safe_open, serialize_file

DEFAULT = os.path.join(os.path.dirname(__file__), "..", "tests", "golden", "safetensors")

# Name in the format, name for the package, NumPy's type (BF16: the upper half of a float32).
TYPES = [("F64", "float64", "<f8"), ("F32", "float32", "<f4"), ("F16", "float16", "<f2"), ("BF16", "bfloat16", None),
         ("I64", "int64", "<i8"), ("I32", "int32", "<i4"), ("I16", "int16", "<i2"), ("I8", "int8", "i1"),
         ("U8", "uint8", "u1"), ("U16", "uint16", "<u2"), ("U32", "uint32", "<u4"), ("U64", "uint64", "<u8"),
         ("BOOL", "bool", "?")]


def values(name, numpy_type, shape):
    k = np.arange(int(np.prod(shape)), dtype=np.int64) % (2 if name == "BOOL" else 100)
    if name == "BF16":
        return (k.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    return k.astype(numpy_type).tobytes()


def tensor(dtype, data, shape):
    return {"dtype": dtype, "shape": list(shape), "data": data}


def write(path, tensors, metadata=None):
    """The package wants the memory of the data, which is to live until it is written."""
    kept = {name: ctypes.create_string_buffer(t["data"], len(t["data"]) or 1) for name, t in tensors.items()}
    serialize_file({name: TensorSpec(dtype=t["dtype"], shape=t["shape"], data_ptr=ctypes.addressof(kept[name]),
                                     data_len=len(t["data"])) for name, t in tensors.items()}, path, metadata=metadata)


def stoker_file(path, texts, tensors):
    """A file of Stoker, layout 1, by its description in src/checkpoint/hash.h; tensors are (name, type, shape, bytes)."""
    import xxhash
    header, at = {"__metadata__": {"stoker.layout": "1", "stoker.xxh3": "0" * 32, **texts}}, 0
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    whole = struct.pack("<Q", len(text)) + text + b"".join(data for _, _, _, data in tensors)
    digits = xxhash.xxh3_128(whole).hexdigest().encode()
    with open(path, "wb") as f:
        f.write(whole.replace(b'"' + b"0" * 32 + b'"', b'"' + digits + b'"', 1))


def layout_1(path):
    stoker_file(path, {"epoch": "3", "global_step": "1200"}, [("layer.weight", "F32", (3, 5), values("F32", "<f4", (3, 5)))])


def parts_1(folder, cuts=(0, 4, 4, 15)):
    """The same in parts, by their description in src/checkpoint/checkpoint.h; the second has nothing of the tensor."""
    save, count = "00112233445566778899aabbccddeeff", len(cuts) - 1
    weight = values("F32", "<f4", (3, 5))
    os.makedirs(os.path.join(folder, "checkpoint.parts"), exist_ok=True)
    for k in range(count):
        data = weight[4 * cuts[k]:4 * cuts[k + 1]]
        tensors = [("stoker.range.layer.weight", "F32", (len(data) // 4,), data)]
        texts = {"stoker.part": f"{save} {k} {count}", "global_step": "1200"}
        if k == 0:
            tensors.insert(0, ("stoker.shape.layer.weight", "I64", (2,), struct.pack("<qq", 3, 5)))
            texts["epoch"] = "3"
        name = f"checkpoint.parts/{save}-{k:05}-of-{count:05}.safetensors" if k else "parts_1.ckpt"
        stoker_file(os.path.join(folder, name), texts, tensors)


def make(folder):
    os.makedirs(folder, exist_ok=True)
    every = {"t." + name: tensor(package, values(name, kind, (3, 5)), (3, 5)) for name, package, kind in TYPES}
    write(os.path.join(folder, "types.safetensors"), every,
          {"format": "pt", "quotes \"\\": "line\nend\ttab", "é😀": "日本", "empty": ""})
    shapes = {"scalar": (), "one": (1,), "empty": (0,), "hollow": (2, 0, 3), "eight": (1, 2, 1, 2, 1, 2, 1, 2)}
    write(os.path.join(folder, "shapes.safetensors"),
          {name: tensor("float32", values("F32", "<f4", shape), shape) for name, shape in shapes.items()})
    # Odd sizes: what follows lies at odd addresses.
    write(os.path.join(folder, "odd.safetensors"),
          {"a": tensor("uint8", values("U8", "u1", (3,)), (3,)), "b": tensor("bool", values("BOOL", "?", (5,)), (5,))})
    write(os.path.join(folder, "none.safetensors"), {})
    layout_1(os.path.join(folder, "layout_1.ckpt"))
    parts_1(folder)
    for place, _, names in os.walk(folder):
        for name in sorted(names):
            os.chmod(os.path.join(place, name), 0o644)
            check(os.path.join(place, name), out=open(os.devnull, "w", encoding="utf-8"))


def check(path, out=sys.stdout):
    """One line for each text and tensor, sorted by name: `name|dtype|shape|hex of the bytes`."""
    with safe_open(path, framework="np") as f:
        texts = dict(f.metadata() or {})
        names = set(f.keys())
    with open(path, "rb") as f:
        tensors = deserialize(f.read())
    assert names == {name for name, _ in tensors}
    for name in sorted(texts):
        if not name.startswith("stoker."):
            print(f"{name}={texts[name]}", file=out)
    for name, t in sorted(tensors):
        shape = "x".join(str(n) for n in t["shape"])
        print(f"{name}|{t['dtype']}|{shape}|{bytes(t['data']).hex()}", file=out)


def main():
    if len(sys.argv) > 2 and sys.argv[1] == "--check":
        check(sys.argv[2])
    else:
        make(sys.argv[1] if len(sys.argv) > 1 else DEFAULT)
        print("safetensors", safetensors.__version__)


if __name__ == "__main__":
    main()
