#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Open pages of `stoker report` in headless Chromium and check them.

usage: check_report.py STOKER LOG... [--shots FOLDER] [--json] [--made EVENTS] [--compare A B]

For every LOG, and for A and B together: the page asks for nothing, says nothing on the console, draws its charts, holds
the figures that --format json gives, draws as many waits and the ledgers that the log holds and the measures of a ladder,
and never scrolls sideways at the width of a phone. Prints the worst time from load to drawn and the longest frame of zooming. --made: a log of so
many events, by bench/report beside the command, too. --shots: pictures at the widths of a desktop and a phone, light
and dark. --trainings: pages of trainings that are made for it, with their curves, figures, keys, accessibility tree and memory. --json: figures as JSON lines. Needs chromium; nothing beyond Python itself.
"""
import argparse
import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import check_report_training as trainings

WIDTHS = {"desktop": (1280, 900, 1), "phone": (390, 844, 2)}
SHOTS = {"desktop": (2300, 0.6), "phone": (1550, 0.5)}  # height, scale


class Browser:
    """Chromium's DevTools protocol over a pair of pipes."""

    def __init__(self, folder):
        to_read, self.out = os.pipe()
        self.inp, to_write = os.pipe()
        command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--remote-debugging-pipe", f"--user-data-dir={folder}", "--no-first-run", "about:blank"]

        def wire():
            a, b = os.dup(to_read), os.dup(to_write)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(command, preexec_fn=wire, close_fds=False, stderr=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.buffer, self.number, self.events, self.session = b"", 0, [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Performance", "Accessibility", "DOM"):
            self.call(domain + ".enable")

    def read(self):
        while b"\0" not in self.buffer:
            piece = os.read(self.inp, 1 << 20)
            if not piece:
                sys.exit("chromium ended")
            self.buffer += piece
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            sys.exit(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def open(self, path, width, height, scale, dark):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale,
                  mobile=width < 600)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.events.clear()
        began = time.monotonic()
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        while not self.value("document.readyState === 'complete' && document.documentElement.dataset.drawn === 'yes'"
                             " && [...document.querySelectorAll('canvas')].some(c => c.dataset.ms)"):
            if time.monotonic() - began > 10:
                sys.exit(f"{path}: not drawn within 10 s: {self.complaints()}")
            time.sleep(0.02)
        return time.monotonic() - began

    def complaints(self):
        out = []
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                out.append(params["exceptionDetails"].get("exception", {}).get("description", "exception"))
            elif method == "Runtime.consoleAPICalled" or method == "Log.entryAdded":
                out.append(json.dumps(params)[:300])
            elif method == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("file:", "about:")):
                out.append("asks for " + params["request"]["url"])
        return out

    def shot(self, path, height, scale):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                            clip={"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], height),
                                  "scale": scale})
        pathlib.Path(path).write_bytes(base64.b64decode(picture["data"]))


EMPTY = """(() => { const all = [...document.querySelectorAll('.plot canvas')];
  const ink = c => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0;
    for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n / (d.length / 4); };
  return {charts: all.length, empty: all.filter(c => c.dataset.drawn !== 'yes' || !c.width || ink(c) < 0.005).map(c => c.ariaLabel)}; })()"""
# The timeline is drawn in a frame of its own, which a busy machine may give late.
INK = """(async () => { const c = document.querySelector('article:not([hidden]) canvas.timeline'), end = performance.now() + 10000;
  for (;;) { await new Promise(requestAnimationFrame);
    const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0;
    for (let i = 3; i < d.length; i += 4) n += d[i] > 0;
    if (n / (d.length / 4) >= 0.01 || performance.now() > end) return n / (d.length / 4); } })()"""
ZOOM = """(async () => { const c = document.querySelector('article:not([hidden]) canvas.timeline'), r = c.getBoundingClientRect();
  let most = 0; for (let i = 0; i < 40; i++) {
    c.dispatchEvent(new WheelEvent('wheel', {deltaY: i < 30 ? -200 : 300, clientX: r.left + r.width * 0.6, clientY: r.top + 60,
                                             ctrlKey: true, cancelable: true}));
    await new Promise(requestAnimationFrame); await new Promise(requestAnimationFrame);
    most = Math.max(most, Number(c.dataset.ms)); } return most; })()"""


