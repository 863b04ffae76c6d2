#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a run of CTest skipped, against tests/skips.txt; and what took longest.

    skips.py ROOT JUNIT [--sanitizer]      exit code 1 where a skip is not expected
"""
import ctypes
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

SLOWEST = 8
SYS_IO_URING_SETUP = 425


def no_python_modules(names):
    python = os.environ.get("STOKER_TEST_PYTHON") or "python3"
    return subprocess.run([python, "-c", "import " + names], stderr=subprocess.DEVNULL).returncode != 0


def no_mount():
    if os.geteuid() != 0:
        return True
    return subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"],
                          stderr=subprocess.DEVNULL).returncode != 0 or not os.path.exists("/dev/loop-control")


def no_netns():
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "nsenter", "unshare"))):
        return True
    return subprocess.run(["unshare", "--net", "--uts", "--pid", "--fork", "--mount-proc", "ip", "link", "add", "a", "type", "veth", "peer", "name", "b"],
                          stderr=subprocess.DEVNULL).returncode != 0


def no_io_uring():
    parameters = ctypes.create_string_buffer(120)
    fd = ctypes.CDLL(None).syscall(SYS_IO_URING_SETUP, 4, parameters)
    if fd >= 0:
        os.close(fd)
    return fd < 0


def no_onednn(build):
    cache = build / "CMakeCache.txt"
    off = cache.exists() and "\nSTOKER_WITH_ONEDNN:BOOL=OFF\n" in cache.read_text()
    return off or not Path("/usr/include/dnnl.h").exists()


def holds(root, build, condition, sanitizer):
    kind, _, what = condition.partition(" ")
    data = os.environ.get("STOKER_TEST_DATA") or root / "../shared/data"
    return {
        "data": lambda: not (Path(data) / what).is_dir(),
        "cpu": lambda: what not in Path("/proc/cpuinfo").read_text().split(),
        "command": lambda: shutil.which(what) is None,
        "file": lambda: not os.path.exists(what),
        "python": lambda: no_python_modules(what),
        "mount": no_mount,
        "netns": no_netns,
        "io_uring": no_io_uring,
        "cores": lambda: len(os.sched_getaffinity(0)) < int(what),
        "onednn": lambda: no_onednn(build),
        "sanitizer": lambda: sanitizer,
    }[kind]()


def main():
    root, junit, sanitizer = Path(sys.argv[1]), sys.argv[2], "--sanitizer" in sys.argv
    expected = {}
    for line in (root / "tests/skips.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            test, condition, reason = [x.strip() for x in line.split("|")]
            expected.setdefault(test, []).append((condition, reason))
    cases = list(xml.etree.ElementTree.parse(junit).getroot().iter("testcase"))
    wrong = []
    for case in cases:
        name = case.get("name")
        if case.find("skipped") is None:
            continue
        reasons = [f"{reason} ({condition})" for condition, reason in expected.get(name, [])
                   if holds(root, Path(junit).parent, condition, sanitizer)]
        print(f"tests: skipped: {name}: {reasons[0] if reasons else 'NOT EXPECTED'}")
        if not reasons:
            said = "\n".join(x for x in (case.findtext("system-out") or "").splitlines() if "skip" in x.lower())
            wrong.append(name)
            print(said or "(it does not say why)")
    slow = sorted(cases, key=lambda c: -float(c.get("time") or 0))[:SLOWEST]
    print(f"tests: {len(cases)} in {sum(float(c.get('time') or 0) for c in cases):.0f} s one after another; longest: " +
          ", ".join(f"{c.get('name')} {float(c.get('time') or 0):.0f} s" for c in slow))
    if wrong:
        print("tests: skipped for no reason of tests/skips.txt: " + " ".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
