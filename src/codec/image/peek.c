/* SPDX-License-Identifier: Apache-2.0 */
/* Recognises pictures, reads their headers, holds them against limits; boxes of turned pictures. */
#include "codec/image/room.h"

#define LIBJPEG_MAX_SIDE 65500 /* JPEG_MAX_DIMENSION of jmorecfg.h */

static const uint8_t jpeg_mark[] = {0xff, 0xd8, 0xff};
static const uint8_t ppm_mark[] = {'P', '6', '\n'};
static const uint8_t png_mark[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

void stk__image_limits_init(stk__image_limits *limits)
{
    *limits = (stk__image_limits){.max_pixels = STK__IMAGE_MAX_PIXELS,
                                  .max_memory = STK__IMAGE_MAX_MEMORY,
                                  .max_scans = STK__IMAGE_MAX_SCANS,
                                  .max_blocks = STK__IMAGE_MAX_BLOCKS};
}

stk__image_format stk__image_recognize(const void *data, uint64_t length)
{
    if (length >= sizeof jpeg_mark && !memcmp(data, jpeg_mark, sizeof jpeg_mark))
        return STK__IMAGE_JPEG;
    if (length >= sizeof png_mark && !memcmp(data, png_mark, sizeof png_mark))
        return STK__IMAGE_PNG;
    if (length >= sizeof ppm_mark && !memcmp(data, ppm_mark, sizeof ppm_mark))
        return STK__IMAGE_PPM;
    return STK__IMAGE_UNKNOWN;
}

static stk_status image_check_limits(const stk__image_info *info, const stk__image_limits *limits,
                                     const char **reason)
{
    uint64_t pixels;

    if (!stk__mul_size(info->width, info->height, &pixels) || pixels > limits->max_pixels)
        return stk__image_refuse(reason, STK_ELIMIT,
                                 "its header asks for more pixels than max_pixels allows; scale "
                                 "the picture down, or raise max_pixels; in a loader "
                                 "decode(max_pixels=...)");
    if (info->format == STK__IMAGE_JPEG &&
        (info->width > LIBJPEG_MAX_SIDE || info->height > LIBJPEG_MAX_SIDE))
        return stk__image_refuse(reason, STK_ELIMIT,
                                 "a JPEG side is beyond the 65500 pixels that libjpeg decodes; "
                                 "scale the picture down");
    if (info->scans > limits->max_scans)
        return stk__image_refuse(reason, STK_ELIMIT, STK__JPEG_MANY_SCANS);
    if (info->blocks > limits->max_blocks)
        return stk__image_refuse(
            reason, STK_ELIMIT,
            "the scans of the JPEG hold more blocks than max_blocks allows; "
            "save it again as a baseline JPEG, or raise max_blocks; in a loader "
            "decode(max_blocks=...)");
    if (info->memory > limits->max_memory)
        return stk__image_refuse(reason, STK_ELIMIT,
                                 "decoding it needs more memory than allowed (progressive and "
                                 "interlaced pictures are held whole); store it as a baseline "
                                 "JPEG, or raise memory_budget");
    return STK_OK;
}

/* What is said of bytes that are no picture. */
static stk_status not_a_picture(const uint8_t *data, uint64_t length, const char **reason)
{
    if (!length)
        return stk__image_refuse(reason, STK_ETRUNCATED,
                                 "it is empty; copy or download the picture again");
    /* The beginning of a mark may be that of a picture. */
    if ((length < sizeof jpeg_mark && !memcmp(data, jpeg_mark, length)) ||
        (length < sizeof png_mark && !memcmp(data, png_mark, length)))
        return stk__image_refuse(reason, STK_ETRUNCATED,
                                 "it ends within its first bytes; copy or download the picture "
                                 "again");
    return stk__image_refuse(reason, STK_EFORMAT,
                             "it is neither a JPEG nor a PNG, whatever its name says; remove it, "
                             "or convert it to one of them");
}

static stk_status peek(const uint8_t *data, uint64_t length, const stk__image_limits *limits,
                       stk__image_info *info, stk__image_header *header, const char **reason)
{
    *info = (stk__image_info){.format = stk__image_recognize(data, length), .orientation = 1};
    switch (info->format) {
    case STK__IMAGE_JPEG:
        STK_TRY(stk__jpeg_peek(data, length, info, &header->jpeg, reason));
        break;
    case STK__IMAGE_PNG:
        STK_TRY(stk__png_peek(data, length, info, &header->png, reason));
        break;
    case STK__IMAGE_PPM:
        STK_TRY(stk__ppm_peek(data, length, info, &header->ppm, reason));
        break;
    default:
        return not_a_picture(data, length, reason);
    }
    return image_check_limits(info, limits, reason);
}

stk_status stk__image_peek_header(const uint8_t *data, uint64_t length,
                                  const stk__image_limits *limits, stk__image_info *info,
                                  stk__image_header *header, const char **reason)
{
    stk_status status = peek(data, length, limits, info, header, reason);

    if (status != STK_OK && status != STK_ELIMIT)
        *info = (stk__image_info){.orientation = 1};
    return status;
}

stk_status stk__image_peek(const void *data, uint64_t length, const stk__image_limits *limits,
                           stk__image_info *info, const char **reason)
{
    stk__image_header header;
    stk__image_limits defaults;

    if (!limits) {
        stk__image_limits_init(&defaults);
        limits = &defaults;
    }
    *reason = "";
    return stk__image_peek_header(data, length, limits, info, &header, reason);
}

stk_status stk__image_fail(stk_error *err, stk_status status, const char *key, const char *reason)
{
    return stk__fail_at(err, status, STK_STAGE_CODEC, key, STK_NO_OFFSET, "%s: %s", key, reason);
}

/*
 * Turned pictures [EXIF 2.32, tag 0x0112]. Orientations 5 to 8 exchange the axes. What the stored
 * picture needs to stand upright: 2 mirror left to right; 3 half a turn; 4 mirror top to bottom;
 * 5 transpose; 6 a quarter turn clockwise; 7 transpose across the other diagonal; 8 a quarter turn
 * anticlockwise.
 */

void stk__image_upright_size(const stk__image_info *info, uint32_t *width, uint32_t *height)
{
    bool exchanged = info->orientation >= 5;

    *width = exchanged ? info->height : info->width;
    *height = exchanged ? info->width : info->height;
}

void stk__image_stored_box(const stk__image_info *info, const stk__image_box *upright,
                           stk__image_box *stored)
{
    stk__image_box box = *upright;
    bool exchanged = info->orientation >= 5;
    /* Whether the stored axis runs against the upright one it lies along. */
    bool against_x = info->orientation == 2 || info->orientation == 3 || info->orientation == 7 ||
                     info->orientation == 8;
    bool against_y = info->orientation == 3 || info->orientation == 4 || info->orientation == 6 ||
                     info->orientation == 7;

    if (exchanged)
        box = (stk__image_box){upright->y, upright->x, upright->height, upright->width};
    if (against_x)
        box.x = info->width - box.x - box.width;
    if (against_y)
        box.y = info->height - box.y - box.height;
    *stored = box;
}
