/* the store of a container: what its reads and its other verbs share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_CONTAINER_STORE_H
#define STK_SRC_STORE_CONTAINER_STORE_H

#include "store/container.h"

typedef struct stk__container_store stk__container_store;
typedef struct stk__container_reading stk__container_reading;

/* What a part does. */
enum {
    STK__PART_RAW,    /* bytes that are stored as they are go straight into place */
    STK__PART_PACKED, /* whole runs are unpacked straight into place */
    STK__PART_LEAD,   /* what lies in front of a run, perhaps with the run */
    STK__PART_SHARED  /* a part of a run that is unpacked into a block of the cache */
};

/* A run of bytes of the object that a read under way waits for. */
typedef struct stk__container_part stk__container_part;
typedef struct stk__container_block stk__container_block;
struct stk__container_part {
    stk_read inner; /* first: done() of the store below finds the part by it */
    stk__container_reading *reading;
    stk__container_part *next; /* of the reading, or free */
    uint64_t from, length;     /* which bytes of the file it brings */
    uint64_t at;               /* of the object: where `inner` begins */
    uint8_t kind;
    pthread_t sender;               /* the thread that submits it */
    bool running, submitted, asked; /* the store below has it; can cancel it; was asked to */
    uint8_t *buffer; /* what was read where that is not the destination; kept from use to use */
    uint64_t room;
    stk__container_part *next_job; /* of those to be unpacked; of those that wait for a block */
    stk__container_block *waits;   /* for this block, which another brings */
    stk__container_block *carries; /* it brings this block */
};

/* A read under way. */
struct stk__container_reading {
    stk__container_store *store;
    stk__container_reading *next; /* of all, while under way; of the free ones */
    stk__container_reading *previous;
    stk_read *outer; /* NULL: it has ended */
    const stk__container_entry *file;
    uint64_t offset, length; /* bytes of the file, all of which are there */
    stk__container_part *parts;
    uint32_t pending; /* parts that have not ended, and 1 for who submits */
    uint32_t pins;    /* threads that still look at it: not to be used again */
    stk_status status;
    int32_t system_error;
    bool stop;
};

/* A run that is unpacked, or will be. (container_cache.c) */
struct stk__container_block {
    stk__container_block *next;          /* in its bucket */
    stk__container_block *newer, *older; /* by last use, while ready; `newer` of those queued */
    uint64_t at, stored, size;           /* its run: place, bytes there; bytes of it unpacked */
    uint8_t *data;                       /* NULL: it waits for room */
    bool queued, ready;
    uint32_t pins;                /* threads that copy from it */
    stk__container_part *waiters; /* in no order */
};

#define STK__CONTAINER_BUCKETS   256
#define STK__CONTAINER_UNPACKERS 4 /* threads at most */

struct stk__container_store {
    stk_store base;
    stk__container_options options;
    stk_store *inner;
    stk__container *container;
    stk_store_limits limits;     /* of `inner` */
    atomic_uint_fast64_t due_ns; /* when the object is looked at again */
    atomic_bool changed;         /* it is another one by now */
    char *key;                   /* of the object in `inner` */
    pthread_mutex_t mutex;       /* guards the rest, readings, parts and blocks */
    pthread_cond_t idle;         /* no read is under way */
    stk__container_reading *under_way, *free_readings;
    stk__container_part *free_parts;
    stk__codec_state *states[8]; /* that no thread uses */
    uint32_t num_states;

    stk__container_block *buckets[STK__CONTAINER_BUCKETS];
    stk__container_block *newest, *oldest;            /* of those that are ready */
    stk__container_block *first_queued, *last_queued; /* that wait for room */
    uint64_t cache_bytes;                             /* of blocks with data */
    bool pumping, pump_again;

    pthread_cond_t work; /* there is a job, or the end */
    stk__container_part *first_job, *last_job;
    stk__thread unpackers[STK__CONTAINER_UNPACKERS];
    uint32_t num_unpackers, running_unpackers, idle_unpackers;
    bool stopping;
    size_t prefix_length; /* bytes of `prefix`, which ends with '/' unless it is empty */
    char prefix[];
};

/* The path in the container of a key of the store, without '/' at its end. STK_EINVAL, STK_ELIMIT.
 */
stk_status stk__container_path_of(const stk__container_store *store, const char *key,
                                  char path[STK_MAX_OBJECT_KEY], stk_error *err);
/* The run at `offset` of a file, as the format says it, held against the object. */
stk_status stk__container_find_run(const stk__container *c, const stk__container_entry *file,
                                   uint64_t offset, stk__container_run *out);
/* Whether the object is another one than was opened, as far as is known. (container_read.c) */
bool stk__container_changed(stk__container_store *store);
/* Bytes of a file that can be had without waiting, also by unpacking where the thread goes on with
 * them; false: they cannot. (container.c) */
bool stk__container_file_now(stk__container_store *store, const stk__container_entry *file,
                             uint64_t offset, uint64_t length, bool unpack, void *data);

/* ---- Reads (container_read.c) ---- */

/* A part, or who submits, has ended; the last one tells. */
void stk__container_end_one(stk__container_reading *r, stk_status status, int32_t system_error);
/* A part of a reading that is `kind`; it is pending. NULL: no memory. */
stk__container_part *stk__container_add_part(stk__container_reading *r, uint64_t from,
                                             uint64_t length);
/* Where the bytes of a file from `from` on go. */
static inline char *stk__container_place_of(const stk__container_reading *r, uint64_t from)
{
    return (char *)r->outer->data + (from - r->offset);
}
/* Submit the read of a part, whose first bytes are of `run`, as it was when it was found that the
 * part is one: others may learn more of the file meanwhile. Ends by its done(), or on failure not.
 */
stk_status stk__container_submit_part(stk__container_part *part, const stk__container_run *run);
/* End all reads and free what was made for them. */
void stk__container_reads_end(stk__container_store *store);
/* Say why a file cannot be read: a read has a status alone. */
void stk__container_warn(const stk__container_store *store, const stk__container_entry *file,
                         const char *reason);

/* ---- Unpacking (container_unpack.c) ---- */

/* Unpack what a part has read, on a thread for that, or here. The part ends in time. */
void stk__container_unpack(stk__container_part *part);
/* Unpack a whole run whose bytes are in memory, on the thread that goes on with it. False: it is to
 * be read, which says what is wrong. */
bool stk__container_unpack_now(stk__container_store *store, const stk__container_run *run,
                               void *out);
void stk__container_unpackers_end(stk__container_store *store);

/* ---- Blocks (container_cache.c) ---- */

/* Take bytes of a run that is not wanted as a whole: now where it is kept, else when it has been
 * unpacked. On failure nothing is pending. */
stk_status stk__container_share(stk__container_reading *r, uint64_t from, uint64_t length,
                                const stk__container_run *run);
/* A block was unpacked by a part, or was not. The part has not ended, and ends here. */
void stk__container_block_end(stk__container_part *carrier, stk_status status,
                              int32_t system_error);
/* End what a reading waits for and others bring. */
void stk__container_stop_waiting(stk__container_reading *r);
void stk__container_cache_free(stk__container_store *store);

#endif
