/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/rechunk.h"

#include "base/gcd.h"

/* More than this at a time makes no read or write faster, and lets caches go cold. */
#define DIRECT_BYTES (UINT64_C(128) << 20)

static int64_t divide_up(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* ---- Slabs ---- */

/* Where the slabs of one dimension are cut: at origin + k * step, within the region. */
typedef struct cuts {
    int64_t begin, end, origin, step, count;
} cuts;

static cuts cuts_of(const stk__rechunk_plan *p, bool writes, uint32_t d)
{
    const int64_t step = writes ? p->write[d] : p->read[d], begin = p->of.start[d];
    cuts c = {begin, begin + p->of.extent[d], writes ? begin : begin - begin % step, step, 0};

    c.count = divide_up(c.end - c.origin, step);
    return c;
}

static int64_t cut_begin(const cuts *c, int64_t k)
{
    return STK_MAX(c->begin, c->origin + k * c->step);
}

static int64_t cut_end(const cuts *c, int64_t k)
{
    return c->end - c->origin - k * c->step <= c->step ? c->end : c->origin + (k + 1) * c->step;
}

static void slab(const stk__rechunk_plan *p, bool writes, uint64_t i, stk__rechunk_box *out)
{
    for (uint32_t d = p->of.rank; d-- > 0;) {
        const cuts c = cuts_of(p, writes, d);
        const int64_t k = (int64_t)(i % (uint64_t)c.count);
        i /= (uint64_t)c.count;
        out->start[d] = cut_begin(&c, k);
        out->shape[d] = cut_end(&c, k) - out->start[d];
    }
}

void stk__rechunk_read_slab(const stk__rechunk_plan *plan, uint64_t i, stk__rechunk_box *out)
{
    slab(plan, false, i, out);
}

void stk__rechunk_write_slab(const stk__rechunk_plan *plan, uint64_t i, stk__rechunk_box *out)
{
    slab(plan, true, i, out);
}

uint64_t stk__rechunk_elements(const stk__rechunk_plan *plan, const stk__rechunk_box *box)
{
    uint64_t n = 1;

    for (uint32_t d = 0; d < plan->of.rank; d++)
        n *= (uint64_t)box->shape[d];
    return n;
}

/* The first and last slab of a dimension that a box meets. */
static void met(const cuts *c, const stk__rechunk_box *box, uint32_t d, int64_t *first,
                int64_t *last)
{
    *first = (box->start[d] - c->origin) / c->step;
    *last = (box->start[d] + box->shape[d] - 1 - c->origin) / c->step;
}

uint64_t stk__rechunk_met(const stk__rechunk_plan *plan, bool writes, const stk__rechunk_box *box)
{
    uint64_t n = 1;
    int64_t first, last;

    for (uint32_t d = 0; d < plan->of.rank; d++) {
        const cuts c = cuts_of(plan, writes, d);
        met(&c, box, d, &first, &last);
        n *= (uint64_t)(last - first + 1);
    }
    return n;
}

uint64_t stk__rechunk_met_at(const stk__rechunk_plan *plan, bool writes,
                             const stk__rechunk_box *box, uint64_t k)
{
    uint64_t number = 0, unit = 1;
    int64_t first, last;

    for (uint32_t d = plan->of.rank; d-- > 0;) {
        const cuts c = cuts_of(plan, writes, d);
        met(&c, box, d, &first, &last);
        const uint64_t n = (uint64_t)(last - first + 1);
        number += ((uint64_t)first + k % n) * unit;
        k /= n;
        unit *= (uint64_t)c.count;
    }
    return number;
}

/* ---- Pieces ---- */

/*
 * Elements in front of a cell where cells of a product grid follow each other in C order, each a
 * run of its own: `before` the cell in its dimension, `inside` it, `all` of the grid.
 */
static uint64_t in_front(uint32_t rank, const int64_t *before, const int64_t *inside,
                         const int64_t *all)
{
    uint64_t sum = 0, behind = 1;

    for (uint32_t d = rank; d-- > 0;) {
        uint64_t ahead = 1;
        for (uint32_t e = 0; e < d; e++)
            ahead *= (uint64_t)inside[e];
        sum += (uint64_t)before[d] * ahead * behind;
        behind *= (uint64_t)all[d];
    }
    return sum;
}

void stk__rechunk_piece(const stk__rechunk_plan *plan, uint64_t r, uint64_t w,
                        stk__rechunk_box *out, uint64_t *offset)
{
    stk__rechunk_box from, to;
    int64_t before[STK_ARRAY_MAX_RANK], within[STK_ARRAY_MAX_RANK];

    slab(plan, false, r, &from);
    slab(plan, true, w, &to);
    for (uint32_t d = 0; d < plan->of.rank; d++) {
        const int64_t begin = STK_MAX(from.start[d], to.start[d]);
        const int64_t end = STK_MIN(from.start[d] + from.shape[d], to.start[d] + to.shape[d]);
        out->start[d] = begin;
        out->shape[d] = end - begin;
        before[d] = to.start[d] - plan->of.start[d];
        within[d] = begin - to.start[d];
    }
    *offset = in_front(plan->of.rank, before, to.shape, plan->of.extent) +
              in_front(plan->of.rank, within, out->shape, to.shape);
    *offset *= plan->of.write_item;
}

/* ---- Objects ---- */

uint64_t stk__rechunk_objects(const stk__rechunk_plan *plan, const stk__rechunk_box *slab_box)
{
    uint64_t n = 1;

    for (uint32_t d = 0; d < plan->of.rank; d++)
        n *= (uint64_t)divide_up(slab_box->shape[d], plan->of.object[d]);
    return n;
}

void stk__rechunk_object(const stk__rechunk_plan *plan, const stk__rechunk_box *slab_box,
                         uint64_t k, const int64_t *shape, stk__rechunk_box *out, uint64_t *number)
{
    uint64_t unit = 1;

    *number = 0;
    for (uint32_t d = plan->of.rank; d-- > 0;) {
        const int64_t side = plan->of.object[d], n = divide_up(slab_box->shape[d], side);
        const int64_t at = (int64_t)(k % (uint64_t)n) * side;
        k /= (uint64_t)n;
        out->start[d] = slab_box->start[d] + at;
        out->shape[d] = STK_MIN(side, slab_box->shape[d] - at);
        *number += (uint64_t)(out->start[d] / side) * unit;
        unit *= (uint64_t)divide_up(shape[d], side);
    }
}

/* ---- The plan ---- */

/* Elements of a slab, cut by the region; UINT64_MAX: more than can be counted. */
static uint64_t cut_elements(const stk__rechunk_question *q, const int64_t *side)
{
    uint64_t n = 1;

    for (uint32_t d = 0; d < q->rank; d++)
        if (!stk__mul_size(n, (uint64_t)STK_MIN(side[d], q->extent[d]), &n))
            return UINT64_MAX;
    return n;
}

static uint64_t cut_bytes(const stk__rechunk_question *q, const int64_t *side, uint64_t item)
{
    uint64_t bytes;

    return stk__mul_size(cut_elements(q, side), item, &bytes) ? bytes : UINT64_MAX;
}

/*
 * Write slabs of a side that one source chunk can meet: they begin at multiples of the greatest
 * common divisor of both sides away from each other, where the region begins at a chunk, else
 * anywhere.
 */
static uint64_t meets(const stk__rechunk_question *q, int64_t side, uint32_t d)
{
    const int64_t chunk = STK_MIN(q->source[d], INT64_MAX / 2);
    const int64_t common = q->start[d] % q->source[d] == 0
                               ? (int64_t)stk__gcd((uint64_t)q->source[d], (uint64_t)side)
                               : 1;
    const int64_t slabs = divide_up(q->extent[d], side);
    const int64_t most = 1 + divide_up(chunk - common, side);

    return (uint64_t)STK_MIN(slabs, most);
}

static uint64_t decodes(const stk__rechunk_question *q, const int64_t *side)
{
    uint64_t n = 1;

    for (uint32_t d = 0; d < q->rank; d++)
        if (!stk__mul_size(n, meets(q, side[d], d), &n))
            return UINT64_MAX;
    return n;
}

/* Elements that are decoded for one of the slabs, at most. */
static double decoded_share(const stk__rechunk_question *q, const int64_t *side)
{
    double share = 1;

    for (uint32_t d = 0; d < q->rank; d++)
        if (meets(q, side[d], d) > 1)
            share *= STK_MIN(2.0, 1 + (double)(q->source[d] - 1) / (double)side[d]);
    return share;
}

/* The multiple of `unit` that is nearest to `wanted` from above, or from the extent. */
static int64_t round_up(const stk__rechunk_question *q, int64_t wanted, int64_t unit, uint32_t d)
{
    wanted = STK_MIN(wanted, q->extent[d]);
    const int64_t rounded = divide_up(wanted, unit);

    return rounded > INT64_MAX / unit ? INT64_MAX / unit * unit : rounded * unit;
}

/* Make a side longer, by whole units, as far as `most` bytes allow, and no longer than `wanted`. */
static void lengthen(const stk__rechunk_question *q, int64_t *side, int64_t unit, uint32_t d,
                     int64_t wanted, uint64_t item, uint64_t most)
{
    const int64_t goal = round_up(q, wanted, unit, d), was = side[d];
    const uint64_t bytes = cut_bytes(q, side, item);

    if (bytes == 0 || goal <= was)
        return;
    const uint64_t row = bytes / (uint64_t)STK_MIN(was, q->extent[d]);
    const uint64_t fits = most / STK_MAX(row, 1);
    side[d] = goal;
    if (cut_bytes(q, side, item) <= most)
        return;
    side[d] = STK_MAX(was, (int64_t)STK_MIN(fits, (uint64_t)INT64_MAX) / unit * unit);
}

/* Sides that both kinds of cuts divide: no source chunk is decoded twice. False: too long. */
static bool align(const stk__rechunk_question *q, int64_t *side)
{
    for (uint32_t d = 0; d < q->rank; d++) {
        const int64_t common = (int64_t)stk__gcd((uint64_t)q->source[d], (uint64_t)q->object[d]);
        int64_t both;
        if (__builtin_mul_overflow(q->source[d] / common, q->object[d], &both))
            both = INT64_MAX;
        side[d] = round_up(q, both, q->object[d], d);
    }
    return cut_bytes(q, side, STK_MAX(q->read_item, q->write_item)) <= q->memory &&
           decodes(q, side) <= STK__RECHUNK_DECODES;
}

/* Shorten one of the aligned sides, so that each source chunk is decoded twice at most. */
static bool shorten(const stk__rechunk_question *q, int64_t *side)
{
    const uint64_t item = STK_MAX(q->read_item, q->write_item);
    double best = 0;
    int64_t kept = 0;
    uint32_t at = 0;

    for (uint32_t d = 0; d < q->rank; d++) {
        const int64_t was = side[d];
        side[d] = q->object[d];
        lengthen(q, side, q->object[d], d, was, item, q->memory);
        const double share = decoded_share(q, side);
        if (cut_bytes(q, side, item) <= q->memory && decodes(q, side) <= STK__RECHUNK_DECODES &&
            (kept == 0 || share < best)) {
            best = share;
            kept = side[d];
            at = d;
        }
        side[d] = was;
    }
    if (kept)
        side[at] = kept;
    return kept;
}

static bool plan_direct(const stk__rechunk_question *q, stk__rechunk_plan *p)
{
    const uint64_t item = STK_MAX(q->read_item, q->write_item);
    const uint64_t most = STK_MIN(q->memory, DIRECT_BYTES);

    if (!align(q, p->write) && !shorten(q, p->write))
        return false;
    /* Neighbours in the source, too: its last dimensions run on. */
    if (decodes(q, p->write) == 1)
        for (uint32_t d = q->rank; d-- > 0;)
            lengthen(q, p->write, p->write[d], d, q->extent[d], item, most);
    p->direct = true;
    p->decodes = (uint32_t)decodes(q, p->write);
    p->decoded = decoded_share(q, p->write);
    p->slab_bytes = cut_bytes(q, p->write, item);
    return true;
}

/* Slabs of both kinds that are as long as the memory allows: first where the other is longer, which
 * makes pieces larger. */
static void plan_both(const stk__rechunk_question *q, stk__rechunk_plan *p)
{
    for (uint32_t d = q->rank; d-- > 0;)
        lengthen(q, p->write, q->object[d], d, q->source[d], q->write_item, q->memory);
    for (uint32_t d = q->rank; d-- > 0;)
        lengthen(q, p->read, q->source[d], d, p->write[d], q->read_item, q->memory);
    for (uint32_t d = q->rank; d-- > 0;)
        lengthen(q, p->read, q->source[d], d, q->extent[d], q->read_item, q->memory);
    for (uint32_t d = q->rank; d-- > 0;)
        lengthen(q, p->write, q->object[d], d, p->read[d], q->write_item, q->memory);
    for (uint32_t d = q->rank; d-- > 0;)
        lengthen(q, p->write, q->object[d], d, q->extent[d], q->write_item, q->memory);
}

static stk_status too_large(const char *what, uint64_t bytes, const stk__rechunk_question *q,
                            stk_error *err)
{
    return stk__fail(err, STK_EBUDGET, STK_STAGE_CONVERT,
                     "%s takes %llu bytes, and of memory_budget %llu are for what is read or "
                     "written at a time; raise memory_budget, or choose smaller chunks",
                     what, (unsigned long long)bytes, (unsigned long long)q->memory);
}

static uint64_t count_slabs(const stk__rechunk_plan *p, bool writes)
{
    uint64_t n = 1;

    for (uint32_t d = 0; d < p->of.rank; d++)
        if (!stk__mul_size(n, (uint64_t)cuts_of(p, writes, d).count, &n))
            return UINT64_MAX;
    return n;
}

stk_status stk__rechunk_plan_make(const stk__rechunk_question *q, stk__rechunk_plan *p,
                                  stk_error *err)
{
    *p = (stk__rechunk_plan){.of = *q, .decodes = 1, .decoded = 1};
    memcpy(p->read, q->source, sizeof p->read);
    const uint64_t object = cut_bytes(q, q->object, q->write_item);
    const uint64_t chunk = cut_bytes(q, q->source, q->read_item);
    if (object > q->memory)
        return too_large("a chunk or shard of the target", object, q, err);
    if (!plan_direct(q, p)) {
        if (chunk > q->memory)
            return too_large("a chunk of the source", chunk, q, err);
        memcpy(p->write, q->object, sizeof p->write);
        plan_both(q, p);
        p->slab_bytes =
            STK_MAX(cut_bytes(q, p->read, q->read_item), cut_bytes(q, p->write, q->write_item));
        p->temp_bytes = cut_bytes(q, q->extent, q->write_item);
        p->num_reads = count_slabs(p, false);
    }
    p->num_writes = count_slabs(p, true);
    if (p->num_writes == UINT64_MAX || p->num_reads == UINT64_MAX || p->temp_bytes >= INT64_MAX)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_CONVERT,
                         "an array has more bytes or chunks than can be converted");
    return STK_OK;
}
