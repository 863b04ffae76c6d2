# SPDX-License-Identifier: Apache-2.0
"""Any LightningModule under Lightning's three profilers, with a diagnosis.

    python -m stoker.profile my_project.model:Model --data my_project.data:Data

trains it once for each, from the beginning, and leaves below output/profiler/NAME:

    timing_summary.yaml, timing_results.csv          of the first run, as stoker.timing leaves them
    profiler_logs/fit-simple_profiler_output.txt
    profiler_logs/fit-advanced_profiler_output.txt
    profiler_logs/fit-pytorch_profiler_output.txt    with its trace, fit-pytorch_profiler_output-....pt.trace.json
"""
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lightning.pytorch.profilers import AdvancedProfiler, Profiler, PyTorchProfiler, SimpleProfiler

from stoker._named import Mistyped
from stoker.timing import arguments_of, options, parts_of, time_batches, train

PROFILERS: dict[str, type[Profiler]] = {
    "simple": SimpleProfiler,
    "advanced": AdvancedProfiler,
    "pytorch": PyTorchProfiler,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options("A training under Lightning's profilers, and what limits it.")
    parser.set_defaults(epochs=1)
    parser.add_argument("--output-dir", type=Path, default=Path("output/profiler"), metavar="DIR")
    parser.add_argument("--name", help="folder of the results in it (the configuration's name, or the class's)")
    parser.add_argument("--profilers", default=",".join(PROFILERS), help="some of them (%(default)s)")
    given = arguments_of(parser, arguments)
    folder = given.output_dir / (given.name or (given.config.stem if given.config else given.model.rpartition(":")[2]))
    chosen = given.profilers.split(",")
    if unknown := [name for name in chosen if name not in PROFILERS]:
        parser.error(f"--profilers has '{unknown[0]}': give some of {', '.join(PROFILERS)}")
    said = ""
    for name in chosen:
        profiler = PROFILERS[name](dirpath=folder / "profiler_logs", filename=f"{name}_profiler_output")
        try:
            model, data = parts_of(given)
            if name != chosen[0]:
                train(given, model, data, [], profiler=profiler)
                continue
            timing = time_batches(given, model, data, profiler=profiler)
        except Mistyped as error:
            parser.error(str(error))
        timing.write(folder)
        said = f"{timing.table()}\n\n{timing.diagnosis()}"
    print(f"{said}\n\nIn {folder}:")
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            print(f"  {path.relative_to(folder)}")


if __name__ == "__main__":
    main()
