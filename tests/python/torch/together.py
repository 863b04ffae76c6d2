# SPDX-License-Identifier: Apache-2.0
"""together.py [MODULE...] TEST.py...: test programs, one after another, as forks of one interpreter that has imported PyTorch and
these modules. Importing them is most of what a short program takes."""
import importlib
import os
import runpy
import sys

import torchvision

import stoker.torch


def run(path):
    """The exit code of a test program, which ends as if it had been started by itself."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        sys.argv[:] = [path]
        runpy.run_path(path, run_name="__main__")
        sys.exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main():
    tests = [argument for argument in sys.argv[1:] if argument.endswith(".py")]
    for module in sys.argv[1:]:
        if module not in tests:
            importlib.import_module(module)
    failed = [test for test in tests if run(test) != 0]
    if failed:
        sys.exit(f"failed: {' '.join(failed)}")


main()
