// SPDX-License-Identifier: Apache-2.0
// The charts of the report, drawn by Chart.js; the timeline by report_gantt.js. The numbers stand in the page already;
// nothing here is fetched, and text of the log only ever becomes text.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const charts = [];
Chart.defaults.font.family = "system-ui, sans-serif";
Chart.defaults.animation = false;
Chart.defaults.maintainAspectRatio = false;

// ---- Colours --------------------------------------------------------------------------------

// Step and wait as on the charts that show nothing else; then eight colours that all eyes tell apart; beyond, the same
// with stripes.
function partColour(i) {
    const own = { "step": "--train", "data wait": "--bar", "validation": "--val" }[known[i]];
    const plain = colour(own || `--c${i % 8}`);
    if (i < 8 || own) {
        return plain;
    }
    const tile = element("canvas", { width: "8", height: "8" }), g = tile.getContext("2d");
    g.fillStyle = plain;
    g.fillRect(0, 0, 8, 8);
    g.strokeStyle = colour("--panel");
    g.lineWidth = 2;
    g.beginPath();
    g.moveTo(-2, 6);
    g.lineTo(6, -2);
    g.moveTo(2, 10);
    g.lineTo(10, 2);
    g.stroke();
    return g.createPattern(tile, "repeat");
}

// One part has one colour on every chart of the page, whatever its place on one of them.
const known = JSON.parse(document.getElementById("parts").textContent);
function partOf(name) {
    const at = known.indexOf(name);
    return at >= 0 ? at : known.push(name) - 1;
}

// A phase of a training has the colour of its bars on the timeline; further lines of it are of other ones.
function phaseColour(phase, extra) {
    const own = { train: "--train", val: "--val", test: "--test" }[phase];
    return own && !extra ? own : `--c${((own ? 2 : 0) + extra) % 8}`;
}

// A run has one colour on every chart of several; no part of a ledger has any of them.
const runColour = i => `--r${data.overlaid.indexOf(i) % 9}`;

// What is sampled has its line, whatever else is.
const sampled = ["process", "cgroup", "machine"];
function lineOf(name) {
    const at = sampled.indexOf(name);
    return at >= 0 ? at : sampled.push(name) - 1;
}

// What the words of the charts mean.
const words = {
    "step": "the training step ran", "data wait": "the step waited for a batch",
    "storage latency": "a read had been asked for, and its first byte had not come", "storage transfer": "bytes of a read were on their way",
    "worker": "the sample was there, and no worker was free to prepare it", "read slot": "io_depth reads were under way, and this one had to wait for its turn",
    "retry": "a read had failed and was tried again", "decode": "a worker decoded", "decode entropy": "the part of decoding that unpacks bits, an estimate",
    "transform": "a worker ran transforms", "collate": "a worker wrote the sample into its batch",
    "memory budget": "memory_budget was full, and nothing more was asked for",
    "ordering": "later batches were finished, and one before them was not", "startup": "nothing was ahead yet at the start",
    "epoch turn": "nothing was ahead at the turn of the epoch", "transfer": "a batch was copied to the device",
    "validation": "validation ran", "callbacks": "callbacks ran", "logging": "loggers wrote", "checkpoint": "a checkpoint was saved",
    "memory": "it was kept by the option cache of the loader", "disk": "it was kept in the folder of cache+URL", "remote": "it came from the store below",
    "other": "none of the above: what the program did between, or a thread that had no core"
};

// Colours are named in the data sets and filled in here.
function paint(config) {
    const o = config.options;
    o.color = colour("--ink");
    for (const scale of Object.values(o.scales)) {
        scale.ticks.color = scale.title.color = colour("--soft");
        scale.grid.color = scale.grid.borderColor = colour("--line");
    }
    for (const d of config.data.datasets) {
        if (d.strokeName || d.bandName) {
            d.borderColor = d.pointBackgroundColor = colour(d.strokeName || d.bandName);
            d.backgroundColor = d.bandName ? d.borderColor + "33" : d.borderColor;
            continue;
        }
        d.backgroundColor = d.fillNames ? d.fillNames.map(colour) : d.part !== undefined && !d.line ? partColour(d.part) : colour(d.fillName);
        d.borderColor = d.line ? colour(`--c${d.part % 8}`) : colour("--panel");
    }
}

