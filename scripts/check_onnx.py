#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the models of a folder by onnxruntime: what tests/parity/nn/test_onnx.c has written.

    check_onnx.py FOLDER ROWS NUMBER...      NUMBER.onnx, NUMBER.x and NUMBER.y (float32) of each; exit code 1 where they differ
"""
import sys
from pathlib import Path

import numpy
import onnx
import onnxruntime

TOLERANCE = 1e-5


def check(folder, number, rows):
    path = str(folder / f"{number}.onnx")
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert [o.version for o in model.opset_import] == [17]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (taken,), (given,) = session.get_inputs(), session.get_outputs()
    assert (taken.name, given.name) == ("input", "output")
    assert taken.shape[0] == given.shape[0] == "N"
    x = numpy.fromfile(folder / f"{number}.x", "<f4").reshape(rows, *taken.shape[1:])
    y = numpy.fromfile(folder / f"{number}.y", "<f4").reshape(rows, *given.shape[1:])
    good = True
    for part in (slice(None), slice(1)):
        got = session.run(["output"], {"input": x[part]})[0]
        assert got.shape == y[part].shape
        differs = abs(got - y[part]) / numpy.maximum(1, abs(y[part]))
        if not (differs <= TOLERANCE).all():  # also where one of both is no number
            print(f"model {number} differs by {differs.max()}")
            good = False
    return good


def main():
    folder, rows, numbers = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    good = [check(folder, number, rows) for number in numbers]
    return not (good and all(good))


sys.exit(main())
