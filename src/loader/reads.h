/* ranges of objects -> their bytes in memory */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_LOADER_READS_H
#define STK_SRC_LOADER_READS_H

#include "base/base.h"
#include "store/trend.h"
#include "store/store.h"

/*
 * Reads on their way: at most `depth` at once, the oldest first; one whose failure may pass is
 * tried again, `retries` times, before all that waits. The part knows stores, and nothing of
 * samples: whoever wants a range keeps a record of it and is called when it is there.
 *
 * Invariants: a range is called once each time it was queued, unless stk__reads_cancel() dropped
 * all of its reads before they were sent; at most one thread submits, with the lock free; once the
 * part is stopped nothing more is sent, and what is in flight ends.
 *
 * The lock is the loader's, given to stk__reads_init(); (L) marks what it guards.
 */

/* When the reads of a range went and came; 0: not yet. */
typedef struct stk__read_times {
    uint64_t queued_ns, first_ns, sent_ns, arrived_ns; /* the last three of the read that ended
                                                          last: its first try, its last, its end */
    double transfer; /* the share of the last try that was transfer, an estimate */
} stk__read_times;

/* A range that is wanted in memory. Lives until it was called, or stk__reads_wait_locked(). */
typedef struct stk__range {
    stk_store *store;
    const char *key;
    uint64_t offset, length;
    char *data; /* room for it */
    /* All its reads have ended; `status` is the first failure of them. Called with (L) held, on any
     * thread; the range may be queued again, or freed, in there. */
    void (*arrived_locked)(struct stk__range *range, stk_status status);
    stk__read_times times; /* (L) from being queued on */
    /* The part's own: */
    struct stk__op *first, *last; /* prepared reads */
    uint32_t pending;             /* (L) reads not done */
    stk_status status;            /* (L) */
} stk__range;

/* So far. */
typedef struct stk__read_figures {
    uint64_t requests, request_bytes, failures, busy_ns; /* of tries */
    double ns_per_byte, transfer_share, latency_ns;      /* of a read, estimated */
} stk__read_figures;

typedef struct stk__reads {
    stk_context *ctx;
    pthread_mutex_t *lock;        /* (L) */
    pthread_cond_t ended;         /* stopped, and one of the waits below may be over */
    uint32_t depth, retries;      /* fixed before the first read */
    bool stopped;                 /* (L) nothing is sent */
    bool pumping;                 /* (L) a thread is sending */
    uint32_t in_flight;           /* (L) */
    struct stk__op *first, *last; /* (L) waiting to be sent, oldest first */
    struct stk__op *flying;       /* (L) sent and not ended */
    struct stk__op *free;         /* (L) records */
    uint64_t under_way;           /* (L) bytes of the reads in flight */
    stk__read_figures figures;    /* (L) but the estimates */
    stk__trend trend;             /* (L) of the reads that did not fail */
} stk__reads;

void stk__reads_init(stk__reads *reads, stk_context *ctx, pthread_mutex_t *lock, uint32_t depth,
                     uint32_t retries);
/* Nothing is in flight any more. */
void stk__reads_destroy(stk__reads *reads);

/* Make the reads of a range, whose first part is filled in, so that queueing it cannot fail.
 * STK_ENOMEM. (L) free. */
stk_status stk__reads_prepare(stk__reads *reads, stk__range *range);
/* Queue a prepared range behind all others; stk__reads_pump() is to follow. (L) held. */
void stk__reads_queue_locked(stk__reads *reads, stk__range *range);
/* Prepare a range and queue it before all others; false when there is no memory to. (L) held. */
bool stk__reads_queue_first_locked(stk__reads *reads, stk__range *range);
/* Send what waits, as far as the depth allows. Any thread, (L) free. */
void stk__reads_pump(stk__reads *reads);

/* Nothing more is sent or tried again; or on again. (L) held. */
void stk__reads_stop_locked(stk__reads *reads, bool stop);
/* Wait until no thread is sending: from then on each read in flight is known to its store, so that
 * it can be canceled. False: not by `until`. Stopped; (L) held. */
bool stk__reads_wait_sent_locked(stk__reads *reads, uint64_t until);
/* Drop what waits to be sent, whose ranges are never called, and ask for an early end of all reads
 * in flight. Stopped and sent; (L) free. */
void stk__reads_cancel(stk__reads *reads);
/* Wait until nothing is in flight. False: not by `until`. Stopped; (L) held. */
bool stk__reads_wait_locked(stk__reads *reads, uint64_t until);
/* Nothing waits to be sent, or is in flight. (L) held. */
bool stk__reads_idle_locked(const stk__reads *reads);
uint32_t stk__reads_in_flight_locked(const stk__reads *reads);
void stk__reads_figures_locked(const stk__reads *reads, stk__read_figures *out);
/* What is in flight, and for how long; returns the length, 0: nothing is. (L) held. */
size_t stk__reads_describe_locked(const stk__reads *reads, uint64_t now_ns, char *text,
                                  size_t size);

#endif
