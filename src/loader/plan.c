/* SPDX-License-Identifier: Apache-2.0 */
#include "base/probe.h"
#include "loader/planner.h"

#define ROUND_WANTS                                                                                \
    1024 /* reads planned together: enough to join neighbours, few enough to start soon */

/* ---- Admission ---- */

/* Bytes of the pool that a need takes. */
static uint64_t need_cost(const stk__planner *p, const stk_need *need)
{
    uint64_t size;
    const uint64_t read =
        stk__kept_bytes(p->keeping, need, &size) ? 0 : stk__read_cost(need->length);

    return read + (need->decoded ? stk__pool_cost(need->decoded) : 0);
}

/* Bytes of the pool that the row's reads still want. (L) held. */
static uint64_t row_cost_locked(const stk__planner *p, stk__row *row)
{
    uint64_t cost = 0;

    for (uint32_t i = 0; i < row->num_needs; i++) {
        const stk_need *need = &row->needs[i].need;
        if (row->slices[i].size || !row->slices[i].data ||
            stk__kept_need(p->keeping, need, &row->slices[i]))
            continue;
        if (!stk__unit_lives_locked(p->units, need) && !stk__round_shares(&p->round, need) &&
            !stk__add_size(cost, need_cost(p, need), &cost))
            return UINT64_MAX / 4;
    }
    return cost;
}

/* Tie a row to units on their way and put the rest among the wants of the round. (L) held. */
static void admit_row_locked(stk__planner *p, stk__step *step, uint32_t r)
{
    stk__row *row = &step->rows[r];

    row->pending = 0;
    step->has_units = true;
    for (uint32_t i = 0; i < row->num_needs; i++) {
        stk__need_entry *entry = &row->needs[i];
        bool waits = true;
        stk__units_count_locked(p->units, &entry->need, stk__row_count(row));
        if (row->slices[i].size || !row->slices[i].data || entry->need.length == 0)
            continue;
        if (!stk__unit_join_locked(p->units, entry, &waits))
            stk__round_add(&p->round, entry);
        row->pending += waits;
    }
    if (row->pending == 0)
        stk__row_ready_locked(step, r);
}

/* The entry behind that of a row, among those that were made when the step was located. */
static uint32_t behind(const stk__step *step, uint32_t row)
{
    return row + STK_MAX(step->rows[row].run, 1);
}

/* Hand over the rows that need nothing from storage: before the step is seen by anybody, or with
 * (L) held. */
static void ready_at_once(stk__planner *p, stk__step *step)
{
    const bool ranges = p->keeping->cache && !stk__keeps_samples(p->keeping);

    /* Most often nothing needs anything: all are ready, in order. */
    if (step->num_needs == 0) {
        for (uint32_t r = 0; r < step->num_rows; r++) {
            step->ready[r] = r;
            step->rows[r].admitted = true;
        }
        step->ready_first = 0;
        step->num_ready = step->num_rows;
        return;
    }
    for (uint32_t r = 0; r < step->num_rows; r = behind(step, r)) {
        stk__row *row = &step->rows[r];
        const uint64_t rows = stk__row_count(row);
        bool all = true;
        row->admitted = row->follows && !row->apart; /* with its leader */
        if (row->admitted)
            continue;
        for (uint32_t i = 0; i < row->num_needs; i++) {
            bool cached = stk__kept_need(p->keeping, &row->needs[i].need, &row->slices[i]);
            p->cache_hits += cached && ranges ? rows : 0;
            p->cache_misses += !cached && ranges ? rows : 0;
            p->cache_hit_bytes += cached && ranges ? row->slices[i].size * rows : 0;
            all = all && cached;
        }
        row->now = !all && rows == 1 && stk__row_is_near(p, row);
        row->admitted = all || row->now || row->status != STK_OK;
        if (row->admitted)
            stk__row_ready_locked(step, r);
    }
}

/* A row has to wait: for buffers that come back, or, where the pool is too small for it, for the
 * budget to be divided anew. Of a pool with ragged values reads take a half. (L) held. */
static void wait_for_room_locked(stk__planner *p, const stk__row *row, uint64_t cost)
{
    const uint64_t whole = (cost + row->reserve) * (p->ring->num_ragged ? 2 : 1);

    if (whole > p->ring->pool.limit)
        p->wanted = STK_MAX(p->wanted, whole);
    p->waits_late |= row->reserve != 0 || row->late;
    p->ring->full = true;
    stk__stall_starve_locked(p->stalls);
}

