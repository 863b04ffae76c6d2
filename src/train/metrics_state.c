/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics in a checkpoint: means that are half done go on where they were. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "train/train.h"

static uint64_t bits_of(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

void stk__metrics_write(stk_trainer *t, stk__text *text)
{
    const stk__metrics *m = &t->metrics;

    for (size_t i = 0; i < m->num_slots; i++) {
        const stk__metric_slot *s = &m->slots[i];
        if (s->key.group == STK__METRICS_TRAIN && (s->weight > 0 || s->fresh))
            stk__text_add(text,
                          "slot %" PRIu32 " %d %016" PRIx64 " %016" PRIx64 " %016" PRIx64 " %s\n",
                          s->flags, s->fresh, bits_of(s->last), bits_of(s->sum), bits_of(s->weight),
                          s->key.name);
    }
    for (size_t i = 0; i < m->num_items; i++)
        if (atomic_load(&m->items[i]->set))
            stk__text_add(text, "value %d %016" PRIx64 " %s\n", m->items[i]->prog_bar,
                          bits_of(atomic_load(&m->items[i]->value)), m->items[i]->name);
}

/* The name at the end of a line. */
static bool name_at(const char *at, char *name, size_t size)
{
    const size_t length = strcspn(at, "\n");

    if (length == 0 || length >= size)
        return false;
    memcpy(name, at, length);
    name[length] = 0;
    return true;
}

static stk_status damaged(const char *line, stk_error *err)
{
    return stk__fail(err, STK_EFORMAT, STK_STAGE_TRAIN,
                     "the checkpoint's metrics cannot be read at \"%.40s\"", line);
}

static stk_status read_slot(stk_trainer *t, const char *line, stk_error *err)
{
    stk__metric_slot *slot;
    char name[300], *end;
    double last, sum, weight;
    const uint32_t flags = (uint32_t)strtoul(line, &end, 10);

    if (*end != ' ' || (end[1] != '0' && end[1] != '1') || end[2] != ' ')
        return damaged(line, err);
    const bool fresh = end[1] == '1';
    const char *at = end + 3;
    if (strcspn(at, "\n") < 51 || !stk__text_bits(at, &last) || !stk__text_bits(at + 17, &sum) ||
        !stk__text_bits(at + 34, &weight) || !name_at(at + 51, name, sizeof name))
        return damaged(line, err);
    STK_TRY(stk__metrics_slot(t, name, flags, &slot, err));
    slot->last = last;
    slot->sum = sum;
    slot->weight = weight;
    slot->fresh = fresh;
    /* The name lies on this function's stack. */
    slot->key.pointer = NULL;
    return STK_OK;
}

static stk_status read_value(stk_trainer *t, const char *line, stk_error *err)
{
    char name[400];
    double value;

    if ((*line != '0' && *line != '1') || line[1] != ' ' || strcspn(line, "\n") <= 19 ||
        !stk__text_bits(line + 2, &value) || !name_at(line + 19, name, sizeof name))
        return damaged(line, err);
    return stk__metric_set(t, name, value, *line == '1')
               ? STK_OK
               : stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for the metric '%s'", name);
}

stk_status stk__metrics_read(stk_trainer *t, const char *text, stk_error *err)
{
    t->at.phase = STK_PHASE_TRAIN;
    t->at.dataloader_idx = 0;
    for (const char *line = text; line && *line;) {
        if (strncmp(line, "slot ", 5) == 0)
            STK_TRY(read_slot(t, line + 5, err));
        else if (strncmp(line, "value ", 6) == 0)
            STK_TRY(read_value(t, line + 6, err));
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return STK_OK;
}
