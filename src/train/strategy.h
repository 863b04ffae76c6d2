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
    uint64_t name;    /* a hash of it, where parameters have places */
    size_t parameter; /* its number then */
} stk__gradient_piece;

/* Most bytes of a bucket, but for a piece that has more. */
#define STK__BUCKET (UINT64_C(25) << 20)

/* Pieces that are combined together, from `first` on: in reverse order of state(). */
typedef struct stk__gradient_bucket {
    size_t first, n;
    uint64_t bytes;
    bool whole; /* they lie in one piece of memory */
} stk__gradient_bucket;

typedef struct stk__overlap stk__overlap; /* a thread that speaks with the others (overlap.c) */

/* Where a parameter lies in its bucket, in elements. */
typedef struct stk__shard_place {
    uint64_t count, before, all; /* of it; of the bucket below it; of the bucket */
    uint64_t name;               /* a hash of it */
    size_t bucket;
} stk__shard_place;

/* Buckets from `first` to `last`; none where last < first. */
typedef struct stk__bucket_range {
    size_t first, last;
} stk__bucket_range;

/* What each rank has of the training at hand. A rank owns an equal part of every bucket of all that
 * learns or will, and so at most one range of a parameter. */
typedef struct stk__shards {
    uint32_t stage; /* of ZeRO: 1 moments lie in parts, 2 gradients, too; 0: nothing does */
    bool scatters;  /* of the buckets of this step each rank gets its own part alone */
    stk__shard_place *places;        /* of each parameter, in the order of state() */
    stk_shard *own;                  /* this rank's range of each */
    size_t n;                        /* 0: there are no places, as nobody asks for them */
    stk__gradient_piece *parameters; /* as the gradients: the last of state() first */
    stk__gradient_bucket *buckets;   /* of them */
    bool *present;                   /* of each: it is whole here, or on its way */
    uint64_t *asked;                 /* of each that is: the number of the call that brings it */
    size_t num_pieces, num_buckets;
    bool parted;              /* parameters lie in parts but where they are wanted */
    bool held;                /* all of them are wanted */
    stk__bucket_range hand;   /* of the layer at work */
    stk__bucket_range *order; /* of layers that wanted others, in the passes of the last step */
    size_t num_order, order_room;
    size_t at;        /* so many of them have come in this step */
    uint64_t *counts; /* of each rank, for the call at hand */
    char *parts;      /* folder that parts of checkpoints were written to last; NULL: none */
    bool parts_seen;  /* all ranks see what rank 0 makes there */
} stk__shards;

typedef struct stk__ranks {
    stk_strategy strategy;       /* in full size */
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
/* Combine a closed bucket. On whichever thread. */
stk_status stk__reduce_bucket(stk_trainer *t, const stk__gradient_bucket *bucket, stk_error *err);

/* ---- What is laid side by side (bucket_parts.c) ---- */

/* Combine a bucket of float32 as bfloat16. */
stk_status stk__reduce_squeezed(stk_trainer *t, const stk__gradient_bucket *bucket, stk_error *err);
/* Bring what other ranks have of a bucket (`gathers`), or combine what this one has, `squeezed` to
 * bfloat16. */
stk_status stk__send_parts(stk_trainer *t, const stk__gradient_piece *pieces,
                           const stk__gradient_bucket *bucket, bool gathers, bool squeezed,
                           stk_error *err);

/* ---- Shards (shards.c) ---- */

/* Stage of ZeRO that a fit of this trainer would have; 0: nothing lies in parts. */
uint32_t stk__shards_stage(const stk_trainer *t);
/* Behind configure() of a fit: have the module keep its part, where the strategy says so. */
stk_status stk__shards_begin(stk_trainer *t, stk_error *err);
void stk__shards_release(stk_trainer *t);
/* The elements of `count` behind `before` others that are in [from, to) of all. */
static inline stk_shard stk__shard_overlap(uint64_t before, uint64_t count, uint64_t from,
                                           uint64_t to)
{
    const uint64_t begin = from > before ? from : before;
    const uint64_t end = to < before + count ? to : before + count;

    return begin < end ? (stk_shard){begin - before, end - begin} : (stk_shard){0, 0};
}

static inline uint64_t stk__piece_elements(const stk__gradient_piece *piece)
{
    return piece->bytes / stk_dtype_size(piece->dtype);
}

/* Which parameter a gradient is of, behind `after` (NULL: none), which is of a later one; nothing
 * is done where there are no places. */
stk_status stk__shard_place_piece(const stk_trainer *t, const stk__gradient_piece *after,
                                  stk__gradient_piece *piece, stk_error *err);
/* What a rank has of a parameter. */
stk_shard stk__shard_of(const stk_trainer *t, size_t parameter, uint64_t rank);
/* A hash of a name; the same where there are places, else 0. */
uint64_t stk__shard_hash(const char *name);
uint64_t stk__shard_name(const stk_trainer *t, const char *name);
/* Elements that a rank has of a bucket of these pieces, of parameters or of gradients; of each. */
uint64_t stk__shard_count(const stk_trainer *t, const stk__gradient_piece *pieces,
                          const stk__gradient_bucket *bucket, uint64_t rank);
const uint64_t *stk__shard_counts(const stk_trainer *t, const stk__gradient_piece *pieces,
                                  const stk__gradient_bucket *bucket);
/* What a tensor of state() is a part of, and the number of its parameter; false: it is whole, and
 * so is *whole. */
bool stk__shard_whole(const stk_trainer *t, stk_state_kind kind, const stk_state_tensor *tensor,
                      stk_state_tensor *whole, size_t *parameter);
/* What this rank will have of the tensor of a name (zero_3); NULL: all of it. */
const stk_shard *stk__shards_own(const stk_trainer *t, const char *name);
/* At the end of the set-up: have parameters lie in parts, where the strategy says so (zero_3). */
stk_status stk__shards_part(stk_trainer *t, stk_error *err);
/* Before the passes of a training step: no parameters are here. */
stk_status stk__shards_step(stk_trainer *t, stk_error *err);
/* Behind a pass that came to `status`, of which `last` is the step's last: no parameters are on
 * their way. */
stk_status stk__shards_passed(stk_trainer *t, bool last, stk_status status, stk_error *err);
/* Around what reads parameters outside of training passes: all of them are whole. */
stk_status stk__shards_hold(stk_trainer *t, stk_error *err);
void stk__shards_let_go(stk_trainer *t);
/* At the end of a task: parameters are whole again, where all ranks are here (`together`). */
stk_status stk__shards_end(stk_trainer *t, bool together, stk_error *err);
/* Behind the optimizer's step: every rank gets what the others have stepped, of the buckets that
 * had gradients in it. */
stk_status stk__shards_gather(stk_trainer *t, stk_error *err);
/* Bring a bucket of parameters. On whichever thread. */
stk_status stk__gather_bucket(stk_trainer *t, const stk__gradient_bucket *bucket, stk_error *err);
/* Give the memory of what other ranks have of a bucket back to the system. On whichever thread. */
void stk__shards_drop(const stk_trainer *t, const stk__gradient_piece *pieces,
                      const stk__gradient_bucket *bucket);
/* All ranks: put the parts of a tensor together, in `out` of rank 0. */
stk_status stk__shards_bring(stk_trainer *t, const stk_state_tensor *part, size_t parameter,
                             void *out, stk_error *err);
/* Clip the gradients of this step, as the options say. The norm is of the sum of what each rank has
 * added up of what it owns: the same bits whatever lies in parts. */
stk_status stk__clip_together(stk_trainer *t, double most, stk_error *err);

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
