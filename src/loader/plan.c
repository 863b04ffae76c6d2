/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Planning: which samples stand in a step, what they need, and which reads bring it. One thread at
 * a time plans, in rounds. Rows are admitted in order of position, as many as the budget holds; a
 * row that finds its bytes in the cache, or on their way for another row, asks for nothing. When no
 * row before it holds memory a row is always admitted, if need be after the budget was divided anew
 * (widen.c), or it can never be: so the budget cannot deadlock against the order.
 */
#include "loader/loader.h"

#define ROUND_WANTS                                                                                \
    1024 /* reads planned together: enough to join neighbours, few enough to start soon */

/* ---- Admission ---- */

static stk_status grow_round(stk_loader *loader, uint32_t room)
{
    stk__planner *p = &loader->planner;
    uint64_t n = STK_MAX(room, p->room * 2);

    stk__want *wants = stk__realloc(loader->ctx, p->wants, n * sizeof *wants);
    if (wants)
        p->wants = wants;
    stk__need_entry **entries = stk__realloc(loader->ctx, p->entries, n * sizeof *entries);
    if (entries)
        p->entries = entries;
    stk__request *requests = stk__realloc(loader->ctx, p->requests, n * sizeof *requests);
    if (requests)
        p->requests = requests;
    uint32_t *by_tag = stk__realloc(loader->ctx, p->by_tag, n * sizeof *by_tag);
    if (by_tag)
        p->by_tag = by_tag;
    if (!wants || !entries || !requests || !by_tag)
        return STK_ENOMEM;
    p->room = (uint32_t)n;
    return loader->dataset->ops->decode ? stk__round_grow(loader) : STK_OK;
}

/* Bytes of the pool that the row's reads still want. (L) held. */
static uint64_t row_cost_locked(stk_loader *loader, stk__row *row)
{
    uint64_t cost = 0;

    for (uint32_t i = 0; i < row->num_needs; i++) {
        const stk_need *need = &row->needs[i].need;
        if (row->slices[i].size || !row->slices[i].data ||
            stk__need_cached(loader, need, &row->slices[i]))
            continue;
        stk__unit *live = stk__unit_find_locked(&loader->units, need);
        if (live)
            live->references--;
        else if (!stk__round_shares(loader, need) &&
                 !stk__add_size(cost, stk__need_cost(loader, need), &cost))
            return UINT64_MAX / 4;
    }
    return cost;
}

/* Tie a row to units on their way and put the rest among the wants of the round. (L) held. */
static void admit_row_locked(stk_loader *loader, stk__step *step, uint32_t r)
{
    stk__planner *p = &loader->planner;
    stk__row *row = &step->rows[r];

    row->pending = 0;
    step->has_units = true;
    for (uint32_t i = 0; i < row->num_needs; i++) {
        stk__need_entry *entry = &row->needs[i];
        loader->units.needed_bytes += entry->need.length;
        loader->units.chunks_needed += entry->need.decoded != 0;
        if (row->slices[i].size || !row->slices[i].data || entry->need.length == 0)
            continue;
        entry->unit = stk__unit_find_locked(&loader->units, &entry->need);
        if (entry->unit) {
            stk__unit_widen(loader, entry->unit, &entry->need, step->serial);
            row->slices[i] = stk__unit_slice(entry->unit);
            if (entry->unit->arrived)
                continue;
            entry->next = entry->unit->waiting;
            entry->unit->waiting = entry;
        } else {
            p->wants[p->num_wants] = (stk__want){.object = entry->need.object,
                                                 .offset = entry->need.offset,
                                                 .length = entry->need.length,
                                                 .tag = p->num_wants};
            p->entries[p->num_wants] = entry;
            stk__round_add(loader, p->num_wants++);
        }
        row->pending++;
    }
    if (row->pending == 0)
        stk__row_ready_locked(step, r);
}

/* Hand over the rows that need nothing from storage: before the step is seen by anybody, or with
 * (L) held. */
static void ready_at_once(stk_loader *loader, stk__step *step)
{
    const bool ranges = loader->cache && !stk__caches_samples(loader);

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
    for (uint32_t r = 0; r < step->num_rows; r++) {
        stk__row *row = &step->rows[r];
        bool all = true;
        for (uint32_t i = 0; i < row->num_needs; i++) {
            bool cached = stk__need_cached(loader, &row->needs[i].need, &row->slices[i]);
            loader->planner.cache_hits += cached && ranges;
            loader->planner.cache_misses += !cached && ranges;
            all = all && cached;
        }
        row->admitted = all || row->status != STK_OK;
        if (row->admitted)
            stk__row_ready_locked(step, r);
    }
}

