/* ranges that rows need -> their bytes, read and decoded once */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_LOADER_UNITS_H
#define STK_SRC_LOADER_UNITS_H

#include <stoker/loader.h>

#include "base/base.h"
#include "dataset/dataset.h"
#include "loader/reads.h"

typedef struct stk__need_entry stk__need_entry;
typedef struct stk__unit stk__unit;
typedef struct stk__worker stk__worker;

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
    uint64_t decoded_size; /* 0: not decoded */
    uint64_t wanted;       /* (L) of the decoded bytes, until decoding begins */
    uint64_t serial, last; /* of the steps that asked first and last; last: (L) */
    void *decoded;         /* from the pool */
    void *place;           /* (L) where it is decoded instead: in its only row; NULL: it is not */
    const char *reason;    /* (L) of the failure */
    bool optional, absent; /* absent: (L) */
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
    stk__range range; /* first; no store where the bytes come from the cache */
    stk_loader *loader;
    uint64_t object;
    char *key; /* kept with the record */
    size_t key_room;
    stk__unit *units;
    uint32_t live_units; /* (L) */
    uint32_t raw_units;  /* (L) units that still need the bytes as they were read */
    struct stk__bundle *next;
} stk__bundle;

enum { STK__UNIT_BUCKETS = 4096 };

typedef struct stk__units {
    stk__unit *table[STK__UNIT_BUCKETS]; /* (L) live units */
    stk__unit *free_units;               /* (L) */
    stk__bundle *free_bundles;           /* (L) */
    stk__unit *decode_first;             /* (L) units to be decoded, by serial */
    stk__unit *decode_last;              /* (L) where there is a first */
    stk__unit *idle;                     /* (L) decoded units that a row to come may want */
    uint64_t needed_bytes;               /* (L) */
    uint64_t chunks_needed, chunks_decoded, chunk_bytes, chunk_ns; /* (L) */
} stk__units;

/* Buffers and bundles to be given back with (L) free. */
typedef struct stk__spent {
    stk__bundle *bundles;
    void *buffers; /* of the pool; each begins with the next */
} stk__spent;

void stk__spend(stk__spent *spent, void *buffer);
void stk__spent_free(stk_loader *loader, stk__spent *spent);

/* ---- Units (unit.c) ---- */

/* The live unit of a range with one more reference, or NULL. (L) held. */
stk__unit *stk__unit_find_locked(stk__units *units, const stk_need *need);
/* Give up a reference, and what goes with the last of them. (L) held. */
void stk__unit_unref_locked(stk_loader *loader, stk__unit *unit, stk__spent *spent);
void stk__bundle_free(stk_loader *loader, stk__bundle *bundle);
/* Read one unit of a bundle by itself, before all that waits; false when there is no memory to. (L)
 * held; stk__reads_pump() is to follow. */
bool stk__unit_read_alone_locked(stk_loader *loader, stk__unit *unit);
/* What the rows of a unit get. */
stk_slice stk__unit_slice(const stk__unit *unit);
/* The bytes of a unit are there and decoded where they have to be, or will not come: tell the rows.
 * True: some row is ready. (L) held. */
bool stk__unit_arrived_locked(stk__unit *unit, stk_status status);
/* Let rows find a unit. (L) held. */
void stk__unit_publish_locked(stk__units *units, stk__unit *unit);
/* From now on none finds it. (L) held. */
void stk__unit_hide_locked(stk__units *units, stk__unit *unit);
stk__unit *stk__unit_new(stk_loader *loader);
stk__bundle *stk__bundle_new(stk_loader *loader);
void stk__units_destroy(stk_loader *loader);
/* The unit leaves the table, and its bundle when it was the last of it. (L) held. */
void stk__unit_retire_locked(stk__units *units, stk__unit *unit, stk__spent *spent);

/* ---- Decoding what rows share (decode.c) ---- */

/* Whether the cache keeps samples as they were decoded: of a dataset that decodes it keeps what
 * decode() gave. */
bool stk__caches_samples(const stk_loader *loader);
/* Whether the cache is for needs as this one. */
bool stk__need_kept(const stk_loader *loader, uint64_t decoded);
/* Whether a need is already in the cache; its slice then says where. */
bool stk__need_cached(stk_loader *loader, const stk_need *need, stk_slice *slice);
/* Bytes of the pool that a need takes at most: as if nothing were in the cache or under way. */
uint64_t stk__need_most(const stk_need *need);
/* Bytes of the pool that a need takes. */
uint64_t stk__need_cost(stk_loader *loader, const stk_need *need);
/* The planner's table of the wants of a round: whether one of them is of the same range. */
stk_status stk__round_grow(stk_loader *loader);
bool stk__round_shares(stk_loader *loader, const stk_need *need);
void stk__round_add(stk_loader *loader, uint32_t want);
/* Turn wants whose bytes are in the cache as they were read into units; the others stay. */
void stk__round_from_cache(stk_loader *loader);
/* Prepare a new unit for its decoding. STK_ENOMEM. */
stk_status stk__unit_set_need(stk_loader *loader, stk__unit *unit, const stk_need *need,
                              uint64_t serial);
/* One more need for a unit, of a row of the step `serial`. */
void stk__unit_widen(stk_loader *loader, stk__unit *unit, const stk_need *need, uint64_t serial);
/* Keep a unit that no row uses any more, where one within the horizon may want it that is not
 * planned yet. (L) held. */
bool stk__unit_idles_locked(stk_loader *loader, stk__unit *unit);
/* Give up idle units: those that no row to come can want; `all`: every one. (L) held. */
void stk__idle_reclaim_locked(stk_loader *loader, bool all, stk__spent *spent);
/* The bytes of a unit were read, or could not be. True: there is work for a worker. (L) held. */
bool stk__unit_read_locked(stk_loader *loader, stk__unit *unit, stk_status status);
/* The unit to be decoded next; one that is to be decoded in its slab waits for that. (L) held. */
stk__unit *stk__decode_next_locked(const stk_loader *loader);
/* The same, if it goes before the rows that are ready; counts as a task. (L)
 * held. */
stk__unit *stk__decode_take_locked(stk_loader *loader);
/* Decode it and tell its rows. (L) free; held at the end. */
void stk__decode_run(stk_loader *loader, stk__worker *worker, stk__unit *unit);

#endif
