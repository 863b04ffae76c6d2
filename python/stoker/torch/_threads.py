# SPDX-License-Identifier: Apache-2.0
"""Batches made by threads of this process, for datasets that release the interpreter's lock."""
from __future__ import annotations

import concurrent.futures
import os
import threading
from collections import deque
from typing import Any

from torch.utils.data import _DatasetKind

from stoker.torch._iterator import Base, plan_of
from stoker.torch._process import check_process
from stoker.torch._state import generators_of, go_to
from stoker.torch._worker import Fetcher


class Threads(Base):
    """In the order of the sampler. The threads share the dataset and the random states of the process."""

    def __init__(self, loader: Any, resumed: dict[str, Any] | None) -> None:
        within = resumed is not None and resumed["given"] is not None
        if loader.rng == "stoker" or loader._dataset_kind == _DatasetKind.Iterable or within:
            raise ValueError("workers='thread' is for map-style datasets, with rng='torch' and no state within an epoch: "
                             "threads share their random states, and cannot share an iterator")
        generators = generators_of(loader)
        if resumed:
            go_to(resumed["now"], generators)
        super().__init__(loader)
        if resumed and resumed["base_seed"] is not None:
            self._base_seed = resumed["base_seed"]
            go_to(resumed["now"], generators)  # this seed had been drawn before
        self._pid = os.getpid()
        self._plan = plan_of(self, loader)
        self._local = threading.local()
        self._pool = concurrent.futures.ThreadPoolExecutor(
            loader.num_workers, "stoker-loader", self._plan.init_fn and self._begin_thread)
        self._started = iter(range(loader.num_workers))
        self._ahead: int = loader.prefetch_factor * loader.num_workers
        self._fetched: deque[concurrent.futures.Future[Any]] = deque()
        self._reset(loader)

    def _begin_thread(self) -> None:
        assert self._plan.init_fn is not None
        self._plan.init_fn(next(self._started))

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        super()._reset(loader, first_iter)
        self.over = False
        self._drop()
        for _ in range(self._ahead):
            self._submit()

    def _drop(self) -> None:
        for future in self._fetched:
            future.cancel()
        self._fetched.clear()

    def _submit(self) -> None:
        try:
            index = self._index()
        except StopIteration:
            return
        self._fetched.append(self._pool.submit(Fetcher(self._plan, self._dataset).fetch, index))

    def _next_data(self) -> Any:
        check_process(self._pid)
        if not self._fetched:
            raise StopIteration
        try:
            batch = self._fetched[0].result(self._timeout or None)
        except concurrent.futures.TimeoutError:
            if not self._fetched[0].done():
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds") from None
            raise
        finally:
            if self._fetched[0].done():
                self._fetched.popleft()
                self._submit()
        return self._pinned(batch)

    @property
    def goes_on(self) -> bool:  # type: ignore[override]
        return bool(self._fetched)

    def state(self) -> dict[str, Any]:
        raise RuntimeError("workers='thread' has no state within an epoch: threads share their random states")

    def rest(self) -> dict[str, Any]:
        return {"base_seed": self._base_seed} if self._persistent_workers else {}

    def _release(self) -> None:
        if hasattr(self, "_pool"):
            self._drop()
            self._pool.shutdown(wait=False, cancel_futures=True)
