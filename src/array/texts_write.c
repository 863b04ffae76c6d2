/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of varying length -> the bytes of a chunk, before its codecs; texts.c reads them. */
#include "array/texts.h"
#include "base/bytes.h"

#define COUNT_BYTES 4

static bool is_sound(const stk_array_string *element, bool text)
{
    return element->length <= INT32_MAX && /* as numcodecs counts */
           (!text || stk__utf8_valid(element->data, element->length));
}

static stk_status measure(const stk_array *a, const stk_array_string *elements, uint64_t *bytes,
                          stk_error *err)
{
    const uint64_t count = a->chunk_bytes / sizeof *elements;

    *bytes = COUNT_BYTES;
    for (uint64_t i = 0; i < count; i++) {
        if (!is_sound(&elements[i], a->type.kind == STK__KIND_STRING))
            return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                             "an element of a chunk of type '%s' is no UTF-8, or longer than 2 GiB",
                             a->type.name);
        if (!stk__add_size(*bytes, COUNT_BYTES + elements[i].length, bytes))
            return stk__fail(err, STK_ELIMIT, STK_STAGE_ARRAY, "a chunk is too long");
    }
    return count <= UINT32_MAX ? STK_OK
                               : stk__fail(err, STK_ELIMIT, STK_STAGE_ARRAY,
                                           "a chunk has more elements than vlen-utf8 and "
                                           "vlen-bytes can count; write smaller chunks");
}

static uint8_t *store(uint8_t *at, uint64_t n)
{
    for (unsigned i = 0; i < COUNT_BYTES; i++)
        *at++ = (uint8_t)(n >> (8 * i));
    return at;
}

static void write_all(const stk_array_string *elements, uint64_t count, uint8_t *out)
{
    out = store(out, count);
    for (uint64_t i = 0; i < count; i++) {
        out = store(out, elements[i].length);
        if (elements[i].length)
            memcpy(out, elements[i].data, elements[i].length);
        out += elements[i].length;
    }
}

stk_status stk__texts_encode(const stk_array *a, const stk_array_string *elements, uint8_t **buffer,
                             size_t *room, uint64_t *bytes, stk_error *err)
{
    STK_TRY(measure(a, elements, bytes, err));
    uint8_t *grown = stk__grow(a->context, *buffer, room, *bytes, 1);
    if (!grown)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory to write texts of an array");
    *buffer = grown;
    write_all(elements, a->chunk_bytes / sizeof *elements, grown);
    return STK_OK;
}

bool stk__texts_are_fill(const stk_array *a, const stk_array_string *elements)
{
    const uint64_t count = a->chunk_bytes / sizeof *elements;
    stk_array_string fill;

    memcpy(&fill, a->fill, sizeof fill);
    for (uint64_t i = 0; i < count; i++)
        if (elements[i].length != fill.length ||
            (fill.length && memcmp(elements[i].data, fill.data, fill.length) != 0))
            return false;
    return true;
}
