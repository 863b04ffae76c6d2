/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transpose [Zarr v3] and order "F" [Zarr v2]: axes in another order. Axes that stay together are
 * merged when the chain is compiled, so that most transposes become one of two axes.
 */
#include "codec/step.h"

#define LINE 64 /* bytes of a cache line: what a tile takes of each row */

static const stk__reasons reasons = STK__REASONS("transpose");

bool stk__transpose_init(stk__codec_step *step, const uint64_t *shape, const uint32_t *order,
                         uint32_t rank, uint32_t item)
{
    uint64_t stride[STK__CHAIN_MAX_RANK], run = item;
    uint32_t kept = 0;

    for (uint32_t i = rank; i-- > 0; run *= shape[order[i]])
        stride[order[i]] = run;
    *step = (stk__codec_step){.ops = &stk__codec_transpose, .fixed_out = true};
    for (uint32_t i = 0; i < rank; i++) {
        uint64_t *last = &step->u.transpose.stride[kept - (kept > 0)];
        if (shape[i] == 1)
            continue;
        if (kept && *last == stride[i] * shape[i]) {
            *last = stride[i];
            step->u.transpose.shape[kept - 1] *= shape[i];
            continue;
        }
        step->u.transpose.shape[kept] = shape[i];
        step->u.transpose.stride[kept++] = stride[i];
    }
    uint64_t bytes = item;
    if (kept && step->u.transpose.stride[kept - 1] == item)
        bytes *= step->u.transpose.shape[--kept];
    if (!kept || bytes > UINT32_MAX)
        return false;
    step->u.transpose.rank = kept;
    step->u.transpose.item = (uint32_t)bytes;
    uint64_t slice = bytes;
    for (uint32_t i = 1; i < kept; i++)
        slice *= step->u.transpose.shape[i];
    step->u.transpose.whole = step->u.transpose.stride[0] == slice ? slice : 0;
    return true;
}

/* Two axes of a copy, each with its count: elements follow each other along the rows in what is
 * read, along the columns in what is written. The strides are the others. */
typedef struct plane {
    uint64_t rows, columns;
    int64_t to_row, from_column;
} plane;

/*
 * Whole lines of what is read go into a tile, whole lines of what is written come out of it:
 * strides that are a power of two, whose lines fall into one set of the cache, cost little then.
 */
static inline __attribute__((always_inline)) void tile(const plane *p, uint8_t *to,
                                                       const uint8_t *from, uint64_t rows,
                                                       uint64_t columns, uint64_t bytes)
{
    uint8_t room[LINE * LINE];

    for (uint64_t c = 0; c < columns; c++)
        memcpy(room + c * rows * bytes, from + (int64_t)c * p->from_column, rows * bytes);
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < columns; c++)
            memcpy(to + (int64_t)r * p->to_row + c * bytes, room + (c * rows + r) * bytes, bytes);
}

#define DEFINE_PLANE(bytes)                                                                        \
    static void plane_##bytes(const plane *p, uint8_t *to, const uint8_t *from, uint64_t item)     \
    {                                                                                              \
        const uint64_t side = (bytes) < LINE ? LINE / (bytes) : 1;                                 \
        for (uint64_t i = 0; i < p->rows; i += side)                                               \
            for (uint64_t j = 0; j < p->columns; j += side) {                                      \
                uint64_t rows = STK_MIN(side, p->rows - i);                                        \
                uint64_t columns = STK_MIN(side, p->columns - j);                                  \
                const uint8_t *s = from + i * (bytes) + (int64_t)j * p->from_column;               \
                uint8_t *d = to + (int64_t)i * p->to_row + j * (bytes);                            \
                if (rows == side && columns == side)                                               \
                    tile(p, d, s, side, side, bytes);                                              \
                else                                                                               \
                    tile(p, d, s, rows, columns, bytes);                                           \
            }                                                                                      \
    }

DEFINE_PLANE(1)
DEFINE_PLANE(2)
DEFINE_PLANE(4)
DEFINE_PLANE(8)
DEFINE_PLANE(16)
DEFINE_PLANE(item)

/* Elements of a line and more: no tile. */
static void plane_large(const plane *p, uint8_t *to, const uint8_t *from, uint64_t item)
{
    for (uint64_t r = 0; r < p->rows; r++)
        for (uint64_t c = 0; c < p->columns; c++)
            memcpy(to + (int64_t)r * p->to_row + c * item,
                   from + r * item + (int64_t)c * p->from_column, item);
}

