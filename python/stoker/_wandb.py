# SPDX-License-Identifier: Apache-2.0
"""The journal of a run -> Weights & Biases, by its own client: what `stoker report --sync wandb` starts.

The journal is read from where the mark `wandb.sent` says that it was sent to; a run is resumed by the id of its journal, so that
a part that is sent twice is no second run.
"""
from __future__ import annotations

import argparse
import fcntl
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

JOURNALS = "wandb.jsonl", "mlflow.jsonl"
MARK = "wandb.sent"


def lines(file: IO[bytes], offset: int) -> Iterator[tuple[dict[str, Any] | None, int]]:
    """Each whole line from there on as an object, and the offset behind it; None for a line that says nothing."""
    file.seek(offset)
    for line in file:
        if not line.endswith(b"\n"):
            return
        offset += len(line)
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        yield (record if isinstance(record, dict) else None), offset


def read_mark(run: Path, journal: str) -> int:
    """How far the journal of that id is sent."""
    try:
        mark = json.loads((run / MARK).read_text())
        return int(mark["offset"]) if mark["journal"] == journal else 0
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def write_mark(run: Path, journal: str, offset: int) -> None:
    temporary = run / f".{MARK}.{os.getpid()}"
    with open(temporary, "w") as file:
        json.dump({"journal": journal, "offset": offset}, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(run / MARK)


def below(run: Path, name: Any) -> Path | None:
    """A file of the run's folder; None: it is gone, or lies elsewhere."""
    if not isinstance(name, str) or name.startswith("/") or ".." in name.split("/"):
        return None
    path = run / name
    return path if path.is_file() else None


class Sender:
    """Lines of one journal, in their order, to a run of the client."""

    def __init__(self, wandb: Any, target: Any, run: Path) -> None:
        self.wandb, self.target, self.run = wandb, target, run
        self.metrics = self.files = 0
        self.failed = False

    def take(self, record: dict[str, Any]) -> None:
        if "metrics" in record:
            # W&B's own step only grows; what a validation logs may be of an earlier one, so it is a metric.
            values = dict(record["metrics"]) | {"trainer/global_step": record["step"], "_timestamp": record["time"]}
            self.target.log(values)
            self.metrics += len(record["metrics"])
        elif "params" in record:
            self.target.config.update(dict(record["params"]), allow_val_change=True)
        elif "tags" in record:
            self.target.config.update({f"tags/{name}": value for name, value in record["tags"]}, allow_val_change=True)
        elif "file" in record:
            if path := below(self.run, record["file"]):
                self.artifact(path)
        elif "end" in record:
            self.failed = record["end"] != "FINISHED"

    def artifact(self, path: Path) -> None:
        kind = "model" if path.suffix != ".html" else "report"
        artifact = self.wandb.Artifact(f"{kind}-{self.target.id}", type=kind)
        artifact.add_file(str(path), name=path.name)
        self.target.log_artifact(artifact)
        self.files += 1


def sync(wandb: Any, run: Path, given: argparse.Namespace) -> str:
    """Send what is not sent yet; a sentence that says what was."""
    path = next((run / name for name in JOURNALS if (run / name).is_file()), None)
    if path is None:
        raise SystemExit(f"stoker: '{run}' has no journal: name the folder of a run that was logged with --logger wandb, "
                         "as lightning_logs/version_0")
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"stoker: '{path}' is in use by another process, which trains or sends it; wait for its end") from None
        start, _ = next(lines(file, 0), (None, 0))
        if not start or start.get("journal") != 1 or not isinstance(start.get("id"), str):
            raise SystemExit(f"stoker: '{path}' is no journal of a run: its first line is another")
        size, offset, options = os.fstat(file.fileno()).st_size, read_mark(run, start["id"]), start.get("options") or {}
        if offset >= size:
            return f"{run}: nothing is left to send"
        target = wandb.init(project=given.project or options.get("project") or options.get("experiment_name") or "lightning_logs",
                            entity=given.entity or options.get("entity"), group=options.get("group"),
                            name=given.run_name or options.get("run_name"), id=start["id"], resume="allow", dir=str(run))
        sender, damaged, end = Sender(wandb, target, run), 0, offset
        for record, end in lines(file, offset):
            try:
                sender.take(record or {})
                damaged += record is None
            except (TypeError, ValueError, KeyError):
                damaged += 1
        for page in sorted(run.glob("*.html")):
            sender.artifact(page)
        # The client has all of it only now.
        target.finish(exit_code=int(sender.failed))
        write_mark(run, start["id"], end)
    if damaged:
        print(f"stoker: warning: {run}: {damaged} lines of the journal are damaged and were left out", file=sys.stderr)
    url = getattr(target, "url", None)
    return f"{run}: sent {sender.metrics} metrics, {sender.files} files" + (f": {url}" if url else "")


def main() -> None:
    parser = argparse.ArgumentParser(prog="stoker report --sync wandb")
    parser.add_argument("--project")
    parser.add_argument("--entity")
    parser.add_argument("--run-name")
    parser.add_argument("runs", nargs="+", type=Path)
    given = parser.parse_args()
    try:
        import wandb
    except ImportError:
        sys.exit(f"stoker: the client of Weights & Biases is not installed for {sys.executable}: pip install wandb there, or name "
                 "another interpreter (--python)")
    for run in given.runs:
        print(sync(wandb, run, given))


if __name__ == "__main__":
    main()
