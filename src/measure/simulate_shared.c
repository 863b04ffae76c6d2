/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What samples share. Where they are cut from chunks, a chunk is read and decoded for all rows that
 * are planned while it lives: as long as a planned row needs it, and beyond that while the pool has
 * room, for as many steps as planning is ahead [loader/unit.c]. The order picks rows from the
 * blocks at hand, or from all samples, at random: simulate_found.c goes through it.
 *
 *   found    the share of rows that find their chunk, of those that are not its first
 *   decoded  once + (asked - once) * (1 - found), bytes for a sample
 *
 * What was recorded is moved by as much as that moves, in odds, so that it stays what it was where
 * nothing changes. A table has pages, and for each column others: they are of some kinds. Where the
 * pool has room for all blocks at hand, twice, these are read whole, and all is found.
 */
#include "measure/simulate_shared.h"

#include <math.h>

#define ROW_RECORD  256  /* bytes of the record of a row, about, where it is not recorded */
#define HEAD        192  /* bytes of a buffer beside its own [loader/pool.c] */
#define READ_RECORD 320  /* bytes of a read beside its own and a quarter of them */
#define NEAR        0.02 /* next to all, or nothing */

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

double stk__buffer_of(double bytes)
{
    const double size = STK_MAX(bytes, 64.0), step = ldexp(1, ilogb(size) - 2);

    return ceil(size / step) * step + HEAD;
}

double stk__read_of(double bytes)
{
    return 1.25 * bytes + READ_RECORD;
}

/* Chunks are all alike. */
static void take_chunks(const stk_figures *f, stk__sharing *out)
{
    const double n = (double)f->chunks_decoded, chunk = (double)f->bytes_decoded / n,
                 needs = (double)f->chunks_needed / (double)f->samples,
                 once = (double)f->claims.shared / (double)f->claims.samples;

    if (needs > 0)
        out->kinds[out->num_kinds++] =
            (stk__shared_kind){.rows = STK_MAX(needs * chunk / once, 1.0),
                               .needs = needs,
                               .read = (double)f->bytes_read / n,
                               .decoded = chunk};
}

static void take_kinds(const stk_claims *c, stk__sharing *out)
{
    for (size_t i = 0; i < STK_CLAIM_KINDS && c->kinds[i].rows; i++) {
        const double needs = (double)STK_MAX(c->kinds[i].needs, 1);
        out->kinds[out->num_kinds++] =
            (stk__shared_kind){.rows = (double)c->kinds[i].rows,
                               .needs = needs,
                               .read = (double)c->kinds[i].read / needs,
                               .decoded = (double)c->kinds[i].decoded / needs};
    }
}

void stk__sharing_of(const stk_figures *f, stk__sharing *out)
{
    const stk_claims *c = &f->claims;
    const double decoded = (double)f->bytes_decoded;

    *out = (stk__sharing){.claims = *c, .batch = (double)STK_MAX(f->batch_size, 1)};
    if (!f->bytes_decoded || !f->samples || !f->chunks_decoded || !c->samples || c->caches)
        return;
    out->decoded = decoded / (double)f->samples;
    out->seconds = ratio(f->chunk_seconds, (double)f->samples);
    out->own = ratio(f->prepare_busy - f->chunk_seconds, (double)f->samples);
    out->chunks = (double)f->chunks_decoded;
    if (c->kinds[0].rows)
        take_kinds(c, out);
    if (!(c->mixed || c->scattered))
        return;
    out->rows = (double)(c->mixed ? STK_MIN(c->mixed, c->samples) : c->samples);
    if (!out->num_kinds && c->shared)
        take_chunks(f, out);
    for (uint32_t i = 0; i < out->num_kinds; i++) {
        const stk__shared_kind *k = &out->kinds[i];
        out->asked += k->needs * k->decoded;
        out->once += k->needs * k->decoded / k->rows;
    }
}

/* ---- The budget ------------------------------------------------------------------------------ */

