/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a zip archive: where its central directory lies [APPNOTE 6.3.10, 4.3.14 to 4.3.16]. */
#include "store/zip.h"

#define LOCATOR_BYTES     20
#define END64_BYTES       56
#define MOST_COMMENT      65535
#define LOCATOR_SIGNATURE 0x07064b50
#define END64_SIGNATURE   0x06064b50

static uint64_t number(const uint8_t *at, size_t offset, unsigned bytes)
{
    return stk__little_endian(at + offset, bytes);
}

/* Bytes of the end of the object: all that an end with its comment may take, and what may stand in
 * front of it. */
typedef struct tail {
    uint8_t *bytes;
    uint64_t at, length; /* of the first in the object; of all */
} tail;

static stk_status no_end(const stk__container *c, stk_error *err)
{
    return stk__container_fail(c, err, STK_EFORMAT, c->size,
                               "has no end of a central directory: it was cut short, or is no zip "
                               "archive; copy or download it again");
}

/* The last end whose comment reaches to the end of the object. */
static stk_status find_end(const stk__container *c, const tail *t, uint64_t *at, stk_error *err)
{
    if (t->length < STK__ZIP_END)
        return no_end(c, err);
    for (uint64_t i = t->length - STK__ZIP_END + 1; i-- > 0;) {
        if (number(t->bytes, i, 4) == STK__ZIP_END_SIGNATURE &&
            number(t->bytes, i + 20, 2) == t->length - i - STK__ZIP_END) {
            *at = i;
            return STK_OK;
        }
    }
    return no_end(c, err);
}

static stk_status in_parts(const stk__container *c, uint64_t at, stk_error *err)
{
    return stk__container_fail(c, err, STK_EKIND, at,
                               "is one of several parts of an archive, which is not read; join "
                               "them, as by zip -s 0");
}

static stk_status lies(const stk__container *c, uint64_t at, stk_error *err)
{
    return stk__container_fail(c, err, STK_EFORMAT, at,
                               "says two things of where its central directory lies, or lays it "
                               "beyond its end; copy or download it again");
}

/* The place of the central directory, which ends at `end`. */
static stk_status place(const stk__container *c, uint64_t end, uint64_t offset, stk__zip_end *out,
                        stk_error *err)
{
    if (out->length > end || offset > end - out->length)
        return lies(c, end, err);
    out->at = end - out->length;
    out->prefix = out->at - offset;
    return STK_OK;
}

/* The end of 64 bits right in front of its locator, or where that says. */
static stk_status read_end64(stk__container *c, const uint8_t *locator, uint64_t locator_at,
                             uint8_t end64[END64_BYTES], uint64_t *at, stk_error *err)
{
    const uint64_t places[2] = {locator_at - END64_BYTES, number(locator, 8, 8)};

    if (number(locator, 4, 4) != 0 || number(locator, 16, 4) > 1)
        return in_parts(c, locator_at, err);
    for (size_t i = 0; i < STK_COUNT(places); i++) {
        *at = places[i];
        if (*at > locator_at || locator_at - *at < END64_BYTES)
            continue;
        STK_TRY(stk__container_read(c, *at, END64_BYTES, end64, err));
        if (number(end64, 0, 4) == END64_SIGNATURE && number(end64, 4, 8) == locator_at - *at - 12)
            return STK_OK;
    }
    return lies(c, locator_at, err);
}

/* Whether a number of the old end, of `bytes` bytes, says the same as one of the new, or nothing.
 */
static bool agree(uint64_t old, unsigned bytes, uint64_t new)
{
    return old == new || old == UINT64_MAX >> (64 - 8 * bytes);
}

static stk_status take_end64(stk__container *c, const uint8_t *end, const uint8_t *locator,
                             uint64_t locator_at, stk__zip_end *out, stk_error *err)
{
    uint8_t end64[END64_BYTES];
    uint64_t at = 0;

    STK_TRY(read_end64(c, locator, locator_at, end64, &at, err));
    if (number(end64, 16, 4) || number(end64, 20, 4))
        return in_parts(c, at, err);
    out->count = number(end64, 32, 8);
    out->length = number(end64, 40, 8);
    const uint64_t offset = number(end64, 48, 8);
    if (number(end64, 24, 8) != out->count || !agree(number(end, 10, 2), 2, out->count) ||
        !agree(number(end, 12, 4), 4, out->length) || !agree(number(end, 16, 4), 4, offset))
        return lies(c, at, err);
    return place(c, at, offset, out, err);
}

static stk_status take_end(stk__container *c, const tail *t, uint64_t at, stk__zip_end *out,
                           stk_error *err)
{
    const uint8_t *end = t->bytes + at;

    if (at >= LOCATOR_BYTES && number(end - LOCATOR_BYTES, 0, 4) == LOCATOR_SIGNATURE)
        return take_end64(c, end, end - LOCATOR_BYTES, t->at + at - LOCATOR_BYTES, out, err);
    if (number(end, 4, 2) || number(end, 6, 2) || number(end, 8, 2) != number(end, 10, 2))
        return in_parts(c, t->at + at, err);
    out->count = number(end, 10, 2);
    out->length = number(end, 12, 4);
    return place(c, t->at + at, number(end, 16, 4), out, err);
}

stk_status stk__zip_find_end(stk__container *c, stk__zip_end *out, stk_error *err)
{
    const uint64_t length = STK_MIN(c->size, (uint64_t)LOCATOR_BYTES + STK__ZIP_END + MOST_COMMENT);
    tail t = {.at = c->size - length, .length = length};
    uint64_t at = 0;

    *out = (stk__zip_end){0};
    t.bytes = stk__alloc(c->context, length);
    if (!t.bytes)
        return stk__container_fail(c, err, STK_ENOMEM, STK_NO_OFFSET,
                                   "cannot be opened: there is no memory");
    stk_status status = stk__container_read(c, t.at, length, t.bytes, err);
    if (status == STK_OK)
        status = find_end(c, &t, &at, err);
    if (status == STK_OK)
        status = take_end(c, &t, at, out, err);
    stk__free(c->context, t.bytes);
    return status;
}
