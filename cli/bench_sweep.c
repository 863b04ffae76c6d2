/* SPDX-License-Identifier: Apache-2.0 */
/* What the settings of a sweep say together: of each option, what its values gave while all others
 * stayed. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "table.h"

static bool measured(const struct bench_row *row)
{
    return row->ended && row->sum.figures.steps > 0 && !row->setting->free_data;
}

static void put_rate(const struct bench_row *row, stk_sweep_point *point)
{
    point->samples_per_s = row->sum.figures.samples_per_s;
    point->least = row->least;
    point->most = row->most;
}

/*
 * The one option that two settings differ in, as the second has it: their labels are "NAME=VALUE"
 * of the options that vary. False where there is none, or several, or it cannot be told.
 */
static bool differs_in_one(const char *a, const char *b, stk_sweep_point *point)
{
    bool found = false;

    while (*a || *b) {
        const size_t na = strcspn(a, " "), nb = strcspn(b, " ");
        if (na != nb || memcmp(a, b, na) != 0) {
            const size_t name = strcspn(b, "=");
            if (found || name >= nb || nb - name > sizeof point->value ||
                name >= sizeof point->knob || strncmp(a, b, name + 1) != 0)
                return false;
            snprintf(point->knob, sizeof point->knob, "%.*s", (int)name, b);
            snprintf(point->value, sizeof point->value, "%.*s", (int)(nb - name - 1), b + name + 1);
            found = true;
        }
        a += na + (a[na] == ' ');
        b += nb + (b[nb] == ' ');
    }
    return found;
}

/* Row `k` as a point beside row `i`. */
static bool point_beside(const struct bench_row *rows, size_t i, size_t k, stk_sweep_point *point)
{
    const char *a = rows[i].setting->label, *b = rows[k].setting->label;

    if (i == k || !measured(&rows[k]) || strlen(a) == BENCH_LABEL - 1 ||
        strlen(b) == BENCH_LABEL - 1 || !differs_in_one(a, b, point))
        return false;
    /* "auto" is what came of it. */
    if (strcmp(point->knob, "num_workers") == 0)
        snprintf(point->value, sizeof point->value, "%" PRId64, rows[k].judged.num_workers);
    put_rate(&rows[k], point);
    return true;
}

void bench_judge(const struct bench_row *rows, size_t n, size_t i, stk_verdict *out)
{
    stk_sweep_point self = {.knob = ""}, *others = calloc(n, sizeof *others);
    size_t used = 0;

    put_rate(&rows[i], &self);
    for (size_t k = 0; k < n && others; k++)
        used += point_beside(rows, i, k, &others[used]);
    stk_judge_sweep(&rows[i].judged, &self, others, used, out);
    free(others);
}

bool bench_alike(const struct bench_row *a, const struct bench_row *b)
{
    stk_sweep_point first, second;

    put_rate(a, &first);
    put_rate(b, &second);
    return stk_sweep_alike(&first, &second);
}

static int by_value(const void *a, const void *b)
{
    const double x = strtod(((const stk_sweep_point *)a)->value, NULL),
                 y = strtod(((const stk_sweep_point *)b)->value, NULL);

    return x < y ? -1 : x > y;
}

static void print_knob(FILE *out, size_t width, stk_sweep_point *points, size_t n)
{
    char text[512];

    qsort(points, n, sizeof *points, by_value);
    const size_t from = stk_sweep_saturation(points, n);
    if (from == n)
        return;
    int used = snprintf(text, sizeof text, "No gain from %s %s on:", points[from].knob,
                        points[from].value);
    for (size_t i = from; i < n && (size_t)used < sizeof text; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s %.0f samples/s with %s",
                         i > from ? "," : "", points[i].samples_per_s, points[i].value);
    if ((size_t)used < sizeof text)
        snprintf(text + used, sizeof text - (size_t)used, ".");
    cli_paragraph(out, width, 0, text);
}

/* A number that the best setting has in the place of another's. */
static bool own_value(const struct bench_row *rows, size_t best, size_t other,
                      stk_sweep_point *point)
{
    char *end;

    if (!point_beside(rows, other, best, point))
        return false;
    (void)strtod(point->value, &end);
    return end != point->value && !*end;
}

/* Whether the point behind `n` others has a value that none of them has: what "auto" became may
 * have been asked for, too. */
static bool is_new(const stk_sweep_point *points, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(points[i].value, points[n].value) == 0)
            return false;
    return true;
}

void bench_sweep_print(FILE *out, size_t width, const struct bench_row *rows, size_t n,
                       const struct bench_row *best)
{
    const size_t b = (size_t)(best - rows);
    stk_sweep_point *points = calloc(n + 1, sizeof *points), own;
    char said[256] = " ";

    for (size_t i = 0; i < n && points; i++) {
        size_t used = 0;
        char name[40];
        if (!measured(&rows[i]) || !own_value(rows, b, i, &own))
            continue;
        snprintf(name, sizeof name, " %s ", own.knob);
        if (strstr(said, name) || strlen(said) + strlen(name) >= sizeof said)
            continue;
        snprintf(said + strlen(said), sizeof said - strlen(said), "%s", name);
        points[used++] = own;
        for (size_t k = 0; k < n; k++)
            if (point_beside(rows, b, k, &points[used]) &&
                strcmp(points[used].knob, own.knob) == 0 && is_new(points, used))
                used++;
        print_knob(out, width, points, used);
    }
    free(points);
}
