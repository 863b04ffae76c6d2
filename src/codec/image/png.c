/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a box of a PNG, through libspng. It is given the critical chunks only, so that nothing
 * ancillary is ever inflated; their checksums were compared before.
 */
#include "codec/image/room.h"

#include <spng.h>

#define MARK_BYTES 8

struct stk__png {
    stk_context *context;
    uint32_t pixel_bytes;
    bool no_memory; /* an allocation of libspng or zlib failed */

    /* The picture being decoded. */
    spng_ctx *library;
    const uint8_t *data;
    uint64_t length;
    stk__png_chunk chunk; /* being given to libspng */
    uint64_t at, end;     /* bytes of it that are left to give */
    stk__image_region region;
    bool raw;        /* rows come as stored: 16-bit grey to be clipped, or values of a mask */
    bool interlaced; /* all rows are in `whole` */
    uint32_t bit_depth;
    uint32_t row;      /* of the region, next to come */
    uint32_t capacity; /* rows of the strip */
    size_t row_bytes;  /* of a row as libspng gives it */
    size_t stride;     /* of a row of the strip */
    stk__image_buffer strip, whole, wide;
};

/* ---- Memory: libspng's allocator takes no argument, so that the thread keeps it
 * ------------------- */

static _Thread_local stk__png *current;

static void *png_alloc(size_t size)
{
    void *memory = stk__alloc(current->context, size);

    current->no_memory = current->no_memory || !memory;
    return memory;
}

static void *png_calloc(size_t count, size_t size)
{
    void *memory = stk__calloc(current->context, count, size);

    current->no_memory = current->no_memory || !memory;
    return memory;
}

static void *png_realloc(void *old, size_t size)
{
    void *memory = stk__realloc(current->context, old, size);

    current->no_memory = current->no_memory || !memory;
    return memory;
}

static void png_free(void *memory)
{
    stk__free(current->context, memory);
}

/* ---- Life ---------------------------------------------------------------------------------- */

stk_status stk__png_create(stk_context *ctx, uint32_t pixel_bytes, stk__png **out)
{
    stk__png *png = stk__calloc(ctx, 1, sizeof *png);

    *out = png;
    if (!png)
        return STK_ENOMEM;
    png->context = ctx;
    png->pixel_bytes = pixel_bytes;
    return STK_OK;
}

void stk__png_end(stk__png *png)
{
    if (png->library) {
        current = png;
        spng_ctx_free(png->library);
        png->library = NULL;
        current = NULL;
    }
    stk__image_buffer_trim(png->context, &png->strip);
    stk__image_buffer_trim(png->context, &png->whole);
    stk__image_buffer_trim(png->context, &png->wide);
}

void stk__png_destroy(stk__png **png)
{
    stk__png *p = *png;

    if (!p)
        return;
    stk__png_end(p);
    stk__image_buffer_release(p->context, &p->strip);
    stk__image_buffer_release(p->context, &p->whole);
    stk__image_buffer_release(p->context, &p->wide);
    stk__free(p->context, p);
    *png = NULL;
}

/* ---- Beginning ----------------------------------------------------------------------------- */

static stk_status failure(const stk__png *png, int code, const char **reason)
{
    if (png->no_memory || code == SPNG_EMEM)
        return stk__image_refuse(reason, STK_ENOMEM,
                                 "no memory to decode the PNG; free some, or use fewer workers");
    switch (code) {
    case SPNG_EIDAT_TOO_SHORT:
    case SPNG_IO_EOF:
        return stk__image_refuse(reason, STK_EFORMAT,
                                 "the PNG has fewer pixels than its header says; copy or download "
                                 "it again");
    case SPNG_EIDAT_STREAM:
    case SPNG_EFILTER:
        return stk__image_refuse(reason, STK_EFORMAT,
                                 "the compressed pixels of the PNG are damaged; copy or download "
                                 "it again");
    case SPNG_ENOPLTE:
        return stk__image_refuse(reason, STK_EFORMAT,
                                 "the PNG has no palette and needs one; save the picture again");
    default:
        return stk__image_refuse(reason, STK_EFORMAT,
                                 "the PNG is damaged: libspng refuses its structure; copy or "
                                 "download it again");
    }
}

/* Give libspng the mark and the critical chunks, one after the other. */
static int read_critical(spng_ctx *library, void *user, void *out, size_t count)
{
    stk__png *png = user;
    uint8_t *to = out;

    while (count) {
        if (png->at == png->end) {
            if (!stk__png_chunk_next(png->data, png->length, &png->chunk))
                return SPNG_IO_EOF;
            png->at = png->chunk.at;
            png->end = png->chunk.next;
        }
        size_t piece = STK_MIN(count, png->end - png->at);
        memcpy(to, png->data + png->at, piece);
        png->at += piece;
        to += piece;
        count -= piece;
    }
    return SPNG_OK;
}

