/* moments -> where the time of a task went */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_LEDGER_H
#define STK_SRC_TRAIN_LEDGER_H

#include <stoker/trainer.h>

#include "base/base.h"

enum stk__part {
    STK__PART_DATA_WAIT,
    STK__PART_TRANSFER,
    STK__PART_STEP,
    STK__PART_VALIDATION,
    STK__PART_CALLBACKS,
    STK__PART_LOGGING,
    STK__PART_CHECKPOINT,
    STK__PART_OTHER,
    STK__PARTS
};

typedef struct stk__ledger {
    uint64_t begin_ns, last_ns, parts[STK__PARTS];
    uint64_t steps, samples;
    uint64_t optimizer_steps, optimizer_ns; /* where batches accumulate */
    uint64_t comm_ns;        /* of steps: for other ranks, and for what is put together with them */
    uint64_t comm_hidden_ns; /* beside it, behind what computes */
    uint64_t turn_ns; /* of data wait: going to an epoch, before its first batch is asked for */
    uint32_t depth;   /* within validation all time is validation's, but that of checkpoints */
    stk_loader_stats loader_begin, loader_end;
} stk__ledger;

/* Everything since the last mark was spent on `part`. */
static inline uint64_t stk__ledger_mark(stk__ledger *ledger, enum stk__part part)
{
    const uint64_t now = stk__now_ns();

    ledger->parts[ledger->depth ? STK__PART_VALIDATION : part] += now - ledger->last_ns;
    ledger->last_ns = now;
    return now;
}

void stk__ledger_begin(stk__ledger *ledger);
/* What the loader of training has counted so far. */
void stk__ledger_look(const stk_trainer *t, stk_loader_stats *out);
/* The loader of training is about to be made anew: what it counted stays counted. */
void stk__ledger_carry(stk_trainer *t);

/* Times as one paragraph. Returns the length, as snprintf(). */
int stk__trainer_times_format(const stk_trainer_times *times, char *text, size_t size);

#endif
