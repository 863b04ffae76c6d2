/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the time of the batches that count went: each layer, the loss, the optimizer, and what is
 * around them, by the time each takes itself, as the table of key averages of PyTorch's profiler;
 * then the same by type, and what each reaches of the machine's peaks.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "train/profilers/profiler.h"

typedef struct row {
    const char *name, *kind;
    uint64_t own_ns, total_ns;
    stk_profile_pass passes[2];
    uint64_t left_out;
    size_t order, rows; /* `rows`: of a type */
} row;

static int compare(const void *a, const void *b)
{
    const row *x = a, *y = b;

    if (x->own_ns != y->own_ns)
        return x->own_ns < y->own_ns ? 1 : -1;
    return (x->order > y->order) - (x->order < y->order);
}

static void sort_rows(row *rows, size_t n)
{
    if (n)
        qsort(rows, n, sizeof *rows, compare);
}

static void add_pass(stk_profile_pass *to, const stk_profile_pass *from)
{
    to->calls += from->calls;
    to->ns += from->ns;
    to->flops += from->flops;
    to->bytes += from->bytes;
}

static row row_of(const stk__profile_layer *layer, size_t order)
{
    row r = {.name = layer->name, .kind = layer->kind, .order = order, .rows = 1};

    for (int way = 0; way < 2; way++) {
        r.passes[way] = layer->passes[way].pass;
        r.total_ns += layer->passes[way].pass.ns;
        r.left_out += layer->passes[way].left_out;
    }
    r.own_ns = r.total_ns;
    return r;
}

/* What is around the layers: a part of the batch without what has a row of its own. */
static row part_of(const stk_profile *p, stk_profile_part part, uint64_t inner_ns)
{
    static const char *const names[] = {[STK_PROFILE_DATA] = "waiting for data",
                                        [STK_PROFILE_FORWARD] = "forward",
                                        [STK_PROFILE_BACKWARD] = "backward",
                                        [STK_PROFILE_OTHER] = "all else"};
    const uint64_t ns = p->steady.ns[part];

    return (row){.name = names[part],
                 .kind = "-",
                 .own_ns = ns - STK_MIN(inner_ns, ns),
                 .total_ns = ns,
                 .passes = {{.calls = p->steady.batches}},
                 .left_out = p->steady.left_out,
                 .order = p->num_layers + (size_t)part};
}

/* Rows of layers, then of parts. */
static size_t gather(const stk_profile *p, row *rows)
{
    uint64_t inner[STK_PROFILE_PARTS] = {0};
    size_t n = 0;

    for (size_t i = 0; i < p->num_layers; i++) {
        const row r = row_of(&p->layers[i], i);
        if (i + 1 == p->num_layers)
            inner[STK_PROFILE_OTHER] = r.total_ns;
        inner[STK_PROFILE_FORWARD] += i + 1 < p->num_layers ? r.passes[0].ns : 0;
        inner[STK_PROFILE_BACKWARD] += r.passes[1].ns;
        if (r.passes[0].calls + r.passes[1].calls)
            rows[n++] = r;
    }
    for (int part = 0; part < STK_PROFILE_TOTAL; part++)
        if (p->steady.ns[part])
            rows[n++] = part_of(p, (stk_profile_part)part, inner[part]);
    return n;
}

/* Layers of one type as one row; behind them nothing. */
static size_t by_type(const row *rows, size_t n, row *types)
{
    size_t num = 0, k;

    for (size_t i = 0; i < n; i++) {
        if (rows[i].rows == 0)
            continue;
        for (k = 0; k < num && strcmp(types[k].kind, rows[i].kind) != 0; k++)
            continue;
        if (k == num)
            types[num++] = (row){.name = rows[i].kind, .kind = rows[i].kind, .order = k};
        types[k].rows++;
        types[k].own_ns += rows[i].own_ns;
        types[k].total_ns += rows[i].total_ns;
        types[k].left_out += rows[i].left_out;
        for (int way = 0; way < 2; way++)
            add_pass(&types[k].passes[way], &rows[i].passes[way]);
    }
    return num;
}

static double percent(const stk_profile *p, uint64_t ns)
{
    const uint64_t whole = p->steady.ns[STK_PROFILE_TOTAL];

    return whole ? 100 * (double)ns / (double)whole : 0;
}

static void put_mean(stk__text *out, uint64_t ns, uint64_t calls)
{
    if (calls && ns)
        stk__text_add(out, "  %11.2f", (double)ns * 1e-3 / (double)calls);
    else
        stk__text_add(out, "  %11s", "-");
}

static void put_row(const stk_profile *p, stk__text *out, const row *r)
{
    const uint64_t calls = r->passes[0].calls + r->passes[1].calls;

    stk__text_add(out, "  %10.3f  %6.2f  %10.3f  %7.2f  %7" PRIu64, (double)r->own_ns * 1e-6,
                  percent(p, r->own_ns), (double)r->total_ns * 1e-6, percent(p, r->total_ns),
                  calls);
    put_mean(out, r->total_ns, calls);
    put_mean(out, r->passes[0].ns, r->passes[0].calls);
    put_mean(out, r->passes[1].ns, r->passes[1].calls);
    stk__text_add(out, "  %8" PRIu64 "\n", r->left_out);
}

static void put_head(stk__text *out, int name, int kind, const char *what, const char *which)
{
    stk__text_add(out, "  %-*s  %-*s  %10s  %6s  %10s  %7s  %7s  %11s  %11s  %11s  %8s\n", name,
                  what, kind, which, "self ms", "self %", "total ms", "total %", "calls", "mean us",
                  "forward us", "backward us", "left out");
    for (int i = 0; i < name + kind + 109; i++)
        stk__text_add(out, i < 2 ? " " : "-");
    stk__text_add(out, "\n");
}