// ---- Charts ---------------------------------------------------------------------------------

// A chart in its figure. `y` and `x` are axes of Chart.js; every chart says in words what it shows.
function plot(f, label, config, height = 15) {
    const canvas = element("canvas", { role: "img", "aria-label": label });
    const box = element("div", { class: "plot" }, canvas);
    box.style.height = height + "rem";
    f.append(box);
    config.options = { normalized: true, parsing: config.parsing, ...config.options };
    charts.push({ canvas, config });
}

// One chart again, whose data or axes are others now.
function redraw(config) {
    const c = charts.find(each => each.config === config);
    if (c.chart) {
        c.chart.destroy();
        c.chart = null;
        drawCharts();
    }
}

// Charts are made once their figures are on the page, and so have a size; again when it turns dark or light.
function drawCharts(again) {
    for (const c of charts.filter(each => again || !each.chart)) {
        if (c.chart) {
            c.chart.destroy();
        }
        paint(c.config);
        c.chart = new Chart(c.canvas, c.config);
        c.canvas.dataset.drawn = "yes";
    }
}

function axis(o) {
    return {
        type: o.type || "linear", min: o.min, max: o.max, stacked: Boolean(o.stacked), beginAtZero: true, offset: Boolean(o.offset),
        grid: { display: !o.bare }, title: { display: Boolean(o.title), text: o.title || "" },
        ticks: { callback: o.text, precision: o.whole ? 0 : undefined, maxRotation: 0, maxTicksLimit: o.most || (narrow() ? 5 : 8), stepSize: o.step, autoSkip: o.skip !== false }
    };
}

const noKey = { legend: { display: false } };
const key = { legend: { position: "bottom", labels: { boxWidth: 14, boxHeight: 14, padding: 8 } } };

function tips(title, label) {
    return { tooltip: { callbacks: { title, label } } };
}

// A step of 1, 2 or 5 times a power of 1024 or ten, so that labels in KiB and MiB are round.
function roundStep(high, unit) {
    let factor = 1;
    while (unit.startsWith("bytes") && high / factor >= 1000) {
        factor *= 1024;
    }
    const list = ticks(0, high / factor, 4);
    return list.length > 1 ? (list[1] - list[0]) * factor : undefined;
}

// ---- Waits ----------------------------------------------------------------------------------

// A dashed line where the mean is.
const meanLine = {
    id: "mean",
    afterDatasetsDraw(chart, _, options) {
        const x = chart.scales.x.getPixelForValue(options.at), { top, bottom } = chart.chartArea, g = chart.ctx;
        g.save();
        g.strokeStyle = g.fillStyle = colour("--edge");
        g.setLineDash([4, 3]);
        g.beginPath();
        g.moveTo(x, top);
        g.lineTo(x, bottom);
        g.stroke();
        g.font = "12px system-ui, sans-serif";
        g.textAlign = x > chart.chartArea.right - 60 ? "right" : x < chart.chartArea.left + 60 ? "left" : "center";
        g.fillText(options.text, x, top - 5);
        g.restore();
    }
};

