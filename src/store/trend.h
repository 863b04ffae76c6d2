/* reads, their bytes and times -> what of a time is transfer */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_TREND_H
#define STK_SRC_STORE_TREND_H

#include <stdint.h>

/* Weighted means, and sums of products of deviations from them. */
typedef struct stk__sums {
    double n, bytes, ns, bytes2, bytes_ns, ns2;
} stk__sums;

/*
 * Line through (bytes under way when a read was sent, time it took), in two ways, of which the
 * steeper counts. Of all reads alike: but in a steady state nearly all have about as many bytes,
 * and noise hides what bytes do. Of points, each of the reads of about as many bytes, with a
 * bounded weight: so the few of a start or an end count, but these may be slow for reasons of their
 * own.
 */
enum { STK__TREND_POINTS = 160 };

typedef struct stk__trend {
    stk__sums all;
    struct {
        double n, bytes, ns, ns2; /* means, then sum of squared deviations */
    } points[STK__TREND_POINTS];
    double slope; /* nanoseconds per byte, as of at most an eighth of the reads ago; 0: the bytes
                     explain nothing */
    uint64_t reads, next_fit;
} stk__trend;

/* One more read: the bytes that were under way when it was sent, and the time it took. */
void stk__trend_add(stk__trend *trend, double bytes, double ns);

#endif
