# SPDX-License-Identifier: Apache-2.0
"""Pickles in place of those of CIFAR."""
from cases import case


def cifar_pickles(folder, **files):
    (folder / "m").mkdir()
    for name, data in files.items():
        (folder / "m" / name).write_bytes(data)
    return ["info m", "info cifar10:m?split=test", "info cifar100:m?split=test", "bench --dataset cifar10:m?split=test&memory=true "
            "--memory-budget 8MiB --num-batches 2 --num-epochs 1 --train-step-time 0"]


@case
def cifar_with_code(folder):
    code = b"\x80\2cos\nsystem\nU\x14echo changed > victim\x85R."
    return cifar_pickles(folder, test_batch=code, test=code, meta=code)


@case
def cifar_of_one_opcode(folder):
    return cifar_pickles(folder, test_batch=b"\x80\2" + b"]" * (24 << 20), test=b"\x80\2" + b"(" * (24 << 20),
                         meta=b"\x80\2Nr\xff\xff\xff\x7f.")


@case
def cifar_of_its_own_memo(folder):
    return cifar_pickles(folder, test_batch=b"\x80\2]q\0" + b"h\0a" * (4 << 20) + b".",
                         test=b"\x80\2}q\0(" + b"h\0" * (4 << 20) + b"u.", meta=b"\x80\2}.")


@case
def cifar_of_many_texts(folder):
    texts = b"\x80\2](" + (b"T\0\4\0\0" + b"a" * 1024) * (20 << 10) + b"e."
    return cifar_pickles(folder, test_batch=texts, test=texts[:-2], meta=texts)
