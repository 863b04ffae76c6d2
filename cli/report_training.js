// SPDX-License-Identifier: Apache-2.0
// Curves of trainings: loss, learning rate and metrics over steps, epochs or time; of one run, or of several in one chart.
"use strict";

// ---- Names ----------------------------------------------------------------------------------

// "val_loss/dataloader_idx_1" is the loss of validation; what is of no phase is shown as it is.
function metricOf(name) {
    if (/^(lr|learning_rate)([-_/. ]|$)/.test(name)) {
        return { phase: "", base: "learning rate" };
    }
    const plain = name.replace(/\/dataloader_idx_\d+$/, "").replace(/ \(epoch\)$/, "").replace(/_(step|epoch)$/, "");
    const [, phase, base] = /^(train|training|val|valid|validation|test)[-_/. ](.+)$/.exec(plain) || [0, "", plain];
    return { phase: phase.startsWith("val") ? "val" : phase.startsWith("train") ? "train" : phase, base };
}

const phases = { train: "training", val: "validation", test: "test", "": "as it is logged" };
const dashes = { train: [], val: [7, 4], test: [2, 3], "": [] };
const basics = ["loss", "learning rate", "acc", "accuracy"];
const names = { loss: "Loss", acc: "Accuracy", accuracy: "Accuracy", "learning rate": "Learning rate" };
const said = {
    loss: "what training makes small; lower is better", "learning rate": "how far a step of the optimizer moves the weights",
    acc: "share of the answers that are right", accuracy: "share of the answers that are right"
};

// Metrics by what they are of, loss first. Each: {base, lines: [{run, curve, phase}]}.
function metricsOf(runs) {
    const all = new Map();
    for (const run of runs) {
        for (const curve of run.curves) {
            const { phase, base } = metricOf(curve.name);
            all.set(base, [...(all.get(base) || []), { run, curve, phase }]);
        }
    }
    const order = base => (basics.indexOf(base) + basics.length + 1) % (basics.length + 1);
    return [...all].map(([base, lines]) => ({ base, lines })).sort((a, b) => order(a.base) - order(b.base));
}

// ---- Lines ----------------------------------------------------------------------------------

const axes = { step: "step", epoch: "epoch", time: "time, s" };
const places = (run, curve) => typeof curve.at === "number" ? run.curves[curve.at].at : curve.at;

// Whether all have their place on an axis.
function has(lines, x) {
    return lines.every(l => places(l.run, l.curve)[x].some(v => v !== null));
}

// What is no number is a gap.
function points(line, x, values) {
    const at = places(line.run, line.curve)[x];
    return values.map((v, i) => ({ x: at[i] === null ? NaN : at[i], y: v === null ? NaN : v }));
}

// Where values are missing, a cross above the axis.
const gapMarks = {
    id: "gaps",
    afterDatasetsDraw(chart) {
        const g = chart.ctx, { left, right, bottom } = chart.chartArea;
        g.save();
        g.lineWidth = 1.5;
        chart.config.data.datasets.forEach((d, i) => {
            if (!d.gaps || !chart.isDatasetVisible(i)) {
                return;
            }
            g.strokeStyle = d.borderColor;
            d.gaps.forEach((n, k) => {
                const x = chart.scales.x.getPixelForValue(d.data[k].x);
                if (n && x >= left - 1 && x <= right + 1) {
                    g.beginPath();
                    g.moveTo(x - 4, bottom - 10);
                    g.lineTo(x + 4, bottom - 2);
                    g.moveTo(x - 4, bottom - 2);
                    g.lineTo(x + 4, bottom - 10);
                    g.stroke();
                }
            });
        });
        g.restore();
    }
};

// The data sets of a line: its mean, and where neighbours were put together what lies between the least and the greatest.
function setsOf(line, x, many, label) {
    const { curve, phase } = line, few = curve.mean.length <= 60;
    const stroke = many ? runColour(line.run.number) : phaseColour(phase, line.extra);
    const rates = metricOf(curve.name).base === "learning rate";
    const mean = {
        label, data: points(line, x, curve.mean), gaps: curve.gaps, strokeName: stroke, run: line.run.number, borderDash: many ? dashes[phase] : [],
        stepped: rates ? "before" : false, pointRadius: few && !rates && (phase !== "train" || curve.mean.length < 3) ? 3 : 0, pointHitRadius: 6, borderWidth: 2, spanGaps: false, fill: false, order: 1
    };
    if (!curve.least) {
        return [mean];
    }
    const band = values => ({
        label, band: true, data: points(line, x, values), bandName: stroke, run: line.run.number, pointRadius: 0, borderWidth: 0, spanGaps: false, order: 2
    });
    return [mean, { ...band(curve.least), fill: false }, { ...band(curve.most), fill: "-1" }];
}

function rangeOf(curve) {
    const values = [...(curve.least || curve.mean), ...(curve.most || [])].filter(v => v !== null);
    return values.length ? `from ${number(Math.min(...values))} to ${number(Math.max(...values))}` : "no number";
}

function lastOf(curve) {
    const value = curve.mean[curve.mean.length - 1];
    return value === null ? "no number" : number(value);
}

// ---- Charts ---------------------------------------------------------------------------------

function labelOf(line, many) {
    return many ? `${line.run.shown}: ${line.curve.name}` : line.curve.name;
}

