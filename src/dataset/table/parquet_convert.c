/* SPDX-License-Identifier: Apache-2.0 */
/* Stored values -> values of a column: narrower integers, times of INT96, decimals. */
#include "dataset/table/parquet.h"

__extension__ typedef unsigned __int128 wide;
__extension__ typedef __int128 wide_signed;

#define INT96_BYTES 12
#define JULIAN_1970 2440588 /* day of 1970-01-01 */
#define DAY_NS      (UINT64_C(86400) * 1000000000)

static stk_status fail(stk_status status, const char *text, const char **reason)
{
    *reason = text;
    return status;
}

static stk_status answer(const char *wrong, const char **reason)
{
    return wrong ? fail(STK_EFORMAT, wrong, reason) : STK_OK;
}

static stk_status no_memory(const char **reason)
{
    return fail(STK_ENOMEM, "no memory to decode a page; use fewer workers", reason);
}

static stk_status no_encoding(const char **reason)
{
    return fail(STK_EKIND, "its values are in an encoding that is not read for their type", reason);
}

/* ---- Stored values ---- */

static uint32_t stored_size(const stk__parquet_leaf *leaf)
{
    switch (leaf->type) {
    case STK__PARQUET_INT32:
    case STK__PARQUET_FLOAT:
        return 4;
    case STK__PARQUET_INT64:
    case STK__PARQUET_DOUBLE:
        return 8;
    case STK__PARQUET_INT96:
        return INT96_BYTES;
    default:
        return leaf->length;
    }
}

static stk_status booleans(stk__parquet_room *room, int32_t encoding, const uint8_t *in,
                           uint64_t length, uint8_t *out, uint64_t count, const char **reason)
{
    if (encoding == STK__PARQUET_PLAIN)
        return answer(stk__parquet_booleans(in, length, out, count), reason);
    if (encoding != STK__PARQUET_RLE)
        return no_encoding(reason);
    if (!count)
        return STK_OK;
    if (length < 4 || stk__little_endian(in, 4) > length - 4)
        return fail(STK_EFORMAT, "its booleans end too early", reason);
    return answer(
        stk__parquet_levels(room->codecs, in + 4, stk__little_endian(in, 4), 1, out, count),
        reason);
}

/* DELTA_BYTE_ARRAY of values of one width. */
static stk_status fixed_strings(stk__parquet_room *room, const uint8_t *in, uint64_t length,
                                uint32_t size, uint8_t *out, uint64_t count, const char **reason)
{
    uint32_t *lengths =
        (uint32_t *)stk__parquet_room_part(room, STK__PARQUET_LENGTHS, (3 * count + 1) * 4);

    if (!lengths)
        return no_memory(reason);
    const stk__parquet_strings strings = {lengths + 2 * count, out, count * size};
    STK_TRY(answer(
        stk__parquet_strings_prefixes(room->codecs, in, length, lengths, &strings, count), reason));
    for (uint64_t i = 0; i <= count; i++)
        if (strings.offsets[i] != i * size)
            return fail(STK_EFORMAT, "its strings are not of the width of their type", reason);
    return STK_OK;
}

/* `count` values as they are stored, side by side. */
static stk_status stored(stk__parquet_room *room, const stk__parquet_leaf *leaf, int32_t encoding,
                         const uint8_t *in, uint64_t length, uint8_t *out, uint64_t count,
                         const char **reason)
{
    const uint32_t size = stored_size(leaf);
    uint64_t bytes, used;

    if (!stk__mul_size(count, size, &bytes))
        return fail(STK_EFORMAT, "a page has too many values", reason);
    switch (encoding) {
    case STK__PARQUET_PLAIN:
        if (bytes > length)
            return fail(STK_EFORMAT, "its values end too early", reason);
        if (out != in) /* they are there where a page was decompressed to its home */
            memcpy(out, in, bytes);
        return STK_OK;
    case STK__PARQUET_SPLIT:
        if (bytes > length || leaf->type == STK__PARQUET_INT96)
            return bytes > length ? fail(STK_EFORMAT, "its values end too early", reason)
                                  : no_encoding(reason);
        stk__parquet_split(room->codecs, in, size, out, count);
        return STK_OK;
    case STK__PARQUET_DELTA:
        if (leaf->type != STK__PARQUET_INT32 && leaf->type != STK__PARQUET_INT64)
            return no_encoding(reason);
        return answer(stk__parquet_delta(room->codecs, in, length, size, out, count, &used),
                      reason);
    case STK__PARQUET_DELTA_STRINGS:
        if (leaf->type != STK__PARQUET_FIXED)
            return no_encoding(reason);
        return fixed_strings(room, in, length, size, out, count, reason);
    default:
        return no_encoding(reason);
    }
}

stk_status stk__parquet_texts(stk__parquet_room *room, int32_t encoding, const uint8_t *in,
                              uint64_t length, const stk__parquet_strings *out, uint64_t count,
                              const char **reason)
{
    if (encoding == STK__PARQUET_PLAIN)
        return answer(stk__parquet_strings_plain(in, length, out, count), reason);
    if (encoding == STK__PARQUET_DELTA_LENGTHS)
        return answer(stk__parquet_strings_lengths(room->codecs, in, length, out, count), reason);
    if (encoding != STK__PARQUET_DELTA_STRINGS)
        return no_encoding(reason);
    uint8_t *lengths = stk__parquet_room_part(room, STK__PARQUET_LENGTHS, count * 8);
    if (!lengths)
        return no_memory(reason);
    return answer(
        stk__parquet_strings_prefixes(room->codecs, in, length, (uint32_t *)lengths, out, count),
        reason);
}

