/* ranges that rows need -> their bytes, read and decoded once */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_LOADER_UNITS_H
#define STK_SRC_LOADER_UNITS_H

#include "base/base.h"
#include "dataset/dataset.h"
#include "loader/calls.h"
#include "loader/keep.h"
#include "loader/reads.h"
#include "loader/steps.h"

/*
 * A unit is one range and all the needs that are of it. The planner makes units, in bundles that
 * are read together; rows find them by range (`table`) as long as they live. A unit that does not
 * have to be decoded is there for its rows as soon as it was read; one that has waits in a queue,
 * by the serial of the step that asked first, until a thread decodes it. A unit lives as long as it
 * has references, and beyond that among the idle while a step within the horizon may want it; its
 * buffers go back to the pool with the last unit of its bundle. (L) is the ring's lock.
 */

typedef struct stk__unit stk__unit;
typedef struct stk__units stk__units;

/* A unit that is read by itself, after the read of its bundle failed or its checksum did not match.
 */
typedef struct stk__alone {
    stk__range range; /* first */
    stk__unit *unit;
} stk__alone;

/* Bytes somebody needs: a piece of a bundle, shared by all rows that need the same range. Where the
 * need says so they are decoded once, before any row sees them. */
struct stk__unit {
    uint64_t object, offset, length;
    uint64_t came;         /* (L) until decoding begins: of `length`, those that there are */
    uint64_t decoded_size; /* 0: not decoded */
    uint64_t wanted;       /* (L) of the decoded bytes, until decoding begins */
    uint64_t serial, last; /* of the steps that asked first and last; last: (L) */
    void *decoded;         /* from the pool */
    void *place;           /* (L) where it is decoded instead: in its only row; NULL: it is not */
    const char *reason;    /* (L) of the failure */
    bool optional, up_to;  /* of its need */
    bool absent;           /* (L) */
    bool decoding;         /* (L) begun */
    bool idle;             /* (L) among the idle */
    bool shared;           /* (L) several needs met in it, so more may come */
    bool read_again;       /* (L) for a checksum that did not match: that is tried once */
    const uint8_t *data;   /* in the buffer of the bundle, or a blob of the cache */
    struct stk__bundle *bundle;
    stk__alone *alone;        /* (L) NULL: it was not read by itself */
    stk__need_entry *waiting; /* (L) */
    uint32_t references;      /* (L) needs that have not been used */
    bool arrived;             /* (L) its rows may use it */
    stk_status status;        /* (L) */
    atomic_bool cached;       /* its bytes were offered to the cache */
    stk__unit *next_in_bundle;
    stk__unit *next_in_table;       /* (L) of live units, by range */
    stk__unit *next_to_decode;      /* (L) in the queue, or among the idle */
    uint64_t decode_ns, decoded_ns; /* (L) when it was decoded, from and to; 0: it was not */
};

/* Units that are read together: one buffer, and the range that fills it. */
typedef struct stk__bundle {
    stk__range range; /* first; it is not read where the bytes come from the cache */
    struct stk__units *of;
    uint64_t object;
    char *key; /* kept with the record */
    size_t key_room;
    stk__unit *units;
    uint32_t live_units; /* (L) */
    uint32_t raw_units;  /* (L) units that still need the bytes as they were read */
    struct stk__bundle *next;
} stk__bundle;

enum { STK__UNIT_BUCKETS = 4096 };

struct stk__units {
    stk_context *ctx;
    stk_dataset *dataset;
    stk__ring *ring;
    stk__steps *steps;
    stk__reads *reads;
    const stk__keeping *keeping;
    bool whole; /* units are decoded to their end: neighbours or the cache will want the rest */
    stk__unit *table[STK__UNIT_BUCKETS]; /* (L) live units */
    stk__unit *free_units;               /* (L) */
    stk__bundle *free_bundles;           /* (L) */
    stk__unit *decode_first;             /* (L) to be decoded, by serial */
    stk__unit *decode_last;              /* (L) if there is a first */
    stk__unit *idle;                     /* (L) a row may want them again */
    uint64_t needed_bytes;               /* (L) */
    uint64_t chunks_needed, chunks_decoded, chunk_bytes, chunk_ns; /* (L) */
};

