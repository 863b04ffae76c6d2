/* SPDX-License-Identifier: Apache-2.0 */
/* Runs -> settings, and one setting against another. */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_REPEATS 1000
#define SAME        1.005 /* factors below are said to be none */

static bool same_text(const char *a, const char *b)
{
    return (!a && !b) || (a && b && strcmp(a, b) == 0);
}

static bool same_setting(const stk_report_run *a, const stk_report_run *b)
{
    return a->file == b->file && a->published == b->published && same_text(a->label, b->label) &&
           (*a->label || same_text(a->data_params, b->data_params));
}

static const stk_report_run *run_at(const struct report_view *view, uint64_t i)
{
    return stk_report_run_at(view->report, i);
}

/* Of several ranks the first stands for all: their steps are in step. */
static bool counts(const stk_report_run *run)
{
    return run->rank <= 0;
}

static struct report_group *group_of(struct report_view *view, const stk_report_run *run)
{
    for (uint64_t i = 0; i < view->num_groups; i++)
        if (same_setting(run_at(view, view->groups[i].runs[0]), run))
            return &view->groups[i];
    return NULL;
}

static double rate_of(const stk_report_run *run)
{
    return isfinite(run->samples_per_s) ? run->samples_per_s : run->steps_per_s;
}

static void add(double *sum, double value, uint64_t count)
{
    *sum += value / (double)count;
}

static void average(const struct report_view *view, struct report_group *g)
{
    for (uint64_t i = 0; i < g->count; i++) {
        const stk_report_run *run = run_at(view, g->runs[i]);
        add(&g->wait, run->wait.mean, g->count);
        add(&g->per_step, run->seconds_per_step, g->count);
        add(&g->total, run->total, g->count);
        add(&g->rate, rate_of(run), g->count);
        add(&g->busy, run->busy_share, g->count);
    }
}

/* qsort() has no room for the groups; the command sorts once, in one thread. */
static const struct report_group *sorted;

