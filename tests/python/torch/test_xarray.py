# SPDX-License-Identifier: Apache-2.0
"""stoker.xarray against xarray: values of windows, what is read natively and why not, loaders; stoker.Array against zarr-python."""
import logging
import os
import pickle
import random
import shutil
import tempfile
import unittest
import warnings
from pathlib import Path

import numpy
import torch
import xarray
import zarr

import stoker
import stoker.dask
import stoker.torch
import stoker.xarray
from stoker import _xarray

warnings.filterwarnings("ignore", module="zarr")
warnings.filterwarnings("ignore", message=".*multi-threaded.*fork.*")


def made(rng, times=20, lats=16, lons=18):
    """Values of several kinds, a mask among them, a variable without time."""
    dims, shape = ("time", "lat", "lon"), (times, lats, lons)
    plain = rng.normal(size=shape).astype("f4")
    packed = rng.integers(-500, 500, shape) / 10 + 5.0
    packed[rng.random(shape) < 0.1] = numpy.nan
    double = rng.normal(size=shape)
    return xarray.Dataset(
        {"t": (dims, plain), "p": (dims, packed), "d": (dims, double), "land": (dims[1:], rng.integers(0, 9, shape[1:]).astype("i2"))},
        coords={"time": numpy.arange(times), "lat": numpy.linspace(0, 45, lats), "lon": numpy.arange(lons) * 2.0},
    )


def write(ds, path, version, chunks=(5, 8, 7)):
    packed = {"dtype": "i2", "scale_factor": 0.1, "add_offset": 5.0, "_FillValue": -999}
    encoding = {name: {"chunks": chunks[-ds[name].ndim:]} for name in ds.data_vars}
    if "p" in encoding:
        encoding["p"].update(packed)
    ds.to_zarr(path, encoding=encoding, zarr_format=version, consolidated=True)


def doubled(block, box):
    """With the arguments of an index, and none."""
    return block[box] * 2


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.paths = {version: f"{cls.folder}/v{version}.zarr" for version in (2, 3)}
        for version, path in cls.paths.items():
            write(made(numpy.random.default_rng(version)), path, version)

    def opened(self, version=3, **options):
        return xarray.open_zarr(self.paths[version], **{"chunks": None, **options})

    def same(self, windows, ds, indices=None):
        """Every window has the values of xarray, as float32."""
        for i in range(len(windows)) if indices is None else indices:
            wanted, got = ds.isel(windows.place(i)), windows[i]
            self.assertEqual(list(got), [str(name) for name in ds.data_vars])
            for name in ds.data_vars:
                self.assertEqual(got[name].dtype, numpy.float32)
                numpy.testing.assert_array_equal(got[name], wanted[name].values.astype("f4"), (i, name))


