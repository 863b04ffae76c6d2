/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the fuzz targets of arrays share. What must hold whatever the bytes: no memory of another is
 * touched, a failure has a text, what is read has the size that was promised, nothing is left
 * behind, and no more memory is held than was allowed.
 */
#ifndef STK_FUZZ_ZARR_SUPPORT_H
#define STK_FUZZ_ZARR_SUPPORT_H

#include <stoker/array.h>

#include "fuzz_support.h"

#define ZARR_ELEMENTS 65536 /* of a box that is read */

static inline void zarr_line(void *user, const char *name, const char *value)
{
    FUZZ_CHECK(user && name[0] && value);
}

/* Elements of varying length: each within the bytes that came. */
static inline void zarr_read_texts(stk_array *a, const stk_array_box *box)
{
    stk_array_texts *texts = NULL;
    stk_error err;

    stk_error_init(&err);
    stk_status status = stk_array_read_texts(a, box, -1, &texts, &err);
    FUZZ_CHECK((status == STK_OK) == (texts != NULL));
    if (status != STK_OK)
        FUZZ_CHECK(err.status == status && err.text[0] && status != STK_EINTERNAL);
    for (uint64_t i = 0; texts && i < texts->count; i++) {
        FUZZ_CHECK(texts->offsets[i] <= texts->offsets[i + 1]);
        const stk_array_string one = {texts->values + texts->offsets[i],
                                      texts->offsets[i + 1] - texts->offsets[i]};
        (void)fuzz_sum(one.data, one.length);
        (void)stk_array_value_text(a, &one, NULL, 0);
    }
    stk_array_texts_destroy(&texts);
}

/* A box at the begin or the end of every dimension, of at most ZARR_ELEMENTS. */
static inline void zarr_read(stk_array *a, bool end)
{
    const stk_array_info *info = stk_array_get_info(a);
    int64_t start[STK_ARRAY_MAX_RANK] = {0}, shape[STK_ARRAY_MAX_RANK], step[STK_ARRAY_MAX_RANK];
    uint64_t elements = 1, bytes = 0;
    stk_error err;

    for (uint32_t d = info->rank; d-- > 0;) {
        int64_t room = (int64_t)(ZARR_ELEMENTS / elements), n = info->shape[d];
        shape[d] = n < room ? n : room;
        step[d] = end && shape[d] == 1 ? 3 : 1;
        start[d] = end ? n - shape[d] : 0;
        elements *= shape[d] ? (uint64_t)shape[d] : 1;
    }
    stk_array_box box = {start, shape, step};
    stk_error_init(&err);
    if (!info->itemsize) {
        zarr_read_texts(a, &box);
        return;
    }
    FUZZ_CHECK(stk_array_box_bytes(a, &box, &bytes, &err) == STK_OK);
    FUZZ_CHECK(bytes <= ZARR_ELEMENTS * info->itemsize);
    char *out = malloc(bytes ? bytes : 1);
    stk_status status = stk_array_read(a, &box, out, bytes, NULL, -1, &err);
    if (status == STK_OK)
        (void)fuzz_sum(out, bytes);
    else
        FUZZ_CHECK(err.status == status && err.text[0] && status != STK_EINTERNAL);
    free(out);
}

static inline void zarr_use(stk_array *a)
{
    stk_error err;

    FUZZ_CHECK(stk_array_describe(a, zarr_line, &err, &err) == STK_OK);
    zarr_read(a, false);
    zarr_read(a, true);
    stk_array_close(&a);
}

static inline void zarr_array(stk_context *ctx, const char *url)
{
    stk_array *a = NULL;
    stk_error err;

    stk_error_init(&err);
    if (stk_array_open(ctx, url, NULL, &a, &err) != STK_OK) {
        FUZZ_CHECK(!a && err.status != STK_OK && err.text[0] && err.status != STK_EINTERNAL);
        return;
    }
    zarr_use(a);
}

static inline void zarr_group(stk_context *ctx, const char *url)
{
    stk_group *g = NULL;
    stk_error err;

    stk_error_init(&err);
    if (stk_group_open(ctx, url, &g, &err) != STK_OK) {
        FUZZ_CHECK(!g && err.status != STK_OK && err.text[0] && err.status != STK_EINTERNAL);
        return;
    }
    (void)stk_group_attributes(g);
    for (size_t i = 0; i < 8 && stk_group_node(g, i); i++) {
        stk_array *a = NULL;
        if (stk_group_array(g, stk_group_node(g, i)->path, NULL, &a, &err) == STK_OK)
            zarr_use(a);
    }
    stk_group_close(&g);
}

/* Keep the same bytes under the keys that the first chunks of small arrays have. */
static inline void zarr_put_chunks(stk_store *store, const char *const *keys, const uint8_t *data,
                                   size_t size)
{
    for (; *keys; keys++)
        fuzz_put(store, *keys, data, size);
}

#endif
