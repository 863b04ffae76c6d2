/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One row of MCUs after the other: codes to samples of the blocks that the region wants, in planes
 * that hold this one row; then as many rows of pixels as its samples suffice for. Where chroma is
 * sampled down the page, the row of pixels at the lower edge waits for the chroma below it, and the
 * last row of each plane is kept above the next ones.
 */
#include "codec/image/baseline.h"

#include "codec/image/entropy.h"
#include "codec/image/pixels.h"

#define BLOCK 8
#define GUARD 64 /* bytes around the samples of a plane, for kernels and for edges repeated */
#define RST0  0xd0
#define EOI   0xd9

typedef struct plane {
    uint8_t *data; /* row 0 of the row of MCUs, first column; the row kept lies above */
    size_t stride;
    uint32_t width, height;       /* samples of the picture */
    uint32_t first, columns;      /* of blocks */
    uint32_t first_row, last_row; /* of blocks, of the picture */
} plane;

struct stk__baseline {
    stk_context *context;
    uint32_t pixel_bytes;
    const stk__pixel_kernels *pixels;
    stk__decode_mcus_fn *decode;
    stk__entropy entropy;
    stk__huffman_dc dc[STK__BASELINE_TABLES];
    stk__huffman_ac ac[STK__BASELINE_TABLES];
    _Alignas(32) int16_t quantisers[STK__BASELINE_COMPONENTS][STK__BLOCK_COEFFICIENTS];
    stk__image_buffer rows, strip;

    /* The picture being decoded. */
    stk__baseline_header header;
    stk__image_region region;
    plane planes[STK__BASELINE_COMPONENTS];
    uint8_t *wide[2];       /* a row of each chroma, widened */
    uint32_t max_h, max_v;  /* sampling factors */
    uint32_t across, down;  /* MCUs */
    uint32_t mcu_row;       /* next to decode */
    uint32_t row, ready;    /* of the picture: next to give; the first that the planes lack */
    uint32_t until_restart; /* MCUs */
    uint32_t next_restart;  /* 0 to 7 */
    uint32_t capacity;      /* rows of the strip */
    size_t stride;          /* of the strip */
    uint8_t segment[STK__SEGMENT_ROOM];
};

/* ---- Life ---------------------------------------------------------------------------------- */

stk_status stk__baseline_create(stk_context *ctx, uint32_t pixel_bytes, stk__baseline **out)
{
    stk__baseline *b = stk__alloc_buffer(ctx, sizeof *b);

    *out = b;
    if (!b)
        return STK_ENOMEM;
    memset(b, 0, sizeof *b);
    b->context = ctx;
    b->pixel_bytes = pixel_bytes;
    b->pixels = &stk__pixel_kernels_c;
    b->decode = stk__decode_mcus;
    b->entropy.segment = b->segment;
    b->entropy.unstuff = stk__unstuff;
    b->entropy.idct = stk__idct;
#ifdef STK_WITH_AVX2
    if (stk__cpu_has_avx2(ctx) && __builtin_cpu_supports("bmi2")) {
        b->pixels = &stk__pixel_kernels_avx2;
        b->decode = stk__decode_mcus_avx2;
        b->entropy.unstuff = stk__unstuff_avx2;
        b->entropy.idct = stk__idct_avx2;
    }
#endif
    return STK_OK;
}

void stk__baseline_end(stk__baseline *b)
{
    stk__image_buffer_trim(b->context, &b->rows);
    stk__image_buffer_trim(b->context, &b->strip);
}

void stk__baseline_destroy(stk__baseline **baseline)
{
    stk__baseline *b = *baseline;

    if (!b)
        return;
    stk__image_buffer_release(b->context, &b->rows);
    stk__image_buffer_release(b->context, &b->strip);
    stk__free(b->context, b);
    *baseline = NULL;
}

/* ---- Beginning ----------------------------------------------------------------------------- */

/* Zigzag order -> the order of coefficients. */
static void place_quantisers(const uint8_t *from, bool wide, int16_t *to)
{
    for (uint32_t i = 0; i < STK__BLOCK_COEFFICIENTS; i++)
        to[stk__places[i + 1]] = (int16_t)(wide ? stk__be16(from + 2 * (size_t)i) : from[i]);
}

