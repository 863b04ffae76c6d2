/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PPM [netpbm ppm(5)], of pixels that are not encoded: "P6\nWIDTH HEIGHT\n255\n" and rows of RGB.
 * That form alone, which packed pictures have (convert/packed.c): no comments, no other blanks, one
 * picture, nothing behind it.
 */
#include <stdio.h>

#include "codec/image/room.h"

#define MARK       "P6\n"
#define MARK_BYTES 3
#define CHANNELS   3
#define MOST_SIDE  9999999u
#define PIXEL_NS   0.3 /* of giving a pixel */

#define ENDS "the PPM ends in the middle of its data; copy or download it again"

size_t stk__ppm_head(uint32_t width, uint32_t height, char out[STK__PPM_HEAD])
{
    return (size_t)snprintf(out, STK__PPM_HEAD, MARK "%u %u\n255\n", width, height);
}

/* A number without needless zeros and what ends it. */
static stk_status read_side(const uint8_t *data, uint64_t length, uint64_t *at, uint8_t end,
                            uint32_t *side, const char **reason)
{
    const bool zero = *at < length && data[*at] == '0';
    uint32_t n = 0;

    for (; *at < length && data[*at] >= '0' && data[*at] <= '9' && n <= MOST_SIDE; ++*at)
        n = 10 * n + data[*at] - '0';
    if (*at == length)
        return stk__image_refuse(reason, STK_ETRUNCATED, ENDS);
    if (!n || zero || n > MOST_SIDE || data[(*at)++] != end)
        return stk__image_refuse(reason, STK_EFORMAT,
                                 "the header of the PPM is not P6, width, height and 255 as packed "
                                 "pictures have it; convert it to a PNG");
    *side = n;
    return STK_OK;
}

stk_status stk__ppm_peek(const uint8_t *data, uint64_t length, stk__image_info *info,
                         stk__ppm_header *header, const char **reason)
{
    uint64_t at = MARK_BYTES;
    uint32_t most;

    STK_TRY(read_side(data, length, &at, ' ', &info->width, reason));
    STK_TRY(read_side(data, length, &at, '\n', &info->height, reason));
    STK_TRY(read_side(data, length, &at, '\n', &most, reason));
    if (most != 255)
        return stk__image_refuse(reason, STK_EKIND,
                                 "it is a PPM whose brightest value is not 255; convert it to a "
                                 "PNG");
    const uint64_t row = (uint64_t)info->width * 4;
    info->components = info->channels = CHANNELS;
    info->bit_depth = 8;
    info->scans = 1;
    info->memory = stk__image_strip_rows(row) * row + STK_TAIL;
    info->cost_ns = (uint64_t)(PIXEL_NS * (double)info->width * (double)info->height);
    header->pixels = at;
    return STK_OK;
}

stk_status stk__ppm_begin(stk__ppm *ppm, const uint8_t *data, uint64_t length,
                          const stk__image_info *info, const stk__ppm_header *header,
                          const stk__image_region *region, const char **reason)
{
    const uint64_t pixels = (uint64_t)info->width * info->height * CHANNELS;

    if (length - header->pixels != pixels)
        return length - header->pixels < pixels
                   ? stk__image_refuse(reason, STK_ETRUNCATED, ENDS)
                   : stk__image_refuse(reason, STK_EFORMAT,
                                       "the PPM has more bytes than its header asks for; copy it "
                                       "again");
    ppm->stride = (size_t)info->width * CHANNELS;
    ppm->next = data + header->pixels + region->y * ppm->stride + (size_t)region->x * CHANNELS;
    ppm->width = region->width;
    ppm->capacity = stk__image_strip_rows((uint64_t)region->width * ppm->pixel_bytes);
    const uint64_t strip = (uint64_t)ppm->capacity * region->width * ppm->pixel_bytes;
    if (!stk__image_buffer_need(ppm->context, &ppm->strip, strip))
        return stk__image_refuse(reason, STK_ENOMEM, STK__NO_MEMORY_FOR_ROWS);
    return STK_OK;
}

/* RGB -> pixels of four bytes, of which the last means nothing: each is one load and one store, but
 * for the last of a row, behind which there may be nothing to read. */
static void widen(const uint8_t *in, uint8_t *out, size_t n)
{
    for (; n > 1; n--, in += CHANNELS, out += 4)
        memcpy(out, in, 4);
    memcpy(out, in, CHANNELS);
    out[CHANNELS] = 255;
}

void stk__ppm_rows(stk__ppm *ppm, uint32_t wanted, stk__image_rows *rows)
{
    const size_t bytes = (size_t)ppm->width * ppm->pixel_bytes;

    rows->data = ppm->strip.data;
    rows->stride = bytes;
    rows->count = STK_MIN(wanted, ppm->capacity);
    for (uint32_t i = 0; i < rows->count; i++, ppm->next += ppm->stride) {
        uint8_t *out = ppm->strip.data + i * bytes;
        if (ppm->pixel_bytes == 4)
            widen(ppm->next, out, ppm->width);
        else
            memcpy(out, ppm->next, bytes);
    }
}

void stk__ppm_end(stk__ppm *ppm)
{
    stk__image_buffer_trim(ppm->context, &ppm->strip);
}
