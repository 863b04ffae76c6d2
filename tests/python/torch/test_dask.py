# SPDX-License-Identifier: Apache-2.0
"""stoker.dask: where Dask computes in the workers of loaders, how many threads that is, the one shared cluster."""
import multiprocessing.util
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings

import dask
import dask.array
import distributed
import numpy
import torch
import xarray

import stoker
import stoker.dask
import stoker.torch
import stoker.xarray
from stoker import _native
from stoker.dask import Dask

warnings.filterwarnings("ignore", module="zarr")
warnings.filterwarnings("ignore", message=".*multi-threaded.*fork.*")


class Rows(torch.utils.data.Dataset):
    """What computed a row: process and thread; and whether it is right."""

    def __init__(self):
        self.x = dask.array.from_array(numpy.arange(64.0).reshape(8, 8), chunks=(1, 1))

    def __len__(self):
        return 8

    def __getitem__(self, i):
        def where(block):
            import threading
            return numpy.array([[os.getpid(), threading.get_ident() % 2 ** 52]], "f8")
        assert numpy.array_equal((self.x[i] + 1).compute(), numpy.arange(8.0) + 8 * i + 1)
        places = self.x.map_blocks(where, chunks=(1, 2), dtype="f8")[i].compute().reshape(-1, 2)
        return os.getpid(), torch.from_numpy(places)


def places(scheduler, loader=torch.utils.data.DataLoader, **options):
    """Of each worker of a loader: the processes, and the threads in them, that computed for it."""
    found = {}
    for worker, seen in loader(Rows(), batch_size=None, num_workers=2, worker_init_fn=scheduler, **options):
        found.setdefault(worker, set()).update(map(tuple, seen.tolist()))
    return {worker: ({int(pid) for pid, _ in all}, all) for worker, all in found.items()}


class Modes(unittest.TestCase):
    def test_one_thread_of_the_worker(self):
        for mode in ("off", "single-threaded"):
            for worker, (processes, threads) in places(Dask(mode)).items():
                self.assertEqual((processes, len(threads)), ({worker}, 1), mode)

    def test_threads_of_the_worker(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for worker, (processes, threads) in places(Dask("threads:3")).items():
                self.assertEqual(processes, {worker})
                self.assertLessEqual(len(threads), 3)
                self.assertGreater(len(threads), 1)

    def test_a_cluster_for_each_worker(self):
        found = places(Dask("local-cluster", dask_workers=1, dask_threads=1))
        self.assertEqual(len(found), 2)
        for worker, (processes, _) in found.items():
            self.assertEqual(processes, {worker})  # workers of a loader have no children

    def test_one_cluster_for_all(self):
        with Dask("local-cluster", shared=True, dask_workers=1, dask_threads=1) as scheduler:
            scheduler.start()
            found = places(scheduler)
            server = scheduler._server
            self.assertEqual(len({tuple(processes) for processes, _ in found.values()}), 1)
            (process,), _ = found.popitem()[1]
            self.assertNotIn(process, (os.getpid(), *found))
            self.assertIsNone(server.poll())
        self.assertEqual(server.returncode, 0)
        with self.assertRaises(ProcessLookupError):
            os.kill(process, 0)

    def test_a_cluster_that_runs(self):
        with Dask("local-cluster", shared=True) as cluster:
            found = places(Dask(f"cluster:{cluster.start()}"))
            self.assertEqual(len({tuple(processes) for processes, _ in found.values()}), 1)
            self.assertFalse(set(found) & set().union(*(processes for processes, _ in found.values())))

    def test_the_shared_cluster_ends_with_who_began_it(self):
        code = ("import os, stoker.dask\n"
                "cluster = stoker.dask.Dask('local-cluster', shared=True)\n"
                "cluster.start(); print(cluster._server.pid, flush=True); os.kill(os.getpid(), 9)\n")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, -9)
        server = int(done.stdout)
        try:
            handle = os.pidfd_open(server)
        except ProcessLookupError:
            return
        self.addCleanup(os.close, handle)
        import select
        self.assertTrue(select.select([handle], [], [], 60)[0], "the cluster goes on")

    def test_the_shared_cluster_is_begun_before_the_workers(self):
        scheduler = Dask("local-cluster", shared=True)
        reader, writer = multiprocessing.Pipe(False)

        def child():
            try:
                scheduler.start()
            except stoker.InvalidError as error:
                writer.send(str(error))
        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join(60)
        self.assertTrue(reader.poll(0))
        self.assertIn("call start() first", reader.recv())

    def test_only_inside(self):
        with Dask("single-threaded").here():
            self.assertEqual(dask.config.get("scheduler"), "single-threaded")
        self.assertIsNone(dask.config.get("scheduler", None))

    def test_inside_of_several_threads(self):
        """The first leaves while the second computes."""
        scheduler = Dask("single-threaded")
        first, second = scheduler.here(), scheduler.here()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        self.assertEqual(dask.config.get("scheduler"), "single-threaded")
        second.__exit__(None, None, None)
        self.assertIsNone(dask.config.get("scheduler", None))

    def test_threads_of_a_loader(self):
        """They share what their process has taken, until it is closed."""
        with Dask("threads:2") as scheduler:
            found = places(scheduler, stoker.torch.DataLoader, workers="thread")
            pool = dask.config.get("pool")
        (worker, (processes, threads)), = found.items()
        self.assertEqual((worker, processes), (os.getpid(), {worker}))
        self.assertLessEqual(len(threads), 2)
        self.assertRaises(RuntimeError, pool.submit, int)
        self.assertIsNone(dask.config.get("scheduler", None))

    def test_windows_of_what_dask_computes(self):
        with tempfile.TemporaryDirectory() as folder:
            values = numpy.arange(120.0).reshape(20, 6)
            xarray.Dataset({"x": (("time", "y"), values)}).to_zarr(f"{folder}/x.zarr", encoding={"x": {"chunks": (5, 6)}})
            ds = xarray.open_zarr(f"{folder}/x.zarr") * 2
            for mode in ("off", "threads:2", "local-cluster"):
                windows = stoker.xarray.windows(ds, {"time": 4}, dask=mode)
                self.assertTrue(windows.reasons)
                for workers in (0, 2):
                    got = [batch["x"] for batch in torch.utils.data.DataLoader(windows, num_workers=workers)]
                    numpy.testing.assert_array_equal(torch.cat(got).reshape(20, 6), values * 2, mode)
                windows.close()

    def test_pickled(self):
        scheduler = Dask("threads:2")
        with scheduler.here():
            pass
        again = pickle.loads(pickle.dumps(scheduler))
        self.assertEqual((again.mode, again.threads), ("threads:2", 2))


