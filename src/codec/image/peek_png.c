/* SPDX-License-Identifier: Apache-2.0 */
/* PNG headers and the row of chunks [W3C PNG, 2nd edition, clauses 5 and 11]. */
#include "codec/image/room.h"

#include <zlib.h>

#define MARK_BYTES   8
#define IHDR_BYTES   13
#define CHUNK_BYTES  12 /* length, type and checksum */
#define MAX_31       0x7fffffffu
#define FIXED_MEMORY (160u << 10) /* zlib's window and state, libspng's context and buffer */
#define ROWS_HELD    2            /* by libspng, to undo filters */

enum { GREY = 0, COLOR = 2, PALETTE = 3, GREY_ALPHA = 4, COLOR_ALPHA = 6 };

/* Estimates for scheduling: photographs on one core took 30 ns a pixel. */
#define NS_PER_SAMPLE 9.0 /* of 8 bits: inflating and undoing filters */
#define NS_PER_PIXEL  3.0
#define NS_FIXED      20e3

static stk_status ends_early(const char **reason)
{
    return stk__image_refuse(reason, STK_ETRUNCATED,
                             "the PNG ends before its IEND chunk; copy or download it again");
}

static stk_status damaged(const char **reason, const char *text)
{
    return stk__image_refuse(reason, STK_EFORMAT, text);
}

static stk_status wrong_checksum(const char **reason)
{
    return stk__image_refuse(reason, STK_ECHECKSUM,
                             "the checksum of a PNG chunk does not match; copy or download it "
                             "again");
}

