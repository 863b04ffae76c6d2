/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges that rows need: found by range, handed to the rows when their bytes have come. */
#include "loader/units.h"

#include "loader/loader.h"

static uint32_t bucket_of(uint64_t object, uint64_t offset)
{
    uint64_t h = (object ^ offset * UINT64_C(0x9E3779B97F4A7C15)) * UINT64_C(0xBF58476D1CE4E5B9);

    return (uint32_t)(h >> 40) % STK__UNIT_BUCKETS;
}

/* ---- Units by range ---- */

stk__unit *stk__unit_find_locked(stk__units *units, const stk_need *need)
{
    for (stk__unit *u = units->table[bucket_of(need->object, need->offset)]; u;
         u = u->next_in_table)
        if (u->object == need->object && u->offset == need->offset && u->length == need->length &&
            u->status == STK_OK &&
            (!u->decoding || u->wanted >= (need->wanted ? need->wanted : need->decoded))) {
            u->references++;
            u->shared = true;
            return u;
        }
    return NULL;
}

void stk__unit_publish_locked(stk__units *units, stk__unit *unit)
{
    stk__unit **bucket = &units->table[bucket_of(unit->object, unit->offset)];

    unit->next_in_table = *bucket;
    *bucket = unit;
}

void stk__unit_hide_locked(stk__units *units, stk__unit *unit)
{
    stk__unit **at = &units->table[bucket_of(unit->object, unit->offset)];

    while (*at && *at != unit)
        at = &(*at)->next_in_table;
    if (*at)
        *at = unit->next_in_table;
}

void stk__unit_unref_locked(stk_loader *loader, stk__unit *unit, stk__spent *spent)
{
    if (--unit->references == 0 && !stk__unit_idles_locked(loader, unit))
        stk__unit_retire_locked(&loader->units, unit, spent);
}

void stk__unit_retire_locked(stk__units *units, stk__unit *unit, stk__spent *spent)
{
    stk__unit_hide_locked(units, unit);
    stk__spend(spent, unit->decoded);
    unit->decoded = NULL;
    if (--unit->bundle->live_units == 0) {
        unit->bundle->next = spent->bundles;
        spent->bundles = unit->bundle;
    }
}

stk_slice stk__unit_slice(const stk__unit *unit)
{
    if (unit->absent)
        return (stk_slice){.data = NULL, .size = 0};
    if (unit->decoded_size)
        return (stk_slice){.data = unit->place ? unit->place : unit->decoded,
                           .size = unit->decoded_size};
    return (stk_slice){.data = unit->data, .size = unit->length};
}

/* ---- Records ---- */

stk__unit *stk__unit_new(stk_loader *loader)
{
    pthread_mutex_lock(&loader->ring->lock);
    stk__unit *unit = loader->units.free_units;
    if (unit)
        loader->units.free_units = unit->next_in_bundle;
    pthread_mutex_unlock(&loader->ring->lock);
    if (!unit)
        unit = stk__alloc(loader->ctx, sizeof *unit);
    if (unit)
        memset(unit, 0, sizeof *unit);
    return unit;
}

static void bundle_arrived_locked(stk__range *range, stk_status status);

stk__bundle *stk__bundle_new(stk_loader *loader)
{
    pthread_mutex_lock(&loader->ring->lock);
    stk__bundle *bundle = loader->units.free_bundles;
    if (bundle)
        loader->units.free_bundles = bundle->next;
    pthread_mutex_unlock(&loader->ring->lock);
    if (!bundle)
        bundle = stk__calloc(loader->ctx, 1, sizeof *bundle);
    if (bundle)
        *bundle = (stk__bundle){.range.arrived_locked = bundle_arrived_locked,
                                .loader = loader,
                                .key = bundle->key,
                                .key_room = bundle->key_room};
    return bundle;
}

/* The buffer goes back to the pool; the planner may have waited for it. */
void stk__bundle_free(stk_loader *loader, stk__bundle *bundle)
{
    stk__units *units = &loader->units;

    stk__pool_give(&loader->ring->pool, bundle->range.data);
    bundle->range.data = NULL;
    for (stk__unit *u = bundle->units; u; u = u->next_in_bundle) {
        stk__pool_give(&loader->ring->pool, u->decoded);
        stk__free(loader->ctx, u->alone);
    }
    pthread_mutex_lock(&loader->ring->lock);
    for (stk__unit *u = bundle->units, *next; u; u = next) {
        next = u->next_in_bundle;
        u->next_in_bundle = units->free_units;
        units->free_units = u;
    }
    bundle->units = NULL;
    bundle->next = units->free_bundles;
    units->free_bundles = bundle;
    if (loader->planner.blocked) {
        loader->planner.blocked = false;
        pthread_cond_signal(&loader->ring->work);
    }
    pthread_mutex_unlock(&loader->ring->lock);
}

void stk__spend(stk__spent *spent, void *buffer)
{
    if (!buffer)
        return;
    memcpy(buffer, &spent->buffers, sizeof spent->buffers);
    spent->buffers = buffer;
}

