/* what is logged -> values for callbacks, bar and loggers */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_METRICS_H
#define STK_SRC_TRAIN_METRICS_H

#include <pthread.h>
#include <stdatomic.h>

#include <stoker/trainer.h>

#include "base/text.h"

typedef enum stk__metric_group {
    STK__METRICS_TRAIN,
    STK__METRICS_VAL,
    STK__METRICS_TEST,
    STK__METRICS_GROUPS
} stk__metric_group;

/* A value under a name, as callbacks, bar and loggers see it. The thread of the bar reads. */
typedef struct stk__metric {
    char *name;
    _Atomic double value;
    atomic_bool set;
    bool prog_bar;
} stk__metric;

/* What is logged under a name in one group of loops. */
typedef struct stk__slot_key {
    const char *pointer; /* as last given: most names are literals */
    char *name;
    stk__metric_group group;
    uint32_t dataloader_idx;
} stk__slot_key;

typedef struct stk__metric_slot {
    stk__slot_key key;
    uint32_t flags;
    int32_t plain, step, epoch;            /* numbers of metrics; -1: none */
    double last, sum, weight, last_weight; /* `sum` is the extreme for min and max */
    double all_sum, all_weight;            /* of all ranks, when they were last published */
    double *device_sums; /* on a device whose memory the host cannot read; else NULL */
    bool on_device;      /* the four are kept there, and here only when fetched */
    bool fresh;          /* logged on a step since the epoch began */
} stk__metric_slot;

typedef struct stk__metrics {
    stk__metric_slot *slots;
    size_t num_slots, slot_room, cursor; /* `cursor`: the slot to try first */
    stk__metric **items;                 /* never move: the bar's thread holds them */
    size_t num_items, item_room;
    atomic_size_t num_shown; /* items the bar's thread may read */
    stk_metric *line;        /* room for one line of metrics */
    size_t line_room;
    pthread_mutex_t lock; /* guards `items` against the bar's thread while it grows */
} stk__metrics;

stk_status stk__metrics_init(stk_trainer *t);
void stk__metrics_release(stk_trainer *t);
/* Forget what was logged in one group. */
void stk__metrics_reset(stk_trainer *t, stk__metric_group group, bool published);
/* Forget all of it, also what was handed to the loggers as lines. */
void stk__metrics_forget(stk_trainer *t);
/* Set the epoch's values of a group from what was logged so far. */
stk_status stk__metrics_publish(stk_trainer *t, stk__metric_group group, stk_error *err);
/* The same, hand them to the loggers, begin anew. */
stk_status stk__metrics_flush(stk_trainer *t, stk__metric_group group, int64_t step,
                              stk_error *err);
/* Hand the step's values to the loggers. */
stk_status stk__metrics_log_step(stk_trainer *t, int64_t step, stk_error *err);
/* The slot of a name at `t->at`, made if need be. */
stk_status stk__metrics_slot(stk_trainer *t, const char *name, uint32_t flags,
                             stk__metric_slot **out, stk_error *err);
/* Bring the sums of a slot home from the device: the one place where the host waits for them. */
stk_status stk__metrics_fetch(stk_trainer *t, stk__metric_slot *slot, stk_error *err);
/* What a group's slots have come to over the ranks, and their last values of a step
 * (metrics_ranks.c). */
stk_status stk__metrics_reduce(stk_trainer *t, stk__metric_group group, stk_error *err);
/* The same of this rank alone. */
stk_status stk__metrics_gather(stk_trainer *t, stk__metric_group group, stk_error *err);
stk_status stk__metrics_reduce_step(stk_trainer *t, stk_error *err);
/* Set metric `which` and, where it is another one, `plain`. */
void stk__metric_publish(stk_trainer *t, int32_t which, int32_t plain, double value);
/* A slot has a value that the loggers want at this step. */
static inline bool stk__metric_logs_step(const stk__metric_slot *slot)
{
    return slot->key.group == STK__METRICS_TRAIN && (slot->flags & STK_ON_STEP) && slot->fresh &&
           !(slot->flags & STK_NO_LOGGER);
}
/* As lines of a checkpoint, from what was reduced or gathered last, and back; what was restored is
 * rank 0's part, the others go on from nothing (metrics_state.c). */
void stk__metrics_leave_to_first(stk__metrics *metrics);
void stk__metrics_write(const stk_trainer *t, stk__text *text);
stk_status stk__metrics_read_slot(void *trainer, const char *value, stk_error *err);
stk_status stk__metrics_read_value(void *trainer, const char *value, stk_error *err);
/* Forms of a name that is logged: 0 plain, 1 and 2 where it is logged on a step and on an epoch. */
enum { STK__METRIC_FORMS = 3, STK__METRIC_FORM_NAME = 512 };
static inline int stk__metric_forms(uint32_t flags)
{
    return (flags & STK_ON_STEP) && (flags & STK_ON_EPOCH) ? STK__METRIC_FORMS : 1;
}
/* One of them; `loader` >= 0: of one of several loaders. Gives `text`. */
const char *stk__metric_form(const char *name, int form, int64_t loader,
                             char text[STK__METRIC_FORM_NAME]);
/* Set a metric without logging it. */
stk_status stk__metric_set(stk_trainer *t, const char *name, double value, bool prog_bar,
                           stk_error *err);

#endif
