/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding what rows share. A unit whose need says `decoded` takes two buffers of the pool when its
 * read is sent, one for the bytes as they are read and one for what they become: so a unit that was
 * admitted can always be decoded. When its bytes have come it waits in a queue, those of the oldest
 * step first; a worker decodes it once, the bytes as they were read go, and the rows that waited
 * become ready. What one row alone needs is decoded in its place in the slab, where the dataset
 * says that it lies there as it is.
 */
#include "loader/loader.h"

bool stk__caches_samples(const stk_loader *loader)
{
    return loader->cache && loader->options.cache == STK_CACHE_DECODED &&
           !loader->dataset->ops->decode;
}

/* ---- The cache ---- */

bool stk__need_kept(const stk_loader *loader, uint64_t decoded)
{
    if (!loader->cache)
        return false;
    return loader->options.cache == STK_CACHE_ENCODED ? !decoded
                                                      : loader->dataset->ops->decode != NULL;
}

bool stk__need_cached(stk_loader *loader, const stk_need *need, stk_slice *slice)
{
    uint64_t size;

    if (need->length == 0)
        return true;
    if (!stk__need_kept(loader, need->decoded))
        return false;
    const void *blob = stk__cache_get(loader->cache, need->object, need->offset, &size);
    if (blob && size == 0 && need->optional) {
        *slice = (stk_slice){.data = NULL, .size = 0};
        return true;
    }
    /* What begins there may be longer. */
    const uint64_t wanted = need->decoded ? need->decoded : need->length;
    if (!blob || size < wanted)
        return false;
    *slice = (stk_slice){.data = blob, .size = wanted};
    return true;
}

/* The bytes of a need that has to be decoded, as they were read; NULL: not in the cache. */
static const void *cached_bytes(stk_loader *loader, const stk_need *need)
{
    uint64_t size;

    if (!need->decoded || !loader->cache || loader->options.cache != STK_CACHE_ENCODED)
        return NULL;
    const void *blob = stk__cache_get(loader->cache, need->object, need->offset, &size);
    return blob && size == need->length ? blob : NULL;
}

static void keep_unit(stk_loader *loader, stk__unit *unit)
{
    stk_slice bytes = {.data = unit->data, .size = unit->length};

    if (!loader->cache || atomic_exchange(&unit->cached, true))
        return;
    if (loader->options.cache == STK_CACHE_DECODED)
        bytes = stk__unit_slice(unit);
    stk__cache_put(loader->cache, unit->object, unit->offset, &bytes, 1);
}

/* ---- Planning ---- */

/* What a read of `length` bytes may take of the pool, alone or joined with others. */
static uint64_t read_cost(uint64_t length)
{
    return length > INT64_MAX / 4 ? UINT64_MAX / 4 : length + length / 4 + 5 * STK_CACHE_LINE;
}

uint64_t stk__need_most(const stk_need *need)
{
    if (need->length == 0)
        return 0;
    return read_cost(need->length) + (need->decoded ? stk__pool_cost(need->decoded) : 0);
}

uint64_t stk__need_cost(stk_loader *loader, const stk_need *need)
{
    uint64_t read = cached_bytes(loader, need) ? 0 : read_cost(need->length);

    return read + (need->decoded ? stk__pool_cost(need->decoded) : 0);
}

static uint32_t place_of(const stk_need *need)
{
    uint64_t h = (need->object * UINT64_C(0x9E3779B97F4A7C15)) ^
                 (need->offset * UINT64_C(0xBF58476D1CE4E5B9));

    return (uint32_t)(h >> 29);
}

stk_status stk__round_grow(stk_loader *loader)
{
    stk__planner *p = &loader->planner;
    uint32_t room = 1024;

    while (room < 2 * p->room)
        room *= 2;
    if (room <= p->seen_room)
        return STK_OK;
    uint32_t *seen = stk__realloc(loader->ctx, p->seen, room * sizeof *seen);
    if (!seen)
        return STK_ENOMEM;
    memset(seen, 0xff, room * sizeof *seen);
    p->seen = seen;
    p->seen_room = room;
    return STK_OK;
}

/* The table is as good as empty once the round's wants are sent: a want it names has to be the
 * same. */