/* A row has to wait: for buffers that come back, or, where the pool is too small for it, for the
 * budget to be divided anew. Of a pool with ragged values reads take a half. (L) held. */
static void wait_for_room_locked(stk_loader *loader, const stk__row *row, uint64_t cost)
{
    stk__planner *p = &loader->planner;
    const uint64_t whole = (cost + row->reserve) * (loader->ring->num_ragged ? 2 : 1);

    if (whole > loader->ring->pool.limit)
        p->wanted = STK_MAX(p->wanted, whole);
    p->waits_late |= row->reserve != 0;
    p->blocked = true;
    stk__stall_starve_locked(loader);
}

/* Room for the values of the ragged fields of a step, field by field, so that each can be closed up
 * in its place. Rows that need nothing else are ready then. False: not now. */
static bool reserve_ragged(stk_loader *loader, stk__step *step)
{
    const uint32_t ragged = loader->ring->num_ragged;
    stk__pool *pool = &loader->ring->pool;
    uint64_t total = 0;

    if (step->num_rows == 0 || ragged == 0 || step->reserved)
        return true;
    for (uint32_t k = 0; k < ragged; k++)
        for (uint32_t r = 0; r < step->num_rows; r++) {
            uint64_t i = (uint64_t)r * ragged + k;
            step->ragged_at[i] = total;
            step->ragged_size[i] = 0;
            total += stk__round_up(step->ragged_bound[i], 16);
        }
    /* Rows admitted in this round hold promises that are not yet buffers. */
    pthread_mutex_lock(&loader->ring->lock);
    const uint64_t whole = 4 * stk__pool_cost(total);
    bool fits = whole <= pool->limit &&
                stk__pool_fits(pool, loader->planner.round_cost + stk__pool_cost(total));
    loader->planner.wanted = whole <= pool->limit ? 0 : whole;
    loader->planner.blocked = !fits;
    if (!fits)
        stk__stall_starve_locked(loader);
    else if (loader->stalls.starve_end_ns == UINT64_MAX)
        step->room_ns = stk__stamp();
    pthread_mutex_unlock(&loader->ring->lock);
    if (!fits)
        return false;
    void *room = stk__pool_take(pool, total);
    pthread_mutex_lock(&loader->ring->lock);
    step->ragged = room;
    step->reserved = true;
    /* It would fit, and yet there is none: memory is out, which waiting does not mend. */
    for (uint32_t r = 0; !room && r < step->num_rows; r++)
        stk__row_fail(&step->rows[r], STK_ENOMEM, NULL);
    ready_at_once(loader, step);
    pthread_cond_signal(&loader->ring->work);
    pthread_mutex_unlock(&loader->ring->lock);
    return true;
}

/* Admit one row if the budget has room for it. (L) held. */
static bool try_admit_locked(stk_loader *loader, stk__step *step, uint32_t r)
{
    stk__planner *p = &loader->planner;
    stk__pool *pool = &loader->ring->pool;
    stk__row *row = &step->rows[r];
    uint64_t cost = row->status == STK_OK ? row_cost_locked(loader, row) : 0;

    if (row->status != STK_OK) {
        stk__row_ready_locked(step, r);
        return true;
    }
    /* Whoever gives a buffer back takes (L) behind it: a wake-up cannot be missed. */
    if (cost && !stk__pool_fits(pool, p->round_cost + cost)) {
        wait_for_room_locked(loader, row, cost);
        return false;
    }
    p->round_cost += cost;
    p->passed = step->serial;
    admit_row_locked(loader, step, r);
    return true;
}

/* Admit rows of a step until the budget or the round is full; true when all are in. */
static bool admit_rows(stk_loader *loader, stk__step *step)
{
    stk__planner *p = &loader->planner;

    for (; step->admitted < step->num_rows && p->num_wants < ROUND_WANTS; step->admitted++) {
        stk__row *row = &step->rows[step->admitted];
        if (row->admitted)
            continue;
        bool room = p->num_wants + row->num_needs <= p->room ||
                    grow_round(loader, p->num_wants + row->num_needs) == STK_OK;
        pthread_mutex_lock(&loader->ring->lock);
        if (!room)
            stk__row_fail(row, STK_ENOMEM, NULL);
        bool in = try_admit_locked(loader, step, step->admitted);
        pthread_mutex_unlock(&loader->ring->lock);
        if (!in)
            return false;
        row->admitted = true;
    }
    return step->admitted == step->num_rows;
}

/* ---- Sending ---- */

