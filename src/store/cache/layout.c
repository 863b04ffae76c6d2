/* SPDX-License-Identifier: Apache-2.0 */
/* The file of an object in a cache: its name, head, table and sums. */
#include "store/cache/cache.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/digits.h"

#define MAGIC       UINT64_C(0x314548434b4f5453) /* "STOKCHE1" */
#define SMALL_BLOCK (UINT64_C(16) << 10)
#define LARGE_BLOCK (UINT64_C(64) << 10)
#define LARGE       (UINT64_C(1) << 30)          /* bytes of an object with large blocks */
#define STEP        UINT64_C(0x9e3779b97f4a7c15) /* between the seeds of neighbouring blocks */
#define MOST        ((uint64_t)INT64_MAX / 2)    /* bytes of an object that has a file */

bool stk__cache_place_of(uint64_t store, const stk__cache_id *id, uint64_t block,
                         stk__cache_place *out)
{
    *out = (stk__cache_place){.size = id->size, .identity = id->identity, .store = store};
    if (id->size > MOST || !id->identity)
        return false;
    out->block = block ? block : id->size < LARGE ? SMALL_BLOCK : LARGE_BLOCK;
    out->blocks = stk__divide_up(id->size, out->block);
    out->data_at = stk__round_up(STK__CACHE_HEAD + out->blocks * 8, STK__CACHE_ALIGN);
    const uint64_t all[] = {store,    id->key.high64, id->key.low64,
                            id->size, id->identity,   out->block};
    out->seed = XXH3_64bits(all, sizeof all);
    snprintf(out->name, sizeof out->name,
             "%016" PRIx64 "/%02x/%016" PRIx64 "%016" PRIx64 "-%016" PRIx64, store,
             (unsigned)(id->key.high64 >> 56), (uint64_t)id->key.high64, (uint64_t)id->key.low64,
             out->seed);
    return true;
}

uint64_t stk__cache_sum(const stk__cache_place *p, uint64_t number, const void *data)
{
    const uint64_t sum =
        XXH3_64bits_withSeed(data, stk__cache_run_bytes(p, number, 1), p->seed + number * STEP);

    return sum ? sum : 1;
}

uint64_t stk__cache_sums_right(const stk__cache_place *p, uint64_t number, uint64_t count,
                               const void *data, const uint64_t *sums)
{
    const uint8_t *at = data;
    uint64_t i = 0;

    for (; i < count && sums[i] && sums[i] == stk__cache_sum(p, number + i, at); i++)
        at += p->block;
    return i;
}

void stk__cache_head_write(const stk__cache_place *p, uint8_t head[STK__CACHE_HEAD])
{
    uint64_t words[STK__CACHE_HEAD / 8] = {MAGIC,    p->size,   p->identity, p->block,
                                           p->store, p->blocks, p->seed};

    words[7] = XXH3_64bits(words, sizeof words - 8);
    memcpy(head, words, sizeof words);
}

bool stk__cache_head_right(const stk__cache_place *p, const uint8_t head[STK__CACHE_HEAD])
{
    uint8_t right[STK__CACHE_HEAD];

    stk__cache_head_write(p, right);
    return memcmp(head, right, sizeof right) == 0;
}

bool stk__cache_name_parse(const char *name, XXH128_hash_t *key, uint64_t *identity)
{
    uint64_t high, low;

    if (strlen(name) != 49 || name[32] != '-' || !stk__hex_number(name, 16, &high) ||
        !stk__hex_number(name + 16, 16, &low) || !stk__hex_number(name + 33, 16, identity))
        return false;
    *key = (XXH128_hash_t){.low64 = low, .high64 = high};
    return true;
}