/* Where the values of ragged field `k` of a step lie, from `at` on; those that are filled up lie as
 * far apart as the longest may be. Returns where they end. */
static uint64_t lay_ragged(const stk__planner *p, stk__step *step, uint32_t k, uint64_t at)
{
    const stk__pad *pad = p->pads[k];
    uint64_t most = 0;

    for (uint32_t r = 0; pad && r < step->num_rows; r++)
        most = STK_MAX(most, step->ragged_bound[(uint64_t)r * p->ring->num_ragged + k]);
    for (uint32_t r = 0; r < step->num_rows; r++) {
        const uint64_t i = (uint64_t)r * p->ring->num_ragged + k;
        step->ragged_at[i] = at;
        step->ragged_size[i] = 0;
        at += pad ? stk__pad_bytes(pad, most) : stk__round_up(step->ragged_bound[i], 16);
    }
    return stk__round_up(at, 16);
}

/* Room for the values of the ragged fields of a step, field by field, so that each can be closed up
 * in its place. Rows that need nothing else are ready then. False: not now. */
static bool reserve_ragged(stk__planner *p, stk__step *step)
{
    const uint32_t ragged = p->ring->num_ragged;
    stk__pool *pool = &p->ring->pool;
    uint64_t total = 0;

    if (step->num_rows == 0 || ragged == 0 || step->reserved)
        return true;
    for (uint32_t k = 0; k < ragged; k++)
        total = lay_ragged(p, step, k, total);
    /* Rows admitted in this round hold promises that are not yet buffers. */
    pthread_mutex_lock(&p->ring->lock);
    const uint64_t whole = 4 * stk__pool_cost(total);
    bool fits = whole <= pool->limit && stk__pool_fits(pool, p->round.cost + stk__pool_cost(total));
    p->wanted = whole <= pool->limit ? 0 : whole;
    p->ring->full = !fits;
    if (!fits)
        stk__stall_starve_locked(p->stalls);
    else if (stk__stall_starves_locked(p->stalls))
        step->room_ns = stk__stamp();
    pthread_mutex_unlock(&p->ring->lock);
    if (!fits)
        return false;
    void *room = stk__pool_take(pool, total);
    pthread_mutex_lock(&p->ring->lock);
    step->ragged = room;
    step->reserved = true;
    /* It would fit, and yet there is none: memory is out, which waiting does not mend. */
    for (uint32_t r = 0; !room && r < step->num_rows; r++)
        stk__row_fail(&step->rows[r], STK_ENOMEM, NULL);
    ready_at_once(p, step);
    pthread_cond_signal(&p->ring->work);
    pthread_mutex_unlock(&p->ring->lock);
    return true;
}

/* Admit one row if the budget has room for it. (L) held. */
static bool try_admit_locked(stk__planner *p, stk__step *step, uint32_t r)
{
    stk__pool *pool = &p->ring->pool;
    stk__row *row = &step->rows[r];
    uint64_t cost = row->status == STK_OK ? row_cost_locked(p, row) : 0;

    if (row->status != STK_OK) {
        stk__row_ready_locked(step, r);
        return true;
    }
    /* Whoever gives a buffer back takes (L) behind it: a wake-up cannot be missed. */
    if (cost && !stk__pool_fits(pool, p->round.cost + cost)) {
        wait_for_room_locked(p, row, cost);
        return false;
    }
    p->round.cost += cost;
    p->steps->passed = step->serial;
    admit_row_locked(p, step, r);
    return true;
}

/* Admit rows of a step until the budget or the round is full; true when all are in. */
static bool admit_rows(stk__planner *p, stk__step *step)
{
    for (; step->admitted < step->num_rows && p->round.num < ROUND_WANTS;
         step->admitted = behind(step, step->admitted)) {
        stk__row *row = &step->rows[step->admitted];
        if (row->admitted)
            continue;
        const bool room = stk__round_grow(p, row->num_needs) == STK_OK;
        pthread_mutex_lock(&p->ring->lock);
        if (!room)
            stk__row_fail(row, STK_ENOMEM, NULL);
        bool in = try_admit_locked(p, step, step->admitted);
        pthread_mutex_unlock(&p->ring->lock);
        if (!in)
            return false;
        row->admitted = true;
    }
    return step->admitted == step->num_rows;
}