static bool is_letter(uint8_t c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static stk_status read_chunk(const uint8_t *data, uint64_t length, uint64_t at,
                             stk__png_chunk *chunk, const char **reason)
{
    if (at > length || length - at < CHUNK_BYTES - 4)
        return ends_early(reason);
    *chunk = (stk__png_chunk){.at = at, .length = stk__be32(data + at), .type = data + at + 4};
    for (int i = 0; i < 4; i++)
        if (!is_letter(chunk->type[i]))
            return damaged(reason, "a PNG chunk has an impossible type; copy or download it again");
    if (chunk->length > MAX_31)
        return damaged(reason, "a PNG chunk has an impossible length; copy or download it again");
    if (length - at - (CHUNK_BYTES - 4) < (uint64_t)chunk->length + 4)
        return ends_early(reason);
    chunk->next = at + CHUNK_BYTES + chunk->length;
    return STK_OK;
}

static bool is_type(const stk__png_chunk *chunk, const char type[5])
{
    return !memcmp(chunk->type, type, 4);
}

static bool sum_matches(const stk__png_chunk *chunk)
{
    uint32_t sum = (uint32_t)crc32(0, chunk->type, (uInt)chunk->length + 4);

    return sum == stk__be32(chunk->type + 4 + chunk->length);
}

bool stk__png_chunk_next(const uint8_t *data, uint64_t length, stk__png_chunk *chunk)
{
    const char *reason;
    uint64_t at = chunk->next;

    do {
        if (read_chunk(data, length, at, chunk, &reason) != STK_OK)
            return false;
        at = chunk->next;
    } while (chunk->type[0] & 32); /* lower case: ancillary */
    return true;
}

static bool depth_suits(uint32_t depth, uint32_t color)
{
    switch (color) {
    case GREY:
        return depth == 1 || depth == 2 || depth == 4 || depth == 8 || depth == 16;
    case PALETTE:
        return depth == 1 || depth == 2 || depth == 4 || depth == 8;
    case COLOR:
    case GREY_ALPHA:
    case COLOR_ALPHA:
        return depth == 8 || depth == 16;
    default:
        return false;
    }
}

static uint64_t memory_of(const stk__image_info *info)
{
    /* Sides are below 2^31 and a pixel takes 8 bytes at most: sums of rows do not overflow. */
    uint64_t row = ((uint64_t)info->width * info->components * info->bit_depth + 7) / 8;
    uint64_t out = 4 * (uint64_t)info->width, whole = 0, sum;
    uint64_t strip = stk__image_strip_rows(out) * out;

    if (info->buffered && !stk__mul_size(out, info->height, &whole))
        return UINT64_MAX;
    sum = FIXED_MEMORY + ROWS_HELD * (row + 64) + 2 * out + strip;
    return stk__add_size(sum, whole, &sum) ? sum : UINT64_MAX;
}

static stk_status read_head(const stk__png_chunk *chunk, stk__image_info *info,
                            stk__png_header *header, const char **reason)
{
    static const uint8_t samples[] = {1, 0, 3, 1, 2, 0, 4}, channels[] = {1, 0, 3, 3, 2, 0, 4};
    const uint8_t *p = chunk->type + 4;

    if (!is_type(chunk, "IHDR") || chunk->length != IHDR_BYTES)
        return damaged(reason, "the PNG does not begin with its header; copy or download it again");
    if (!sum_matches(chunk))
        return wrong_checksum(reason);
    info->width = stk__be32(p);
    info->height = stk__be32(p + 4);
    info->bit_depth = p[8];
    header->color_type = p[9];
    if (!info->width || !info->height || info->width > MAX_31 || info->height > MAX_31 ||
        !depth_suits(p[8], p[9]) || p[10] || p[11] || p[12] > 1)
        return damaged(reason, "the PNG header has impossible values; save the picture again");
    info->components = samples[p[9]];
    info->channels = channels[p[9]];
    info->progressive = info->buffered = p[12] == 1;
    info->memory = memory_of(info);
    double pixels = (double)info->width * info->height;
    double bytes = pixels * info->components * STK_MAX(info->bit_depth, 8) / 8;
    info->cost_ns =
        (uint64_t)STK_MIN(NS_FIXED + bytes * NS_PER_SAMPLE + pixels * NS_PER_PIXEL, 1e18);
    return STK_OK;
}

stk_status stk__png_peek(const uint8_t *data, uint64_t length, stk__image_info *info,
                         stk__png_header *header, const char **reason)
{
    stk__png_chunk chunk;
    bool exif = false;

    STK_TRY(read_chunk(data, length, MARK_BYTES, &chunk, reason));
    STK_TRY(read_head(&chunk, info, header, reason));
    for (;;) {
        /* Of IDAT the head of the chunk is enough, so that the head of a file is. */
        if (length - chunk.next >= CHUNK_BYTES - 4 && !memcmp(data + chunk.next + 4, "IDAT", 4))
            return STK_OK;
        STK_TRY(read_chunk(data, length, chunk.next, &chunk, reason));
        if (is_type(&chunk, "IEND"))
            return damaged(reason, "the PNG has no pixels; copy or download it again");
        if (is_type(&chunk, "eXIf") && !exif && sum_matches(&chunk)) {
            exif = true;
            info->orientation = stk__exif_orientation(chunk.type + 4, chunk.length);
        }
    }
}

stk_status stk__png_check(const uint8_t *data, uint64_t length, const char **reason)
{
    stk__png_chunk chunk = {.next = MARK_BYTES};
    bool in_pixels = false, behind = false;

    for (;;) {
        STK_TRY(read_chunk(data, length, chunk.next, &chunk, reason));
        bool pixels = is_type(&chunk, "IDAT");
        if (pixels && behind)
            return damaged(reason, "the pixels of the PNG are in two places; save the picture "
                                   "again");
        behind = in_pixels && !pixels;
        in_pixels = in_pixels || pixels;
        if (chunk.type[0] & 32)
            continue;
        if (!sum_matches(&chunk))
            return wrong_checksum(reason);
        if (is_type(&chunk, "IEND"))
            return in_pixels ? STK_OK
                             : damaged(reason, "the PNG has no pixels; copy or download it again");
        if (!pixels && !is_type(&chunk, "IHDR") && !is_type(&chunk, "PLTE"))
            return damaged(reason, "the PNG has a critical chunk that no standard knows; save the "
                                   "picture again");
    }
}
