# SPDX-License-Identifier: Apache-2.0
"""Forecasts from windows of a dataset of xarray: three steps of two variables, and what follows.

    python examples/python/climate_windows.py --data era5.zarr --variables t2m u10

The dataset has dimensions time, lat and lon and is opened as always; the windows are cut in C, without Dask and without
worker processes. Without --data a field that the wind carries along is made, packed into 16 bits as archives have it.
"""
import argparse
import logging
import tempfile

import numpy
import torch
import xarray
from torch import nn

import stoker
import stoker.xarray

STEPS = 3  # that are given; the next one is asked for


def make(path, times, size):
    """Waves that move east with the wind, which differs from row to row."""
    time, lat, lon = numpy.ogrid[:times, :size, : 2 * size]
    wind = 1 + 0.5 * numpy.sin(2 * numpy.pi * lat / size)
    place = 2 * numpy.pi * (lon - wind * time) / size
    field = 280 + 8 * numpy.sin(2 * place) + 4 * numpy.cos(5 * place + lat / 3)
    dims = ("time", "lat", "lon")
    ds = xarray.Dataset({"t2m": (dims, field), "u10": (dims, numpy.broadcast_to(wind, field.shape) + numpy.zeros(field.shape))})
    packed = {"dtype": "int16", "scale_factor": 0.01, "_FillValue": -32768, "chunks": (16, 32, 32)}
    ds.to_zarr(path, encoding={"t2m": {**packed, "add_offset": 280.0}, "u10": packed}, consolidated=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a Zarr group")
    parser.add_argument("--variables", nargs="+", default=["t2m", "u10"], help="the first one is forecast")
    parser.add_argument("--size", type=int, default=32, help="of a window along lat and lon")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a small dataset, three epochs")
    given = parser.parse_args()
    epochs = 3 if given.quick else given.epochs
    logging.basicConfig(level=logging.INFO)  # what is read natively, or why not

    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        if given.data is None:
            given.data = f"{folder}/made.zarr"
            make(given.data, 48 if given.quick else 400, 64)
        ds = xarray.open_zarr(given.data, consolidated=None)[given.variables]
        mean, std = float(ds[given.variables[0]][:8].mean()), float(ds[given.variables[0]][:8].std())
        sizes = {"time": STEPS + 1, "lat": given.size, "lon": given.size}
        windows = stoker.xarray.windows(ds, sizes, stride={"time": 1})
        model = nn.Sequential(nn.Conv2d(STEPS * len(given.variables), 32, 5, padding=2), nn.GELU(), nn.Conv2d(32, 1, 5, padding=2))
        optimizer = torch.optim.Adam(model.parameters(), 3e-3)
        with stoker.Loader(windows, batch_size=16, shuffle="block", output="torch", seed=1) as loader:
            print(f"{windows}: {loader.num_samples} windows")
            for epoch in range(epochs):
                losses = []
                for batch in loader:
                    first = (batch[given.variables[0]] - mean) / std
                    inputs = torch.cat([first[:, :STEPS], *(batch[name][:, :STEPS] for name in given.variables[1:])], 1)
                    last, target = first[:, STEPS - 1], first[:, STEPS]
                    loss = nn.functional.mse_loss(last + model(inputs)[:, 0], target)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    losses.append((loss.item(), nn.functional.mse_loss(last, target).item()))
                ours, same = numpy.mean(losses, 0)
                print(f"epoch {epoch}: error {ours:.5f}, of no change {same:.5f}")
            print(loader.verdict())


if __name__ == "__main__":
    main()