class Values(Case):
    def test_random_selections(self):
        draw = random.Random(3)
        for round in range(40):
            ds = self.opened(draw.choice((2, 3)), chunks=draw.choice((None, None, {})))[draw.choice((["t"], ["p", "t"], ["d", "land", "p"], ["land"]))]
            lists = ds.chunks == {}
            for _ in range(draw.randrange(3)):
                dim = draw.choice(list(ds.dims) or ["none"])
                if dim == "none" or ds.sizes[dim] < 4:
                    continue
                size = ds.sizes[dim]
                ds = ds.isel({dim: draw.choice([
                    draw.randrange(size), slice(draw.randrange(3), size - draw.randrange(3)), slice(None, None, draw.choice([2, -1, -2])),
                    draw.sample(range(-size, size), 3) if lists else slice(1, None), numpy.int64(2)])})
            sizes = {dim: draw.randrange(1, min(5, size) + 1) for dim, size in ds.sizes.items() if draw.random() < 0.7 and dim in ds.dims}
            sizes = {dim: size for dim, size in sizes.items() if any(dim in ds[name].dims for name in ds.data_vars)}
            stride = {dim: draw.randrange(1, 6) for dim in sizes if draw.random() < 0.5}
            with self.subTest(ds=ds, sizes=sizes, stride=stride):
                windows = stoker.xarray.windows(ds, sizes, stride=stride)
                self.assertEqual(windows.reasons, {})
                places = [tuple(part.start for part in windows.place(i).values()) for i in range(len(windows))]
                wanted = 1
                for dim in {dim for name in ds.data_vars for dim in ds[name].dims}:
                    size = sizes.get(dim, ds.sizes[dim])
                    wanted *= (ds.sizes[dim] - size) // stride.get(dim, size) + 1
                self.assertEqual((len(places), len(set(places))), (wanted, wanted))
                self.same(windows, ds, draw.sample(range(len(windows)), min(9, len(windows))))

    def test_the_loader_has_the_same_windows_under_the_same_numbers(self):
        draw = random.Random(5)
        found = 0
        for round in range(40):
            version = draw.choice((2, 3))
            ds = self.opened(version, chunks=draw.choice((None, {})))[draw.choice((["t"], ["d", "t"], ["d", "land"], ["p", "t"]))]
            for dim in draw.sample(["time", "lat", "lon"], draw.randrange(3)):
                if dim in ds.dims:
                    low = draw.randrange(4)
                    ds = ds.isel({dim: draw.choice([slice(low, ds.sizes[dim] - draw.randrange(4)), draw.randrange(ds.sizes[dim])])})
            sizes = {dim: draw.randrange(1, 6) for dim in ds.dims if draw.random() < 0.8}
            stride = {dim: draw.randrange(1, 6) for dim in sizes if draw.random() < 0.6}
            windows = stoker.xarray.windows(ds, sizes, stride=stride)
            if version == 2 and "p" in ds:  # its missing value is no attribute
                self.assertIsNone(windows.spec)
                self.assertIn("decoded otherwise", windows.why_not)
                continue
            with self.subTest(spec=windows.spec):
                with stoker.Loader(windows, batch_size=7, shuffle=draw.choice((True, "block"))) as loader:
                    self.assertEqual(loader.num_samples, len(windows))
                    self.assertEqual(loader.fields, (*windows.fields, "index"))
                    for batch in loader:
                        for row, i in enumerate(batch["index"].tolist()):
                            for name, values in windows[i].items():
                                numpy.testing.assert_array_equal(batch[name][row], values)
                found += 1
        self.assertGreater(found, 25)

    def test_place(self):
        windows = stoker.xarray.windows(self.opened()[["t"]], {"time": 4, "lat": 8})
        self.assertEqual(len(windows), 5 * 2)
        self.assertEqual(windows.place(0), {"time": slice(0, 4), "lat": slice(0, 8), "lon": slice(0, 18)})
        self.assertEqual(windows.place(-1)["lat"], slice(8, 16))
        numpy.testing.assert_array_equal(windows[-1]["t"], windows[9]["t"])
        for index in (10, -11):
            self.assertRaises(IndexError, windows.place, index)

    def test_an_array_of_xarray(self):
        windows = stoker.xarray.windows(self.opened().t, {"time": 4})
        self.assertEqual(windows.fields, ("t",))
        self.same(windows, self.opened()[["t"]])

    def test_bad_windows(self):
        ds = self.opened()
        for sizes, stride, words in (({"tme": 4}, {}, "no dimension 'tme'"), ({"time": 21}, {}, "does not fit"), ({"time": 0}, {}, "does not fit"),
                                     ({"time": 4}, {"time": 0}, "stride of 0"), ({}, {"x": 1}, "no dimension 'x'")):
            with self.assertRaisesRegex(stoker.InvalidError, words):
                stoker.xarray.windows(ds, sizes, stride=stride)
        for given, options, words in (("era5.zarr", {"sizes": {}}, "this is a str"), (ds, {"sizes": 4}, "sizes is a int"),
                                      (ds, {"sizes": {"time": 2.5}}, "size along 'time' is 2.5: give a whole number"),
                                      (ds, {"sizes": {"time": 4}, "stride": {"time": "2"}}, "stride along 'time' is '2'"),
                                      (ds, {"sizes": {"time": 4}, "stride": 1}, "stride is a int"),
                                      (ds, {"sizes": {"time": 4}, "dask": stoker.dask.Dask("off"), "shared": True}, "shared is for dask as a text")):
            with self.assertRaisesRegex(TypeError, words):
                stoker.xarray.windows(given, **options)
        with self.assertRaisesRegex(TypeError, "xarray.windows"):
            stoker.Loader(ds)