class Ends(unittest.TestCase):
    """What a process has taken ends with close(), and with the process."""

    def setUp(self):
        self.enterContext(warnings.catch_warnings(action="ignore"))

    def tearDown(self):
        self.assertIsNone(dask.config.get("scheduler", None))

    def test_threads(self):
        before = threading.active_count()
        scheduler = Dask("threads:2")
        with scheduler.here():
            (dask.array.ones(60, chunks=1) + 1).sum().compute()
        self.assertGreater(threading.active_count(), before)
        scheduler.close()
        self.assertEqual(threading.active_count(), before)
        with scheduler.here():  # which takes them anew
            self.assertEqual(int(dask.array.ones(6, chunks=1).sum().compute()), 6)
        del scheduler
        self.assertEqual(threading.active_count(), before)

    def test_from_now_on(self):
        before = threading.active_count()
        Dask("threads:2")()  # nobody else has it
        self.assertEqual(int(dask.array.ones(6, chunks=1).sum().compute()), 6)
        pool = dask.config.get("pool")
        self.assertGreater(threading.active_count(), before)
        (scheduler,) = stoker.dask._LASTING
        scheduler.close()
        self.assertEqual(threading.active_count(), before)
        self.assertIsNone(dask.config.get("pool", None))
        self.assertRaises(RuntimeError, pool.submit, int)

    def test_a_cluster_is_nobody_elses(self):
        scheduler = Dask("local-cluster", dask_workers=1)
        with scheduler.here():
            client = dask.config.get("scheduler").__self__
        self.assertRaises(ValueError, distributed.get_client)
        scheduler.close()
        self.assertEqual((client.status, client.cluster.status.name), ("closed", "closed"))

    def clients(self, address, count):
        with distributed.Client(address, set_as_default=False) as client:
            for _ in range(600):
                names = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.clients))
                left = len(set(names) - {client.id, "fire-and-forget"})
                if left == count:
                    return left
                time.sleep(0.1)
            return left

    def test_clients_of_children(self):
        with Dask("local-cluster", shared=True) as cluster:
            address = cluster.start()
            scheduler = Dask(f"cluster:{address}")
            with scheduler.here():
                self.assertEqual(self.clients(address, 1), 1)
            self.assertEqual(len(places(scheduler)), 2)
            told = multiprocessing.get_context("fork").SimpleQueue()

            def child():
                with scheduler.here():
                    mine = dask.config.get("scheduler").__self__
                scheduler.close()
                told.put(mine.status)
            process = multiprocessing.get_context("fork").Process(target=child)
            process.start()
            process.join(60)
            self.assertEqual(told.get(), "closed")
            self.assertEqual(self.clients(address, 1), 1)  # ours goes on
            with scheduler.here():
                self.assertEqual(int(dask.array.ones(6, chunks=1).sum().compute()), 6)
            scheduler.close()
            self.assertEqual(self.clients(address, 0), 0)

    def test_a_child_that_ends(self):
        read, write = os.pipe()
        scheduler = Dask("threads:2")

        def child():
            with scheduler.here():
                pool = dask.config.get("pool")
            multiprocessing.util.Finalize(None, lambda: os.write(write, str(pool._shutdown).encode()), exitpriority=1)
        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join(60)
        os.close(write)
        with open(read, "rb") as told:
            self.assertEqual(told.read(), b"True")


