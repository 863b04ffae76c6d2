/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The advanced profiler: below each action a table of all that was called in it, laid out as
 * Lightning's and Python's [lightning/pytorch/profilers/advanced.py, pstats.py]; then the layers.
 * What is called there is a call or a layer, and is in braces as Python's functions without a
 * file do. Columns are as wide as Python's; their digits are as many as fit.
 */
#include "train/profilers/profiler.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct row {
    uint32_t entry;
    uint64_t calls, own_ns, total_ns;
} row;

static int compare(const void *a, const void *b)
{
    const row *x = a, *y = b;

    if (x->total_ns != y->total_ns)
        return x->total_ns < y->total_ns ? 1 : -1;
    return (x->entry > y->entry) - (x->entry < y->entry);
}

static bool is_below(const stk_profile *p, uint32_t call, uint32_t entry)
{
    for (; call; call = p->calls[call].parent)
        if (p->calls[call].entry == entry)
            return true;
    return false;
}

/* Seconds in eight columns. */
static void put_seconds(stk__text *out, double seconds)
{
    stk__text_add(out, " %8.*f",
                  seconds < 10     ? 6
                  : seconds < 100  ? 5
                  : seconds < 1000 ? 4
                                   : 3,
                  seconds);
}

static void put_row(const stk_profile *p, stk__text *out, const row *r)
{
    const double own = (double)r->own_ns * 1e-9, total = (double)r->total_ns * 1e-9;
    const double calls = (double)r->calls;

    stk__text_add(out, "%9" PRIu64, r->calls);
    put_seconds(out, own);
    put_seconds(out, own / calls);
    put_seconds(out, total);
    put_seconds(out, total / calls);
    stk__text_add(out, " {%s}\n", p->entries[r->entry].name);
}

/* Rows that the option leaves: Python's rule. */
static size_t restricted(double restriction, size_t n)
{
    if (restriction <= 1)
        return (size_t)((double)n * restriction + 0.5);
    return restriction < (double)n ? (size_t)restriction : n;
}

/* What was called in an action, itself included; calls and time of all together. */
static size_t gather(const stk_profile *p, uint32_t entry, row *rows, uint32_t *places,
                     uint64_t *calls, uint64_t *ns)
{
    size_t n = 0;

    memset(places, 0xff, p->num_entries * sizeof *places);
    *calls = *ns = 0;
    for (uint32_t i = 1; i < p->num_calls; i++) {
        const stk__profile_call *c = &p->calls[i];
        if (c->calls == 0 || !is_below(p, i, entry))
            continue;
        if (places[c->entry] == UINT32_MAX) {
            places[c->entry] = (uint32_t)n;
            rows[n++] = (row){.entry = c->entry};
        }
        row *r = &rows[places[c->entry]];
        const uint64_t own = c->total_ns - STK_MIN(c->inner_ns, c->total_ns);
        r->calls += c->calls;
        r->total_ns += c->total_ns;
        r->own_ns += own;
        *calls += c->calls;
        *ns += own;
    }
    return n;
}

static void put_action(const stk_profile *p, stk__text *out, uint32_t entry, row *rows,
                       uint32_t *places)
{
    const double restriction = p->options.line_count_restriction;
    uint64_t calls, ns;
    const size_t n = gather(p, entry, rows, places, &calls, &ns);
    const size_t shown = restricted(restriction, n);

    qsort(rows, n, sizeof *rows, compare);
    stk__text_add(out, "Profile stats for: %s rank: %" PRIu64 "\n", p->entries[entry].name,
                  stk__profile_rank(p));
    stk__text_add(out, "         %" PRIu64 " function calls in %.6f seconds\n\n", calls,
                  (double)ns * 1e-9);
    stk__text_add(out, "   Ordered by: cumulative time\n");
    if (shown < n)
        stk__text_add(out, "   List reduced from %zu to %zu due to restriction <%g>\n", n, shown,
                      restriction);
    stk__text_add(out, "\n");
    if (shown)
        stk__text_add(out, "   ncalls  tottime  percall  cumtime  percall "
                           "filename:lineno(function)\n");
    for (size_t i = 0; i < shown; i++)
        put_row(p, out, &rows[i]);
    stk__text_add(out, "\n\n");
}

void stk__profile_advanced(const stk_profile *p, stk__text *out)
{
    row *rows = stk__calloc(p->ctx, p->num_entries + 1, sizeof *rows);
    uint32_t *places = stk__calloc(p->ctx, p->num_entries + 1, sizeof *places);

    out->failed = out->failed || !rows || !places;
    stk__text_add(out, "%s Profiler Report\n", stk__profile_stage(p, true));
    for (size_t i = 0; rows && places && i < p->num_entries; i++)
        if (p->entries[i].calls && !p->entries[i].layer)
            put_action(p, out, (uint32_t)i, rows, places);
    stk__profile_table(p, out);
    stk__free(p->ctx, rows);
    stk__free(p->ctx, places);
}
