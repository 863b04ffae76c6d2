#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Open the live page of a run in headless Chromium and check it.

usage: check_live.py STOKER [--shots FOLDER]

The page asks for nothing but its own events, says nothing on the console, draws what /status says, runs no name of a file, never
scrolls sideways at the width of a phone, is told to who cannot see it (names and roles in the accessibility tree), scrolls by
keys, and says when the run has ended. --shots: pictures at the widths of a desktop and a phone, light and dark. Needs chromium;
nothing beyond Python itself.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

from check_report import WIDTHS, Browser

# What a folder may be called, and a page must not run.
HOSTILE = "<img src=x onerror=hit=1>&\"'"
PATIENCE = 30  # seconds

LOOK = """(() => { if (document.readyState !== 'complete') return null;
  const text = (s) => [...document.querySelectorAll(s)].map((e) => e.textContent);
  const ink = (c) => { const own = document.createElement('canvas'); own.width = c.width; own.height = c.height;
    const o = own.getContext('2d', {willReadFrequently: true}); o.drawImage(c, 0, 0);
    const d = o.getImageData(0, 0, c.width, c.height).data; let n = 0;
    for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n; };
  return {title: document.title, head: text('h1')[0], names: text('#cards dt'), values: text('#cards dd'),
          progress: text('#progress')[0], link: text('#link')[0], workers: document.querySelectorAll('#workers canvas').length,
          empty: [...document.querySelectorAll('#lines canvas')].slice(0, 1).filter((c) => ink(c) < 10).length,
          hit: window.hit || '', images: document.images.length,
          wide: document.documentElement.scrollWidth > document.documentElement.clientWidth}; })()"""


def until(ask, what):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = ask()
        if found:
            return found
        time.sleep(0.1)
    sys.exit(f"no {what} within {PATIENCE} s")


class Run:
    """A bench of a folder with a hostile name, and its page."""

    def __init__(self, stoker, folder):
        self.output = pathlib.Path(folder) / "bench.out"
        data = pathlib.Path(folder) / HOSTILE
        subprocess.run([stoker, "convert", "digits:?size=512", str(data), "-q"], check=True)
        with open(self.output, "w", encoding="utf-8") as out:
            self.process = subprocess.Popen([stoker, "bench", "--dataset", "mnist:" + HOSTILE, "--train-step-time", "0.02", "--num-workers",
                                             "2", "--min-seconds", "120", "--max-seconds", "120", "--dashboard", "0"], cwd=folder, stdout=out, stderr=out)
        self.url = until(lambda: re.search(r"live page: (http://\S+)", self.output.read_text()), "page")[1]

    def status(self):
        with urllib.request.urlopen(self.url + "status", timeout=10) as answer:
            return json.load(answer)

    def end(self):
        self.process.terminate()
        self.process.wait(PATIENCE)


def show(browser, url, width, dark=False):
    wide, high, scale = WIDTHS[width]
    browser.call("Emulation.setDeviceMetricsOverride", width=wide, height=high, deviceScaleFactor=scale, mobile=wide < 600)
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
    browser.events.clear()
    browser.call("Page.navigate", url=url)
    return until(lambda: (look := browser.value(LOOK)) and look["workers"] == 2 and not look["empty"] and look, "drawn page")


def complaints(browser, own):
    """What the page says or asks for, beside its own events."""
    return [c for c in browser.complaints() if not c.startswith("asks for " + own)]


def check_figures(run, look):
    """The figures of the page lie between two answers of /status, where they only grow."""
    cards = dict(zip(look["names"], look["values"]))
    state = run.status()
    bad = []
    if not 0 < int(cards["samples"]) <= state["samples"]:
        bad.append(f"samples {cards['samples']}, and /status has {state['samples']}")
    if cards["cores of the process"].split(" of ")[1] != str(state["usable_cores"]):
        bad.append(f"cores {cards['cores of the process']}, and /status has {state['usable_cores']}")
    if HOSTILE not in look["head"] or HOSTILE not in look["title"]:
        bad.append(f"the name of the data is not shown as it is: {look['head']}")
    if look["hit"] or look["images"]:
        bad.append("the name of a folder was run")
    return bad


def check_tree(browser):
    """Headings, a progress bar and pictures, each with a name."""
    nodes = [n for n in browser.call("Accessibility.getFullAXTree")["nodes"] if not n.get("ignored")]
    by_role = {}
    for n in nodes:
        by_role.setdefault(n["role"]["value"], []).append(n.get("name", {}).get("value", ""))
    bad = [f"{role} without a name" for role in ("heading", "progressIndicator", "progressbar", "image", "meter")
           if any(not name for name in by_role.get(role, []))]
    for role, least in (("heading", 4), ("image", 9), ("main", 1), ("status", 1)):
        if len(by_role.get(role, [])) < least:
            bad.append(f"{len(by_role.get(role, []))} of role {role}, not {least}")
    if not any(name.startswith("worker 0 busy") for name in by_role.get("image", [])):
        bad.append("no worker is told of")
    return bad


def check_loaders(browser):
    """Of several each has a row; of one there is no table."""
    one = {"samples": 640, "batch_size": 32, "batches": 7, "batches_per_s": 1.5, "wait_share": 0.25, "num_workers": 2, "ready_batches": 3,
           "depth_batches": 4, "memory_bytes": 1048576, "memory_budget_bytes": 2097152, "first": True}
    other = {**one, "samples": 64, "first": False}
    rows = f"""[{json.dumps([one, other])}, {json.dumps([one])}].map((loaders) => (drawLoaders(loaders), {{
        hidden: at("h-loaders").parentElement.hidden, rows: [...at("loaders").tBodies[0].rows].map((r) => [...r.cells].map((c) => c.textContent)) }}))"""
    first = ["640 samples by 32", "7", "1.5", "25.0 %", "3 of 4", "2", "1 MiB of 2 MiB", "shown above"]
    wanted = [{"hidden": False, "rows": [first, ["64 samples by 32", *first[1:7], ""]]}, {"hidden": True, "rows": [first]}]
    drawn = browser.value(rows)
    return [] if drawn == wanted else [f"loaders are drawn as {drawn}"]


def check_keys(browser):
    """It scrolls by keys."""
    for kind in ("rawKeyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key="End", code="End", windowsVirtualKeyCode=35)
    end = time.monotonic() + 5
    while browser.value("scrollY") == 0 and time.monotonic() < end:
        time.sleep(0.05)
    return [] if browser.value("scrollY > 0") else ["the key End does not scroll"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stoker")
    parser.add_argument("--shots")
    options = parser.parse_args()
    bad = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(pathlib.Path(folder) / "profile")
        run = None
        try:
            run = Run(os.path.abspath(options.stoker), folder)
            bad += check_figures(run, show(browser, run.url, "desktop"))
            bad += check_tree(browser)
            bad += check_loaders(browser)
            for width in WIDTHS:
                for dark in (False, True):
                    look = show(browser, run.url, width, dark)
                    bad += [f"scrolls sideways at {width}"] if look["wide"] else []
                    bad += complaints(browser, run.url)
                    if options.shots:
                        browser.shot(pathlib.Path(options.shots) / f"live-{width}-{'dark' if dark else 'light'}.png", 1600, 1)
            bad += check_keys(browser)
            run.end()
            until(lambda: "has ended" in (browser.value(LOOK) or {"link": ""})["link"], "word of the end")
        finally:
            if run:
                run.end()
            browser.process.terminate()
            browser.process.wait()
    for line in bad:
        print(line)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
