/* SPDX-License-Identifier: Apache-2.0 */
/* Runs against those of the baseline: how much faster, and whether a training came to the same. */
#include <math.h>

#include "bench/plan.h"

void stk__bench_pair(const stk_bench_plan *plan, size_t i, size_t k, stk_spread *out)
{
    const stk__bench_planned *mine = &plan->settings[i], *other = &plan->settings[k];
    const size_t n = STK_MIN(mine->num_runs, other->num_runs);
    double *ratios = stk__calloc(plan->ctx, n + 1, sizeof *ratios);
    uint64_t used = 0;

    for (size_t r = 0; r < n && ratios; r++)
        if (stk__bench_ended_well(&mine->runs[r]) && stk__bench_ended_well(&other->runs[r]) &&
            stk__bench_speed(&other->runs[r]) > 0)
            ratios[used++] = stk__bench_speed(&mine->runs[r]) / stk__bench_speed(&other->runs[r]);
    *out = (stk_spread){0};
    if (used)
        stk_spread_of(ratios, used, out);
    stk__free(plan->ctx, ratios);
}

void stk__bench_pair_runs(const stk_bench_plan *plan, size_t i, stk_bench_row *row)
{
    const size_t base = stk__bench_baseline(plan);
    stk_spread spread;

    if (base == STK_BENCH_NONE || plan->settings[i].setting.free_data)
        return;
    stk__bench_pair(plan, i, base, &spread);
    if (!spread.n)
        return;
    row->pairs = spread.n;
    row->speed_up = spread.p50;
    row->speed_up_least = spread.min;
    row->speed_up_most = spread.max;
    row->sureness = 1 - exp2(1 - (double)spread.n);
}

/* In the epochs that both have, of those that are kept: a training may end early. */
static bool same_losses(const stk_bench_training *a, const stk_bench_training *b)
{
    const uint64_t n = STK_MIN(STK_MIN(a->epochs, b->epochs), (uint64_t)STK_BENCH_EPOCHS);
    const bool same_last =
        a->epochs != b->epochs || memcmp(&a->last_loss, &b->last_loss, sizeof a->last_loss) == 0;

    return same_last && memcmp(a->loss, b->loss, n * sizeof *a->loss) == 0;
}

/* The first run of a setting that ended well; NULL: none was a training. */
static const stk_bench_training *first_of(const stk__bench_planned *setting)
{
    for (size_t k = 0; k < setting->num_runs; k++)
        if (stk__bench_ended_well(&setting->runs[k]) &&
            setting->runs[k].result.training.seconds > 0)
            return &setting->runs[k].result.training;
    return NULL;
}

bool stk__bench_same_training(const stk_bench_plan *plan, size_t i, size_t other)
{
    const stk_bench_training *a = first_of(&plan->settings[i]),
                             *b = first_of(&plan->settings[other]);

    return a && b && a->epochs == b->epochs && same_losses(a, b);
}

/* What the losses of setting `i` are compared with: of a rung, those of the one before that came to
 * some; else those of the baseline. */
static const stk_bench_training *reference(const stk_bench_plan *plan, size_t i)
{
    const size_t base = stk__bench_baseline(plan);
    const stk_bench_training *found = NULL;

    if (!plan->settings[i].setting.rung)
        return base == STK_BENCH_NONE ? NULL : first_of(&plan->settings[base]);
    while (i-- > 0 && !found)
        found = first_of(&plan->settings[i]);
    return found;
}

void stk__bench_compare_losses(const stk_bench_plan *plan, size_t i, stk_bench_row *row)
{
    const stk__bench_planned *s = &plan->settings[i];
    const stk_bench_training *first = first_of(s), *wanted = reference(plan, i);

    for (size_t k = 0; k < s->num_runs && first; k++) {
        if (!stk__bench_ended_well(&s->runs[k]))
            continue;
        row->uneven |= !same_losses(first, &s->runs[k].result.training);
        row->other_losses |= wanted && !same_losses(wanted, &s->runs[k].result.training);
    }
}
