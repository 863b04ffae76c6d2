#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same pictures as a folder, in a SquashFS image, in a zip archive and packed as pixels: the table of docs/containers.md.

    bench/containers.py build/stoker FOLDER_OF_PICTURES

Forms take turns; figures are medians.
"""
import argparse
import json
import statistics
import subprocess
import tempfile
import time
import zipfile
from pathlib import Path

CROP = "random_resized_crop(224), horizontal_flip"


def zip_folder(folder: Path, target: Path) -> None:
    with zipfile.ZipFile(target, "w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder))


def size_of(path: Path) -> int:
    return sum(p.stat().st_size for p in path.rglob("*") if p.is_file()) if path.is_dir() else path.stat().st_size


def seconds_of(*command: str) -> float:
    begin = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def measure(stoker: str, dataset: str, shuffle: bool, transforms: str | None, seconds: float) -> tuple[float, float]:
    """Samples a second, and milliseconds of processor time for each."""
    command = [stoker, "bench", "--dataset", dataset, "--batch-size", "64", "--shuffle", str(shuffle).lower(), "--num-workers", "2",
               "--train-step-time", "0", "--min-seconds", str(seconds), "--log", "none", "--format", "json"]
    if transforms:
        command += ["--transforms", transforms]
    row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["settings"][0]
    return row["samples_per_s"], row["cpu_s_per_1000"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stoker")
    parser.add_argument("pictures", type=Path)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stoker-containers-") as temporary:
        work = Path(temporary)
        for source, target, options in ((args.pictures, "p.sqfs", []), (f"images:{args.pictures}", "fixed.zarr", ["--size", "256x256"]),
                                        (f"images:{args.pictures}", "ragged.zarr", ["--short-side", "256"])):
            subprocess.run([args.stoker, "convert", str(source), str(work / target), "-q", *options], check=True)
        zip_folder(args.pictures, work / "p.zip")
        forms = {"folder": args.pictures, "SquashFS": work / "p.sqfs", "zip, stored": work / "p.zip",
                 "packed, 256x256": work / "fixed.zarr", "packed, shorter side 256": work / "ragged.zarr"}
        columns: dict[str, dict[str, list[float]]] = {name: {} for name in forms}
        for _ in range(args.repeat):
            nothing = seconds_of(args.stoker, "--version")
            for name, path in forms.items():
                dataset, of = f"images:{path}", columns[name]
                of.setdefault("open", []).append(seconds_of(args.stoker, "info", dataset, "--stats", "none") - nothing)
                for order in (False, True):
                    if "packed" not in name:
                        of.setdefault(f"read {order}", []).append(measure(args.stoker, dataset, order, None, args.seconds)[0])
                    rate, cpu = measure(args.stoker, dataset, order, CROP, args.seconds)
                    of.setdefault(f"crop {order}", []).append(rate)
                    of.setdefault("cpu", []).append(cpu)
        print("| form | MB | open, ms | read alone, in order | at random | to a crop of 224, in order | at random | CPU ms a picture |")
        print("|---|---|---|---|---|---|---|---|")
        for name, path in forms.items():
            of = {key: statistics.median(values) for key, values in columns[name].items()}
            cells = [f"{size_of(path) / 1e6:.1f}", f"{1e3 * max(of['open'], 0):.0f}"]
            cells += [f"{of[key]:,.0f}" if key in of else "" for key in ("read False", "read True", "crop False", "crop True")]
            print(f"| {name} | {' | '.join(cells)} | {of['cpu']:.2f} |")


if __name__ == "__main__":
    main()
