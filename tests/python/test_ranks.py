# SPDX-License-Identifier: Apache-2.0
"""stoker.Loader as one of several processes: by their environment, by torch.distributed, and gone on with by others."""
import json
import os
import subprocess
import sys
import types
import unittest
from unittest import mock

import stoker
from stoker import _native, _ranks

LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK",
             "PMI_SIZE", "SLURM_PROCID", "SLURM_STEP_ID")
STEPS, BATCH = 20, 12
OPTIONS = {"global_batch_size": BATCH, "shuffle": True, "seed": 3}


def environment(**variables):
    """Without those of whoever runs this."""
    kept = {name: value for name, value in os.environ.items() if name not in LAUNCHERS}
    return mock.patch.dict(os.environ, {**kept, **variables}, clear=True)


def torchrun(rank, world_size):
    return {"RANK": str(rank), "WORLD_SIZE": str(world_size), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(world_size),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


def read(steps, state):
    """Of this process: the indices of its next steps, and the state behind them."""
    with stoker.Loader(f"digits:?size={STEPS * BATCH}", num_workers=int(os.environ.get("WORKERS", "0")), **OPTIONS) as loader:
        if state is not None:
            loader.load_state_dict(state)
        got = [batch["index"].tolist() for _, batch in zip(range(steps), loader)]
        return got, loader.state_dict()


def ranks(world_size, steps, state, workers):
    """The same of several processes: the global batches, and the state, which is one for all."""
    children = [subprocess.Popen([sys.executable, __file__, "read", str(steps), json.dumps(state)], stdout=subprocess.PIPE, text=True,
                                 env={**os.environ, **torchrun(rank, world_size), "WORKERS": str(workers)})
                for rank in range(world_size)]
    answers = [json.loads(child.communicate(timeout=120)[0]) for child in children]
    assert all(child.returncode == 0 for child in children)
    batches = [[None] * BATCH for _ in range(steps)]
    for rank, (got, _) in enumerate(answers):
        for batch, part in zip(batches, got):
            batch[rank::world_size] = part
    assert len({json.dumps(state) for _, state in answers}) == 1
    return batches, answers[0][1]


class Place(unittest.TestCase):
    def test_the_environment(self):
        for variables, expected in (({}, (0, 1)), (torchrun(2, 3), (2, 3)),
                                    ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}, (1, 4)),
                                    ({"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_STEP_ID": "0"}, (3, 8)),
                                    # Lightning's own launcher, before torch.distributed was begun
                                    ({"WORLD_SIZE": "2", "LOCAL_RANK": "1", "NODE_RANK": "0"}, (0, 1))):
            with self.subTest(variables), environment(**variables):
                self.assertEqual(_ranks.place(), expected)
        with environment(RANK="2", WORLD_SIZE="2"), self.assertRaisesRegex(_native.InvalidError, "RANK='2' is none of the 2"):
            stoker.Loader("digits:")
        self.assertEqual(_native.ranks(torchrun(1, 2)), ("torchrun", 1, 2, 1, 2, 2))
        self.assertRaises(TypeError, _native.ranks, [])

    def test_cores_are_shared(self):
        bound = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
                 "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}
        for variables, expected in (({}, 1), (torchrun(2, 3), 3), (bound, 4), ({**bound, "OMPI_MCA_orte_bound_at_launch": "1"}, 1),
                                    ({"RANK": "0"}, 1), ({"SLURM_NTASKS_PER_NODE": "3", "SLURM_JOB_ID": "7"}, 1)):
            with self.subTest(variables), environment(**variables):
                self.assertEqual(_ranks.local_ranks(), expected)

    def test_torch_distributed_prevails(self):
        begun = types.SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True, get_rank=lambda: 1,
                                      get_world_size=lambda: 2)
        idle = types.SimpleNamespace(is_available=lambda: True, is_initialized=lambda: False)
        with environment(**torchrun(0, 4)):
            with mock.patch.dict(sys.modules, {"torch.distributed": begun}):
                self.assertEqual(_ranks.place(), (1, 2))
            with mock.patch.dict(sys.modules, {"torch.distributed": idle}):
                self.assertEqual(_ranks.place(), (0, 4))

    def test_what_is_given_prevails(self):
        with environment(**torchrun(0, 4)):
            with stoker.Loader("digits:?size=24", batch_size=6, rank=1, world_size=2) as loader:
                self.assertEqual(next(iter(loader))["index"].tolist(), list(range(1, 12, 2)))
            with stoker.Loader("digits:?size=24", batch_size=6) as loader:
                self.assertEqual(next(iter(loader))["index"].tolist(), list(range(0, 24, 4)))


class Elastic(unittest.TestCase):
    def test_others_go_on(self):
        with environment():
            whole, _ = read(STEPS, None)
            got, state = [], None
            for world_size, steps, workers in ((2, 4, 0), (3, 5, 1), (1, 11, 2)):
                batches, state = ranks(world_size, steps, state, workers)
                got += batches
        self.assertEqual(got, whole)
        self.assertEqual(sorted(sum(whole, [])), list(range(STEPS * BATCH)))


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "read":
        print(json.dumps(read(int(sys.argv[2]), json.loads(sys.argv[3]))))
    else:
        unittest.main()