static bool make_tables(stk__baseline *b)
{
    const stk__baseline_header *h = &b->header;

    for (uint32_t i = 0; i < h->num_components; i++) {
        const stk__baseline_component *c = &h->components[i];
        if (!stk__huffman_make_dc(&b->dc[c->dc], &h->dc[c->dc]) ||
            !stk__huffman_make_ac(&b->ac[c->ac], &h->ac[c->ac]))
            return false;
        place_quantisers(h->quantisers[c->quantisers], h->wide[c->quantisers], b->quantisers[i]);
    }
    return true;
}

/* The blocks along one axis that hold samples [from, to] of the picture, and of a sampled component
 * their neighbours. */
static void want(uint32_t from, uint32_t to, uint32_t sampled, uint32_t samples, uint32_t *first,
                 uint32_t *last)
{
    if (sampled > 1) {
        from = STK_MAX(from / sampled, 1) - 1;
        to = STK_MIN(to / sampled + 1, samples - 1);
    }
    *first = from / BLOCK;
    *last = to / BLOCK;
}

/* What of each component is wanted, and where. Gives the bytes that all planes take. */
static uint64_t place_planes(stk__baseline *b)
{
    const stk__baseline_header *h = &b->header;
    const stk__image_region *r = &b->region;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < h->num_components; i++) {
        const stk__baseline_component *c = &h->components[i];
        uint32_t across = b->max_h / c->h, down = b->max_v / c->v, last;
        plane *p = &b->planes[i];
        p->width = (h->width - 1) / across + 1;
        p->height = (h->height - 1) / down + 1;
        want(r->x, r->x + r->width - 1, across, p->width, &p->first, &last);
        p->columns = last - p->first + 1;
        want(r->y, r->y + r->height - 1, down, p->height, &p->first_row, &p->last_row);
        p->stride = stk__round_up((uint64_t)p->columns * BLOCK + 2 * GUARD, GUARD);
        bytes += p->stride * (BLOCK * c->v + 1);
    }
    return bytes;
}

/* The blocks of an MCU: of which MCUs they are wanted and where their samples go. */
static void place_blocks(stk__baseline *b)
{
    stk__mcu_block *block = b->entropy.blocks;

    for (uint32_t i = 0; i < b->header.num_components; i++) {
        const stk__baseline_component *c = &b->header.components[i];
        const plane *p = &b->planes[i];
        uint32_t last = p->first + p->columns - 1;
        for (uint32_t y = 0; y < c->v; y++)
            for (uint32_t x = 0; x < c->h; x++, block++) {
                uint32_t first = (p->first + c->h - 1 - x) / c->h;
                *block = (stk__mcu_block){.dc = &b->dc[c->dc],
                                          .ac = &b->ac[c->ac],
                                          .quantisers = b->quantisers[i],
                                          .dc_before = &b->entropy.dc_before[i],
                                          .stride = p->stride,
                                          .step = (size_t)BLOCK * c->h,
                                          .first = first};
                if (first * c->h + x <= last)
                    block->out = p->data + (size_t)y * BLOCK * p->stride +
                                 (size_t)(first * c->h + x - p->first) * BLOCK;
            }
    }
    b->entropy.num_blocks = (uint32_t)(block - b->entropy.blocks);
}

static bool need_buffers(stk__baseline *b)
{
    uint64_t planes = place_planes(b), strip;
    uint64_t wide = stk__round_up(b->region.width + 2, GUARD) + GUARD;

    if (!stk__image_buffer_need(b->context, &b->rows, planes + 2 * wide))
        return false;
    uint8_t *data = b->rows.data;
    for (uint32_t i = 0; i < b->header.num_components; i++) {
        plane *p = &b->planes[i];
        p->data = data + p->stride + GUARD;
        data += p->stride * (BLOCK * b->header.components[i].v + 1);
    }
    b->wide[0] = data;
    b->wide[1] = data + wide;
    if (b->pixel_bytes == 1)
        return true; /* rows are given where they are */
    b->stride = stk__round_up(b->region.width, STK__PIXELS_BEYOND) * b->pixel_bytes;
    b->capacity = stk__image_strip_rows(b->stride);
    return stk__mul_size(b->stride, b->capacity, &strip) &&
           stk__image_buffer_need(b->context, &b->strip, strip);
}

