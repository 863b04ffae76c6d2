/* one shard, while it is scanned -> where its records lie */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_RECORDS_SHARD_H
#define STK_SRC_DATASET_RECORDS_SHARD_H

#include "dataset/records/records.h"

/* What a scan found. */
typedef struct stk__shard_found {
    uint32_t *starts; /* of each record its first part, counted in the shard */
    stk__record_part *parts;
    char *kinds; /* names of the kinds, each ended by a zero */
    size_t num_records, starts_room, num_parts, parts_room, kinds_bytes, kinds_room;
    uint32_t num_kinds;
    uint64_t print;
} stk__shard_found;

struct stk__shard {
    const stk__records *set;
    uint64_t number, size;
    const char *key;
    stk_store *store;
    unsigned char *window; /* `length` bytes of the shard from `at` on; room for `most` */
    uint64_t at, length;
    uint64_t next;              /* bytes of the next window */
    uint64_t least, most, near; /* bytes of a window; forward by so much it still reads on */
    stk__shard_found found;
    uint32_t last_kind;
    uint64_t power;    /* what the print of the record's place is multiplied by */
    atomic_bool *told; /* of all shards: that what lies beside one is not used */
};

/* Begin: the window is taken. Ended by stk__shard_end(), which leaves `found`. */
stk_status stk__shard_begin(stk__shard *shard, const stk__records *set, uint64_t number,
                            stk_error *err);
/* After scan(): the last record is whole. */
stk_status stk__shard_finish(stk__shard *shard, stk_error *err);
/* Forget the records, to scan from the first byte again. */
void stk__shard_again(stk__shard *shard);
void stk__shard_end(stk__shard *shard);
void stk__shard_found_release(stk_context *ctx, stk__shard_found *found);
/* Bytes of a window at most, of shards of this store. */
uint64_t stk__shard_window(stk_store *store);

#endif
