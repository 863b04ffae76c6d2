/* SPDX-License-Identifier: Apache-2.0 */
#define XXH_STATIC_LINKING_ONLY /* states */
#include "dataset/records/shard_hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <xxhash.h>

#include "base/md5.h"
#include "base/sha1.h"
#include "base/sha256.h"
#include "dataset/records/shard.h"

#define PIECE 16384u /* bytes that are hashed at a time */
#define TEXT  STK__SHA256_TEXT

static const struct {
    const char *name;
    stk__shard_hash hash;
    uint8_t digits;
} hashes[] = {
    {"xxh3_128", STK__HASH_XXH3_128, 32},
    {"xxh128", STK__HASH_XXH3_128, 32},
    {"xxh3_64", STK__HASH_XXH3_64, 16},
    {"xxh64", STK__HASH_XXH64, 16},
    {"xxh32", STK__HASH_XXH32, 8},
    {"sha1", STK__HASH_SHA1, STK__SHA1_TEXT - 1},
    {"md5", STK__HASH_MD5, STK__MD5_TEXT - 1},
    {"sha256", STK__HASH_SHA256, STK__SHA256_TEXT - 1},
};

/* One that is on its way. */
typedef struct digest {
    stk__shard_hash hash;
    union {
        XXH3_state_t xxh3;
        XXH64_state_t xxh64;
        XXH32_state_t xxh32;
        stk__sha1 sha1;
        stk__md5 md5;
        stk__sha256 sha256;
    } state;
} digest;

stk__shard_hash stk__shard_hash_find(const char *name)
{
    for (size_t i = 0; i < STK_COUNT(hashes); i++)
        if (strcmp(hashes[i].name, name) == 0)
            return hashes[i].hash;
    return STK__HASH_NONE;
}

const char *stk__shard_hash_name(stk__shard_hash hash)
{
    for (size_t i = 0; i < STK_COUNT(hashes); i++)
        if (hashes[i].hash == hash)
            return hashes[i].name;
    return "none";
}

size_t stk__shard_hash_digits(stk__shard_hash hash)
{
    for (size_t i = 0; i < STK_COUNT(hashes); i++)
        if (hashes[i].hash == hash)
            return hashes[i].digits;
    return 0;
}

static void begin(digest *d)
{
    switch (d->hash) {
    case STK__HASH_XXH3_128:
        XXH3_128bits_reset(&d->state.xxh3);
        break;
    case STK__HASH_XXH3_64:
        XXH3_64bits_reset(&d->state.xxh3);
        break;
    case STK__HASH_XXH64:
        XXH64_reset(&d->state.xxh64, 0);
        break;
    case STK__HASH_XXH32:
        XXH32_reset(&d->state.xxh32, 0);
        break;
    case STK__HASH_SHA1:
        stk__sha1_init(&d->state.sha1);
        break;
    case STK__HASH_MD5:
        stk__md5_init(&d->state.md5);
        break;
    default:
        stk__sha256_init(&d->state.sha256);
    }
}

static void add(digest *d, const void *data, size_t length)
{
    switch (d->hash) {
    case STK__HASH_XXH3_128:
        XXH3_128bits_update(&d->state.xxh3, data, length);
        break;
    case STK__HASH_XXH3_64:
        XXH3_64bits_update(&d->state.xxh3, data, length);
        break;
    case STK__HASH_XXH64:
        XXH64_update(&d->state.xxh64, data, length);
        break;
    case STK__HASH_XXH32:
        XXH32_update(&d->state.xxh32, data, length);
        break;
    case STK__HASH_SHA1:
        stk__sha1_add(&d->state.sha1, data, length);
        break;
    case STK__HASH_MD5:
        stk__md5_add(&d->state.md5, data, length);
        break;
    default:
        stk__sha256_add(&d->state.sha256, data, length);
    }
}

/* As xxhash's and hashlib's hexdigest(). */
static void end(digest *d, char text[TEXT])
{
    uint8_t bytes[STK__SHA256];
    XXH128_hash_t both;

    switch (d->hash) {
    case STK__HASH_XXH3_128:
        both = XXH3_128bits_digest(&d->state.xxh3);
        snprintf(text, TEXT, "%016" PRIx64 "%016" PRIx64, (uint64_t)both.high64,
                 (uint64_t)both.low64);
        break;
    case STK__HASH_XXH3_64:
        snprintf(text, TEXT, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(&d->state.xxh3));
        break;
    case STK__HASH_XXH64:
        snprintf(text, TEXT, "%016" PRIx64, (uint64_t)XXH64_digest(&d->state.xxh64));
        break;
    case STK__HASH_XXH32:
        snprintf(text, TEXT, "%08" PRIx32, (uint32_t)XXH32_digest(&d->state.xxh32));
        break;
    case STK__HASH_SHA1:
        stk__sha1_text(&d->state.sha1, text);
        break;
    case STK__HASH_MD5:
        stk__md5_text(&d->state.md5, text);
        break;
    default:
        stk__sha256_end(&d->state.sha256, bytes);
        stk__sha256_text(bytes, text);
    }
}

stk_status stk__shard_hash_check(stk__shard *shard, stk__shard_hash hash, const char *told,
                                 stk_error *err)
{
    const uint64_t size = stk__shard_size(shard);
    unsigned char piece[PIECE];
    digest d = {.hash = hash};
    char is[TEXT];

    begin(&d);
    for (uint64_t at = 0; at < size;) {
        const size_t n = (size_t)STK_MIN(size - at, sizeof piece);
        STK_TRY(stk__shard_read(shard, at, piece, n, err));
        add(&d, piece, n);
        at += n;
    }
    end(&d, is);
    if (strcmp(is, told) == 0)
        return STK_OK;
    return stk__fail_at(err, STK_ECHECKSUM, STK_STAGE_DATASET, shard->key, STK_NO_OFFSET,
                        "%s: %.200s: its %s is %s, and its index says %s; copy or download it "
                        "again",
                        shard->set->format->ops->name, shard->key, stk__shard_hash_name(hash), is,
                        told);
}
