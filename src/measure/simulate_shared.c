/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What samples share. Where they are cut from chunks, a chunk is read and decoded for all rows that
 * are planned while it lives: as long as a planned row needs it, and beyond that while the pool has
 * room, for as many steps as planning is ahead [loader/unit.c]. The order picks rows from the
 * blocks at hand, or from all samples, at random; so the share of what is picked from that lives is
 * the share of rows that find their chunk there:
 *
 *   lives    what the pool has room for, or what the rows of the steps that are looked over touch,
 *            whichever is less; a chunk that waits to be decoded takes its bytes as read, too
 *   found    lives / mixed; less where streams take turns, as the next row is of the stream that
 *            had none for longest
 *   decoded  once + (asked - once) * (1 - found), bytes for a sample
 *
 * What was recorded is moved by as much as that moves, in odds, so that it stays what it was where
 * nothing changes.
 */
#include "measure/simulate.h"

#include <math.h>

#define ROW_RECORD 256  /* bytes of the record of a row, about, where it is not recorded */
#define AHEAD_MOST 4096 /* batches, as of the loader */
#define HEAD       192  /* bytes of a buffer beside its own [loader/pool.c] */
#define TRIES      64   /* to know how many live */
#define NEAR       0.02

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

double stk__buffer_of(double bytes)
{
    const double size = STK_MAX(bytes, 64.0), step = ldexp(1, ilogb(size) - 2);

    return ceil(size / step) * step + HEAD;
}

void stk__sharing_of(const stk_figures *f, stk__sharing *out)
{
    const stk_claims *c = &f->claims;
    const double samples = (double)c->samples, decoded = (double)f->bytes_decoded;

    *out = (stk__sharing){.claims = *c, .batch = (double)STK_MAX(f->batch_size, 1)};
    if (!f->bytes_decoded || !f->samples || !f->chunks_decoded || !c->samples || c->caches)
        return;
    const double chunk = decoded / (double)f->chunks_decoded;
    out->buffer = stk__buffer_of(chunk) / chunk;
    out->encoded = stk__buffer_of((double)f->bytes_read / (double)f->chunks_decoded) / chunk;
    out->decoded = decoded / (double)f->samples;
    out->turn = c->mixed && c->mixed_blocks
                    ? STK_MIN((double)c->streams / (double)c->mixed_blocks, 1.0)
                    : 0;
    out->seconds = ratio(f->chunk_seconds, (double)f->samples);
    out->asked = chunk * (double)f->chunks_needed / (double)f->samples;
    if (!c->shared || !(c->mixed || c->scattered))
        return;
    out->once = STK_MIN((double)c->shared / samples, out->asked);
    out->mixed =
        c->mixed ? (double)c->shared * STK_MIN((double)c->mixed / samples, 1.0) : (double)c->shared;
    out->known = out->once > 0 && out->mixed > 0;
}

/* ---- The budget ------------------------------------------------------------------------------ */

static uint64_t bytes_of(double bytes)
{
    return bytes > 0 ? (uint64_t)STK_MIN(bytes, 0x1p60) : 0;
}

uint32_t stk__setting_slabs(const stk__setting *set)
{
    const uint64_t ahead = STK_MIN((uint64_t)set->prefetch * set->workers, AHEAD_MOST);

    return set->workers ? (uint32_t)STK_MAX(ahead, UINT64_C(1)) + 1 : 2;
}

stk__shares stk__setting_shares(const stk__stages *stages, const stk__setting *set)
{
    const stk__sharing *sharing = &stages->sharing;
    const stk_claims *c = &sharing->claims;
    const bool known = c->step != 0;
    const double batches = set->batch / sharing->batch; /* records grow with their rows */
    stk__demand demand = {
        .bytes = bytes_of(set->budget),
        .slab = bytes_of(known ? batches * (double)c->slab : set->batch * stages->sample_bytes),
        .step = bytes_of(known ? batches * (double)c->step : (double)set->batch * ROW_RECORD),
        .worker = c->worker,
        .fixed = c->fixed,
        .most_read = c->most_read,
        .workers = set->workers,
        .slabs = stk__setting_slabs(set),
        .reads = known ? c->reads : stages->reads > 0,
        .ragged = c->ragged,
        .decodes = stages->decoded_bytes > 0,
        .pictures = stages->pictures,
        .caches = set->caches};

    if (demand.reads)
        demand.horizon = stk__shares_horizon(set->depth, set->batch, c->mixed, set->batch);
    /* A budget that is too small for anything is what the least one would be. */
    demand.bytes = STK_MAX(demand.bytes, stk__shares_base(&demand));
    return stk__shares_divide(&demand);
}

/* ---- Decoding -------------------------------------------------------------------------------- */

/* The share of rows that find their chunk, of those of which so much lives. Where streams take
 * turns the one that is next has had about half a row less than all others have. */