/* The reads of some wants failed before they began: their rows are told. */
static void fail_wants(stk_loader *loader, const stk__want *wants, uint32_t n, stk_status status)
{
    pthread_mutex_lock(&loader->ring->lock);
    for (uint32_t i = 0; i < n; i++) {
        stk__need_entry *entry = loader->planner.entries[wants[i].tag];
        stk__row *row = &entry->step->rows[entry->row];
        if (row->status == STK_OK) {
            row->status = status;
            row->stage = STK_STAGE_STORE;
        }
        if (--row->pending == 0)
            stk__row_ready_locked(entry->step, entry->row);
    }
    pthread_cond_broadcast(&loader->ring->work);
    pthread_mutex_unlock(&loader->ring->lock);
}

/* Store and key of the fetch's object. */
static stk_status name_object(stk_loader *loader, stk__bundle *bundle)
{
    stk_dataset *dataset = loader->dataset;

    for (;;) {
        size_t length = dataset->ops->object(dataset, bundle->object, &bundle->range.store,
                                             bundle->key, bundle->key_room);
        bundle->range.key = bundle->key;
        if (length < bundle->key_room)
            return STK_OK;
        if (length >= STK_MAX_OBJECT_KEY)
            return STK_ELIMIT;
        stk__free(loader->ctx, bundle->key);
        bundle->key_room = STK_MAX(length + 1, 128);
        bundle->key = stk__alloc(loader->ctx, bundle->key_room);
        if (!bundle->key) {
            bundle->key_room = 0;
            return STK_ENOMEM;
        }
    }
}

/* A unit for each distinct range of a request, tied to all that wait for it. */
static stk_status make_units(stk_loader *loader, stk__bundle *bundle, const stk__want *wants,
                             uint32_t n)
{
    stk__unit *unit = NULL;

    for (uint32_t i = 0; i < n; i++) {
        if (!unit || unit->offset != wants[i].offset || unit->length != wants[i].length) {
            unit = stk__unit_new(loader);
            if (!unit)
                return STK_ENOMEM;
            unit->object = wants[i].object;
            unit->offset = wants[i].offset;
            unit->length = wants[i].length;
            unit->data =
                (const uint8_t *)bundle->range.data + (wants[i].offset - bundle->range.offset);
            unit->bundle = bundle;
            unit->next_in_bundle = bundle->units;
            bundle->units = unit;
            bundle->live_units++;
            bundle->raw_units++;
            const stk__need_entry *first = loader->planner.entries[wants[i].tag];
            STK_TRY(stk__unit_set_need(loader, unit, &first->need, first->step->serial));
        }
        stk__need_entry *entry = loader->planner.entries[wants[i].tag];
        stk__unit_widen(loader, unit, &entry->need, entry->step->serial);
        entry->next = unit->waiting;
        unit->waiting = entry;
    }
    return STK_OK;
}

/* From now on rows may find the units. (L) held. */
static void publish_units_locked(stk_loader *loader, stk__bundle *bundle)
{
    for (stk__unit *u = bundle->units; u; u = u->next_in_bundle) {
        for (stk__need_entry *entry = u->waiting; entry; entry = entry->next) {
            entry->unit = u;
            stk_slice *slice =
                &entry->step->rows[entry->row].slices[entry - entry->step->rows[entry->row].needs];
            *slice = stk__unit_slice(u);
            u->shared |= u->references++ > 0;
        }
        stk__unit_publish_locked(&loader->units, u);
    }
}

static void send_request(stk_loader *loader, const stk__request *request)
{
    const stk__want *wants = loader->planner.wants + request->first;
    stk_status status = STK_ENOMEM;
    stk__bundle *bundle = stk__bundle_new(loader);

    if (!bundle)
        goto failed;
    bundle->object = request->object;
    bundle->range.offset = request->offset;
    bundle->range.length = request->length;
    bundle->range.data = stk__pool_take(&loader->ring->pool, request->length);
    if (!bundle->range.data || (status = name_object(loader, bundle)) != STK_OK ||
        (status = make_units(loader, bundle, wants, request->count)) != STK_OK)
        goto failed;
    status = stk__reads_prepare(&loader->reads, &bundle->range);
    if (status != STK_OK)
        goto failed;
    /* Queued last: from there on the bundle may end at any moment. */
    pthread_mutex_lock(&loader->ring->lock);
    publish_units_locked(loader, bundle);
    stk__reads_queue_locked(&loader->reads, &bundle->range);
    pthread_mutex_unlock(&loader->ring->lock);
    return;
failed:
    if (bundle)
        stk__bundle_free(loader, bundle);
    fail_wants(loader, wants, request->count, status);
}

