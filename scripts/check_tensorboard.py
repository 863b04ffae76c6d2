#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Read event files back with the real tensorboard package and print what they hold.

    python3 scripts/check_tensorboard.py FOLDER

One line for each value of each scalar, sorted by name: `name step value`; then `text NAME: ...` for texts and
`hparam NAME=VALUE` for hyper-parameters. Exit code 1 where a record is damaged. Needs the package tensorboard.
"""
import os
import sys

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto import event_pb2
from tensorboard.plugins.hparams import plugin_data_pb2


def count_records(folder):
    """Records of all files, with their checksums verified by the package; each file begins with its version."""
    count = 0
    for name in sorted(os.listdir(folder)):
        if ".tfevents." not in name:
            continue
        first = True
        for raw in RawEventFileLoader(os.path.join(folder, name)).Load():
            event = event_pb2.Event.FromString(raw)
            if first and event.file_version != "brain.Event:2":
                sys.exit(f"{name} begins with no version")
            first = False
            count += 1
    return count


def main():
    folder = sys.argv[1]
    print("records", count_records(folder))
    accumulator = event_accumulator.EventAccumulator(folder, size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    tags = accumulator.Tags()
    scalars = {}
    for tag in tags["scalars"]:
        scalars[tag] = [(e.step, e.value) for e in accumulator.Scalars(tag)]
    for tag in tags["tensors"]:
        metadata = accumulator.SummaryMetadata(tag)
        events = accumulator.Tensors(tag)
        if metadata.plugin_data.plugin_name == "scalars":
            scalars[tag] = [(e.step, e.tensor_proto.float_val[0]) for e in events]
        elif metadata.plugin_data.plugin_name == "text":
            for e in events:
                print(f"text {tag}: {e.tensor_proto.string_val[0].decode()!r}")
    for tag in sorted(scalars):
        for step, value in scalars[tag]:
            print(tag, step, f"{value:.9g}")
    content = accumulator._plugin_to_tag_to_content.get("hparams", {})
    for tag in sorted(content):
        start = plugin_data_pb2.HParamsPluginData.FromString(content[tag]).session_start_info
        for name in sorted(start.hparams):
            value = start.hparams[name]
            print(f"hparam {name}={getattr(value, value.WhichOneof('kind'))!r}")


if __name__ == "__main__":
    main()
