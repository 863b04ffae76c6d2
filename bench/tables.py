# SPDX-License-Identifier: Apache-2.0
"""The workload `tables`: rows of Parquet and CSV, from the page cache."""
import shutil
import subprocess

from cases import Case, Workload
from files import CACHE, VENV as TORCH, WORK, made_by_rival
from shards import rate_of

SCRIPT = "bench/rivals/tables.py"
VENV = CACHE / "tables"
PACKAGES = ("pyarrow==26.0.1", "datasets==5.0.0", "duckdb==2.0.1", "polars==2.1.0", "numpy")
RIVALS = ("pyarrow", "hf-shuffled", "hf-photographs", "pyarrow-all", "duckdb-all", "polars-csv", "take")
NUMBERS = "{numbers}"
PHOTOGRAPHS = "{tables}/photographs.parquet"


def whole(name, workers):
    file = f"{{tables}}/{name}.parquet"
    options = f"--workers {workers} --file {file}"
    return Case(f"whole file, {name}, {workers} thread{'s' if workers > 1 else ''}",
                f"records --shuffle false --batch_size 131072 --num_workers {workers} --dataset parquet:{file}",
                {"pyarrow-all": options, "duckdb-all": options},
                bars=(rate_of("pyarrow-all", 1.0), rate_of("duckdb-all", 1.0)))


TABLES = Workload("rows of tables: numbers of Parquet in batches, whole files, one row; CSV", [
    Case("8 numeric columns, batches of 1,024, by blocks",
         f"records --shuffle block --batch_size 1024 --num_workers 2 --dataset parquet:{NUMBERS}",
         {"pyarrow": "--workers 2", "hf-shuffled": ""}, script="bench_parquet.py",
         bars=(rate_of("pyarrow", 1.2), rate_of("hf-shuffled", 200))),
    Case("photographs in Parquet, W1's transforms", f"images --num_workers 2 --dataset parquet:{PHOTOGRAPHS}",
         {"hf-photographs": f"--workers 2 --file {PHOTOGRAPHS}"}, bars=(rate_of("hf-photographs", 3),)),
    *(whole(name, workers) for name in ("plain", "dictionary", "delta", "split") for workers in (1, 2)),
    Case("one random row, warm", f"records --shuffle true --batch_size 1 --num_workers 0 --dataset parquet:{NUMBERS}",
         {"take": f"--file {NUMBERS}"}, bars=(rate_of("take", 20),)),
    Case("CSV of 10 numeric columns, opened and read",
         "records --mode once --batch_size 4096 --num_workers 2 --dataset csv:{tables}/numbers.csv",
         {"polars-csv": "--file {tables}/numbers.csv"}, bars=(rate_of("polars-csv", 0.7),)),
], SCRIPT)


def folder_of(build):
    """Where the files are that the workload reads."""
    return build / "bench/tables.files"


def borrow():
    """Let the interpreter of the tables see the packages of the other rivals, behind its own: PyTorch is there. 0: it worked."""
    where = [subprocess.run([str(venv / "bin/python"), "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"], capture_output=True,
                            text=True, check=False).stdout.strip() for venv in (VENV, TORCH)]
    if not all(where):
        return 1
    with open(f"{where[0]}/zz_peers.pth", "w") as file:
        file.write(where[1] + "\n")
    return 0


def numbers():
    """The file of W13."""
    return WORK / "parquet/numbers.parquet"


def prepare(build):
    """The files that are read, made where they are missing."""
    folder = folder_of(build)
    part = folder.with_suffix(".part")
    if (folder / "photographs.parquet").exists() and numbers().exists():
        return
    shutil.rmtree(part, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    made_by_rival(VENV / "bin/python", SCRIPT, part, "tables")
    part.rename(folder)
