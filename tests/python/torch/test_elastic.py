# SPDX-License-Identifier: Apache-2.0
"""stoker.Loader under torchrun with gloo: a rank is killed, all are begun again from the last state, and others go on."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import torch
import torch.distributed

import stoker

STEPS, BATCH, EPOCHS = 10, 12, 2
COMMIT = 3  # steps between two states that are kept
KILLED, CHANGE = 8, 13  # steps before a rank is killed, and before others go on: both in the middle of an epoch
DATASET = f"digits:?size={STEPS * BATCH}"
OPTIONS = {"global_batch_size": BATCH, "shuffle": True, "seed": 3}
OF_LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMPI_", "PMI_", "SLURM_", "TORCHELASTIC_")


def keep(path, value):
    """Whole or not at all."""
    made = path.with_name(f"{path.name}.{os.getpid()}")
    made.write_text(json.dumps(value))
    made.replace(path)


def make_loader():
    return stoker.Loader(DATASET, num_workers=1, **OPTIONS)


def rank(folder, last, before):
    """One of torchrun's processes: up to the step `last`. `before`: the loader is made while only the environment says who it is."""
    loader = make_loader() if before else None
    torch.distributed.init_process_group("gloo")
    me, world_size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    loader = loader or make_loader()
    kept = folder / "state"
    step, state = json.loads(kept.read_text()) if kept.exists() else (0, None)
    if state:
        loader.load_state_dict(state)
    keep(folder / f"began.{last}.{attempt}", step)
    while step < last:
        for batch in loader:
            keep(folder / f"step.{step}.{me}", [world_size, batch["index"].tolist()])
            if (step, attempt, me) == (KILLED, 0, 1):
                os.kill(os.getpid(), signal.SIGKILL)
            torch.distributed.all_reduce(torch.zeros(1))  # as gradients do: all ranks have done the step
            step += 1
            if me == 0 and (step % COMMIT == 0 or step == last):
                keep(kept, [step, loader.state_dict()])
            if step == last:
                break
    torch.distributed.barrier()  # the state is kept before any of them says that all is well
    loader.close()
    torch.distributed.destroy_process_group()


def torchrun(folder, ranks, last, before):
    variables = {name: value for name, value in os.environ.items() if not name.startswith(OF_LAUNCHERS)}
    # Where ranks share the agent's store, gloo of those that are begun again finds the addresses of those that are gone, and waits.
    variables |= {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", str(ranks),
               "--max-restarts", "1", __file__, "rank", str(folder), str(last), str(int(before))]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=280)


class Elastic(unittest.TestCase):
    def batches(self, folder):
        """The global batches, put together of what each rank had."""
        for step in range(EPOCHS * STEPS):
            world_size, _ = json.loads((folder / f"step.{step}.0").read_text())
            batch = [None] * BATCH
            for number in range(world_size):
                of, part = json.loads((folder / f"step.{step}.{number}").read_text())
                self.assertEqual(of, world_size)
                batch[number::world_size] = part
            self.assertEqual(len(list(folder.glob(f"step.{step}.*"))), world_size)
            yield batch

    def test_a_rank_is_killed_and_others_go_on(self):
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            for ranks, last, before in ((2, CHANGE, False), (3, EPOCHS * STEPS, True)):
                done = torchrun(folder, ranks, last, before)
                self.assertEqual(done.returncode, 0, done.stderr)
            began = {path.name: json.loads(path.read_text()) for path in folder.glob("began.*")}
            got = list(self.batches(folder))
        # Begun again once, from the last state before the kill; the others, where those had come to.
        self.assertEqual(began, {f"began.{CHANGE}.0": 0, f"began.{CHANGE}.1": KILLED // COMMIT * COMMIT, f"began.{EPOCHS * STEPS}.0": CHANGE})
        with stoker.Loader(DATASET, rank=0, world_size=1, **OPTIONS) as loader:
            self.assertEqual(got, [batch["index"].tolist() for _ in range(EPOCHS) for batch in loader])
        for epoch in range(EPOCHS):
            self.assertEqual(sorted(sum(got[epoch * STEPS:(epoch + 1) * STEPS], [])), list(range(STEPS * BATCH)))


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1] == "rank":
        rank(Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "1")
    else:
        unittest.main()
