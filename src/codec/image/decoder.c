/* SPDX-License-Identifier: Apache-2.0 */
/* The decoder of a worker: header, limits and box first, then the one that knows the format. */
#include "codec/image/room.h"

#define STRIP_BYTES (256u << 10) /* a strip stays within a second-level cache */
#define KEPT_BYTES  (4u << 20)   /* buffers beyond this are not kept from picture to picture */

uint32_t stk__image_strip_rows(uint64_t stride)
{
    uint64_t rows = STRIP_BYTES / STK_MAX(stride, 1);

    return (uint32_t)STK_MAX(STK_MIN(rows, STK__IMAGE_STRIP_ROWS), 1);
}

bool stk__image_buffer_need(stk_context *ctx, stk__image_buffer *buffer, uint64_t size)
{
    if (buffer->size >= size)
        return true;
    stk__image_buffer_release(ctx, buffer);
    buffer->data = stk__alloc_buffer(ctx, size);
    buffer->size = buffer->data ? size : 0;
    return buffer->data;
}

void stk__image_buffer_release(stk_context *ctx, stk__image_buffer *buffer)
{
    stk__free(ctx, buffer->data);
    *buffer = (stk__image_buffer){0};
}

void stk__image_buffer_trim(stk_context *ctx, stk__image_buffer *buffer)
{
    if (buffer->size > KEPT_BYTES)
        stk__image_buffer_release(ctx, buffer);
}

stk_status stk__image_decoder_create(stk_context *ctx, const stk__image_limits *limits,
                                     uint32_t pixel_bytes, stk__image_decoder **out, stk_error *err)
{
    *out = NULL;
    if (pixel_bytes != 1 && pixel_bytes != 3 && pixel_bytes != 4)
        return stk__fail(err, STK_EINVAL, STK_STAGE_CODEC,
                         "pictures are decoded to pixels of 1 (masks), 3 or 4 bytes, not %u",
                         pixel_bytes);
    stk__image_decoder *decoder = stk__calloc(ctx, 1, sizeof *decoder);
    if (!decoder)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CODEC, "no memory for a picture decoder");
    decoder->context = ctx;
    decoder->pixel_bytes = pixel_bytes;
    decoder->ppm = (stk__ppm){.context = ctx, .pixel_bytes = pixel_bytes};
    if (limits)
        decoder->limits = *limits;
    else
        stk__image_limits_init(&decoder->limits);
    *out = decoder;
    return STK_OK;
}

void stk__image_decoder_end(stk__image_decoder *decoder)
{
    stk__image_decoder *d = decoder;

    if (d->state == STK__DECODER_ACTIVE && d->info.format == STK__IMAGE_JPEG)
        stk__jpeg_end(d->jpeg);
    else if (d->state == STK__DECODER_ACTIVE && d->info.format == STK__IMAGE_PPM)
        stk__ppm_end(&d->ppm);
    else if (d->state == STK__DECODER_ACTIVE)
        stk__png_end(d->png);
    d->state = STK__DECODER_IDLE;
}

void stk__image_decoder_destroy(stk__image_decoder **decoder)
{
    stk__image_decoder *d = *decoder;

    if (!d)
        return;
    stk__image_decoder_end(d);
    stk__jpeg_destroy(&d->jpeg);
    stk__png_destroy(&d->png);
    stk__image_buffer_release(d->context, &d->ppm.strip);
    stk__free(d->context, d);
    *decoder = NULL;
}

/* Read the header and make sure that there is a decoder for the format. */
static stk_status open_picture(stk__image_decoder *decoder, const void *data, uint64_t length,
                               stk__image_header *header, const char **reason)
{
    stk_status status = STK_OK;

    *reason = "";
    stk__image_decoder_end(decoder);
    decoder->next = 0;
    STK_TRY(stk__image_peek_header(data, length, &decoder->limits, &decoder->info, header, reason));
    if (decoder->info.format == STK__IMAGE_JPEG && !decoder->jpeg)
        status = stk__jpeg_create(decoder->context, &decoder->limits, decoder->pixel_bytes,
                                  &decoder->jpeg);
    if (decoder->info.format == STK__IMAGE_PNG && !decoder->png)
        status = stk__png_create(decoder->context, decoder->pixel_bytes, &decoder->png);
    if (status != STK_OK)
        return stk__image_refuse(reason, status, "no memory for a picture decoder");
    if (decoder->jpeg)
        stk__jpeg_set_by(decoder->jpeg, decoder->by);
    return STK_OK;
}

/* Whether a picture can be given as values of one byte, as it stores them. */
static stk_status check_mask(const stk__image_info *info, const char **reason)
{
    if (info->components != 1)
        return stk__image_refuse(reason, STK_EKIND,
                                 "it is a colour picture, or has alpha, where a mask of one value "
                                 "a pixel is wanted; save it as a PNG with a palette, or in grey");
    if (info->bit_depth > 8)
        return stk__image_refuse(reason, STK_EKIND,
                                 "it has 16 bits a pixel where a mask of at most 8 is wanted; save "
                                 "it as an 8-bit PNG");
    return STK_OK;
}

