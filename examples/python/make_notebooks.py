#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write and run the notebooks of this folder, from the cells below.

    python examples/python/make_notebooks.py [NAME...]

The interpreter has stoker, and nbformat, nbclient, ipykernel, pandas, matplotlib. A notebook runs in a folder of its own,
which is removed; what it shows stays in it, but for pages of HTML that are larger than KEPT.
"""
import sys
import tempfile
from pathlib import Path

KEPT = 60_000  # characters of one output

MAKE_ARRAY = '''import json
from pathlib import Path

import numpy as np


def write_zarr(path, values, chunk):
    """An array as Zarr v3 without compression: a file for each chunk."""
    for place in np.ndindex(*(-(-n // c) for n, c in zip(values.shape, chunk))):
        part = values[tuple(slice(p * c, (p + 1) * c) for p, c in zip(place, chunk))]
        whole = np.zeros(chunk, values.dtype)
        whole[tuple(map(slice, part.shape))] = part
        file = Path(path, "c", *map(str, place))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(whole.tobytes())
    Path(path, "zarr.json").write_text(json.dumps({
        "zarr_format": 3, "node_type": "array", "shape": values.shape, "data_type": str(values.dtype), "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default"},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}))
'''

BENCHMARK = [
    """# Does the training step wait for its data?

The published benchmark of data loaders (earth-mover/dataloader-demo, and the guides that grew out of it) cuts samples of
48 × 48 × 3 out of a climate archive that lies far away, sleeps for as long as a training step would take, writes down every
event, and draws where the time went. This is that notebook with Stoker: one call for the measurement, one for the report.

It needs no network: the archive is made here, and the store `slow+` lets every read take 20 ms, as an object store does.""",
    MAKE_ARRAY
    + '''

days, height, width = 120, 64, 128
for name, mean in {"temperature": 280.0, "wind_speed": 6.0, "humidity": 0.005}.items():
    noise = np.random.default_rng(0).standard_normal((days, height, width), np.float32)
    write_zarr(f"archive.zarr/{name}", mean * (1 + 0.1 * noise), (12, 32, 32))
Path("archive.zarr/zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}');''',
    "A spec says what a sample is: the window, and how far the next one is away.",
    '''import stoker

archive = ("array:slow+archive.zarr?latency=20ms&variables=temperature,wind_speed,humidity"
           "&window=3x48x48&stride=1x16x16")
stoker.info(archive)''',
    """## Measure

An option with a list has several values, and each combination is measured in a process of its own. With 0 workers a batch is
read and cut when the step asks for it, which is what a loop without a loader does.""",
    """found = stoker.bench(archive, batch_size=16, shuffle=True, num_workers=[0, 1, 2], train_step_time=0.05,
                     num_epochs=2, num_batches=40, log="benchmark.jsonl")
found""",
    "The same as a table of pandas, with more columns than are shown:",
    """table = found.to_dataframe()
table[["num_workers", "samples_per_s", "wait_mean", "wait_p95", "step_share", "wait_storage_latency", "limit"]]""",
    "What limits the setting without workers, and what to change:",
    "found.baseline.verdict",
    """## Where the time went

The log has the events of the published benchmark, under their names. The published figure: the Gantt chart of a run, and the
histogram of its waits, from the end of a step to the begin of the next. Here *get-batch* is thin: reads are under way without
a worker, which only cuts the samples out.""",
    '''import matplotlib.pyplot as plt

COLOURS = {"setup": "#6D0EDB", "get-batch": "#C396F9", "training": "#FF6554", "epoch": "#FF9E0D"}


def runs_of(path):
    """The events of each run of a log."""
    runs = []
    for line in Path(path).read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "run start":
            runs.append([])
        runs[-1].append(event)
    return runs


def draw(events, axes):
    start, waits, ended = events[0]["time"], [], None
    for event in events:
        what, _, when = event["event"].rpartition(" ")
        if when == "end" and what in COLOURS:
            left = event["time"] - event["duration"] - start
            axes[0].barh(list(COLOURS)[::-1].index(what), event["duration"], left=left, color=COLOURS[what])
        if event["event"] == "training start" and ended:
            waits.append(event["time"] - ended)
        if event["event"] == "training end":
            ended = event["time"]
    axes[0].set(yticks=range(4), yticklabels=list(COLOURS)[::-1], xlabel="time (sec)", title=events[0]["label"])
    axes[0].grid(axis="x")
    axes[1].hist(waits, bins=50, color=COLOURS["setup"])
    axes[1].set(xlabel="wait (sec)")


runs = runs_of("benchmark.jsonl")
figure, axes = plt.subplots(2, 2, figsize=(12, 5), width_ratios=(3, 1), dpi=60, layout="constrained")
draw(runs[0], axes[0])
draw(runs[-1], axes[1])''',
    """The report reads such logs, also those that the published benchmark wrote, and puts more on one page: timelines that can be
