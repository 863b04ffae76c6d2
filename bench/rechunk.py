# SPDX-License-Identifier: Apache-2.0
"""Workload `rechunk`: stoker convert of a NetCDF-4 variable to Zarr v2 of other chunks, as a user has it: one JSON line.

The time is that of the whole command; the codec is the one that the others get.
"""
import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("stoker")
    p.add_argument("source", help="a NetCDF file with the variable v")
    p.add_argument("--chunks", default="1024x16x16")
    p.add_argument("--memory", default="40MiB", help="of the conversion")
    p.add_argument("--keep", default="", help="where the result is left")
    args = p.parse_args()
    folder = tempfile.mkdtemp(prefix="rechunk-", dir=os.environ.get("TMPDIR", os.path.dirname(os.path.abspath(args.source))))
    out = args.keep or f"{folder}/out.zarr"
    command = [args.stoker, "convert", args.source, f"zarr2:{out}", "--variables", "v", "--chunks", args.chunks, "--codec",
               "blosc", "--level", "5", "--shuffle", "byte", "--memory-budget", args.memory, "--verify", "none"]
    try:
        began = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True)
        took = time.perf_counter() - began
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if done.returncode != 0:
        sys.exit(done.stderr or done.stdout)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu, megabytes = used.ru_utime + used.ru_stime, 1024 * 256 * 256 * 4 / 1e6
    print(json.dumps({"workload": "rechunk", "peer": "stoker", "config": {"chunks": args.chunks, "memory": args.memory},
                      "samples_per_s": round(megabytes / took, 2), "cpu_s_per_1000": round(cpu / megabytes * 1000, 4),
                      "wall_s": round(took, 3), "peak_rss_mib": round(used.ru_maxrss / 1024, 1), "n_samples": round(megabytes)}))


if __name__ == "__main__":
    main()