/* ---- Conversions ---- */

static void narrow(const uint8_t *in, uint32_t item, uint8_t *out, uint64_t count)
{
    if (item == 1)
        for (uint64_t i = 0; i < count; i++)
            out[i] = in[4 * i];
    else
        for (uint64_t i = 0; i < count; i++)
            memcpy(out + 2 * i, in + 4 * i, 2);
}

/* Nanoseconds of the day, and the Julian day; sums wrap around. */
static void times(const uint8_t *in, uint8_t *out, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++, in += INT96_BYTES) {
        const uint64_t days = stk__little_endian(in + 8, 4) - JULIAN_1970;
        const uint64_t ns = days * DAY_NS + stk__little_endian(in, 8);
        memcpy(out + 8 * i, &ns, sizeof ns);
    }
}

/* Two's complement, the highest byte first. Exact up to 16 bytes but for one rounding. */
static double big_number(const uint8_t *in, uint32_t size)
{
    const bool negative = size && in[0] >= 0x80;

    if (size > 16) {
        double x = negative ? -1 : 0;
        for (uint32_t i = 0; i < size; i++)
            x = x * 256 + in[i];
        return x;
    }
    wide x = negative ? ~(wide)0 : 0;
    for (uint32_t i = 0; i < size; i++)
        x = x << 8 | in[i];
    return (double)(wide_signed)x;
}

static double power_of_ten(unsigned scale)
{
    double x = 1;

    for (; scale >= 22; scale -= 22) /* those up to 22 are exact */
        x *= 1e22;
    for (; scale; scale--)
        x *= 10;
    return x;
}

static void decimals(const stk__parquet_leaf *leaf, const uint8_t *in, uint8_t *out, uint64_t count)
{
    const double divisor = power_of_ten(leaf->scale);
    const uint32_t size = stored_size(leaf);

    for (uint64_t i = 0; i < count; i++, in += size) {
        int32_t i32;
        int64_t i64;
        double x;
        if (leaf->type == STK__PARQUET_INT32) {
            memcpy(&i32, in, sizeof i32);
            x = i32;
        } else if (leaf->type == STK__PARQUET_INT64) {
            memcpy(&i64, in, sizeof i64);
            x = (double)i64;
        } else {
            x = big_number(in, size);
        }
        x /= divisor;
        memcpy(out + 8 * i, &x, sizeof x);
    }
}

/* Decimals of as many bytes as each wants. */
static stk_status decimal_strings(stk__parquet_room *room, const stk__parquet_leaf *leaf,
                                  int32_t encoding, const uint8_t *in, uint64_t length,
                                  uint8_t *out, uint64_t count, const char **reason)
{
    const double divisor = power_of_ten(leaf->scale);
    uint64_t bytes = length;

    if (encoding == STK__PARQUET_DELTA_STRINGS) {
        uint8_t *lengths = stk__parquet_room_part(room, STK__PARQUET_LENGTHS, count * 8);
        if (!lengths)
            return no_memory(reason);
        STK_TRY(answer(
            stk__parquet_strings_size(room->codecs, in, length, (uint32_t *)lengths, count, &bytes),
            reason));
    }
    const uint64_t places = stk__round_up((count + 1) * 4, 8);
    uint8_t *part = stk__parquet_room_part(room, STK__PARQUET_VALUES, places + bytes);
    if (!part)
        return no_memory(reason);
    const stk__parquet_strings strings = {(uint32_t *)part, part + places, bytes};
    STK_TRY(stk__parquet_texts(room, encoding, in, length, &strings, count, reason));
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t from = strings.offsets[i];
        const double x = big_number(strings.bytes + from, strings.offsets[i + 1] - from) / divisor;
        memcpy(out + 8 * i, &x, sizeof x);
    }
    return STK_OK;
}

stk_status stk__parquet_values(stk__parquet_room *room, const stk__parquet_leaf *leaf,
                               int32_t encoding, const uint8_t *in, uint64_t length, uint8_t *out,
                               uint64_t count, const char **reason)
{
    if (leaf->as == STK__PARQUET_AS_WHOLE)
        return booleans(room, encoding, in, length, out, count, reason);
    if (leaf->as == STK__PARQUET_AS_STORED)
        return stored(room, leaf, encoding, in, length, out, count, reason);
    if (leaf->type == STK__PARQUET_BYTE_ARRAY)
        return decimal_strings(room, leaf, encoding, in, length, out, count, reason);
    uint64_t bytes;
    if (!stk__mul_size(count, stored_size(leaf), &bytes) || bytes > UINT32_MAX)
        return fail(STK_EFORMAT, "a page has too many values", reason);
    uint8_t *part = stk__parquet_room_part(room, STK__PARQUET_VALUES, bytes);
    if (!part)
        return no_memory(reason);
    STK_TRY(stored(room, leaf, encoding, in, length, part, count, reason));
    if (leaf->as == STK__PARQUET_AS_NARROW)
        narrow(part, leaf->item, out, count);
    else if (leaf->as == STK__PARQUET_AS_TIME)
        times(part, out, count);
    else
        decimals(leaf, part, out, count);
    return STK_OK;
}