/* ---- Substitutes ---- */

/* What decoding a row that was put back wants beyond the room of all pictures; one row at a time.
 * False: not now. */
static bool take_reserve(stk__planner *p, stk__row *row)
{
    if (!row->reserve)
        return true;
    pthread_mutex_lock(&p->ring->lock);
    const bool fits = !p->reserving && stk__pool_fits(&p->ring->pool, p->round.cost + row->reserve);
    if (!fits)
        wait_for_room_locked(p, row, row_cost_locked(p, row));
    pthread_mutex_unlock(&p->ring->lock);
    if (fits)
        stk__row_reserve(p, row);
    return fits;
}

/* Find a row that wants a substitute, or was put back, and admit it; false when the budget has no
 * room. */
static bool plan_substitute(stk__planner *p)
{
    stk__step *step = NULL;
    uint32_t r = 0;

    pthread_mutex_lock(&p->ring->lock);
    for (uint64_t serial = p->steps->first; serial < p->steps->located_end && !step; serial++) {
        stk__step *s = stk__step_at(p->steps, serial);
        for (r = 0; s->has_holes && r < s->num_rows; r = stk__row_behind(s, r))
            if (s->rows[r].wants_substitute) {
                step = s;
                break;
            }
    }
    pthread_mutex_unlock(&p->ring->lock);
    if (!step)
        return true;
    stk__row *row = &step->rows[r];
    if (!row->located) {
        stk_status status = stk__row_locate_substitute(p, step, r);
        if (status != STK_OK)
            stk__row_fail(row, status, row->reason);
        row->located = true;
    }
    if (stk__round_grow(p, row->num_needs) != STK_OK)
        stk__row_fail(row, STK_ENOMEM, NULL);
    if (!take_reserve(p, row))
        return false;
    pthread_mutex_lock(&p->ring->lock);
    bool in = try_admit_locked(p, step, r);
    if (in) {
        row->wants_substitute = false;
        p->num_replace--;
    }
    pthread_mutex_unlock(&p->ring->lock);
    if (!in)
        stk__row_return(p, row);
    return in;
}

/* ---- Rounds ---- */

static bool may_locate_locked(const stk__planner *p)
{
    const stk__steps *steps = p->steps;
    const bool late = p->late || p->replaces;
    const bool ragged = p->ring->num_ragged != 0;

    if (steps->located_end >= steps->limit || steps->located_end - steps->first >= steps->num)
        return false;
    /* Each step has room for its ragged values before a row of it is admitted, and rows are
     * admitted in order: so memory that is held ahead never keeps the first step waiting. But a
     * substitute, or a row that was put back, comes late: what was admitted after its step must not
     * hold memory until that step is delivered. Ragged values do, rows without a slab do. */
    if (!late)
        return true;
    return ragged ? steps->located_end == steps->first
                  : steps->located_end < steps->slab_end + p->ring->num_free;
}

bool stk__can_plan_locked(const stk__planner *p)
{
    if (p->busy || p->steps->draining || p->ring->full)
        return false;
    return p->num_replace || p->admit_serial < p->steps->located_end || may_locate_locked(p);
}

/* Locate the next step, if there is to be one, and show it to the workers. */
static bool next_step(stk__planner *p)
{
    pthread_mutex_lock(&p->ring->lock);
    bool may = !p->steps->draining && may_locate_locked(p);
    uint64_t serial = p->steps->located_end;
    pthread_mutex_unlock(&p->ring->lock);
    if (!may)
        return false;
    stk__step *step = stk__step_at(p->steps, serial);
    stk__step_locate(p, step, serial);
    if (!p->ring->num_ragged)
        ready_at_once(p, step);
    pthread_mutex_lock(&p->ring->lock);
    p->steps->located_end++;
    stk__steps_attach_locked(p->steps);
    pthread_mutex_unlock(&p->ring->lock);
    return true;
}

