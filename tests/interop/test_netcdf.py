# SPDX-License-Identifier: Apache-2.0
"""NetCDF files of netCDF4, h5netcdf, xarray, nccopy and ncks: what the library reads of them, netCDF4 reads."""
import itertools
import os
import shutil
import subprocess
import tempfile
import unittest

import h5netcdf
import netCDF4
import numpy
import xarray
from support import assert_reads, run, values

import stoker

CLASSIC = ("NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA")
MODERN = ("NETCDF4", "NETCDF4_CLASSIC")
TYPES = {"NETCDF3_CLASSIC": ("i1", "i2", "i4", "f4", "f8"), "NETCDF3_64BIT_OFFSET": ("i1", "i2", "i4", "f4", "f8"),
         "NETCDF3_64BIT_DATA": ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"),
         "NETCDF4": ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"),
         "NETCDF4_CLASSIC": ("i1", "i2", "i4", "f4", "f8")}


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.rng = numpy.random.default_rng(7)

    def path(self, name):
        return os.path.join(self.folder, name)

    def check(self, path):
        """Every variable of a file, of every group."""
        with netCDF4.Dataset(path) as file:
            groups = [file]
            for group in groups:
                groups.extend(group.groups.values())
                for name, variable in group.variables.items():
                    variable.set_auto_maskandscale(False)
                    variable.set_always_mask(False)
                    place = f"{group.path.strip('/')}/{name}".lstrip("/")
                    wanted = numpy.asarray(variable[...])
                    wanted = wanted.astype(variable.dtype) if wanted.dtype.kind != "S" else wanted
                    with self.subTest(variable=place):
                        assert_reads(self, f"{path}/{place}", wanted, self.rng)
                        described = run("info", f"{path}/{place}")
                        if wanted.shape:
                            self.assertIn(", ".join(variable.dimensions), described)

    def test_types_of_every_format(self):
        for kind in CLASSIC + MODERN:
            path = self.path("x.nc")
            with netCDF4.Dataset(path, "w", format=kind) as file:
                file.createDimension("time", None)
                file.createDimension("lat", 5)
                file.createDimension("lon", 7)
                for dtype in TYPES[kind]:
                    for dims in (("lat", "lon"), ("time", "lat", "lon"), ("time",), ()):
                        made = file.createVariable(f"{dtype}_{len(dims)}_{'time' in dims}", dtype, dims)
                        made[...] = values((3, 5, 7)[3 - len(dims) if "time" not in dims else 0:][:len(dims)], dtype, self.rng)
                        made.units = "K"
            with self.subTest(kind=kind):
                self.check(path)

    def test_records_that_are_not_padded(self):
        for dtype, kind in itertools.product(("i1", "i2"), CLASSIC):
            path = self.path("x.nc")
            with netCDF4.Dataset(path, "w", format=kind) as file:
                file.createDimension("time", None)
                file.createDimension("x", 3)
                file.createVariable("only", dtype, ("time", "x"))[:] = values((5, 3), dtype, self.rng)
            with self.subTest(dtype=dtype, kind=kind):
                self.check(path)

    def test_what_was_never_written(self):
        for kind in CLASSIC + MODERN:
            path = self.path("x.nc")
            with netCDF4.Dataset(path, "w", format=kind) as file:
                file.createDimension("time", None)
                file.createDimension("x", 6)
                first = file.createVariable("first", "f4", ("time", "x"))
                second = file.createVariable("second", "i2", ("time", "x"), fill_value=-5)
                file.createVariable("third", "f8", ("x",))
                first[4:6] = values((2, 6), "f4", self.rng)
                second[1] = 3
            with self.subTest(kind=kind):
                self.check(path)

    def test_compression(self):
        for name, options in {"zlib": {"compression": "zlib", "complevel": 3}, "zlib, checksums": {"compression": "zlib", "shuffle": True, "fletcher32": True},
                              "zstd": {"compression": "zstd"}, "bzip2": {"compression": "bzip2"},
                              "blosc_lz4": {"compression": "blosc_lz4"}, "blosc_zstd": {"compression": "blosc_zstd", "blosc_shuffle": 2},
                              "szip": {"compression": "szip", "szip_coding": "nn", "szip_pixels_per_block": 16}}.items():
            for dtype, endian in itertools.product(("i2", "f4", "f8"), ("little", "big")):
                path = self.path("x.nc")
                with netCDF4.Dataset(path, "w") as file:
                    file.createDimension("t", None)
                    file.createDimension("x", 30)
                    try:
                        made = file.createVariable("v", dtype, ("t", "x"), chunksizes=(7, 16), endian=endian, **options)
                    except RuntimeError as error: # which filters it has is its build's
                        self.assertIn("ilter", str(error))
                        continue
                    made[:] = values((20, 30), dtype, self.rng)
                with self.subTest(compression=name, dtype=dtype, endian=endian):
                    self.check(path)

    def test_groups_and_dimensions(self):
        path = self.path("x.nc")
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("lat", 4)
            file.createDimension("unused", 9)
            file.createVariable("lat", "f8", ("lat",))[:] = numpy.linspace(-90, 90, 4)
            group = file.createGroup("model/run1")
            group.createDimension("member", 3)
            group.createVariable("t", "f4", ("member", "lat"), zlib=True)[:] = values((3, 4), "f4", self.rng)
            group.createVariable("lat_bounds", "f4", ("lat", "member"))[:] = 1
        self.check(path)
        listing = run("info", path)
        for word in ("model", "run1", "member,lat"):
            self.assertIn(word, listing)
        self.assertNotIn("This is a netCDF dimension", listing)

    def test_dimensions_that_grew_apart(self):
        path = self.path("x.nc")
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("time", None)
            file.createVariable("long", "f4", ("time",))[:] = numpy.arange(9)
            file.createVariable("short", "i4", ("time",))[:] = numpy.arange(4)
        self.check(path)

    def test_a_file_that_grew(self):
        path = self.path("x.nc")
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("time", None)
            file.createDimension("x", 3)
            for name in ("a", "b"):
                file.createVariable(name, "f4", ("time", "x"), chunksizes=(1, 3))
        for step in range(300):
            with netCDF4.Dataset(path, "a") as file:
                for name in ("a", "b"):
                    file[name][step] = values((3,), "f4", self.rng)
        self.check(path)

    def test_other_writers(self):
        path = self.path("x.nc")
        with h5netcdf.File(path, "w") as file:
            file.dimensions = {"x": 12, "y": 5}
            made = file.create_variable("v", ("x", "y"), "f4", chunks=(5, 5), compression="gzip")
            made[...] = values((12, 5), "f4", self.rng)
            made.attrs["units"] = "m"
        self.check(path)
        dataset = xarray.Dataset({"t": (("time", "x"), values((30, 8), "f4", self.rng))},
                                 {"time": numpy.arange("2001-01-01", "2001-01-31", dtype="M8[D]"), "x": numpy.arange(8.0)})
        for engine, options in (("netcdf4", {}), ("h5netcdf", {}), ("scipy", {"format": "NETCDF3_64BIT"}),
                                ("netcdf4", {"encoding": {"t": {"dtype": "i2", "scale_factor": 0.01, "add_offset": 5, "_FillValue": -999,
                                                                "zlib": True, "chunksizes": (7, 8)}}})):
            dataset.to_netcdf(path, engine=engine, **options)
            with self.subTest(engine=engine):
                self.check(path)

    @unittest.skipUnless(shutil.which("nccopy") and shutil.which("ncks"), "nccopy or ncks (netcdf-bin, nco) is not installed")
    def test_tools(self):
        path, copy = self.path("x.nc"), self.path("copy.nc")
        with netCDF4.Dataset(path, "w", format="NETCDF4_CLASSIC") as file:
            file.createDimension("time", None)
            file.createDimension("x", 11)
            file.createVariable("v", "f4", ("time", "x"))[:] = values((40, 11), "f4", self.rng)
            file.createVariable("n", "i2", ("x",))[:] = values((11,), "i2", self.rng)
        for command in (["nccopy", "-k", "classic"], ["nccopy", "-k", "64-bit offset"], ["nccopy", "-k", "cdf5"], ["nccopy", "-k", "nc4", "-d", "5", "-s"],
                        ["nccopy", "-u", "-c", "time/9,x/4", "-d", "1"], ["ncks", "-O", "-4", "-L", "2"], ["ncks", "-O", "-3"],
                        ["ncks", "-O", "-7", "--cnk_dmn", "time,5"], ["ncks", "-O", "-d", "time,3,17"]):
            with self.subTest(command=command):
                subprocess.run([*command, path, copy], check=True, timeout=60, capture_output=True)
                self.check(copy)


if __name__ == "__main__":
    unittest.main()
