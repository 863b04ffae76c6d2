// SPDX-License-Identifier: Apache-2.0
// Draws the states of a run as they come. Every text of theirs is set as text, never as markup.
"use strict";
const MOST = 240; // looks that are kept: two minutes
const at = (id) => document.getElementById(id);
const style = getComputedStyle(document.documentElement);
const colour = (name) => style.getPropertyValue(name).trim();
const history = { workers: [] };

const short = (x) => x == null ? "-" : Math.abs(x) >= 100 ? x.toFixed(0) : Number(x.toPrecision(3)).toString();
const share = (x) => x == null ? "-" : (100 * x).toFixed(1) + " %";
const mib = (x) => x == null ? "-" : short(x / 1048576) + " MiB";
function time(s) {
    if (s == null) return "-";
    return s < 100 ? s.toFixed(0) + " s" : s < 6000 ? (s / 60).toFixed(0) + " min" : (s / 3600).toFixed(1) + " h";
}

function make(name, text, parent) {
    const e = document.createElement(name);
    if (text != null) e.textContent = text;
    if (parent) parent.append(e);
    return e;
}

function cards(list, pairs) {
    while (list.children.length > pairs.length) list.lastChild.remove();
    pairs.forEach(([name, value], i) => {
        let card = list.children[i];
        if (!card) {
            card = make("div", null, list);
            make("dt", "", card);
            make("dd", "", card);
        }
        card.children[0].textContent = name;
        card.children[1].textContent = value;
    });
}

// A canvas in the pixels of the screen.
function brush(canvas) {
    const ratio = window.devicePixelRatio || 1;
    const w = Math.max(1, Math.round(canvas.clientWidth * ratio)), h = Math.max(1, Math.round(canvas.clientHeight * ratio));
    if (canvas.width !== w || canvas.height !== h) {
        canvas.width = w;
        canvas.height = h;
    }
    const c = canvas.getContext("2d");
    c.clearRect(0, 0, w, h);
    return [c, w, h];
}

function drawWaits(loader) {
    const list = at("waits");
    const causes = loader ? Object.entries(loader.wait_shares).filter(([, v]) => v >= 0.001).sort((a, b) => b[1] - a[1]).slice(0, 8) : [];
    while (list.children.length > causes.length) list.lastChild.remove();
    causes.forEach(([name, value], i) => {
        let row = list.children[i];
        if (!row) {
            row = make("div", null, list);
            make("span", "", row);
            make("meter", null, row).max = 1;
            make("span", "", row);
        }
        row.children[0].textContent = name.replace(/_/g, " ");
        row.children[1].value = value;
        row.children[1].setAttribute("aria-label", row.children[0].textContent);
        row.children[2].textContent = share(value);
    });
}

function drawWorkers(workers) {
    const list = at("workers");
    while (list.children.length > workers.length) list.lastChild.remove();
    workers.forEach((worker, i) => {
        let row = list.children[i];
        if (!row) {
            row = make("div", null, list);
            make("span", String(i), row);
            make("canvas", null, row).setAttribute("role", "img");
            make("span", "", row);
        }
        const kept = history.workers[i] = history.workers[i] || [];
        kept.push(worker.busy_share || 0);
        if (kept.length > MOST) kept.shift();
        const [c, w, h] = brush(row.children[1]);
        c.fillStyle = colour("--bar");
        kept.forEach((busy, k) => {
            c.globalAlpha = Math.min(1, Math.max(0, busy));
            c.fillRect(w - (kept.length - k) * w / MOST, 0, w / MOST + 0.5, h);
        });
        row.children[1].setAttribute("aria-label", "worker " + i + " busy " + share(worker.busy_share));
        row.children[2].textContent = share(worker.busy_share) + ", sample " + worker.index;
    });
}

const OF_LOADER = [
    ["data", (l) => l.samples + " samples by " + l.batch_size], ["batches", (l) => String(l.batches)],
    ["a second", (l) => short(l.batches_per_s)], ["waits", (l) => share(l.wait_share)],
    ["ready", (l) => l.ready_batches + " of " + l.depth_batches], ["workers", (l) => String(l.num_workers)],
    ["memory", (l) => mib(l.memory_bytes) + " of " + mib(l.memory_budget_bytes)], ["", (l) => l.first ? "shown above" : ""],
];

function drawLoaders(loaders) {
    const table = at("loaders");
    at("h-loaders").parentElement.hidden = loaders.length < 2;
    if (!table.tHead) OF_LOADER.forEach(([name], i) => make("th", name, i ? table.tHead.rows[0] : table.createTHead().insertRow()));
    const body = table.tBodies[0] || table.createTBody();
    while (body.rows.length > loaders.length) body.deleteRow(-1);
    loaders.forEach((loader, i) => {
        const row = body.rows[i] || body.insertRow();
        OF_LOADER.forEach(([, text], k) => { (row.cells[k] || row.insertCell()).textContent = text(loader); });
    });
}

