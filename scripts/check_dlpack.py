#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Batches of libstoker as NumPy sees them through DLPack: values, types, shapes and strides, and how long they live.

    python3 scripts/check_dlpack.py LIBSTOKER.so

Arrays of every type that NumPy knows are written by NumPy, read through a loader and taken by numpy.from_dlpack(), from
capsules of both versions. Exit code 1 where something differs, 77 where NumPy is missing.
"""
import ctypes as c
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

MAX_RANK, EOS = 8, 1
TYPES = ["bool", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16"]


class Error(c.Structure):
    _fields_ = [("status", c.c_int), ("stage", c.c_int), ("sample", c.c_uint64), ("offset", c.c_uint64), ("key", c.c_char * 256),
                ("text", c.c_char * 640)]


class Table(c.Structure):
    _fields_ = [("name", c.c_char_p), ("doc", c.c_char_p), ("struct_size", c.c_size_t), ("options", c.c_void_p), ("count", c.c_size_t)]


class Tensor(c.Structure):
    _fields_ = [("struct_size", c.c_uint32), ("dtype", c.c_int), ("name", c.c_char_p), ("layout", c.c_int), ("rank", c.c_uint32),
                ("shape", c.c_int64 * (MAX_RANK + 1)), ("data", c.c_void_p), ("offsets", c.POINTER(c.c_uint64))]


lib = c.CDLL(sys.argv[1])
lib.stk_option_table_find.restype = c.POINTER(Table)
lib.stk_dtype_name.restype = c.c_char_p
lib.stk_batch_count.restype = c.c_uint64
lib.stk_batch_dlpack.argtypes = [c.c_void_p, c.c_uint32, c.c_uint32, c.POINTER(c.c_void_p), c.POINTER(Error)]
capsule = c.pythonapi.PyCapsule_New
capsule.restype, capsule.argtypes = c.py_object, [c.c_void_p, c.c_char_p, c.c_void_p]
err = Error()


def ok(status):
    if status != 0:
        sys.exit(f"check_dlpack.py: {err.text.decode()} ({status})")


class Exported:
    """One field of a batch, for one taker."""

    def __init__(self, batch, field, major):
        self.tensor, self.major = c.c_void_p(), major
        ok(lib.stk_batch_dlpack(batch, field, major, c.byref(self.tensor), c.byref(err)))

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **how):
        return capsule(self.tensor, b"dltensor_versioned" if self.major else b"dltensor", None)


class Loader:
    def __init__(self, spec, batch_size):
        self.context, self.dataset, self.loader = c.c_void_p(), c.c_void_p(), c.c_void_p()
        ok(lib.stk_context_create(None, c.byref(self.context), c.byref(err)))
        ok(lib.stk_dataset_open(self.context, spec.encode(), c.byref(self.dataset), c.byref(err)))
        table = lib.stk_option_table_find(b"loader")
        options = c.create_string_buffer(table.contents.struct_size)
        lib.stk_options_init(table, options, c.c_size_t(len(options)))
        for name, text in {"batch_size": batch_size, "epochs": 1, "num_workers": 1, "shuffle": "true"}.items():
            ok(lib.stk_options_set(table, options, name.encode(), str(text).encode(), c.byref(err)))
        ok(lib.stk_loader_create(self.dataset, options, c.byref(self.loader), c.byref(err)))

    def __iter__(self):
        while True:
            batch = c.c_void_p()
            status = lib.stk_loader_next(self.loader, c.c_int64(-1), c.byref(batch), c.byref(err))
            if status == EOS:
                return
            ok(status)
            yield batch
            lib.stk_batch_release(c.byref(batch))

    def close(self):
        lib.stk_loader_destroy(c.byref(self.loader))
        lib.stk_dataset_close(c.byref(self.dataset))
        lib.stk_context_destroy(c.byref(self.context))


def fields(batch):
    i, tensor = 0, Tensor(struct_size=c.sizeof(Tensor))
    while lib.stk_batch_field(batch, i, c.byref(tensor)) == 0:
        yield i, tensor
        i, tensor = i + 1, Tensor(struct_size=c.sizeof(Tensor))


def taken(batch):
    """Every field, by name, as NumPy takes it; equal to the bytes of the batch."""
    found = {}
    for i, t in fields(batch):
        shape = list(t.shape[:t.rank])
        if t.layout != 0:
            shape[0] = t.offsets[shape[0]]
        dtype = np.dtype(lib.stk_dtype_name(t.dtype).decode())
        size = int(np.prod(shape)) * dtype.itemsize
        for major in (0, 1):
            own = np.from_dlpack(Exported(batch, i, major))
            assert own.dtype == dtype and list(own.shape) == shape, (t.name, own.dtype, own.shape, shape)
            assert own.flags.c_contiguous and (not own.size or own.ctypes.data == t.data), f"{t.name} was copied"
            assert own.tobytes() == c.string_at(t.data, size), f"{t.name} has other bytes than the batch"
        found[t.name.decode()] = own
    return found


def check_arrays(folder):
    rng = np.random.default_rng(7)
    for dtype in TYPES:
        for shape in ((10,), (10, 3), (10, 2, 5)):
            data = np.frombuffer(rng.bytes(int(np.prod(shape)) * np.dtype(dtype).itemsize), dtype).reshape(shape)
            data = data.astype("u1").astype("bool") if dtype == "bool" else data
            path = folder / f"{dtype}-{len(shape)}.npy"
            np.save(path, data)
            loader, kept = Loader(f"array:{path}?window={'x'.join(str(n) for n in (1, *shape[1:]))}", 4), []
            for batch in loader:
                kept.append(taken(batch))
            loader.close()
            # The batches are given back and the loader is gone: what NumPy holds is as it was.
            assert sum(len(own["index"]) for own in kept) == 10
            for own in kept:
                values = next(v for k, v in own.items() if k != "index")
                wanted = data[own["index"]]
                assert values.reshape(wanted.shape).tobytes() == wanted.tobytes(), (dtype, shape)


def check_ragged():
    for dtype in ("uint8", "int16", "float32", "float64"):
        loader, total = Loader(f"synthetic:?size=40&shape=2x3&dtype={dtype}&ragged=0..9&value_bytes=1..30", 8), 0
        for batch in loader:
            own, parts = taken(batch), {t.name.decode(): t for _, t in fields(batch)}
            n = lib.stk_batch_count(batch)
            assert own["values"].ndim == own["value"].ndim == 1 and own["value"].dtype == np.uint8
            for name in ("values", "value"):
                offsets = parts[name].offsets[:n + 1]
                assert offsets[0] == 0 and offsets == sorted(offsets) and offsets[n] == own[name].size
                total += own[name].size
        assert total > 0
        loader.close()


with tempfile.TemporaryDirectory() as folder:
    check_arrays(Path(folder))
check_ragged()
print(f"numpy.from_dlpack() took all fields of {len(TYPES)} types, fixed and ragged, in both versions")
