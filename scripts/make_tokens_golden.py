#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/golden/tokens: Megatron datasets, .idx and .bin, by the layout that Megatron-LM publishes
(megatron/core/datasets/indexed_dataset.py).

    python3 scripts/make_tokens_golden.py

`code_N` has one sequence a document, of the type N; token i of the file is i * 37 mod 101. `grouped` has documents of several
sequences and a mode of each sequence; a token is 1,000 times the number of its document, and its place in it.
"""
import os
import struct

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "tokens")
LETTERS = {1: "B", 2: "b", 3: "h", 4: "i", 5: "q", 6: "d", 7: "f", 8: "H"}


def write(name, code, documents, tokens, modes=None):
    """`documents`: lists of the lengths of their sequences."""
    os.makedirs(FOLDER, exist_ok=True)
    lengths = [n for d in documents for n in d]
    size = struct.calcsize("<" + LETTERS[code])
    places = [sum(lengths[:i]) * size for i in range(len(lengths))]
    bounds = [sum(len(d) for d in documents[:i]) for i in range(len(documents) + 1)]
    with open(os.path.join(FOLDER, name + ".idx"), "wb") as f:
        f.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(lengths), len(bounds)))
        f.write(struct.pack(f"<{len(lengths)}i", *lengths) + struct.pack(f"<{len(places)}q", *places))
        f.write(struct.pack(f"<{len(bounds)}q", *bounds) + bytes(modes or []))
    with open(os.path.join(FOLDER, name + ".bin"), "wb") as f:
        f.write(struct.pack(f"<{len(tokens)}{LETTERS[code]}", *tokens))


for code in LETTERS:
    lengths = [5, 0, 3, 9, 1]
    write(f"code_{code}", code, [[n] for n in lengths], [i * 37 % 101 for i in range(sum(lengths))])
groups = [[3, 2], [4], [], [0, 6, 1]]
write("grouped", 4, groups, [1000 * d + i for d, g in enumerate(groups) for i in range(sum(g))], [0, 1, 0, 0, 1, 1])
