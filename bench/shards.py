# SPDX-License-Identifier: Apache-2.0
"""The workload `records`: shards of records and documents of tokens, from the page cache."""
import shutil

from cases import Case, Workload
from files import VENV, made_by_rival

SCRIPT = "bench/rivals/records.py"
SHARDS = "webdataset:{shards}?index=none"
SMALL = "webdataset:{records}/small?index=auto"
DOCUMENTS = "tokens:{records}/documents.idx?length=2048&target=true&mmap=true"
FOLDER = "--folder {records}"


def rate_of(peer, least):
    return (f"rate / {peer}'s >= {least}", lambda f: f.ratio(peer, "samples_per_s"), lambda x: x >= least)


RECORDS = Workload("records of shards: as they are, decoded; documents packed; indexes", [
    Case("photographs as bytes, by blocks", f"records --shuffle block --dataset {SHARDS}",
         {"dali": "--workers 2", "tfrecord": "--workers 2", "webdataset": "--workers 2"},
         bound="pread_bound --folder {shards} --threads 2 --parts 2", script="bench_shards.py", bars=(
             ("rate / DALI's in order >= 1.2, or of the same preads >= 0.85",
              lambda f: max(f.ratio("dali", "samples_per_s") / 1.2, f.share() / 0.85), lambda x: x >= 1),
             rate_of("tfrecord", 5), rate_of("webdataset", 10))),
    Case("records of 4 KiB, full random order", f"records --shuffle true --dataset {SMALL}",
         bound=f"bench:records --shuffle false --dataset {SMALL}", bars=(
             ("rate / in order >= 0.6", lambda f: f.share(), lambda x: x >= 0.6),)),
    Case("photographs, decoded", f"images --num_workers 2 --dataset {SHARDS}", {"tfrecord": "--workers 2 --decode 1"},
         script="bench_shards.py", bars=(rate_of("tfrecord", 2.3),)),
    Case("documents packed to 2,048 tokens", f"tokens --dataset {DOCUMENTS}&documents=pack", {"grain": FOLDER},
         bars=(rate_of("grain", 5),)),
    Case("windows of Megatron-LM's files", f"tokens --dataset {DOCUMENTS}", {"numpy": FOLDER}, bars=(rate_of("numpy", 0.9),)),
    Case("index of 1,000,000 records", "records --mode index --dataset webdataset:{records}/tiny?index=none",
         {"wds2idx": FOLDER}, figure="index_ms", lower=True, bars=(
             ("wds2idx's ms / ours >= 5", lambda f: 1 / f.ratio("wds2idx", "index_ms"), lambda x: x >= 5),)),
], SCRIPT)


def folder_of(build):
    """Where the files are that the workload reads."""
    return build / "bench/records.files"


def prepare(build):
    """The files that are read, made where they are missing."""
    folder = folder_of(build)
    part = folder.with_suffix(".part")
    if folder.is_dir():
        return
    shutil.rmtree(part, ignore_errors=True)
    made_by_rival(VENV / "bin/python", SCRIPT, part, "shards")
    part.rename(folder)
