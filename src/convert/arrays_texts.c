/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements of varying length on their way through a conversion: pointers to texts, whose bytes are
 * held from reading a chunk until it is written. So nothing but the read knows of them.
 */
#include <inttypes.h>

#include "convert/arrays.h"

/* What is held for each element, and for each byte of them: while a chunk is written it is there
 * as it was read, as its codecs get it, as they give it and as it is read back. */
#define OF_ELEMENT (5 * sizeof(stk_array_string))
#define OF_BYTE    8

stk_status stk__arrays_texts_fit(const stk__arrays *run, const stk__arrays_array *a, uint64_t bytes,
                                 stk_error *err)
{
    const stk_array_info *info = stk_array_get_info(a->array);
    const uint64_t most = run->budget - run->budget / 4;
    uint64_t elements = 0;

    if (stk__shape_bytes(info->chunk_shape, info->rank, OF_ELEMENT, &elements) &&
        elements <= most && bytes <= (most - elements) / OF_BYTE)
        return STK_OK;
    return stk__fail_at(err, STK_EBUDGET, STK_STAGE_CONVERT, run->nodes[a->node].path,
                        STK_NO_OFFSET,
                        "a chunk of '%.100s', whose elements vary in length, does not fit "
                        "memory_budget, which is %" PRIu64 " bytes; raise it, or name the other "
                        "arrays with variables",
                        run->nodes[a->node].path, run->budget);
}

stk_status stk__arrays_texts_read(const stk__arrays *run, const stk__arrays_array *a,
                                  const stk_array_box *box, stk_array_string *out,
                                  stk_array_texts **texts, stk_error *err)
{
    stk_array_texts_destroy(texts);
    const stk_status status = stk_array_read_texts(a->array, box, -1, texts, err);
    if (status == STK_EBUDGET)
        return stk__arrays_texts_fit(run, a, UINT64_MAX, err);
    STK_TRY(status);
    const stk_array_texts *t = *texts;
    STK_TRY(stk__arrays_texts_fit(run, a, t->offsets[t->count], err));
    for (uint64_t i = 0; i < t->count; i++)
        out[i] = (stk_array_string){t->values + t->offsets[i], t->offsets[i + 1] - t->offsets[i]};
    return STK_OK;
}