bool stk__round_shares(stk_loader *loader, const stk_need *need)
{
    const stk__planner *p = &loader->planner;

    if (!need->decoded || !p->seen_room || !p->num_wants)
        return false;
    uint32_t want = p->seen[place_of(need) & (p->seen_room - 1)];
    return want < p->num_wants && p->wants[want].object == need->object &&
           p->wants[want].offset == need->offset && p->wants[want].length == need->length;
}

void stk__round_add(stk_loader *loader, uint32_t want)
{
    stk__planner *p = &loader->planner;

    if (p->entries[want]->need.decoded && p->seen_room)
        p->seen[place_of(&p->entries[want]->need) & (p->seen_room - 1)] = want;
}

stk_status stk__unit_set_need(stk_loader *loader, stk__unit *unit, const stk_need *need,
                              uint64_t serial)
{
    unit->serial = serial;
    unit->optional = need->optional;
    unit->decoded_size = need->decoded;
    if (!need->decoded)
        return STK_OK;
    unit->decoded = stk__pool_take(&loader->ring->pool, need->decoded);
    return unit->decoded ? STK_OK : STK_ENOMEM;
}

void stk__unit_widen(stk_loader *loader, stk__unit *unit, const stk_need *need, uint64_t serial)
{
    uint64_t wanted = need->wanted ? need->wanted : need->decoded;

    unit->last = STK_MAX(unit->last, serial);
    if (unit->decoding)
        return;
    /* Neighbours will want the rest, and a cache all of it. */
    if (loader->options.shuffle != STK_SHUFFLE_FULL ||
        (loader->cache && loader->options.cache == STK_CACHE_DECODED))
        wanted = need->decoded;
    unit->wanted = STK_MAX(unit->wanted, wanted);
}

/* ---- Units without a row ---- */

/* Planning may fall behind the rows: how fast it is must not decide what is read or decoded again.
 */
static bool may_be_wanted_locked(const stk_loader *loader, const stk__unit *unit)
{
    const uint64_t passed = loader->planner.passed;

    return passed <= unit->last + loader->horizon &&
           (passed < loader->located_end || loader->located_end < loader->plan_limit);
}

bool stk__unit_idles_locked(stk_loader *loader, stk__unit *unit)
{
    if (unit->idle)
        return true;
    if (!(unit->decoded_size || unit->shared) || unit->place || unit->status != STK_OK ||
        loader->draining || loader->planner.blocked || !may_be_wanted_locked(loader, unit))
        return false;
    unit->idle = true;
    unit->next_to_decode = loader->units.idle;
    loader->units.idle = unit;
    return true;
}

void stk__idle_reclaim_locked(stk_loader *loader, bool all, stk__spent *spent)
{
    stk__unit **at = &loader->units.idle;

    for (stk__unit *unit; (unit = *at);) {
        const bool used = unit->references != 0;
        if (!used && !all && may_be_wanted_locked(loader, unit)) {
            at = &unit->next_to_decode;
            continue;
        }
        *at = unit->next_to_decode;
        unit->idle = false;
        if (!used)
            stk__unit_retire_locked(&loader->units, unit, spent);
    }
}

/* ---- Bytes that are in the cache ---- */

/* One want from the cache: a fetch that reads nothing. */
static stk_status take_from_cache(stk_loader *loader, stk__need_entry *entry, const void *blob)
{
    const stk_need *need = &entry->need;
    stk__bundle *bundle = stk__bundle_new(loader);
    stk__unit *unit = bundle ? stk__unit_new(loader) : NULL;
    stk_status status = STK_ENOMEM;

    if (bundle)
        bundle->units = unit;
    if (unit) {
        unit->object = need->object;
        unit->offset = need->offset;
        unit->length = need->length;
        unit->data = blob;
        unit->bundle = bundle;
        atomic_store(&unit->cached, true);
        status = stk__unit_set_need(loader, unit, need, entry->step->serial);
    }
    if (status != STK_OK) {
        if (bundle)
            stk__bundle_free(loader, bundle);
        return status;
    }
    bundle->live_units = 1;
    unit->references = 1;
    stk__unit_widen(loader, unit, need, entry->step->serial);
    entry->unit = unit;
    entry->next = NULL;
    unit->waiting = entry;
    pthread_mutex_lock(&loader->ring->lock);
    stk__row *row = &entry->step->rows[entry->row];
    row->slices[entry - row->needs] = stk__unit_slice(unit);
    stk__unit_publish_locked(&loader->units, unit);
    if (stk__unit_read_locked(loader, unit, STK_OK))
        pthread_cond_signal(&loader->ring->work);
    pthread_mutex_unlock(&loader->ring->lock);
    return STK_OK;
}

