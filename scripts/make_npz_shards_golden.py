#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the shards of tests/golden/webdataset: tars by Python's tarfile, with archives by NumPy in them.

    python3 scripts/make_npz_shards_golden.py [FOLDER]

`stored.tar` holds what numpy.savez() writes, `deflated.tar` what numpy.savez_compressed() does: five samples with a: int16[3,4] of
100 i + k, b: float32[2] of i + k / 2, and a label i. `ragged.tar` is stored and has tokens: int32[i + 1] of i + k alone.
tests/unit/dataset/test_webdataset_npz.c computes the same.
"""
import io
import os
import sys
import tarfile

import numpy as np

FOLDER = sys.argv[1] if len(sys.argv) > 1 else os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "webdataset")
COUNT = 5


def npz(save, **arrays):
    out = io.BytesIO()
    save(out, **arrays)
    return out.getvalue()


def write(name, members):
    with tarfile.open(os.path.join(FOLDER, name), "w", format=tarfile.USTAR_FORMAT) as tar:
        for member, data in members:
            info = tarfile.TarInfo(member)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def samples(save):
    for i in range(COUNT):
        a = (100 * i + np.arange(12)).astype("<i2").reshape(3, 4)
        b = (i + np.arange(2) / 2).astype("<f4")
        yield f"{i}.npz", npz(save, a=a, b=b)
        yield f"{i}.cls", str(i).encode()


os.makedirs(FOLDER, exist_ok=True)
write("stored.tar", samples(np.savez))
write("deflated.tar", samples(np.savez_compressed))
write("ragged.tar", ((f"{i}.npz", npz(np.savez, tokens=i + np.arange(i + 1, dtype="<i4"))) for i in range(COUNT)))
