/* reads of a cache -> reads of its files and of the store below: what its parts share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_CACHE_READING_H
#define STK_SRC_STORE_CACHE_READING_H

#include "base/tiers.h"
#include "store/cache/room.h"

#define STK__CACHE_BUCKETS 256
#define STK__CACHE_ASKERS  16  /* threads at most that ask the store below for identities */
#define STK__CACHE_LOOKED  513 /* blocks of a reading that are looked at together */

typedef struct stk__cache_store stk__cache_store;
typedef struct stk__cache_reading stk__cache_reading;
typedef struct stk__cache_fetch stk__cache_fetch;

/* What a reading waits for. */
enum {
    STK__CACHE_NOTHING, /* or for a fetch, or for the identity of its object */
    STK__CACHE_TABLE,   /* sums of its blocks, */
    STK__CACHE_DATA,    /* and the blocks themselves, of the object's file */
    STK__CACHE_DIRECT   /* its bytes, of the store below, straight into place */
};

/* Whether the end of what a reading waits for finds it waiting: the thread that began that goes on
 * with it where it ended meanwhile, without nesting. */
enum { STK__CACHE_WAITING, STK__CACHE_HELD, STK__CACHE_ENDED };

/* A read under way. One thread moves it at a time, from one thing that it waits for to the next. */
struct stk__cache_reading {
    stk_read inner; /* first: done() of a store finds the reading by it */
    stk__cache_store *store;
    stk__cache_reading *next, *previous; /* of all under way; `next` of the free ones */
    stk_read *outer;                     /* NULL: it has ended */
    stk__cache_place place;
    XXH128_hash_t key;
    uint64_t length;  /* of its bytes, those that the object has */
    uint64_t at, end; /* blocks that are still to come */
    uint64_t known;   /* up to this one `sums` says which are there, from `from` on */
    uint64_t from, sums[STK__CACHE_LOOKED];
    uint64_t run;              /* blocks that it waits for */
    uint64_t looked_at, looks; /* where it had to look again, and how often there */
    uint64_t answered;         /* identity of what came straight from below; 0: not said */
    uint32_t starts;           /* how often its object was another one */
    uint8_t waits_for;
    bool distrust;   /* what is kept is not right: all comes from below */
    bool changed;    /* its object is another one: it begins anew */
    uint8_t *buffer; /* for blocks of which a part is wanted; kept from use to use */
    uint64_t room;
    atomic_int gate;
    stk_status outcome;
    stk_store *below;                /* that has `inner`, */
    uint64_t sent_ns;                /* since then */
    bool running, submitted, asked;  /* it has it; can cancel it; was asked to */
    bool stop;                       /* it shall end early */
    bool asking;                     /* it is queued for an asker */
    uint32_t pins;                   /* threads that still look at it: not to be used again */
    stk__cache_fetch *waits;         /* for this one */
    stk__cache_reading *next_waiter; /* of a fetch, or of those that are queued for askers */
};

/* Whole blocks that are read below for any readings, and then kept. (below.c) */
struct stk__cache_fetch {
    stk_read inner; /* first */
    stk__cache_store *store;
    stk__cache_fetch *next;     /* in its bucket */
    stk__cache_fetch *next_job; /* of those to be kept, or that wait for another process */
    XXH128_hash_t key_hash;
    stk__cache_place place;
    uint64_t first, count, bytes;
    uint64_t sent_ns;  /* when it was asked of the store below */
    uint64_t answered; /* identity of the object that its bytes are of; 0: not said */
    uint8_t *buffer;
    stk__cache_reading *waiters; /* in no order */
    stk__cache_reading *owner;   /* whose deadline it has; NULL: gone */
    int fd;                      /* of the object's file, with these blocks locked; -1: not kept */
    uint64_t give_up_ns;         /* when another process that has them locked is not waited for */
    uint32_t refs;
    bool listed;   /* in its bucket */
    bool ready;    /* its bytes are there */
    bool distrust; /* as that of a reading: what the file says is not looked at */
    bool running, submitted, asked, stop; /* as those of a reading */
    char key[];
};

typedef struct stk__cache_stats {
    atomic_uint_fast64_t reads, read_bytes, hit_bytes; /* that were wanted; of kept blocks */
    atomic_uint_fast64_t fetches, fetched;             /* reads of the store below, and bytes */
    atomic_uint_fast64_t kept, not_kept, wrong; /* bytes; bytes; blocks whose sum did not hold */
} stk__cache_stats;

/*
 * What is used and what is not any more: a round lasts until its objects have been read several
 * times, which is as many epochs, and each object that is read in one is marked.
 */
typedef struct stk__cache_round {
    uint32_t number;
    int64_t start_ns;          /* Unix time */
    uint64_t read, of_objects; /* bytes that were read, and that the objects have of them */
} stk__cache_round;

