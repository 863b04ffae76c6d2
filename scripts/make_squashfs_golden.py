#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images of SquashFS, written by mksquashfs (squashfs-tools 4.5.1) and gensquashfs (squashfs-tools-ng 1.2.0).

    make_squashfs_golden.py tests/golden/store/squashfs

Writes IMAGE.sqfs and golden.txt, which says what is in each image: `image NAME`, then a line for every folder (`d PATH`) and file
(`f PATH SEED PARTS`), and for what is neither (`o PATH`). A part is a kind and a number of bytes: t text, which compresses, n noise, which does not, z zeros, which
are a hole. tests/support/squash_tree.h makes the same bytes.
"""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TIME = 1700000000
SMALL = [
    ("empty", ""), ("one", "t1"), ("below", "t4095"), ("block", "t4096"), ("above", "t4097"), ("blocks", "t20000"),
    ("noise", "n300"), ("hole", "t4096,z12288,t5"), ("hollow", "z9000"), ("sub/one", "t1"), ("sub/deep/er", "t5000"),
    ("sub/\u00e4\u00f6", "t17"),
]
MIXED = SMALL + [("raw", "n4096,t4096,n4000")]
MANY = [(f"many/a_rather_long_name_of_a_small_file_{n:03}", "t3" if n == 7 else "") for n in range(300)] + [("z", "t10")]
LARGE = [("large", "t300000"), ("holes", "z300000,t4096,z300000,t1")]
KEEP = ["-noappend", "-quiet", "-no-progress", "-nopad", "-all-root", "-processors", "1", "-mkfs-time", str(TIME), "-all-time", str(TIME)]
PLAIN = ["-noI", "-noD", "-noF", "-noX"]
SMALLEST = ["-b", "4K", "-no-xattrs"]

# Images that are there to be refused.
REFUSED = ("lzo", "deep")

# The image pictures.sqfs: folders of classes.
PICTURES = ("a/one.jpg", "a/seven.jpg", "a/flat.jpg", "b/one.png", "b/palette_1.png", "b/thin.png")

# name: (files, arguments)
IMAGES = {
    "gzip": (MIXED, SMALLEST),
    "gzip_apart": (SMALL, SMALLEST + ["-no-fragments"]),
    "gzip_always": (SMALL, SMALLEST + ["-always-use-fragments"]),
    "gzip_128k": (SMALL, ["-b", "128K", "-no-xattrs"]),
    "gzip_1m": (SMALL, ["-b", "1M", "-no-xattrs", "-no-exports"]),
    "zstd": (SMALL, SMALLEST + ["-comp", "zstd"]),
    "zstd_apart": (SMALL, SMALLEST + ["-comp", "zstd", "-no-fragments"]),
    "lz4": (SMALL, SMALLEST + ["-comp", "lz4"]),
    "lz4_hc": (SMALL, SMALLEST + ["-comp", "lz4", "-Xhc", "-no-fragments"]),
    "xz": (SMALL, SMALLEST + ["-comp", "xz"]),
    "xz_x86": (SMALL, SMALLEST + ["-comp", "xz", "-Xbcj", "x86", "-no-fragments"]),
    "lzma": (SMALL, SMALLEST + ["-comp", "lzma"]),
    "lzo": ([("one", "t1")], SMALLEST + ["-comp", "lzo"]),
    "deep": ([("/".join("d" * 70) + "/f", "")], SMALLEST),
    "no_data": ([("text", "t9000"), ("sub/tail", "t100")], SMALLEST + ["-noD", "-noF"]),
    "plain": ([("one", "t1"), ("blocks", "t8200"), ("sub/deep/er", "t5"), ("sub/z", "")], SMALLEST + PLAIN),
    "many": (MANY, SMALLEST),
    "large": (LARGE, SMALLEST),
    "nothing": ([], SMALLEST),
    "links": ([("one", "t5000"), ("two", "=one"), ("sub/three", "=one"), ("same", "t5000")], ["-b", "4K"]),
    "ng_gzip": (SMALL, None),
}


def content(seed, parts):
    out = bytearray()
    for part in filter(None, parts.split(",")):
        kind, length = part[0], int(part[1:])
        if kind == "z":
            out += bytes(length)
        elif kind == "t":
            out += bytes(97 + (i // 8 + seed * 7) % 26 for i in range(length))
        else:
            x = seed
            for _ in range(length):
                x = (x * 1664525 + 1013904223) & 0xffffffff
                out.append(x >> 24)
    return bytes(out)


def write_tree(folder, files):
    """The files, and what a line of golden.txt says of each."""
    lines, folders, known = [], [], {}
    for seed, (path, parts) in enumerate(files):
        for parent in reversed(Path(path).parents):
            if str(parent) != "." and str(parent) not in folders:
                folders.append(str(parent))
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        if parts.startswith("="):
            os.link(folder / parts[1:], folder / path)
            seed, parts = known[parts[1:]]
        elif path == "same":
            seed, parts = known["one"]
            (folder / path).write_bytes(content(seed, parts))
        else:
            (folder / path).write_bytes(content(seed, parts))
        known[path] = seed, parts
        lines.append(f"f {path} {seed} {parts or '-'}")
    return [f"d {path}" for path in folders] + lines


def main():
    out = Path(sys.argv[1]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, (files, arguments) in IMAGES.items():
        image = out / f"{name}.sqfs"
        with tempfile.TemporaryDirectory() as scratch:
            tree = Path(scratch) / "tree"
            tree.mkdir()
            said = write_tree(tree, files)
            if name == "links":
                os.symlink("one", tree / "link")
                said += ["o link", "o pipe"]
                os.mkfifo(tree / "pipe")
                os.setxattr(tree / "one", "user.note", b"an attribute")
            if arguments is None:
                subprocess.run(["gensquashfs", "-q", "-f", "-D", tree, "-b", "4096", "-c", "gzip", "-d", f"mtime={TIME},uid=0,gid=0", "-j", "1",
                                image], check=True, stdout=subprocess.DEVNULL)
            else:
                subprocess.run(["mksquashfs", tree, image, *KEEP, *arguments], check=True, stdout=subprocess.DEVNULL)
        if name not in REFUSED:
            lines += [f"image {name}", *said]
    with tempfile.TemporaryDirectory() as scratch:
        for path in PICTURES:
            (Path(scratch) / path).parent.mkdir(exist_ok=True)
            shutil.copyfile(out.parents[1] / "images" / Path(path).name, Path(scratch) / path)
        subprocess.run(["mksquashfs", scratch, out / "pictures.sqfs", *KEEP, *SMALLEST, "-noD"], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as scratch:  # an image that holds another
        shutil.copyfile(out / "zstd.sqfs", Path(scratch) / "zstd.sqfs")
        os.utime(scratch, (TIME, TIME))
        subprocess.run(["mksquashfs", scratch, out / "holder.sqfs", *KEEP, *SMALLEST], check=True, stdout=subprocess.DEVNULL)
    (out / "golden.txt").write_text("\n".join(lines) + "\n")


main()