static void copy_plane(const plane *p, uint8_t *to, const uint8_t *from, uint32_t item)
{
    switch (item) {
    case 1:
        plane_1(p, to, from, item);
        break;
    case 2:
        plane_2(p, to, from, item);
        break;
    case 4:
        plane_4(p, to, from, item);
        break;
    case 8:
        plane_8(p, to, from, item);
        break;
    case 16:
        plane_16(p, to, from, item);
        break;
    default:
        if (item < LINE)
            plane_item(p, to, from, item);
        else
            plane_large(p, to, from, item);
    }
}

/* What is left when two axes are taken out: counted through from 0 to the end. */
typedef struct counter {
    uint32_t rank;
    uint64_t shape[STK__CHAIN_MAX_RANK], at[STK__CHAIN_MAX_RANK];
    int64_t to[STK__CHAIN_MAX_RANK], from[STK__CHAIN_MAX_RANK];
} counter;

static bool next(counter *c, uint8_t **to, const uint8_t **from)
{
    for (uint32_t i = c->rank; i-- > 0;) {
        *to += c->to[i];
        *from += c->from[i];
        if (++c->at[i] < c->shape[i])
            return true;
        c->at[i] = 0;
        *to -= c->to[i] * (int64_t)c->shape[i];
        *from -= c->from[i] * (int64_t)c->shape[i];
    }
    return false;
}

/* `rows` of the first axis; `back`: from decoded to encoded. */
static void move(const stk__codec_step *step, uint8_t *to, const uint8_t *from, uint64_t rows,
                 bool back)
{
    uint32_t rank = step->u.transpose.rank, item = step->u.transpose.item;
    const uint64_t *shape = step->u.transpose.shape;
    uint32_t last = rank - 1, near = rank - 1;
    int64_t own[STK__CHAIN_MAX_RANK];
    plane p = {0};
    counter c = {0};

    for (uint32_t i = rank; i-- > 0;)
        own[i] = i == last ? (int64_t)item : own[i + 1] * (int64_t)shape[i + 1];
    /* The encoded side's nearest axis, whose elements follow each other there, makes the plane with
     * the decoded side's, which is another: else it were part of the elements. */
    for (uint32_t i = 0; i < rank; i++)
        if (step->u.transpose.stride[i] < step->u.transpose.stride[near])
            near = i;
    for (uint32_t i = 0; i < rank; i++) {
        int64_t other = (int64_t)step->u.transpose.stride[i];
        int64_t a = back ? other : own[i], b = back ? own[i] : other;
        uint64_t n = i ? shape[i] : rows;
        if (i == (back ? near : last)) {
            p.columns = n;
            p.from_column = b;
        } else if (i == (back ? last : near)) {
            p.rows = n;
            p.to_row = a;
        } else {
            c.shape[c.rank] = n;
            c.to[c.rank] = a;
            c.from[c.rank++] = b;
        }
    }
    do
        copy_plane(&p, to, from, item);
    while (next(&c, &to, &from));
}

static stk_status decode(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass)
{
    uint64_t whole = step->u.transpose.whole, rows = step->u.transpose.shape[0];

    if (pass->length > pass->capacity)
        return stk__pass_fail(pass, STK_EFORMAT, reasons.longer);
    if (pass->length < step->size) { /* a prefix */
        if (!whole)
            return stk__pass_fail(pass, STK_ETRUNCATED, reasons.truncated);
        rows = STK_MIN(rows, pass->length / whole);
    }
    if (rows)
        move(step, pass->out, pass->in, rows, false);
    pass->got = rows == step->u.transpose.shape[0] ? step->size : rows * whole;
    return STK_OK;
}

static stk_status encode(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass)
{
    move(step, pass->out, pass->in, step->u.transpose.shape[0], true);
    pass->got = pass->length;
    return STK_OK;
}

static uint64_t prefix(const stk__codec_step *step, uint64_t needed)
{
    uint64_t whole = step->u.transpose.whole;

    return whole ? (needed + whole - 1) / whole * whole : UINT64_MAX;
}

static bool same_size(const stk__codec_step *step, uint64_t size, uint64_t *out)
{
    *out = size;
    return true;
}

const stk__codec_ops stk__codec_transpose = {.name = "transpose",
                                             .reasons = &reasons,
                                             .decode = decode,
                                             .encode = encode,
                                             .bound = same_size,
                                             .prefix = prefix};
