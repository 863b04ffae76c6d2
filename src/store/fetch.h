/* wanted ranges -> their bytes, in the destinations given */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_FETCH_H
#define STK_SRC_STORE_FETCH_H

#include "base/base.h"
#include "store/store.h"

/*
 * The one place that submits reads to stores and cancels them. A *transfer* brings one range of an
 * object into the destination that the caller gives. The fetcher splits it into reads as long as
 * the store takes at once, keeps as many reads under way at each store as serve it well, sends
 * transfers by priority, and tries again what failed for a reason that may pass (a fault of the
 * machine): after 10 ms, then twice as long each time, up to 5 s, of which between a half and all
 * is waited, by a draw from the seed.
 *
 * A fetcher has no thread. Threads that call stk__fetcher_pump() send; so do threads on which
 * stores end reads. What is due at a time (a retry, a deadline) waits for a thread to come by:
 * whoever sleeps until transfers end calls stk__fetcher_pump() at stk__fetcher_due().
 *
 * Invariants: a transfer that was added ends exactly once, by being handed to `ended`; no store has
 * more reads under way than its depth; nothing of a transfer is touched once it was handed over;
 * `ended` and calls of a store happen with no lock held.
 */
typedef struct stk__fetcher stk__fetcher;
typedef struct stk__transfer stk__transfer;

/* A read of the store, a transfer's whole range or a piece of it: the fetcher's own. */
typedef struct stk__piece stk__piece;
struct stk__piece {
    stk_read read;
    stk__transfer *transfer;
    struct stk__source *source;   /* its store */
    stk__piece *next_of_transfer; /* or of the free ones */
    stk__piece *next,
        *previous;   /* in the list it is in: waiting, under way, or to be tried again */
    uint64_t due_ns; /* when it is tried again */
    uint64_t first_ns, sent_ns, ended_ns; /* first try, last try */
    uint64_t bytes_before; /* bytes under way at the fetcher when it was sent, its own included */
    uint32_t tries;
    uint8_t place;      /* the kind of list */
    bool stop, asked;   /* it shall end early; its store was asked to cancel it */
    bool late;          /* it shall end because its deadline has passed */
    atomic_int gate;    /* who finishes it: the thread that ends the read, or one that holds it */
    stk_status outcome; /* of the read */
};

struct stk__transfer {
    /* Set by the caller; stays until the transfer has ended. */
    stk_store *store;
    const char *key;
    uint64_t offset, length;
    void *data;           /* room for `length` bytes */
    uint64_t priority;    /* smaller goes first; of equals, the one that was added first */
    uint64_t deadline_ns; /* by the fetcher's clock, waits and retries included; 0: none */
    bool up_to;           /* the object may end within the range: `got` says how much came */
    bool from_end;        /* as in stk_read, which a store has to know; at most one read of it */
    bool needed_next;     /* as in stk_read */
    stk_error *error;     /* where a store may name the failure, if it is one read; NULL: nowhere */
    void *user;
    /* Filled in when it has ended. */
    stk_status status;    /* STK_OK, or that of the first piece in the range that failed */
    int32_t system_error; /* errno or protocol status behind a failure; 0: none */
    bool at_once;         /* all of it came within calls of the store, which knows read_now() */
    uint64_t got;         /* bytes at the start of `data` that were read */
    uint64_t size;        /* of `from_end`: bytes of the object */
    uint64_t added_ns;    /* from here on of the piece that ended last: */
    uint64_t first_ns, sent_ns, ended_ns; /* first try, last try (0: never sent), end */
    uint64_t bytes_before; /* bytes under way when its last try was sent, its own included */
    uint32_t tries;        /* how often it was sent */
    double transfer_share; /* of the last try, an estimate; 0 without `measures` */
    stk__transfer *next;   /* links transfers that are added, or handed over, together */
    /* The fetcher's own. */
    stk__piece piece;   /* the first of them */
    uint32_t pending;   /* pieces that have not ended */
    uint64_t number;    /* in the order of adding */
    uint64_t failed_at; /* offset of the first piece that failed */
};