class Threads(unittest.TestCase):
    def test_more_threads_than_cores(self):
        cases = ((Dask("threads:4"), 2, 1, "1 ranks x 2 workers x 4 threads of Dask are 8 threads, and 7 cores"),
                 (Dask("threads:2"), 2, 2, "2 ranks x 2 workers x 2 threads of Dask are 8 threads"),
                 (Dask("threads:8"), 0, 1, "1 ranks x 1 workers x 8 threads"),
                 (Dask("local-cluster", dask_workers=2, dask_threads=2), 2, 1, "1 ranks x 2 workers x 4 threads"),
                 (Dask("local-cluster", dask_workers=4, dask_threads=2, shared=True), 9, 1, "1 ranks x 1 workers x 8 threads"))
        for scheduler, workers, ranks, words in cases:
            with self.assertWarnsRegex(RuntimeWarning, words):
                self.assertFalse(scheduler.check(workers, ranks, 7))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for scheduler, workers, ranks, _ in cases:
                self.assertTrue(scheduler.check(workers, ranks, 8))
            for mode in ("off", "cluster:tcp://x:1"):
                self.assertTrue(Dask(mode).check(100, 100, 1))
            self.assertTrue(Dask("single-threaded").check(7, 1, 7))

    def test_ranks_of_this_machine(self):
        for name, value in {"RANK": "1", "WORLD_SIZE": "3", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "3"}.items():
            os.environ[name] = value
            self.addCleanup(os.environ.pop, name)
        with self.assertWarnsRegex(RuntimeWarning, "3 ranks x 2 workers x 2 threads of Dask are 12 threads, and 11"):
            Dask("threads:2").check(2, cores=11)

    def test_usable_cores(self):
        usable, preparation = _native.cores()
        self.assertLessEqual(usable, len(os.sched_getaffinity(0)))
        self.assertIn(preparation, range(1, usable + 1))

    def test_a_worker_warns_once(self):
        code = ("import torch\nfrom stoker.dask import Dask\n"
                "for _ in torch.utils.data.DataLoader(range(4), num_workers=2, worker_init_fn=Dask('threads:1000')): pass\n")
        done = subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", code], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("1 ranks x 2 workers x 1000 threads of Dask are 2000 threads"), 1, done.stderr)

    def test_windows_warn_once(self):
        code = ("import dask.array, numpy, torch, xarray, stoker.xarray\n"
                "ds = xarray.Dataset({'x': ('time', dask.array.arange(8.0, chunks=2) * 2)})\n"
                "windows = stoker.xarray.windows(ds, {'time': 1}, dask='threads:1000')\n"
                "for workers in (2, 0):\n"
                "    for _ in torch.utils.data.DataLoader(windows, num_workers=workers): pass\n")
        done = subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", code], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in ("1 ranks x 2 workers x 1000 threads of Dask are 2000 threads", "1 ranks x 1 workers x 1000 threads"):
            self.assertEqual(done.stderr.count(words), 1, done.stderr)


class Errors(unittest.TestCase):
    def test_options(self):
        for mode, options, words in (("thread:2", {}, "give one of off"), ("threads", {}, "write one of"), ("threads:0", {}, "write one of"),
                                     ("threads:two", {}, "write one of"), ("cluster:", {}, "write one of"), ("off:1", {}, "write one of"),
                                     ("threads:2", {"dask_workers": 2}, "dask_workers is for dask='local-cluster' alone"),
                                     ("off", {"shared": True}, "shared is for"),
                                     ("local-cluster", {"dask_threads": 0}, "dask_threads is 0"),
                                     ("local-cluster", {"dask_dashboard_port": -1}, "dask_dashboard_port is -1"),
                                     (3, {}, "dask is 3: give one of off"), (None, {}, "dask is None: give one of off")):
            with self.assertRaisesRegex(stoker.InvalidError, words):
                Dask(mode, **options)
        with self.assertRaisesRegex(TypeError, "dask_workers is 'two': give a whole number"):
            Dask("local-cluster", dask_workers="two")
        self.assertEqual(repr(Dask("local-cluster", dask_workers=numpy.int64(2))._cluster["n_workers"]), "2")


if __name__ == "__main__":
    unittest.main()