static double found_of(const stk__sharing *s, double lives)
{
    const double streams = STK_MAX((double)s->claims.streams, 1.0),
                 behind = pow(1 - s->turn, (streams - 1) / (2 * streams));

    if (lives >= s->mixed)
        return 1;
    return behind > 0 ? STK_MAX(1 - (1 - lives / s->mixed) / behind, 0.0) : 0;
}

/* Bytes that the pool holds: the fewer rows find theirs, the more of it waits to be decoded. */
static double lives_in(const stk__sharing *s, double pool, double touched)
{
    double lives = 0;

    for (int i = 0; i < TRIES; i++)
        lives = STK_MIN(
            STK_MIN(pool / (s->buffer + s->encoded * (1 - found_of(s, lives))), touched), s->mixed);
    return lives;
}

double stk__setting_found(const stk__stages *stages, const stk__setting *set, double *stay)
{
    const stk__sharing *s = &stages->sharing;

    *stay = 0;
    if (!s->known || !(set->budget > 0))
        return 0;
    const stk__shares shares = stk__setting_shares(stages, set);
    const double steps =
        (double)stk__shares_horizon(set->depth, set->batch, s->claims.mixed, set->batch) +
        (set->workers ? shares.steps : 1);
    /* Rows that are looked over reach all that is at hand where that is what they are planned for.
     */
    const double touched =
        s->claims.mixed ? s->mixed : s->mixed * -expm1(-steps * set->batch * s->asked / s->mixed);
    *stay = lives_in(s, (double)shares.pool, touched);
    return found_of(s, *stay);
}

/* Decoded bytes for a sample, where the share that was expected to find its chunk and that is now
 * are these. */
static double decoded_with(const stk__sharing *s, double was, double is)
{
    const double lost = s->asked > s->once ? (s->decoded - s->once) / (s->asked - s->once) : 0;
    double off = 1;

    /* Where next to all or nothing is lost what was recorded is of its beginning, and its ends. */
    if (STK_MIN(lost, 1 - was) > NEAR && STK_MAX(lost, 1 - was) < 1 - NEAR)
        off = lost / (1 - lost) / ((1 - was) / was);
    return s->once + (s->asked - s->once) * (off * (1 - is) / (off * (1 - is) + is));
}

static bool reads_blocks(const stk__stages *stages, const stk__setting *set)
{
    const stk_claims *c = &stages->sharing.claims;
    const stk__shares shares = stk__setting_shares(stages, set);

    return stk__shares_hold_blocks(shares.pool, c->mixed_blocks + shares.workers + 2, c->block);
}

/* Rows are read by blocks as long as these fit: what the other way takes was not recorded. */
static stk_status check_blocks(const stk__stages *stages, const stk__setting *before,
                               const stk__setting *set, stk_error *err)
{
    const stk_claims *c = &stages->sharing.claims;

    if (!c->block || c->scattered || reads_blocks(stages, before) == reads_blocks(stages, set))
        return STK_OK;
    return stk__fail(err, STK_EINVAL, STK_STAGE_MEASURE,
                     "a memory_budget of %.0f bytes with num_workers %u and prefetch_factor %u "
                     "cannot be predicted: %s, which the recorded run did not. Record one with it",
                     set->budget, set->workers, set->prefetch,
                     c->whole ? "the blocks that are mixed at a time would not fit, and rows would "
                                "be read one by one"
                              : "the blocks that are mixed at a time would fit, and be read whole");
}

/* Decoding takes so many times what it did, and so do the reads for it. */
static void decode_more(stk__stages *stages, double by)
{
    const double more = STK_MAX((by - 1) * stages->sharing.seconds, -stages->mean_prepare);

    for (uint64_t i = 0; i < stages->num_prepare; i++)
        stages->prepare[i] = (float)STK_MAX(stages->prepare[i] + more, 0.0);
    stages->mean_prepare = STK_MAX(stages->mean_prepare + more, 0.0);
    stages->beside = STK_MAX(stages->beside + more, 0.0);
    if (stages->cpu > 0)
        stages->cpu = STK_MAX(stages->cpu + more * stages->cpu_share, 1e-12);
    stages->reads *= by;
    stages->decoded_bytes *= by;
    stk__stages_shorten(stages, 1);
}

stk_status stk__setting_share(stk__stages *stages, const stk__setting *before, stk__setting *set,
                              stk_error *err)
{
    const stk__sharing *s = &stages->sharing;
    double stayed;

    if (!(set->budget > 0) || set->whole_batches)
        return STK_OK;
    if (s->claims.step)
        set->workers = STK_MIN(set->workers, stk__setting_shares(stages, set).workers);
    STK_TRY(check_blocks(stages, before, set, err));
    const double was = stk__setting_found(stages, before, &stayed),
                 is = stk__setting_found(stages, set, &set->shared_bytes);
    if (s->known && is != was)
        decode_more(stages, decoded_with(s, was, is) / s->decoded);
    return STK_OK;
}
