#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tests of a run of CTest that may be run once more, alone: a regular expression for ctest -R.

    again.py JUNIT      exit code 1 where a failure is one at once

A test that waits for time may be late beside others on a busy machine, and a claim of it may not hold. What a sanitizer reported,
what crashed and what did not end is a failure at once, and so are more tests than a busy machine explains.
"""
import re
import sys
import xml.etree.ElementTree

MOST = 3
# What a test found to be otherwise than it says, and reached its end.
CLAIM = re.compile(r"^\[  FAILED  \]|^AssertionError", re.MULTILINE)
FINAL = re.compile(r"Sanitizer|runtime error:|Test failed with exception")


def is_final(case):
    said = case.findtext("system-out") or ""
    return not CLAIM.search(said) or bool(FINAL.search(said))


def main():
    failed = [case for case in xml.etree.ElementTree.parse(sys.argv[1]).getroot().iter("testcase")
              if case.find("failure") is not None]
    final = [case.get("name") for case in failed if is_final(case)]
    if final or not failed or len(failed) > MOST:
        print("tests: not run again: " + (" ".join(final) or f"{len(failed)} failed"), file=sys.stderr)
        return 1
    print("^(" + "|".join(re.escape(case.get("name")) for case in failed) + ")$")
    return 0


if __name__ == "__main__":
    sys.exit(main())