/* Tie a want to a unit that an earlier want of the round made. */
static bool join_live(stk_loader *loader, stk__need_entry *entry)
{
    pthread_mutex_lock(&loader->ring->lock);
    stk__unit *unit = stk__unit_find_locked(&loader->units, &entry->need);
    if (unit) {
        stk__row *row = &entry->step->rows[entry->row];
        stk__unit_widen(loader, unit, &entry->need, entry->step->serial);
        entry->unit = unit;
        row->slices[entry - row->needs] = stk__unit_slice(unit);
        if (!unit->arrived) {
            entry->next = unit->waiting;
            unit->waiting = entry;
        } else if (--row->pending == 0) {
            stk__row_ready_locked(entry->step, entry->row);
        }
    }
    pthread_mutex_unlock(&loader->ring->lock);
    return unit != NULL;
}

void stk__round_from_cache(stk_loader *loader)
{
    stk__planner *p = &loader->planner;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < p->num_wants; i++) {
        stk__need_entry *entry = p->entries[i];
        const void *blob = cached_bytes(loader, &entry->need);
        /* Without memory for the record it is read like any other, which then fails by name. */
        if (blob && (join_live(loader, entry) || take_from_cache(loader, entry, blob) == STK_OK))
            continue;
        p->entries[kept] = entry;
        p->wants[kept] = p->wants[i];
        p->wants[kept].tag = kept;
        kept++;
    }
    p->num_wants = kept;
}

/* ---- Decoding ---- */

/* Behind those of the same step, before those of later ones. */
static void queue_locked(stk__units *units, stk__unit *unit)
{
    stk__unit **at = &units->decode_first;

    if (*at && units->decode_last->serial <= unit->serial)
        at = &units->decode_last->next_to_decode;
    while (*at && (*at)->serial <= unit->serial)
        at = &(*at)->next_to_decode;
    unit->next_to_decode = *at;
    *at = unit;
    if (!unit->next_to_decode)
        units->decode_last = unit;
}

bool stk__unit_read_locked(stk_loader *loader, stk__unit *unit, stk_status status)
{
    if (status == STK_ENOENT && unit->optional) {
        unit->absent = true;
        status = STK_OK;
    }
    if (status != STK_OK || !unit->decoded_size || unit->absent || loader->draining)
        return stk__unit_arrived_locked(unit, status);
    queue_locked(&loader->units, unit);
    return true;
}

/* The oldest step with rows that are ready. */
static uint64_t first_ready_locked(stk_loader *loader)
{
    for (uint64_t serial = loader->first; serial < loader->slab_end; serial++)
        if (stk__step_at(loader, serial)->num_ready)
            return serial;
    return UINT64_MAX;
}

/* The field of the only row that needs the unit, in which it lies as it is; NULL: it has none, or a
 * transform moves it. (L) held. */
static const stk__column *home_locked(const stk_loader *loader, const stk__unit *unit)
{
    const stk__need_entry *entry = unit->waiting;

    if (!entry || !entry->need.in_place || unit->shared || unit->references != 1 ||
        entry->need.field >= loader->dataset->num_fields)
        return NULL;
    const stk__column *column = &loader->ring->columns[entry->need.field];
    return column->pipeline || column->field.layout != STK_FIXED ||
                   entry->need.at > column->row_bytes ||
                   unit->decoded_size > column->row_bytes - entry->need.at
               ? NULL
               : column;
}

/* Decode it there. That lasts as long as the row, so no other row may find it. (L) held. */
static void place_locked(stk_loader *loader, stk__unit *unit, const stk__column *home)
{
    const stk__need_entry *entry = unit->waiting;
    stk__row *row = &entry->step->rows[entry->row];

    unit->place = (char *)entry->step->slab->data[entry->need.field] +
                  entry->row * home->row_bytes + entry->need.at;
    row->slices[entry - row->needs] = stk__unit_slice(unit);
    stk__unit_hide_locked(&loader->units, unit);
}