stk_status stk__baseline_begin(stk__baseline *b, const uint8_t *data, uint64_t length,
                               uint64_t scan, const stk__image_region *region, bool *taken,
                               const char **reason)
{
    stk__baseline_header *h = &b->header;

    *taken = false;
    if (region->scale != 1 || !stk__baseline_read(data, h))
        return STK_OK;
    b->max_h = h->components[0].h;
    b->max_v = h->components[0].v;
    b->across = (h->width - 1) / (BLOCK * b->max_h) + 1;
    b->down = (h->height - 1) / (BLOCK * b->max_v) + 1;
    b->region = *region;
    if (!make_tables(b))
        return STK_OK;
    if (!need_buffers(b)) {
        stk__baseline_end(b);
        return stk__image_refuse(reason, STK_ENOMEM, STK__NO_MEMORY_FOR_ROWS);
    }
    place_blocks(b);
    b->mcu_row = 0;
    b->row = region->y;
    b->ready = 0;
    b->until_restart = h->restart_interval;
    b->next_restart = 0;
    memset(b->entropy.coefficients, 0, sizeof b->entropy.coefficients);
    stk__entropy_start(&b->entropy, data + scan, data + length);
    *taken = true;
    return STK_OK;
}

/* ---- MCUs ---------------------------------------------------------------------------------- */

/* More bits were taken than there are. */
static stk_status ended(const stk__baseline *b, const char **reason)
{
    return b->entropy.marker ? stk__image_refuse(reason, STK_EFORMAT, STK__JPEG_HIT_MARKER)
                             : stk__image_refuse(reason, STK_ETRUNCATED, STK__JPEG_ENDS);
}

/* The segment up to its end; STK_EAGAIN where bytes are left over. */
static stk_status finish_segment(stk__baseline *b, const char **reason)
{
    stk__entropy *e = &b->entropy;

    if (!e->ended)
        stk__entropy_more(e);
    int64_t left = stk__entropy_left(e);
    if (left < 0)
        return ended(b, reason);
    return e->ended && left < 8 ? STK_OK : STK_EAGAIN;
}

static stk_status restart(stk__baseline *b, const char **reason)
{
    stk__entropy *e = &b->entropy;

    STK_TRY(finish_segment(b, reason));
    if (e->marker != RST0 + b->next_restart)
        return stk__image_refuse(reason, STK_EFORMAT, STK__JPEG_RESYNC);
    b->next_restart = (b->next_restart + 1) & 7;
    b->until_restart = b->header.restart_interval;
    stk__entropy_start(e, e->in, e->in_end);
    return STK_OK;
}

/* All MCUs of a row; the blocks say which are wanted. */
static stk_status decode_row(stk__baseline *b, const char **reason)
{
    uint32_t interval = b->header.restart_interval, count;

    for (uint32_t mcu = 0; mcu < b->across; mcu += count) {
        count = b->across - mcu;
        if (interval) {
            if (!b->until_restart)
                STK_TRY(restart(b, reason));
            count = STK_MIN(count, b->until_restart);
            b->until_restart -= count;
        }
        switch (b->decode(&b->entropy, mcu, count)) {
        case STK__ENTROPY_OK:
            break;
        case STK__ENTROPY_BAD_CODE:
            return stk__image_refuse(reason, STK_EFORMAT, STK__JPEG_BAD_CODE);
        default:
            return ended(b, reason);
        }
    }
    b->mcu_row++;
    if (b->entropy.ended && stk__entropy_left(&b->entropy) < 0)
        return ended(b, reason);
    /* What is behind the last code is well where it is the end; else it is libjpeg's. */
    if (b->mcu_row < b->down)
        return STK_OK;
    STK_TRY(finish_segment(b, reason));
    return b->entropy.marker == EOI ? STK_OK : STK_EAGAIN;
}

/* Chroma is sampled down the page. */
static bool lags(const stk__baseline *b)
{
    return b->header.num_components > 1 && b->max_v > 1;
}

/* Repeat the samples at the left and right edges of the picture beyond them. */
static void repeat_edges(const plane *p)
{
    uint32_t edge = p->width - p->first * BLOCK;
    uint8_t *row = p->data;

    for (int i = 0; i < BLOCK; i++, row += p->stride) {
        if (!p->first)
            row[-1] = row[0];
        if (edge <= p->columns * BLOCK)
            row[edge] = row[edge - 1];
    }
}

