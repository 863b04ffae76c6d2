# SPDX-License-Identifier: Apache-2.0
"""What check_report.py looks at on pages of trainings: logs that are made here, and what their pages and figures say."""
import json
import math
import pathlib
import subprocess
import xml.etree.ElementTree as xml

START = 1_800_000_000.0
HOSTILE = ['</script><script>alert(1)</script>', '"><img src=x onerror=alert(2)>', "';alert(3)//", "\u202e" + "gnp.exe",
           "<!--", "&lt;b&gt;", "a" * 400, "val_\u05d0\u05d1\u05d2", "train_loss\\u003cscript", "{{7*7}}${7*7}`alert(4)`"]


class Log:
    """Events of one run, time by time."""

    def __init__(self, path, label, locals_of, append=False):
        self.file = open(path, "a" if append else "w")
        self.now, self.began = START, START
        self.event("run start", data_params="{}", locals=locals_of, rank=0, world_size=1, label=label)
        self.event("setup start")
        self.now += 0.5
        self.event("setup end", duration=0.5)

    def event(self, name, **fields):
        line = {"event": name, "time": self.now, **fields, "time_ns": round((self.now - START + 10) * 1e9), "pid": 7}
        self.file.write(json.dumps(line) + "\n")

    def close(self):
        self.event("run end", duration=self.now - self.began)
        self.file.close()


def number(value):
    """As Stoker writes it: null for what JSON cannot say."""
    return value if math.isfinite(value) else None


def train(path, *, rate, epochs=3, steps=40, every=5, label="train", gaps=(), hours=0.0, append=False, names=()):
    """A training whose loss falls. `gaps`: steps whose loss is no number. Returns {metric: [(step, epoch, value)]}."""
    log, said = Log(path, label, {"loader.batch_size": 32, "num_workers": 2, "lr": rate}, append), {}
    began_all = log.now
    step_s = 3600 * hours / (epochs * steps) if hours else 0.05

    def metrics(step, at, epoch, values):
        log.event("metrics", epoch=epoch, step=step, epochs=at, metrics={k: number(v) for k, v in values.items()})
        for name, value in values.items():
            said.setdefault(name, []).append((step, at, number(value)))

    for epoch in range(epochs):
        log.event("epoch start", epoch=epoch)
        began, waited = log.now, 0.0
        for batch in range(steps):
            step = epoch * steps + batch
            wait = step_s * (0.3 if batch % 7 else 0.6)
            log.now += wait
            waited += wait
            log.event("training start", batch=batch, epoch=epoch, ready=batch % 3, wait=wait)
            log.now += step_s * 0.6
            log.event("training end", batch=batch, duration=step_s * 0.6, epoch=epoch)
            if batch % 10 == 0:
                log.event("system", cpu={"process": 1.5, "machine": 1.9}, memory={"process_bytes": 3e8 + 1e6 * step})
            if (step + 1) % every == 0:
                loss = 2.3 * math.exp(-40 * rate * step / steps) + 0.05 * math.sin(step)
                metrics(step, epoch + (batch + 1) / steps, epoch, {
                    "train_loss": math.nan if step in gaps else loss, "lr": rate * 0.5 ** epoch,
                    **{name: loss + i for i, name in enumerate(names)}})
        log.now += 0.4
        log.event("validation end", duration=0.4)
        metrics((epoch + 1) * steps, epoch + 1, epoch, {"val_loss": 2.1 * math.exp(-30 * rate * (epoch + 1)) + 0.1,
                                                        "val_acc": 1 - 0.8 * math.exp(-60 * rate * (epoch + 1))})
        log.event("epoch end", epoch=epoch, duration=log.now - began)
        log.event("ledger", epoch=epoch, duration=log.now - began, parts={
            "step": steps * step_s * 0.6, "data_wait": waited, "validation": 0.4, "logging": 0.01},
            wait={"decode": 0.7 * waited, "storage latency": 0.3 * waited})
    # Of the whole training, which the setup came before.
    spent = log.now - began_all
    log.now += 0.1 * spent
    log.event("ledger", duration=1.1 * spent, parts={"step": spent, "other": 0.1 * spent})
    log.close()
    return said


