# SPDX-License-Identifier: Apache-2.0
"""The next byte of a text: windows of a file at random, each with the same window one byte later.

    python examples/python/tokens.py --text shakespeare.txt
    python examples/python/tokens.py --tokens train.npy --vocabulary 50257        # tokens that were made before

Without either, the Python of the package is the text.
"""
import argparse
import tempfile
from pathlib import Path

import torch
from torch import nn

import stoker


class Model(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.cell = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.cell(self.embedding(tokens))[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path)
    parser.add_argument("--tokens", type=Path, help="a .npy of integers, in one row")
    parser.add_argument("--vocabulary", type=int, default=256)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--quick", action="store_true", help="a small model, 40 steps")
    given = parser.parse_args()
    steps, width = (40, 32) if given.quick else (given.steps, 128)

    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        if given.tokens is None:
            files = [given.text] if given.text else sorted(Path(stoker.__file__).parent.glob("*.py"))
            given.tokens = Path(folder) / "text.bin"
            given.tokens.write_bytes(b"".join(file.read_bytes() for file in files))
        raw = "" if given.tokens.suffix == ".npy" else "&dtype=uint8"
        spec = f"tokens:{given.tokens}?length={given.length}&stride=1&target=true{raw}"
        model = Model(given.vocabulary, width)
        optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
        with stoker.Loader(spec, batch_size=32, shuffle=True, drop_last=True, output="torch") as loader:
            print(f"{loader.num_samples} windows, {len(loader)} steps an epoch")
            for step, batch in zip(range(steps), loader):
                scores = model(batch["input"])
                loss = nn.functional.cross_entropy(scores.flatten(0, 1), batch["target"].flatten())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % (steps // 4) == 0 or step == steps - 1:
                    print(f"step {step}: loss {loss.item():.4f}")
            print(loader.verdict())


if __name__ == "__main__":
    main()
