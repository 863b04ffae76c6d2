/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that are read whole as long as they fit, twice, and pages of them where they do not
 * [loader/make.c]: a recording of one way foretells the other. What is decoded for a sample is
 * known of both; what a byte takes was recorded of one, so the work is known within bounds:
 *
 *   of pages    each byte takes from PAGE_LEAST to PAGE_MOST of what it took in its block, which
 *               is brought to rows; and each range is planned, read and handed over by itself
 *   of blocks   the same the other way round; and of the rest as much is left at most, as rows of
 *               a batch are planned and prepared together
 */
#include <math.h>

#include "measure/simulate_shared.h"

/* Bounds beyond what was measured of rows of three numbers (bench/RESULTS.md): a byte of a page
 * takes 0.42 of what one of a block does without a codec and 0.81 with zstd, a range 1.6 us, and a
 * row among many 0.06 of the rest. Nothing is known of texts. */
#define PAGE_LEAST    0.4
#define PAGE_MOST     1.25
#define RANGE_SECONDS 4e-6
#define REST_LEAST    0.02 /* of planning and preparing a row by itself, where many are together */
#define CHUNKS_SEEN   16   /* that have to be recorded, to know what they take */

bool stk__setting_whole(const stk__stages *stages, const stk__setting *set)
{
    const stk_claims *c = &stages->sharing.claims;
    const stk__shares shares = stk__setting_shares(stages, set);

    return c->block && !c->scattered &&
           stk__shares_hold_blocks(shares.pool, c->mixed_blocks + shares.workers + 2, c->block);
}

stk_status stk__blocks_refuse(const stk__setting *set, bool whole, const char *why, stk_error *err)
{
    return stk__fail(err, STK_EINVAL, STK_STAGE_MEASURE,
                     "a memory_budget of %.0f bytes with num_workers %u and prefetch_factor %u "
                     "cannot be predicted: %s, which the recorded run did not, and %s: measure "
                     "once with memory_budget=%.0f",
                     set->budget, set->workers, set->prefetch,
                     whole ? "the blocks that are mixed at a time would fit, and be read whole"
                           : "the blocks that are mixed at a time would not fit, and rows would be "
                             "read one by one",
                     why, set->budget);
}

/* Of a sample. */
typedef struct amounts {
    double ranges, read, decoded; /* bytes, but for the ranges */
} amounts;

/* Where such a share of each kind is found; in order all is, as each range is met once. */
static amounts pages_of(const stk__sharing *s, const double *found)
{
    amounts sum = {0};

    for (uint32_t i = 0; i < s->num_kinds; i++) {
        const stk__shared_kind *k = &s->kinds[i];
        const double ranges = k->needs * (1 / k->rows + (1 - 1 / k->rows) * (1 - found[i]));
        sum.ranges += ranges;
        sum.read += ranges * k->read;
        sum.decoded += ranges * k->decoded;
    }
    return sum;
}

/* In a block each column is read once, about. */
static double columns_of(const stk__sharing *s)
{
    double needs = 0, once = 0;

    for (uint32_t i = 0; i < s->num_kinds; i++) {
        needs += s->kinds[i].needs;
        once += s->kinds[i].needs * s->kinds[i].decoded / s->kinds[i].rows;
    }
    return needs * once / (double)s->claims.block;
}

/* What a worker takes, and the CPU time of it. */
static void lengthen(stk__stages *stages, double by)
{
    stages->cpu *= by;
    stk__stages_shorten(stages, by);
}

static void lengthen_reads(stk__stages *stages, double by)
{
    for (uint64_t i = 0; i < stages->num_reads; i++)
        stages->latency[i] *= (float)by;
}

void stk__stages_bound(stk__stages *stages, double exponent)
{
    if (stages->unsure_reads > 0)
        lengthen_reads(stages, pow(stages->unsure_reads, exponent));
    lengthen(stages, pow(stages->unsure, exponent));
}

static void set_reads(stk__stages *stages, double reads, double bytes)
{
    if (!(stages->reads > 0) || !(reads > 0))
        return;
    const double by = stages->read_bytes > 0 && bytes > 0 ? bytes / reads / stages->read_bytes : 1;
    stages->reads = reads;
    for (uint64_t i = 0; i < stages->num_reads; i++)
        stages->bytes[i] *= (float)by;
    stages->read_bytes *= by;
    if (isfinite(stages->bandwidth) || stages->latency_asked)
        return;
    /* Where no link is known a read may take as long as it did, or as its bytes do. */
    stages->unsure_reads = sqrt(STK_MAX(by, 1 / by));
    lengthen_reads(stages, sqrt(by));
}

stk_status stk__blocks_change(stk__stages *stages, stk__setting *set, bool whole,
                              const double *found, stk_error *err)
{
    stk__sharing *s = &stages->sharing;
    const double rest = STK_MAX(stages->mean_prepare - s->seconds, 0.0);
    amounts now = pages_of(s, found);
    double slow, fast;

    if (s->chunks < CHUNKS_SEEN || !(s->seconds > 0) || !(stages->mean_prepare > 0))
        return stk__blocks_refuse(set, whole, "it decoded too little to know what that takes", err);
    if (!s->num_kinds)
        return stk__blocks_refuse(set, whole, "its log does not say what rows would need", err);
    const double work = s->seconds * now.decoded / s->decoded;
    if (whole) {
        now.ranges = columns_of(s);
        slow = rest + work / PAGE_LEAST;
        fast = REST_LEAST * rest + work / PAGE_MOST;
    } else {
        slow = rest + PAGE_MOST * work + now.ranges * RANGE_SECONDS;
        fast = rest + PAGE_LEAST * work;
    }
    if (!(fast > 0))
        return stk__blocks_refuse(set, whole, "its log does not say what rows would decode", err);
    set_reads(stages, now.ranges, now.read);
    stages->decoded_bytes = now.decoded;
    stages->unsure = sqrt(slow / fast);
    lengthen(stages, sqrt(slow * fast) / stages->mean_prepare);
    set->helps = stages->mean_prepare < STK__HELP_SECONDS;
    return STK_OK;
}
