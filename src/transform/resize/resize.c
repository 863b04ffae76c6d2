/* SPDX-License-Identifier: Apache-2.0 */
#include "transform/resize/resize.h"

#include "transform/resize/resize_kernels.h"
#include "transform/resize/resize_taps.h"

/* Rows resampled at a time, and at least kept free for them; wide rows come in fewer. */
enum { STRIP = 16, SHORT_STRIP = 4, WIDE_ROW = 8192 };

/* Above this many bytes of rows under the filter, their sums are kept instead where that is less.
 */
#define MAX_RING_BYTES (256 * 1024)

/* How the rows under the filter become rows of the result. */
typedef enum stk__mode {
    COPY, /* NEAREST: the row itself */
    RING, /* all rows under the filter are kept */
    SUMS  /* each row is added to those rows of the result that it belongs to */
} stk__mode;

struct stk__resizer {
    stk__resize what;
    stk__mode mode;
    const stk__resize_kernels *kernels;
    stk__axis columns, rows;
    stk__across taps;
    uint32_t first_column, end_column; /* of the input */
    uint32_t first_row, end_row;
    uint32_t next;          /* row of the input that comes next */
    uint32_t out, out_end;  /* row of the result that goes out next, and where they end */
    uint32_t under, behind; /* rows [under, behind) of the input make row `out` */
    double walk;            /* COPY: place of row `out` in the input */
    size_t row_bytes;       /* of the result */
    size_t row_stride;      /* of the rows below */
    uint32_t ring_rows, slots;
    uint8_t *ring;        /* RING: row n is at n % ring_rows; SUMS: the strip; COPY: one row */
    const uint8_t **list; /* the rows that one call of a kernel takes */
    int16_t *weights;     /* of rows: one set, or one for each slot */
    int32_t *sums;        /* SUMS: row n of the result is in slot n % slots */
    uint8_t *row;         /* the row of the result */
};

static bool axes_of(const stk__resize *what, stk__axis *columns, stk__axis *rows)
{
    if (what->pixel_bytes < 1 || what->pixel_bytes > 4 || what->filter < STK__FILTER_NEAREST ||
        what->filter > STK__FILTER_AREA || what->width < 1 || what->height < 1)
        return false;
    if (!stk__axis_init(columns, what->filter, what->left, what->right, what->in_width,
                        what->out_width) ||
        !stk__axis_init(rows, what->filter, what->top, what->bottom, what->in_height,
                        what->out_height))
        return false;
    return what->x < what->out_width && what->width <= what->out_width - what->x &&
           what->y < what->out_height && what->height <= what->out_height - what->y;
}

/* Take room for `bytes` at 64 aligned places; the address is only good when there is a base. */
static void *place(uint8_t *base, uint64_t *at, uint64_t bytes)
{
    void *here = base ? base + *at : NULL;

    *at += stk__round_up(bytes, STK_CACHE_LINE);
    return here;
}

/* Rows of the result that rows below the end of one of them can belong to. */
static uint32_t slots_of(const stk__axis *rows, uint32_t height)
{
    double slots = (2 * rows->support + 2) / rows->scale + 2;

    return slots < height ? (uint32_t)slots : height;
}

/*
 * Decide how it is done and lay out the memory: `base` NULL only measures. No product overflows:
 * the sides are at most 2^16 pixels of 4 bytes, and so is the reach.
 */
