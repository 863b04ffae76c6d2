# SPDX-License-Identifier: Apache-2.0
"""Zip archives as stores."""
import struct
import zipfile
import zlib

from cases import case

ZIP = ["info zip:a.zip!/", "info a.zip", "cat zip:a.zip!/a.zarr", "bench --dataset images:zip:a.zip!/?index=none --num-batches 1 "
       "--num-epochs 1 --train-step-time 0"]


@case
def zip_of_many_names(folder):
    with zipfile.ZipFile(folder / "a.zip", "w") as z:
        for i in range(40000):
            z.writestr(f"{i}/{'x' * 200}", b"")
    return ZIP


@case
def zip_that_overlaps(folder):
    """One kernel of deflated zeros that all entries of the directory point to."""
    kernel = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = kernel.compress(bytes(16 << 20)) + kernel.flush()
    sizes = struct.pack("<III", zlib.crc32(bytes(16 << 20)), len(data), 16 << 20)
    local = b"PK\3\4" + struct.pack("<HHHHH", 20, 0, 8, 0, 0) + sizes + struct.pack("<HH", 5, 0) + b"0.jpg"
    entries = b"".join(b"PK\1\2" + struct.pack("<HHHHHH", 20, 20, 0, 8, 0, 0) + sizes + struct.pack("<HHHHHII", 5, 0, 0, 0, 0, 0, 0) +
                       b"%05d" % i for i in range(20000))
    (folder / "a.zip").write_bytes(local + data + entries + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 20000, 20000, len(entries),
                                                                                  len(local) + len(data), 0))
    return ZIP


@case
def zip_that_unpacks_to_much(folder):
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as z:
        for i in range(3):
            z.writestr(f"{i}.jpg", b"\xff\xd8\xff\xe0" + bytes(200 << 20))
        z.writestr("a.zarr/zarr.json", b" " * (100 << 20))
    return ZIP


@case
def zip_of_names_with_controls(folder):
    with zipfile.ZipFile(folder / "a.zip", "w") as z:
        z.writestr("\x1b[2J\x1b]0;owned\x07.jpg", b"x")
        z.writestr("a\x1b[31m/b.jpg", b"x")
    (folder / "b.zip").write_bytes((folder / "a.zip").read_bytes().replace(b"a\x1b[31m/b.jpg", b"../\x1b[31m/.jpg"))
    return ZIP + ["info zip:b.zip!/"]


@case
def zip_ends_without_end(folder):
    (folder / "a.zip").write_bytes(b"PK\3\4" + b"PK\5\6" * 200000)
    end64 = struct.pack("<IQHHIIQQQQ", 0x06064b50, 44, 45, 45, 0, 0, 1 << 60, 1 << 60, 1 << 63, 0)
    locator = struct.pack("<IIQI", 0x07064b50, 0, 0, 1)
    (folder / "b.zip").write_bytes(end64 + locator + b"PK\5\6" + b"\xff" * 16 + bytes(2))
    return ZIP + ["info zip:b.zip!/"]


NPZ = ["info npz:a.npz", "info a.npz", "bench --dataset a.npz --num-batches 2 --num-epochs 1 --train-step-time 0"]


def npy(shape, data, descr="|u1"):
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + data


@case
def npz_that_unpacks_to_much(folder):
    with zipfile.ZipFile(folder / "a.npz", "w", zipfile.ZIP_DEFLATED) as z:
        for name in "abcd":
            z.writestr(name + ".npy", npy("(1000, 204800)", bytes(1000 * 204800)))
    return NPZ


@case
def npz_that_claims(folder):
    with zipfile.ZipFile(folder / "a.npz", "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("a.npy", npy("(4294967296, 4294967296, 2)", bytes(100), "<f8"))
    with zipfile.ZipFile(folder / "b.npz", "w") as z:
        z.writestr("a.npy", npy("(9223372036854775807,)", bytes(100)))
        z.writestr("b.npy", npy("(2,)", b"\x80\2cos\nsystem\nU\x14echo changed > victim\x85R.", "|O"))
    return NPZ + ["info npz:b.npz", "info npz:b.npz?fields=b"]


@case
def npz_of_many_members(folder):
    with zipfile.ZipFile(folder / "a.npz", "w") as z:
        for i in range(20000):
            z.writestr(f"{i}.npy", npy("(3,)", b"abc"))
    return NPZ + ["info npz:a.npz?fields=7,19999", "info npz:a.npz?fields=x"]


@case
def npz_of_names_with_controls(folder):
    with zipfile.ZipFile(folder / "a.npz", "w") as z:
        z.writestr("\x1b[2Ja\tb\n.npy", npy("(3,)", b"abc"))
        z.writestr("x\x1b[2J\n.npy", npy("(4,)", b"abcd"))
        z.writestr("y.npy", npy("(3,)", b"abc"))
    return NPZ
