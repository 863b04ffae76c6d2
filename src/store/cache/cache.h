/* a store, a folder of this machine -> its bytes, of which those that were read are kept there */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_CACHE_CACHE_H
#define STK_SRC_STORE_CACHE_CACHE_H

#include <sys/stat.h>
#include <xxhash.h>

#include "store/store.h"

typedef struct stk__cache_options {
    uint32_t struct_size;
    const char *dir;
    uint64_t size, block; /* bytes; block 0: by the size of each object */
} stk__cache_options;

extern const stk_option_table stk__cache_option_table;

/* ---- Layout (layout.c): pure ----------------------------------------------------------------- */

/*
 * An object of the store below is one file, whose name is a function of all that its bytes depend
 * on: store, key, size, identity and size of a block. It is
 *
 *   a head of STK__CACHE_HEAD bytes, which says the same;
 *   a table of 64-bit sums, one for each block, 0: the block is not there;
 *   from the next multiple of STK__CACHE_ALIGN on the bytes of the object, where they are there.
 *
 * A block is written first and its sum after; nothing is believed that does not have its sum. Sums
 * are seeded by the name and the number of the block, so that a block of another object, or one
 * that was moved, has none.
 */
#define STK__CACHE_HEAD  64
#define STK__CACHE_ALIGN 4096
#define STK__CACHE_NAME  72 /* bytes of "STORE/KK/KEY-IDENTITY" with its end */
#define STK__CACHE_OWN                                                                             \
    "stoker-cache-1" /* the folder in `dir`; its number is that of the layout                      \
                      */

/* What is known of an object below. */
typedef struct stk__cache_id {
    XXH128_hash_t key;       /* hash of its key */
    uint64_t size, identity; /* 0: it has none, and is not kept */
    uint32_t round;          /* in which it was read last */
} stk__cache_id;

/* Where it is kept. */
typedef struct stk__cache_place {
    uint64_t size, identity, store;
    uint64_t blocks, block; /* their number; bytes of one */
    uint64_t data_at;       /* of the file: where its bytes begin */
    uint64_t seed;
    char name[STK__CACHE_NAME];
} stk__cache_place;

/* `block` 0: by the size. False: it cannot be kept, as it is too large for a file. */
bool stk__cache_place_of(uint64_t store, const stk__cache_id *id, uint64_t block,
                         stk__cache_place *out);
/* Bytes of blocks [first, first + count), of which the last may be short. */
static inline uint64_t stk__cache_run_bytes(const stk__cache_place *p, uint64_t first,
                                            uint64_t count)
{
    return STK_MIN(count * p->block, p->size - first * p->block);
}
/* Never 0. */
uint64_t stk__cache_sum(const stk__cache_place *p, uint64_t number, const void *data);
/* How many of `count` blocks from `number` on have the sums that are said. */
uint64_t stk__cache_sums_right(const stk__cache_place *p, uint64_t number, uint64_t count,
                               const void *data, const uint64_t *sums);
void stk__cache_head_write(const stk__cache_place *p, uint8_t head[STK__CACHE_HEAD]);
/* Whether these bytes are the head of this object's file. */
bool stk__cache_head_right(const stk__cache_place *p, const uint8_t head[STK__CACHE_HEAD]);
/* Take a name "KEY-IDENTITY" apart. False: it is none of ours. */
bool stk__cache_name_parse(const char *name, XXH128_hash_t *key, uint64_t *identity);

/* ---- What is known of objects below (identities.c) --------------------------------------------
 */

typedef struct stk__cache_ids {
    stk__cache_id *table; /* open addressing; a key of zeros: free */
    size_t room, count;
    uint64_t bytes; /* sizes of all together */
} stk__cache_ids;

XXH128_hash_t stk__cache_key(const char *key);
stk__cache_id *stk__cache_ids_find(const stk__cache_ids *ids, XXH128_hash_t key);
/* Without memory it is not remembered. *old: what was known before, or zeros. */
void stk__cache_ids_set(stk_context *ctx, stk__cache_ids *ids, const stk__cache_id *id,
                        stk__cache_id *old);
void stk__cache_ids_forget(stk__cache_ids *ids, XXH128_hash_t key);

#endif
