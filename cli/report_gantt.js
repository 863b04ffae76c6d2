// SPDX-License-Identifier: Apache-2.0
// What all charts of the report need, and the timeline: a plain canvas that zooms over as many bars as the page holds.
"use strict";

// ---- Small helpers --------------------------------------------------------------------------

const narrow = () => innerWidth < 560;

function element(name, attributes, ...children) {
    const e = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
        e.setAttribute(key, value);
    }
    e.append(...children);
    return e;
}

const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function number(value) {
    const size = Math.abs(value);
    if (size === 0) {
        return "0";
    }
    if (size >= 1e6 || size < 1e-3) {
        return value.toPrecision(3);
    }
    return size >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
}

function seconds(value, digits = 3) {
    const size = Math.abs(value);
    const [factor, unit] = size === 0 || size >= 1 ? [1, "s"] : size >= 1e-3 ? [1e3, "ms"] : [1e6, "µs"];
    return Number((value * factor).toPrecision(digits)) + " " + unit;
}

function amount(value, unit) {
    if (unit === "bytes" || unit === "bytes/s") {
        const tail = unit === "bytes" ? "" : "/s";
        const units = ["B", "KiB", "MiB", "GiB", "TiB"];
        let i = 0;
        for (; Math.abs(value) >= 1000 && i < units.length - 1; i++) {
            value /= 1024;
        }
        return number(value) + " " + units[i] + tail;
    }
    return unit === "s" ? seconds(value) : unit === "%" ? number(100 * value) + " %" : number(value);
}

// Steps of 1, 2, 5 times a power of ten, about `count` of them.
function ticks(low, high, count) {
    const raw = (high - low) / count || 1;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map(f => f * power).find(s => s >= raw) || 10 * power;
    const out = [];
    for (let i = Math.ceil(low / step); i * step <= high * (1 + 1e-9) && out.length < 100; i++) {
        out.push(i * step);
    }
    return out;
}

function table(heads, rows) {
    const body = element("tbody");
    for (const row of rows) {
        body.append(element("tr", {}, ...row.map(cell => element("td", {}, String(cell)))));
    }
    const head = element("tr", {}, ...heads.map(text => element("th", { scope: "col" }, text)));
    const all = element("table", {}, element("thead", {}, head), body);
    return element("details", {}, element("summary", {}, "The numbers"),
        element("div", { class: "scroll", tabindex: "0" }, all));
}

// A figure; its button saves what is drawn in it.
function figure(title, note) {
    const button = element("button", { type: "button", class: "save", "aria-label": `Save ${title} as PNG` }, "PNG");
    const f = element("figure", {}, element("figcaption", {}, element("bdi", {}, title), button, element("span", {}, note)));
    button.addEventListener("click", () => save(f, title, note));
    return f;
}

// The canvases of a figure below its title, on the page's ground, as a file.
function save(f, title, note) {
    const list = [...f.querySelectorAll("canvas")], scale = devicePixelRatio || 1, edge = 12 * scale, head = 56 * scale;
    const picture = element("canvas", {
        width: Math.max(...list.map(c => c.width)) + 2 * edge, height: list.reduce((sum, c) => sum + c.height + edge, head)
    });
    const g = picture.getContext("2d");
    g.fillStyle = colour("--panel");
    g.fillRect(0, 0, picture.width, picture.height);
    g.fillStyle = colour("--ink");
    g.font = `600 ${15 * scale}px system-ui, sans-serif`;
    g.fillText(title, edge, 24 * scale, picture.width - 2 * edge);
    g.font = `${12 * scale}px system-ui, sans-serif`;
    g.fillText(note, edge, 44 * scale, picture.width - 2 * edge);
    let y = head;
    for (const c of list) {
        g.drawImage(c, edge, y);
        y += c.height + edge;
    }
    const link = element("a", { href: picture.toDataURL("image/png"), download: title.toLowerCase().replace(/[^a-z0-9]+/g, "-") + ".png" });
    link.click();
}

// ---- The Gantt chart --------------------------------------------------------------------