/* Turn the wants of the round into reads. */
static bool send_round(stk_loader *loader)
{
    stk__planner *p = &loader->planner;
    stk_store_limits limits;
    stk_store *store = NULL;
    char key[1];

    if (p->num_wants && loader->cache && loader->dataset->ops->decode)
        stk__round_from_cache(loader);
    if (p->num_wants == 0)
        return false;
    loader->dataset->ops->object(loader->dataset, p->wants[0].object, &store, key, sizeof key);
    stk__store_limits(store, &limits);
    size_t n = stk__plan_reads(p->wants, p->num_wants, &limits, p->requests);
    uint64_t cost = 0;
    for (size_t i = 0; i < n; i++)
        cost += stk__pool_cost(p->requests[i].length);
    /* What is read in vain must not pass the budget that the rows were admitted under. */
    if (limits.coalesce_gap && cost > p->round_cost) {
        limits.coalesce_gap = 0;
        n = stk__plan_reads(p->wants, p->num_wants, &limits, p->requests);
    }
    /* Planned by place, sent by position: the oldest batch waits for its own reads alone. */
    for (uint32_t tag = 0; tag < p->num_wants; tag++)
        p->by_tag[tag] = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        const stk__want *wants = p->wants + p->requests[i].first;
        uint32_t oldest = UINT32_MAX;
        for (uint32_t k = 0; k < p->requests[i].count; k++)
            oldest = STK_MIN(oldest, wants[k].tag);
        p->by_tag[oldest] = (uint32_t)i;
    }
    for (uint32_t tag = 0; tag < p->num_wants; tag++)
        if (p->by_tag[tag] != UINT32_MAX)
            send_request(loader, &p->requests[p->by_tag[tag]]);
    p->num_wants = 0;
    p->round_cost = 0;
    return true;
}

/* ---- Substitutes ---- */

/* What decoding a row that was put back wants beyond the room of all pictures; one row at a time.
 * False: not now. */
static bool take_reserve(stk_loader *loader, stk__row *row)
{
    if (!row->reserve)
        return true;
    pthread_mutex_lock(&loader->ring->lock);
    const bool fits =
        !loader->planner.reserving && stk__pool_fits(&loader->ring->pool, row->reserve);
    if (!fits)
        wait_for_room_locked(loader, row, row_cost_locked(loader, row));
    pthread_mutex_unlock(&loader->ring->lock);
    if (fits)
        stk__row_reserve(loader, row);
    return fits;
}

/* Find a row that wants a substitute, or was put back, and admit it; false when the budget has no
 * room. */
static bool plan_substitute(stk_loader *loader)
{
    stk__planner *p = &loader->planner;
    stk__step *step = NULL;
    uint32_t r = 0;

    pthread_mutex_lock(&loader->ring->lock);
    for (uint64_t serial = loader->first; serial < loader->located_end && !step; serial++) {
        stk__step *s = stk__step_at(loader, serial);
        for (r = 0; s->has_holes && r < s->num_rows; r++)
            if (s->rows[r].wants_substitute) {
                step = s;
                break;
            }
    }
    pthread_mutex_unlock(&loader->ring->lock);
    if (!step)
        return true;
    stk__row *row = &step->rows[r];
    if (!row->located) {
        stk_status status = stk__row_locate_substitute(loader, step, r);
        if (status != STK_OK)
            stk__row_fail(row, status, row->reason);
        row->located = true;
    }
    if (p->num_wants + row->num_needs > p->room &&
        grow_round(loader, p->num_wants + row->num_needs) != STK_OK)
        stk__row_fail(row, STK_ENOMEM, NULL);
    if (!take_reserve(loader, row))
        return false;
    pthread_mutex_lock(&loader->ring->lock);
    bool in = try_admit_locked(loader, step, r);
    if (in) {
        row->wants_substitute = false;
        p->num_replace--;
    }
    pthread_mutex_unlock(&loader->ring->lock);
    if (!in)
        stk__row_return(loader, row);
    return in;
}

/* ---- Rounds ---- */

static bool may_locate_locked(const stk_loader *loader)
{
    const bool late = loader->late || loader->options.on_error == STK_ON_ERROR_REPLACE;
    const bool ragged = loader->ring->num_ragged != 0;

    if (loader->located_end >= loader->plan_limit ||
        loader->located_end - loader->first >= loader->num_steps)
        return false;
    /* A substitute, or a row that was put back, comes late: what was admitted after its step must
     * not hold memory until that step is delivered. Ragged values do, rows without a slab do. */
    if (ragged && late)
        return loader->located_end == loader->first;
    return !(ragged || late) || loader->located_end < loader->slab_end + loader->ring->num_free;
}

