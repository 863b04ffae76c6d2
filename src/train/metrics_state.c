/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics in a checkpoint: means that are half done go on where they were. */
#include <inttypes.h>
#include <stdio.h>

#include "train/trainer.h"
#define ALL_FLAGS                                                                                  \
    (STK_ON_STEP | STK_ON_EPOCH | STK_PROG_BAR | STK_NO_LOGGER | STK_REDUCE_SUM | STK_REDUCE_MIN | \
     STK_REDUCE_MAX)

static uint64_t bits_of(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* What the step logged: of all ranks, where they have put it together. */
static double last_of(const stk_trainer *t, const stk__metric_slot *slot)
{
    return stk__is_alone(t) || !(slot->flags & STK_ON_STEP)
               ? slot->last
               : atomic_load(&t->metrics.items[slot->step]->value);
}

void stk__metrics_write(const stk_trainer *t, stk__text *text)
{
    const stk__metrics *m = &t->metrics;

    for (size_t i = 0; i < m->num_slots; i++) {
        const stk__metric_slot *s = &m->slots[i];
        if (s->key.group == STK__METRICS_TRAIN && (s->all_weight > 0 || s->fresh))
            stk__text_add(text,
                          "slot %" PRIu32 " %d %016" PRIx64 " %016" PRIx64 " %016" PRIx64 " %s\n",
                          s->flags, s->fresh, bits_of(last_of(t, s)), bits_of(s->all_sum),
                          bits_of(s->all_weight), s->key.name);
    }
    for (size_t i = 0; i < m->num_items; i++)
        if (atomic_load(&m->items[i]->set))
            stk__text_add(text, "value %d %016" PRIx64 " %s\n", m->items[i]->prog_bar,
                          bits_of(atomic_load(&m->items[i]->value)), m->items[i]->name);
}

static stk_status damaged(const char *value, stk_error *err)
{
    return stk__fail(err, STK_EFORMAT, STK_STAGE_TRAIN,
                     "the metrics of the checkpoint cannot be read at \"%.40s\"", value);
}

static bool take_flag(const char **at, bool *out)
{
    *out = **at == '1';
    return (stk__take(at, '0') || stk__take(at, '1')) && stk__take(at, ' ');
}

stk_status stk__metrics_read_slot(void *trainer, const char *value, stk_error *err)
{
    stk_trainer *t = trainer;
    stk__metric_slot *slot;
    const char *at = value;
    double last, sum, weight;
    uint64_t flags;
    bool fresh;

    if (!stk__take_uint(&at, &flags) || (flags & ~(uint64_t)ALL_FLAGS) || !stk__take(&at, ' ') ||
        !take_flag(&at, &fresh) || !stk__take_double(&at, &last) || !stk__take(&at, ' ') ||
        !stk__take_double(&at, &sum) || !stk__take(&at, ' ') || !stk__take_double(&at, &weight) ||
        !stk__take(&at, ' ') || !*at || !(weight >= 0))
        return damaged(value, err);
    STK_TRY(stk__metrics_slot(t, at, (uint32_t)flags, &slot, err));
    slot->last = last;
    slot->sum = sum;
    slot->weight = weight;
    slot->fresh = fresh;
    slot->last_weight = fresh;
    /* The name is the text's, which goes. */
    slot->key.pointer = NULL;
    return STK_OK;
}

stk_status stk__metrics_read_value(void *trainer, const char *value, stk_error *err)
{
    const char *at = value;
    double number;
    bool prog_bar;

    if (!take_flag(&at, &prog_bar) || !stk__take_double(&at, &number) || !stk__take(&at, ' ') ||
        !*at)
        return damaged(value, err);
    return stk__metric_set(trainer, at, number, prog_bar, err);
}

void stk__metrics_leave_to_first(stk__metrics *m)
{
    for (size_t i = 0; i < m->num_slots; i++)
        if (m->slots[i].key.group == STK__METRICS_TRAIN)
            m->slots[i].sum = m->slots[i].weight = m->slots[i].last_weight = 0;
}
