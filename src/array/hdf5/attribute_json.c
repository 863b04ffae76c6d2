/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes -> JSON: numbers, texts, and lists of them. What is neither is left out. */
#include <stdio.h>

#include "array/hdf5/heap.h"
#include "array/hdf5/netcdf.h"

#include "base/json.h"
#include "base/text.h"

#define MOST_ESCAPED 6u /* bytes that one of a text becomes: \u001f */

typedef struct json_writer {
    stk__text *out;
    stk__hdf5_collections kept;
    bool any;
} json_writer;

static void put_integer(stk__text *out, const stk__hdf5_type *type, uint64_t bits)
{
    const unsigned unused = 64 - 8 * type->size;

    if (type->is_signed)
        stk__text_add(out, "%lld", (long long)((int64_t)(bits << unused) >> unused));
    else
        stk__text_add(out, "%llu", (unsigned long long)bits);
}

static void put_number(stk__text *out, const stk__hdf5_type *type, const uint8_t *data)
{
    const uint64_t bits = stk__hdf5_bits(type, data);
    float single;
    double wide;

    if (type->class_ == STK__HDF5_INTEGER) {
        put_integer(out, type, bits);
    } else if (type->size == 2) {
        stk__text_add_real(out, stk__half_to_double((uint16_t)bits));
    } else if (type->size == 4) {
        memcpy(&single, &bits, sizeof single);
        stk__text_add_real(out, (double)single);
    } else {
        memcpy(&wide, &bits, sizeof wide);
        stk__text_add_real(out, wide);
    }
}

/* Elements may stand for the same bytes of a heap, so that what they become is bounded, too. */
static stk_status check_room(const stk__hdf5 *f, const stk__text *out, uint64_t more)
{
    const uint64_t most = STK_MIN(f->memory, STK__JSON_MAX_BYTES);

    return out->length <= most && more <= (most - out->length) / MOST_ESCAPED
               ? STK_OK
               : stk__fail_at(
                     f->err, STK_ELIMIT, STK_STAGE_ARRAY, f->key, STK_NO_OFFSET,
                     "%.300s: the attributes of an object take more than 64 MiB, or than is "
                     "left of a quarter of memory_limit",
                     f->key);
}

/* A text without what pads it. */
static stk_status put_text(stk__hdf5 *f, stk__text *out, const uint8_t *data, uint64_t bytes,
                           uint8_t padding)
{
    const uint8_t *zero = bytes ? memchr(data, 0, (size_t)bytes) : NULL;
    uint64_t length = zero ? (uint64_t)(zero - data) : bytes;
    void *text = NULL;

    while (padding == 2 && length && data[length - 1] == ' ')
        length--;
    STK_TRY(check_room(f, out, length));
    STK_TRY(stk__hdf5_take(f, length + 1, &text));
    memcpy(text, data, length);
    stk__text_add_json(out, text);
    stk__hdf5_give(f, text, length + 1);
    return STK_OK;
}

static stk_status put_element(stk__hdf5 *f, json_writer *w, const stk__hdf5_attribute *a,
                              const uint8_t *data)
{
    const uint8_t *text;
    uint64_t bytes;
    uint32_t count;

    STK_TRY(stk__hdf5_step(f));
    if (a->type.class_ == STK__HDF5_STRING)
        return put_text(f, w->out, data, a->type.size, a->type.padding);
    if (!a->type.text) {
        put_number(w->out, &a->type, data);
        return check_room(f, w->out, 0);
    }
    STK_TRY(stk__hdf5_vlen(f, &w->kept, data, &text, &bytes, &count));
    return put_text(f, w->out, text, STK_MIN(bytes, count), a->type.padding);
}

/* What would be one number is one, also where it is a list of one, as NetCDF writes it. What holds
 * nothing is how NetCDF writes lists without elements, and texts without letters. */
static stk_status put_attribute(stk__hdf5 *f, const stk__hdf5_attribute *a, void *user)
{
    json_writer *w = user;
    stk_status status = STK_OK;

    if ((a->type.other && !a->type.text) || stk__netcdf_keeps(a->name))
        return STK_OK;
    stk__text_add(w->out, w->any ? "," : "");
    w->any = true;
    stk__text_add_json(w->out, a->name);
    stk__text_add(w->out, ":");
    if (a->space.null || (a->count == 0 && a->space.rank == 0)) {
        stk__text_add(w->out, a->type.class_ == STK__HDF5_STRING || a->type.text ? "\"\"" : "[]");
        return STK_OK;
    }
    stk__text_add(w->out, a->count == 1 ? "" : "[");
    for (uint64_t i = 0; status == STK_OK && i < a->count; i++) {
        stk__text_add(w->out, i ? "," : "");
        status = put_element(f, w, a, a->data + i * a->type.size);
    }
    stk__text_add(w->out, a->count == 1 ? "" : "]");
    return status;
}

stk_status stk__hdf5_attributes_json(stk__hdf5 *f, stk__hdf5_object *o, stk__text *out)
{
    json_writer w = {.out = out};

    stk__text_add(out, "{");
    stk_status status = stk__hdf5_attributes(f, o, put_attribute, &w);
    stk__text_add(out, "}");
    stk__hdf5_collections_drop(f, &w.kept);
    if (status == STK_OK && out->failed)
        status = stk__hdf5_no_memory(f);
    return status;
}
