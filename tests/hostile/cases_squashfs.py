# SPDX-License-Identifier: Apache-2.0
"""Crafted images of SquashFS, as cases.py has other files."""
import struct
import zlib
from pathlib import Path

from cases import case


def squashfs_table(stream):
    """Metadata blocks, and where each begins."""
    out, starts = b"", []
    for at in range(0, len(stream), 8192):
        block = zlib.compress(stream[at:at + 8192])
        starts.append(len(out))
        out += struct.pack("<H", len(block)) + block
    return out, starts


def squashfs(path, inodes, directories, root=0, count=2, log=20):
    """An image without data: the root at a place of the first block of inodes."""
    at = 96 + len(inodes)
    ids = struct.pack("<H", 0x8004) + bytes(4)
    list_at = at + len(directories) + len(ids)
    head = struct.pack("<5I6H8Q", 0x73717368, count, 0, 1 << log, 0, 1, log, 0, 1, 4, 0, root, list_at + 8, list_at, (1 << 64) - 1, 96, at,
                       (1 << 64) - 1, (1 << 64) - 1)
    path.write_bytes(head + inodes + directories + ids + struct.pack("<Q", list_at - len(ids)))


def squashfs_folder(number, listing, place):
    """An extended inode of a folder whose listing begins at a place (metadata block, offset) of the directories."""
    return struct.pack("<4H2I4I2HI", 8, 0o755, 0, 0, 0, number, 2, listing + 3, place[0], number, 0, place[1], (1 << 32) - 1)


def squashfs_entries(names, block, offset, number, kind):
    out = b""
    for at in range(0, len(names), 256):
        run = names[at:at + 256]
        out += struct.pack("<3I", len(run) - 1, block, number)
        out += b"".join(struct.pack("<HhHH", offset, 0, kind, len(name) - 1) + name for name in run)
    return out


@case
def squashfs_that_claims(folder):
    # Tables that decode to 800 MB.
    filler = zlib.compress(bytes(8192))
    filler = (struct.pack("<H", len(filler)) + filler) * 100000
    one, _ = squashfs_table(squashfs_folder(1, 0, (0, 0)) + bytes(8152))
    squashfs(folder / "a.sqfs", one + filler, b"")
    # A file of 1 TiB, all of it a hole.
    blocks = 1 << 20
    large = struct.pack("<4H2I3Q4I", 9, 0o644, 0, 0, 0, 2, 0, 1 << 40, 0, 1, (1 << 32) - 1, 0, (1 << 32) - 1) + bytes(4 * blocks)
    entries = squashfs_entries([b"x"], 0, 40, 2, 2)
    inodes, _ = squashfs_table(squashfs_folder(1, len(entries), (0, 0)) + large)
    squashfs(folder / "b.sqfs", inodes, squashfs_table(entries)[0])
    # The same with more blocks than the inode has.
    inodes, _ = squashfs_table(squashfs_folder(1, len(entries), (0, 0)) + large[:4096])
    squashfs(folder / "c.sqfs", inodes, squashfs_table(entries)[0])
    # Paths of 400 MB: one empty file by many names, fifteen folders of 250 bytes deep.
    depth, names = 15, [b"%06d" % i for i in range(100000)]
    file = struct.pack("<4H2I4I", 2, 0o644, 0, 0, 0, depth + 1, 0, (1 << 32) - 1, 0, 0)
    entry_bytes = len(squashfs_entries([b"d" * 250], 0, 0, 1, 1))
    listing = squashfs_entries(names, 0, 40 * depth, depth + 1, 2)
    stream = b"".join(squashfs_entries([b"d" * 250], 0, 40 * (i + 1), i + 2, 1) for i in range(depth - 1)) + listing
    directories, starts = squashfs_table(stream)
    folders = b"".join(squashfs_folder(i + 1, len(listing) if i == depth - 1 else entry_bytes,
                                       (starts[i * entry_bytes // 8192], i * entry_bytes % 8192)) for i in range(depth))
    squashfs(folder / "d.sqfs", squashfs_table(folders + file)[0], directories, count=depth + 1)
    return ["cat squashfs:a.sqfs!/x", "cat squashfs:b.sqfs!/x?format=raw&dtype=u1 --slice 1000000000000:1000000000009",
            "cat squashfs:c.sqfs!/x?format=raw&dtype=u1 --slice 0:9", "cat squashfs:d.sqfs!/x"]


@case
def squashfs_damaged(folder):
    """Tables with bytes changed, cut at every table, and folders that lie in themselves."""
    whole = (Path(__file__).parents[1] / "golden/store/squashfs/plain.sqfs").read_bytes()
    names = []
    for at in (12, 20, 28, 32, 40, 64, 72, 80, 8302, 8304, 8332, 8336, 8542, 8554, 8562, 8576):
        names.append(f"{at}.sqfs")
        (folder / names[-1]).write_bytes(whole[:at] + b"\xff" + whole[at + 1:])
    for end in struct.unpack_from("<6Q", whole, 48):
        if end < len(whole):
            names.append(f"cut_{end}.sqfs")
            (folder / names[-1]).write_bytes(whole[:end])
    return [f"cat squashfs:{name}!/one?format=raw&dtype=u1" for name in names]
