# SPDX-License-Identifier: Apache-2.0
"""What others leave in the folder of a cache."""
import os

from cases import CASES, case, zarr

CACHED = "cat cache+a.zarr?dir=cache&size=10MiB"


def with_chunks(folder):
    zarr(folder)
    for i in range(2):
        for j in range(2):
            (folder / f"a.zarr/c/{i}").mkdir(parents=True, exist_ok=True)
            (folder / f"a.zarr/c/{i}/{j}").write_bytes(bytes(range(16)))


def damaged(how):
    def fill(folder):
        with_chunks(folder)
        return [CACHED, f"@damaged.py {how}", CACHED, CACHED]
    fill.__name__ = f"cache_of_{how}"
    CASES.append(fill)


for how in ("longer", "empty", "forged", "noise", "links", "victims", "pipes", "folders"):
    damaged(how)


@case
def cache_in_a_link(folder):
    with_chunks(folder)
    os.symlink("..", folder / "cache")
    return [CACHED]


@case
def cache_in_a_file(folder):
    with_chunks(folder)
    (folder / "cache").write_bytes(b"x")
    return [CACHED]


@case
def cache_of_many_others(folder):
    with_chunks(folder)
    for i in range(300):
        (folder / f"cache/stoker-cache-1/{i:016x}/{i % 256:02x}").mkdir(parents=True)
        (folder / f"cache/stoker-cache-1/{i:016x}/{i % 256:02x}/\x1b[2J").write_bytes(b"x")
    return [CACHED, CACHED]
