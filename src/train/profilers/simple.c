/* SPDX-License-Identifier: Apache-2.0 */
/* The simple profiler's table, as Lightning's [lightning/pytorch/profilers/simple.py]. */
#include "train/profilers/profiler.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* As %g with at least one digit behind the point, and an exponent from 1e4 on. */
void stk__profile_number(double value, char text[32])
{
    snprintf(text, 32, "%.5g", value);
    if (!isfinite(value) || strchr(text, 'e'))
        return;
    if (fabs(strtod(text, NULL)) < 1e4) {
        if (!strchr(text, '.'))
            strncat(text, ".0", 31 - strlen(text));
        return;
    }
    snprintf(text, 32, "%.4e", value);
    char *exponent = strchr(text, 'e'), *end = exponent;
    while (end[-1] == '0')
        end--;
    if (end[-1] == '.')
        end--;
    memmove(end, exponent, strlen(exponent) + 1);
}

typedef struct row {
    const stk__profile_entry *entry;
    double mean, total;
    size_t order; /* equal ones stay in the order of their first calls */
    bool extended;
} row;

static int compare(const void *a, const void *b)
{
    const row *x = a, *y = b;
    const double left = x->extended ? x->total : x->mean, right = y->extended ? y->total : y->mean;

    if (left != right)
        return left < right ? 1 : -1;
    return (x->order > y->order) - (x->order < y->order);
}

/* Characters, not bytes. */
static int width_of(const char *text)
{
    int width = 0;

    for (; *text; text++)
        width += (*text & 0xc0) != 0x80;
    return width;
}

static void put_cell(stk__text *out, const char *text, int width)
{
    const int pad = width - width_of(text);

    stk__text_add(out, "|  %s%*s\t", text, pad > 0 ? pad : 0, "");
}

static void put_row(stk__text *out, int width, const char *const *cells, size_t n)
{
    stk__text_add(out, "\n");
    for (size_t i = 0; i < n; i++)
        put_cell(out, cells[i], i ? 15 : width);
    stk__text_add(out, "|");
}

/* Dashes as wide as a row with its tabs. */
static void put_dashes(stk__text *out, int width, size_t n)
{
    int column = 0;

    for (size_t i = 0; i < n; i++) {
        column += 3 + (i ? 15 : width);
        column += 8 - column % 8;
    }
    stk__text_add(out, "\n");
    for (int i = 0; i < column + 2; i++) /* the last bar, and the line end, which is counted too */
        stk__text_add(out, "-");
}

static void put_head(stk__text *out, int width, const char *const *cells, size_t n)
{
    put_dashes(out, width, n);
    put_row(out, width, cells, n);
    put_dashes(out, width, n);
}

static void put_extended(const stk_profile *p, stk__text *out, const row *rows, size_t n, int width)
{
    static const char *const head[] = {"Action", "Mean duration (s)", "Num calls", "Total time (s)",
                                       "Percentage %"};
    const double span = (double)stk__profile_span(p) * 1e-9;
    char mean[32], calls[32], total[32], share[32];
    uint64_t sum = 0;

    put_head(out, width, head, STK_COUNT(head));
    for (size_t i = 0; i < n; i++)
        sum += rows[i].entry->calls;
    snprintf(calls, sizeof calls, "%" PRIu64, sum);
    stk__profile_number(span, total);
    put_row(out, width, (const char *const[]){"Total", "-", calls, total, "100 %"}, 5);
    put_dashes(out, width, STK_COUNT(head));
    for (size_t i = 0; i < n; i++) {
        stk__profile_number(rows[i].mean, mean);
        snprintf(calls, sizeof calls, "%" PRIu64, rows[i].entry->calls);
        stk__profile_number(rows[i].total, total);
        stk__profile_number(span > 0 ? 100 * rows[i].total / span : 0, share);
        put_row(out, width, (const char *const[]){rows[i].entry->name, mean, calls, total, share},
                5);
    }
    put_dashes(out, width, STK_COUNT(head));
}

static void put_short(stk__text *out, const row *rows, size_t n, int width)
{
    static const char *const head[] = {"Action", "Mean duration (s)", "Total time (s)"};
    char mean[32], total[32];

    put_head(out, width, head, STK_COUNT(head));
    for (size_t i = 0; i < n; i++) {
        stk__profile_number(rows[i].mean, mean);
        stk__profile_number(rows[i].total, total);
        put_row(out, width, (const char *const[]){rows[i].entry->name, mean, total}, 3);
    }
    put_dashes(out, width, STK_COUNT(head));
}

void stk__profile_simple(const stk_profile *p, stk__text *out)
{
    row *rows = stk__calloc(p->ctx, p->num_entries + 1, sizeof *rows);
    size_t n = 0;
    int width = (int)strlen("Action");

    out->failed = out->failed || !rows;
    stk__text_add(out, "%s Profiler Report\n", stk__profile_stage(p, true));
    for (size_t i = 0; rows && i < p->num_entries; i++) {
        const stk__profile_entry *entry = &p->entries[i];
        if (entry->layer || entry->calls == 0)
            continue;
        const double total = (double)entry->total_ns * 1e-9;
        rows[n++] = (row){.entry = entry,
                          .mean = total / (double)entry->calls,
                          .total = total,
                          .order = i,
                          .extended = p->options.extended};
        width = STK_MAX(width, width_of(entry->name));
    }
    if (n) {
        qsort(rows, n, sizeof *rows, compare);
        if (p->options.extended)
            put_extended(p, out, rows, n, width);
        else
            put_short(out, rows, n, width);
    }
    stk__text_add(out, "\n");
    stk__profile_table(p, out);
    stk__free(p->ctx, rows);
}
