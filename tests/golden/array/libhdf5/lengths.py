# SPDX-License-Identifier: Apache-2.0
"""Make lengths.nc, by netCDF4: two variables along one unlimited dimension, each stored as long as it was written."""
from pathlib import Path

import netCDF4

with netCDF4.Dataset(Path(__file__).parent / "lengths.nc", "w") as f:
    f.createDimension("time", None)
    f.createVariable("long", "i2", ("time",))[:] = [1, 2, 3]
    f.createVariable("short", "i2", ("time",))[:2] = [7, 8]
