# SPDX-License-Identifier: Apache-2.0
"""Random windows of a dataset of xarray on Zarr, of 4x64x64 in batches of 32: one JSON line.

`--loader xbatcher` is what users have today: a dataset whose __getitem__ is `isel().compute()` with Dask, in PyTorch's
DataLoader. Windows begin anywhere, but with `--loader torch`: an order of PyTorch's is a list, and there they begin at
multiples of 4, 8 and 8.
"""
import argparse
import json
import os
import sys
from typing import Any

import numpy
import xarray

import stoker
import stoker.xarray
from loops import measure

WINDOW, BATCH = {"time": 4, "y": 64, "x": 64}, 32


class Computed:
    """As xbatcher's MapDataset: slices of Dask's arrays, computed and copied into a tensor."""

    def __init__(self, path: str, scheduler: str) -> None:
        self.ds, self.scheduler = xarray.open_zarr(path, consolidated=False), scheduler

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, i: int) -> Any:
        import torch

        rng = numpy.random.default_rng(int(i))
        starts = [int(rng.integers(0, size - n + 1)) for size, n in zip(self.ds["v"].shape, WINDOW.values())]
        box = dict(zip(self.ds["v"].dims, (slice(start, start + n) for start, n in zip(starts, WINDOW.values()))))
        return torch.tensor(self.ds["v"].isel(box).compute(scheduler=self.scheduler).values)


def loader_of(args: argparse.Namespace) -> Any:
    if args.loader == "xbatcher":
        from torch.utils.data import DataLoader

        return DataLoader(Computed(args.data, args.dask), batch_size=BATCH, shuffle=True, num_workers=args.num_workers)
    ds = xarray.open_zarr(args.data, consolidated=False)
    sizes = dict(zip(ds["v"].dims, WINDOW.values()))
    step = (4, 8, 8) if args.loader == "torch" else (1, 1, 1)
    windows = stoker.xarray.windows(ds[["v"]], sizes, stride=dict(zip(ds["v"].dims, step)))
    if args.loader == "torch":
        from stoker.torch import DataLoader as Ours

        return Ours(windows, batch_size=BATCH, shuffle=True, num_workers=args.num_workers, native=True,
                    prefetch_factor=args.prefetch_factor)
    return stoker.Loader(windows, batch_size=BATCH, shuffle="block" if args.loader == "block" else True,
                         num_workers=args.num_workers, output="torch", as_tuple=True, cache=args.cache,
                         prefetch_factor=args.prefetch_factor)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--data", required=True, help="a group with the array v of three dimensions")
    p.add_argument("--loader", choices=("stoker", "block", "torch", "xbatcher"), default="stoker")
    p.add_argument("--dask", default="single-threaded", help="scheduler of xbatcher's workers")
    p.add_argument("--cache", default="auto", choices=("none", "decoded", "auto"))
    p.add_argument("--prefetch_factor", type=int, default=2, help="batches ahead of each worker: chunks that are read once for them")
    p.add_argument("--num_workers", type=int, default=2)
    p.add_argument("--seconds", type=float, default=5)
    args = p.parse_args()
    import torch  # noqa: F401: what an import takes is not the first batch's

    row = measure(lambda: loader_of(args), args.seconds, 0)
    print(json.dumps({"workload": "python-windows", "peer": args.loader, "version": stoker.__version__,
                      "config": {"num_workers": args.num_workers, "cache": args.cache, "prefetch_factor": args.prefetch_factor}, **row}))
    sys.stdout.flush()
    os._exit(0)  # an epoch is under way


if __name__ == "__main__":
    main()
