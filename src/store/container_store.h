/* the store of a container: what its reads and its other verbs share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_CONTAINER_STORE_H
#define STK_SRC_STORE_CONTAINER_STORE_H

#include "store/container.h"

typedef struct stk__container_store stk__container_store;
typedef struct stk__container_reading stk__container_reading;

/* A run of bytes of the object that a read under way waits for. */
typedef struct stk__container_part stk__container_part;
struct stk__container_part {
    stk_read inner; /* first: done() of the store below finds the part by it */
    stk__container_reading *reading;
    stk__container_part *next; /* of the reading, or free */
    uint64_t from, length;     /* which bytes of the file it brings */
    uint64_t at;               /* of the object: where `inner` begins */
    uint8_t kind;              /* container_read.c */
    bool running, submitted,
        asked;       /* under the mutex: the store below has it; can cancel it; did */
    uint8_t *buffer; /* what was read where that is not the destination; kept from use to use */
    uint64_t room;
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

struct stk__container_store {
    stk_store base;
    stk__container_options options;
    stk_store *inner;
    stk__container *container;
    stk_store_limits limits; /* of `inner` */
    uint64_t due_ns;         /* when the object is looked at again; atomic */
    char *key;               /* of the object in `inner` */
    pthread_mutex_t mutex;   /* guards the rest, and readings */
    pthread_cond_t idle;     /* no read is under way */
    stk__container_reading *under_way, *free_readings;
    stk__container_part *free_parts;
    stk__codec_state *states[8]; /* that no thread uses */
    uint32_t num_states;
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
/* End all reads and free what was made for them. */
void stk__container_reads_end(stk__container_store *store);

#endif