void stk__spent_free(stk_loader *loader, stk__spent *spent)
{
    const bool any = spent->buffers;

    for (void *buffer = spent->buffers, *next; buffer; buffer = next) {
        memcpy(&next, buffer, sizeof next);
        stk__pool_give(&loader->ring->pool, buffer);
    }
    for (stk__bundle *bundle = spent->bundles, *next; bundle; bundle = next) {
        next = bundle->next;
        stk__bundle_free(loader, bundle);
    }
    *spent = (stk__spent){0};
    if (!any)
        return;
    pthread_mutex_lock(&loader->ring->lock);
    if (loader->planner.blocked) {
        loader->planner.blocked = false;
        pthread_cond_signal(&loader->ring->work);
    }
    pthread_mutex_unlock(&loader->ring->lock);
}

void stk__units_destroy(stk_loader *loader)
{
    stk__units *units = &loader->units;

    for (stk__unit *u = units->free_units, *next; u; u = next) {
        next = u->next_in_bundle;
        stk__free(loader->ctx, u);
    }
    for (stk__bundle *b = units->free_bundles, *next; b; b = next) {
        next = b->next;
        stk__free(loader->ctx, b->key);
        stk__free(loader->ctx, b);
    }
}

/* ---- Arrival ---- */

void stk__row_ready_locked(stk__step *step, uint32_t row)
{
    uint64_t at = (uint64_t)step->ready_first + step->num_ready++;

    step->ready[at < step->loader->row_room ? at : at - step->loader->row_room] = row;
}

bool stk__unit_arrived_locked(stk__unit *unit, stk_status status)
{
    bool any = false;

    unit->arrived = true;
    unit->status = status;
    stk__need_entry *entry = unit->waiting;
    unit->waiting = NULL;
    for (stk__need_entry *next; entry; entry = next) {
        next = entry->next;
        stk__row *row = &entry->step->rows[entry->row];
        const uint32_t need = (uint32_t)(entry - row->needs);
        /* Of several that fail the first need tells, whichever arrives first. */
        if (status != STK_OK && (row->status == STK_OK || need < row->bad_need)) {
            row->status = status;
            row->stage = unit->decoding ? STK_STAGE_CODEC : STK_STAGE_STORE;
            row->reason = unit->reason;
            row->bad_need = need;
        }
        if (unit->absent)
            row->slices[entry - row->needs] = stk__unit_slice(unit);
        if (--row->pending == 0) {
            stk__row_ready_locked(entry->step, entry->row);
            any = true;
        }
    }
    return any;
}

/* There is work for a worker, or for the consumer where it works alone. (L) held. */
static void wake_locked(stk_loader *loader)
{
    pthread_cond_signal(&loader->ring->work);
    if (loader->num_workers == 0)
        pthread_cond_signal(&loader->ring->finished);
}

static void alone_arrived_locked(stk__range *range, stk_status status)
{
    stk__unit *unit = ((stk__alone *)range)->unit;
    stk__read_times *times = &unit->bundle->range.times;

    /* It was first tried with the others. */
    times->sent_ns = range->times.sent_ns;
    times->arrived_ns = range->times.arrived_ns;
    times->transfer = range->times.transfer;
    if (stk__unit_read_locked(unit->bundle->loader, unit, status))
        wake_locked(unit->bundle->loader);
}

bool stk__unit_read_alone_locked(stk_loader *loader, stk__unit *unit)
{
    const stk__range *whole = &unit->bundle->range;

    if (!unit->alone)
        unit->alone = stk__alloc(loader->ctx, sizeof *unit->alone);
    if (!unit->alone)
        return false;
    *unit->alone = (stk__alone){.range = {.store = whole->store,
                                          .key = whole->key,
                                          .offset = unit->offset,
                                          .length = unit->length,
                                          .data = whole->data + (unit->offset - whole->offset),
                                          .arrived_locked = alone_arrived_locked},
                                .unit = unit};
    return stk__reads_queue_first_locked(&loader->reads, &unit->alone->range);
}

/*
 * All reads of a bundle have ended. One that failed for good and served several ranges is taken
 * apart: how ranges were joined depends on timing, and which samples are bad must not.
 */
static void bundle_arrived_locked(stk__range *range, stk_status status)
{
    stk__bundle *bundle = (stk__bundle *)range;
    stk_loader *loader = bundle->loader;
    const bool apart = status != STK_OK && stk_status_fault(status) == STK_FAULT_SAMPLE &&
                       bundle->units && bundle->units->next_in_bundle && !loader->draining;
    bool any = false;

    for (stk__unit *u = bundle->units; u; u = u->next_in_bundle)
        if (!apart)
            any = stk__unit_read_locked(loader, u, status) || any;
        else if (!stk__unit_read_alone_locked(loader, u))
            any = stk__unit_read_locked(loader, u, STK_ENOMEM) || any;
    if (any)
        wake_locked(loader);
}
