#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same array on a web server as NetCDF-4 and as Zarr: requests, bytes and time.

    bench/remote_arrays.py build/stoker [--size 32] [--latency 30] [--bandwidth 200]

The server is that of the tests, shaped: --latency milliseconds to the first byte, --bandwidth MB/s for all connections together. Forms take
turns; figures are medians. "Open" is `stoker info`, "all" is `stoker cat --dump sha256`, whose hash has to be the same of all forms; "rounds"
are requests that follow each other, as the server counts them.
"""
import argparse
import array
import math
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "cloud"))
import servers  # noqa: E402 (the folder of the tests)

STEP = (256, 256)  # elements of a step of time
FORMS = {"NetCDF-4": "x.nc/data", "Zarr, a chunk an object": "plain.zarr", "Zarr, shards": "shards.zarr"}


def write_npy(path: Path, steps: int) -> None:
    """Waves with noise, as float32 of (steps, 256, 256)."""
    draw = random.Random(1)
    noise = [draw.gauss(0, 0.01) for _ in range(4096)]
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({steps}, {STEP[0]}, {STEP[1]}), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with path.open("wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
        for step in range(steps):
            row = [20 * math.sin((x + 3 * step) / 40) for x in range(STEP[1])]
            for y in range(STEP[0]):
                array.array("f", [v + noise[(x * 7 + y * 31 + step) % 4096] for x, v in enumerate(row)]).tofile(out)


def make_forms(stoker: str, work: Path, steps: int) -> None:
    write_npy(work / "data.npy", steps)
    chunks, shards = f"1x{STEP[0]}x{STEP[1]}", f"32x{STEP[0]}x{STEP[1]}"
    for target, options in (("x.nc", []), ("plain.zarr", []), ("shards.zarr", ["--shards", shards])):
        subprocess.run([stoker, "convert", str(work / "data.npy"), str(work / target), "-q", "--chunks", chunks, *options], check=True)


def measure(server: servers.CloudServer, *command: str) -> tuple[dict[str, float], str]:
    server.tell("reset")
    begin = time.monotonic()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds = time.monotonic() - begin
    counters = server.counters()
    return {"s": seconds, **{name: counters[name] for name in ("requests", "rounds", "bytes_sent")}}, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stoker")
    parser.add_argument("--size", type=int, default=32, help="MiB of the array")
    parser.add_argument("--latency", type=int, default=30, help="milliseconds to the first byte")
    parser.add_argument("--bandwidth", type=int, default=200, help="MB/s")
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    rows: dict[str, dict[str, list[float]]] = {name: {} for name in FORMS}
    hashes = set()
    with tempfile.TemporaryDirectory(prefix="stoker-remote-") as temporary:
        work = Path(temporary)
        make_forms(args.stoker, work, args.size << 20 >> 18)
        with servers.cloud_server("--root", work, "--latency-ms", args.latency, "--bandwidth-all", args.bandwidth * 1000000) as server:
            for _ in range(args.repeat):
                for name, path in FORMS.items():
                    url = f"{server.endpoint}/{path}"
                    for what, command in (("open", ["info", url]), ("all", ["cat", url, "--dump", "sha256"])):
                        figures, printed = measure(server, args.stoker, *command)
                        for key, value in figures.items():
                            rows[name].setdefault(f"{what} {key}", []).append(value)
                        if what == "all":
                            hashes.add(printed.split()[0])
    if len(hashes) != 1:
        sys.exit("the forms do not hold the same values")
    print("| form | open: requests | rounds | kB | ms | all: requests | rounds | MB | s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, of in rows.items():
        at = {key: statistics.median(values) for key, values in of.items()}
        cells = [f"{at['open requests']:.0f}", f"{at['open rounds']:.0f}", f"{at['open bytes_sent'] / 1e3:.0f}", f"{1e3 * at['open s']:.0f}",
                 f"{at['all requests']:.0f}", f"{at['all rounds']:.0f}", f"{at['all bytes_sent'] / 1e6:.1f}", f"{at['all s']:.2f}"]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
