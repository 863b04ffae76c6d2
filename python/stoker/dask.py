# SPDX-License-Identifier: Apache-2.0
"""Where Dask computes for datasets that are opened with it, in every worker of a loader.

    scheduler = stoker.dask.Dask("threads:4")
    loader = DataLoader(dataset, num_workers=2, worker_init_fn=scheduler)

A loader's workers are processes, and what one has of Dask (its threads, its connection to a cluster) the next one has not: each
takes its own when it begins.
"""
from __future__ import annotations

import contextlib
import multiprocessing.util
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

from stoker import _native
from stoker._keywords import whole
from stoker._ranks import local_ranks

__all__ = ["Dask"]

_MODES = "off, single-threaded, threads:N, cluster:ADDRESS, local-cluster"


class _Taken:
    """What a process computes with, as Dask's configuration has it, and what has to be ended for it. The configuration is of
    all threads: it is set by the first that comes, and put back by the last that goes."""

    def __init__(self, config: dict[str, Any], held: contextlib.ExitStack) -> None:
        self.config, self.held = config, held
        self.lasting = False
        self.users = 0
        self._before: Any = None

    def enter(self) -> None:
        import dask

        if self.users == 0:
            self._before = dask.config.set(**self.config)
        self.users += 1

    def leave(self) -> None:
        self.users -= 1
        if self.users == 0:
            self._before.__exit__(None, None, None)


_SETTING = threading.RLock()  # of what is taken, and of its users


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
    use in the process that made this object; close() ends it, and so does the end of that process. Threads, clients and clusters of one
    process are ended by close() there, or with it.

    It is a `worker_init_fn`. A warning with the numbers is given, by the first worker, where ranks x workers x threads of Dask are more
    than the usable cores.
    """

    def __init__(self, mode: str = "off", *, shared: bool = False, dask_workers: int | None = None,
                 dask_threads: int | None = None, dask_memory_limit: str | int | None = None,
                 dask_dashboard_port: int | None = None) -> None:
        kind, _, value = str(mode).partition(":")
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
        self._cluster: dict[str, Any] = {
            "n_workers": whole("dask_workers", 1 if dask_workers is None else dask_workers, 1),
            "threads_per_worker": whole("dask_threads", 1 if dask_threads is None else dask_threads, 1),
            "memory_limit": dask_memory_limit if dask_memory_limit is not None else "auto",
            "dashboard_address": f":{whole('dask_dashboard_port', dask_dashboard_port or 0, 0)}",
        }
        self._owner = os.getpid()
        self._server: subprocess.Popen[str] | None = None
        self._address = value if kind == "cluster" else ""
        self._taken: dict[int, _Taken] = {}  # by process: a child of fork() has what its parent ends, too

    @property
    def threads(self) -> int:
        """Threads of Dask of one user of it."""
        if self._kind == "threads":
            return int(self._value)
        if self._kind == "local-cluster":
            threads: int = self._cluster["n_workers"] * self._cluster["threads_per_worker"]
            return threads
        return 1

    # ---- In workers ----

    def __call__(self, worker_id: int = 0) -> None:
        """A `worker_init_fn`: what this process computes with Dask from now on, until close()."""
        with _SETTING:
            taken = self._take()
            if not taken.lasting:  # one of several threads
                taken.lasting = True
                taken.enter()
                taken.held.callback(taken.leave)
                _LASTING.add(self)

    @contextlib.contextmanager
    def here(self) -> Iterator[None]:
        """What is computed with Dask inside of it in this process."""
        if self._kind == "off" and "dask" not in sys.modules:
            yield
            return
        with _SETTING:
            taken = self._take()
            taken.enter()
        try:
            yield
        finally:
            with _SETTING:
                taken.leave()

    def _take(self) -> _Taken:
        process = os.getpid()
        if process not in self._taken:
            with contextlib.ExitStack() as undo:
                config = self._make(undo)
                self._taken[process] = _Taken(config, undo.pop_all())
            multiprocessing.util.Finalize(self, self._taken[process].held.close, exitpriority=100)
            worker, workers = _worker_of_torch()
            if worker == 0:
                self.check(workers)
        return self._taken[process]

    def _make(self, held: contextlib.ExitStack) -> dict[str, Any]:
        if self._kind in ("off", "single-threaded"):
            return {"scheduler": "single-threaded"}
        if self._kind == "threads":
            from concurrent.futures import ThreadPoolExecutor

            return {"scheduler": "threads", "pool": held.enter_context(ThreadPoolExecutor(self.threads, "dask"))}
        import distributed

        client_type: Any = distributed.Client
        own = self._kind == "local-cluster" and not self.shared
        cluster = held.enter_context(self._own_cluster()) if own else self.start()
        return {"scheduler": held.enter_context(client_type(cluster, set_as_default=False)).get}

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
        if taken := self._taken.pop(os.getpid(), None):
            taken.held.close()
        _LASTING.discard(self)
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
        return {**self.__dict__, "_server": None, "_taken": {}}

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


_LASTING: set[Dask] = set()  # worker_init_fns that this process computes with, whoever else has them


def _after_fork() -> None:
    """A client of a child would wait for a thread of distributed's that stayed in the parent: it gets another. So does who
    waits for a lock of a thread that stayed there."""
    global _SETTING
    _SETTING = threading.RLock()
    utils: Any = sys.modules.get("distributed.utils")
    if getattr(utils, "_offload_executor", None):
        from concurrent.futures import ThreadPoolExecutor

        utils._offload_executor = ThreadPoolExecutor(1, "Dask-Offload")


os.register_at_fork(after_in_child=_after_fork)


def _worker_of_torch() -> tuple[int, int]:
    """The number of the worker that this is, of how many; outside of workers 0 of 0."""
    torch = sys.modules.get("torch.utils.data")
    info = torch.get_worker_info() if torch else None
    return (info.id, info.num_workers) if info else (0, 0)
