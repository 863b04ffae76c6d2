/* ranges of objects -> their bytes in memory */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_LOADER_READS_H
#define STK_SRC_LOADER_READS_H

#include "base/base.h"
#include "store/fetch.h"

/*
 * The loader's side of the fetcher, which reads (store/fetch.h): ranges are queued, and called when
 * their bytes are there, with the lock of the loader held. The part knows nothing of samples:
 * whoever wants a range keeps a record of it.
 *
 * Invariants: a range that was queued is called once, also when reads are stopped, with
 * STK_ECANCELED then; the lock is never held while the fetcher or a store is called.
 *
 * The lock is its owner's, as is waking threads; (L) marks what the lock guards.
 */

/* A range that is wanted in memory. Lives until it was called. */
typedef struct stk__range stk__range;
struct stk__range {
    /* First. Before it is queued, store, key, offset, length and data are set; once it was called
     * it says when the range was read. */
    stk__transfer transfer;
    /* Called with (L) held, on any thread; the range may be queued again in there, or freed. */
    void (*arrived_locked)(stk__range *range, stk_status status);
};

/* So far. */
typedef struct stk__read_figures {
    uint64_t requests, request_bytes, failures, busy_ns; /* of tries */
    double ns_per_byte, transfer_share, latency_ns;      /* of a read, estimated */
} stk__read_figures;

typedef struct stk__reads {
    stk__fetcher *fetcher;
    pthread_mutex_t *lock; /* (L) */
    /* due_ns became earlier: who sleeps until then is to be woken. Called with (L) held. */
    void (*sooner_locked)(void *user);
    void *user;
    pthread_cond_t ended;    /* nothing is pending */
    uint32_t pending;        /* (L) ranges that are queued or under way */
    uint64_t served, waited; /* (L) ranges so far, and of them those that were not had at once */
    uint64_t due_ns;         /* (L) stk__reads_pump() is to be called then; UINT64_MAX: it is not */
    stk__range *queued, *last_queued; /* (L) for the fetcher */
} stk__reads;

/* `depth`: reads under way at each store; 0: as many as serve it well. Lock, sooner_locked and user
 * are set. */
stk_status stk__reads_init(stk__reads *reads, stk_context *ctx, uint32_t depth, uint32_t retries,
                           uint64_t seed);
/* Nothing is pending. */
void stk__reads_destroy(stk__reads *reads);

/* From now on so many reads under way at a store that had `of` at first; of others likewise. (L)
 * free. */
void stk__reads_move(stk__reads *reads, uint32_t depth, uint32_t of);

/* Queue a range behind all others, or before all others; stk__reads_pump() is to follow. (L) held.
 */
void stk__reads_queue_locked(stk__reads *reads, stk__range *range);
void stk__reads_queue_first_locked(stk__reads *reads, stk__range *range);
/* Send what waits, as far as the depth allows. Any thread, (L) free. */
void stk__reads_pump(stk__reads *reads);
/* The same if it is time for it. True: (L), which is held, was let go meanwhile. */
bool stk__reads_pump_due_locked(stk__reads *reads);

/* End all that is pending early, and whatever is queued from now on; or nothing any more. (L) free.
 */
void stk__reads_stop(stk__reads *reads, bool stop);
/* Wait until nothing is pending. False: not by `until`. (L) held. */
bool stk__reads_wait_locked(stk__reads *reads, uint64_t until);
/* Nothing is pending. (L) held. */
bool stk__reads_idle_locked(const stk__reads *reads);

/* (L) free. */
void stk__reads_figures(const stk__reads *reads, stk__read_figures *out);
uint32_t stk__reads_in_flight(const stk__reads *reads);
/* What is in flight, and for how long; returns the length, 0: nothing is. */
size_t stk__reads_describe(const stk__reads *reads, char *text, size_t size);

#endif
