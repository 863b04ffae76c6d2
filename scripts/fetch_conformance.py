#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetch Apache's public conformance files of Parquet and Arrow, each at one commit, into a folder of a cache.

    fetch_conformance.py FOLDER      FOLDER/parquet-testing, FOLDER/arrow-testing

Nothing of them is kept in this repository. What is there already stays, also a clone of one's own that is at the commit.
"""
import subprocess
import sys
from pathlib import Path

COMMITS = {
    "parquet-testing": "1a2a75127be06fc0123f03ebd36c966f7beda27d",
    "arrow-testing": "9cfebfef8982fb8612e0a2c59059752bd32321a3",
}


def git(folder, *arguments):
    """Whether it worked, and what it said."""
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True)
    return done.returncode == 0, (done.stdout + done.stderr).strip()


def is_there(target, commit):
    """A whole checkout of the commit."""
    return (target / ".git").exists() and git(target, "rev-parse", "HEAD") == (True, commit) and git(target, "diff", "--quiet", "HEAD")[0]


def fetch(folder, name, commit):
    target, url = folder / name, f"https://github.com/apache/{name}"
    if is_there(target, commit):
        return
    target.mkdir(parents=True, exist_ok=True)
    for command in (["init", "-q"], ["fetch", "-q", "--depth", "1", url, commit], ["checkout", "-q", "--force", "FETCH_HEAD"]):
        good, said = git(target, *command)
        if not good:
            sys.exit(f"fetch_conformance.py: git {command[0]} of {url} in {target}: {said}\n"
                     f"Where there is no network, clone it there from elsewhere, at {commit}.")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for name, commit in COMMITS.items():
        fetch(Path(sys.argv[1]), name, commit)


if __name__ == "__main__":
    main()
