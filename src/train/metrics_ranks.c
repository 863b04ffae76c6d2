/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of several ranks: sums and weights are added up, so that a mean is the one over all rows.
 * One process by itself has them already. */
#include <math.h>

#include <xxhash.h>

#include "train/trainer.h"

static bool is_epochs(const stk__metric_slot *slot, stk__metric_group group)
{
    return slot->key.group == group && (slot->flags & STK_ON_EPOCH);
}

static bool is_steps(const stk__metric_slot *slot, stk__metric_group group)
{
    return stk__metric_logs_step(slot);
}

typedef bool which_slots(const stk__metric_slot *slot, stk__metric_group group);

/* The ranks have to have logged the same names in the same order: their numbers are added up. */
static stk_status check_names(stk_trainer *t, which_slots *which, stk__metric_group group,
                              stk_error *err)
{
    uint64_t hash = 0;

    for (size_t i = 0; i < t->metrics.num_slots; i++) {
        const stk__metric_slot *slot = &t->metrics.slots[i];
        if (!which(slot, group))
            continue;
        const uint64_t numbers[] = {slot->flags, slot->key.dataloader_idx};
        hash = XXH3_64bits_withSeed(slot->key.name, strlen(slot->key.name), hash);
        hash = XXH3_64bits_withSeed(numbers, sizeof numbers, hash);
    }
    return stk__same_everywhere(t, hash, "have logged metrics of different names", err);
}

static stk_combine way_of(const stk__metric_slot *slot)
{
    return slot->flags & STK_REDUCE_MIN   ? STK_COMBINE_MIN
           : slot->flags & STK_REDUCE_MAX ? STK_COMBINE_MAX
                                          : STK_COMBINE_SUM;
}

/* all_sum and all_weight of the slots that go one way, which hold this rank's, become those of all.
 * A rank that has logged nothing does not take part in an extreme. */
static stk_status combine(stk_trainer *t, which_slots *which, stk__metric_group group,
                          stk_combine way, double *values, stk_error *err)
{
    const double nothing = way == STK_COMBINE_MIN   ? INFINITY
                           : way == STK_COMBINE_MAX ? -INFINITY
                                                    : 0;
    size_t n = 0;

    for (size_t i = 0; i < t->metrics.num_slots; i++) {
        const stk__metric_slot *slot = &t->metrics.slots[i];
        if (!which(slot, group) || way_of(slot) != way)
            continue;
        values[n++] = slot->all_weight > 0 ? slot->all_sum : nothing;
        values[n++] = way == STK_COMBINE_MIN ? -slot->all_weight : slot->all_weight;
    }
    STK_TRY(stk__reduce(t, values, n, way, err));
    n = 0;
    for (size_t i = 0; i < t->metrics.num_slots; i++) {
        stk__metric_slot *slot = &t->metrics.slots[i];
        if (!which(slot, group) || way_of(slot) != way)
            continue;
        slot->all_sum = values[n++];
        slot->all_weight = way == STK_COMBINE_MIN ? -values[n] : values[n];
        n++;
    }
    return STK_OK;
}

static stk_status combine_all(stk_trainer *t, which_slots *which, stk__metric_group group,
                              stk_error *err)
{
    static const stk_combine ways[] = {STK_COMBINE_SUM, STK_COMBINE_MIN, STK_COMBINE_MAX};
    double *values = stk__calloc(t->ctx, 2 * t->metrics.num_slots + 1, sizeof *values);
    stk_status status = STK_OK;

    if (!values)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN,
                         "no memory for the metrics of the ranks");
    status = check_names(t, which, group, err);
    for (size_t i = 0; i < STK_COUNT(ways) && status == STK_OK; i++)
        status = combine(t, which, group, ways[i], values, err);
    stk__free(t->ctx, values);
    return status;
}

stk_status stk__metrics_gather(stk_trainer *t, stk__metric_group group, stk_error *err)
{
    for (size_t i = 0; i < t->metrics.num_slots; i++) {
        stk__metric_slot *slot = &t->metrics.slots[i];
        if (slot->key.group != group)
            continue;
        STK_TRY(stk__metrics_fetch(t, slot, err));
        slot->all_sum = slot->sum;
        slot->all_weight = slot->weight;
    }
    return STK_OK;
}

stk_status stk__metrics_reduce(stk_trainer *t, stk__metric_group group, stk_error *err)
{
    STK_TRY(stk__metrics_gather(t, group, err));
    return stk__is_alone(t) ? STK_OK : combine_all(t, is_epochs, group, err);
}

stk_status stk__metrics_reduce_step(stk_trainer *t, stk_error *err)
{
    if (stk__is_alone(t))
        return STK_OK;
    for (size_t i = 0; i < t->metrics.num_slots; i++) {
        stk__metric_slot *slot = &t->metrics.slots[i];
        if (!stk__metric_logs_step(slot))
            continue;
        STK_TRY(stk__metrics_fetch(t, slot, err));
        const bool mean = !(slot->flags & (STK_REDUCE_SUM | STK_REDUCE_MIN | STK_REDUCE_MAX));
        slot->all_sum = mean ? slot->last * slot->last_weight : slot->last;
        slot->all_weight = slot->last_weight;
    }
    STK_TRY(combine_all(t, is_steps, STK__METRICS_TRAIN, err));
    for (size_t i = 0; i < t->metrics.num_slots; i++) {
        stk__metric_slot *slot = &t->metrics.slots[i];
        if (!stk__metric_logs_step(slot) || !(slot->all_weight > 0))
            continue;
        const bool mean = !(slot->flags & (STK_REDUCE_SUM | STK_REDUCE_MIN | STK_REDUCE_MAX));
        stk__metric_publish(t, slot->step, slot->plain,
                            mean ? slot->all_sum / slot->all_weight : slot->all_sum);
    }
    return STK_OK;
}
