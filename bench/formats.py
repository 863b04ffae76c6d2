#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same pictures in every format that holds them: the tables of docs/formats.md and docs/formats.md.

    bench/formats.py build/stoker FOLDER_OF_PICTURES

Formats take turns; figures are medians.
"""
import argparse
import json
import shutil
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


def made(stoker: str, pictures: Path, work: Path) -> dict[str, str]:
    """Each format by its name: the spec of what is there after it."""
    pictures = Path(shutil.copytree(pictures, work / "pictures", ignore=shutil.ignore_patterns(".*"), copy_function=shutil.copy))
    forms = {"folder": f"images:{pictures}"}
    for name, source, target, options, prefix in (
            ("SquashFS", str(pictures), "p.sqfs", [], "images:"), ("WebDataset", f"images:{pictures}", "tars", [], "webdataset:"),
            ("TFRecord", f"images:{pictures}", "records", [], "tfrecord:"),
            ("packed, 256x256", f"images:{pictures}", "fixed.zarr", ["--size", "256x256"], "images:"),
            ("packed, shorter side 256", f"images:{pictures}", "ragged.zarr", ["--short-side", "256"], "images:")):
        to = ("" if prefix == "images:" else prefix) + str(work / target)
        subprocess.run([stoker, "convert", source, to, "-q", *options], check=True)
        forms[name] = prefix + str(work / target)
        if name == "SquashFS":
            zip_folder(pictures, work / "p.zip")
            forms["zip, stored"] = f"images:{work / 'p.zip'}"
    return forms


def index_of(dataset: str) -> list[Path]:
    """What opening keeps beside the data."""
    return list(Path(dataset.partition(":")[2]).glob(".stoker-index*"))


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
        forms = made(args.stoker, args.pictures, Path(temporary))
        columns: dict[str, dict[str, list[float]]] = {name: {} for name in forms}
        for _ in range(args.repeat):
            nothing = seconds_of(args.stoker, "--version")
            for name, dataset in forms.items():
                of = columns[name]
                for index in index_of(dataset):
                    index.unlink()
                for column in ("first", "open"):
                    of.setdefault(column, []).append(seconds_of(args.stoker, "info", dataset, "--stats", "none") - nothing)
                for order in (False, True):
                    if "packed" not in name:
                        of.setdefault(f"read {order}", []).append(measure(args.stoker, dataset, order, None, args.seconds)[0])
                    rate, cpu = measure(args.stoker, dataset, order, CROP, args.seconds)
                    of.setdefault(f"crop {order}", []).append(rate)
                    of.setdefault("cpu", []).append(cpu)
        print("| format | MB | first opened, ms | opened again, ms | read alone, in order | at random | to a crop of 224, in order | at random | CPU ms a picture |")
        print("|---|---|---|---|---|---|---|---|---|")
        for name, dataset in forms.items():
            of = {key: statistics.median(values) for key, values in columns[name].items()}
            cells = [f"{size_of(Path(dataset.partition(':')[2])) / 1e6:.1f}", *(f"{1e3 * max(of[key], 0):.0f}" for key in ("first", "open"))]
            cells += [f"{of[key]:,.0f}" if key in of else "" for key in ("read False", "read True", "crop False", "crop True")]
            print(f"| {name} | {' | '.join(cells)} | {of['cpu']:.2f} |")


if __name__ == "__main__":
    main()
