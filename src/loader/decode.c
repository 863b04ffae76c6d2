/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding what rows share. A unit whose need says `decoded` takes two buffers of the pool when its
 * read is sent, one for the bytes as they are read and one for what they become: so a unit that was
 * admitted can always be decoded. When its bytes have come it waits in a queue, those of the oldest
 * step first; a worker decodes it once, the bytes as they were read go, and the rows that waited
 * become ready. What one row alone needs is decoded in its place in the slab, where the dataset
 * says that it lies there as it is.
 */
#include "base/probe.h"
#include "loader/units.h"

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

bool stk__unit_read_locked(stk__unit *unit, stk_status status)
{
    stk__units *units = unit->bundle->of;

    if (status == STK_ENOENT && unit->optional) {
        unit->absent = true;
        status = STK_OK;
    }
    if (status != STK_OK || !unit->decoded_size || unit->absent || units->steps->draining)
        return stk__unit_arrived_locked(unit, status);
    queue_locked(units, unit);
    return true;
}

/* The field of the only row that needs the unit, in which it lies as it is; NULL: it has none, or a
 * transform moves it. (L) held. */
static const stk__column *home_locked(const stk__unit *unit)
{
    const stk__units *units = unit->bundle->of;
    const stk__need_entry *entry = unit->waiting;

    if (!entry || !entry->need.in_place || unit->shared || unit->references != 1 ||
        entry->need.field >= units->dataset->num_fields)
        return NULL;
    const stk__column *column = &units->ring->columns[entry->need.field];
    return column->pipeline || column->field.layout != STK_FIXED ||
                   entry->need.at > column->row_bytes ||
                   unit->decoded_size > column->row_bytes - entry->need.at
               ? NULL
               : column;
}

/* Decode it there. That lasts as long as the row, so no other row may find it. (L) held. */
static void place_locked(stk__unit *unit, const stk__column *home)
{
    const stk__need_entry *entry = unit->waiting;
    stk__row *row = &entry->step->rows[entry->row];

    unit->place = (char *)entry->step->slab->data[entry->need.field] +
                  entry->row * home->row_bytes + entry->need.at;
    row->slices[entry - row->needs] = stk__unit_slice(unit);
    stk__unit_hide_locked(unit);
}

/* The unit to be decoded next; one that is to be decoded in its slab waits for that. (L) held. */
static stk__unit *next_locked(const stk__units *units)
{
    stk__unit *unit = units->decode_first;

    /* Those behind it have none either. */
    return unit && home_locked(unit) && !unit->waiting->step->slab ? NULL : unit;
}

bool stk__decode_left_locked(const stk__units *units)
{
    return next_locked(units) != NULL;
}

void stk__decode_forget_locked(stk__units *units)
{
    units->decode_first = NULL;
}

stk__unit *stk__decode_take_locked(stk__units *units)
{
    stk__unit *unit = next_locked(units);

    if (!unit || units->steps->draining || unit->serial > stk__steps_ready_locked(units->steps))
        return NULL;
    units->decode_first = unit->next_to_decode;
    const stk__column *home = unit->place ? NULL : home_locked(unit);
    if (home)
        place_locked(unit, home);
    /* What several rows want, more will want soon. */
    if (unit->references > 1)
        unit->wanted = unit->decoded_size;
    unit->decoding = true;
    stk__steps_begin_locked(units->steps);
    return unit;
}

/* A checksum that does not match is read from the origin once more before it counts. (L) held. */
static bool read_again_locked(stk__unit *unit, stk_status status)
{
    const stk__bundle *bundle = unit->bundle;

    if (status != STK_ECHECKSUM || unit->read_again || !bundle->range.transfer.data ||
        bundle->of->steps->draining || !stk__unit_read_alone_locked(unit))
        return false;
    unit->read_again = true;
    unit->decoding = false;
    return true;
}

/* Offer a unit to the cache: as it was read, or as it is now. */
static void keep_decoded(stk__unit *unit)
{
    const stk__units *units = unit->bundle->of;
    const stk_slice read = {.data = unit->data, .size = unit->came}, now = stk__unit_slice(unit);

    stk__unit_keep(units, unit, units->keeping->encoded ? &read : &now);
}

void stk__decode_run(stk__unit *unit, uint32_t worker, void *state, stk__doing *doing)
{
    stk__units *units = unit->bundle->of;
    pthread_mutex_t *lock = &units->ring->lock;
    const stk_need need = {.struct_size = sizeof need,
                           .object = unit->object,
                           .offset = unit->offset,
                           .length = unit->came,
                           .decoded = unit->decoded_size,
                           .wanted = unit->wanted,
                           .optional = unit->optional,
                           .up_to = unit->up_to};
    stk__event event = {.kind = STK__EVENT_DECODE,
                        .worker = worker,
                        .start_ns = stk__now_ns(),
                        .loader = units->ring};
    const char *reason = NULL;
    stk__spent spent = {0};
    stk__call call;

    stk__doing_begin(doing, true, need.object, event.start_ns);
    stk__call_begin(&call, units->ring);
    event.status =
        units->dataset->ops->decode(units->dataset, &need, unit->data,
                                    unit->place ? unit->place : unit->decoded, state, &reason);
    stk__call_end(&call);
    event.status = stk__dataset_failure(event.status, &reason);
    if (event.status == STK_OK)
        keep_decoded(unit);
    event.end_ns = stk__stamp();
    event.bytes = need.wanted;
    stk__doing_end(doing);

    pthread_mutex_lock(lock);
    stk__bundle *bundle = unit->bundle;
    event.count = unit->references;
    units->chunks_decoded++;
    units->chunk_bytes += need.wanted;
    units->chunk_ns += event.end_ns - event.start_ns;
    if (read_again_locked(unit, event.status)) {
        pthread_mutex_unlock(lock);
        stk__reads_pump(units->reads);
        pthread_mutex_lock(lock);
        goto out;
    }
    if (bundle->raw_units && --bundle->raw_units == 0) {
        stk__spend(&spent, bundle->range.transfer.data);
        bundle->range.transfer.data = NULL;
    }
    unit->reason = reason;
    unit->decode_ns = event.start_ns;
    unit->decoded_ns = event.end_ns;
    bool any = stk__unit_arrived_locked(unit, event.status);
    if (spent.buffers) {
        pthread_mutex_unlock(lock);
        stk__spent_free(units, &spent);
        pthread_mutex_lock(lock);
    }
    if (any)
        pthread_cond_signal(&units->ring->work);
    pthread_mutex_unlock(lock);
    stk__emit(units->ctx, &event);
    pthread_mutex_lock(lock);
out:
    stk__steps_end_locked(units->steps);
}