function bins(f, label, h, o) {
    const width = (o.to - o.from) / o.counts.length;
    const edges = i => `${seconds(o.from + i * width)} to ${seconds(o.from + (i + 1) * width)}`;
    const unit = o.to >= 1 ? [1, "s"] : o.to >= 1e-3 ? [1e3, "ms"] : [1e6, "µs"];
    plot(f, label, {
        type: "bar", parsing: false, plugins: o.mean ? [meanLine] : [],
        data: {
            datasets: [{
                data: o.counts.map((count, i) => ({ x: o.from + (i + 0.5) * width, y: count || NaN })), fillName: o.fill,
                barPercentage: 0.94, categoryPercentage: 1, minBarLength: 1.5, borderWidth: 0
            }]
        },
        options: {
            layout: { padding: { top: o.mean ? 18 : 0 } },
            scales: {
                x: axis({ min: o.from, max: o.to, text: v => number(v * unit[0]), title: `${o.title}, ${unit[1]}`, bare: true }),
                y: axis({ whole: true, title: "steps", most: 5 })
            },
            plugins: {
                ...noKey, mean: o.mean,
                ...tips(items => edges(items[0].dataIndex), item => `${item.parsed.y} steps`)
            }
        }
    }, o.height);
    return o.counts.map((count, i) => [edges(i), count]).filter(row => row[1]);
}

function histogram(run) {
    const h = run.hist, n = h.bins.reduce((a, b) => a + b, 0);
    const past = h.beyond ? `${h.beyond} ${h.beyond === 1 ? "is" : "are"} longer, up to ${seconds(h.most)}` : "none is longer";
    const f = figure("Waits for a batch", `99 bins up to mean + 3 deviations (${seconds(h.edge)}); ${past}` +
        (h.exact ? "" : "; counted within 1.5 %"));
    if (n + h.beyond === 0 || h.edge <= 0) {
        f.append(element("p", { class: "soft" }, n ? "No step waited." : "Nothing was measured."));
        return f;
    }
    const rows = bins(f, `Histogram of ${n + h.beyond} waits: ${n} up to ${seconds(h.edge)}, ${past}; mean ${seconds(h.mean)}.`, h, {
        from: 0, to: h.edge, counts: h.bins, fill: "--bar", title: "wait", mean: { at: h.mean, text: `mean ${seconds(h.mean)}` }
    });
    if (h.beyond) {
        rows.push(...bins(f, `The ${h.beyond} waits beyond ${seconds(h.edge)}, up to ${seconds(h.most)}.`, h, {
            from: h.edge, to: h.most, counts: h.tail, fill: "--beyond", title: "beyond: wait", height: 9
        }));
    }
    f.append(table(["wait", "steps"], rows));
    return f;
}

// ---- Over time ------------------------------------------------------------------------------

// Places from the time `from` on, joined until each holds about `least` events, and there are 160 at most.
function rebin(p, least, from) {
    const events = p.count.reduce((a, b) => a + b, 0);
    const most = Math.max(1, Math.min(160, Math.floor(events / least)));
    const first = Math.min(p.n, Math.floor(from / p.width)), by = Math.max(1, Math.ceil((p.n - first) / most));
    const out = [];
    for (let i = first; i < p.n; i += by) {
        let sum = 0, count = 0;
        for (let k = i; k < Math.min(p.n, i + by); k++) {
            sum += p.sum[k];
            count += p.count[k];
        }
        out.push({ at: Math.max(from, i * p.width), to: (i + by) * p.width, sum, count });
    }
    return out;
}

// Points {at, to, value} as steps: where one does not begin at the end of the last there is a gap.
function steps(points, end) {
    const out = [];
    points.forEach((p, i) => {
        out.push({ x: p.at, y: p.value });
        const next = points[i + 1];
        if (!next || next.at > p.to * (1 + 1e-9)) {
            out.push({ x: Math.min(p.to, end), y: p.value }, { x: Math.min(p.to, end), y: NaN });
        }
    });
    return out;
}

