# SPDX-License-Identifier: Apache-2.0
"""Packed pictures that claim more than there is, and pictures that are to be packed."""
from cases import case, jpeg_of_scans, zarr


def packed(folder, **arrays):
    """Packed pictures whose arrays claim these shapes and chunks, of types; nothing of them is there."""
    (folder / "p.zarr").mkdir()
    (folder / "p.zarr/zarr.json").write_text('{"zarr_format":3,"node_type":"group","attributes":{"stoker_packed":1}}')
    for name, (dtype, shape, chunk, codecs) in arrays.items():
        zarr(folder, f"p.zarr/{name}", shape=shape, data_type=dtype, codecs=codecs,
             chunk_grid={"name": "regular", "configuration": {"chunk_shape": chunk}})
    return ["info images:p.zarr", "info p.zarr",
            "bench --dataset images:p.zarr --transforms random_resized_crop(8) --batch-size 1 --num-batches 2 --num-epochs 1 --train-step-time 0"]


LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
SHARDS = {"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 8, 8, 3], "codecs": [LITTLE, {"name": "crc32c"}],
                                                        "index_codecs": [LITTLE, {"name": "crc32c"}]}}


@case
def packed_of_many_rows(folder):
    n = 1 << 40
    return packed(folder, image=("uint8", [n, 8, 8, 3], [1, 8, 8, 3], [LITTLE]), label=("int64", [n], [n], [LITTLE]))


@case
def packed_of_many_shards(folder):
    n = 1 << 36
    return packed(folder, image=("uint8", [n, 8, 8, 3], [2, 8, 8, 3], [SHARDS]), label=("int64", [n], [1 << 20], [LITTLE]))


@case
def packed_of_giant_pictures(folder):
    side = 1 << 20
    return packed(folder, image=("uint8", [2, side, side, 3], [1, side, side, 3], [LITTLE]), label=("int64", [2], [2], [LITTLE]))


@case
def packed_of_many_places(folder):
    n = 1 << 33
    return packed(folder, bytes=("uint8", [1 << 50], [1 << 50], [LITTLE]), offset=("int64", [n], [n], [LITTLE]),
                  shape=("int64", [n, 3], [n, 3], [LITTLE]), label=("int64", [n], [n], [LITTLE]))


@case
def packed_of_pictures_that_are_bombs(folder):
    (folder / "p/a").mkdir(parents=True)
    for i in range(4):
        (folder / f"p/a/{i}.jpg").write_bytes(jpeg_of_scans((7680, 2560)[i > 0], 9))
    return ["convert p to.zarr --size 8 --shard-size 4096 -q", "convert p to1.zarr --short-side 8 --shard-size 4096 -q --on-error skip"]
