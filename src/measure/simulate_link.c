/* SPDX-License-Identifier: Apache-2.0 */
/* Whether reads share a link, and what it carries. */
#include "measure/simulate.h"

#include <math.h>

#define LINK_GAPS    1024  /* between ends of reads that were under way together: the first */
#define LINK_FEW     16    /* fewer tell nothing */
#define LINK_SAME    0.1   /* gaps are alike that are as near, for each byte, to the median */
#define LINK_REGULAR 0.3   /* share of them that is, behind a link; without one a tenth */
#define LINK_BUSY    0.75  /* of the most reads that were under way: then no more could be */
#define LINK_DRAWN   0.125 /* of the way from one read to the next */
#define LINK_READS   512   /* that the bandwidth of a link is told from */
#define LINK_STEP    1.08  /* from one bandwidth that is tried to the next */
#define LINK_TRIED   64
#define LINK_FINE    96 /* steps between two of them, then */
#define LINK_WINDOW                                                                                \
    64 /* that a link is told from: the first, when few are under way; and neighbours */
#define LINK_FULL   1.08 /* times what it carried, below which it was full */
#define LINK_BETTER 0.5  /* as much of the scatter is left where there is a link */

static double end_of(const stk_recorded_read *read)
{
    return read->start + read->seconds;
}

/* Reads from `first` on that are under way when `i` is sent, itself included. */
static uint32_t under_way(const stk_recorded_read *reads, uint64_t first, uint64_t i)
{
    uint32_t n = 1;

    for (; first < i; first++)
        n += end_of(&reads[first]) > reads[i].start;
    return n;
}

/* Gaps between the ends of reads, by the bytes of the later one, s, where it was sent before the
 * earlier one had ended. *busy: the share of them with as many under way as there may be. */
static uint64_t gaps_of(const stk_recorded_read *reads, uint64_t n, double gaps[LINK_GAPS],
                        double *busy)
{
    double last = -INFINITY;
    uint64_t found = 0, first = 0, full = 0;
    uint32_t at_once[LINK_GAPS], most = 0;

    for (uint64_t i = 0; i < n && found < LINK_GAPS; i++) {
        while (first < i && end_of(&reads[first]) <= reads[i].start)
            first++;
        if (reads[i].start < last && reads[i].bytes > 0) {
            at_once[found] = under_way(reads, first, i);
            most = STK_MAX(most, at_once[found]);
            gaps[found++] = (end_of(&reads[i]) - last) / reads[i].bytes;
        }
        last = STK_MAX(last, end_of(&reads[i]));
    }
    for (uint64_t i = 0; i < found; i++)
        full += at_once[i] >= LINK_BUSY * (double)most;
    *busy = found ? (double)full / (double)found : 0;
    return found;
}

/*
 * A link that is full ends one read after the other at its own pace, whatever else made them late,
 * and one of twice the bytes after twice as long. Reads that wait for a latency end as they were
 * sent, in groups or by chance. INFINITY: their ends have no pace; or not as many were under way as
 * could be, so that it may be that of what sends them.
 */
static double paced_link(const stk_recorded_read *reads, uint64_t n)
{
    double gaps[LINK_GAPS], busy;
    const uint64_t found = gaps_of(reads, n, gaps, &busy);
    uint64_t alike = 0;

    if (found < LINK_FEW || busy < 0.5)
        return INFINITY;
    stk__doubles_sort(gaps, found);
    const double middle = gaps[found / 2];
    if (!(middle > 0) || !isfinite(middle))
        return INFINITY;
    for (uint64_t i = 0; i < found; i++)
        alike += fabs(gaps[i] / middle - 1) <= LINK_SAME;
    return (double)alike >= LINK_REGULAR * (double)found ? 1 / middle : (double)INFINITY;
}

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
        const double end = end_of(&reads[i]);
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

/* The rest of a read, s, the median of the first, over which what the bandwidth is off has not
 * added up. */
static double typical_rest(const stk_recorded_read *reads, uint64_t n, double bandwidth)
{
    double rests[LINK_WINDOW], free = -INFINITY;
    const uint64_t first = STK_MIN(n, LINK_WINDOW);

    for (uint64_t i = 0; i < first; i++) {
        free = STK_MAX(free, reads[i].start) + reads[i].bytes / bandwidth;
        rests[i] = STK_MAX(end_of(&reads[i]) - free, 0.0);
    }
    stk__doubles_sort(rests, first);
    return first ? rests[first / 2] : 0;
}

void stk__link_rests(const stk_recorded_read *reads, uint64_t n, double bandwidth, float *rests)
{
    const double typical = typical_rest(reads, n, bandwidth);
    double free = -INFINITY;

    for (uint64_t i = 0; i < n; i++) {
        const double end = end_of(&reads[i]);
        const bool queued = reads[i].start < free;
        free = STK_MAX(free, reads[i].start) + reads[i].bytes / bandwidth;
        /* Of reads that wait for each other only the sum is known: what the bandwidth is off would
         * add up from one to the next, so they are drawn to what is typical. */
        if (queued)
            free += LINK_DRAWN * (end - typical - free);
        free = STK_MIN(free, end); /* whatever was carried was so by the end of the read */
        rests[i] = (float)STK_MAX(end - STK_MAX(free, reads[i].start), 0.0);
    }
}

double stk__link_of(const stk_recorded_read *reads, uint64_t n)
{
    const double least = carried_most(reads, n);
    const uint64_t first = STK_MIN(n, LINK_WINDOW), more = STK_MIN(n, LINK_READS);

    if (n < 2 || !(least > 0) || !isfinite(least))
        return INFINITY;
    const double paced = paced_link(reads, n);
    if (isfinite(paced))
        return paced;
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
