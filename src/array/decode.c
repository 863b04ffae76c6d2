/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a need -> elements, and the names of objects. */
#include <stdio.h>

#include "array/room.h"
#include "array/skipping.h"

#define SIZE_PATIENCE_NS UINT64_C(120000000000) /* of asking how long an object is */
#define ENCODED_SLACK    (UINT64_C(64) << 10)   /* bytes: encoders not of here may waste more */

stk_store *stk__array_store(const stk_array *a)
{
    return a->shared->store;
}

const stk__chain *stk__array_chain(const stk_array *a)
{
    return a->chain;
}

bool stk__array_is_copy(const stk_array *a)
{
    return a->as_is || (stk__chain_is_copy(a->chain) && !stk__type_varies(&a->type));
}

bool stk__array_is_plain(const stk_array *a)
{
    return a->manifest != STK__MANIFEST_READ && stk__array_is_copy(a) &&
           !(a->type.big_endian && a->type.swap_size > 1);
}

bool stk__array_is_run(const stk_array *a, uint64_t *offset)
{
    *offset = a->object_offset;
    return a->manifest == STK__MANIFEST_ONE && stk__array_is_plain(a) &&
           (!a->fortran || a->rank < 2);
}

bool stk__array_fills(const stk_array *a)
{
    return a->options.missing == 0;
}

bool stk__array_is_located(const stk_array *a)
{
    return a->manifest == STK__MANIFEST_PLACES;
}

size_t stk__array_key(const stk_array *a, uint64_t object, char *key, size_t size)
{
    const stk__level *level = &a->levels[0];
    int64_t at[STK_ARRAY_MAX_RANK];

    if (a->manifest == STK__MANIFEST_ONE || a->manifest == STK__MANIFEST_PLACES)
        return (size_t)snprintf(key, size, "%s",
                                a->objects && object < a->num_objects ? a->objects[object]
                                                                      : a->object_key);
    for (uint32_t d = a->rank; d-- > 0;) {
        at[d] = (int64_t)(object % (uint64_t)level->count[d]);
        object /= (uint64_t)level->count[d];
    }
    size_t n = (size_t)snprintf(key, size, "%s%s", a->prefix, a->key_c ? "c" : "");
    if (!a->key_c && a->rank == 0)
        n += (size_t)snprintf(key + STK_MIN(n, size), size - STK_MIN(n, size), "0");
    for (uint32_t d = 0; d < a->rank; d++) {
        bool first = d == 0 && !a->key_c;
        n += (size_t)snprintf(key + STK_MIN(n, size), size - STK_MIN(n, size),
                              first ? "%.0s%lld" : "%.1s%lld", &a->separator, (long long)at[d]);
    }
    return n;
}

bool stk__array_key_parse(const stk_array *a, const char *key, int64_t *at, uint64_t *number)
{
    const stk__level *level = &a->levels[0];

    *number = 0;
    if (a->key_c && *key++ != 'c')
        return false;
    if (a->rank == 0)
        return a->key_c ? !*key : !strcmp(key, "0");
    for (uint32_t d = 0; d < a->rank; d++) {
        if ((d || a->key_c) && *key++ != a->separator)
            return false;
        const char *begin = key;
        for (at[d] = 0; *key >= '0' && *key <= '9'; key++)
            if (__builtin_mul_overflow(at[d], 10, &at[d]) ||
                __builtin_add_overflow(at[d], *key - '0', &at[d]))
                return false;
        if (key == begin || at[d] >= level->count[d])
            return false;
        *number = *number * (uint64_t)level->count[d] + (uint64_t)at[d];
    }
    return !*key;
}

uint64_t stk__array_most_encoded(const stk_array *a)
{
    stk_store_limits limits;

    if (a->num_levels != 1 || a->manifest != STK__MANIFEST_KEYS || !a->chain ||
        stk__type_varies(&a->type) || stk__array_is_copy(a) || stk__array_has_parts(a))
        return 0;
    /* What gives the end of an object without its length asks for lengths by requests; elsewhere
     * that costs little. */
    stk__store_limits(stk__array_store(a), &limits);
    const uint64_t bound = stk__chain_bound(a->chain), most = bound + bound / 8 + ENCODED_SLACK;
    return limits.ends && (!limits.max_read || most <= limits.max_read) ? most : 0;
}

stk_status stk__array_object_size(const stk_array *a, uint64_t object, uint64_t *size,
                                  stk_error *err)
{
    const stk_store_call call = {
        .struct_size = sizeof call, .deadline_ns = stk__now_ns() + SIZE_PATIENCE_NS, .bare = true};
    stk_object_info info = {.struct_size = sizeof info};
    char key[STK_MAX_OBJECT_KEY];

    if (a->manifest == STK__MANIFEST_ONE) {
        *size = a->object_size;
        return STK_OK;
    }
    stk__array_key(a, object, key, sizeof key);
    STK_TRY(stk_store_stat(stk__array_store(a), key, &call, &info, err));
    if (info.is_folder)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s is a folder where a chunk belongs", key);
    *size = info.size;
    return STK_OK;
}

#define SWAP_ITEMS(type, swap)                                                                     \
    for (uint64_t i = 0; i < bytes; i += sizeof(type)) {                                           \
        type v;                                                                                    \
        memcpy(&v, from + i, sizeof v);                                                            \
        v = swap(v);                                                                               \
        memcpy(to + i, &v, sizeof v);                                                              \
    }                                                                                              \
    break

/* Elements that are stored as they are, but for the order of their bytes. `from` may be `to`. */
static void copy_plain(const stk_array *a, const char *from, char *to, uint64_t bytes)
{
    switch (a->type.big_endian ? a->type.swap_size : 1) {
    case 2:
        SWAP_ITEMS(uint16_t, __builtin_bswap16);
    case 4:
        SWAP_ITEMS(uint32_t, __builtin_bswap32);
    case 8:
        SWAP_ITEMS(uint64_t, __builtin_bswap64);
    default:
        if (from != to)
            memcpy(to, from, bytes);
    }
}

bool stk__array_has_parts(const stk_array *a)
{
    return a->parts;
}

stk_status stk__array_decode(const stk_array *a, stk__codec_state *state, const stk__need *need,
                             const void *data, uint64_t length, void *out, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY];
    const char *reason = "";

    if (stk__array_is_copy(a)) {
        if (length == need->decode_size) {
            copy_plain(a, data, out, length);
            return STK_OK;
        }
        reason = "it has another number of bytes than its shape asks for; copy it again";
    }
    const stk_array *part = a->parts ? a->parts[need->object] : a, *by = part->chain ? part : a;
    const stk__chain *chain = by->chain;
    const uint64_t size = a->parts ? stk__chain_size(chain) : need->decode_size;
    stk_status status = *reason ? STK_EFORMAT : STK_OK;
    if (status == STK_OK && need->skipped)
        status = stk__skipping_chain(by->skipping, need->skipped, &chain, &reason);
    if (status == STK_OK)
        status = stk__chain_decode(chain, state, data, length, out, size, &reason);
    if (status == STK_OK)
        return STK_OK;
    stk__array_key(a, need->object, key, sizeof key);
    return stk__fail_at(err, status, STK_STAGE_ARRAY, key, need->offset,
                        "%s: the chunk of %llu bytes at byte %llu, which holds %llu decoded: %s",
                        key, (unsigned long long)length, (unsigned long long)need->offset,
                        (unsigned long long)size, reason);
}