def sweep(path):
    """Whole trainings, one measure after the other, each of them three times."""
    rungs = [("as it is", 40.0), ("num_workers=auto", 21.0), ("precision=bf16-mixed", 23.5), ("dataset=images:pictures-small", 4.1)]
    file = open(path, "w")
    for repeat in range(1, 4):
        for i, (measure, seconds) in enumerate(rungs):
            took = seconds * (1 + 0.02 * (repeat - 2))
            now = START + 100 * (repeat * 10 + i)
            base = round((now - START) * 1e9)

            def event(name, at, now=now, base=base, **fields):
                file.write(json.dumps({"event": name, "time": now + at, **fields, "time_ns": base + round(at * 1e9)}) + "\n")
            event("run start", 0, data_params="{}", locals={"num_workers": 0 if i == 0 else 2, "batch_size": 32}, label=measure,
                  repeat=repeat, setting=i, rung=i + 1, measure=measure)
            for epoch in range(2):
                event("epoch start", epoch * took / 2, epoch=epoch)
                event("training start", epoch * took / 2 + 0.1, batch=0, epoch=epoch)
                event("training end", epoch * took / 2 + 0.3, batch=0, duration=0.2, epoch=epoch)
                event("epoch end", (epoch + 1) * took / 2, epoch=epoch, duration=took / 2)
                event("training epoch", (epoch + 1) * took / 2, loss=1.5 / (epoch + 1) + 0.01 * i)
            event("trained", took, tested=True, seconds=took, loss=0.75 + 0.01 * i, accuracy=0.9 - 0.01 * i,
                  evaluated_loss=0.4, peak_bytes=200e6)
            event("run end", took, duration=took)
    file.close()


# ---- What the page draws --------------------------------------------------------------------

CURVES = """data.runs.map(r => Object.fromEntries(r.curves.map(c => {
    const at = typeof c.at === 'number' ? r.curves[c.at].at : c.at;
    return [c.name, c.mean.map((v, i) => [at.step[i], at.epoch[i], v])]; })))"""
LINES = """charts.filter(c => c.config.type === 'line' && c.config.x).map(c => ({
    label: c.canvas.ariaLabel, x: c.config.x, sets: c.config.data.datasets.filter(d => !d.band).map(d => ({label: d.label, run: d.run,
        stroke: d.strokeName, points: d.data.map(p => [p.x, Number.isNaN(p.y) ? null : p.y])}))}))"""


def near(a, b):
    return a == b or (a is not None and b is not None and abs(a - b) <= 2e-5 * max(abs(b), 1e-9))


def check_curves(browser, said):
    """What the page holds of each run, number by number, against what was logged."""
    problems, drawn = [], browser.value(CURVES)
    for i, (metrics, page) in enumerate(zip(said, drawn, strict=True)):
        if set(metrics) != set(page):
            problems.append(f"run {i} has the metrics {sorted(page)}, in the log {sorted(metrics)}")
            continue
        for name, points in metrics.items():
            if len(points) != len(page[name]) or not all(near(a, b) for p, q in zip(page[name], points) for a, b in zip(p, q)):
                problems.append(f"run {i}, {name}: {page[name][:4]}... on the page, {points[:4]}... in the log")
    # Every value is on a chart, at its place; what is no number is a gap.
    for line in browser.value(LINES):
        for drawn_set in line["sets"]:
            name = drawn_set["label"].split(": ")[-1]
            points = said[drawn_set["run"]].get(name)
            column = {"step": 0, "epoch": 1}[line["x"]]
            if points is None or [p[1] for p in drawn_set["points"]] and not all(
                    near(p[0], q[column]) and near(p[1], q[2]) for p, q in zip(drawn_set["points"], points, strict=True)):
                problems.append(f"the line {drawn_set['label']} is not the log's")
    return problems


def check_colours(browser):
    """A phase has one colour on the charts of one training, a run has one on those of several."""
    problems, colours = [], {}
    for line in browser.value(LINES):
        for s in line["sets"]:
            if s["stroke"].startswith("--r"):
                colours.setdefault(s["run"], set()).add(s["stroke"])
            elif s["label"].startswith(("train_loss", "val_")):
                colours.setdefault(s["label"].split("_")[0], set()).add(s["stroke"])
    for what, used in colours.items():
        if len(used) > 1:
            problems.append(f"{what} has the colours {sorted(used)}")
    if len({min(used) for used in colours.values()}) < len(colours):
        problems.append(f"one colour stands for two of {sorted(map(str, colours))}")
    return problems


TREE = {"img", "image", "button", "link", "checkbox", "combobox", "menuitem", "textbox", "region", "navigation", "table", "article"}


