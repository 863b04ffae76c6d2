# SPDX-License-Identifier: Apache-2.0
"""ResNet-18 in several processes by PyTorch's DistributedDataParallel over gloo. One JSON line."""
import os
import time

from bench_resnet import resnet18_32
from common import PeakRss, arguments, report, version


def rank_of(number, a, port):
    import torch
    from torch import distributed
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(number), WORLD_SIZE=str(a.ranks))
    start = time.perf_counter()
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    distributed.init_process_group("gloo")
    rss = PeakRss()
    model = torch.nn.parallel.DistributedDataParallel(resnet18_32(torch).train())
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    x, y = torch.randn(a.batch, 3, 32, 32), torch.randint(10, (a.batch,))
    more = torch.ones(1)

    def step():
        opt.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        opt.step()

    for _ in range(5):
        step()
    first, t0, n, steps = time.perf_counter() - start, time.perf_counter(), 0, 0
    while more.item():
        step()
        n, steps = n + a.batch * a.ranks, steps + 1
        if steps % 8 == 0:  # all ranks end at the same step
            more.fill_(time.perf_counter() - t0 < a.seconds)
            distributed.broadcast(more, 0)
    seconds = time.perf_counter() - t0
    rss.sample()
    if number == 0:
        report("W10-ranks", a.peer, version("torch", "torchvision"), {"ranks": a.ranks, "threads": a.threads, "batch": a.batch}, {
            "samples_per_s": round(n / seconds, 2), "first_batch_s": round(first, 3), "peak_rss_mib": round(rss.peak), "n_samples": n})
    distributed.destroy_process_group()


if __name__ == "__main__":
    import socket

    import torch.multiprocessing as mp
    args = arguments(("gloo",), threads=1, batch=64, ranks=2)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    mp.spawn(rank_of, (args, port), args.ranks)