bool stk__can_plan_locked(stk_loader *loader)
{
    const stk__planner *p = &loader->planner;

    if (p->busy || loader->draining || p->blocked)
        return false;
    return p->num_replace || p->admit_serial < loader->located_end || may_locate_locked(loader);
}

/* Locate the next step, if there is to be one, and show it to the workers. */
static bool next_step(stk_loader *loader)
{
    pthread_mutex_lock(&loader->ring->lock);
    bool may = !loader->draining && may_locate_locked(loader);
    uint64_t serial = loader->located_end;
    pthread_mutex_unlock(&loader->ring->lock);
    if (!may)
        return false;
    stk__step *step = stk__step_at(loader, serial);
    stk__step_locate(loader, step, serial);
    if (!loader->ring->num_ragged)
        ready_at_once(loader, step);
    pthread_mutex_lock(&loader->ring->lock);
    loader->located_end++;
    stk__attach_slabs_locked(loader);
    pthread_mutex_unlock(&loader->ring->lock);
    return true;
}

/* False: a row that was put back, or a substitute, has no room. */
static bool plan_round(stk_loader *loader, bool substitutes)
{
    stk__planner *p = &loader->planner;

    if (substitutes && !plan_substitute(loader))
        return false;
    while (p->num_wants < ROUND_WANTS) {
        bool fresh = p->admit_serial == loader->located_end;
        if (fresh && !next_step(loader))
            return true;
        stk__step *step = stk__step_at(loader, p->admit_serial);
        if (!reserve_ragged(loader, step) || !admit_rows(loader, step))
            return true;
        p->admit_serial++;
        /* A step that needed no read is handed over at once: the others may work on it. */
        if (p->num_wants == 0)
            return true;
    }
    return true;
}

void stk__plan_round_locked(stk_loader *loader)
{
    stk__planner *p = &loader->planner;

    const bool substitutes = p->num_replace != 0;
    stk__spent spent = {0};
    stk__call call;

    uint64_t start = stk__now_ns(), rows = p->rows;
    p->busy = true;
    p->since_ns = start;
    p->wanted = 0;
    p->waits_late = p->again = false;
    loader->stalls.starving = false;
    pthread_mutex_unlock(&loader->ring->lock);
    stk__call_begin(&call, loader);
    const bool fits = plan_round(loader, substitutes);
    bool sent = send_round(loader);
    stk__event event = {.kind = STK__EVENT_PLAN,
                        .worker = UINT32_MAX,
                        .start_ns = start,
                        .end_ns = stk__stamp(),
                        .count = p->rows - rows};
    stk__emit(loader->ctx, &event);
    if (sent)
        stk__reads_pump(&loader->reads);
    stk__call_end(&call);
    pthread_mutex_lock(&loader->ring->lock);
    p->busy = false;
    p->since_ns = 0;
    if (!loader->stalls.starving)
        stk__stall_feed_locked(loader, event.end_ns);
    p->sends = sent;
    p->shown.rows = p->rows;
    p->shown.busy_ns += event.end_ns - start;
    p->shown.cache_hits = p->cache_hits;
    p->shown.cache_misses = p->cache_misses;
    p->shown.positions = p->order.evaluated;
    /* With no buffer out nobody would ever come to say that one is back. */
    if (atomic_load(&loader->ring->pool.used) == 0 && !p->wanted)
        p->blocked = false;
    /* It is a later row that has no room, or one that was put back before others were. */
    if (p->num_replace && (fits || p->again))
        p->blocked = false;
    p->passed = p->admit_serial;
    stk__idle_reclaim_locked(loader, p->blocked, &spent);
    if (loader->draining)
        pthread_cond_broadcast(&loader->ring->finished);
    if (spent.bundles || spent.buffers) {
        loader->tasks++; /* the end waits for what is given back here */
        pthread_mutex_unlock(&loader->ring->lock);
        stk__spent_free(loader, &spent);
        pthread_mutex_lock(&loader->ring->lock);
        loader->tasks--;
        if (loader->draining)
            pthread_cond_broadcast(&loader->ring->finished);
    }
}

void stk__planner_destroy(stk_loader *loader)
{
    stk__planner *p = &loader->planner;

    stk__order_epoch_release(&p->order);
    stk__free(loader->ctx, p->wants);
    stk__free(loader->ctx, p->entries);
    stk__free(loader->ctx, p->requests);
    stk__free(loader->ctx, p->by_tag);
    stk__free(loader->ctx, p->map);
    stk__free(loader->ctx, p->seen);
}
