/* SPDX-License-Identifier: Apache-2.0 */
/* Whether reads share a link, and what it carries. */
#include "measure/simulate.h"

#include <math.h>

#define LINK_READS 512  /* that the bandwidth of a link is told from */
#define LINK_STEP  1.08 /* from one bandwidth that is tried to the next */
#define LINK_TRIED 64
#define LINK_FINE  96 /* steps between two of them, then */
#define LINK_WINDOW                                                                                \
    64 /* that a link is told from: the first, when few are under way; and neighbours */
#define LINK_FULL   1.08 /* times what it carried, below which it was full */
#define LINK_BETTER 0.5  /* as much of the scatter is left where there is a link */

/* How far the rest of the reads scatters, in squares, when `bandwidth` explains a part of them: the
 * few that began when little was under way tell most. A part that is longer than the read itself
 * cannot be. */
static double scatter(const stk_recorded_read *reads, uint64_t n, double bandwidth)
{
    double free = -INFINITY, mean = 0, squares = 0, beyond = 0;

    for (uint64_t i = 0; i < n; i++) {
        free = STK_MAX(free, reads[i].start) + reads[i].bytes / bandwidth;
        const double rest = reads[i].seconds - (free - reads[i].start), off = rest - mean;
        mean += off / (double)(i + 1);
        squares += off * (rest - mean);
        beyond += rest < 0 ? rest * rest : 0;
    }
    return squares + 4 * beyond;
}

/* Bytes a second while any of some reads was under way. */
static double carried_rate(const stk_recorded_read *reads, uint64_t n)
{
    double bytes = 0, busy = 0, until = -INFINITY;

    for (uint64_t i = 0; i < n; i++) {
        const double end = reads[i].start + reads[i].seconds;
        bytes += reads[i].bytes;
        if (end <= until)
            continue;
        busy += end - STK_MAX(until, reads[i].start);
        until = end;
    }
    return busy > 0 ? bytes / busy : 0;
}

/* The most that was carried while some neighbours were under way: a link gives no less. */
static double carried_most(const stk_recorded_read *reads, uint64_t n)
{
    double most = 0;

    for (uint64_t i = 0; i < n; i += LINK_WINDOW)
        most = STK_MAX(most, carried_rate(reads + i, STK_MIN(n - i, LINK_WINDOW)));
    return most;
}

/* Of the bandwidths about `from`, that many steps each way, the one that leaves the least; *left is
 * what the best so far leaves. */
static double best_link(const stk_recorded_read *reads, uint64_t n, double from, int first, int end,
                        double step, double *left)
{
    double best = INFINITY;

    for (int i = first; i < end; i++) {
        const double bandwidth = from * pow(step, i), now = scatter(reads, n, bandwidth);
        if (now < *left) {
            *left = now;
            best = bandwidth;
        }
    }
    return best;
}

double stk__link_of(const stk_recorded_read *reads, uint64_t n)
{
    const double least = carried_most(reads, n);
    const uint64_t first = STK_MIN(n, LINK_WINDOW), more = STK_MIN(n, LINK_READS);

    if (n < 2 || !(least > 0) || !isfinite(least))
        return INFINITY;
    double left = LINK_BETTER * scatter(reads, first, INFINITY);
    const double near = best_link(reads, first, least, 0, LINK_TRIED, LINK_STEP, &left);
    if (!isfinite(near))
        return INFINITY;
    /* It was full: what it carried tells more exactly what it can. */
    if (near < LINK_FULL * least)
        return least;
    /* What is off adds up from read to read: over more of them, less is seen. */
    left = LINK_BETTER * scatter(reads, more, INFINITY);
    const double fine = best_link(reads, more, near, -LINK_FINE, LINK_FINE + 1,
                                  pow(LINK_STEP, 1.0 / LINK_FINE), &left);
    return isfinite(fine) ? fine : near;
}