/* False: a row that was put back, or a substitute, has no room. */
static bool plan_round(stk__planner *p, uint32_t substitutes)
{
    for (; substitutes && p->round.num < ROUND_WANTS; substitutes--)
        if (!plan_substitute(p))
            return false;
    while (p->round.num < ROUND_WANTS) {
        bool fresh = p->admit_serial == p->steps->located_end;
        if (fresh && !next_step(p))
            return true;
        stk__step *step = stk__step_at(p->steps, p->admit_serial);
        if (!reserve_ragged(p, step) || !admit_rows(p, step))
            return true;
        p->admit_serial++;
        /* A step that needed no read is handed over at once: the others may work on it. */
        if (p->round.num == 0)
            return true;
    }
    return true;
}

void stk__plan_round_locked(stk__planner *p)
{
    const uint32_t substitutes = p->num_replace;
    stk__spent spent = {0};
    stk__call call;

    uint64_t start = stk__now_ns(), rows = p->rows;
    p->busy = true;
    p->since_ns = start;
    p->wanted = 0;
    p->waits_late = p->again = false;
    stk__near_judge_locked(p);
    stk__stall_round_locked(p->stalls);
    pthread_mutex_unlock(&p->ring->lock);
    stk__call_begin(&call, p->ring);
    const bool fits = plan_round(p, substitutes);
    bool sent = stk__round_send(p);
    stk__event event = {.kind = STK__EVENT_PLAN,
                        .worker = UINT32_MAX,
                        .start_ns = start,
                        .end_ns = stk__stamp(),
                        .count = p->rows - rows,
                        .loader = p->ring};
    stk__emit(p->ctx, &event);
    if (sent)
        stk__reads_pump(p->reads);
    stk__call_end(&call);
    pthread_mutex_lock(&p->ring->lock);
    p->busy = false;
    p->since_ns = 0;
    stk__stall_feed_locked(p->stalls, event.end_ns);
    p->sends = sent;
    p->shown.rows = p->rows;
    p->shown.busy_ns += event.end_ns - start;
    p->shown.cache_hits = p->cache_hits;
    p->shown.cache_misses = p->cache_misses;
    p->shown.cache_hit_bytes = p->cache_hit_bytes;
    p->shown.positions = p->epoch.evaluated;
    /* With no buffer out no thread would ever give one back. */
    if (atomic_load(&p->ring->pool.used) == 0 && !p->wanted)
        p->ring->full = false;
    /* It is a later row that has no room, or one that was put back before others were. */
    if (p->num_replace && (fits || p->again))
        p->ring->full = false;
    p->steps->passed = p->admit_serial;
    stk__idle_reclaim_locked(p->units, p->ring->full, &spent);
    if (p->steps->draining)
        pthread_cond_broadcast(&p->ring->finished);
    if (stk__spent_any(&spent)) {
        stk__steps_begin_locked(p->steps); /* the end waits for what is given back here */
        pthread_mutex_unlock(&p->ring->lock);
        stk__spent_free(p->units, &spent);
        pthread_mutex_lock(&p->ring->lock);
        stk__steps_end_locked(p->steps);
    }
}

/* ---- The part ---- */

stk_status stk__planner_init(stk__planner *p)
{
    p->map = stk__calloc(p->ctx, p->steps->row_room, sizeof *p->map);
    p->pads = stk__calloc(p->ctx, STK_MAX(p->ring->num_ragged, 1), sizeof *p->pads);
    p->pad_most = stk__calloc(p->ctx, STK_MAX(p->ring->num_ragged, 1), sizeof *p->pad_most);
    for (uint32_t c = 0; p->pads && c < p->ring->num_columns; c++)
        if (p->ring->columns[c].pad.unit)
            p->pads[p->ring->columns[c].ragged] = &p->ring->columns[c].pad;
    return p->map && p->pads && p->pad_most ? stk__order_epoch_init(&p->epoch, p->ctx, p->order)
                                            : STK_ENOMEM;
}

void stk__planner_destroy(stk__planner *p)
{
    if (!p->ctx)
        return;
    stk__order_epoch_release(&p->epoch);
    stk__round_release(p->ctx, &p->round);
    stk__free(p->ctx, p->map);
    stk__free(p->ctx, p->pads);
    stk__free(p->ctx, p->pad_most);
}

void stk__planner_reset_locked(stk__planner *p, uint64_t serial)
{
    p->admit_serial = serial;
    p->num_replace = 0;
    p->wanted = 0;
    p->waits_late = false;
    p->round.num = 0;
    p->round.cost = 0;
}

uint64_t stk__planner_since_locked(const stk__planner *p)
{
    return p->since_ns;
}