// Values over time; `series`: name, points {at, to, value}.
function over(title, note, series, unit, end) {
    const f = figure(title, note), all = series.flatMap(s => s.points.map(p => p.value));
    const high = unit === "%" ? 1 : Math.max(...all, 0);
    const range = s => {
        const values = s.points.map(p => p.value);
        return `${s.name} from ${amount(Math.min(...values), unit)} to ${amount(Math.max(...values), unit)}`;
    };
    const x = axis({ min: 0, max: end, text: number, title: "time, s", bare: true });
    const y = axis({ max: unit === "%" ? 1 : undefined, text: v => amount(v, unit), most: 6, step: roundStep(high, unit) });
    plot(f, `${title}: ${series.filter(s => s.points.length).map(range).join("; ")}.`, {
        type: "line", parsing: false,
        data: {
            datasets: series.map((s, i) => ({
                label: s.name, data: steps(s.points, end), part: s.colour === undefined ? i : s.colour, line: true, fillName: "--shade", stepped: true, pointRadius: 0,
                pointHitRadius: 6, borderWidth: 2, borderDash: [[], [7, 3], [2, 2]][i % 3], fill: series.length === 1, spanGaps: false
            }))
        },
        options: {
            interaction: { mode: "nearest", axis: "x", intersect: false }, scales: { x, y },
            plugins: {
                ...(series.length > 1 ? key : noKey),
                ...tips(items => `${number(items[0].parsed.x)} s`, item => `${item.dataset.label}: ${amount(item.parsed.y, unit)}`)
            }
        }
    });
    f.append(table(["what", "from, s", "value"], series.flatMap(s => s.points.map(p => [s.name, number(p.at), amount(p.value, unit)]))));
    return f;
}

// ---- Ledger ---------------------------------------------------------------------------------

const sum = list => list.reduce((a, b) => a + b, 0);