static uint64_t layout(stk__resizer *r, uint8_t *base)
{
    const stk__resize *what = &r->what;
    const uint64_t pixels = stk__round_up(what->width, STK__ACROSS_PIXELS);
    const uint64_t groups = stk__round_up(r->columns.reach, STK__ACROSS_TAPS) / STK__ACROSS_TAPS;
    uint64_t at = stk__round_up(sizeof *r, STK_CACHE_LINE);

    r->row_bytes = (size_t)what->width * what->pixel_bytes;
    r->row_stride = stk__round_up(r->row_bytes + STK_TAIL, STK_CACHE_LINE);
    r->taps.start = place(base, &at, pixels * sizeof *r->taps.start);
    if (what->filter == STK__FILTER_NEAREST) {
        r->mode = COPY;
        r->row = place(base, &at, r->row_stride);
        return at;
    }
    const uint32_t strip = r->row_bytes < WIDE_ROW ? STRIP : SHORT_STRIP;
    const uint32_t slots = slots_of(&r->rows, what->height);
    const uint64_t ring = (uint64_t)(r->rows.reach + strip) * r->row_stride;
    const uint64_t sums = (uint64_t)slots * r->row_stride * sizeof *r->sums;
    const uint64_t reach = r->rows.reach * (uint64_t)sizeof *r->weights;

    r->mode =
        ring > MAX_RING_BYTES && sums + strip * r->row_stride + slots * reach < ring ? SUMS : RING;
    r->slots = r->mode == SUMS ? slots : 0;
    r->ring_rows = strip + (r->mode == RING ? r->rows.reach : 0);
    r->taps.weights =
        place(base, &at, pixels * groups * STK__ACROSS_TAPS * sizeof *r->taps.weights);
    /* Before the first row these are the scratch memory of make_taps(). */
    r->weights = place(base, &at,
                       STK_MAX(r->mode == SUMS ? slots * reach : reach,
                               r->columns.reach * (uint64_t)sizeof *r->weights));
    r->list = place(base, &at, (uint64_t)r->ring_rows * sizeof *r->list);
    r->sums = place(base, &at, r->mode == SUMS ? sums : 0);
    r->row = place(base, &at, r->row_stride);
    r->ring = place(base, &at, r->ring_rows * (uint64_t)r->row_stride);
    return at;
}

uint64_t stk__resizer_bytes(const stk__resize *what)
{
    stk__resizer measured = {.what = *what};

    if (!axes_of(what, &measured.columns, &measured.rows))
        return UINT64_MAX;
    return layout(&measured, NULL);
}

/* NEAREST: the byte of each pixel. */
static void make_places(stk__resizer *r, uint32_t *start)
{
    const stk__resize *what = &r->what;
    double walk = stk__axis_walk(&r->columns, what->x);

    for (uint32_t i = 0; i < what->width; i++, walk += r->columns.scale)
        start[i] = stk__axis_nearest(&r->columns, walk);
    r->first_column = start[0];
    r->end_column = start[what->width - 1] + 1;
    for (uint32_t i = 0; i < what->width; i++)
        start[i] *= what->pixel_bytes;
}

/*
 * The weights of the rows, in the order of the kernels, which read whole groups of taps. So the
 * last pixels begin further left, with zeros in front, and nothing is read beyond the last column
 * but the rest of one group.
 */
static void make_taps(stk__resizer *r, uint32_t *start, int16_t *weights, int16_t *scratch)
{
    const stk__resize *what = &r->what;
    const stk__axis *axis = &r->columns;
    uint32_t most = 0, first = 0, end = 0;

    for (uint32_t i = 0; i < what->width; i++) {
        stk__axis_range(axis, what->x + i, &first, &end);
        most = STK_MAX(most, end - first);
        start[i] = first;
    }
    r->first_column = start[0];
    r->end_column = end;
    const uint32_t groups = (most + STK__ACROSS_TAPS - 1) / STK__ACROSS_TAPS;
    const uint32_t taken = (most + 1) / 2 * 2;
    const uint32_t pixels = (uint32_t)stk__round_up(what->width, STK__ACROSS_PIXELS);
    const uint32_t last =
        end - r->first_column > taken ? end - taken : r->first_column; /* where a pixel may begin */

    r->taps.pixels = pixels;
    r->taps.groups = groups;
    r->taps.bits = axis->bits;
    r->taps.half_group = taken % STK__ACROSS_TAPS != 0;
    memset(weights, 0, (size_t)pixels * groups * STK__ACROSS_TAPS * sizeof *weights);
    for (uint32_t i = 0; i < what->width; i++) {
        stk__axis_range(axis, what->x + i, &first, &end);
        const uint32_t from = STK_MIN(first, last), skip = first - from;

        start[i] = from * what->pixel_bytes;
        if (groups == 1) {
            stk__axis_weights(axis, what->x + i, first, end,
                              weights + (size_t)i * STK__ACROSS_TAPS + skip);
            continue;
        }
        stk__axis_weights(axis, what->x + i, first, end, scratch);
        for (uint32_t k = 0; k < end - first; k++)
            weights[stk__across_at(groups, i, skip + k)] = scratch[k];
    }
    for (uint32_t i = what->width; i < pixels; i++)
        start[i] = start[what->width - 1];
}