// One chart of all lines of a metric. Returns what draws it anew for an axis.
function curves(place, metric, many) {
    const { base, lines } = metric, gaps = lines.reduce((a, l) => a + (l.curve.gaps || []).reduce((x, y) => x + y, 0), 0);
    const kinds = [...new Set(lines.map(l => l.phase))].filter(p => p).map(p => phases[p]);
    const title = names[base] || base;
    const f = figure(title, [said[base], kinds.join(", "), gaps ? `${gaps} ${gaps === 1 ? "value is" : "values are"} no number: ×` : ""]
        .filter(t => t).join("; "));
    // Lines of one phase are told apart by their shade.
    const seen = new Map();
    lines.forEach(l => {
        l.extra = seen.get(l.phase) || 0;
        seen.set(l.phase, l.extra + 1);
    });
    const config = {
        type: "line", parsing: false, plugins: [gapMarks], data: { datasets: [] },
        options: {
            interaction: { mode: "nearest", axis: "x", intersect: false }, scales: {},
            plugins: {
                legend: {
                    display: !many && lines.length > 1, position: "bottom",
                    labels: { boxWidth: 14, boxHeight: 3, padding: 8, filter: (item, all) => !all.datasets[item.datasetIndex].band }
                },
                tooltip: {
                    filter: item => !item.dataset.band,
                    callbacks: {
                        title: items => items.length ? `${axes[config.x]} ${number(items[0].parsed.x)}` : "",
                        label: item => `${item.dataset.label}: ${number(item.parsed.y)}`
                    }
                }
            }
        }
    };
    plot(f, `${title}: ${lines.map(l => `${labelOf(l, many)} ${rangeOf(l.curve)}, last ${lastOf(l.curve)}`).join("; ")}.`, config);
    const rows = lines.flatMap(l => {
        const at = places(l.run, l.curve), by = Math.ceil(l.curve.mean.length / 100), out = [];
        for (let i = 0; i < l.curve.mean.length; i += by) {
            out.push([labelOf(l, many), at.step[i] ?? "-", at.epoch[i] ?? "-", l.curve.mean[i] ?? "no number"]);
        }
        return out;
    });
    f.append(table(["metric", "step", "epoch", "value"], rows));
    place.append(f);
    return (x, logarithmic, hidden) => {
        config.x = has(lines, x) ? x : ["step", "epoch", "time"].find(other => has(lines, other)) || x;
        config.data.datasets = lines.filter(l => !hidden.has(l.run.number)).flatMap(l => setsOf(l, config.x, many, labelOf(l, many)));
        const positive = lines.every(l => (l.curve.least || l.curve.mean).every(v => v === null || v > 0));
        const y = axis({ text: number, most: 6 });
        config.options.scales = {
            x: { ...axis({ text: number, title: axes[config.x], bare: true }), beginAtZero: true },
            y: { ...y, beginAtZero: base === "learning rate", type: logarithmic && positive ? "logarithmic" : "linear" }
        };
        if (logarithmic && positive) {
            config.options.scales.y.afterBuildTicks = scale => { scale.ticks = scale.ticks.filter(round(scale)); };
        }
        redraw(config);
    };
}

// ---- Controls -------------------------------------------------------------------------------

// A line of colour, for a legend of the page's own.
function swatch(stroke) {
    const mark = element("span", { class: "swatch", "aria-hidden": "true" });
    mark.style.background = `var(${stroke})`;
    return mark;
}

function pickRuns(runs, hidden, change) {
    const set = element("fieldset", { class: "runs" }, element("legend", {}, "Runs: one colour each"));
    for (const run of runs) {
        const box = element("input", { type: "checkbox", checked: "" });
        box.addEventListener("change", () => {
            hidden[box.checked ? "delete" : "add"](run.number);
            change();
        });
        set.append(element("label", {}, box, swatch(runColour(run.number)), element("bdi", {}, run.shown)));
    }
    return set;
}

// All metrics of some runs into a grid, and what chooses the axes into its place.
function training(place, grid, runs) {
    const many = runs.length > 1, metrics = metricsOf(runs), hidden = new Set();
    const select = element("select", {}, ...Object.keys(axes).map(x => element("option", { value: x }, axes[x])));
    const box = element("input", { type: "checkbox" });
    const tools = element("div", { class: "tools" }, element("label", {}, "Over ", select),
        element("label", {}, box, " logarithmic values"));
    place.append(tools);
    const drawn = metrics.map(m => curves(grid, m, many));
    const change = () => drawn.forEach(draw => draw(select.value, box.checked, hidden));
    if (many) {
        const kinds = new Set(metrics.flatMap(m => m.lines.map(l => l.phase)));
        place.append(pickRuns(runs, hidden, change), element("p", { class: "soft" }, "Lines: " +
            [...kinds].map(k => `${phases[k]} ${k === "val" ? "dashed" : k === "test" ? "dotted" : "solid"}`).join(", ") + "."));
    }
    // An axis that a chart does not have is not offered, where no chart has it.
    for (const option of select.options) {
        option.disabled = !metrics.some(m => has(m.lines, option.value));
    }
    select.value = Object.keys(axes).find(x => metrics.every(m => has(m.lines, x))) || "step";
    select.addEventListener("change", change);
    box.addEventListener("change", change);
    change();
}
