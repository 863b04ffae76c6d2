# SPDX-License-Identifier: Apache-2.0
"""Lines of JSON whose later lines and files have more keys: what stoker cat says of those that are declared is what Python's reader says."""
import json
import os
import random
import subprocess

SPEC = "jsonl:late?learn=1000&types=`t,u`:text,l:uint8[],in.r:float64&nulls=mask"
draw = random.Random(7)


def more():
    every = {"t,u": draw.choice(["x", "ü", "", None]), "l": [draw.randrange(9) for _ in range(draw.randrange(4))], "in": {"r": draw.random()}}
    return {key: value for key, value in every.items() if draw.random() < 0.6}


os.makedirs("late")
lines = []
for n in range(3):
    with open(f"late/{n}.jsonl", "w") as file:
        for i in range(2000):
            late = more() if n or i > 1500 else {}  # the first lines of the first file do not know them
            print(json.dumps({"a": i} | late), file=file)
            lines.append({"a": i, "t,u": late.get("t,u"), "l": late.get("l"), "in.r": late.get("in", {}).get("r")})
found = subprocess.run(["stoker", "cat", SPEC, "--format", "json"], capture_output=True, text=True, check=True).stdout
print([json.loads(line) for line in found.splitlines()] == lines, len(lines), sum(line["l"] is not None for line in lines) > 1000)