/* The rows of the input that make row `out`. */
static void look_ahead(stk__resizer *r)
{
    if (r->mode == COPY) {
        r->under = stk__axis_nearest(&r->rows, r->walk);
        r->behind = r->under + 1;
    } else {
        stk__axis_range(&r->rows, r->out, &r->under, &r->behind);
    }
}

stk__resizer *stk__resizer_init(stk_context *ctx, const stk__resize *what, void *memory)
{
    stk__resizer *r = memory;

    *r = (stk__resizer){.what = *what,
                        .kernels = stk__resize_kernels_of(ctx),
                        .out = what->y,
                        .out_end = what->y + what->height};
    if (!axes_of(what, &r->columns, &r->rows))
        return NULL;
    layout(r, memory);
    if (r->mode == COPY) {
        make_places(r, (uint32_t *)r->taps.start);
        r->walk = stk__axis_walk(&r->rows, what->y);
        r->end_row = stk__axis_nearest(&r->rows, stk__axis_walk(&r->rows, r->out_end - 1)) + 1;
    } else {
        make_taps(r, (uint32_t *)r->taps.start, (int16_t *)r->taps.weights, r->weights);
        uint32_t ignored;

        stk__axis_range(&r->rows, r->out_end - 1, &ignored, &r->end_row);
    }
    look_ahead(r);
    r->first_row = r->next = r->under;
    return r;
}

void stk__resizer_wants(const stk__resizer *r, uint32_t *first, uint32_t *end,
                        uint32_t *first_column, uint32_t *end_column)
{
    *first = r->first_row;
    *end = r->end_row;
    *first_column = r->first_column;
    *end_column = r->end_column;
}

/* `pixel_bytes` is a constant wherever this is inlined. */
static inline __attribute__((always_inline)) void pick(const uint32_t *start, uint32_t width,
                                                       uint32_t pixel_bytes,
                                                       const uint8_t *restrict src,
                                                       uint8_t *restrict dst)
{
    for (uint32_t i = 0; i < width; i++)
        memcpy(dst + (size_t)i * pixel_bytes, src + start[i], pixel_bytes);
}

static void copy_row(stk__resizer *r, const uint8_t *src)
{
    const uint32_t *start = r->taps.start, width = r->what.width;

    switch (r->what.pixel_bytes) {
    case 1:
        pick(start, width, 1, src, r->row);
        break;
    case 2:
        pick(start, width, 2, src, r->row);
        break;
    case 3:
        pick(start, width, 3, src, r->row);
        break;
    default:
        pick(start, width, 4, src, r->row);
    }
}

/* One row of the result is made where the input comes by; the rows between are passed over. */
static uint32_t push_copy(stk__resizer *r, const uint8_t *rows, size_t stride, uint32_t count)
{
    if (r->next >= r->behind || r->out == r->out_end)
        return 0;
    const uint32_t taken = STK_MIN(count, r->behind - r->next);

    r->next += taken;
    if (r->next == r->behind)
        copy_row(r, rows + (size_t)(taken - 1) * stride);
    return taken;
}

/* Resample the next `count` rows, at most a strip, into the ring from its row `at` on. */
static void across(stk__resizer *r, const uint8_t *rows, size_t stride, uint32_t count, uint32_t at)
{
    uint8_t *to[STRIP];

    for (uint32_t k = 0; k < count; k++) {
        to[k] = r->ring + at * r->row_stride;
        at = at + 1 == r->ring_rows ? 0 : at + 1;
    }
    r->kernels->across[r->what.pixel_bytes](&r->taps, rows, stride, to, count);
    r->next += count;
}