def check_tree(browser):
    """Chromium's accessibility tree: what is there has a name, headings do not leave out a level, tables keep their cells."""
    problems, level, headings = [], 0, 0
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    roles = [n["role"]["value"] for n in nodes if not n["ignored"]]
    for node in nodes:
        role = node.get("role", {}).get("value")
        if node["ignored"]:
            continue
        if role in TREE and not node.get("name", {}).get("value", "").strip() and role != "table":
            problems.append(f"an element of the role {role} has no name")
        if role == "heading":
            now = next(p["value"]["value"] for p in node["properties"] if p["name"] == "level")
            headings += 1
            if now > level + 1:
                problems.append(f"the heading '{node['name']['value']}' of level {now} is behind one of level {level}")
            level = now
    for role in ("main", "navigation", "heading", "table", "columnheader", "cell", "image"):
        if role not in roles and not (role == "image" and "img" in roles):
            problems.append(f"the accessibility tree has no {role}")
    return problems


KEYS = """(() => { const list = [...document.querySelectorAll('a[href], button, select, input, summary, [tabindex="0"]')]
  .filter(e => e.offsetParent !== null && !e.closest('details:not([open]) > :not(summary)'));
  return list.length; })()"""


def check_keys(browser):
    """Tab reaches everything that can be used, once, and comes to its end."""
    expected, seen = browser.value(KEYS), []
    browser.value("document.body.focus(), document.activeElement.blur(), window.visited = new Set(), scrollTo(0, 0)")
    for _ in range(expected + 3):
        for kind in ("keyDown", "keyUp"):
            browser.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        seen.append(browser.value("(() => { const e = document.activeElement; if (e === document.body) return 'body';"
                                  " if (visited.has(e)) return 'again'; visited.add(e); return 'new'; })()"))
    reached = seen.count("new")
    return [] if reached >= expected else [f"Tab reaches {reached} of {expected} elements"]


PNG = """(async () => { const hrefs = [], click = HTMLAnchorElement.prototype.click;
  HTMLAnchorElement.prototype.click = function () { hrefs.push([this.download, this.href]); };
  const buttons = [...document.querySelectorAll('button.save')].filter(b => b.offsetParent !== null);
  buttons.forEach(b => b.click()); HTMLAnchorElement.prototype.click = click;
  const out = []; for (const [name, href] of hrefs) { const bytes = atob(href.split(',')[1] || '');
    out.push([name, href.startsWith('data:image/png;base64,'), bytes.length,
      [16, 20].map(at => [0, 1, 2, 3].reduce((v, k) => v * 256 + bytes.charCodeAt(at + k), 0))]); }
  return [buttons.length, out]; })()"""


def check_png(browser):
    buttons, saved = browser.value(PNG)
    problems = [] if buttons and buttons == len(saved) else [f"{buttons} buttons save {len(saved)} pictures"]
    for name, good, size, (wide, high) in saved:
        if not good or not name.endswith(".png") or size < 1000 or wide < 200 or high < 100:
            problems.append(f"the picture {name} has {size} bytes, {wide} x {high}")
    return problems


UNSAID = """[...document.querySelectorAll('th[scope], .cards dt, dt')].filter(e => !e.title && !e.closest('figure, .last-values, dl.words')
  && !e.closest('details')?.querySelector('summary')?.textContent.match(/^(Settings$|Events$|Machine)/)).map(e => e.textContent)"""


def check_words(browser):
    """Every head of a column, card and figure says what it means."""
    return [f"the page does not say what '{word}' means" for word in sorted(set(browser.value(UNSAID)))]


WHOLE = """[...document.querySelectorAll('figure')].filter(f => f.textContent.includes('Where the time went, outside of epochs, too'))
  .map(f => f.textContent.match(/([0-9.]+ (?:ms|s|min)) of the run's ([0-9.]+ (?:ms|s|min)): step 90.9 %/)).map(m => m && [m[1], m[2]])"""


def check_whole(browser):
    """The ledger of all that the trainer did says of how much of the run it is: what came before is not in it."""
    found = browser.value(WHOLE)
    if len(found) == 1 and found[0] and found[0][0] != found[0][1]:
        return []
    return [f"the ledger of the whole training says {found}"]


# ---- Figures --------------------------------------------------------------------------------