static void put_types(const stk_profile *p, stk__text *out, const row *types, size_t n)
{
    int kind = (int)strlen("type");

    for (size_t i = 0; i < n; i++)
        kind = STK_MAX(kind, (int)strlen(types[i].kind));
    stk__text_add(out, "\nBy type\n");
    put_head(out, kind, 6, "type", "layers");
    for (size_t i = 0; i < n; i++) {
        stk__text_add(out, "  %-*s  %6zu", kind, types[i].kind, types[i].rows);
        put_row(p, out, &types[i]);
    }
}

static void put_rows(const stk_profile *p, stk__text *out, const row *rows, size_t n)
{
    int name = (int)strlen("name"), kind = (int)strlen("type");

    for (size_t i = 0; i < n; i++) {
        name = STK_MAX(name, (int)strlen(rows[i].name));
        kind = STK_MAX(kind, (int)strlen(rows[i].kind));
    }
    stk__text_add(out,
                  "Layers, by the time each takes itself\n"
                  "  %" PRIu64 " batches. %" PRIu64
                  " are left out: those of the first steps (warmup_steps), and the first of each "
                  "number of rows.\n\n",
                  p->steady.batches, p->steady.left_out);
    if (n == 0) {
        stk__text_add(out, "  No batch is left; train more steps.\n");
        return;
    }
    put_head(out, name, kind, "name", "type");
    for (size_t i = 0; i < n; i++) {
        stk__text_add(out, "  %-*s  %-*s", name, rows[i].name, kind, rows[i].kind);
        put_row(p, out, &rows[i]);
    }
}

static void put_roof(stk__text *out, const stk_profile_roof *roof)
{
    if (!(roof->bytes_per_s > 0)) {
        stk__text_add(out, "  %8s  %7s  %7s  %6s", "-", "-", "-", "-");
        return;
    }
    if (roof->flops_per_s > 0)
        stk__text_add(out, "  %8.2f", roof->flops_per_s * 1e-9);
    else
        stk__text_add(out, "  %8s", "-");
    stk__text_add(out, "  %7.2f  %7s", roof->bytes_per_s * 1e-9,
                  stk_profile_bound_name(roof->bound));
    if (roof->bound)
        stk__text_add(out, "  %6.1f", 100 * roof->of_peak);
    else
        stk__text_add(out, "  %6s", "-");
}

/* In the order of computation. */
static void put_roofline(const stk_profile *p, stk__text *out)
{
    stk_profile_layer layer = {.struct_size = sizeof layer};
    int name = (int)strlen("name");

    for (size_t i = 0; i < p->num_layers; i++)
        name = STK_MAX(name, (int)strlen(p->layers[i].name));
    stk__text_add(out, "\nRates, and their share of what the machine reaches at most\n");
    if (p->peaks.flops_per_s > 0)
        stk__text_add(out,
                      "  Peaks at compute_threads %" PRIu32
                      ", %s: %.1f GFLOP/s, %.1f GB/s. A layer of fewer "
                      "than %.1f FLOP for each byte is bound by memory.\n",
                      p->peaks_key.threads, p->peaks_key.precision, p->peaks.flops_per_s * 1e-9,
                      p->peaks.bytes_per_s * 1e-9, p->peaks.flops_per_s / p->peaks.bytes_per_s);
    stk__text_add(out, "\n  %-*s  %8s  %7s  %7s  %6s  %8s  %7s  %7s  %6s\n", name, "name",
                  "GFLOP/s", "GB/s", "bound", "% of", "GFLOP/s", "GB/s", "bound", "% of");
    stk__text_add(out, "  %-*s  %8s  %7s  %7s  %6s  %8s  %7s  %7s  %6s\n", name, "", "forward", "",
                  "", "peak", "backward", "", "", "peak");
    for (int i = 0; i < name + 74; i++)
        stk__text_add(out, i < 2 ? " " : "-");
    stk__text_add(out, "\n");
    for (size_t i = 0; stk_profile_get_layer(p, i, &layer); i++) {
        if (layer.forward.calls + layer.backward.calls == 0)
            continue;
        stk__text_add(out, "  %-*s", name, layer.name);
        put_roof(out, &layer.forward_roof);
        put_roof(out, &layer.backward_roof);
        stk__text_add(out, "\n");
    }
}

void stk__profile_table(const stk_profile *p, stk__text *out)
{
    const size_t room = p->num_layers + STK_PROFILE_PARTS;

    if (p->num_layers == 0)
        return;
    row *rows = stk__calloc(p->ctx, 2 * room, sizeof *rows);
    out->failed = out->failed || !rows;
    if (!rows)
        return;
    row *types = rows + room;
    const size_t n = gather(p, rows), num = by_type(rows, n, types);
    sort_rows(rows, n);
    sort_rows(types, num);
    put_rows(p, out, rows, n);
    if (num) {
        put_types(p, out, types, num);
        put_roofline(p, out);
    }
    stk__text_add(out, "\n");
    stk__free(p->ctx, rows);
}

stk_status stk_profile_sort_layers(const stk_profile *p, size_t *order, size_t room, size_t *count,
                                   stk_error *err)
{
    *count = 0;
    STK_TRY(stk__context_check(p->ctx, err));
    row *rows = stk__calloc(p->ctx, p->num_layers + STK_PROFILE_PARTS, sizeof *rows);
    if (!rows)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory to sort the layers");
    const size_t n = gather(p, rows);
    sort_rows(rows, n);
    for (size_t i = 0; i < n && *count < room; i++)
        if (rows[i].order < p->num_layers)
            order[(*count)++] = rows[i].order;
    stk__free(p->ctx, rows);
    return STK_OK;
}
