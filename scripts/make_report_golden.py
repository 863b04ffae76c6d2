#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/golden/report: logs as the published Python benchmark writes them, and what a reader has to find.

usage: make_report_golden.py FOLDER

Needs numpy and scipy. The logs follow earth-mover/dataloader-demo (main.py): events, order of fields, Python's
json.dumps. With workers, processes share one standard output: some lines hold two objects and are followed by an empty
one, and some lines are out of the order of time. `notebook()` computes what plot.ipynb does, `robust()` the same from
every event in the order of time; both know nothing of Stoker.
"""
import json
import pathlib
import random
import sys

import check_report_training
import numpy as np

START = 1710523476.1234567


def locals_of(**options):
    names = ("source num_epochs num_batches batch_size shuffle num_workers prefetch_factor persistent_workers "
             "pin_memory train_step_time dask_threads").split()
    given = {"source": "arraylake", "num_epochs": 2, "num_batches": 3, "batch_size": 16, "train_step_time": 0.1}
    given.update(options)
    return {name: given.get(name) for name in names}


def simulate(options, rng, load=0.02):
    """Events as (time, object), as the program emits them; a sample takes about `load` seconds."""
    o = locals_of(**options)
    workers, prefetch = o["num_workers"] or 0, o["prefetch_factor"] or 2
    events, now, pids = [], START, list(range(4711, 4711 + workers)) or [4242]
    free = {pid: START for pid in pids}

    def emit(name, when, **fields):
        lead = {k: fields.pop(k) for k in ("epoch", "batch") if k in fields}
        events.append((when, {"event": name, **lead, "time": when, **fields}))

    def sample(pid, when):
        took = load * rng.uniform(0.5, 2.0)
        idx = rng.randrange(100000)
        emit("get-batch start", when, idx=idx, pid=pid)
        emit("get-batch end", when + took, idx=idx, pid=pid, duration=(when + took) - when)
        return when + took

    def load_batch(number, when):
        """The time at which the batch is complete."""
        pid = pids[number % len(pids)]
        t = max(when, free[pid]) if workers else when
        for _ in range(o["batch_size"]):
            t = sample(pid, t)
        free[pid] = t
        return t

    def iterate(batches):
        """One iterator: with workers it has workers x prefetch batches asked for ahead."""
        nonlocal now
        ready, asked = [], 0
        for _ in range(workers * prefetch):
            ready.append(load_batch(asked, now))
            asked += 1
        for _ in range(batches):
            ready.append(load_batch(asked, now))
            asked += 1
            now = max(now, ready.pop(0)) + 1e-5
            yield

    given = {k: v for k, v in o.items() if v is not None and k in
             ("batch_size", "shuffle", "num_workers", "prefetch_factor", "persistent_workers", "pin_memory")}
    emit("run start", now, data_params=str(given), locals=o)
    run = setup = now
    emit("setup start", now)
    now += 0.5
    for _ in iterate(1):
        pass
    emit("setup end", now, duration=now - setup)
    for epoch in range(o["num_epochs"]):
        began = now
        emit("epoch start", now, epoch=epoch)
        for batch, _ in enumerate(iterate(o["num_batches"])):
            t0 = now
            emit("training start", t0, batch=batch)
            now += o["train_step_time"] + rng.uniform(5e-5, 2e-4)
            emit("training end", now, batch=batch, duration=now - t0)
        emit("epoch end", now, epoch=epoch, duration=now - began)
        now += 1e-3
    emit("run end", now, duration=now - run)
    first, rest = events[0], events[1:]
    rest.sort(key=lambda e: e[0])
    return [first] + rest


def write(events, rng, defects):
    """Lines; with defects two objects share one, the second of the two ends is an empty line, and neighbours swap."""
    texts = [json.dumps(e) for _, e in events]
    if defects:
        for _ in range(12):  # lines of several processes that overtake each other
            i = rng.randrange(5, len(texts) - 5)
            if '"get-batch' in texts[i] and '"get-batch' in texts[i + 3]:
                texts[i], texts[i + 3] = texts[i + 3], texts[i]
    out, i = [], 0
    while i < len(texts):
        if defects and 0 < i < len(texts) - 2 and rng.random() < 0.06:
            out.append(texts[i] + texts[i + 1] + "\n\n")
            i += 2
        else:
            out.append(texts[i] + "\n")
            i += 1
    return "".join(out)


def notebook(text):
    """plot.ipynb: lines that are not one object are dropped, everything in the order of the file."""
    waits, gets, end = [], [], None
    for line in text.splitlines():
        try:
            e = json.loads(line)
        except ValueError:
            continue
        if e["event"] == "training start" and end is not None:
            waits.append(e["time"] - end)
        elif e["event"] == "training end":
            end = e["time"]
        elif e["event"] == "get-batch end":
            gets.append(e["duration"])
    return waits, gets


def objects(text):
    decoder, at = json.JSONDecoder(), 0
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text):
            return
        value, at = decoder.raw_decode(text, at)
        yield value


def robust(text):
    found = list(objects(text))
    by_time = sorted(found, key=lambda e: e["time"])
    waits, end = [], None
    for e in by_time:
        if e["event"] == "training start" and end is not None:
            waits.append(e["time"] - end)
        elif e["event"] == "training end":
            end = e["time"]
    return found, waits


def figures(text):
    nb_waits, _ = notebook(text)
    found, waits = robust(text)
    of = lambda name: [e for e in found if e["event"] == name]
    waits = np.array(waits)
    edge = waits.mean() + 3 * waits.std()
    counts, _ = np.histogram(waits, bins=np.linspace(0, edge, 100))
    epochs = [e["duration"] for e in of("epoch end")]
    o = of("run start")[0]["locals"]
    workers, prefetch = o["num_workers"] or 0, o["prefetch_factor"] or 2
    lost = len(found) - sum(1 for line in text.splitlines() if is_object(line))
    return {
        "objects": len(found), "notebook_lost": lost, "lines": text.count("\n"),
        "total": of("run end")[0]["duration"], "setup": of("setup end")[0]["duration"], "epochs": epochs,
        "get_batches": len(of("get-batch end")), "get_mean": float(np.mean([e["duration"] for e in of("get-batch end")])),
        "expected_starts": o["batch_size"] * (o["num_epochs"] * o["num_batches"] + 1 +
                                              (o["num_epochs"] + 1) * workers * (prefetch if workers else 0)),
        "wait_notebook": float(np.mean(nb_waits)), "waits_notebook": len(nb_waits),
        "wait": float(waits.mean()), "waits": len(waits), "deviation": float(waits.std()),
        "p50": float(np.percentile(waits, 50)), "p95": float(np.percentile(waits, 95)),
        "p99": float(np.percentile(waits, 99)), "max": float(waits.max()),
        "busy": sum(e["duration"] for e in of("training end")) / sum(epochs),
        "bins": counts.tolist(), "beyond": int((waits > edge).sum()),
    }


def is_object(line):
    try:
        json.loads(line)
        return True
    except ValueError:
        return False


def fig2(rng):
    """Waits and steps of 3 x 500 batches that amount to the published figures of the run fig2."""
    epochs, mean, p50, p95, most = (837.37, 749.52, 638.87), 1.383495, 1.299, 1.891, 5.85
    n, step = 1499, 0.1001
    # Sorted waits: straight lines between the published percentiles; the lowest is moved until the mean is right.
    def sorted_waits(low):
        return np.interp(np.arange(n) / (n - 1), [0, 0.5, 0.95, 0.999, 1], [low, p50, p95, 2.6, most])
    low, high = 0.0, p50
    for _ in range(100):
        low, high = ((low + high) / 2, high) if sorted_waits((low + high) / 2).mean() < mean else (low, (low + high) / 2)
    waits = sorted_waits(low)
    # Deal them out so that the epochs take what they took: a wait goes where it is needed most.
    need = [seconds - 500 * step for seconds in epochs]
    first = sum(need) - waits.sum()
    dealt, left = [[first], [], []], [499, 500, 500]
    need[0] -= first
    order = waits.tolist()
    rng.shuffle(order)
    for w in sorted(order, reverse=True):
        k = max((i for i in range(3) if left[i]), key=lambda i: need[i] / left[i])
        dealt[k].append(w)
        need[k] -= w
        left[k] -= 1
    for k in range(3):
        rest = dealt[k][1:] if k == 0 else dealt[k]
        rng.shuffle(rest)
        dealt[k] = dealt[k][:1] + rest if k == 0 else rest
    return dealt


def ledger(rng):
    """A log of our own kind: two settings, each with ledgers, load of the machine, a queue and a verdict."""
    lines, now = [], 1_800_000_000.0

    def emit(name, when, **fields):
        lines.append(json.dumps({"event": name, "time": round(when, 6), **fields, "time_ns": round((when - START) * 1e9)}))

    for setting, (workers, load) in enumerate(((1, 0.030), (4, 0.004))):
        run, label = now, f"num_workers={workers}"
        emit("run start", now, data_params="{}", locals={"batch_size": 32, "num_workers": workers, "io_depth": 16},
             rank=0, world_size=1, setting=setting, repeat=1, label=label)
        emit("setup start", now)
        now += 0.2
        emit("setup end", now, duration=0.2)
        for epoch in range(3):
            began, waited, stepped = now, 0.0, 0.0
            emit("epoch start", now, epoch=epoch)
            for batch in range(40):
                wait, step = max(1e-5, load * rng.uniform(0.2, 1.8) * (3 if batch == 0 else 1)), 0.02 * rng.uniform(0.98, 1.04)
                now += wait
                emit("get-batch end", now, idx=batch, pid=7, worker=batch % workers, duration=wait * 0.9)
                emit("training start", now, batch=batch, epoch=epoch, ready=rng.randrange(0, 2 * workers))
                now += step
                emit("training end", now, batch=batch, duration=step, epoch=epoch)
                waited, stepped = waited + wait, stepped + step
                if batch % 12 == 0:
                    emit("system", now, cpu={"process": workers * 0.6, "machine": workers * 0.6 + 0.4},
                         memory={"process_bytes": 10**8 + 10**6 * batch, "cgroup_bytes": 3 * 10**8},
                         io={"asked_bytes_per_s": 5e7 * rng.uniform(0.8, 1.2), "storage_bytes_per_s": 4e7})
            emit("epoch end", now, epoch=epoch, duration=now - began)
            shares = {"storage_latency": .3, "storage_transfer": .1, "read_slot": .05, "worker": .1, "decode_entropy": .16,
                      "decode": .12, "transform": .08, "collate": .03, "memory_budget": .02, "ordering": .01,
                      "startup": .01, "epoch_turn": .015, "retry": .005}
            emit("ledger", now, epoch=epoch, parts={"step": stepped, "data wait": waited, "other": now - began - waited - stepped},
                 wait={name: share * waited for name, share in shares.items()})
        emit("verdict", now, limit="storage", lost_share=0.3, knob="io_depth", value="64", gain=1.4,
             text="Storage is the limit: a read takes 12 ms and 16 are in flight. Set io_depth to 64.")
        now += 0.01
        emit("run end", now, duration=now - run)
        now += 1
    return "\n".join(lines) + "\n"


def ladder(rng):
    """Four measures one after the other, each run three times: the run of the median rate counts."""
    lines, now = [], 1_810_000_000.0

    def emit(name, when, **fields):
        lines.append(json.dumps({"event": name, "time": round(when, 6), **fields, "time_ns": round((when - START) * 1e9)}))

    rungs = (("at first", 100, "one core"), ("num_workers=4", 200, "storage latency"), ("io_depth=32", 1600, "storage bandwidth"),
             ("dataset=<packed & small>", 1520, "step"))
    for repeat, factor in enumerate((0.9, 1.2, 1), 1):
        for rung, (measure, rate, limit) in enumerate(rungs, 1):
            run, rate = now, rate * factor
            emit("run start", now, data_params="{}", locals={"batch_size": 32, "num_workers": 4 * (rung > 1)}, rank=0,
                 world_size=1, repeat=repeat, setting=rung, label=f"{rung}. {measure}", rung=rung, measure=measure)
            now += 0.1
            emit("epoch start", now, epoch=0)
            began = now
            for batch in range(8):
                now += max(1e-5, 32 / rate - 0.01 * rng.uniform(0.95, 1.05))
                emit("training start", now, batch=batch, epoch=0)
                now += 0.01
                emit("training end", now, batch=batch, duration=0.01, epoch=0)
            emit("epoch end", now, epoch=0, duration=now - began)
            emit("figures", now, samples_per_s=rate, steps=7, batch_size=32)
            emit("verdict", now, limit=limit, lost_share=0.5, knob=None, value=None, gain=1, text=f"It is {limit}.")
            emit("run end", now, duration=now - run)
            now += 1
    return "\n".join(lines) + "\n"


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(20240315)
    expected = {}
    cases = {
        "baseline": ({"num_batches": 20, "batch_size": 4, "shuffle": True, "dask_threads": 1}, False),
        "workers": ({"num_workers": 2, "prefetch_factor": 2, "persistent_workers": True}, True),
        "many": ({"num_workers": 4, "prefetch_factor": 1, "num_batches": 12, "batch_size": 8}, True),
    }
    for name, (options, defects) in cases.items():
        text = write(simulate(options, rng), rng, defects)
        (folder / f"{name}.log").write_text(text)
        expected[name] = figures(text)
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    dealt = fig2(rng)
    (folder / "fig2.txt").write_text("\n".join(f"{w:.9f}" for epoch in dealt for w in epoch) + "\n")

    (folder / "ledger.log").write_text(ledger(random.Random(5)))
    (folder / "ladder.log").write_text(ladder(random.Random(6)))
    check_report_training.train(folder / "training.log", rate=0.02, gaps={64})

    from scipy import stats
    random_numbers = np.random.default_rng(7)
    lines = []
    for n_a, n_b, spread, factor in ((3, 3, 0.02, 1.0), (5, 5, 0.05, 1.3), (2, 7, 0.1, 0.5), (30, 20, 0.4, 1.05)):
        a = np.exp(random_numbers.normal(0, spread, n_a))
        b = np.exp(random_numbers.normal(np.log(factor), spread * 2, n_b))
        test = stats.ttest_ind(np.log(b), np.log(a), equal_var=False)
        interval = test.confidence_interval(0.95)
        values = [n_a, n_b, *a, *b, np.exp(np.log(b).mean() - np.log(a).mean()), np.exp(interval.low),
                  np.exp(interval.high), test.pvalue, test.df]
        lines.append(" ".join(repr(float(v)) if i > 1 else str(v) for i, v in enumerate(values)))
    (folder / "welch.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
