/* the bytes of a shard -> whether they have the hash that its writer noted */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_RECORDS_SHARD_HASH_H
#define STK_SRC_DATASET_RECORDS_SHARD_HASH_H

#include "dataset/records/records.h"

typedef enum stk__shard_hash {
    STK__HASH_NONE, /* the enum is 0 where nothing is known */
    STK__HASH_XXH3_128,
    STK__HASH_XXH3_64,
    STK__HASH_XXH64,
    STK__HASH_XXH32,
    STK__HASH_SHA1,
    STK__HASH_MD5,
    STK__HASH_SHA256,
    STK__HASHES
} stk__shard_hash;

#define STK__SHARD_HASHES "xxh3_128, xxh128, xxh3_64, xxh64, xxh32, sha1, md5, sha256"

/* One by its name in Python's hashlib or xxhash, the fastest first; NONE: another one. */
stk__shard_hash stk__shard_hash_find(const char *name);
const char *stk__shard_hash_name(stk__shard_hash hash);
/* Hexadecimal digits of it. */
size_t stk__shard_hash_digits(stk__shard_hash hash);
/* Read all of a shard: STK_ECHECKSUM where its hash is not `told`, in small hexadecimal digits.
 * Blocks. */
stk_status stk__shard_hash_check(stk__shard *shard, stk__shard_hash hash, const char *told,
                                 stk_error *err);

#endif