static bool box_lies_within(const stk__image_box *box, const stk__image_info *info)
{
    return box->width && box->height && box->x < info->width && box->y < info->height &&
           box->width <= info->width - box->x && box->height <= info->height - box->y;
}

/* The smallest box of whole scaled pixels around `box`, and `box` within it. */
static void place(const stk__image_info *info, const stk__image_box *box, uint32_t scale,
                  stk__image_region *region)
{
    uint32_t right = (box->x + box->width - 1) / scale + 1;
    uint32_t bottom = (box->y + box->height - 1) / scale + 1;

    region->scale = scale;
    region->x = box->x / scale;
    region->y = box->y / scale;
    region->width = right - region->x;
    region->height = bottom - region->y;
    region->picture_width = (info->width - 1) / scale + 1;
    region->picture_height = (info->height - 1) / scale + 1;
    /* Exact: the divisor is a power of two. */
    region->left = (double)box->x / scale - region->x;
    region->top = (double)box->y / scale - region->y;
    region->right = region->left + (double)box->width / scale;
    region->bottom = region->top + (double)box->height / scale;
}

stk_status stk__image_decoder_begin(stk__image_decoder *decoder, const void *data, uint64_t length,
                                    const stk__image_box *box, uint32_t scale,
                                    stk__image_region *region, const char **reason)
{
    stk__image_header header;
    stk_status status;

    STK_TRY(open_picture(decoder, data, length, &header, reason));
    const stk__image_info *info = &decoder->info;
    if (decoder->pixel_bytes == 1)
        STK_TRY(check_mask(info, reason));
    stk__image_box all = {0, 0, info->width, info->height};
    if (!box)
        box = &all;
    if (!box_lies_within(box, info))
        return stk__image_refuse(reason, STK_EINVAL,
                                 "the box to decode is not within the picture; ask for one "
                                 "that does");
    if (scale != 1 && scale != 2 && scale != 4 && scale != STK__IMAGE_MAX_SCALE)
        return stk__image_refuse(reason, STK_EINVAL,
                                 "pictures are decoded at 1, 1/2, 1/4 or 1/8; ask for one of them");
    bool jpeg = info->format == STK__IMAGE_JPEG;
    place(info, box, jpeg ? scale : 1, &decoder->region);
    if (jpeg)
        status = stk__jpeg_begin(decoder->jpeg, data, length, info, &header.jpeg, &decoder->region,
                                 reason);
    else if (info->format == STK__IMAGE_PPM)
        status = stk__ppm_begin(&decoder->ppm, data, length, info, &header.ppm, &decoder->region,
                                reason);
    else
        status =
            stk__png_begin(decoder->png, data, length, info, &header.png, &decoder->region, reason);
    STK_TRY(status);
    decoder->state = STK__DECODER_ACTIVE;
    *region = decoder->region;
    return STK_OK;
}

stk_status stk__image_decoder_rows(stk__image_decoder *decoder, uint32_t most,
                                   stk__image_rows *rows, const char **reason)
{
    uint32_t left = decoder->region.height - decoder->next;
    uint32_t wanted = STK_MIN(most ? most : STK__IMAGE_STRIP_ROWS, left);
    stk_status status = STK_OK;

    *reason = "";
    if (decoder->state == STK__DECODER_DONE || (decoder->state == STK__DECODER_ACTIVE && !left)) {
        stk__image_decoder_end(decoder);
        decoder->state = STK__DECODER_DONE;
        return STK_EOS;
    }
    if (decoder->state != STK__DECODER_ACTIVE)
        return stk__image_refuse(reason, STK_EINVAL, "no picture is being decoded; begin one");
    wanted = STK_MIN(wanted, STK__IMAGE_STRIP_ROWS);
    if (decoder->info.format == STK__IMAGE_JPEG)
        status = stk__jpeg_rows(decoder->jpeg, wanted, rows, reason);
    else if (decoder->info.format == STK__IMAGE_PPM)
        stk__ppm_rows(&decoder->ppm, wanted, rows);
    else
        status = stk__png_rows(decoder->png, wanted, rows, reason);
    if (status != STK_OK) {
        stk__image_decoder_end(decoder);
        return status;
    }
    rows->first = decoder->next;
    decoder->next += rows->count;
    return STK_OK;
}

stk_status stk__image_entropy_time(stk__image_decoder *decoder, const void *data, uint64_t length,
                                   uint64_t *ns, const char **reason)
{
    stk__image_header header;

    STK_TRY(open_picture(decoder, data, length, &header, reason));
    if (decoder->info.format != STK__IMAGE_JPEG)
        return stk__image_refuse(reason, STK_EKIND,
                                 "entropy decoding is timed for JPEG alone; choose a JPEG");
    return stk__jpeg_entropy_time(decoder->jpeg, data, length, &decoder->info, &header.jpeg, ns,
                                  reason);
}
