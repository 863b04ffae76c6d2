# SPDX-License-Identifier: Apache-2.0
"""The workload `ranks`: ResNet-18 in two processes, which put their gradients together, and in one or two that do not; and a
checkpoint of two."""
import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from cases import Case, Workload
from shards import rate_of

SCRIPT = "bench/rivals/ranks.py"
SETTLED = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1"}
PROGRAM = "bench/ranks.py {stoker}"

RANKS = Workload("a training step of ResNet-18 on 32x32 pictures in two processes of one thread each, by MPI", [
    Case("ddp, batches of 64", f"{PROGRAM} --ranks 2", {"gloo": "--ranks 2"}, bars=(rate_of("gloo", 1.2),)),
    Case("ddp, batches of 8", f"{PROGRAM} --ranks 2 --batch_size 8", {"gloo": "--ranks 2 --batch 8"}),
    Case("zero_2, batches of 64", f"{PROGRAM} --ranks 2 --strategy zero_2", {"gloo": "--ranks 2"}),
    Case("batches of 8, beside two single ranks", f"{PROGRAM} --ranks 2 --batch_size 8 --beside_single",
         figure="of_single", bars=(("samples/s / that of two single ranks >= 0.93", lambda f: f.ours("of_single"), lambda x: x >= 0.93),)),
    Case("a checkpoint of 1 GB", f"{PROGRAM} --program save --ranks 2 --strategy zero_3 --width 6200", {"dcp": "--ranks 2 --mb 1000"},
         figure="save_ms", lower=True, seconds=False, script="bench/rivals/save_ranks.py", bars=(
             ("ms of the training thread / async_save()'s <= 0.5", lambda f: f.ratio("dcp", "save_ms"), lambda x: x <= 0.5),)),
], SCRIPT)


def output(command):
    """The JSON line that one of the processes prints."""
    done = subprocess.run(command, env={**os.environ, **SETTLED}, capture_output=True, text=True, check=True)
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))


def singles(program, n, options):
    """Samples a second of so many processes at a time, none of which speaks with another."""
    all_of_them = [subprocess.Popen([program, *options], stdout=subprocess.PIPE, text=True) for _ in range(n)]
    return sum(json.loads(p.communicate()[0])["samples_per_s"] for p in all_of_them)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("stoker", type=Path)
    p.add_argument("--program", default="ranks", choices=("ranks", "save"), help="below bench/ of the build folder")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--beside_single", action="store_true", help="in turns with as many processes by themselves")
    args, options = p.parse_known_args()  # the others are those of the program
    program = str(args.stoker.parent / "bench" / args.program)
    together = ["mpirun", "-n", str(args.ranks), "--bind-to", "none", "--oversubscribe", program, *options]
    line = output(together)
    if args.beside_single:
        rates = [(output(together)["samples_per_s"], singles(program, args.ranks, options)) for _ in range(2)]
        line["of_single"] = round(sum(a for a, _ in rates) / sum(b for _, b in rates), 4)
    print(json.dumps(line))


if __name__ == "__main__":
    main()