static uint32_t push_ring(stk__resizer *r, const uint8_t *rows, size_t stride, uint32_t count)
{
    uint32_t taken = 0;

    while (taken < count && r->next < r->end_row) {
        uint32_t n = STK_MIN(count - taken, r->end_row - r->next);
        const uint32_t room = r->ring_rows - (r->next - STK_MIN(r->next, r->under));

        n = STK_MIN(n, room);
        n = STK_MIN(n, (uint32_t)STRIP);
        if (n == 0)
            break;
        across(r, rows + (size_t)taken * stride, stride, n, r->next % r->ring_rows);
        taken += n;
    }
    return taken;
}

/* Add the `count` rows of the strip, the last of which came just now, to the rows of the result
 * that they belong to. */
static void add_strip(stk__resizer *r, uint32_t count)
{
    const uint32_t first = r->next - count;

    for (uint32_t out = r->out; out < r->out_end; out++) {
        uint32_t under, behind;

        stk__axis_range(&r->rows, out, &under, &behind);
        if (under >= r->next)
            break;
        const size_t slot = out % r->slots;
        int16_t *weights = r->weights + slot * r->rows.reach;
        int32_t *sums = r->sums + slot * r->row_stride;
        const uint32_t from = STK_MAX(under, first), end = STK_MIN(behind, r->next);

        if (under >= first) {
            stk__axis_weights(&r->rows, out, under, behind, weights);
            memset(sums, 0, r->row_stride * sizeof *sums);
        }
        for (uint32_t k = from; k < end; k++)
            r->list[k - from] = r->ring + (k - first) * r->row_stride;
        r->kernels->add(r->list, weights + (from - under), end - from, r->row_bytes, sums);
    }
}

/* Never beyond the end of the oldest row: so the slots suffice. */
static uint32_t push_sums(stk__resizer *r, const uint8_t *rows, size_t stride, uint32_t count)
{
    uint32_t taken = 0;

    if (r->out == r->out_end)
        return 0;
    while (taken < count && r->next < r->behind) {
        const uint32_t left = STK_MIN(count - taken, r->behind - r->next);
        const uint32_t n = STK_MIN(left, r->ring_rows);

        across(r, rows + (size_t)taken * stride, stride, n, 0);
        add_strip(r, n);
        taken += n;
    }
    return taken;
}

uint32_t stk__resizer_push(stk__resizer *r, const uint8_t *rows, size_t stride, uint32_t count)
{
    switch (r->mode) {
    case COPY:
        return push_copy(r, rows, stride, count);
    case RING:
        return push_ring(r, rows, stride, count);
    default:
        return push_sums(r, rows, stride, count);
    }
}

/* The row of the result from the rows of the ring. One alone is the result. */
static const uint8_t *sum_ring(stk__resizer *r)
{
    const uint32_t count = r->behind - r->under;
    uint32_t at = r->under % r->ring_rows;

    if (count == 1)
        return r->ring + at * r->row_stride;
    for (uint32_t k = 0; k < count; k++) {
        r->list[k] = r->ring + at * r->row_stride;
        at = at + 1 == r->ring_rows ? 0 : at + 1;
    }
    stk__axis_weights(&r->rows, r->out, r->under, r->behind, r->weights);
    r->kernels->down(r->list, r->weights, count, r->rows.bits, r->row_bytes, r->row);
    return r->row;
}

const uint8_t *stk__resizer_pull(stk__resizer *r)
{
    const uint8_t *row = r->row;

    if (r->out == r->out_end || r->next < r->behind)
        return NULL;
    if (r->mode == RING)
        row = sum_ring(r);
    else if (r->mode == SUMS)
        r->kernels->finish(r->sums + r->out % r->slots * r->row_stride, r->rows.bits, r->row_bytes,
                           r->row);
    r->walk += r->rows.scale;
    if (++r->out < r->out_end)
        look_ahead(r);
    return row;
}
