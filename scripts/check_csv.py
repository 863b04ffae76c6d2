#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables that Python's csv module writes, and what it reads of them.

    python3 scripts/check_csv.py FOLDER

Writes tables to FOLDER, what csv.reader, int() and float() make of each cell to a file beside it (for each row and field, in turn: uint32
bytes, the bytes), and FOLDER/expected.txt: spec, rows, file. tests/parity/dataset/test_csv.c holds ours against them.
"""
import csv
import random
import string
import struct
import sys
from pathlib import Path

TABLES = 60
TEXTS = ["plain", "with,comma", 'a "quoted" word', "two\nlines", "crlf\r\nwithin", " blanks ", "ümläut €", '""', "semi;colon", "bar|bar", "tab\ttab", "x"]


def cell(rng, kind):
    if kind == "int64":
        return str(rng.choice([0, 1, -1, 2**63 - 1, -2**63, rng.randint(-10**6, 10**6)]))
    if kind == "float64":
        bits = struct.unpack("<d", rng.randbytes(8))[0]
        return repr(rng.choice([bits if bits == bits else 0.5, rng.gauss(0, 1), rng.random() * 1e-300, 1e22, 0.1, -0.0]))
    if kind == "decimal":
        return "".join(rng.choices(string.digits, k=rng.randint(1, 25))) + "." + "".join(rng.choices(string.digits, k=rng.randint(1, 20)))
    if kind == "bool":
        return rng.choice(["true", "false", "True", "FALSE"])
    return rng.choice(TEXTS) + rng.choice(["", "z" * rng.randint(0, 300)])


def value(kind, text):
    if kind == "int64":
        return struct.pack("<q", int(text) if text else 0)
    if kind in ("float64", "decimal"):
        return struct.pack("<d", float(text) if text else 0)
    if kind == "bool":
        return bytes([text.lower() == "true"])
    return text.encode()


def write(folder, number, rng):
    kinds = [rng.choice(["int64", "float64", "decimal", "bool", "text"]) for _ in range(rng.randint(2, 9))]
    rows = rng.choice([1, 7, 100, 3000])
    path = folder / f"t{number}.csv"
    delimiter = rng.choice(",;\t|")
    nulls = rng.random() < 0.5
    with path.open("w", newline="", encoding=rng.choice(["utf-8", "utf-8-sig"])) as f:
        w = csv.writer(f, delimiter=delimiter, quoting=rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), lineterminator=rng.choice(["\n", "\r\n"]))
        w.writerow([f"{k}_{i}" for i, k in enumerate(kinds)])
        for _ in range(rows):
            w.writerow(["" if nulls and rng.random() < 0.1 else cell(rng, k) for k in kinds])
    types = ",".join(f"{k}_{i}:{'float64' if k == 'decimal' else k}" for i, k in enumerate(kinds))
    with path.open(newline="", encoding="utf-8-sig") as f:
        lines = list(csv.reader(f, delimiter=delimiter))[1:]
    assert len(lines) == rows
    with (folder / f"t{number}.bin").open("wb") as out:
        for line in lines:
            for kind, text in zip(kinds, line):
                data = value(kind, text)
                out.write(struct.pack("<I", len(data)) + data)
    sign = {"\t": "tab"}.get(delimiter, delimiter)
    return f"csv:{path}?nulls=zero&types={types}&delimiter={sign} {rows} t{number}.bin\n"


def main():
    folder = Path(sys.argv[1])
    rng = random.Random(20)
    (folder / "expected.txt").write_text("".join(write(folder, i, rng) for i in range(TABLES)))


main()