const LINES = [
    ["samples a second", (s) => s.samples_per_s, short],
    ["waits, share of the time", (s) => s.loader ? s.loader.wait_share : null, share],
    ["batches ready", (s) => s.loader ? s.loader.ready_batches : null, short],
    ["cores of the process", (s) => s.process_cores, short],
    ["memory of the process", (s) => s.process_bytes, mib],
    ["bytes read a second", (s) => s.read_bytes_per_s, (x) => x == null ? "-" : short(x / 1e6) + " MB/s"],
    ["latency of a read", (s) => s.read_latency_s, (x) => x == null ? "-" : short(1e3 * x) + " ms"],
];

function drawLine(i, name, value, text) {
    const list = at("lines");
    let figure = list.children[i];
    if (!figure) {
        figure = make("figure", null, list);
        make("figcaption", "", figure);
        make("canvas", null, figure).setAttribute("role", "img");
    }
    const kept = history[name] = history[name] || [];
    kept.push(value);
    if (kept.length > MOST) kept.shift();
    const most = Math.max(...kept.map((x) => x || 0));
    figure.children[0].textContent = name + ": " + text(value) + (most > 0 ? " (most " + text(most) + ")" : "");
    figure.children[1].setAttribute("aria-label", figure.children[0].textContent);
    const [c, w, h] = brush(figure.children[1]);
    c.strokeStyle = colour("--bar");
    c.lineWidth = 2;
    c.beginPath();
    kept.forEach((x, k) => {
        const px = w - (kept.length - 1 - k) * w / (MOST - 1), py = h - 2 - (most > 0 ? (x || 0) / most : 0) * (h - 4);
        if (k) c.lineTo(px, py);
        else c.moveTo(px, py);
    });
    c.stroke();
}

function drawProgress(s) {
    const p = s.progress;
    const bar = at("bar");
    if (p.total) bar.value = Math.min(1, p.done / p.total);
    else bar.removeAttribute("value");
    let text = p.what ? p.what + ": " + p.done : "";
    if (p.total) text += " of " + p.total + " (" + share(p.done / p.total) + ")";
    if (p.eta_s != null) text += ", about " + time(p.eta_s) + " left";
    if (p.batches_of_epoch) text += "; epoch " + p.epoch + ", batch " + p.batch + " of " + p.batches_of_epoch;
    at("progress").textContent = text;
}

function draw(s) {
    const l = s.loader;
    document.title = "stoker " + s.command + ": " + s.label;
    at("title").textContent = "stoker " + s.command + ": " + s.label;
    at("machine").textContent = "Process " + s.pid + ", for " + time(s.age_s) + ", on " + s.machine;
    drawProgress(s);
    at("verdict").textContent = l && l.verdict ? l.limit + ": " + l.verdict : "";
    cards(at("cards"), [
        ["samples/s", short(s.samples_per_s)], ["samples", String(s.samples)],
        ["waits", l ? share(l.wait_share) : "-"], ["limit", l && l.limit ? l.limit : "-"],
        ["batches ready", l ? l.ready_batches + " of " + l.depth_batches : "-"],
        ["memory of the loader", l ? mib(l.memory_bytes) + " of " + mib(l.memory_budget_bytes) : "-"],
        ["cores of the process", short(s.process_cores) + " of " + s.usable_cores], ["cores of all programs", short(s.machine_cores)],
        ["read from storage", short(s.read_bytes_per_s / 1e6) + " MB/s"], ["latency of a read", s.read_latency_s == null ? "-" : short(1e3 * s.read_latency_s) + " ms"],
        ["reads failed, tried again", s.read_failures + ", " + s.retries], ["bad samples", String(s.bad_samples)],
    ]);
    drawWaits(l);
    drawWorkers(s.workers);
    drawLoaders(s.loaders);
    LINES.forEach(([name, value, text], i) => drawLine(i, name, value(s), text));
    const metrics = Object.entries(s.metrics);
    at("h-metrics").parentElement.hidden = metrics.length === 0;
    cards(at("metrics"), metrics.map(([name, value]) => [name, value == null ? "-" : value.toPrecision(6)]));
}

const events = new EventSource("events" + location.search);
events.onmessage = (event) => {
    at("link").textContent = "";
    draw(JSON.parse(event.data));
};
events.onerror = () => {
    at("link").textContent = "The run does not answer: it has ended, or another of its settings begins.";
};
