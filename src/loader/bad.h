/* samples that are bad -> counts, lines of a file, the end of a run */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_LOADER_BAD_H
#define STK_SRC_LOADER_BAD_H

#include "loader/budget.h"
#include "loader/order.h"
#include "loader/steps.h"

/*
 * Bad samples are noted in their step as they are met, in no order, and judged in order of position
 * where their batch is delivered: so none of it depends on timing. What is not marked is the
 * consumer's; (L) is the ring's lock.
 */

/* One line for the quarantine log. */
typedef struct stk__bad_sample {
    uint64_t position, index, offset, object;
    uint64_t wanted, left; /* bytes, where they do not fit the budget */
    uint64_t line;         /* of the object; 0: not known */
    uint32_t need;         /* the need that failed */
    bool has_object;
    stk_status status;
    uint8_t stage;
    bool replaced;
    const char *reason;
    char key[STK_ERROR_KEY];
    struct stk__bad_sample *next;
} stk__bad_sample;

typedef struct stk__bad {
    stk_context *ctx;
    stk_dataset *dataset;
    stk__ring *ring;
    const stk__order *order;
    uint64_t budget; /* the option memory_budget, for messages */
    int32_t on_error;
    char *path;                           /* of the quarantine log; NULL: none */
    int file;                             /* descriptor of it, or -1 */
    uint64_t most;                        /* of an epoch: the option max_errors */
    stk_bad_samples counts;               /* (L) delivered so far, in order */
    const char *reasons[STK_BAD_REASONS]; /* (L) those of the first of each kind */
    uint64_t epoch, in_epoch;
} stk__bad;

/* Note a bad sample of a step. The ring's lock held. */
void stk__bad_note_locked(stk__step *step, uint32_t row, bool replaced);
/* Free notes that are not judged. */
void stk__bad_free(stk_context *ctx, stk__bad_sample *list);

/* The options max_errors and quarantine; the members before `path` are filled in. */
stk_status stk__bad_init(stk__bad *bad, const char *max_errors, const char *quarantine,
                         uint64_t batch_rows, stk_error *err);
void stk__bad_release(stk__bad *bad);
/* Judge the bad samples of a batch that is about to be delivered, and free them. */
stk_status stk__bad_settle(stk__bad *bad, const stk_batch *batch, stk__bad_sample *list, uint32_t n,
                           stk_error *err);
/* What a caller sees of them. (L) free. */
void stk__bad_show(stk__bad *bad, stk_bad_samples *out);

#endif
