/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges that rows need: found by range, handed to the rows when their bytes have come. */
#include "loader/units.h"

static uint32_t bucket_of(uint64_t object, uint64_t offset)
{
    uint64_t h = (object ^ offset * UINT64_C(0x9E3779B97F4A7C15)) * UINT64_C(0xBF58476D1CE4E5B9);

    return (uint32_t)(h >> 40) % STK__UNIT_BUCKETS;
}

/* ---- Records ---- */

static void bundle_arrived_locked(stk__range *range, stk_status status);

stk__bundle *stk__bundle_new(stk__units *units)
{
    pthread_mutex_lock(&units->ring->lock);
    stk__bundle *bundle = units->free_bundles;
    if (bundle)
        units->free_bundles = bundle->next;
    pthread_mutex_unlock(&units->ring->lock);
    if (!bundle)
        bundle = stk__calloc(units->ctx, 1, sizeof *bundle);
    if (bundle)
        *bundle = (stk__bundle){.range.arrived_locked = bundle_arrived_locked,
                                .of = units,
                                .key = bundle->key,
                                .key_room = bundle->key_room};
    return bundle;
}

void stk__bundle_free(stk__bundle *bundle)
{
    stk__units *units = bundle->of;

    stk__pool_give(&units->ring->pool, bundle->range.transfer.data);
    bundle->range.transfer.data = NULL;
    for (stk__unit *u = bundle->units; u; u = u->next_in_bundle) {
        stk__pool_give(&units->ring->pool, u->decoded);
        stk__free(units->ctx, u->alone);
    }
    pthread_mutex_lock(&units->ring->lock);
    for (stk__unit *u = bundle->units, *next; u; u = next) {
        next = u->next_in_bundle;
        u->next_in_bundle = units->free_units;
        units->free_units = u;
    }
    bundle->units = NULL;
    bundle->next = units->free_bundles;
    units->free_bundles = bundle;
    stk__ring_room_locked(units->ring);
    pthread_mutex_unlock(&units->ring->lock);
}

static stk__unit *take_record(stk__units *units)
{
    pthread_mutex_lock(&units->ring->lock);
    stk__unit *unit = units->free_units;
    if (unit)
        units->free_units = unit->next_in_bundle;
    pthread_mutex_unlock(&units->ring->lock);
    if (!unit)
        unit = stk__alloc(units->ctx, sizeof *unit);
    if (unit)
        memset(unit, 0, sizeof *unit);
    return unit;
}

stk__unit *stk__unit_new(stk__bundle *bundle, const stk_need *need, const void *data,
                         uint64_t serial)
{
    stk__unit *unit = take_record(bundle->of);

    if (!unit)
        return NULL;
    unit->object = need->object;
    unit->offset = need->offset;
    unit->length = unit->came = need->length;
    unit->optional = need->optional;
    unit->up_to = need->up_to;
    bundle->range.transfer.up_to |= need->up_to;
    unit->decoded_size = need->decoded;
    unit->serial = serial;
    unit->data = data;
    unit->bundle = bundle;
    unit->next_in_bundle = bundle->units;
    bundle->units = unit;
    bundle->live_units++;
    bundle->raw_units += bundle->range.transfer.data != NULL;
    if (!need->decoded)
        return unit;
    unit->decoded = stk__pool_take(&bundle->of->ring->pool, need->decoded);
    return unit->decoded ? unit : NULL;
}

void stk__spend(stk__spent *spent, void *buffer)
{
    if (!buffer)
        return;
    memcpy(buffer, &spent->buffers, sizeof spent->buffers);
    spent->buffers = buffer;
}

bool stk__spent_any(const stk__spent *spent)
{
    return spent->bundles || spent->buffers;
}

void stk__spent_free(stk__units *units, stk__spent *spent)
{
    const bool any = spent->buffers;

    for (void *buffer = spent->buffers, *next; buffer; buffer = next) {
        memcpy(&next, buffer, sizeof next);
        stk__pool_give(&units->ring->pool, buffer);
    }
    for (stk__bundle *bundle = spent->bundles, *next; bundle; bundle = next) {
        next = bundle->next;
        stk__bundle_free(bundle);
    }
    *spent = (stk__spent){0};
    if (!any)
        return;
    pthread_mutex_lock(&units->ring->lock);
    stk__ring_room_locked(units->ring);
    pthread_mutex_unlock(&units->ring->lock);
}

void stk__units_destroy(stk__units *units)
{
    for (stk__unit *u = units->free_units, *next; u; u = next) {
        next = u->next_in_bundle;
        stk__free(units->ctx, u);
    }
    for (stk__bundle *b = units->free_bundles, *next; b; b = next) {
        next = b->next;
        stk__free(units->ctx, b->key);
        stk__free(units->ctx, b);
    }
}

