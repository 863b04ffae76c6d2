/* SPDX-License-Identifier: Apache-2.0 */
/* Rows whose bytes are in memory already, as far as their store goes: their tasks read them. */
#include "base/probe.h"
#include "loader/workers.h"
#include "store/store.h"

#define CALM_READS 256 /* so many that did not wait, before tasks read */
#define RELAPSES   8   /* each doubles it, up to so many */
/* One read in so many may wait: also of a file in memory the system now and then says that it would
 * have to. */
#define FEW 64

/* ---- When ---- */

void stk__near_judge_locked(stk__planner *p)
{
    stk__near *near = &p->near;
    const uint64_t served = p->reads->served - near->served,
                   waited = p->reads->waited - near->waited;

    near->served = p->reads->served;
    near->waited = p->reads->waited;
    if (!near->now) {
        near->calm = waited * FEW <= served ? near->calm + served : 0;
        near->now = near->may && near->calm >= (uint64_t)CALM_READS << near->relapses;
    } else if (near->missed * FEW > STK_MAX(near->tried, CALM_READS)) {
        near->now = false;
        near->calm = 0;
        near->relapses += near->relapses < RELAPSES;
    } else if (near->tried < CALM_READS) {
        return;
    }
    near->tried = near->missed = 0;
}

bool stk__row_is_near(const stk__planner *p, const stk__row *row)
{
    const stk_need *need = &row->needs->need;

    return p->near.now && row->status == STK_OK && row->num_needs == 1 &&
           need->length <= STK__NOW_BYTES && !need->decoded && !need->optional;
}

/* ---- Reading ---- */

/* The store and key of an object; false: the key is too long for this. */
static bool name_object(stk__worker *worker, uint64_t object)
{
    stk_dataset *dataset = worker->team->dataset;
    stk__now *now = &worker->now;

    if (now->store && now->object == object)
        return true;
    now->object = object;
    if (dataset->ops->object(dataset, object, &now->store, now->key, sizeof now->key) <
        sizeof now->key)
        return true;
    now->store = NULL;
    return false;
}

static bool read_need(stk__worker *worker, const stk_need *need, char *to)
{
    stk_context *ctx = worker->team->ctx;
    const bool probed = stk__probed(ctx);
    stk__event event = {.kind = STK__EVENT_READ,
                        .worker = UINT32_MAX,
                        .bytes = need->length,
                        .loader = worker->team->ring};

    if (!name_object(worker, need->object))
        return false;
    event.start_ns = probed ? stk__stamp() : 0;
    if (!stk__store_read_now(worker->now.store, worker->now.key, need->offset, need->length, to))
        return false;
    event.end_ns = probed ? stk__stamp() : 0;
    if (probed)
        stk__emit(ctx, &event);
    return true;
}

uint32_t stk__now_read(stk__worker *worker, const uint32_t *rows, uint32_t most)
{
    stk__now *now = &worker->now;
    uint64_t used = 0, start = 0;
    uint32_t n = 0;

    if (!now->data)
        return most;
    for (; n < most; n++) {
        stk__row *row = &worker->step->rows[rows[n]];
        if (!row->now)
            continue;
        const stk_need *need = &row->needs->need;
        if (used + need->length > STK__NOW_BYTES)
            break;
        start = start ? start : stk__stamp();
        if (!read_need(worker, need, now->data + used)) {
            row->status =
                STK_EAGAIN; /* nothing is prepared of it; see stk__row_read_late_locked() */
            now->missed++;
            continue;
        }
        row->now = false;
        row->slices[0] = (stk_slice){.data = now->data + used, .size = need->length};
        used += stk__round_up(need->length, STK_CACHE_LINE);
        now->reads++;
        now->bytes += need->length;
    }
    if (start)
        now->ns += stk__stamp() - start;
    return n;
}

void stk__now_count_locked(stk__worker *worker)
{
    stk__workers *w = worker->team;
    stk__now *now = &worker->now;

    w->planner->near.tried += now->reads + now->missed;
    w->planner->near.missed += now->missed;
    w->reads += now->reads;
    w->read_bytes += now->bytes;
    w->read_ns += now->ns;
    now->reads = now->missed = now->bytes = now->ns = 0;
}
