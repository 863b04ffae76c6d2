/* box -> values: one stk_array_read() under way */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caller's thread and its helpers all do the same: decode what has arrived, else send the next
 * request, else plan more requests, else wait. The fetcher keeps as many reads under way as the
 * store serves well; requests in flight are bounded by bytes, too.
 *
 *   walk -> needs -> planner -> requests -> slots (transfers) -> ready -> decode, copy
 *
 * A shard whose index is not known is split off the walk: its index is a request of its own, and
 * once that has come the walk of the shard is planned like any other.
 */
#ifndef STK_SRC_ARRAY_READING_H
#define STK_SRC_ARRAY_READING_H

#include "array/texts.h"
#include "store/fetch.h"

#define STK__READING_PLAN 512 /* chunks planned at a time */

/* A walk that waits for its turn to be planned. */
typedef struct stk__pending stk__pending;
struct stk__pending {
    stk__pending *next;
    stk__walk *walk;
};

/* One request to the store, from before it is sent until its chunks are decoded. */
typedef struct stk__slot_read stk__slot_read;
struct stk__slot_read {
    stk__reading *reading;
    stk__slot_read *next;   /* in the list it is in: free, ready */
    stk__slot_read *all;    /* of the reading */
    stk__transfer transfer; /* on its way, or ended */
    uint64_t object, offset, length;
    uint64_t object_size; /* STK__ARRAY_UNKNOWN: not asked */
    unsigned char *data;  /* where the bytes are: `memory`, or the destination itself */
    unsigned char *memory;
    uint64_t room;    /* bytes of `memory` */
    uint64_t charged; /* bytes counted as in flight */
    bool direct;      /* read straight into the destination */
    bool unsized;     /* a whole object of a length that its read tells */
    stk__walk *walk;  /* of an index: the walk that waits for it */
    stk__need *needs;
    uint32_t num_needs, room_needs;
    char key[STK_MAX_OBJECT_KEY];
};

struct stk__reading {
    stk_array *array;
    stk__reading *next, *previous; /* of the array's, guarded by its mutex */
    const stk__box *box;
    char *out;
    const int64_t *strides;
    stk__texts *texts;    /* of elements of varying length; NULL: they have a fixed one */
    bool large;           /* the destination is larger than caches are */
    bool indexes_only;    /* nothing but the shard indexes is wanted */
    uint64_t deadline_ns; /* UINT64_MAX: none */
    stk_store_limits limits;
    uint32_t depth;        /* slots taken at once */
    uint64_t capacity;     /* bytes in flight */
    uint64_t most_encoded; /* to ask for of an object of unknown length; 0: it is asked first */
    stk__fetcher *fetcher;

    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t cond;
    bool stop; /* canceled from outside */
    stk_status status;
    stk_error error;
    stk__slot_read *free_slots, *all_slots, *ready, *last_ready;
    uint32_t active;     /* slots taken: sent, ready or being decoded */
    uint32_t waiting;    /* of them, those that the store has not answered */
    uint64_t in_flight;  /* bytes */
    uint64_t due_ns;     /* when the fetcher has something to do, as it said last */
    bool planning;       /* a thread is */
    uint32_t sending;    /* threads that send a request */
    stk__pending *walks; /* to be planned, the first one now */
    /* The present plan: written by the thread that plans, taken from under the mutex. */
    size_t num_needs, num_requests, next_request;
    stk__need needs[STK__READING_PLAN];
    stk__want wants[STK__READING_PLAN];
    stk__request requests[STK__READING_PLAN];
};

/* A thread of a reading. */
typedef struct stk__reader {
    stk__reading *reading;
    stk__thread thread;
    stk__codec_state *state;
    unsigned char *scratch; /* for one decoded chunk */
} stk__reader;

/* Read a checked box of `bytes` in all into strided memory. `texts`: of elements of varying length.
 * (read.c) */
stk_status stk__array_read_box(stk_array *a, const stk__box *box, uint64_t bytes, void *out,
                               const int64_t *strides, stk__texts *texts, uint64_t deadline_ns,
                               stk_error *err);
/* Plan what the first walk needs, and do at once what asks for no read. The requests are in
 * r->requests, *num_requests of them. (read_plan.c) */
stk_status stk__reading_plan(stk__reading *r, size_t *num_requests, stk_error *err);
/* Send request `which` of the plan in a slot. (read_slot.c) */
stk_status stk__slot_send(stk__slot_read *slot, const stk__request *request, stk_error *err);
/* Transfers of slots have ended: the fetcher's caller. (read_slot.c) */
void stk__slots_ended(void *reading, stk__transfer *list);
/* Use what a slot has brought. (read_slot.c) */
stk_status stk__slot_use(stk__reader *reader, stk__slot_read *slot, stk_error *err);
stk__slot_read *stk__slot_take_locked(stk__reading *r);
void stk__slots_free(stk__reading *r);
/* Hand a walk over to be planned; it is destroyed when that fails. */
stk_status stk__reading_add_walk(stk__reading *r, stk__walk *walk, stk_error *err);
/* A chunk that is proven to be absent. */
stk_status stk__reading_fill(stk__reading *r, const stk__need *need, const char *key,
                             stk_error *err);

#endif
