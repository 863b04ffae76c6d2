/* ranks, parameters -> what each rank has of them, and its memory */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_SHARDS_H
#define STK_SRC_TRAIN_SHARDS_H

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
    bool halves;    /* all sums are made of parts, which lie on a device: one order of them */
    stk__shard_place *places;        /* of each parameter, in the order of state() */
    stk_shard *own;                  /* this rank's range of each */
    size_t n;                        /* 0: there are no places, as nobody asks for them */
    stk__gradient_piece *parameters; /* as the gradients: the last of state() first */
    stk__gradient_bucket *buckets;   /* of them */
    bool *present;                   /* of each: it is whole here, or on its way */
    uint64_t *asked;                 /* of each that is: the number of the call that brings it */
    size_t num_pieces, num_buckets;
    bool returns;                   /* a device has to take memory back before it is used again */
    bool asks;                      /* the module has asked for parameters in this step */
    bool back;                      /* it is in its backward pass */
    stk__gradient_piece *gradients; /* with `returns`: those of this step, the last first */
    size_t num_gradients, gradient_room;
    bool *here;               /* with `returns`, of each bucket: its gradients have memory */
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

/* ---- Shards (shards.c, shards_places.c) ---- */

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
/* Before a backward pass: gradients are to be added to. */
stk_status stk__shards_back(stk_trainer *t, stk_error *err);
/* Behind a pass that came to `status`, of which `last` is the step's last: no parameters are on
 * their way. */
stk_status stk__shards_passed(stk_trainer *t, bool last, stk_status status, stk_error *err);
/* Around what reads parameters outside of training passes: all of them are whole. */
stk_status stk__shards_hold(stk_trainer *t, stk_error *err);
stk_status stk__shards_let_go(stk_trainer *t, stk_error *err);
/* At the end of a task: parameters are whole again, where all ranks are here (`together`). */
stk_status stk__shards_end(stk_trainer *t, bool together, stk_error *err);
/* Behind the optimizer's step: every rank gets what the others have stepped, of the buckets that
 * had gradients in it. */
stk_status stk__shards_gather(stk_trainer *t, stk_error *err);
/* Bring a bucket of parameters. On whichever thread. */
stk_status stk__gather_bucket(stk_trainer *t, const stk__gradient_bucket *bucket, stk_error *err);

/* ---- Their memory (shards_memory.c) ---- */

/* Give the memory of what other ranks have of a bucket back to the system or the device, and take
 * it back, with anything in it. On whichever thread. */
stk_status stk__shards_drop(const stk_trainer *t, const stk__gradient_piece *pieces,
                            const stk__gradient_bucket *bucket, stk_error *err);
stk_status stk__shards_take(const stk_trainer *t, const stk__gradient_piece *pieces,
                            const stk__gradient_bucket *bucket, stk_error *err);
/* The same of gradients, which are zeros where they have come back. Buckets are those that were
 * shared out, by number. */
stk_status stk__shards_drop_gradients(stk_trainer *t, const stk__gradient_bucket *bucket,
                                      stk_error *err);
stk_status stk__shards_take_gradients(stk_trainer *t, size_t bucket, stk_error *err);
stk_status stk__shards_take_all_gradients(stk_trainer *t, stk_error *err);
/* Before any is made in a task: this rank has its part alone. */
stk_status stk__shards_part_gradients(stk_trainer *t, stk_error *err);
/* In place of that: they are those of a window that goes on. */
stk_status stk__shards_keep_gradients(stk_trainer *t, stk_error *err);
/* Find the gradients that there are. */
stk_status stk__shards_list_gradients(stk_trainer *t, stk_error *err);
/* Fill what there is of gradients with zeros. */
stk_status stk__shards_zero(stk_trainer *t, stk_error *err);
/* At the end of a task all memory is there again. */
stk_status stk__shards_take_all(stk_trainer *t, stk_error *err);
/* All ranks: put the parts of a tensor together, in `out` of rank 0. */
stk_status stk__shards_bring(stk_trainer *t, const stk_state_tensor *part, size_t parameter,
                             void *out, stk_error *err);
/* Clip the gradients of this step, as the options say. The norm is of the sum of what each rank has
 * added up of what it owns: the same bits whatever lies in parts. */
stk_status stk__clip_together(stk_trainer *t, double most, stk_error *err);

#endif
