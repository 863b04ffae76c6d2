/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/keep.h"

bool stk__keeps_samples(const stk__keeping *k)
{
    return k->cache && !k->ranges;
}

bool stk__keeps_need(const stk__keeping *k, uint64_t decoded)
{
    return k->cache && k->ranges && !(k->encoded && decoded);
}

bool stk__kept_need(const stk__keeping *k, const stk_need *need, stk_slice *slice)
{
    uint64_t size;

    if (need->length == 0)
        return true;
    if (!stk__keeps_need(k, need->decoded))
        return false;
    const void *blob = stk__cache_get(k->cache, need->object, need->offset, &size);
    if (blob && size == 0 && need->optional) {
        *slice = (stk_slice){.data = NULL, .size = 0};
        return true;
    }
    /* What begins there may be longer. */
    const uint64_t wanted = need->decoded ? need->decoded : need->length;
    if (!blob || size < wanted)
        return false;
    *slice = (stk_slice){.data = blob, .size = wanted};
    return true;
}

const void *stk__kept_bytes(const stk__keeping *k, const stk_need *need, uint64_t *size)
{
    if (!need->decoded || !k->cache || !k->encoded)
        return NULL;
    const void *blob = stk__cache_get(k->cache, need->object, need->offset, size);
    const bool whole = blob && (*size == need->length || (need->up_to && *size < need->length));
    return whole ? blob : NULL;
}