def check_figures(stoker, logs, said, folder):
    """Files that are well-formed, hold all they need, and draw as many points as there are."""
    problems, out = [], pathlib.Path(folder) / ("figures" + str(len(logs)))
    subprocess.run([stoker, "report", *logs, "--html", "none", "--quiet", "--figures", out], check=True, stdout=subprocess.DEVNULL)
    files = sorted(out.glob("*.svg"))
    for file in files:
        root = xml.parse(file).getroot()
        space = "{http://www.w3.org/2000/svg}"
        names = {e.tag.removeprefix(space) for e in root.iter()}
        if names - {"svg", "title", "desc", "rect", "path", "text", "circle", "defs", "pattern"} or "title" not in names:
            problems.append(f"{file.name} has the elements {sorted(names)}")
        for e in root.iter():
            for key, value in e.attrib.items():
                if "href" in key or key.startswith("on") or "nan" in value or "inf" in value:
                    problems.append(f"{file.name}: {key}={value}")
    if not said:
        return problems if files else ["there is no figure"]
    one = len(logs) == 1
    wanted = ["loss.svg", "learning-rate.svg", "accuracy.svg"] + (
        ["timeline.svg", "waits-for-a-batch.svg", "throughput.svg", "where-the-time-went.svg"] if one else
        ["run-0-loss.svg", "run-1-timeline.svg", "a-step-and-its-wait.svg"])
    problems += [f"there is no figure {name}" for name in wanted if not (out / name).exists()]
    if (out / "loss.svg").exists():
        lines = [e.get("d") for e in xml.parse(out / "loss.svg").getroot().iter("{http://www.w3.org/2000/svg}path")
                 if e.get("stroke-width") == "2" and "h16" not in e.get("d")]
        # Values, and pieces: a gap breaks a line.
        drawn = [(d.count("M") + d.count("L"), d.count("M")) for d in lines]
        logged = []
        for values in ([v for _, _, v in run[name]] for run in said for name in ("train_loss", "val_loss")):
            pieces = sum(v is not None and (i == 0 or values[i - 1] is None) for i, v in enumerate(values))
            logged.append((len(values) - values.count(None), pieces))
        if sorted(drawn) != sorted(logged):
            problems.append(f"loss.svg draws {drawn} values and pieces of {logged}")
    return problems


# ---- Memory ---------------------------------------------------------------------------------

def memory(browser):
    """Bytes of the page in the browser: what its script holds, and its canvases."""
    browser.call("HeapProfiler.collectGarbage")
    held = {m["name"]: m["value"] for m in browser.call("Performance.getMetrics")["metrics"]}
    canvases = browser.value("[...document.querySelectorAll('canvas')].reduce((sum, c) => sum + 4 * c.width * c.height, 0)")
    return held["JSHeapUsedSize"] + canvases


def check_long(browser, stoker, folder):
    """A training of ten hours: the page is small, and its greatest and least values are there."""
    log, page = pathlib.Path(folder) / "long.log", pathlib.Path(folder) / "long.html"
    said = train(log, rate=0.02, epochs=20, steps=1500, every=5, hours=10, gaps={4999})
    subprocess.run([stoker, "report", log, "--html", page, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    browser.open(page, 1280, 900, 1, False)
    problems, held, size = browser.complaints(), memory(browser), page.stat().st_size
    values = [v for _, _, v in said["train_loss"] if v is not None]
    curve = browser.value("(c => ({n: c.mean.length, least: Math.min(...c.least.filter(v => v !== null)), most: Math.max(...c.most),"
                          " gaps: c.gaps.reduce((a, b) => a + b, 0), values: c.values}))"
                          "(data.runs[0].curves.find(c => c.name === 'train_loss'))")
    if not near(curve["least"], min(values)) or not near(curve["most"], max(values)) or curve["gaps"] != 1:
        problems.append(f"the curve is {curve}, in the log from {min(values)} to {max(values)} with one gap")
    if curve["values"] != len(values) or curve["n"] > 640:
        problems.append(f"{curve['n']} points stand for {curve['values']} values of {len(values)}")
    if held > 50e6 or size > 3e6:
        problems.append(f"the page of ten hours has {size / 1e6:.1f} MB and holds {held / 1e6:.1f} MB")
    return problems, {"page_mb": round(size / 1e6, 2), "held_mb": round(held / 1e6, 1)}


def check_hostile(browser, stoker, folder):
    """Names that would run, or turn a line around, are shown and no more."""
    log, page = pathlib.Path(folder) / "hostile <b>.log", pathlib.Path(folder) / "hostile.html"
    for i, name in enumerate(HOSTILE):
        train(log, rate=0.02, epochs=1, label=name, append=i > 0, names=HOSTILE)
    subprocess.run([stoker, "report", log, "--html", page, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    problems = []
    for width in (1280, 390):
        browser.open(page, width, 844, 1, False)
        problems += browser.complaints()
        if browser.value("document.documentElement.scrollWidth > innerWidth"):
            problems.append(f"hostile names make the page of {width} pixels scroll sideways")
        if browser.value("document.querySelectorAll('script').length !== 6 || document.querySelector('img, [onerror]') !== null"):
            problems.append("hostile names have become elements")
    return problems + check_figures(stoker, [log], [], folder)
