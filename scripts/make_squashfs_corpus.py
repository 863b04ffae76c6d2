#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write fuzz/corpus/squashfs from the images of tests/golden/store/squashfs: one of each compressor, and of each kind of table."""
import shutil
from pathlib import Path

SEEDS = ("nothing", "links", "many", "large", "plain", "gzip_1m", "gzip_always", "lzma", "xz", "lz4_hc", "zstd", "ng_gzip", "deep")


def main():
    root = Path(__file__).resolve().parent.parent
    corpus = root / "fuzz/corpus/squashfs"
    corpus.mkdir(parents=True, exist_ok=True)
    for name in SEEDS:
        shutil.copyfile(root / f"tests/golden/store/squashfs/{name}.sqfs", corpus / name)


main()
