#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetch Apache's public conformance files of Parquet and Arrow, each at one commit, into a folder of a cache.

    fetch_conformance.py FOLDER      FOLDER/parquet-testing, FOLDER/arrow-testing

Nothing of them is kept in this repository. What is there already stays.
"""
import subprocess
import sys
from pathlib import Path

COMMITS = {
    "parquet-testing": "1a2a75127be06fc0123f03ebd36c966f7beda27d",
    "arrow-testing": "9cfebfef8982fb8612e0a2c59059752bd32321a3",
}


def fetch(folder, name, commit):
    target = folder / name
    if (target / ".complete").exists() and (target / ".complete").read_text() == commit:
        return
    target.mkdir(parents=True, exist_ok=True)
    for command in (["init", "-q"], ["fetch", "-q", "--depth", "1", f"https://github.com/apache/{name}", commit],
                    ["checkout", "-q", "--force", "FETCH_HEAD"]):
        subprocess.run(["git", "-C", str(target), *command], check=True)
    (target / ".complete").write_text(commit)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for name, commit in COMMITS.items():
        fetch(Path(sys.argv[1]), name, commit)


if __name__ == "__main__":
    main()