class Ways(Case):
    def test_why_not_natively(self):
        lazy = self.opened(chunks={})[["t"]]
        points = xarray.DataArray([1, 2, 3], dims="point")
        for make, words in (
                (lambda ds: ds.astype("f8"), "in memory"), (lambda ds: ds.load(), "in memory"), (lambda ds: ds + 1, "in memory"),
                (lambda ds: ds.transpose("lon", "lat", "time"), "transposed"), (lambda ds: ds.isel(lat=points, lon=points), "points"),
                (lambda ds: lazy + 1, "Dask"), (lambda ds: lazy.where(lazy.t > 0), "Dask"), (lambda ds: lazy.chunk(time=20), "Dask"),
                (lambda ds: lazy.transpose("lon", "lat", "time"), "Dask"), (lambda ds: lazy.isel(lon=[3, 1]), "Dask"),
                (lambda ds: xarray.Dataset({"t": (lazy.t.dims, lazy.t.data.map_blocks(doubled, (slice(None),) * 3, dtype="f4"))}), "Dask"),
                (lambda ds: xarray.concat([lazy, lazy], "time"), "Dask"), (lambda ds: lazy.shift(time=1), "Dask")):
            given, sizes = make(self.opened()[["t"]]), {"time": 2}  # what is read once is in memory
            with self.subTest(words=words, ds=given), self.assertLogs("stoker", logging.WARNING) as log:
                windows = stoker.xarray.windows(given, sizes)
            self.assertEqual(len(log.output), 1)
            self.assertRegex(log.output[0], f"windows of t are loaded through xarray: .*{words}")
            self.assertEqual(list(windows.reasons), ["t"])
            self.same(windows, given, range(0, len(windows), 4))
            with self.assertRaisesRegex(stoker.InvalidError, "not read natively"):
                stoker.Loader(windows)

    def test_each_variable_by_itself(self):
        ds = self.opened()
        mixed = ds[["t"]].assign(q=ds.p * 2, r=ds.d.load())
        with self.assertLogs("stoker", logging.WARNING) as log:
            windows = stoker.xarray.windows(mixed, {"time": 3})
        self.assertEqual(len(log.output), 1)
        self.assertIn("windows of q, r are", log.output[0])
        self.same(windows, mixed)

    def test_natively_is_said_as_well(self):
        with self.assertLogs("stoker", logging.INFO) as log:
            stoker.xarray.windows(self.opened()[["t"]], {"time": 3})
        self.assertEqual(log.output, ["INFO:stoker:windows of t are read natively"])

    def test_opened_without_decoding(self):
        ds = self.opened(3, mask_and_scale=False)[["p"]]
        windows = stoker.xarray.windows(ds, {"time": 3})
        self.assertEqual(windows.reasons, {})
        self.assertIn("decoded otherwise", windows.why_not)
        self.same(windows, ds)

    def test_times(self):
        ds = xarray.Dataset({"when": ("x", numpy.array(["2020-01-01", "2021-02-03", "2022-03-04"], "M8[ns]")), "y": ("x", [1.0, 2.0, 3.0])})
        path = f"{self.folder}/times.zarr"
        ds.to_zarr(path)
        given = xarray.open_zarr(path, chunks=None)
        windows = stoker.xarray.windows(given[["y"]], {"x": 1})
        self.assertIsNotNone(windows.spec)
        windows = stoker.xarray.windows(given, {"x": 1})
        self.assertIsNone(windows.spec)

    def test_another_xarray(self):
        """What xarray or Dask keep in another way than known here is loaded through xarray."""
        class Odd:
            shape, dtype, ndim = (20,), numpy.dtype("f4"), 1
            array = 3

        class Variable:
            _data = Odd()
        with self.assertRaises(_xarray.Unreadable):
            _xarray.find(Variable())

    def test_files_of_netcdf_as_soon_as_the_library_reads_them(self):
        values = numpy.arange(60.0).reshape(20, 3)
        os.makedirs(f"{self.folder}/file.nc/group")
        numpy.save(f"{self.folder}/file.nc/group/x.npy", values)

        class NetCDF4ArrayWrapper(xarray.backends.BackendArray):  # what xarray has of a file, group and variable
            class datastore:
                _filename, _group = f"{self.folder}/file.nc", "/group"
            variable_name, shape, dtype = "x.npy", values.shape, values.dtype

        lazy = xarray.core.indexing.LazilyIndexedArray(NetCDF4ArrayWrapper())
        ds = xarray.Dataset({"x": xarray.Variable(("a", "b"), lazy)}).isel(a=slice(3, 15, 2))
        windows = stoker.xarray.windows(ds, {"a": 2})
        self.assertEqual(windows.reasons, {})
        numpy.testing.assert_array_equal(windows[1]["x"], values[7:11:2])