/* ---- Units and their rows ---- */

stk_slice stk__unit_slice(const stk__unit *unit)
{
    if (unit->absent)
        return (stk_slice){.data = NULL, .size = 0};
    if (unit->decoded_size)
        return (stk_slice){.data = unit->place ? unit->place : unit->decoded,
                           .size = unit->decoded_size};
    return (stk_slice){.data = unit->data, .size = unit->came};
}

/* What a row asks for is to be decoded, too. */
static void widen(stk__unit *unit, const stk_need *need, uint64_t serial)
{
    const uint64_t wanted = need->wanted && !unit->bundle->of->whole ? need->wanted : need->decoded;

    unit->last = STK_MAX(unit->last, serial);
    if (!unit->decoding)
        unit->wanted = STK_MAX(unit->wanted, wanted);
}

void stk__unit_wait(stk__unit *unit, stk__need_entry *entry)
{
    widen(unit, &entry->need, entry->step->serial);
    entry->next = unit->waiting;
    unit->waiting = entry;
}

static void tie(stk__unit *unit, stk__need_entry *entry)
{
    stk__row *row = &entry->step->rows[entry->row];

    entry->unit = unit;
    row->slices[entry - row->needs] = stk__unit_slice(unit);
}

void stk__bundle_publish_locked(stk__bundle *bundle)
{
    for (stk__unit *u = bundle->units; u; u = u->next_in_bundle) {
        stk__unit **bucket = &bundle->of->table[bucket_of(u->object, u->offset)];
        for (stk__need_entry *entry = u->waiting; entry; entry = entry->next) {
            tie(u, entry);
            u->shared |= u->references++ > 0;
        }
        u->next_in_table = *bucket;
        *bucket = u;
    }
}

void stk__unit_hide_locked(stk__unit *unit)
{
    stk__unit **at = &unit->bundle->of->table[bucket_of(unit->object, unit->offset)];

    while (*at && *at != unit)
        at = &(*at)->next_in_table;
    if (*at)
        *at = unit->next_in_table;
}

/* The live unit of a range, which is shared from now on. (L) held. */
static stk__unit *find_locked(const stk__units *units, const stk_need *need)
{
    for (stk__unit *u = units->table[bucket_of(need->object, need->offset)]; u;
         u = u->next_in_table)
        if (u->object == need->object && u->offset == need->offset && u->length == need->length &&
            u->status == STK_OK &&
            (!u->decoding || u->wanted >= (need->wanted ? need->wanted : need->decoded))) {
            u->shared = true;
            return u;
        }
    return NULL;
}

bool stk__unit_lives_locked(const stk__units *units, const stk_need *need)
{
    return find_locked(units, need) != NULL;
}

bool stk__unit_join_locked(stk__units *units, stk__need_entry *entry, bool *waits)
{
    stk__unit *unit = find_locked(units, &entry->need);

    if (!unit)
        return false;
    unit->references++;
    tie(unit, entry);
    *waits = !unit->arrived;
    if (*waits)
        stk__unit_wait(unit, entry);
    else
        widen(unit, &entry->need, entry->step->serial);
    return true;
}

stk_status stk__unit_from_memory(stk__units *units, stk__need_entry *entry, const void *blob,
                                 uint64_t size, bool cached)
{
    stk__bundle *bundle = stk__bundle_new(units);

    if (!bundle)
        return STK_ENOMEM;
    stk__unit *unit = stk__unit_new(bundle, &entry->need, blob, entry->step->serial);
    if (!unit) {
        stk__bundle_free(bundle);
        return STK_ENOMEM;
    }
    unit->came = size;
    atomic_store(&unit->cached, cached);
    entry->next = NULL;
    stk__unit_wait(unit, entry);
    pthread_mutex_lock(&units->ring->lock);
    stk__bundle_publish_locked(bundle);
    if (stk__unit_read_locked(unit, STK_OK))
        pthread_cond_signal(&units->ring->work);
    pthread_mutex_unlock(&units->ring->lock);
    return STK_OK;
}

void stk__units_count_locked(stk__units *units, const stk_need *need, uint32_t rows)
{
    units->needed_bytes += need->length * rows;
    units->chunks_needed += need->decoded ? rows : 0;
}

uint64_t stk__unit_ready_ns(const stk__unit *unit)
{
    return STK_MAX(unit->bundle->range.transfer.ended_ns, unit->decoded_ns);
}

void stk__unit_keep(const stk__units *units, stk__unit *unit, const stk_slice *bytes)
{
    if (units->keeping->cache && !atomic_exchange(&unit->cached, true))
        stk__cache_put(units->keeping->cache, unit->object, unit->offset, bytes, !unit->absent);
}

/* ---- The end of a unit ---- */

