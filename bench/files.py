# SPDX-License-Identifier: Apache-2.0
"""Where the inputs of ./dev bench are, and those that are made where they are missing."""
import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path.home() / ".cache/stoker-peers"
PEERS = Path(os.environ.get("STOKER_PEERS", ROOT.parent / "shared/peers"))
DATA = Path(os.environ.get("STOKER_TEST_DATA", PEERS.parent / "data"))
WORK = Path(os.environ.get("STOKER_PEERS_WORK", CACHE / "work")).expanduser()
VENV = Path(os.environ.get("STOKER_PEERS_VENV", CACHE / "venv"))


def made_by_rival(python, script, folder, what):
    """Have a rival's script write its files, with the packages that it has."""
    made = subprocess.run([str(python), str(ROOT / script), "--peer", "prepare", "--folder", str(folder)],
                          env={**os.environ, "PYTHONPATH": str(PEERS)}, check=False)
    if made.returncode != 0:
        sys.exit(f"bench: the {what} could not be made; ./dev bench --setup makes what that takes")


def photographs():
    """The rivals' ImageFolder, or the sample it is made of."""
    folder = WORK / "images"
    return folder if folder.is_dir() else DATA / "imagenet-sample"


def plain_mnist(build):
    """MNIST's files inflated, for the runs that read files."""
    folder = build / "bench/mnist"
    for packed in sorted((DATA / "mnist").glob("*.gz")):
        plain = folder / packed.stem
        if not plain.exists():
            folder.mkdir(parents=True, exist_ok=True)
            with gzip.open(packed) as src, open(f"{plain}.part", "wb") as dst:
                shutil.copyfileobj(src, dst)
            os.rename(f"{plain}.part", plain)


def pack_photographs(build):
    """The files of the workload `packed`, made anew."""
    (build / "bench/packed").mkdir(parents=True, exist_ok=True)
    for name, how in (("one_size", "--size=256"), ("short_side", "--short-side=256")):
        subprocess.run([str(build / "stoker"), "convert", f"images:{photographs()}?index=none",
                        str(build / f"bench/packed/{name}.zarr"), how, "--quiet", "--overwrite"],
                       check=True)


def many_chunks():
    """The files of the workload `index`, where they are not there."""
    row = subprocess.run([str(VENV / "bin/python"), str(ROOT / "bench/rivals/hdf5.py"), "--peer", "prepare"],
                         env={**os.environ, "PYTHONPATH": str(PEERS)}, check=False)
    if row.returncode != 0:
        sys.exit("bench: the files of 100,000 chunks could not be made; ./dev bench --setup makes what that takes")