function decode(text, n, start) {
    const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
    let at = 0;
    const varint = () => {
        let value = 0, factor = 1;
        for (;;) {
            const byte = bytes[at++];
            value += (byte & 127) * factor;
            if (byte < 128) {
                return value;
            }
            factor *= 128;
        }
    };
    const lane = { n, start: new Float64Array(n), end: new Float64Array(n), busy: new Float32Array(n), count: new Uint32Array(n) };
    for (let i = 0; i < n; i++) {
        start += varint() * 1e-6;
        const length = varint();
        const joined = length % 2 === 1;
        const span = Math.floor(length / 2) * 1e-6;
        lane.start[i] = start;
        lane.end[i] = start + span;
        lane.count[i] = joined ? varint() : 1;
        lane.busy[i] = joined ? varint() * 1e-6 : span;
    }
    // Ends only ever grow, so that a search finds the first bar in view also where bars overlap.
    lane.reach = Float64Array.from(lane.end);
    for (let i = 1; i < n; i++) {
        lane.reach[i] = Math.max(lane.reach[i], lane.reach[i - 1]);
    }
    return lane;
}

function firstAfter(list, value) {
    let low = 0, high = list.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (list[middle] < value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

class Gantt {
    constructor(run, place) {
        this.run = run;
        this.rows = run.rows.map(row => ({ name: row.name, lanes: row.lanes.map(l => decode(l.d, l.n, run.first)) }));
        this.low = run.first;
        this.high = Math.max(run.length, 1e-6);
        this.view = [this.low, this.high];
        this.apart = false;
        this.build(place);
    }

    build(place) {
        const counts = this.rows.map(r => `${r.lanes.reduce((a, l) => a + l.count.reduce((x, y) => x + y, 0), 0)} ${r.name}`);
        this.canvas = element("canvas", {
            class: "timeline", tabindex: "0", role: "img",
            "aria-label": `Timeline over ${seconds(this.high)}: ${counts.join(", ")}. Plus and minus zoom, arrows move, 0 shows all.`
        });
        this.out = element("output", {});
        const tools = element("div", { class: "tools" });
        const button = (text, label, run) => {
            const b = element("button", { type: "button", "aria-label": label }, text);
            b.addEventListener("click", run);
            tools.append(b);
        };
        button("−", "Zoom out", () => this.zoom(0.5, 2));
        button("+", "Zoom in", () => this.zoom(0.5, 0.5));
        button("◀", "Move left", () => this.move(-0.3));
        button("▶", "Move right", () => this.move(0.3));
        button("All", "Show the whole run", () => this.show(this.low, this.high));
        if (this.rows.some(r => r.lanes.length > 1)) {
            const box = element("input", { type: "checkbox" });
            box.addEventListener("change", () => {
                this.apart = box.checked;
                this.resize();
            });
            tools.append(element("label", {}, box, " workers apart"));
        }
        tools.append(this.out);
        place.append(this.canvas, tools);
        this.listen();
        new ResizeObserver(() => this.resize()).observe(this.canvas);
    }

    listen() {
        const c = this.canvas, fingers = new Map();
        const share = e => (e.clientX - c.getBoundingClientRect().left - this.left) / (this.width - this.left);
        let pinch = 0;
        c.addEventListener("wheel", e => {
            const sideways = Math.abs(e.deltaX) > Math.abs(e.deltaY);
            // The wheel alone scrolls the page.
            if (!sideways && !e.ctrlKey && !e.metaKey) {
                return;
            }
            e.preventDefault();
            if (sideways) {
                this.move(e.deltaX / this.width);
            } else {
                this.zoom(share(e), 1.0015 ** Math.max(-400, Math.min(400, e.deltaY * (e.deltaMode ? 30 : 1))));
            }
        }, { passive: false });
        c.addEventListener("pointerdown", e => {
            fingers.set(e.pointerId, e);
            c.setPointerCapture(e.pointerId);
            pinch = 0;
        });
        const leave = e => {
            fingers.delete(e.pointerId);
            pinch = 0;
        };
        c.addEventListener("pointerup", leave);
        c.addEventListener("pointercancel", leave);
        c.addEventListener("pointermove", e => {
            const before = fingers.get(e.pointerId);
            this.tell(share(e), e.clientY - c.getBoundingClientRect().top);
            if (!before) {
                return;
            }
            fingers.set(e.pointerId, e);
            if (fingers.size === 1) {
                this.move(-(e.clientX - before.clientX) / (this.width - this.left));
            } else if (fingers.size === 2) {
                const [a, b] = [...fingers.values()];
                const distance = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
                if (pinch && distance) {
                    this.zoom((share(a) + share(b)) / 2, pinch / distance);
                }
                pinch = distance;
            }
        });
        c.addEventListener("dblclick", e => this.zoom(share(e), 0.25));
        c.addEventListener("keydown", e => {
            const actions = {
                "+": () => this.zoom(0.5, 0.5), "=": () => this.zoom(0.5, 0.5), "-": () => this.zoom(0.5, 2),
                ArrowLeft: () => this.move(-0.1), ArrowRight: () => this.move(0.1), 0: () => this.show(this.low, this.high)
            };
            if (actions[e.key]) {
                e.preventDefault();
                actions[e.key]();
            }
        });
    }

    zoom(at, factor) {
        const [a, b] = this.view, middle = a + Math.min(1, Math.max(0, at)) * (b - a);
        this.show(middle - (middle - a) * factor, middle + (b - middle) * factor);
    }

    move(share) {
        const [a, b] = this.view, by = Math.max(this.low - a, Math.min(this.high - b, share * (b - a)));
        this.show(a + by, b + by);
    }

    show(a, b) {
        const least = Math.max(2e-6, (this.high - this.low) * 1e-7);
        if (b - a < least) {
            [a, b] = [(a + b - least) / 2, (a + b + least) / 2];
        }
        this.view = [Math.max(this.low, a), Math.min(this.high, b)];
        this.ask();
    }

    ask() {
        if (!this.asked) {
            this.asked = requestAnimationFrame(() => {
                this.asked = 0;
                this.draw();
            });
        }
    }

    resize() {
        if (!this.canvas.clientWidth) {
            return;
        }
        this.width = this.canvas.clientWidth;
        this.left = narrow() ? 66 : 84;
        let y = 4;
        this.strips = [];
        for (const row of this.rows) {
            const apart = this.apart && row.lanes.length > 1;
            const each = apart ? Math.max(6, Math.min(18, 220 / row.lanes.length)) : 34;
            this.strips.push({ row, y, each, apart });
            y += apart ? each * row.lanes.length + 8 : each + 8;
        }
        this.height = y + 22;
        const scale = devicePixelRatio || 1;
        this.canvas.style.height = this.height + "px";
        this.canvas.width = Math.round(this.width * scale);
        this.canvas.height = Math.round(this.height * scale);
        this.ask();
    }

    colourOf(name) {
        const named = {
            setup: "--setup", "get-batch": "--get", train: "--train", epoch: "--epoch", read: "--c0", validation: "--val",
            "sanity check": "--val", test: "--test"
        };
        // A part of the ledger has its colour here, too.
        return named[name] || !known.includes(name) ? colour(named[name] || "--c" + (2 + this.rows.findIndex(r => r.name === name) % 6)) :
            partColour(known.indexOf(name));
    }

    draw() {
        if (!this.width) {
            return;
        }
        const began = performance.now();
        const g = this.canvas.getContext("2d"), scale = devicePixelRatio || 1;
        g.setTransform(scale, 0, 0, scale, 0, 0);
        g.clearRect(0, 0, this.width, this.height);
        g.font = "12px system-ui, sans-serif";
        const [a, b] = this.view, x = t => this.left + (t - a) / (b - a) * (this.width - this.left);
        this.axis(g, x);
        for (const s of this.strips) {
            g.fillStyle = colour("--ink");
            g.textAlign = "right";
            g.textBaseline = "middle";
            g.fillText(s.row.name.slice(0, 14), this.left - 8, s.y + s.each / 2, this.left - 10);
            const fill = this.colourOf(s.row.name);
            s.row.lanes.forEach((lane, i) => this.lane(g, lane, s.y + (s.apart ? i * s.each : 0), s.each - (s.apart ? 1 : 0), fill, s.row.name));
        }
        this.took = performance.now() - began;
        this.canvas.dataset.ms = this.took.toFixed(1);
    }

    axis(g, x) {
        const [a, b] = this.view;
        const list = ticks(a, b, this.width < 560 ? 4 : 8);
        const step = list.length > 1 ? list[1] - list[0] : b - a;
        const digits = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step) - 1e-9)));
        g.strokeStyle = colour("--line");
        g.fillStyle = colour("--soft");
        g.textBaseline = "alphabetic";
        g.lineWidth = 1;
        for (const t of list) {
            g.beginPath();
            g.moveTo(x(t), 0);
            g.lineTo(x(t), this.height - 20);
            g.stroke();
            g.textAlign = x(t) > this.width - 30 ? "right" : "center";
            g.fillText(t.toFixed(digits) + (t === list[list.length - 1] ? " s" : ""), x(t), this.height - 5);
        }
    }

    // Bars narrower than a pixel are gathered: a column is as solid as it is busy.
    lane(g, lane, y, height, fill, name) {
        const [a, b] = this.view, per = (this.width - this.left) / (b - a);
        const columns = Math.ceil(this.width - this.left);
        const busy = new Float32Array(columns);
        let thin = false;
        g.fillStyle = fill;
        for (let i = firstAfter(lane.reach, a); i < lane.n && lane.start[i] <= b; i++) {
            if (lane.end[i] < a) {
                continue;
            }
            const from = (lane.start[i] - a) * per, to = (lane.end[i] - a) * per;
            if (to - from >= 1.5) {
                const left = Math.max(0, from), right = Math.min(columns, to);
                g.globalAlpha = lane.count[i] > 1 ? Math.max(0.15, Math.min(1, lane.busy[i] / (lane.end[i] - lane.start[i] || 1))) : 1;
                g.fillRect(this.left + left, y, right - left, height);
                g.globalAlpha = 1;
                if ((name === "setup" || name === "epoch") && to - from > 3) {
                    g.strokeStyle = colour("--edge");
                    g.lineWidth = 0.5;
                    g.strokeRect(this.left + left + 0.25, y + 0.25, right - left - 0.5, height - 0.5);
                }
            } else {
                const column = Math.min(columns - 1, Math.max(0, Math.floor(from)));
                busy[column] += Math.max(0.2, lane.busy[i] * per);
                thin = true;
            }
        }
        for (let i = 0; thin && i < columns; i++) {
            if (busy[i] > 0) {
                g.globalAlpha = Math.max(0.2, Math.min(1, busy[i]));
                g.fillRect(this.left + i, y, 1, height);
            }
        }
        g.globalAlpha = 1;
    }

    // What lies under the pointer.
    tell(share, y) {
        const [a, b] = this.view, t = a + share * (b - a);
        let text = share >= 0 ? `${t.toFixed(Math.max(0, Math.min(9, 3 - Math.floor(Math.log10(b - a)))))} s` : "";
        for (const s of this.strips || []) {
            const lanes = s.apart ? [s.row.lanes[Math.floor((y - s.y) / s.each)]] : s.row.lanes;
            if (y < s.y || y > s.y + s.each * (s.apart ? s.row.lanes.length : 1) || share < 0) {
                continue;
            }
            for (const lane of lanes) {
                for (let i = lane ? firstAfter(lane.reach, t) : Infinity; i < (lane ? lane.n : 0) && lane.start[i] <= t; i++) {
                    if (lane.end[i] >= t) {
                        const many = lane.count[i] > 1 ? `${lane.count[i]} close together, busy ${seconds(lane.busy[i])} of ` : "";
                        this.out.textContent = `${text}: ${s.row.name}, ${many}${seconds(lane.end[i] - lane.start[i])} from ${seconds(lane.start[i], 6)}`;
                        return;
                    }
                }
            }
            text += `: ${s.row.name}, idle`;
        }
        this.out.textContent = text;
    }
}
