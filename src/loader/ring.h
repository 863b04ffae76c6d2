/* memory -> batches that go round between the steps and the consumer */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_LOADER_RING_H
#define STK_SRC_LOADER_RING_H

#include <stoker/loader.h>

#include "base/base.h"
#include "dataset/dataset.h"
#include "device/device.h"
#include "loader/pool.h"
#include "transform/transform.h"

/*
 * The slabs of a loader, each the memory of one batch, and the pool of read buffers and ragged
 * values. A slab is free, a step's, or a batch that the consumer holds: `num_free`, those of steps
 * and `num_held` make up `num_slabs`. A detached batch is none of them.
 *
 * The ring outlives the loader while batches are held: so it has the one lock of the loader, which
 * guards what is marked (L) in every part. It is never held over I/O, a dataset, a transform or a
 * message. The pool has a lock of its own, taken with (L) free.
 */

/* What one field of a batch is, before and after the transforms. */
typedef struct stk__column {
    stk_field field;             /* as delivered */
    int32_t source;              /* field of the dataset, or one of the below */
    uint64_t source_bytes;       /* of one sample of the dataset's field; 0 when not FIXED */
    uint64_t row_bytes;          /* of one row of the slab; 0 when not FIXED */
    uint64_t staged_bytes;       /* of one sample on its way to the pipeline */
    stk_transform_header header; /* as delivered */
    stk__pipeline *pipeline;     /* NULL: none */
    bool decodes;                /* the pipeline begins with an encoded picture */
    uint32_t ragged;             /* number among the fields that are not FIXED */
    stk__pad pad;                /* unit 0: values lie one behind the other */
} stk__column;

enum { STK__COLUMN_INDEX = -1, STK__COLUMN_LABEL_MIXED = -2, STK__COLUMN_MIX = -3 };

typedef struct stk__ring stk__ring;

struct stk_batch {
    stk__ring *ring;
    bool held;        /* (L) by the consumer */
    bool detached;    /* no longer of the ring's slabs: freed when it is given back */
    uint32_t tensors; /* (L) of other libraries, which hold its memory as well */
    /* Poisoned while it is not held, in a build with AddressSanitizer: functions of a batch read
     * it, so that the use of one that was given back is found where it happens. */
    _Alignas(8) char guard[8];
    uint64_t epoch, step, count;
    void **data;        /* of each column; so the next */
    uint64_t **offsets; /* of a field that is filled up the first is its rows, of each sample */
    void *ragged;       /* from the pool: values of the ragged columns; NULL: none */
    uint64_t *positions;
    char *memory;    /* the slab itself */
    stk_batch *next; /* (L) among the free */
};

struct stk__ring {
    stk_context *ctx;
    pthread_mutex_t lock; /* (L) */
    sem_t woken;          /* the consumer waits for a batch: posted where `waits`, and by cancel */
    bool waits;           /* (L) */
    pthread_cond_t finished; /* the consumer waits for the end of work */
    pthread_cond_t work;     /* workers wait for rows or for room to plan */
    pthread_cond_t watch;    /* the watch over the caller's thread waits for the end */
    bool alone;              /* there are no workers: the consumer's thread does their work */
    uint32_t references;     /* (L) the loader and each held batch */
    /* (L) A batch was given back; called with (L) held. NULL once the loader is gone. */
    void (*returned_locked)(void *user);
    void *user;
    stk__column *columns;
    stk_field *fields; /* the columns' fields in a row, for the caller */
    char *names;       /* of them */
    uint32_t num_columns, num_ragged;
    void **places; /* where each column of each slab lies */
    uint64_t rows; /* most rows of a batch */
    uint64_t slab_bytes;
    stk_device *device;        /* whose host memory the slabs are; NULL: the allocator's */
    atomic_bool locked_memory; /* as far as the system lets us */
    stk_batch *slabs;
    uint32_t made, most;                    /* slabs; those given up have no memory */
    uint32_t num_slabs, num_free, num_held; /* (L) */
    stk_batch *free;                        /* (L) */
    stk__pool pool;                         /* of read buffers and ragged values */
    bool full;              /* (L) planning waits for bytes of the pool to come back */
    stk_loader_state state; /* order options; epoch and step are filled in for each batch */
};

/* Bytes that one slab of these columns takes. */
uint64_t stk__slab_bytes(const stk__column *columns, uint32_t n, uint64_t rows);
/* Columns are copied. `device`: as in the ring. `spare`: slabs that may come on top. */
stk_status stk__ring_create(stk_context *ctx, const stk__column *columns, uint32_t n, uint64_t rows,
                            uint32_t slabs, uint32_t spare, stk_device *device, bool lock_memory,
                            stk__ring **out, stk_error *err);
/* Have `slabs` in all, as far as spare ones and memory go. The consumer's thread; (L) free. */
void stk__ring_grow(stk__ring *ring, uint32_t slabs);
/* Give up free slabs until `slabs` are left. (L) free. */
void stk__ring_shrink(stk__ring *ring, uint32_t slabs);
/* A free slab, or NULL. (L) held. */
stk_batch *stk__ring_take_locked(stk__ring *ring);
/* Give back one that is no batch. (L) held. */
void stk__ring_give_locked(stk__ring *ring, stk_batch *slab);
/* The consumer holds it from now on. (L) held. */
void stk__ring_hold_locked(stk__ring *ring, stk_batch *slab);
/* One more user of the memory of a batch that is held. (L) free. */
void stk__batch_share(stk_batch *batch);
/* One less; frees the ring when it was the last of all. (L) free. */
void stk__batch_unshare(stk_batch *batch);
/* Wait for a batch, for a cancel, or until a time. One thread; (L) held, free meanwhile. */
void stk__ring_wait_locked(stk__ring *ring, uint64_t until);
/* Something is there that the consumer may wait for. (L) held. */
void stk__ring_wake_locked(stk__ring *ring);
/* There is work: for a worker, or for the consumer where it works alone. (L) held. */
void stk__ring_work_locked(stk__ring *ring);
/* Bytes of the pool came back: planning may go on. (L) held. */
void stk__ring_room_locked(stk__ring *ring);
stk__batch_field stk__batch_field_of(const stk__column *column, void *data);
/* Give up one reference; frees when it was the last. */
void stk__ring_unref(stk__ring *ring);

#endif
