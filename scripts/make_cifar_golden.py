#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tiny archives of CIFAR-10 and CIFAR-100, in both versions, and what NumPy reads in them.

    python3 scripts/make_cifar_golden.py [FOLDER]

The pickles are those of the archives, opcode for opcode: Python 2, protocol 2, strings of bytes, NumPy's names of then.
numpy/ has the same as NumPy pickles it today, with protocol 3. FOLDER/expected.txt is read by tests/golden/dataset/test_cifar.c:
kind, split, option, index, label, CRC-32 of the picture as [32, 32, 3], class, all of it read back by pickle.load() as
torchvision does. Also the seeds of the fuzz target pickles. Made with NumPy 2.4.
"""
import io
import pickle
import random
import struct
import sys
import zlib
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
FINE = """apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish forest fox
girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom
oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road
rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank
telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm""".split()
COARSE = """aquatic_mammals fish flowers food_containers fruit_and_vegetables household_electrical_devices household_furniture
insects large_carnivores large_man-made_outdoor_things large_natural_outdoor_scenes large_omnivores_and_herbivores
medium_mammals non-insect_invertebrates people reptiles small_mammals trees vehicles_1 vehicles_2""".split()
TEN = "airplane automobile bird cat deer dog frog horse ship truck".split()


class Name:
    def __init__(self, module, name):
        self.module, self.name = module, name

    def __call__(self):
        raise NotImplementedError


RECONSTRUCT, NDARRAY = Name("numpy.core.multiarray", "_reconstruct"), Name("numpy", "ndarray")
DTYPE = Name("numpy", "dtype")


class Type:
    def __init__(self, name="u1"):
        self.name = name


class Array:
    def __init__(self, rows, width=3072, dtype="u1", fortran=False, count=None):
        self.rows, self.width, self.dtype, self.fortran = rows, width, Type(dtype), fortran
        self.count = len(rows) // width if count is None else count


class Python2(pickle._Pickler):
    """What cPickle of Python 2 wrote for protocol 2."""
    dispatch = pickle._Pickler.dispatch.copy()

    def save_string(self, obj):
        data = obj.encode("latin1") if isinstance(obj, str) else obj
        self.write((b"U" + bytes([len(data)]) if len(data) < 256 else b"T" + struct.pack("<i", len(data))) + data)
        self.memoize(obj)

    def save_name(self, obj):
        self.write(f"c{obj.module}\n{obj.name}\n".encode())
        self.memoize(obj)

    def save_type(self, obj):
        self.save_reduce(DTYPE, (obj.name, 0, 1), (3, "|", None, None, None, -1, -1, 0), obj=obj)

    def save_array(self, obj):
        self.save_reduce(RECONSTRUCT, (NDARRAY, (0,), "b"),
                         (1, (obj.count, obj.width), obj.dtype, obj.fortran, obj.rows), obj=obj)

    dispatch[str] = dispatch[bytes] = save_string
    dispatch[Name], dispatch[Type], dispatch[Array] = save_name, save_type, save_array


def python2(value):
    out = io.BytesIO()
    Python2(out, 2).dump(value)
    return out.getvalue()


def rows(count, seed):
    return random.Random(seed).randbytes(3072 * count)


def batch10(number, count=1):
    pixels = rows(count, number)
    labels = [(number * 3 + k) % 10 for k in range(count)]
    return labels, pixels, {"batch_label": f"training batch {number} of 5", "labels": labels, "data": Array(pixels),
                            "filenames": [f"picture_{number}_{k}.png" for k in range(count)]}


def batch100(name, count, seed):
    pixels = rows(count, seed)
    fine, coarse = [99, 0, 51][:count], [13, 4, 19][:count]
    return fine, coarse, pixels, {"filenames": [f"picture_{k}.png" for k in range(count)], "batch_label": name,
                                  "fine_labels": fine, "coarse_labels": coarse, "data": Array(pixels)}


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def lines(names):
    return "".join(name + "\n" for name in names).encode()


def write_10(folder):
    for number in range(1, 7):
        name = f"data_batch_{number}" if number < 6 else "test_batch"
        labels, pixels, value = batch10(number)
        write(folder / "cifar-10-batches-py" / name, python2(value))
        records = b"".join(bytes([label]) + pixels[3072 * k:3072 * (k + 1)] for k, label in enumerate(labels))
        write(folder / "cifar-10-batches-bin" / f"{name}.bin", records)
    write(folder / "cifar-10-batches-py/batches.meta",
          python2({"num_cases_per_batch": 1, "label_names": TEN, "num_vis": 3072}))
    write(folder / "cifar-10-batches-bin/batches.meta.txt", lines(TEN))


def write_100(folder):
    for name, count in (("train", 2), ("test", 1)):
        fine, coarse, pixels, value = batch100(name, count, count + 10)
        write(folder / "cifar-100-python" / name, python2(value))
        records = b"".join(bytes(pair) + pixels[3072 * k:3072 * (k + 1)] for k, pair in enumerate(zip(coarse, fine)))
        write(folder / "cifar-100-binary" / f"{name}.bin", records)
    write(folder / "cifar-100-python/meta", python2({"fine_label_names": FINE, "coarse_label_names": COARSE}))
    write(folder / "cifar-100-binary/fine_label_names.txt", lines(FINE))
    write(folder / "cifar-100-binary/coarse_label_names.txt", lines(COARSE))
    # As NumPy has it today.
    value = pickle.loads((folder / "cifar-100-python/test").read_bytes(), encoding="latin1")
    value["data"] = value["data"].copy()
    write(folder / "numpy/test", pickle.dumps(value, 3))
    write(folder / "numpy/meta", pickle.dumps({"fine_label_names": FINE, "coarse_label_names": COARSE}, 3))


def load(path):
    return pickle.loads(path.read_bytes(), encoding="latin1")


def line(kind, split, option, index, label, picture, classes):
    return f"{kind} {split} {option or '-'} {index} {label} {zlib.crc32(picture.tobytes()):08x} {classes[label]}\n"


def expected(folder):
    ten, hundred = folder / "cifar-10-batches-py", folder / "cifar-100-python"
    train = [f"data_batch_{i}" for i in range(1, 6)]
    files = [("cifar10", "train", "", ten, train, "labels", load(ten / "batches.meta")["label_names"]),
             ("cifar10", "test", "", ten, ["test_batch"], "labels", load(ten / "batches.meta")["label_names"])]
    for split in ("train", "test"):
        for labels in ("fine", "coarse"):
            names = load(hundred / "meta")[f"{labels}_label_names"]
            files.append(("cifar100", split, labels, hundred, [split], f"{labels}_labels", names))
    for kind, split, labels, place, names, key, classes in files:
        batches = [load(place / name) for name in names]
        data = np.concatenate([b["data"] for b in batches]).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        every = [label for b in batches for label in b[key]]
        assert len(every) == len(data)
        for k, (picture, label) in enumerate(zip(data, every)):
            yield line(kind, split, labels and "labels=" + labels, k, label, picture, classes)


def seeds():
    """Inputs of fuzz/fuzz_pickles.c: a byte that says what it is, then the file."""
    def seed(name, kind, data):
        write(ROOT / "fuzz/corpus/pickles" / name, bytes([kind]) + data)

    _, _, value = batch10(1)
    fine, _, _, hundred = batch100("train", 2, 5)
    good = python2(value)
    seed("ten", 0, good)
    seed("hundred", 1, python2(hundred))
    seed("numpy", 0, pickle.dumps(dict(value, data=np.frombuffer(value["data"].rows, np.uint8).reshape(1, 3072).copy()), 3))
    seed("names", 2, python2({"num_cases_per_batch": 1, "label_names": TEN, "num_vis": 3072}))
    seed("names_hundred", 3, python2({"fine_label_names": FINE, "coarse_label_names": COARSE}))
    seed("cut", 0, good[:2000])
    for name, array in {"fortran": Array(value["data"].rows, fortran=True), "width": Array(value["data"].rows, 1536),
                        "more": Array(value["data"].rows, count=7), "floats": Array(value["data"].rows, dtype="f8")}.items():
        seed(name, 0, python2(dict(value, data=array)))
    seed("no_data", 0, python2({"labels": [1]}))
    seed("no_list", 0, python2(dict(value, labels="airplane")))
    seed("label", 0, python2(dict(value, labels=[10])))
    seed("code", 0, b"\x80\2cos\nsystem\nU\4true\x85R.")
    seed("long", 0, b"\x80\2T\xff\xff\xff\x7f.")
    seed("itself", 0, b"\x80\2}q\1U\4datah\1s.")


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests/golden/cifar"
    write_10(folder)
    write_100(folder)
    (folder / "expected.txt").write_text("".join(expected(folder)))
    if len(sys.argv) < 2:
        seeds()


if __name__ == "__main__":
    main()
