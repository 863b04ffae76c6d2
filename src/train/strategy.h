/* ranks -> one training: sums, decisions and texts that all of them share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_STRATEGY_H
#define STK_SRC_TRAIN_STRATEGY_H

#include "train/shards.h"

typedef struct stk__overlap stk__overlap; /* a thread that speaks with the others (overlap.c) */

typedef struct stk__ranks {
    stk_strategy strategy;       /* in full size */
    stk_device_ops device;       /* what the trainer's device can, in full size */
    bool given;                  /* by stk_trainer_set_strategy() */
    bool attached;               /* it knows the device */
    bool stop;                   /* agreed: stk_trainer_stop() was called on a rank */
    bool val_due;                /* agreed: the time between validations is over */
    bool may_skip;               /* agreed: a rank has hooks that may skip the rest of an epoch */
    stk__gradient_piece *listed; /* the gradients of a step, in the order of state() */
    size_t num_listed, listed_room;
    stk__gradient_piece *pieces;   /* those that are complete, the last of state() first */
    stk__gradient_bucket *buckets; /* those that are closed, and the open one behind them */
    size_t num_pieces, num_buckets, room;
    uint64_t most;         /* bytes of a bucket */
    bool open;             /* there is an open bucket */
    bool says_done;        /* the module says when gradients are complete */
    uint64_t later;        /* bytes of one behind the first: STK__BUCKET */
    bool early;            /* buckets go to the thread, in this step */
    bool lists;            /* buckets are made, and not combined */
    stk__overlap *overlap; /* NULL: none was needed yet, or calls are for one thread alone */
    void *bucket;          /* of the device: small gradients are reduced together in it */
    uint64_t bucket_bytes;
    stk__shards shards;
    bool parts_stored; /* agreed: parts of checkpoints go to a store */
} stk__ranks;

/* A process by itself. */
void stk__ranks_init(stk__ranks *ranks);
void stk__ranks_release(stk_trainer *t);
/* Wait for the trainer's stream, and fail where what ranks did on it has gone wrong: what is in the
 * device's memory is then no result. */
stk_status stk__synchronize(const stk_trainer *t, stk_error *err);
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
/* All ranks: the failure of the first rank that has one is that of each, which says of which; *err
 * is that of `status`. */
stk_status stk__agree_failure(stk_trainer *t, stk_status status, stk_error *err);
/* The text that rank 0 has. */
stk_status stk__share_text(stk_trainer *t, char *text, size_t size, stk_error *err);
/* The module's tensors that rank 0 has; the ranks have to have the same module. */
stk_status stk__share_state(stk_trainer *t, uint32_t kinds, stk_error *err);
/* The ranks begin the same task. */
stk_status stk__ranks_begin(stk_trainer *t, stk_error *err);
/* They end it. `together`: this rank has come to the end that all of them come to, and then a
 * failure to write on one is a failure of all; else the others are told that it is gone. */
stk_status stk__ranks_end(stk_trainer *t, bool together, stk_status status, stk_error *err);

/* ---- Gradients (buckets.c) ---- */

/* Before a backward pass: may buckets be combined while it goes on? `together`: its passes speak
 * with the other ranks themselves. */
stk_status stk__gradients_begin(stk_trainer *t, bool together, stk_error *err);
/* Whether somebody looks at gradients between backward and the optimizer. */
bool stk__gradients_looked_at(const stk_trainer *t);
/* Gradients become their mean over the ranks, bucket by bucket: those that have not yet. `step`:
 * the optimizer steps next, so where ranks share it out each needs its own part alone. */
stk_status stk__reduce_gradients(stk_trainer *t, bool step, stk_error *err);
/* Buckets of what is in r->listed, which are not combined. */
stk_status stk__list_buckets(stk_trainer *t, stk_error *err);
/* Put a tensor of state() into r->listed; a visitor. */
stk_status stk__list_piece(void *trainer, stk_state_kind kind, const stk_state_tensor *tensor,
                           stk_error *err);
/* Room for a bucket that does not lie in one piece, in r->bucket. */
stk_status stk__need_bucket(stk_trainer *t, uint64_t bytes, stk_error *err);
/* What calls on the module's memory are given: NULL where it is the host's. */
stk_stream *stk__ranks_stream(const stk_trainer *t);
/* Combine a closed bucket. On whichever thread. */
stk_status stk__reduce_bucket(stk_trainer *t, const stk__gradient_bucket *bucket, stk_error *err);

/* ---- What is laid side by side (bucket_parts.c) ---- */

/* Combine a bucket, `squeezed` to bfloat16. */
stk_status stk__reduce_laid(stk_trainer *t, const stk__gradient_bucket *bucket, bool squeezed,
                            stk_error *err);
/* Combine what this rank has of a bucket (`combines`), `squeezed` to bfloat16, and bring what the
 * others have (`gathers`). */
stk_status stk__send_parts(stk_trainer *t, const stk__gradient_piece *pieces,
                           const stk__gradient_bucket *bucket, bool combines, bool gathers,
                           bool squeezed, stk_error *err);
/* Whether the parts of a bucket can be sent from where they lie. */
bool stk__parts_in_place(const stk_trainer *t, const stk__gradient_piece *pieces,
                         const stk__gradient_bucket *bucket);

/* ---- The thread (overlap.c) ---- */

typedef enum stk__overlap_kind { STK__OVERLAP_REDUCE, STK__OVERLAP_GATHER } stk__overlap_kind;

/* Before the first call of a step; starts the thread, where the strategy allows one. Else the calls
 * that are given are made at once. */
stk_status stk__overlap_begin(stk_trainer *t, stk_error *err);
/* Have gradients combined or parameters gathered, behind what was given before. *number is for
 * stk__overlap_wait(). Blocks where very many are not made yet. */
stk_status stk__overlap_give(stk_trainer *t, stk__overlap_kind kind,
                             const stk__gradient_bucket *bucket, uint64_t *number, stk_error *err);
/* Wait until the call `number` is made, with what has failed of this step so far. */
stk_status stk__overlap_wait(stk_trainer *t, uint64_t number, stk_error *err);
/* Wait until none is with the thread; accepts that there is none. What was hidden is put into the
 * ledger. */
void stk__overlap_settle(stk_trainer *t);
/* The same, with what has failed of this step. */
stk_status stk__overlap_end(stk_trainer *t, stk_error *err);
void stk__overlap_stop(stk_trainer *t);

#endif
