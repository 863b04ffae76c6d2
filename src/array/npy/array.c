/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that are one run of elements in one file: npy with its header, raw with options. */
#include <stdio.h>
#include <stdlib.h>

#include "array/array.h"
#include "array/npy/npy.h"
#include "array/type.h"
#include "base/npy_head.h"

static stk_status find_file(const stk_array_opening *opening, uint64_t *size, stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};

    if (!*opening->key)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_ARRAY, opening->key, STK_NO_OFFSET,
                            "'%.300s' is a folder; name the file of the array", opening->url);
    STK_TRY(stk_store_stat(opening->store, opening->key, NULL, &info, err));
    *size = info.size;
    return STK_OK;
}

/* ---- npy ---- */

static int npy_recognise(stk_store *store, const char *key)
{
    unsigned char head[6];

    if (!*key || stk_store_read(store, key, 0, sizeof head, head, NULL) != STK_OK)
        return 0;
    return stk__npy_begins(head, sizeof head) ? 2 : 0;
}

static stk_status read_header(const stk_array_opening *opening, stk__npy_header *h, stk_error *err)
{
    stk_context *ctx = opening->store->context;
    unsigned char start[STK_NPY_PREAMBLE];
    uint64_t size = 0, bytes = 0;

    STK_TRY(find_file(opening, &size, err));
    const uint64_t length = STK_MIN(size, sizeof start);
    STK_TRY(stk_store_read(opening->store, opening->key, 0, length, start, err));
    STK_TRY(stk__npy_measure(start, length, size, opening->key, &bytes, err));
    char *header = stk__alloc(ctx, bytes);
    if (!header)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_ARRAY, opening->key, STK_NO_OFFSET,
                            "no memory to open the array %.200s", opening->key);
    stk_status status = stk_store_read(opening->store, opening->key, 0, bytes, header, err);
    if (status == STK_OK)
        status = stk__npy_parse(header, bytes, size, opening->array_options->allow_trailing,
                                opening->key, h, err);
    stk__free(ctx, header);
    return status;
}

static stk_status npy_open(stk_array *a, const stk_array_opening *opening, stk_error *err)
{
    stk_array_layout layout = {.struct_size = sizeof layout};
    char type[32];
    stk__npy_header h;

    STK_TRY(read_header(opening, &h, err));
    snprintf(type, sizeof type, "%c%s", h.swap ? '>' : '<', stk_dtype_name(h.dtype));
    layout.type_name = type;
    layout.rank = h.rank;
    layout.shape = h.shape;
    layout.offset = h.offset;
    layout.fortran = h.fortran;
    return stk_array_lay_out(a, &layout, err);
}

const stk_array_format_ops stk__array_npy = {
    .struct_size = sizeof(stk_array_format_ops),
    .name = "npy",
    .doc = "NumPy files, versions 1 to 3",
    .recognise = npy_recognise,
    .open = npy_open,
};

/* ---- raw ---- */

static int raw_recognise(stk_store *store, const char *key)
{
    (void)store, (void)key;
    return 0;
}

static stk_status bad_shape(const char *text, stk_error *err)
{
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "shape", STK_NO_OFFSET,
                        "array.shape: '%.80s' is no shape; write it as 512x512, one dimension may "
                        "be -1",
                        text);
}

/* "512x-1x3": *open_dimension is the one that is -1, or the rank. */
static stk_status parse_shape(const char *text, int64_t shape[STK_ARRAY_MAX_RANK], uint32_t *rank,
                              uint32_t *open_dimension, stk_error *err)
{
    const char *at = text;
    bool open = false;

    for (*rank = 0;; at++) {
        char *end;
        if (*rank == STK_ARRAY_MAX_RANK || ((*at < '0' || *at > '9') && *at != '-'))
            return bad_shape(text, err);
        long long n = strtoll(at, &end, 10);
        if (end == at || n < -1 || (n == -1 && open) || n == INT64_MAX)
            return bad_shape(text, err);
        if (n == -1) {
            *open_dimension = *rank;
            open = true;
        }
        shape[(*rank)++] = n;
        at = end;
        if (*at != 'x' && *at != ',')
            break;
    }
    if (!open)
        *open_dimension = *rank;
    return *at ? bad_shape(text, err) : STK_OK;
}

static stk_status raw_shape(const stk_array_opening *opening, uint64_t size, uint32_t itemsize,
                            int64_t shape[STK_ARRAY_MAX_RANK], uint32_t *rank, stk_error *err)
{
    const stk_array_options *o = opening->array_options;
    const char *key = opening->key;
    uint64_t room = size - o->offset, rest = itemsize, bytes = 0;
    uint32_t open = 0;

    *rank = 1;
    shape[0] = -1;
    if (o->shape)
        STK_TRY(parse_shape(o->shape, shape, rank, &open, err));
    if (open < *rank) {
        shape[open] = 1;
        if (!stk__shape_bytes(shape, *rank, itemsize, &rest))
            return bad_shape(o->shape, err);
        if (rest == 0 || (room % rest != 0 && !o->allow_trailing))
            return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, size,
                                "%s has %llu bytes behind the offset, which is no multiple of "
                                "%llu; give shape and dtype as they are, or allow_trailing=true",
                                key, (unsigned long long)room, (unsigned long long)rest);
        shape[open] = (int64_t)(room / rest);
    }
    if (!stk__shape_bytes(shape, *rank, itemsize, &bytes))
        return bad_shape(o->shape, err);
    if (bytes > room || (bytes < room && !o->allow_trailing))
        return stk__fail_at(err, bytes > room ? STK_ETRUNCATED : STK_EFORMAT, STK_STAGE_ARRAY, key,
                            size,
                            "%s has %llu bytes behind the offset where shape and dtype ask for "
                            "%llu; give them as they are%s",
                            key, (unsigned long long)room, (unsigned long long)bytes,
                            bytes < room ? ", or allow_trailing=true" : "");
    return STK_OK;
}

static stk_status raw_open(stk_array *a, const stk_array_opening *opening, stk_error *err)
{
    const stk_array_options *o = opening->array_options;
    stk_array_layout layout = {.struct_size = sizeof layout, .type_name = o->dtype};
    int64_t shape[STK_ARRAY_MAX_RANK];
    const char *key = opening->key;
    stk__type type;
    uint64_t size = 0;

    STK_TRY(find_file(opening, &size, err));
    if (!o->dtype)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "dtype", STK_NO_OFFSET,
                            "array.dtype: a raw file does not say what it holds; give dtype=TYPE");
    STK_TRY(stk__type_numpy(o->dtype, key, &type, err));
    if (o->offset > size)
        return stk__fail_at(err, STK_ETRUNCATED, STK_STAGE_ARRAY, key, size,
                            "%s has %llu bytes, and offset is %llu", key, (unsigned long long)size,
                            (unsigned long long)o->offset);
    STK_TRY(raw_shape(opening, size, type.itemsize, shape, &layout.rank, err));
    layout.shape = shape;
    layout.offset = o->offset;
    layout.fortran = o->order == 1;
    return stk_array_lay_out(a, &layout, err);
}

const stk_array_format_ops stk__array_raw = {
    .struct_size = sizeof(stk_array_format_ops),
    .name = "raw",
    .doc = "Elements in one file, of the type and shape that are told",
    .recognise = raw_recognise,
    .open = raw_open,
};
