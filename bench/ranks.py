# SPDX-License-Identifier: Apache-2.0
"""The workload `ranks`: ResNet-18 in two processes, which put their gradients together, and in one or two that do not."""
import json
import os
import subprocess
import sys
from pathlib import Path

from cases import Case, Workload
from shards import rate_of

SCRIPT = "bench/rivals/ranks.py"
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
PROGRAM = "bench/ranks.py {stoker}"

RANKS = Workload("a training step of ResNet-18 on 32x32 pictures in two processes of one thread each, by MPI", [
    Case("ddp, batches of 64", f"{PROGRAM} --ranks 2", {"gloo": "--ranks 2"}, bars=(rate_of("gloo", 1.2),)),
    Case("ddp, batches of 8", f"{PROGRAM} --ranks 2 --batch_size 8", {"gloo": "--ranks 2 --batch 8"}),
    Case("zero_2, batches of 64", f"{PROGRAM} --ranks 2 --strategy zero_2", {"gloo": "--ranks 2"}),
    Case("batches of 8, beside two single ranks", f"{PROGRAM} --ranks 2 --batch_size 8 --beside_single true",
         figure="of_single", bars=(("samples/s / that of two single ranks >= 0.93", lambda f: f.ours("of_single"), lambda x: x >= 0.93),)),
], SCRIPT)


def option(words, name, default):
    return words[words.index(name) + 1] if name in words else default


def output(command, env):
    """The JSON line that one of the processes prints."""
    done = subprocess.run(command, env={**os.environ, **AS_ROOT, **env}, capture_output=True, text=True, check=True)
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))


def singles(program, n, options):
    """Samples a second of so many processes at a time, none of which speaks with another."""
    all_of_them = [subprocess.Popen([program, *options], stdout=subprocess.PIPE, text=True) for _ in range(n)]
    return sum(json.loads(p.communicate()[0])["samples_per_s"] for p in all_of_them)


def main():
    program = str(Path(sys.argv[1]).parent / "bench/ranks")
    words = sys.argv[2:]
    ranks, beside = option(words, "--ranks", "2"), option(words, "--beside_single", "")
    options = [w for i, w in enumerate(words) if not {w, words[i - 1] if i else ""} & {"--ranks", "--beside_single"}]
    together = ["mpirun", "-n", ranks, "--bind-to", "none", "--oversubscribe", program, *options]
    line = output(together, {"OMP_NUM_THREADS": "1"})
    if beside:
        # In turns: what the machine does besides is in both.
        rates = [(output(together, {})["samples_per_s"], singles(program, int(ranks), options)) for _ in range(2)]
        line["of_single"] = round(sum(a for a, _ in rates) / sum(b for _, b in rates), 4)
    print(json.dumps(line))


if __name__ == "__main__":
    main()