/* The next row of MCUs into the planes. */
static stk_status next_mcus(stk__baseline *b, const char **reason)
{
    const stk__baseline_header *h = &b->header;
    stk__mcu_block *block = b->entropy.blocks;

    for (uint32_t i = 0; i < h->num_components; i++) {
        const stk__baseline_component *c = &h->components[i];
        const plane *p = &b->planes[i];
        uint8_t *above = p->data - GUARD - p->stride;
        if (lags(b) && b->mcu_row * c->v > p->first_row)
            memcpy(above, above + (size_t)BLOCK * c->v * p->stride, p->stride);
        for (uint32_t y = 0; y < c->v; y++) {
            uint32_t row = b->mcu_row * c->v + y;
            bool wanted = row >= p->first_row && row <= p->last_row;
            for (uint32_t x = 0; x < c->h; x++, block++) {
                uint32_t last = p->first + p->columns - 1;
                block->count = wanted && x <= last ? (last - x) / c->h + 1 - block->first : 0;
            }
        }
    }
    STK_TRY(decode_row(b, reason));
    for (uint32_t i = 0; i < h->num_components; i++)
        if (h->components[i].h < b->max_h)
            repeat_edges(&b->planes[i]);
    b->ready = b->mcu_row == b->down ? h->height : b->mcu_row * BLOCK * b->max_v - lags(b);
    return STK_OK;
}

/* ---- Rows ---------------------------------------------------------------------------------- */

/* A row of a plane by its number in the picture. */
static const uint8_t *row_of(const stk__baseline *b, uint32_t component, uint32_t row)
{
    uint32_t above = (b->mcu_row - 1) * BLOCK * b->header.components[component].v;
    const plane *p = &b->planes[component];

    return p->data + ((int64_t)row - above) * (int64_t)p->stride - (size_t)p->first * BLOCK;
}

/* A row of chroma, as wide as the region. */
static const uint8_t *chroma(stk__baseline *b, uint32_t component, uint32_t row)
{
    const stk__image_region *r = &b->region;
    const plane *p = &b->planes[component];
    uint32_t near = row / b->max_v, far = near;
    uint8_t *out = b->wide[component - 1];

    if (b->max_v > 1) /* the first and the last row of a picture are their own neighbours */
        far = row % 2 ? STK_MIN(near + 1, p->height - 1) : STK_MAX(near, 1) - 1;
    const uint8_t *in = row_of(b, component, near), *other = row_of(b, component, far);
    if (b->max_h == 1) {
        if (b->max_v == 1)
            return in + r->x;
        b->pixels->between(in + r->x, other + r->x, out, r->width, row % 2 ? 2 : 1);
        return out;
    }
    uint32_t first = r->x / 2, n = (r->x + r->width - 1) / 2 - first + 1;
    if (b->max_v == 1)
        b->pixels->widen(in + first, out, n);
    else
        b->pixels->widen_between(in + first, other + first, out, n);
    return out + r->x % 2;
}

static void make_row(stk__baseline *b, uint32_t row, uint8_t *out)
{
    uint32_t kind = b->pixel_bytes == 4 ? STK__PIXELS_RGBX : STK__PIXELS_RGB;
    const uint8_t *first = row_of(b, 0, row) + b->region.x, *in[3] = {first, first, first};
    const stk__pixel_kernels *kernels = b->pixels;

    if (b->header.num_components > 1) {
        in[1] = chroma(b, 1, row);
        in[2] = chroma(b, 2, row);
    }
    bool plain = b->header.num_components == 1 || b->header.rgb;
    (plain ? kernels->plain : kernels->color)[kind](in, out, b->region.width);
}

stk_status stk__baseline_rows(stk__baseline *b, uint32_t wanted, stk__image_rows *rows,
                              const char **reason)
{
    while (b->ready <= b->row)
        STK_TRY(next_mcus(b, reason));
    wanted = STK_MIN(wanted, b->ready - b->row);
    if (b->pixel_bytes == 1) {
        rows->data = row_of(b, 0, b->row) + b->region.x;
        rows->stride = b->planes[0].stride;
    } else {
        wanted = STK_MIN(wanted, b->capacity);
        for (uint32_t i = 0; i < wanted; i++)
            make_row(b, b->row + i, b->strip.data + i * b->stride);
        rows->data = b->strip.data;
        rows->stride = b->stride;
    }
    b->row += wanted;
    rows->count = wanted;
    return STK_OK;
}

stk_status stk__baseline_codes(stk__baseline *b, const char **reason)
{
    for (uint32_t i = 0; i < b->header.num_components; i++)
        b->planes[i].first_row = UINT32_MAX; /* nothing is wanted */
    while (b->mcu_row < b->down)
        STK_TRY(next_mcus(b, reason));
    return STK_OK;
}