/* The unit leaves the table, and its bundle when it was the last of it. (L) held. */
static void retire_locked(stk__unit *unit, stk__spent *spent)
{
    stk__unit_hide_locked(unit);
    stk__spend(spent, unit->decoded);
    unit->decoded = NULL;
    if (--unit->bundle->live_units == 0) {
        unit->bundle->next = spent->bundles;
        spent->bundles = unit->bundle;
    }
}

/* Planning may fall behind the rows: how fast it is must not decide what is read or decoded again.
 */
static bool may_be_wanted_locked(const stk__units *units, const stk__unit *unit)
{
    const stk__steps *steps = units->steps;

    return steps->passed <= unit->last + steps->horizon &&
           (steps->passed < steps->located_end || steps->located_end < steps->limit ||
            units->ring->alone);
}

/* Keep a unit that no row uses any more, where one within the horizon may want it that is not
 * planned yet. (L) held. */
static bool idles_locked(stk__unit *unit)
{
    stk__units *units = unit->bundle->of;

    if (unit->idle)
        return true;
    if (!(unit->decoded_size || unit->shared) || unit->place || unit->status != STK_OK ||
        units->steps->draining || units->ring->full || !may_be_wanted_locked(units, unit))
        return false;
    unit->idle = true;
    unit->next_to_decode = units->idle;
    units->idle = unit;
    return true;
}

void stk__unit_unref_locked(stk__unit *unit, stk__spent *spent)
{
    if (--unit->references == 0 && !idles_locked(unit))
        retire_locked(unit, spent);
}

void stk__idle_reclaim_locked(stk__units *units, bool all, stk__spent *spent)
{
    stk__unit **at = &units->idle;

    for (stk__unit *unit; (unit = *at);) {
        const bool used = unit->references != 0;
        if (!used && !all && may_be_wanted_locked(units, unit)) {
            at = &unit->next_to_decode;
            continue;
        }
        *at = unit->next_to_decode;
        unit->idle = false;
        if (!used)
            retire_locked(unit, spent);
    }
}

/* ---- Arrival ---- */

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

/* How much of a unit a transfer brought, where its object may have ended. (L) held. */
static stk_status measure_locked(stk__unit *unit, const stk__transfer *t, stk_status status)
{
    const uint64_t before = unit->offset - t->offset;

    if (status != STK_OK || !t->up_to)
        return status;
    unit->came = STK_MIN(unit->length, t->got - STK_MIN(before, t->got));
    return unit->came < unit->length && !unit->up_to ? STK_ETRUNCATED : STK_OK;
}

static void alone_arrived_locked(stk__range *range, stk_status status)
{
    stk__unit *unit = ((stk__alone *)range)->unit;
    stk__transfer *whole = &unit->bundle->range.transfer;

    /* It was first tried with the others. */
    whole->sent_ns = range->transfer.sent_ns;
    whole->ended_ns = range->transfer.ended_ns;
    whole->transfer_share = range->transfer.transfer_share;
    status = measure_locked(unit, &range->transfer, status);
    if (stk__unit_read_locked(unit, status))
        stk__ring_work_locked(unit->bundle->of->ring);
}

bool stk__unit_read_alone_locked(stk__unit *unit)
{
    const stk__transfer *whole = &unit->bundle->range.transfer;

    if (!unit->alone)
        unit->alone = stk__alloc(unit->bundle->of->ctx, sizeof *unit->alone);
    if (!unit->alone)
        return false;
    *unit->alone = (stk__alone){
        .range = {.transfer = {.store = whole->store,
                               .key = whole->key,
                               .offset = unit->offset,
                               .length = unit->length,
                               .up_to = unit->up_to,
                               .data = (char *)whole->data + (unit->offset - whole->offset)},
                  .arrived_locked = alone_arrived_locked},
        .unit = unit};
    stk__reads_queue_first_locked(unit->bundle->of->reads, &unit->alone->range);
    return true;
}

/*
 * All reads of a bundle have ended. One that failed for good and served several ranges is taken
 * apart: how ranges were joined depends on timing, and which samples are bad must not.
 */
static void bundle_arrived_locked(stk__range *range, stk_status status)
{
    stk__bundle *bundle = (stk__bundle *)range;
    stk__units *units = bundle->of;
    const bool apart = status != STK_OK && stk_status_fault(status) == STK_FAULT_SAMPLE &&
                       bundle->units && bundle->units->next_in_bundle && !units->steps->draining;
    bool any = false;

    for (stk__unit *u = bundle->units; u; u = u->next_in_bundle)
        if (!apart)
            any = stk__unit_read_locked(u, measure_locked(u, &range->transfer, status)) || any;
        else if (!stk__unit_read_alone_locked(u))
            any = stk__unit_read_locked(u, STK_ENOMEM) || any;
    if (any)
        stk__ring_work_locked(units->ring);
}
