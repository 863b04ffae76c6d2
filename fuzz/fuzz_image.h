/* What the targets for pictures share: header, a region twice, limits. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_FUZZ_IMAGE_H
#define STK_FUZZ_IMAGE_H

#include "check.h"
#include "codec/image/image.h"

#define FUZZ_PIXELS (1u << 18)
#define FUZZ_MEMORY (64u << 20)
#define FUZZ_SCANS  40
#define FUZZ_BLOCKS (1u << 18)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static stk_context *fuzz_context;

/* A status of the room, with a reason where it is a failure. */
static inline bool fuzz_sound(stk_status status, const char *reason)
{
    bool known = status == STK_EFORMAT || status == STK_ETRUNCATED || status == STK_ECHECKSUM ||
                 status == STK_ELIMIT || status == STK_EKIND;

    return status == STK_OK || (known && reason && *reason);
}

/* A number below `limit` out of the last bytes of the input. */
static inline uint32_t fuzz_pick(const uint8_t *data, size_t size, uint32_t which, uint32_t limit)
{
    uint32_t value = 0;

    for (uint32_t i = 0; i < 4; i++)
        value = value << 8 | (size > 4 * which + i ? data[size - 1 - 4 * which - i] : 0);
    return value % limit;
}

/* Decode a box and hash the rows; the hash is 0 where it failed. */
static inline stk_status fuzz_decode(stk__image_decoder *decoder, const uint8_t *data, size_t size,
                                     const stk__image_box *box, uint32_t scale, uint32_t most,
                                     uint64_t *hash)
{
    stk__image_region region;
    stk__image_rows rows;
    const char *reason = NULL;
    uint32_t done = 0;

    *hash = 0;
    stk_status status = stk__image_decoder_begin(decoder, data, size, box, scale, &region, &reason);
    FUZZ_CHECK(fuzz_sound(status, reason));
    if (status != STK_OK)
        return status;
    FUZZ_CHECK(region.width && region.height && region.x + region.width <= region.picture_width &&
               region.y + region.height <= region.picture_height);
    uint64_t sum = 14695981039346656037u;
    while ((status = stk__image_decoder_rows(decoder, most, &rows, &reason)) == STK_OK) {
        FUZZ_CHECK(rows.first == done && rows.count && rows.count <= STK__IMAGE_STRIP_ROWS);
        done += rows.count;
        for (uint32_t y = 0; y < rows.count; y++)
            for (uint32_t x = 0; x < region.width * 3; x++)
                sum = (sum ^ rows.data[y * rows.stride + x]) * 1099511628211u;
    }
    if (status != STK_EOS) {
        FUZZ_CHECK(fuzz_sound(status, reason));
        return status;
    }
    FUZZ_CHECK(done == region.height);
    *hash = sum;
    return STK_OK;
}

/* Feed the input; gives the decoder where it is of the format and its header is sound, else NULL.
 */
static inline stk__image_decoder *fuzz_image(const uint8_t *data, size_t size,
                                             stk__image_format format)
{
    stk__image_limits limits = {FUZZ_PIXELS, FUZZ_MEMORY, FUZZ_SCANS, FUZZ_BLOCKS};
    stk__image_decoder *decoder = NULL;
    stk__image_info info;
    const char *reason;
    uint64_t first, second;

    if (!fuzz_context)
        FUZZ_CHECK(stk_context_create(NULL, &fuzz_context, NULL) == STK_OK);
    stk_status status = stk__image_peek(data, size, &limits, &info, &reason);
    FUZZ_CHECK(fuzz_sound(status, reason));
    if (status != STK_OK || info.format != format)
        return NULL;
    FUZZ_CHECK(info.width && info.height && (uint64_t)info.width * info.height <= FUZZ_PIXELS &&
               info.orientation >= 1 && info.orientation <= 8);
    FUZZ_CHECK(stk__image_decoder_create(fuzz_context, &limits, 3, &decoder, NULL) == STK_OK);
    stk__image_box box;
    box.x = fuzz_pick(data, size, 0, info.width);
    box.y = fuzz_pick(data, size, 1, info.height);
    box.width = 1 + fuzz_pick(data, size, 2, info.width - box.x);
    box.height = 1 + fuzz_pick(data, size, 3, info.height - box.y);
    uint32_t scale = 1u << fuzz_pick(data, size, 4, 4), most = fuzz_pick(data, size, 5, 17);
    status = fuzz_decode(decoder, data, size, &box, scale, most, &first);
    FUZZ_CHECK(fuzz_decode(decoder, data, size, &box, scale, 1, &second) == status &&
               first == second);
    fuzz_decode(decoder, data, size, NULL, 1, 0, &first);
    return decoder;
}

static inline void fuzz_image_done(stk__image_decoder **decoder)
{
    stk_memory_stats stats = {.struct_size = sizeof stats};

    stk__image_decoder_destroy(decoder);
    if (!fuzz_context)
        return;
    stk_context_memory(fuzz_context, &stats);
    FUZZ_CHECK(stats.bytes == 0);
}

#endif