stk__unit *stk__decode_next_locked(const stk_loader *loader)
{
    stk__unit *unit = loader->units.decode_first;

    /* Those behind it have none either. */
    return unit && home_locked(loader, unit) && !unit->waiting->step->slab ? NULL : unit;
}

stk__unit *stk__decode_take_locked(stk_loader *loader)
{
    stk__unit *unit = stk__decode_next_locked(loader);

    if (!unit || loader->draining || unit->serial > first_ready_locked(loader))
        return NULL;
    loader->units.decode_first = unit->next_to_decode;
    const stk__column *home = unit->place ? NULL : home_locked(loader, unit);
    if (home)
        place_locked(loader, unit, home);
    /* What several rows want, more will want soon. */
    if (unit->references > 1)
        unit->wanted = unit->decoded_size;
    unit->decoding = true;
    loader->tasks++;
    return unit;
}

/* A checksum that does not match is told by the origin once more before it counts. (L) held. */
static bool read_again_locked(stk_loader *loader, stk__unit *unit, stk_status status)
{
    if (status != STK_ECHECKSUM || unit->read_again || !unit->bundle->range.data ||
        loader->draining || !stk__unit_read_alone_locked(loader, unit))
        return false;
    unit->read_again = true;
    unit->decoding = false;
    return true;
}

void stk__decode_run(stk_loader *loader, stk__worker *worker, stk__unit *unit)
{
    const stk_need need = {.object = unit->object,
                           .offset = unit->offset,
                           .length = unit->length,
                           .decoded = unit->decoded_size,
                           .wanted = unit->wanted,
                           .optional = unit->optional};
    stk__event event = {
        .kind = STK__EVENT_DECODE, .worker = worker->number, .start_ns = stk__now_ns()};
    const char *reason = NULL;
    stk__spent spent = {0};

    stk__call call;

    atomic_store_explicit(&worker->decodes, true, memory_order_relaxed);
    atomic_store_explicit(&worker->sample, need.object, memory_order_relaxed);
    atomic_store_explicit(&worker->since_ns, event.start_ns, memory_order_relaxed);
    stk__call_begin(&call, loader);
    event.status = loader->dataset->ops->decode(loader->dataset, &need, unit->data,
                                                unit->place ? unit->place : unit->decoded, &reason);
    stk__call_end(&call);
    event.status = stk__dataset_failure(event.status, &reason);
    if (event.status == STK_OK)
        keep_unit(loader, unit);
    event.end_ns = stk__stamp();
    event.bytes = need.wanted;
    atomic_store_explicit(&worker->since_ns, 0, memory_order_relaxed);

    pthread_mutex_lock(&loader->ring->lock);
    stk__units *units = &loader->units;
    stk__bundle *bundle = unit->bundle;
    event.count = unit->references;
    units->chunks_decoded++;
    units->chunk_bytes += need.wanted;
    units->chunk_ns += event.end_ns - event.start_ns;
    if (read_again_locked(loader, unit, event.status)) {
        pthread_mutex_unlock(&loader->ring->lock);
        stk__reads_pump(&loader->reads);
        pthread_mutex_lock(&loader->ring->lock);
        goto out;
    }
    if (bundle->raw_units && --bundle->raw_units == 0) {
        stk__spend(&spent, bundle->range.data);
        bundle->range.data = NULL;
    }
    unit->reason = reason;
    unit->decode_ns = event.start_ns;
    unit->decoded_ns = event.end_ns;
    bool any = stk__unit_arrived_locked(unit, event.status);
    if (spent.buffers) {
        pthread_mutex_unlock(&loader->ring->lock);
        stk__spent_free(loader, &spent);
        pthread_mutex_lock(&loader->ring->lock);
    }
    if (any)
        pthread_cond_signal(&loader->ring->work);
    pthread_mutex_unlock(&loader->ring->lock);
    stk__emit(loader->ctx, &event);
    pthread_mutex_lock(&loader->ring->lock);
out:
    loader->tasks--;
    if (loader->draining)
        pthread_cond_broadcast(&loader->ring->finished);
}