struct stk__cache_store {
    stk_store base;
    stk__cache_options options; /* without the text */
    stk_store *inner;
    stk_store *kept; /* the folder of the cache; NULL: it cannot be used */
    char *dir;
    stk__cache_room room;
    stk__cache_stats stats;
    uint64_t most_bytes;   /* of buffers of fetches */
    pthread_mutex_t mutex; /* guards the rest, readings and fetches */
    pthread_cond_t idle;   /* no reading is under way, or no fetch is left */
    stk__cache_ids ids;
    stk__cache_round round;
    stk__cache_reading *under_way, *free_readings;
    stk__cache_fetch *buckets[STK__CACHE_BUCKETS];
    uint64_t buffer_bytes;
    uint32_t num_fetches;

    pthread_cond_t asked; /* a reading is queued, an asker is done, or the end */
    stk__cache_reading *first_asking, *last_asking;
    XXH128_hash_t asking[STK__CACHE_ASKERS]; /* keys that are being asked for */
    stk__thread askers[STK__CACHE_ASKERS];
    uint32_t num_askers, idle_askers;

    pthread_cond_t work; /* there is something to keep, or the end */
    stk__cache_fetch *first_job, *last_job;
    uint32_t num_jobs;
    uint64_t full_ns; /* the keeper writes nothing before */
    stk__thread keeper;

    pthread_cond_t look; /* there is something to wait for, or the end */
    stk__cache_fetch *polled;
    stk__thread poller;
    bool stopping;
};

/* ---- Readings (read.c) ----------------------------------------------------------------------- */

stk_status stk__cache_submit(stk_store *store, stk_read *read);
void stk__cache_cancel(stk_store *store, stk_read *read);
stk_status stk__cache_read_now(stk_store *store, const char *key, uint64_t offset, uint64_t length,
                               void *data);
/* Go on with a reading: what it waited for has ended so. */
void stk__cache_resume(stk__cache_reading *r, stk_status status);
void stk__cache_unpin(stk__cache_reading *r);
/* What is known of its object. */
void stk__cache_identified(stk__cache_reading *r, const stk__cache_id *id);
/* Copy what is wanted of blocks [first, first + count) into place, unless it is there; so many
 * bytes. */
uint64_t stk__cache_copy(const stk__cache_reading *r, const uint8_t *data, uint64_t first,
                         uint64_t count);
void stk__cache_readings_end(stk__cache_store *store);

/* ---- What is had at once (now.c) ------------------------------------------------------------- */

/* What is known of an object of which so many bytes are read; false: nothing. */
bool stk__cache_known(stk__cache_store *store, XXH128_hash_t key, uint64_t length,
                      stk__cache_id *out);
/* Give bytes that are kept and in memory. */
bool stk__cache_now(stk__cache_store *store, const stk__cache_id *id, uint64_t offset,
                    uint64_t length, void *data);
/* `hit_ns` 0: it has only begun; else how long it took, of blocks that are kept. */
void stk__cache_count_read(stk__cache_store *store, uint64_t length, uint64_t hit_ns);
/* Nanoseconds since then, 1 at least. */
static inline uint64_t stk__cache_took(uint64_t began)
{
    return STK_MAX(stk__stamp() - began, UINT64_C(1));
}
void stk__cache_round_begin(stk__cache_round *round);

/* ---- Fetches (below.c) ----------------------------------------------------------------------- */

/* Have blocks from r->at on from the store below, `run` of them at most. STK_EAGAIN: the reading is
 * resumed; STK_ENOMEM: there is no room for it now. */
stk_status stk__cache_want(stk__cache_reading *r, uint64_t run);
/* Take a reading that stops away from what it waits for. True: nobody else resumes it. */
bool stk__cache_unwait_locked(stk__cache_reading *r, stk__cache_fetch **canceled);
void stk__cache_fetch_cancel(stk__cache_fetch *fetch);
void stk__cache_fetch_unref(stk__cache_fetch *fetch);
void stk__cache_poller_end(stk__cache_store *store);

/* ---- Keeping (keep.c) ------------------------------------------------------------------------ */

/* Have a fetch kept, by a thread for that, which takes the reference. False: it is not. */
bool stk__cache_keep_locked(stk__cache_fetch *fetch);
/* Its thread, started at the first need. */
bool stk__cache_keeper_start(stk__cache_store *store);
void stk__cache_keeper_end(stk__cache_store *store);
/* A fetch is not kept: a file that was made for it goes where nothing else is in it. */
void stk__cache_not_begun(const stk__cache_fetch *fetch);
/* Whether an open file has any of these blocks, by its table. */
bool stk__cache_file_has(int fd, uint64_t first, uint64_t count);

/* ---- Identities (ask.c) ---------------------------------------------------------------------- */

/* Have somebody ask for the object of a reading. False: nobody can. */
bool stk__cache_ask(stk__cache_reading *r);
void stk__cache_askers_end(stk__cache_store *store);
/* What the store below says of an object is what is read from now on. */
void stk__cache_note(stk__cache_store *store, const char *key, const stk_object_info *info);
/* An object is not the version that a place is of: that goes, and it is asked for anew. */
void stk__cache_forget_version(stk__cache_store *store, XXH128_hash_t key,
                               const stk__cache_place *place);
/* An object was changed: what is kept of it goes. */
void stk__cache_forget(stk__cache_store *store, const char *key);

#endif