static int by_wait(const void *a, const void *b)
{
    uint64_t i = *(const uint64_t *)a, k = *(const uint64_t *)b;
    double x = sorted[i].wait, y = sorted[k].wait;

    return x < y ? -1 : x > y ? 1 : i < k ? -1 : i > k;
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

typedef double figure_fn(const stk_report_run *run);

static double figure_per_step(const stk_report_run *run)
{
    return run->seconds_per_step;
}

static double figure_wait(const stk_report_run *run)
{
    return run->wait.mean;
}

static double figure_total(const stk_report_run *run)
{
    return run->total;
}

static void compare(const struct report_view *view, const struct report_pair *pair,
                    figure_fn *figure, stk_ratio *out)
{
    double a[MAX_REPEATS], b[MAX_REPEATS];
    uint64_t n_a = 0, n_b = 0;

    for (; n_a < pair->a->count && n_a < MAX_REPEATS; n_a++)
        a[n_a] = figure(run_at(view, pair->a->runs[n_a]));
    for (; n_b < pair->b->count && n_b < MAX_REPEATS; n_b++)
        b[n_b] = figure(run_at(view, pair->b->runs[n_b]));
    stk_ratio_of(a, n_a, b, n_b, out);
}

static void describe(const struct report_view *view, struct report_pair *pair)
{
    const stk_ratio *r = &pair->per_step;
    char range[96] = "", *text = pair->text;
    size_t size = sizeof pair->text;
    const char *faster = r->ratio < 1 ? "faster" : "slower";
    double factor = r->ratio < 1 ? 1 / r->ratio : r->ratio;
    double low = r->ratio < 1 ? 1 / r->high : r->low, high = r->ratio < 1 ? 1 / r->low : r->high;
    const char *from = pair->a->name, *to = pair->b->name;
    char than[2 * REPORT_NAME + 64];

    if (!isfinite(r->ratio)) {
        snprintf(text, size, "%s and %s cannot be compared: one of them has no measured step.", to,
                 from);
        return;
    }
    if (isfinite(low))
        snprintf(range, sizeof range, ", 95 %% interval %.3g to %.3g", low, high);
    if (factor < SAME)
        snprintf(than, sizeof than, "%s takes the time of %s", to, from);
    else
        snprintf(than, sizeof than, "%s is %.3gx %s than %s", to, factor, faster, from);
    int used = snprintf(text, size,
                        "%s by the time of a step with its wait (epochs only%s). The whole run "
                        "with its setup: %.3gx the time; mean wait: %.3gx.",
                        than, range, pair->total.ratio, pair->wait.ratio);
    if (used < 0 || (size_t)used >= size)
        return;
    if (r->sureness == STK_SURE_RUNS)
        snprintf(text + used, size - (size_t)used,
                 " From %llu and %llu runs (Welch's test on logarithms, p = %.2g): the difference "
                 "%s.",
                 (unsigned long long)r->n_a, (unsigned long long)r->n_b, r->p,
                 r->real ? "is real" : "may be chance");
    else if (r->sureness == STK_SURE_WITHIN)
        snprintf(text + used, size - (size_t)used,
                 " From one run each: the interval is that of %llu and %llu blocks of steps within "
                 "them (the difference %s there) and says nothing of how runs differ; repeat them "
                 "(--repeat 5).",
                 (unsigned long long)r->n_a, (unsigned long long)r->n_b,
                 r->real ? "is real" : "may be chance");
    else
        snprintf(text + used, size - (size_t)used,
                 " Too few runs and steps for an interval: repeat them (--repeat 5).");
}

static void add_pair(struct report_view *view, const struct report_group *a,
                     const struct report_group *b)
{
    struct report_pair *pair = &view->pairs[view->num_pairs++];

    *pair = (struct report_pair){.a = a,
                                 .b = b,
                                 .per_step = {.struct_size = sizeof pair->per_step},
                                 .wait = {.struct_size = sizeof pair->wait},
                                 .total = {.struct_size = sizeof pair->total}};
    compare(view, pair, figure_per_step, &pair->per_step);
    compare(view, pair, figure_wait, &pair->wait);
    compare(view, pair, figure_total, &pair->total);
    if (a->count == 1 && b->count == 1)
        stk_ratio_within(run_at(view, a->runs[0]), run_at(view, b->runs[0]), &pair->per_step);
    describe(view, pair);
}

static uint64_t groups_of_file(const struct report_view *view, uint64_t file)
{
    uint64_t n = 0;

    for (uint64_t i = 0; i < view->num_groups; i++)
        n += view->groups[i].file == file;
    return n;
}

static const struct report_group *match(const struct report_view *view,
                                        const struct report_group *b)
{
    bool single = groups_of_file(view, 0) == 1 && groups_of_file(view, b->file) == 1;
    const char *label = run_at(view, b->runs[0])->label;

    for (uint64_t i = 0; i < view->num_groups && view->groups[i].file == 0; i++)
        if (single || strcmp(run_at(view, view->groups[i].runs[0])->label, label) == 0)
            return &view->groups[i];
    return NULL;
}

static void make_pairs(struct report_view *view)
{
    for (uint64_t i = 1; i < view->num_groups; i++) {
        const struct report_group *b = &view->groups[i];
        if (view->files == 1) {
            add_pair(view, &view->groups[0], b);
        } else if (b->file > 0) {
            const struct report_group *a = match(view, b);
            if (a)
                add_pair(view, a, b);
            else
                view->unmatched++;
        }
    }
}

static void name_groups(struct report_view *view)
{
    for (uint64_t i = 0; i < view->num_groups; i++) {
        struct report_group *g = &view->groups[i];
        report_run_name(view, g->runs[0], g->name, sizeof g->name);
        /* Repeated runs without a label: the log's name, not that of its first run. */
        char *number = strrchr(g->name, '#');
        if (g->count > 1 && !*run_at(view, g->runs[0])->label && number && number > g->name)
            number[-1] = 0;
    }
}

int report_group_runs(struct report_view *view)
{
    view->runs = stk_report_runs(view->report);
    view->files = stk_report_files(view->report);
    view->groups = calloc(view->runs, sizeof *view->groups);
    view->pairs = calloc(view->runs, sizeof *view->pairs);
    view->by_wait = calloc(view->runs, sizeof *view->by_wait);
    if (!view->groups || !view->pairs || !view->by_wait)
        goto no_memory;
    for (uint64_t i = 0; i < view->runs; i++) {
        const stk_report_run *run = run_at(view, i);
        if (!counts(run))
            continue;
        struct report_group *g = group_of(view, run);
        if (!g) {
            g = &view->groups[view->num_groups];
            g->runs = calloc(view->runs - i, sizeof *g->runs);
            if (!g->runs)
                goto no_memory;
            g->file = run->file;
            view->by_wait[view->num_groups] = view->num_groups;
            view->num_groups++;
        }
        g->runs[g->count++] = i;
    }
    name_groups(view);
    for (uint64_t i = 0; i < view->num_groups; i++)
        average(view, &view->groups[i]);
    sorted = view->groups;
    qsort(view->by_wait, view->num_groups, sizeof *view->by_wait, by_wait);
    if (!report_ladder_make(view))
        goto no_memory;
    make_pairs(view);
    return CLI_GO_ON;
no_memory:
    cli_error("no memory for the runs of the logs");
    return CLI_FAILED;
}

void report_free(struct report_view *view)
{
    for (uint64_t i = 0; view->groups && i < view->num_groups; i++)
        free(view->groups[i].runs);
    free(view->groups);
    free(view->pairs);
    free(view->by_wait);
    free(view->rungs);
}
