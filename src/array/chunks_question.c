/* SPDX-License-Identifier: Apache-2.0 */
/* An array and windows of it -> the question of the chunks that suit them. */
#include "array/chunks_advise.h"
#include "array/room.h"
#include "base/sized.h"

/* The preset that is like the store that an array was opened in. */
static stk_status like(const stk_array *array, stk_chunks_store *out, stk_error *err)
{
    stk_store_limits limits = {.struct_size = sizeof limits};
    const stk_chunks_store *preset;

    stk__store_limits(stk__array_home(array), &limits);
    STK_TRY(stk_chunks_store_find(limits.coalesce_gap >= STK__ARRAY_FAR_GAP ? "s3" : "ssd", &preset,
                                  err));
    *out = *preset;
    return STK_OK;
}

/* Bytes of the values in chunks that are there / their stored bytes; 1: not known. */
static double ratio_of(stk_array *array)
{
    stk_array_stored stored = {.struct_size = sizeof stored};

    if (stk_array_get_info(array)->num_objects > STK_CHUNKS_LISTED ||
        stk_array_stored_count(array, &stored, NULL) != STK_OK || !stored.bytes || !stored.values)
        return 1;
    return (double)stored.values / (double)stored.bytes;
}

stk_status stk_chunks_question_of(stk_array *array, const int64_t *window, const int64_t *stride,
                                  const stk_chunks_store *store, stk_chunks_question *out,
                                  stk_error *err)
{
    stk_chunks_question q;

    if (!array || !window || !out)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "stk_chunks_question_of: an argument is NULL");
    STK_TRY(stk__sized_check(out, "stk_chunks_question", STK_STAGE_ARRAY, err));
    const stk_array_info *info = stk_array_get_info(array);
    if (info->rank < 1 || info->rank > STK_MAX_RANK || info->bytes == 0)
        return stk__fail(err, STK_EKIND, STK_STAGE_ARRAY,
                         "the array has %u axes and %llu bytes; windows are cut out of arrays of 1 "
                         "to %d axes that hold something",
                         info->rank, (unsigned long long)info->bytes, STK_MAX_RANK);
    stk_chunks_question_init(&q);
    q.rank = info->rank;
    q.itemsize = info->itemsize;
    for (uint32_t d = 0; d < info->rank; d++) {
        q.window[d] = window[d];
        q.stride[d] = stride ? stride[d] : 1;
        q.extent[d] = info->shape[d];
    }
    if (store)
        q.store = *store;
    else
        STK_TRY(like(array, &q.store, err));
    STK_TRY(stk__chunks_check(&q, true, err));
    q.ratio = STK_MIN(STK_MAX(ratio_of(array), STK__CHUNKS_MIN_RATIO), STK__CHUNKS_MAX_RATIO);
    stk__sized_write(out, &q);
    return STK_OK;
}