/* Set up libspng; `current` is set. Buffers first, so that only libspng can fail later. */
static int start(stk__png *png, const stk__image_info *info)
{
    struct spng_alloc alloc = {png_alloc, png_realloc, png_calloc, png_free};
    int format = png->raw ? SPNG_FMT_PNG : png->pixel_bytes == 4 ? SPNG_FMT_RGBA8 : SPNG_FMT_RGB8;
    int code;

    png->library = spng_ctx_new2(&alloc, 0);
    if (!png->library)
        return SPNG_EMEM;
    code = spng_set_crc_action(png->library, SPNG_CRC_USE, SPNG_CRC_USE);
    if (code == SPNG_OK)
        code = spng_set_png_stream(png->library, read_critical, png);
    if (code != SPNG_OK)
        return code;
    /* libspng puts samples of less than a byte in by or. */
    if (png->interlaced && png->raw)
        memset(png->whole.data, 0, png->row_bytes * info->height);
    if (png->interlaced)
        return spng_decode_image(png->library, png->whole.data, png->row_bytes * info->height,
                                 format, 0);
    code = spng_decode_image(png->library, NULL, 0, format, SPNG_DECODE_PROGRESSIVE);
    uint8_t *row = png->raw ? png->wide.data : png->strip.data;
    for (uint32_t i = 0; code == SPNG_OK && i < png->region.y; i++)
        code = spng_decode_row(png->library, row, png->row_bytes);
    return code;
}

static bool need_buffers(stk__png *png, const stk__image_info *info)
{
    uint64_t whole;

    if (png->interlaced) {
        if (!stk__mul_size(png->row_bytes, info->height, &whole) ||
            !stk__image_buffer_need(png->context, &png->whole, whole))
            return false;
    }
    if (png->raw && !stk__image_buffer_need(png->context, &png->wide, png->row_bytes))
        return false;
    /* Rows of an interlaced picture are given where they are, but for those to be changed. */
    return (png->interlaced && !png->raw) ||
           stk__image_buffer_need(png->context, &png->strip, png->capacity * png->stride);
}

stk_status stk__png_begin(stk__png *png, const uint8_t *data, uint64_t length,
                          const stk__image_info *info, const stk__png_header *header,
                          const stk__image_region *region, const char **reason)
{
    STK_TRY(stk__png_check(data, length, reason));
    png->no_memory = false;
    png->data = data;
    png->length = length;
    png->chunk = (stk__png_chunk){.next = MARK_BYTES};
    png->at = 0;
    png->end = MARK_BYTES;
    png->region = *region;
    png->row = 0;
    png->bit_depth = info->bit_depth;
    png->raw = png->pixel_bytes == 1 || (info->bit_depth == 16 && info->components == 1);
    png->interlaced = info->progressive;
    png->stride = (size_t)info->width * png->pixel_bytes;
    png->row_bytes = png->raw ? ((size_t)info->width * info->bit_depth + 7) / 8 : png->stride;
    png->capacity = stk__image_strip_rows(png->stride);
    if (!need_buffers(png, info)) {
        stk__png_end(png);
        return stk__image_refuse(reason, STK_ENOMEM,
                                 "no memory for rows of the picture; free some");
    }
    current = png;
    int code = start(png, info);
    current = NULL;
    if (code == SPNG_OK)
        return STK_OK;
    stk__png_end(png);
    return failure(png, code, reason);
}

/* ---- Rows ---------------------------------------------------------------------------------- */

/* 16-bit grey -> RGB as Pillow has it: what is beyond a byte is white. */
static void clip_grey16(const uint8_t *in, uint8_t *out, uint32_t width, uint32_t pixel_bytes)
{
    for (uint32_t i = 0; i < width; i++, out += pixel_bytes) {
        uint16_t value;
        memcpy(&value, in + 2 * (size_t)i, sizeof value);
        out[0] = out[1] = out[2] = (uint8_t)STK_MIN(value, 255);
    }
}

/* Values as stored, of 1, 2, 4 or 8 bits from the high end of a byte on -> one byte each. */
static void unpack(const uint8_t *in, uint8_t *out, uint32_t first, uint32_t count, uint32_t bits)
{
    const uint32_t mask = (1u << bits) - 1;

    if (bits == 8) {
        memcpy(out, in + first, count);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint64_t at = (uint64_t)(first + i) * bits;
        out[i] = (uint8_t)(in[at / 8] >> (8 - bits - at % 8) & mask);
    }
}

/* The next row of the region into row `i` of the strip. */
static int next_row(stk__png *png, uint32_t i)
{
    const stk__image_region *r = &png->region;
    uint8_t *out = png->strip.data + i * png->stride;
    uint8_t *to = png->raw ? png->wide.data : out;
    const uint8_t *in = to;
    int code = SPNG_OK;

    if (png->interlaced)
        in = png->whole.data + ((size_t)r->y + png->row) * png->row_bytes;
    else
        code = spng_decode_row(png->library, to, png->row_bytes);
    out += (size_t)r->x * png->pixel_bytes;
    if (png->raw && png->pixel_bytes == 1)
        unpack(in, out, r->x, r->width, png->bit_depth);
    else if (png->raw)
        clip_grey16(in + (size_t)r->x * 2, out, r->width, png->pixel_bytes);
    png->row++;
    return code == SPNG_EOI ? SPNG_OK : code; /* EOI: this was the last row */
}

stk_status stk__png_rows(stk__png *png, uint32_t wanted, stk__image_rows *rows, const char **reason)
{
    int code = SPNG_OK;

    rows->stride = png->stride;
    if (png->interlaced && !png->raw) {
        rows->data = png->whole.data + ((size_t)png->region.y + png->row) * png->stride;
        rows->count = wanted;
        png->row += wanted;
    } else {
        rows->data = png->strip.data;
        rows->count = STK_MIN(wanted, png->capacity);
        current = png;
        for (uint32_t i = 0; code == SPNG_OK && i < rows->count; i++)
            code = next_row(png, i);
        current = NULL;
    }
    rows->data += (size_t)png->region.x * png->pixel_bytes;
    return code == SPNG_OK ? STK_OK : failure(png, code, reason);
}
