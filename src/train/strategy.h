/* ranks -> one training: sums, decisions and texts that all of them share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_STRATEGY_H
#define STK_SRC_TRAIN_STRATEGY_H

#include <stoker/trainer.h>

/* One gradient, as the module shows it. */
typedef struct stk__gradient_piece {
    char *data;
    uint64_t bytes;
    stk_dtype dtype;
} stk__gradient_piece;

typedef struct stk__ranks {
    stk_strategy strategy;       /* in full size */
    bool given;                  /* by stk_trainer_set_strategy() */
    bool stop;                   /* agreed: stk_trainer_stop() was called on a rank */
    bool val_due;                /* agreed: the time between validations is over */
    bool may_skip;               /* agreed: a rank has hooks that may skip the rest of an epoch */
    stk__gradient_piece *pieces; /* room for the gradients of a step */
    size_t num_pieces, room;
    void *bucket; /* of the device: small gradients are reduced together in it */
} stk__ranks;

/* A process by itself. */
void stk__ranks_init(stk__ranks *ranks);
void stk__ranks_release(stk_trainer *t);
/* All of these do nothing where the process is alone. */
stk_status stk__reduce(stk_trainer *t, double *values, size_t n, stk_combine op, stk_error *err);
/* Fail unless `number` is the same on all ranks; `what` says what differs. */
stk_status stk__same_everywhere(stk_trainer *t, uint64_t number, const char *what, stk_error *err);
/* Agree on whether to stop, to end early, and to validate. */
stk_status stk__agree(stk_trainer *t, stk_error *err);
/* Agree on what the hooks of a fit may ask for, once. */
stk_status stk__agree_hooks(stk_trainer *t, stk_error *err);
/* Agree on whether all ranks have their batch, and whether one is to stop. */
stk_status stk__agree_ready(stk_trainer *t, bool *ready, bool *stop, stk_error *err);
/* Agree on a batch of which `rows` rows count here: whether a rank that has some has no use for it
 * (or none has any), whether a loss is no number, and what the mean of the rank's rows counts among
 * the means of all. */
stk_status stk__agree_batch(stk_trainer *t, double rows, bool *skip, bool *bad, double *share,
                            stk_error *err);
/* The text that rank 0 has. */
stk_status stk__share_text(stk_trainer *t, char *text, size_t size, stk_error *err);
/* The module's tensors that rank 0 has; the ranks have to have the same module. */
stk_status stk__share_state(stk_trainer *t, uint32_t kinds, stk_error *err);
/* The ranks begin the same task. */
stk_status stk__ranks_begin(stk_trainer *t, stk_error *err);
/* They end it. `together`: this rank has come to the end that all of them come to, and then a
 * failure to write on one is a failure of all; else the others are told that it is gone. */
stk_status stk__ranks_end(stk_trainer *t, bool together, stk_status status, stk_error *err);
/* Gradients become their mean over the ranks, bucket by bucket (buckets.c). */
stk_status stk__reduce_gradients(stk_trainer *t, stk_error *err);

#endif
