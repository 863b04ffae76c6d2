# SPDX-License-Identifier: Apache-2.0
"""Where Dask computes for datasets that are opened with it, in every worker of a loader.

    scheduler = stoker.dask.Dask("threads:4")
    loader = DataLoader(dataset, num_workers=2, worker_init_fn=scheduler)

A loader's workers are processes, and what one has of Dask (its threads, its connection to a cluster) the next one has not: each
takes its own when it begins.
"""
from __future__ import annotations

import contextlib
import multiprocessing
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from stoker import _native
from stoker._ranks import local_ranks

__all__ = ["Dask"]

_MODES = "off, single-threaded, threads:N, cluster:ADDRESS, local-cluster"


class Dask:
    """A scheduler of Dask, taken by each process that it is used in.

    | mode | |
    |---|---|
    | `"off"` | nothing is computed by threads; a dataset is best opened with `chunks=None` |
    | `"single-threaded"` | Dask's scheduler of one thread |
    | `"threads:N"` | N threads in each worker |
    | `"cluster:ADDRESS"` | a cluster that runs, which each worker attaches to |
    | `"local-cluster"` | a cluster of its own for each worker, or with `shared=True` one for all that use this object |

    `dask_workers`, `dask_threads` (of one of these workers), `dask_memory_limit` (of one, "2GiB") and `dask_dashboard_port`
    (without it any that is free) are those of a local cluster. The shared one is a process of its own, begun once by `start()` or the first
    use in the process that made this object; close() ends it, and so does the end of that process.

    It is a `worker_init_fn`. A warning with the numbers is given where ranks x workers x threads of Dask are more than the usable
    cores.
    """

    def __init__(self, mode: str = "off", *, shared: bool = False, dask_workers: int | None = None,
                 dask_threads: int | None = None, dask_memory_limit: str | int | None = None,
                 dask_dashboard_port: int | None = None) -> None:
        kind, _, value = mode.partition(":")
        self.mode, self._kind, self._value = mode, kind, value
        self.shared = shared
        if kind not in ("off", "single-threaded", "threads", "cluster", "local-cluster"):
            raise _native.InvalidError(f"dask is {mode!r}: give one of {_MODES}")
        if kind == "threads" and not (value.isdecimal() and int(value) > 0) or kind == "cluster" and not value or (
                kind not in ("threads", "cluster") and value):
            raise _native.InvalidError(f"dask is {mode!r}: write one of {_MODES}")
        local = {"dask_workers": dask_workers, "dask_threads": dask_threads, "dask_memory_limit": dask_memory_limit,
                 "dask_dashboard_port": dask_dashboard_port, "shared": shared or None}
        alone = [name for name, given in local.items() if given is not None]
        if kind != "local-cluster" and alone:
            raise _native.InvalidError(f"{alone[0]} is for dask='local-cluster' alone, and dask is {mode!r}")
        for name in ("dask_workers", "dask_threads"):
            if (given := local[name]) is not None and int(given) < 1:
                raise _native.InvalidError(f"{name} is {given}: give 1 or more")
        self._cluster = {"n_workers": dask_workers or 1, "threads_per_worker": dask_threads or 1,
                         "memory_limit": dask_memory_limit if dask_memory_limit is not None else "auto",
                         "dashboard_address": f":{dask_dashboard_port or 0}"}
        self._owner = os.getpid()
        self._server: subprocess.Popen[str] | None = None
        self._address = value if kind == "cluster" else ""
        self._process = 0  # that `_taken` is of
        self._taken: dict[str, Any] = {}
        self._open: list[Any] = []

    @property
    def threads(self) -> int:
        """Threads of Dask of one user of it."""
        if self._kind == "threads":
            return int(self._value)
        if self._kind == "local-cluster":
            return int(self._cluster["n_workers"] or 1) * int(self._cluster["threads_per_worker"] or 1)
        return 1

    # ---- In workers ----

    def __call__(self, worker_id: int = 0) -> None:
        """A `worker_init_fn`: what this process computes with Dask from now on."""
        import dask

        if worker_id == 0:
            self.check(_workers_of_torch())
        dask.config.set(**self._take())

    @contextlib.contextmanager
    def here(self) -> Iterator[None]:
        """What is computed with Dask inside of it in this process."""
        if self._kind == "off" and "dask" not in sys.modules:
            yield
            return
        import dask

        with dask.config.set(**self._take()):
            yield

    def _take(self) -> dict[str, Any]:
        if self._process != os.getpid():
            self._taken, self._open = self._make(), self._open if self._process == 0 else []
            self._process = os.getpid()
        return self._taken

    def _make(self) -> dict[str, Any]:
        if self._kind in ("off", "single-threaded"):
            return {"scheduler": "single-threaded"}
        if self._kind == "threads":
            from concurrent.futures import ThreadPoolExecutor

            return {"scheduler": "threads", "pool": ThreadPoolExecutor(self.threads, "dask")}
        import distributed

        client_type: Any = distributed.Client
        if self._kind == "local-cluster" and not self.shared:
            client = client_type(self._own_cluster())
        else:
            client = client_type(self.start(), set_as_default=False)
        self._open = [client]
        return {"scheduler": client.get}

    def _own_cluster(self) -> Any:
        """Workers of a loader are daemonic and have no children: then it is one of threads."""
        import distributed

        cluster_type: Any = distributed.LocalCluster
        return cluster_type(processes=not multiprocessing.current_process().daemon, **self._cluster)

    # ---- The shared cluster ----

    def start(self) -> str:
        """The address of the cluster; a shared one is begun by the first call, in the process that made this object."""
        if self._address:
            return self._address
        if self._owner != os.getpid():
            raise _native.InvalidError("the shared cluster of Dask has to run before the workers begin: call start() first")
        command = [sys.executable, "-m", "stoker._dask_cluster", repr(self._cluster)]
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._server.stdout
        self._address = self._server.stdout.readline().strip()
        if not self._address:
            raise RuntimeError("the shared cluster of Dask did not start; its messages are above")
        return self._address

    def close(self) -> None:
        """End the shared cluster, or what this process has taken."""
        if self._process == os.getpid():
            for client in self._open:
                client.close()
                if client.cluster:
                    client.cluster.close()
        self._process, self._open = 0, []
        if self._server and self._owner == os.getpid():
            self._server.communicate()  # its end of the pipe is its end
            self._server, self._address = None, ""

    def __enter__(self) -> Dask:
        return self

    def __exit__(self, *about: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        if self._kind == "local-cluster" and self.shared:
            self.start()
        return {**self.__dict__, "_server": None, "_process": 0, "_taken": {}, "_open": []}

    # ---- Cores ----

    def check(self, workers: int = 0, ranks: int | None = None, cores: int | None = None) -> bool:
        """Whether the cores are enough for as many workers of a loader, on each of the ranks of this machine; else it warns."""
        if self._kind in ("off", "cluster"):
            return True
        ranks = ranks if ranks is not None else local_ranks()
        cores = cores if cores is not None else _native.cores()[0]
        users = 1 if self.shared else max(1, workers)
        total = ranks * users * self.threads
        if total <= cores:
            return True
        each = f"{ranks} ranks x {users} workers x {self.threads} threads of Dask"
        warnings.warn(f"{each} are {total} threads, and {cores} cores are usable: take fewer workers or threads",
                      RuntimeWarning, stacklevel=2)
        return False


def _after_fork() -> None:
    """A client of a child would wait for a thread of distributed's that stayed in the parent: it gets another."""
    utils: Any = sys.modules.get("distributed.utils")
    if getattr(utils, "_offload_executor", None):
        from concurrent.futures import ThreadPoolExecutor

        utils._offload_executor = ThreadPoolExecutor(1, "Dask-Offload")


os.register_at_fork(after_in_child=_after_fork)


def _workers_of_torch() -> int:
    torch = sys.modules.get("torch.utils.data")
    info = torch.get_worker_info() if torch else None
    return info.num_workers if info else 0
