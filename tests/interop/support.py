# SPDX-License-Identifier: Apache-2.0
"""What the tests here share: values, boxes, and the command."""
import os
import subprocess

import numpy

import stoker

COMMAND = os.environ.get("STOKER_COMMAND", "stoker")


def run(*arguments, fails=False):
    """The command's output; `fails`: its message, of a run that has to fail."""
    done = subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    if (done.returncode != 0) != fails:
        raise AssertionError(f"stoker {' '.join(map(str, arguments))}: exit status {done.returncode}\n{done.stderr}")
    return done.stderr if fails else done.stdout


def values(shape, dtype, rng):
    """Smooth ones with some noise, so that filters have something to do."""
    dtype = numpy.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    ramp = numpy.arange(int(numpy.prod(shape)), dtype="f8").reshape(shape) % 97 + rng.integers(0, 5, shape)
    return (ramp * 0.25 if dtype.kind == "f" else ramp).astype(dtype)


def boxes(shape, rng, count=4):
    """All of it, and some random boxes."""
    yield tuple(slice(None) for _ in shape)
    for _ in range(count if shape and 0 not in shape else 0):
        starts = [int(rng.integers(0, n)) for n in shape]
        yield tuple(slice(a, int(rng.integers(a, n)) + 1, int(rng.integers(1, 4))) for a, n in zip(starts, shape))


def assert_reads(test, url, wanted, rng, **options):
    """Every box of the array at `url` is as `wanted` has it, bit for bit."""
    array = stoker.Array(url, **options)
    test.assertEqual(array.shape, wanted.shape, url)
    test.assertEqual(array.dtype, wanted.dtype.newbyteorder("="), url)
    native = wanted.astype(wanted.dtype.newbyteorder("="))
    for box in boxes(wanted.shape, rng):
        test.assertEqual(array[box].tobytes(), native[box].tobytes(), f"{url} {box}")