/* More tries, where nobody says another number. */
#define STK__FETCH_RETRIES 3

typedef struct stk__fetcher_options {
    uint32_t depth;    /* reads under way at each store; 0: as many as the store says */
    uint64_t max_read; /* bytes of one read; 0, or more than the store takes: as the store says */
    uint32_t retries;  /* more tries of a read whose failure may pass */
    uint64_t seed;     /* of the time before each retry */
    uint64_t (*now)(void *clock); /* nanoseconds; NULL: stk__now_ns(). Stores get deadlines of it */
    void *clock;
    /*
     * Transfers that have ended, linked by `next`, the caller's again. Any thread, also inside
     * stk__fetcher_pump() and the cancels. It may add transfers, which the thread that calls it
     * sends afterwards, but not pump, cancel or destroy.
     */
    void (*ended)(void *user, stk__transfer *list);
    /* (optional) stk__fetcher_due() is earlier than it was: who sleeps until then sleeps too long.
     * No lock is held. NULL: whoever sleeps looks often enough. */
    void (*sooner)(void *user, uint64_t due_ns);
    /* (optional) Whether all transfers shall end early, for reads that are done within submit() of
     * their store, on the thread that sends. No lock is held. NULL: stk__fetcher_stop() says so. */
    bool (*canceled)(void *user);
    void *user;
    bool measures; /* each read that ends is an event of the context, and times are estimated */
    const void *loader; /* of these events */
} stk__fetcher_options;

typedef struct stk__fetch_stats {
    uint64_t requests, request_bytes; /* reads sent, retries included */
    uint64_t failures, retries, busy_ns;
    uint64_t bytes_under_way;
    uint32_t under_way, waiting; /* reads; those that wait for a slot or for their next try */
    double ns_per_byte, transfer_share, latency_ns; /* of a read, estimated; of `measures` */
} stk__fetch_stats;

stk_status stk__fetcher_create(stk_context *ctx, const stk__fetcher_options *options,
                               stk__fetcher **out);
/* Bytes of a fetcher that measures, before it has transfers. */
uint64_t stk__fetcher_bytes(void);
/* No transfer may be left. Waits for threads that are about to leave the fetcher. */
void stk__fetcher_destroy(stk__fetcher **fetcher);

/* Queue transfers, linked by `next`; stk__fetcher_pump() sends them. Without memory for its pieces
 * a transfer ends with STK_ENOMEM. Any thread. */
void stk__fetcher_add(stk__fetcher *fetcher, stk__transfer *list);
/* Send what may be sent, end what is late, hand over what has ended. Any thread, several at once;
 * does not wait for storage. */
void stk__fetcher_pump(stk__fetcher *fetcher);
/* From now on `depth` reads under way at a store that had `of` at first, and at each other so many
 * times as many or as few, 1 at least; what is under way beyond that ends as it would.
 * stk__fetcher_pump() sends what may go now. Any thread. */
void stk__fetcher_move(stk__fetcher *fetcher, uint32_t depth, uint32_t of);
/* When the next retry or deadline is due; UINT64_MAX: none is known. */
uint64_t stk__fetcher_due(stk__fetcher *fetcher);
/* End all transfers that were added and, until it is called with false, all that are, with
 * STK_ECANCELED, unless their bytes come first. What was not sent ends within the call; what is
 * under way when its store says so. */
void stk__fetcher_stop(stk__fetcher *fetcher, bool stop);

void stk__fetcher_stats(stk__fetcher *fetcher, stk__fetch_stats *out);
/* "3 reads in flight, the oldest for 1.2 s: KEY". Returns its length; 0: nothing is under way. */
size_t stk__fetcher_describe(stk__fetcher *fetcher, char *text, size_t size);

#endif
