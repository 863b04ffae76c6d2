/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one worker and two batches need, one of them with the consumer, is taken first. At first
 * half of the rest, or as much as samples were seen to need, is kept for the pool; all that makes a
 * loader faster, more workers, batches, records of steps, the cache, shares the other half.
 */
#include "base/shares.h"

#define MOST_STEPS     4096u                 /* planned ahead */
#define LEAST_DECODING (UINT64_C(256) << 10) /* of a thread: photographs take some of that */
#define MOST_DECODING  (UINT64_C(4) << 20)
#define SPARE_SHARE    4 /* of the room that is left a quarter is for spare ones at most */

void stk__shares_decoding(const stk__demand *d, uint64_t *each, uint64_t *most)
{
    *each = *most = 0;
    if (!d->pictures)
        return;
    *each = STK_MIN(STK_MAX(d->bytes / 32, LEAST_DECODING), MOST_DECODING);
    *most = STK_MAX(d->bytes / 8, *each);
}

uint64_t stk__shares_base(const stk__demand *d)
{
    uint64_t each, most;

    stk__shares_decoding(d, &each, &most);
    return d->fixed + 2 * (d->worker + each) + most + 2 * (d->slab + d->step);
}

/* Decoding takes what is beyond its own room of it, so that no sample as those that were seen waits
 * for more: reads take one half of it where ragged values take the other. */
uint64_t stk__shares_pool(const stk__demand *d, uint64_t rest)
{
    const uint64_t probed = d->ragged ? 2 * d->most_read : d->most_read,
                   seen = STK_MAX(probed <= rest ? probed : 0, d->wide);

    return !d->reads ? 0 : STK_MAX(rest / 2, STK_MIN(seen, rest));
}

/* More workers than one, of which the caller's thread is none, as far as `room` goes; and where
 * their number moves, spare ones of a part of what is left. */
static uint64_t take_workers(const stk__demand *d, uint64_t room, stk__shares *out)
{
    uint64_t decoding, most;

    out->workers = d->workers;
    if (d->workers == 0)
        return 0;
    stk__shares_decoding(d, &decoding, &most);
    const uint64_t each = STK_MAX(d->worker + decoding, UINT64_C(1));
    out->workers = (uint32_t)STK_MIN(d->workers - 1, room / each) + 1;
    const uint64_t used = (out->workers - 1) * each;
    out->spare = (uint32_t)STK_MIN(d->spare, (room - used) / SPARE_SHARE / each);
    return used + out->spare * each;
}

/* Batches beyond two, then records of steps ahead of them, and what spare workers fill. */
static uint64_t take_steps(const stk__demand *d, uint64_t room, stk__shares *out)
{
    const uint64_t batch = STK_MAX(d->slab + d->step, UINT64_C(1));

    out->slabs = 2 + (uint32_t)STK_MIN(d->slabs - UINT64_C(2), room / batch);
    /* Planning far ahead is worth little without room for what is planned. */
    const uint64_t used = (out->slabs - 2) * batch;
    const uint64_t records = STK_MIN(room - used, d->decodes ? d->bytes / 4 : d->bytes);
    const uint64_t horizon = d->workers ? d->horizon : 0;
    const uint64_t ahead = STK_MIN(horizon, records / STK_MAX(d->step, UINT64_C(1)));
    const uint64_t most = d->steps ? d->steps : STK_MAX(out->slabs, MOST_STEPS);
    out->steps = (uint32_t)STK_MIN(out->slabs + ahead, most);
    const uint64_t taken = used + (out->steps - out->slabs) * d->step;
    out->spare_slabs = (uint32_t)STK_MIN(d->spare_slabs, (room - taken) / SPARE_SHARE / batch);
    out->spare_slabs = STK_MIN(out->spare_slabs, (uint32_t)most - out->steps);
    out->steps += out->spare_slabs;
    return taken + out->spare_slabs * batch;
}

stk__shares stk__shares_divide(const stk__demand *d)
{
    const uint64_t base = stk__shares_base(d), rest = d->bytes - base,
                   spare = rest - stk__shares_pool(d, rest), room = d->caches ? spare / 2 : spare;
    stk__shares out = {0};

    uint64_t used = take_workers(d, room / 4 * 3, &out);
    used += take_steps(d, room - used, &out);
    out.fixed = base + used;
    if (d->caches)
        out.cache = d->reads ? STK_MIN((rest - used) / 4 * 3, spare - used) : spare - used;
    if (out.cache < STK__LEAST_CACHE)
        out.cache = 0;
    out.pool = d->reads ? rest - used - out.cache : 0;
    return out;
}

uint64_t stk__shares_horizon(uint64_t io_depth, uint64_t rows, uint64_t mixed, uint64_t taken)
{
    const uint64_t ahead = 4 * io_depth / STK_MAX(rows, UINT64_C(1)) + 1;

    return mixed ? STK_MAX(ahead, mixed / STK_MAX(taken, UINT64_C(1)) + 1) : ahead;
}

bool stk__shares_hold_blocks(uint64_t pool, uint64_t blocks, uint64_t bytes)
{
    uint64_t all;

    return stk__mul_size(blocks, bytes, &all) && all <= pool / 2;
}