// Parts of the wall time or of the waits, a bar for each epoch; the greatest part lies at the bottom. `whole`: how long the
// run was, of which a sum may be a part alone.
function stacked(title, list, perEpoch, unit = "s", whole = 0) {
    const say = (v, digits) => unit === "s" ? seconds(v, digits) : amount(v, unit);
    const parts = list.map(p => ({ name: p.name.replace(/_/g, " "), values: p.sum.map(v => Math.max(0, v)), width: p.width, n: p.n }))
        .filter(p => sum(p.values) > 0).sort((a, b) => sum(b.values) - sum(a.values));
    const all = sum(parts.map(p => sum(p.values)));
    const share = p => `${(100 * sum(p.values) / all).toFixed(1)} %`;
    const f = figure(title, parts.length ? `${say(all)} ${whole ? `of the run's ${say(whole)}` : "in all"}: ` + parts.slice(0, 3).map(p => `${p.name} ${share(p)}`).join(", ") : "nothing was measured");
    if (!parts.length) {
        return f;
    }
    const n = Math.max(...parts.map(p => p.n)), width = parts[0].width;
    const labels = Array.from({ length: n }, (_, i) => !perEpoch ? (whole ? "in all" : "whole run") : width > 1 ? `${i * width} to ${(i + 1) * width - 1}` : String(i));
    plot(f, `${title}: ${parts.map(p => `${p.name} ${say(sum(p.values))}`).join(", ")}.`, {
        type: "bar",
        data: {
            labels, datasets: parts.map(p => ({
                label: p.name, data: labels.map((_, k) => p.values[k] || 0), part: partOf(p.name), borderWidth: 0.5, maxBarThickness: 90, fillName: "--c0"
            }))
        },
        options: {
            scales: {
                x: axis({ type: "category", stacked: true, title: perEpoch ? "epoch" : "", bare: true, offset: true }),
                y: axis({ stacked: true, text: v => say(v, 2), most: 6, step: unit === "s" ? undefined : roundStep(Math.max(...labels.map((_, k) => sum(parts.map(p => p.values[k] || 0)))), unit) })
            },
            plugins: {
                ...key, ...tips(items => (perEpoch ? "epoch " : "") + items[0].label, item => `${item.dataset.label}: ${say(item.parsed.y)}`)
            }
        }
    }, 18);
    f.append(element("p", { class: "soft words" }, parts.filter(p => words[p.name]).map(p => `${p.name}: ${words[p.name]}`).join("; ") + "."));
    delete charts[charts.length - 1].config.options.scales.x.ticks.callback;
    f.append(table(["part", unit === "s" ? "time" : "bytes", "share"], parts.map(p => [p.name, say(sum(p.values), 4), share(p)])));
    return f;
}

// ---- Series of the log ----------------------------------------------------------------------

function unitOf(s) {
    const name = s.name;
    return /bytes_per_s$|_bps$/.test(name) ? "bytes/s" : /bytes$/.test(name) ? "bytes" :
        /share$/.test(name) ? "%" : /_s$|seconds$/.test(name) ? "s" : "";
}

const titles = { queue: "Queues", cpu: "CPU", memory: "Memory", io: "Input and output", pace: "Workers and reads" };
const notes = { "queue.ready": "finished batches that wait for the step", "system.cpu": "cores in use", "system.io": "bytes a second" };

function seriesCharts(run) {
    const groups = new Map(), ledgers = [], out = [];
    for (const s of run.series) {
        const id = JSON.stringify([s.group, s.ledger ? "ledger" : unitOf(s)]);
        groups.set(id, [...(groups.get(id) || []), s]);
    }
    // Those of one ledger: what it was spent on, seconds.
    const spent = name => sum(run.series.filter(s => s.ledger && s.group === name).map(s => sum(s.sum)));
    // The sums of the whole run say nothing that those of its epochs do not, but where there was more than epochs.
    const more = spent("ledger total.parts") > 1.01 * spent("ledger.parts");
    for (const [id, list] of groups) {
        const [group, unit] = JSON.parse(id), last = group.split(".").pop();
        if (list[0].ledger) {
            const total = group.startsWith("ledger total"), name = last === "wait" ? "What the waits were for" : last === "parts" ? "Where the time went" : last === "tiers" ? "Where the bytes were found" : last;
            if (group.includes(".") && !(total && spent(`ledger.${last}`) > 0 && !(more && last === "parts"))) {
                ledgers.push(stacked(total && more ? `${name}, outside of epochs, too` : name, list, !total, last === "tiers" ? "bytes" : "s", total && more ? run.length : 0));
            }
            continue;
        }
        const lines = list.slice(0, 8).map(s => ({
            name: s.name.replace(/(_bytes)?(_per_s)?$/, "").replace(/_/g, " "),
            colour: group.startsWith("system.") ? lineOf(s.name.replace(/(_bytes)?(_per_s)?$/, "")) : undefined,
            points: held(s.sum.map((v, i) => ({ at: i * s.width, to: (i + 1) * s.width, value: v / s.count[i] })).filter((p, i) => s.count[i] > 0))
        }));
        out.push(over(titles[last] || group, notes[group] || notes[`${group}.${list[0].name}`] || lines.map(s => s.name).join(", "), lines, unit, run.length));
    }
    return { ledgers, others: out };
}

// A sample counts until the next one.
function held(points) {
    points.forEach((p, i) => {
        if (i + 1 < points.length) {
            p.to = points[i + 1].at;
        }
    });
    return points;
}

// ---- Settings side by side ------------------------------------------------------------------

// A name as the label of an axis: its end.
function short(name) {
    const most = narrow() ? 18 : 40;
    return name.length > most ? "…" + name.slice(1 - most) : name;
}

function comparison(place) {
    const groups = data.groups, step = g => Math.max(0, g.per_step - g.wait);
    const f = figure("A step and its wait", "seconds a step of the epochs, sorted by the mean wait: the shortest first" +
        (data.groups_left ? `; ${data.groups_left} more stand in the table` : ""));
    const bar = (label, fillName, value) => ({ label, fillName, data: groups.map(value), borderWidth: 0.5, maxBarThickness: 26 });
    plot(f, "Mean wait and the rest of a step: " + groups.map(g => `${g.name}: wait ${seconds(g.wait)}, step and wait ${seconds(g.per_step)}`).join("; ") + ".", {
        type: "bar",
        data: {
            labels: groups.map(g => short(g.name)),
            datasets: [bar("wait", "--bar", g => g.wait), bar("step", "--train", step)]
        },
        options: {
            indexAxis: "y",
            scales: {
                x: axis({ stacked: true, text: v => seconds(v, 2), most: narrow() ? 4 : 6 }),
                y: axis({ type: "category", stacked: true, bare: true, offset: true, skip: false, most: 60 })
            },
            plugins: { ...key, ...tips(items => groups[items[0].dataIndex].name, item => `${item.dataset.label}: ${seconds(item.parsed.x)}`) }
        }
    }, 5 + 2.2 * groups.length);
    delete charts[charts.length - 1].config.options.scales.y.ticks.callback;
    place.append(f);
}

// ---- One measure after the other ------------------------------------------------------------

// What a bar stands for, behind its end.
const barTexts = {
    id: "texts",
    afterDatasetsDraw(chart, _, options) {
        const g = chart.ctx, { right } = chart.chartArea;
        g.save();
        g.font = "12px system-ui, sans-serif";
        g.textBaseline = "middle";
        chart.getDatasetMeta(0).data.forEach((bar, i) => {
            const { x, base, y } = bar.getProps(["x", "base", "y"]), text = options.list[i];
            const fits = Math.max(x, base) + 6 + g.measureText(text).width < right;
            g.textAlign = fits ? "left" : "right";
            g.fillStyle = colour("--ink");
            g.fillText(text, fits ? Math.max(x, base) + 6 : Math.min(x, base) - 6, y);
        });
        g.restore();
    }
};

// Each measure from the rate before to the rate with it. On a logarithmic axis lengths are shares of the speed-up.
function ladder(place) {
    const rungs = data.rungs, rates = rungs.map(r => r.speed), narrowest = Math.min(...rates) / 1.5;
    const what = data.trainings ? "trainings" : "samples";
    const speed = r => data.trainings ? `${number(1 / r.speed)} s` : `${number(r.speed)} samples/s`;
    const f = figure("What each measure adds", `from the ${what} a second before it to those with it; equal factors are equally long`);
    const said = r => r.factor === null ? speed(r) :
        `×${number(r.factor)}` + (r.share === null ? "" : `, ${(Math.round(100 * r.share) || 0)} %`);
    plot(f, "Measures one after the other: " + rungs.map(r => `${r.name}: ${speed(r)}`).join("; ") + ".", {
        type: "bar", plugins: [barTexts],
        data: {
            labels: rungs.map(r => short(r.name)),
            datasets: [{
                data: rungs.map((r, i) => i ? [rates[i - 1], r.speed] : [narrowest, r.speed]), borderWidth: 0, maxBarThickness: 26,
                minBarLength: 2, fillNames: rungs.map(r => r.factor === null ? "--c6" : r.factor < 1 ? "--beyond" : "--bar")
            }]
        },
        options: {
            indexAxis: "y",
            scales: {
                x: {
                    ...axis({ text: number, title: `${what} a second, logarithmic`, min: narrowest }), type: "logarithmic",
                    afterBuildTicks: scale => { scale.ticks = scale.ticks.filter(round(scale)); }
                },
                y: axis({ type: "category", bare: true, offset: true, skip: false, most: 60 })
            },
            plugins: {
                ...noKey, texts: { list: rungs.map(said) },
                ...tips(items => rungs[items[0].dataIndex].name, item => `${speed(rungs[item.dataIndex])}, ${said(rungs[item.dataIndex])}`)
            }
        }
    }, 5 + 2.2 * rungs.length);
    delete charts[charts.length - 1].config.options.scales.y.ticks.callback;
    place.append(f);
}

// Which ticks of a logarithmic axis are shown: powers of ten, and 2 and 5 of each where there is room for them.
function round(scale) {
    const also = scale.max / scale.min > (narrow() ? 30 : 1000) ? [1] : [1, 2, 5];
    return tick => also.some(n => Math.abs(tick.value / 10 ** Math.floor(Math.log10(tick.value) + 1e-9) - n) < 1e-6);
}

// ---- The page -------------------------------------------------------------------------------

const built = new Map();

function build(article, run) {
    const place = article.querySelector(".charts");
    const wide = figure("Timeline", "Ctrl and the wheel, pinch, + and − zoom; drag or arrows move; a fainter bar stands for several");
    wide.classList.add("wide");
    place.before(wide);
    const gantt = new Gantt(run, wide);
    const end = Math.max(run.length, 1e-6);
    const { ledgers, others } = seriesCharts(run);
    if (run.curves.length) {
        const tools = element("div", { class: "training" });
        wide.after(tools);
        training(tools, place, [run]);
        // What a training came to beside what its time was for.
        place.append(...ledgers.splice(0));
    }
    place.append(histogram(run));
    if (run.steps.n) {
        const epochs = gantt.rows.find(row => row.name === "epoch"), from = epochs ? Math.max(0, epochs.lanes[0].start[0]) : 0;
        const factor = run.batch || 1, what = run.batch ? "samples" : "steps";
        const points = rebin(run.steps, 5, from).map(p => ({
            at: p.at, to: p.to, value: p.count * factor / (Math.min(p.to, Math.max(end, p.at + 1e-9)) - p.at)
        }));
        place.append(over("Throughput", `${what} a second, as the steps ended`, [{ name: `${what}/s`, points }], "", end));
        const waits = rebin(run.waits, 5, from).map(p => ({ at: p.at, to: p.to, value: Math.min(1, p.sum / (p.to - p.at)) }));
        if (waits.length) {
            place.append(over("Waiting", "share of the time that the step waited for its batch", [{ name: "waiting", points: waits }], "%", end));
        }
    }
    place.append(...ledgers, ...others);
    return gantt;
}

// Runs of one name are told apart.
data.runs.forEach((run, i) => {
    const others = data.overlaid.includes(i) ? data.overlaid.map(k => data.runs[k]) : data.runs;
    const same = others.filter(r => r.name === run.name), at = same.indexOf(run);
    run.number = i;
    run.shown = same.length > 1 ? `${run.name} #${at + 1}` : run.name;
});

function select(i) {
    data.runs.forEach((run, k) => {
        document.getElementById("run-" + k).hidden = k !== i;
    });
    if (!built.has(i)) {
        built.set(i, build(document.getElementById("run-" + i), data.runs[i]));
        drawCharts();
    }
    built.get(i).resize();
}

const compared = document.getElementById("compared");
if (compared) {
    comparison(compared);
}
const climbed = document.getElementById("ladder");
if (climbed) {
    ladder(climbed);
}
const overlaid = document.getElementById("overlaid");
if (overlaid) {
    const grid = element("div", { class: "charts" });
    training(overlaid, grid, data.overlaid.map(i => data.runs[i]));
    overlaid.append(grid);
}
const picker = document.getElementById("pick");
if (picker) {
    picker.closest("nav").hidden = false;
    picker.addEventListener("change", () => select(Number(picker.value)));
    for (const link of document.querySelectorAll("a[data-run]")) {
        link.addEventListener("click", e => {
            e.preventDefault();
            picker.value = link.dataset.run;
            select(Number(link.dataset.run));
            document.getElementById("run-" + link.dataset.run).scrollIntoView();
        });
    }
}
select(picker ? Number(picker.value) : 0);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    built.forEach(g => g.ask());
    drawCharts(true);
});
document.documentElement.dataset.drawn = "yes";