/* Buffers and bundles to be given back with (L) free. */
typedef struct stk__spent {
    stk__bundle *bundles;
    void *buffers; /* of the pool; each begins with the next */
} stk__spent;

void stk__spend(stk__spent *spent, void *buffer);
bool stk__spent_any(const stk__spent *spent);
void stk__spent_free(stk__units *units, stk__spent *spent);
void stk__units_destroy(stk__units *units);

/* ---- Making (unit.c) ---- */

stk__bundle *stk__bundle_new(stk__units *units);
void stk__bundle_free(stk__bundle *bundle);
/* A unit of a bundle that is not published yet, for a need of a row of the step `serial`; NULL: no
 * memory. `data`: its bytes, or where they are read to. */
stk__unit *stk__unit_new(stk__bundle *bundle, const stk_need *need, const void *data,
                         uint64_t serial);
/* One more need for a unit, which waits for it. The unit is not published, or (L) is held. */
void stk__unit_wait(stk__unit *unit, stk__need_entry *entry);
/* From now on rows may find the units of a bundle, and have their slices. (L) held. */
void stk__bundle_publish_locked(stk__bundle *bundle);
/* A unit whose bytes are there, for one need; `cached`: they are the cache's. STK_ENOMEM. (L) free.
 */
stk_status stk__unit_from_memory(stk__units *units, stk__need_entry *entry, const void *blob,
                                 uint64_t size, bool cached);

/* ---- Using (unit.c) ---- */

/* The live unit of a range, if there is one. (L) held. */
bool stk__unit_lives_locked(const stk__units *units, const stk_need *need);
/* Tie a need to the live unit of its range, if there is one. *waits: its row has to wait for it.
 * (L) held. */
bool stk__unit_join_locked(stk__units *units, stk__need_entry *entry, bool *waits);
/* Rows are admitted that have this need: for the figures. (L) held. */
void stk__units_count_locked(stk__units *units, const stk_need *need, uint32_t rows);
/* Give up a reference, and what goes with the last of them. (L) held. */
void stk__unit_unref_locked(stk__unit *unit, stk__spent *spent);
/* When its rows could have been prepared. (L) held. */
uint64_t stk__unit_ready_ns(const stk__unit *unit);
/* Give up idle units: those that no row to come can want; `all`: every one. (L) held. */
void stk__idle_reclaim_locked(stk__units *units, bool all, stk__spent *spent);
/* Keep the bytes of a unit, if they are for the cache and were not offered before. */
void stk__unit_keep(const stk__units *units, stk__unit *unit, const stk_slice *bytes);

/* ---- Decoding (decode.c) ---- */

/* The bytes of a unit were read, or could not be. True: there is work. (L) held. */
bool stk__unit_read_locked(stk__unit *unit, stk_status status);
/* Whether a unit waits to be decoded and can be. (L) held. */
bool stk__decode_left_locked(const stk__units *units);
/* The unit to be decoded next, if it goes before the rows that are ready; begins a task. (L)
 * held. */
stk__unit *stk__decode_take_locked(stk__units *units);
/* Forget those that wait: their steps are given up. (L) held. */
void stk__decode_forget_locked(stk__units *units);
/* Decode it and tell its rows; ends the task. `worker` is the number of the thread, `state` what
 * the dataset keeps for it. (L) free; held at the end. */
void stk__decode_run(stk__unit *unit, uint32_t worker, void *state, stk__doing *doing);

/* ---- Within (unit.c) ---- */

/* Read one unit of a bundle by itself, before all that waits; false when there is no memory to. (L)
 * held; stk__reads_pump() is to follow, but where a range arrives. */
bool stk__unit_read_alone_locked(stk__unit *unit);
/* What the rows of a unit get. */
stk_slice stk__unit_slice(const stk__unit *unit);
/* The bytes of a unit are there and decoded where they have to be, or will not come: tell the rows.
 * True: some row is ready. (L) held. */
bool stk__unit_arrived_locked(stk__unit *unit, stk_status status);
/* From now on none finds it. (L) held. */
void stk__unit_hide_locked(stk__unit *unit);

#endif
