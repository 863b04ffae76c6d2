/* SPDX-License-Identifier: Apache-2.0 */
/* Exact counts of one axis, in a time that grows with the logarithm of its sides. */
#include "array/chunks_advise.h"
#include "base/gcd.h"

/*
 * Euclid's algorithm on the lattice points below the line [AtCoder Library, math.hpp, floor_sum].
 * a n + b stays below 2^127; the sum itself may wrap, and only differences of two are used.
 */
stk__u128 stk__chunks_floor_sum(uint64_t n, uint64_t m, uint64_t a, uint64_t b)
{
    stk__u128 sum = 0, count = n, modulus = m, slope = a, start = b;

    while (count > 0) {
        /* Halve first: one of two neighbours is even. */
        stk__u128 pairs = count % 2 ? count * ((count - 1) / 2) : count / 2 * (count - 1);
        sum += slope / modulus * pairs;
        sum += start / modulus * count;
        slope %= modulus;
        start %= modulus;
        stk__u128 top = slope * count + start;
        count = top / modulus;
        start = top % modulus;
        stk__u128 swap = modulus;
        modulus = slope;
        slope = swap;
    }
    return sum;
}

/* Where windows begin, within chunks: k stride mod chunk, for k < positions. */
typedef struct offsets {
    uint64_t positions, chunk, stride; /* stride below chunk */
    uint64_t period;                   /* all multiples of it, once each; 0: not so */
} offsets;

/* How many of the offsets lie in the last `tail` elements of a chunk; tail <= chunk. */
static uint64_t in_tail(const offsets *o, uint64_t positions, uint64_t tail)
{
    if (tail == o->chunk)
        return positions;
    if (o->period)
        return tail / o->period;
    return (uint64_t)(stk__chunks_floor_sum(positions, o->chunk, o->stride, tail) -
                      stk__chunks_floor_sum(positions, o->chunk, o->stride, 0));
}

/* Chunks that any window touches: those from the first to the last where windows leave no gap, else
 * the sum over windows less what two neighbours share. */
static uint64_t count_distinct(const offsets *o, uint64_t window, uint64_t stride, uint64_t last,
                               stk__u128 touched)
{
    if (stride <= window)
        return o->period ? stride / o->period : (last + (window - 1)) / o->chunk + 1;
    uint64_t gap = stride - window + 1; /* from the last element of one to the first of the next */
    uint64_t shared = gap < o->chunk ? in_tail(o, o->positions, o->chunk - gap) : 0;
    return (uint64_t)(touched - shared);
}

void stk__chunks_axis_count(int64_t window, int64_t chunk, int64_t extent, int64_t stride,
                            stk__chunks_axis *out)
{
    uint64_t w = (uint64_t)window, c = (uint64_t)chunk, s = (uint64_t)stride;
    uint64_t whole = (w - 1) / c, rest = (w - 1) % c;
    offsets o = {.chunk = c, .stride = s % c};

    if (extent) {
        o.positions = ((uint64_t)extent - w) / s + 1;
    } else {
        o.period = stk__gcd(s, c);
        o.positions = c / o.period;
    }
    uint64_t last = extent ? (o.positions - 1) * s : 0;
    uint64_t high = in_tail(&o, o.positions, rest);
    *out = (stk__chunks_axis){.positions = o.positions, .low = whole + 1, .high = high};
    out->touched = (stk__u128)o.positions * out->low + high;
    out->chunks = extent ? (uint64_t)(extent - 1) / c + 1 : 0;
    out->distinct = count_distinct(&o, w, s, last, out->touched);

    /* A window is the last of its block when the next begins in another chunk, or there is none.
     * That one reaches farthest, so the block spans what it touches. */
    uint64_t reach = STK_MIN(s, c);
    uint64_t others = o.period ? o.positions : o.positions - 1;
    out->blocks = in_tail(&o, others, reach);
    out->spanned = (stk__u128)out->blocks * out->low + in_tail(&o, others, STK_MIN(rest, reach));
    if (!o.period) {
        out->blocks++;
        out->spanned += (last % c + (w - 1)) / c + 1;
    }
}