class Loaders(Case):
    def check(self, loader, windows):
        seen = []
        for batch in loader:
            for row in range(len(batch["t"])):
                seen.append({name: batch[name][row].numpy() for name in batch})
        self.assertEqual(len(seen), len(windows))
        for i, sample in enumerate(seen):
            for name, values in windows[i].items():
                numpy.testing.assert_array_equal(sample[name], values)

    def test_loaders_of_pytorch(self):
        for given in (self.opened()[["t", "p"]], self.opened(chunks={})[["t", "p"]] * 2):
            windows = stoker.xarray.windows(given, {"time": 4, "lat": 8})
            for workers in (0, 2):
                for kind in (torch.utils.data.DataLoader, stoker.torch.DataLoader):
                    self.check(kind(windows, batch_size=3, num_workers=workers), windows)

    def test_read_in_c_in_the_order_of_pytorch(self):
        windows = stoker.xarray.windows(self.opened()[["t", "p"]].isel(lat=slice(1, 14), lon=3), {"time": 4, "lat": 3})
        given = torch.utils.data.Subset(windows, list(range(1, len(windows))))
        for workers in (0, 2):
            epochs = []
            for options in ({"native": True}, {"native": False}):
                torch.manual_seed(7)
                loader = stoker.torch.DataLoader(given, batch_size=3, shuffle=True, num_workers=workers, **options)
                epochs.append([batch for _ in range(2) for batch in loader])
            self.assertEqual(len(epochs[0]), len(epochs[1]))
            for ours, python in zip(*epochs):
                self.assertEqual(list(ours), list(python))
                for name in ours:
                    self.assertEqual(ours[name].dtype, torch.float32)
                    numpy.testing.assert_array_equal(ours[name], python[name])

    def test_spawned_workers(self):
        windows = stoker.xarray.windows(self.opened()[["t", "p"]], {"time": 4, "lat": 8})
        self.check(torch.utils.data.DataLoader(windows, batch_size=3, num_workers=1, multiprocessing_context="spawn"), windows)

    def test_pickled(self):
        windows = stoker.xarray.windows(self.opened(chunks={}), {"time": 4, "lat": 8})
        text = pickle.dumps(windows)
        again = pickle.loads(text)
        self.assertEqual((len(again), again.spec, repr(again)), (len(windows), windows.spec, repr(windows)))
        for name, values in windows[3].items():
            numpy.testing.assert_array_equal(again[3][name], values)


class AgainstZarr(Case):
    def test_arrays_that_zarr_writes(self):
        rng = numpy.random.default_rng(0)
        draw = random.Random(1)
        for number in range(30):
            shape = tuple(draw.randrange(1, 30) for _ in range(draw.randrange(4)))
            chunks = tuple(draw.randrange(1, n + 1) for n in shape)
            dtype = draw.choice(["u1", "i2", "i4", "i8", "f2", "f4", "f8", "bool", "c8"])
            version = draw.choice([2, 3])
            sharded = version == 3 and shape and draw.random() < 0.5
            options = {"shards": tuple(n * draw.randrange(1, 4) for n in chunks)} if sharded else {}
            values = (rng.normal(size=shape) * 50).astype(dtype)
            z = zarr.create_array(f"{self.folder}/a{number}", shape=shape, chunks=chunks, dtype=dtype, zarr_format=version,
                                  fill_value=1, compressors=draw.choice(["auto", None]), **options)
            some = tuple(slice(0, draw.randrange(n + 1)) for n in shape)
            z[some] = values[some]
            with self.subTest(array=z):
                array = stoker.Array(Path(self.folder) / f"a{number}")
                self.assertEqual((array.shape, array.chunks, array.dtype), (z.shape, z.chunks, z.dtype))
                self.assertEqual(array.shards, z.shards if z.shards != z.chunks else None)
                self.assertEqual(array.fill_value, 1)
                numpy.testing.assert_array_equal(array[...], z[...])
                if shape:
                    rows = rng.integers(-shape[0], shape[0], 7)
                    numpy.testing.assert_array_equal(array[rows], z[...][rows])


if __name__ == "__main__":
    unittest.main()
