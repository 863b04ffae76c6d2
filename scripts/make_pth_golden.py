#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the files of tests/golden/pth with torch.save, and what torch.load gives for them as safetensors.

    python3 scripts/make_pth_golden.py [FOLDER]

NAME.pth is read by tests/golden/checkpoint/test_pth_torch.c, and every tensor compared with that of NAME.safetensors bit for bit.
bad/NAME.pth is refused. Needs torch and safetensors; made with torch 2.15.
"""
import collections
import io
import os
import pathlib
import sys
import zipfile

import safetensors.torch
import torch
from torch import nn

DEFAULT = pathlib.Path(__file__).parent.parent / "tests" / "golden" / "pth"
TYPES = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 uint16 uint32 uint64".split()


def numbers(shape, dtype):
    n = torch.Size(shape).numel()
    k = torch.arange(n) % 100
    if dtype == torch.bool:
        return (k % 2).bool().reshape(shape)
    if dtype in (torch.uint16, torch.uint32, torch.uint64):
        return k.to(torch.int64).to(dtype).reshape(shape)
    return k.to(dtype).reshape(shape) / (8 if dtype.is_floating_point or dtype.is_complex else 1)


def every_type():
    return {name: numbers((2, 3), getattr(torch, name)) for name in TYPES} | {"none": torch.zeros(0, 4), "one": torch.tensor(2.5)}


def strided():
    """Views of one storage: transposed, stepped, expanded, offset, and the storage twice."""
    base = numbers((4, 6, 5), torch.float32)
    half = numbers((7, 3), torch.bfloat16)
    return {"base": base, "transposed": base.permute(2, 0, 1), "stepped": base[1::2, :, ::2], "expanded": base[0, 0].expand(3, 5),
            "offset": base[2], "again": base, "channels_last": numbers((2, 3, 4, 5), torch.float32).to(memory_format=torch.channels_last),
            "half": half.t(), "column": half[:, 1], "single": base[:1, :, :1].transpose(0, 2)}


def model():
    """A state_dict, whose OrderedDict has attributes, with parameters among its values."""
    torch.manual_seed(0)
    m = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 2))
    return m.state_dict(keep_vars=True)


def checkpoint():
    """As Lightning writes them, with state that holds more than tensors, but no objects."""
    state = {k: v.detach() for k, v in model().items()}
    return {"epoch": 3, "global_step": 1 << 40, "pytorch-lightning_version": "2.6.6", "state_dict": state,
            "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": {"total": {"ready": 1}}}},
            "callbacks": {"ModelCheckpoint{'monitor': None}": {"best": torch.tensor(0.5), "path": "a.ckpt", "last": None}},
            "optimizer_states": [{"state": {0: {"step": torch.tensor(7.0), "exp_avg": torch.ones(4)}},
                                  "param_groups": [{"lr": 0.1, "betas": (0.9, 0.999), "amsgrad": False, "params": [0, 1]}]}],
            "lr_schedulers": [{"last_epoch": -1, "big": -(1 << 70)}], "hparams_name": "kwargs", "hyper_parameters": {"width": 3}}


def attribute():
    """The same of a module that has its model as an attribute, `self.model`."""
    saved = checkpoint()
    return saved | {"state_dict": {f"model.{k}": v for k, v in saved["state_dict"].items()}}


def tensors(saved):
    return {k: v.detach().clone().contiguous() for k, v in saved.get("state_dict", saved).items()}


def save(folder, name, saved, **options):
    torch.save(saved, folder / f"{name}.pth", **options)
    safetensors.torch.save_file(tensors(saved), folder / f"{name}.safetensors")


def rewritten(folder, name, change, compression=zipfile.ZIP_STORED):
    """A file of torch, its zip written anew with other entries."""
    whole = io.BytesIO()
    torch.save({"a": torch.ones(2)}, whole)
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(folder / f"{name}.pth", "w", compression) as new:
        for entry in old.namelist():
            data = change(entry.split("/", 1)[1], old.read(entry))
            if data is not None:
                new.writestr(entry.replace("archive", name), data)


def steps_around(pickle):
    """Sizes (2, 2), and steps whose last element is the highest number of 64 bits."""
    most = b"\x8a\x08" + b"\xff" * 7 + b"\x7f"
    return pickle.replace(b"K\0K\2\x85", b"K\1K\2K\2\x86").replace(b"K\1\x85", most * 2 + b"\x86")


class Evil:
    def __reduce__(self):
        return os.system, ("echo this must never run",)


def bad(folder):
    torch.save({"a": torch.ones(2), "evil": Evil()}, folder / "code.pth")
    torch.save(nn.Linear(2, 2), folder / "module.pth")
    torch.save({"state_dict": {"a": torch.ones(2), "steps": 3}}, folder / "number.pth")
    torch.save([torch.ones(2)], folder / "list.pth")
    torch.save({"a": torch.ones(2)}, folder / "old.pth", _use_new_zipfile_serialization=False)
    torch.save({"a": torch.zeros(2, dtype=torch.float8_e4m3fn)}, folder / "float8.pth")
    torch.save({"a": torch.zeros(2, 3).to_sparse()}, folder / "sparse.pth")
    torch.save({"a": torch.zeros(1, 1, 1, 1, 1, 1, 1, 1, 1)}, folder / "rank9.pth")
    torch.save({"a": torch.ones(1).expand(1 << 20, 1 << 20)}, folder / "expanded.pth")
    torch.save({"a": torch.ones(2)}, folder / "protocol4.pth", pickle_protocol=4)
    torch.save({"a": torch.ones(2, dtype=torch.complex64).conj()}, folder / "conj.pth")
    torch.save({"a": torch.ones(2, dtype=torch.complex64).conj().imag}, folder / "neg.pth")
    rewritten(folder, "deflated", lambda name, data: data, zipfile.ZIP_DEFLATED)
    rewritten(folder, "big_endian", lambda name, data: b"big" if name == "byteorder" else data)
    rewritten(folder, "lost", lambda name, data: None if name == "data/0" else data)
    rewritten(folder, "short", lambda name, data: data[:-1] if name == "data/0" else data)
    rewritten(folder, "wraps", lambda name, data: steps_around(data) if name == "data.pkl" else data)
    rewritten(folder, "other_zip", lambda name, data: None if name == "data.pkl" else data)
    torch.save({"a": torch.ones(2), "b": torch.ones(3)}, folder / "damaged.pth")
    whole = bytearray((folder / "damaged.pth").read_bytes())
    at = whole.rindex(torch.ones(3).numpy().tobytes())
    whole[at + 3] ^= 1
    (folder / "damaged.pth").write_bytes(whole)
    (folder / "cut.pth").write_bytes(whole[:-30])


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    (folder / "bad").mkdir(parents=True, exist_ok=True)
    save(folder, "types", every_type())
    save(folder, "strided", strided())
    save(folder, "model", model())
    save(folder, "checkpoint", checkpoint())
    save(folder, "attribute", attribute())
    save(folder, "protocol3", collections.OrderedDict(every_type()), pickle_protocol=3)
    save(folder, "empty", {})
    bad(folder / "bad")


if __name__ == "__main__":
    main()