static uint64_t bytes_of(double bytes)
{
    return bytes > 0 ? (uint64_t)STK_MIN(bytes, 0x1p60) : 0;
}

uint32_t stk__setting_slabs(const stk__setting *set)
{
    const uint64_t ahead = STK_MIN((uint64_t)set->prefetch * set->workers, STK__AHEAD_MOST);

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
        .decodes = stages->decoded_bytes > 0 || c->block || c->kinds[0].rows,
        .pictures = stages->pictures,
        .caches = set->caches};

    if (demand.reads)
        demand.horizon = stk__shares_horizon(set->depth, set->batch, c->mixed, set->batch);
    /* A budget that is too small for anything is what the least one would be. */
    demand.bytes = STK_MAX(demand.bytes, stk__shares_base(&demand));
    return stk__shares_divide(&demand);
}

/* ---- Decoding -------------------------------------------------------------------------------- */

stk_status stk__setting_found(const stk__stages *stages, const stk__setting *set, double *found,
                              double *of_kinds, double *stay, stk_error *err)
{
    const stk__sharing *s = &stages->sharing;
    double again = 0, kept = 0;

    *found = *stay = 0;
    for (uint32_t i = 0; i < STK_CLAIM_KINDS; i++)
        of_kinds[i] = 1;
    if (!(s->once > 0) || !(set->budget > 0))
        return STK_OK;
    const stk__shares shares = stk__setting_shares(stages, set);
    if (stk__setting_whole(stages, set)) {
        *found = 1;
        *stay =
            STK_MIN((double)s->claims.mixed_blocks * (double)s->claims.block, (double)shares.pool);
        return STK_OK;
    }
    const stk__mixing mixing = {
        .kinds = s->kinds,
        .num_kinds = s->num_kinds,
        .streams = s->claims.streams,
        .rows = s->rows,
        .pool = (double)shares.pool,
        .batch = set->batch,
        .steps = set->workers ? shares.steps : 1,
        .horizon = stk__shares_horizon(set->depth, set->batch, s->claims.mixed, set->batch),
        .grouped = s->claims.kinds[0].rows != 0,
        .one_thread = set->workers == 0 || (set->workers == 1 && s->own >= STK__HELP_SECONDS)};
    STK_TRY(stk__found_simulate(stages->ctx, &mixing, of_kinds, stay, err));
    for (uint32_t i = 0; i < s->num_kinds; i++) {
        const double more = s->kinds[i].needs * s->kinds[i].decoded * (1 - 1 / s->kinds[i].rows);
        again += more;
        kept += more * of_kinds[i];
    }
    *found = again > 0 ? kept / again : 1;
    return STK_OK;
}

/* Decoded bytes for a sample, where such a share is expected to find its chunk now. */
static double decoded_with(const stk__sharing *s, double is)
{
    const double lost = s->asked > s->once ? (s->decoded - s->once) / (s->asked - s->once) : 0,
                 was = s->found;
    double off = 1;

    /* Where next to all or nothing is lost what was recorded is of its beginning, and its ends. */
    if (STK_MIN(lost, 1 - was) > NEAR && STK_MAX(lost, 1 - was) < 1 - NEAR)
        off = lost / (1 - lost) / ((1 - was) / was);
    return s->once + (s->asked - s->once) * (off * (1 - is) / (off * (1 - is) + is));
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

    if (!(set->budget > 0) || set->whole_batches)
        return STK_OK;
    if (s->claims.step)
        set->workers = STK_MIN(set->workers, stk__setting_shares(stages, set).workers);
    const bool whole = stk__setting_whole(stages, set);
    double is, of_kinds[STK_CLAIM_KINDS];
    STK_TRY(stk__setting_found(stages, set, &is, of_kinds, &set->shared_bytes, err));
    if (whole != stk__setting_whole(stages, before))
        return stk__blocks_change(stages, set, whole, of_kinds, err);
    if (s->once > 0 && is != s->found)
        decode_more(stages, decoded_with(s, is) / s->decoded);
    return STK_OK;
}