zoomed, throughput, the ledger of the waits, comparisons with their intervals. A notebook shows the page in a frame (it is too
large to be kept here: run the cell); `report.save("report.html")` writes it.""",
    """report = stoker.report("benchmark.jsonl")
report""",
    "Its figures are there as well:",
    """report.to_dataframe()[["name", "wait_mean", "wait_p50", "wait_max", "step_mean", "busy_share", "total"]]""",
    "And what one setting is worth against another, with the interval of 95 %:",
    """for pair in report.comparisons:
    print(pair["text"], end="\\n\\n")""",
]

CHUNKS = [
    """# Which chunks?

A training sample is often a window of a large array: 64 × 64 pixels of a scan, some days of a region. Arrays are stored in
chunks, and a chunk is fetched whole. Small chunks mean many requests for a window, large ones many bytes that nobody asked
for. The guides print a table of both; `stoker.chunks` makes it for any window, and says which shape costs least where.""",
    """import stoker

sides = [8, 16, 32, 64, 128, 256, 512, 1024]
table = stoker.chunks(window=(64, 64), chunks=[(side, side) for side in sides])
table.to_dataframe()""",
    """The least and the most are the published columns. The third is what a window costs on average, wherever it begins, and that
is nearer to the most: a window of 64 × 64 nearly always touches *four* chunks of 64 × 64.

## What a store makes of it

Without `chunks` there is a recommendation: the shape that loses least against the best one, wherever in its range the store is.""",
    "stoker.chunks(window=(64, 64), store=\"s3\", dtype=\"float32\")",
    "The same as a page with charts:",
    "stoker.chunks(window=(64, 64), store=\"s3\", dtype=\"float32\").page",
    """A disk that seeks and a store far away want larger chunks than an SSD: what a request costs is weighed against what its bytes
cost.""",
    """import pandas as pd

rows = {}
for store in ("ssd", "disk", "nfs", "s3"):
    best = stoker.chunks(window=(64, 64), store=store, dtype="float32").recommended[0]
    rows[store] = {"chunk": best.chunk, "requests": best.requests, "bytes": best.bytes, "ms": 1000 * best.seconds}
pd.DataFrame(rows).T""",
    """## The order of the samples counts, too

A year of hourly fields, windows of four hours. In sequence, and by block shuffle, a chunk is read once for all windows that
need it; at random each window pays for its own.""",
    """rows = {}
for access in ("random", "sequential", "block"):
    found = stoker.chunks(window=(4, 64, 64), extent=(8760, 721, 1440), dtype="float32", ratio=2.5, store="s3", access=access)
    best = found.recommended[0]
    rows[access] = {"chunk": best.chunk, "requests": best.requests, "ms": 1000 * best.seconds, "memory": best.memory}
pd.DataFrame(rows).T""",
    """## Measured

The model is arithmetic. Of an array that exists, `measure=True` writes a sample again with each candidate, and times windows
of it behind a store as slow as the one that was named.""",
    MAKE_ARRAY
    + """

fields = np.random.default_rng(0).standard_normal((64, 256, 256), np.float32)
write_zarr("t2m.zarr", fields, (1, 256, 256))
found = stoker.chunks("t2m.zarr", window=(4, 64, 64), latency="2ms", bandwidth="200MB/s", io_depth=4, measure=True, top=3)
found.measured""",
    """Its own chunks, whole fields of one hour, are *present*. To store it with the best shape is one line with zarr-python, or
with xarray's `encoding`:""",
    "found.best",
]

NOTEBOOKS = {"benchmark": BENCHMARK, "chunks": CHUNKS}  # text and code in turn


def make(name: str, to: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.v4.new_notebook()
    for i, text in enumerate(NOTEBOOKS[name]):
        cell = nbformat.v4.new_code_cell(text) if i % 2 else nbformat.v4.new_markdown_cell(text)
        cell["id"] = f"cell-{i}"
        notebook.cells.append(cell)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=300, record_timing=False, resources={"metadata": {"path": folder}}).execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            for kind in [kind for kind, value in data.items() if len(value) > KEPT]:
                del data[kind]
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(notebook, to)


if __name__ == "__main__":
    for name in sys.argv[1:] or NOTEBOOKS:
        make(name, Path(__file__).with_name(f"{name}.ipynb"))