# The wheel alone is the page's; with Ctrl it is the timeline's.
SCROLL = """(() => { const c = document.querySelector('article:not([hidden]) canvas.timeline');
  return [false, true].map(ctrlKey => c.dispatchEvent(new WheelEvent('wheel', {deltaY: 100, ctrlKey, cancelable: true}))); })()"""


def check_ladder(browser, rungs):
    """What is wrong with the measures on the page: the rows of the table, the bars of the chart."""
    rows = browser.value("[...document.querySelectorAll('.rungs tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
    bars = browser.value("charts.filter(c => c.canvas.ariaLabel.startsWith('Measures')).map(c => c.config.data.datasets[0].data)[0]")
    then, problems = None, []
    for rung, row, bar in zip(rungs, rows, bars or [], strict=True):
        # Of trainings the table has seconds.
        shown, factor = rung["samples_per_s"] or rung["total_seconds"], rung["factor"]
        rate = rung["samples_per_s"] or 1 / shown
        share = "-" if rung["share"] is None else f"{round(100 * rung['share']) + 0.0:.0f} %"
        if row[0] != rung["measure"] or row[3] != share or row[-1] != rung["limit"]:
            problems.append(f"{row} stands for {rung}")
        if abs(float(row[1]) / shown - 1) > 5e-3 or abs(float(row[2]) - (1 if factor is None else factor)) > 5.1e-3:
            problems.append(f"{row}: {shown} and the factor {factor} in the log")
        if abs(bar[1] / rate - 1) > 1e-5 or then and abs(bar[0] / then - 1) > 1e-5:
            problems.append(f"a bar from {bar[0]} to {bar[1]}, in the log from {then} to {rate}")
        then = rate
    return problems


def check(browser, stoker, logs, options, folder):
    page, problems, times = pathlib.Path(folder) / "page.html", [], []
    log, shots = logs[-1], options.shots
    subprocess.run([stoker, "report", *logs, "--html", page, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    figures = json.loads(subprocess.run([stoker, "report", *logs, "--format", "json"], check=True, capture_output=True).stdout)
    for width, (w, h, scale) in WIDTHS.items():
        for dark in (False, True):
            times.append(browser.open(page, w, h, scale, dark))
            if browser.value("document.documentElement.scrollWidth > innerWidth"):
                problems.append(f"{width}: scrolls sideways")
            if browser.value(INK) < 0.01:
                problems.append(f"{width}: the timeline is empty")
            if browser.value("[...document.querySelectorAll('.pairs td, .trainings td, .rungs td')].some(c => c.getBoundingClientRect().right > innerWidth || "
                             "c.scrollWidth > c.clientWidth + 1)"):
                problems.append(f"{width}: a ratio is beside the screen or cut")
            for part in ("step", "wait"):
                used = browser.value(f"[...new Set(charts.flatMap(c => c.config.data.datasets).filter(d => "
                                     f"['{part}', 'data {part}'].includes(d.label)).map(d => d.backgroundColor))]")
                if len(used) > 1:
                    problems.append(f"{width}: '{part}' has the colours {used}")
            if shots:
                browser.shot(pathlib.Path(shots) / f"{pathlib.Path(log).stem}-{width}-{'dark' if dark else 'light'}.png",
                             *SHOTS[width])
            problems += browser.complaints()
    frame = browser.value(ZOOM)
    if browser.value(SCROLL) != [True, False]:
        problems.append("the wheel does not scroll the page, or Ctrl and the wheel do not zoom")
    shown = browser.value("""[...document.querySelectorAll('article')].map(a => Object.fromEntries(
        [...a.querySelectorAll('[data-figure]')].map(e => [e.dataset.figure, e.textContent])))""")
    for run, page_run in zip(figures["runs"], shown, strict=True):
        for name, text in page_run.items():
            if text != "-" if run[name] is None else float(text) != run[name]:
                problems.append(f"{name}: {text} on the page, {run[name]} in the log")
    # The charts draw what the log holds: waits of the histograms, parts of the ledger, settings by their wait.
    drawn = browser.value("data.runs.map(r => ({waits: [...r.hist.bins, r.hist.beyond].reduce((a, b) => a + b, 0),"
                          " first: r.hist.bins, ledger: r.series.filter(s => s.ledger).map(s =>"
                          " [s.group, s.name, s.sum.reduce((a, b) => a + b, 0)])}))")
    for run, page_run in zip(figures["runs"], drawn, strict=True):
        if page_run["waits"] != run["waits"]:
            problems.append(f"{page_run['waits']} waits are drawn of {run['waits']}")
        for group, name, value in page_run["ledger"]:
            if abs(run["ledger"][group][name] - value) > 1e-5 * abs(value):
                problems.append(f"{group}.{name}: {value} is drawn of {run['ledger'][group][name]}")
    if any(rung["measure"] for rung in figures["in_order"]):
        problems += check_ladder(browser, figures["in_order"])
    if len(figures["runs"]) > 1:
        waits = browser.value("charts[0].config.data.datasets[0].data")
        if waits != sorted(waits) or len(waits) < 2:
            problems.append(f"settings are not sorted by their wait: {waits}")
    # Charts are made anew when the page turns light.
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    browser.value("new Promise(requestAnimationFrame)")
    problems += browser.complaints()
    empty = browser.value(EMPTY)
    problems += [f"the chart {label} is empty" for label in empty["empty"]]
    row = {"workload": "report page", "log": pathlib.Path(log).name, "events": sum(x["events"] for x in figures["logs"]),
           "page_mb": page.stat().st_size / 1e6, "drawn_s": round(max(times), 3), "zoom_frame_ms": frame,
           "charts": empty["charts"]}
    print(json.dumps(row) if options.json else ", ".join(f"{k} {v}" for k, v in row.items()))
    for problem in problems:
        print("  FAILED: " + problem, file=sys.stderr)
    return not problems


def check_trainings(browser, stoker, options, folder):
    """Pages of trainings that are made here: one, two together, whole ones, of ten hours, with hostile names."""
    folder = pathlib.Path(folder)
    one, two, all_of = (str(folder / name) for name in ("train.log", "train_b.log", "sweep.log"))
    said = [trainings.train(one, rate=0.02, gaps={64}), trainings.train(two, rate=0.05)]
    trainings.sweep(all_of)
    good = True
    for logs in ([one], [one, two], [all_of]):
        good &= check(browser, stoker, logs, options, folder)
        problems = trainings.check_tree(browser) + trainings.check_keys(browser) + trainings.check_words(browser)
        problems += trainings.check_png(browser)
        if logs[0] == one:
            problems += trainings.check_curves(browser, said[:len(logs)]) + trainings.check_colours(browser)
            problems += trainings.check_whole(browser)
            problems += trainings.check_figures(stoker, logs, said[:len(logs)], folder)
        for problem in problems:
            print(f"  FAILED: {' '.join(pathlib.Path(log).name for log in logs)}: {problem}", file=sys.stderr)
        good &= not problems
    problems, row = trainings.check_long(browser, stoker, folder)
    print(json.dumps(row) if options.json else ", ".join(f"{k} {v}" for k, v in row.items()))
    problems += trainings.check_hostile(browser, stoker, folder)
    for problem in problems:
        print("  FAILED: " + problem, file=sys.stderr)
    return good and not problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stoker")
    parser.add_argument("logs", nargs="*")
    parser.add_argument("--shots")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--made", type=int)
    parser.add_argument("--compare", nargs=2)
    parser.add_argument("--trainings", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(pathlib.Path(folder) / "profile")
        if options.made:
            made = str(pathlib.Path(folder) / "made.log")
            subprocess.run([pathlib.Path(options.stoker).parent / "bench/report", "--events", str(options.made),
                            "--write", made], check=True, stdout=subprocess.DEVNULL)
            options.logs.append(made)
        together = [[log] for log in options.logs] + ([options.compare] if options.compare else [])
        good = [check(browser, options.stoker, logs, options, folder) for logs in together]
        if options.trainings:
            good.append(check_trainings(browser, options.stoker, options, folder))
        browser.process.terminate()
        browser.process.wait()
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
