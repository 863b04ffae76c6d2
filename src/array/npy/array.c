/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that are one run of elements in one file: npy with its header, raw with options. */
#include <stdlib.h>

#include "array/npy/npy.h"
#include "array/room.h"
#include "array/zarr.h"

static stk_status find_file(stk_array *a, const char *key, stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};

    a->metadata_key = stk__strdup(a->context, key);
    if (!a->metadata_key)
        return stk__array_no_memory(a, err);
    STK_TRY(stk_store_stat(a->shared->store, key, NULL, &info, err));
    a->object_size = info.size;
    return STK_OK;
}

/* ---- npy ---- */

static int npy_recognise(stk_store *store, const char *key)
{
    static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
    unsigned char head[sizeof magic];

    if (!*key || stk_store_read(store, key, 0, sizeof head, head, NULL) != STK_OK)
        return 0;
    return memcmp(head, magic, sizeof magic) == 0 ? 2 : 0;
}

static stk_status read_header(stk_array *a, const char *key, stk__npy_header *h, stk_error *err)
{
    unsigned char start[STK_NPY_PREAMBLE];
    uint64_t length = STK_MIN(a->object_size, sizeof start), bytes = 0;

    STK_TRY(stk_store_read(a->shared->store, key, 0, length, start, err));
    STK_TRY(stk__npy_measure(start, length, a->object_size, key, &bytes, err));
    char *header = stk__alloc(a->context, bytes);
    if (!header)
        return stk__array_no_memory(a, err);
    stk_status status = stk_store_read(a->shared->store, key, 0, bytes, header, err);
    if (status == STK_OK)
        status =
            stk__npy_parse(header, bytes, a->object_size, a->options.allow_trailing, key, h, err);
    stk__free(a->context, header);
    return status;
}

static stk_status npy_open(stk_array *a, const char *key, stk_error *err)
{
    stk__npy_header h;

    a->format = "npy";
    STK_TRY(find_file(a, key, err));
    STK_TRY(read_header(a, key, &h, err));
    STK_TRY(stk__type_numpy(stk_dtype_name(h.dtype), key, &a->type, err));
    a->type.big_endian = h.swap != 0;
    a->rank = h.rank;
    memcpy(a->shape, h.shape, h.rank * sizeof h.shape[0]);
    STK_TRY(stk__zarr_fill(a, NULL, 3, key, err));
    STK_TRY(stk__array_one_object(a, key, h.offset, h.fortran, err));
    return stk__array_finish(a, err);
}

const stk__array_driver stk__array_npy = {
    .struct_size = sizeof(stk__array_driver),
    .name = "npy",
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

/* "512x-1x3": *open_dimension is the one that is -1, or `rank`. */
static stk_status parse_shape(stk_array *a, const char *text, uint32_t *open_dimension,
                              stk_error *err)
{
    const char *at = text;
    bool open = false;

    for (a->rank = 0;; at++) {
        char *end;
        if (a->rank == STK_ARRAY_MAX_RANK || ((*at < '0' || *at > '9') && *at != '-'))
            return bad_shape(text, err);
        long long n = strtoll(at, &end, 10);
        if (end == at || n < -1 || (n == -1 && open) || n == INT64_MAX)
            return bad_shape(text, err);
        if (n == -1) {
            *open_dimension = a->rank;
            open = true;
        }
        a->shape[a->rank++] = n;
        at = end;
        if (*at != 'x' && *at != ',')
            break;
    }
    if (!open)
        *open_dimension = a->rank;
    return *at ? bad_shape(text, err) : STK_OK;
}

static stk_status raw_shape(stk_array *a, const char *key, stk_error *err)
{
    const stk_array_options *o = &a->options;
    uint64_t room = a->object_size - o->offset, rest = a->type.itemsize, bytes = 0;
    uint32_t open = 0;

    a->rank = 1;
    a->shape[0] = -1;
    if (o->shape)
        STK_TRY(parse_shape(a, o->shape, &open, err));
    if (open < a->rank) {
        a->shape[open] = 1;
        if (!stk__shape_bytes(a->shape, a->rank, a->type.itemsize, &rest))
            return bad_shape(o->shape, err);
        if (rest == 0 || (room % rest != 0 && !o->allow_trailing))
            return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, a->object_size,
                                "%s has %llu bytes behind the offset, which is no multiple of "
                                "%llu; give shape and dtype as they are, or allow_trailing=true",
                                key, (unsigned long long)room, (unsigned long long)rest);
        a->shape[open] = (int64_t)(room / rest);
    }
    if (!stk__shape_bytes(a->shape, a->rank, a->type.itemsize, &bytes))
        return bad_shape(o->shape, err);
    if (bytes > room || (bytes < room && !o->allow_trailing))
        return stk__fail_at(err, bytes > room ? STK_ETRUNCATED : STK_EFORMAT, STK_STAGE_ARRAY, key,
                            a->object_size,
                            "%s has %llu bytes behind the offset where shape and dtype ask for "
                            "%llu; give them as they are%s",
                            key, (unsigned long long)room, (unsigned long long)bytes,
                            bytes < room ? ", or allow_trailing=true" : "");
    return STK_OK;
}

static stk_status raw_open(stk_array *a, const char *key, stk_error *err)
{
    const stk_array_options *o = &a->options;

    a->format = "raw";
    STK_TRY(find_file(a, key, err));
    if (!o->dtype)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "dtype", STK_NO_OFFSET,
                            "array.dtype: a raw file does not say what it holds; give dtype=TYPE");
    STK_TRY(stk__type_numpy(o->dtype, key, &a->type, err));
    if (o->offset > a->object_size)
        return stk__fail_at(err, STK_ETRUNCATED, STK_STAGE_ARRAY, key, a->object_size,
                            "%s has %llu bytes, and offset is %llu", key,
                            (unsigned long long)a->object_size, (unsigned long long)o->offset);
    STK_TRY(raw_shape(a, key, err));
    STK_TRY(stk__zarr_fill(a, NULL, 3, key, err));
    STK_TRY(stk__array_one_object(a, key, o->offset, o->order == 1, err));
    return stk__array_finish(a, err);
}

const stk__array_driver stk__array_raw = {
    .struct_size = sizeof(stk__array_driver),
    .name = "raw",
    .recognise = raw_recognise,
    .open = raw_open,
};
