# SPDX-License-Identifier: Apache-2.0
"""A checkpoint of several processes by torch.distributed.checkpoint.async_save(), of which each has a part. One JSON line.

The state is what a training of Adam in float32 has: a parameter and two moments, each a DTensor that lies in equal parts. The time
is that of the call, which copies the parts; what is written goes on meanwhile and has ended before the next call.
"""
import os
import shutil
import tempfile
import time

from common import arguments, report, version

SAVES = 4
LARGE = 32 << 20  # elements of a tensor, at most


def state_of(torch, elements):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    state = {}
    for first in range(0, elements, LARGE):
        for kind in ("parameter", "exp_avg", "exp_avg_sq"):
            whole = torch.randn(min(LARGE, elements - first))
            state[f"{kind}.{first}"] = distribute_tensor(whole, mesh, [Shard(0)])
    return state


def rank_of(number, a, port, folder):
    import torch
    from torch import distributed
    from torch.distributed.checkpoint import async_save
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(number), WORLD_SIZE=str(a.ranks))
    torch.set_num_threads(1)
    torch.manual_seed(a.seed)
    distributed.init_process_group("gloo")
    state, times = state_of(torch, int(a.mb * 1e6 / 12)), []
    for i in range(SAVES):
        distributed.barrier()
        start = time.perf_counter()
        written = async_save(state, checkpoint_id=os.path.join(folder, str(i)))
        times.append(time.perf_counter() - start)
        written.result()
        if number == 0 and i:
            shutil.rmtree(os.path.join(folder, str(i - 1)))
    figures = torch.tensor([times[0], sorted(times[1:])[(SAVES - 1) // 2]], dtype=torch.float64)
    distributed.all_reduce(figures, distributed.ReduceOp.MAX)
    if number == 0:
        shutil.rmtree(folder, ignore_errors=True)
        report("save", a.peer, version("torch"), {"ranks": a.ranks, "mb": a.mb}, {
            "first_save_ms": round(figures[0].item() * 1e3, 2), "save_ms": round(figures[1].item() * 1e3, 2)})
    distributed.destroy_process_group()


if __name__ == "__main__":
    import socket

    import torch.multiprocessing as mp
    args = arguments(("dcp",), ranks=2, mb=1000)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    mp.spawn(rank_of, (args, port, tempfile.mkdtemp(prefix="stoker-bench-")), args.ranks)
