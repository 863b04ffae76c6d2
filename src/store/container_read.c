/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of files in a container. A read is cut into parts: runs of bytes of the object, each one
 * read of the store below. Of what is stored as it is the destination is the caller's; what is
 * packed is read into a buffer and unpacked into the destination, or, where less is wanted than one
 * run holds, beside it.
 *
 * A part whose file has not been looked at before begins with what lies in front of its run; where
 * that and the run are few bytes they are one read.
 */
#include "store/container_store.h"

#include "store/url.h"

#define SLACK     128                   /* bytes between a lead and its run, at a guess */
#define JOINED    (UINT64_C(64) << 10)  /* a lead and a run of so many bytes are read together */
#define PART_MOST (UINT64_C(1) << 20)   /* bytes of packed runs that are read together */
#define KEPT_ROOM (UINT64_C(256) << 10) /* of a buffer that stays for the next part */

enum { PART_RAW, PART_PACKED, PART_LEAD };

static void part_done(stk_read *inner, stk_status status);

/* ---- Readings and parts ---------------------------------------------------------------------- */

/* One that has ended, and that no thread looks at any more, leaves. */
static void leave_locked(stk__container_store *store, stk__container_reading *r)
{
    if (r->outer || r->pins)
        return;
    if (r->next)
        r->next->previous = r->previous;
    *(r->previous ? &r->previous->next : &store->under_way) = r->next;
    for (stk__container_part *part = r->parts, *next; part; part = next) {
        next = part->next;
        part->next = store->free_parts;
        store->free_parts = part;
    }
    r->parts = NULL;
    r->next = store->free_readings;
    store->free_readings = r;
    if (!store->under_way)
        pthread_cond_broadcast(&store->idle);
}

/* Make one known that submits: it has a pin and something pending. */
static stk__container_reading *begin(stk__container_store *store, stk_read *outer,
                                     const stk__container_entry *file, uint64_t length)
{
    pthread_mutex_lock(&store->mutex);
    stk__container_reading *r = store->free_readings;
    if (r)
        store->free_readings = r->next;
    pthread_mutex_unlock(&store->mutex);
    if (!r)
        r = stk__alloc(store->base.context, sizeof *r);
    if (!r)
        return NULL;
    *r = (stk__container_reading){.store = store,
                                  .outer = outer,
                                  .file = file,
                                  .offset = outer->offset,
                                  .length = length,
                                  .pending = 1,
                                  .pins = 1};
    pthread_mutex_lock(&store->mutex);
    r->next = store->under_way;
    if (r->next)
        r->next->previous = r;
    store->under_way = r;
    outer->driver[0] = r;
    pthread_mutex_unlock(&store->mutex);
    return r;
}

static stk__container_part *add_part(stk__container_reading *r, uint64_t from, uint64_t length)
{
    stk__container_store *store = r->store;

    pthread_mutex_lock(&store->mutex);
    stk__container_part *part = store->free_parts;
    if (part)
        store->free_parts = part->next;
    pthread_mutex_unlock(&store->mutex);
    if (!part)
        part = stk__calloc(store->base.context, 1, sizeof *part);
    if (!part)
        return NULL;
    part->reading = r;
    part->from = from;
    part->length = length;
    part->running = part->submitted = part->asked = false;
    pthread_mutex_lock(&store->mutex);
    part->next = r->parts;
    r->parts = part;
    r->pending++;
    pthread_mutex_unlock(&store->mutex);
    return part;
}

/* A file that was read whole has its sum, also where nothing was unpacked. */
static stk_status check_whole(const stk__container_reading *r)
{
    const stk__container *c = r->store->container;
    stk__container_run e;

    if (r->offset || r->length != r->file->length || !r->length ||
        stk__container_find_run(c, r->file, 0, &e) != STK_OK || !e.raw || !e.has_sum ||
        e.length != r->length || stk__crc32(r->outer->data, r->length) == e.sum)
        return STK_OK;
    stk__message(r->store->base.context, STK_MESSAGE_WARNING,
                 "'%s' in the %s '%s': its checksum does not match its bytes; copy or download the "
                 "archive again",
                 stk__container_path(c, r->file), c->format->word, c->url);
    return STK_ECHECKSUM;
}

/* One part, or who submitted, has ended: the last one tells. */
static void end_one(stk__container_reading *r, stk_status status, int32_t system_error)
{
    stk__container_store *store = r->store;

    pthread_mutex_lock(&store->mutex);
    if (status != STK_OK && r->status == STK_OK) {
        r->status = status;
        r->system_error = system_error;
    }
    const bool last = --r->pending == 0;
    if (last)
        r->outer->driver[0] = NULL;
    pthread_mutex_unlock(&store->mutex);
    if (!last)
        return;
    stk_read *outer = r->outer;
    status = r->status;
    if (status == STK_OK)
        status = check_whole(r);
    outer->system_error = r->system_error;
    if (outer->up_to)
        outer->got = r->length;
    outer->done(outer, status);
    pthread_mutex_lock(&store->mutex);
    r->outer = NULL;
    leave_locked(store, r);
    pthread_mutex_unlock(&store->mutex);
}

static void unpin(stk__container_reading *r)
{
    stk__container_store *store = r->store;

    pthread_mutex_lock(&store->mutex);
    r->pins--;
    leave_locked(store, r);
    pthread_mutex_unlock(&store->mutex);
}

/* ---- Canceling ------------------------------------------------------------------------------- */

/* Ask the store below to cancel what it has of a reading that is pinned. */
static void cancel_parts(stk__container_reading *r)
{
    stk__container_store *store = r->store;

    pthread_mutex_lock(&store->mutex);
    /* Parts are added in front, and none leaves while there is a pin. */
    for (stk__container_part *part = r->parts; part; part = part->next) {
        if (!part->running || !part->submitted || part->asked)
            continue;
        part->asked = true;
        pthread_mutex_unlock(&store->mutex);
        store->inner->ops->cancel(store->inner, &part->inner);
        pthread_mutex_lock(&store->mutex);
    }
    pthread_mutex_unlock(&store->mutex);
}

void stk__container_cancel(stk_store *base, stk_read *read)
{
    stk__container_store *store = (stk__container_store *)base;

    pthread_mutex_lock(&store->mutex);
    stk__container_reading *r = read->driver[0];
    if (r) {
        r->stop = true;
        r->pins++;
    }
    pthread_mutex_unlock(&store->mutex);
    if (!r)
        return;
    cancel_parts(r);
    unpin(r);
}

/* ---- Sending --------------------------------------------------------------------------------- */

/* Room for `size` bytes in the buffer of a part; NULL: no memory. */
static uint8_t *find_room(stk__container_part *part, uint64_t size)
{
    stk_context *ctx = part->reading->store->base.context;

    if (size <= part->room)
        return part->buffer;
    stk__free(ctx, part->buffer);
    part->room = 0;
    part->buffer = size <= stk__memory_left(ctx) ? stk__alloc_buffer(ctx, size) : NULL;
    if (part->buffer)
        part->room = size;
    return part->buffer;
}

static void leave_room(stk__container_part *part)
{
    if (part->room <= KEPT_ROOM)
        return;
    stk__free(part->reading->store->base.context, part->buffer);
    part->buffer = NULL;
    part->room = 0;
}

/* Where the bytes of a file from `from` on go. */
static char *place_of(const stk__container_reading *r, uint64_t from)
{
    return (char *)r->outer->data + (from - r->offset);
}

/* What is read for a part whose first run is `e`, and where to. */
static stk_status aim(stk__container_part *part, const stk__container_run *e)
{
    stk__container_store *store = part->reading->store;
    const stk__container *c = store->container;
    const uint64_t joined = STK_MAX(JOINED, store->limits.coalesce_gap);
    uint64_t length = 0;

    part->at = e->at;
    if (e->lead) {
        const uint64_t wanted = e->raw ? e->skip + part->length : e->stored;
        length = e->lead;
        if (wanted <= joined - SLACK)
            length += SLACK + wanted;
        length = STK_MIN(length, c->size - e->at);
        part->kind = PART_LEAD;
    } else if (e->raw) {
        part->kind = PART_RAW;
        part->at += e->skip;
        part->inner.data = place_of(part->reading, part->from);
        part->inner.length = part->length;
    } else {
        part->kind = PART_PACKED;
        stk__container_run next = *e;
        for (uint64_t done = next.length; done < part->length; done += next.length)
            STK_TRY(stk__container_find_run(c, part->reading->file, part->from + done, &next));
        length = next.at + next.stored - e->at;
    }
    if (part->kind != PART_RAW) {
        part->inner.length = length;
        part->inner.data = find_room(part, length);
        if (!part->inner.data)
            return STK_ENOMEM;
    }
    part->inner.offset = part->at;
    return STK_OK;
}

/* Send the read of a part. Ends by part_done(), or on failure not. */
static stk_status submit_part(stk__container_part *part)
{
    stk__container_reading *r = part->reading;
    stk__container_store *store = r->store;
    stk__container_run e;

    part->inner = (stk_read){.struct_size = sizeof part->inner,
                             .key = store->key,
                             .deadline_ns = r->outer->deadline_ns,
                             .needed_next = r->outer->needed_next,
                             .done = part_done};
    STK_TRY(stk__container_find_run(store->container, r->file, part->from, &e));
    STK_TRY(aim(part, &e));
    pthread_mutex_lock(&store->mutex);
    const bool stop = r->stop;
    part->running = !stop;
    part->submitted = part->asked = false;
    r->pins += !stop;
    pthread_mutex_unlock(&store->mutex);
    if (stop)
        return STK_ECANCELED;
    const stk_status status = store->inner->ops->submit(store->inner, &part->inner);
    pthread_mutex_lock(&store->mutex);
    part->submitted = status == STK_OK;
    part->running = part->running && part->submitted;
    const bool ask = r->stop && part->running;
    pthread_mutex_unlock(&store->mutex);
    if (ask)
        cancel_parts(r);
    unpin(r);
    return status;
}

/* Read bytes of a file that one read brings. On failure nothing is pending. */
static stk_status send(stk__container_reading *r, uint64_t from, uint64_t length)
{
    stk__container_part *part = add_part(r, from, length);

    if (!part)
        return STK_ENOMEM;
    const stk_status status = submit_part(part);
    if (status == STK_OK)
        return STK_OK;
    /* Who sends has something pending itself: this is not the last. */
    pthread_mutex_lock(&r->store->mutex);
    r->pending--;
    pthread_mutex_unlock(&r->store->mutex);
    return status;
}

/* ---- What has been read ---------------------------------------------------------------------- */

static stk__codec_state *take_state(stk__container_store *store)
{
    stk__codec_state *state = NULL;

    pthread_mutex_lock(&store->mutex);
    if (store->num_states)
        state = store->states[--store->num_states];
    pthread_mutex_unlock(&store->mutex);
    if (!state && stk__codec_state_create(store->base.context, &state, NULL) != STK_OK)
        return NULL;
    return state;
}

static void give_state(stk__container_store *store, stk__codec_state *state)
{
    pthread_mutex_lock(&store->mutex);
    if (store->num_states < STK_COUNT(store->states)) {
        store->states[store->num_states++] = state;
        state = NULL;
    }
    pthread_mutex_unlock(&store->mutex);
    stk__codec_state_destroy(&state);
}

/* Unpack one run into `out`, which has room for all of it. */
static stk_status decode(stk__container_store *store, stk__codec_state *state,
                         const stk__container_run *e, const void *stored, void *out,
                         const char **reason)
{
    const stk__container *c = store->container;

    STK_TRY(c->format->decode(c, c->tables, state, e, stored, out, reason));
    if (!e->has_sum || stk__crc32(out, e->decoded) == e->sum)
        return STK_OK;
    *reason = "its checksum does not match its bytes; copy or download the archive again";
    return STK_ECHECKSUM;
}

/* The bytes [from, from + length) of a run, straight into place or beside it. */
static stk_status unpack_one(stk__container_part *part, stk__codec_state *state,
                             const stk__container_run *e, const uint8_t *stored, uint64_t from,
                             const char **reason)
{
    stk__container_store *store = part->reading->store;
    stk_context *ctx = store->base.context;
    char *to = place_of(part->reading, from);

    if (e->length == e->decoded)
        return decode(store, state, e, stored, to, reason);
    *reason = "it is packed, larger than unpacked_cache, and read in parts; make unpacked_cache "
              "larger, or store it unpacked";
    if (e->decoded > store->options.unpacked_cache || e->decoded > stk__memory_left(ctx))
        return STK_ELIMIT;
    uint8_t *all = stk__alloc_buffer(ctx, e->decoded);
    if (!all)
        return STK_ENOMEM;
    const stk_status status = decode(store, state, e, stored, all, reason);
    if (status == STK_OK)
        memcpy(to, all + e->skip, e->length);
    stk__free(ctx, all);
    return status;
}

static stk_status unpack(stk__container_part *part, const uint8_t *stored, const char **reason)
{
    stk__container_reading *r = part->reading;
    stk__codec_state *state = take_state(r->store);
    stk_status status = state ? STK_OK : STK_ENOMEM;
    stk__container_run e;

    for (uint64_t done = 0; done < part->length && status == STK_OK; done += e.length) {
        status = stk__container_find_run(r->store->container, r->file, part->from + done, &e);
        e.length = STK_MIN(e.length, part->length - done);
        if (status == STK_OK)
            status =
                unpack_one(part, state, &e, stored + (e.at - part->at), part->from + done, reason);
    }
    if (state)
        give_state(r->store, state);
    return status;
}

/* What lies in front of a file is there: take what came along, or read the file itself. */
static stk_status use_lead(stk__container_part *part, const char **reason)
{
    stk__container_reading *r = part->reading;
    stk__container *c = r->store->container;
    const uint64_t end = part->inner.offset + part->inner.length;
    const uint8_t *bytes = part->buffer;
    stk__container_run e;

    STK_TRY(c->format->settle(c, c->tables, r->file, bytes, reason));
    STK_TRY(stk__container_find_run(c, r->file, part->from, &e));
    if (e.lead || e.at < part->at)
        return STK_EFORMAT;
    if (e.raw && e.at + e.skip + part->length <= end) {
        memcpy(place_of(r, part->from), bytes + (e.at - part->at) + e.skip, part->length);
        return STK_OK;
    }
    if (!e.raw && e.at + e.stored <= end)
        return unpack(part, bytes, reason);
    return send(r, part->from, part->length);
}

static stk_status use(stk__container_part *part)
{
    const stk__container *c = part->reading->store->container;
    stk_context *ctx = part->reading->store->base.context;
    const char *reason = NULL;
    stk_status status = STK_OK;

    if (part->kind == PART_PACKED)
        status = unpack(part, part->buffer, &reason);
    else if (part->kind == PART_LEAD)
        status = use_lead(part, &reason);
    if (status < 0 && reason)
        stk__message(ctx, STK_MESSAGE_WARNING, "'%s' in the %s '%s': %s",
                     stk__container_path(c, part->reading->file), c->format->word, c->url, reason);
    return status;
}

static void part_done(stk_read *inner, stk_status status)
{
    stk__container_part *part = (stk__container_part *)inner;
    stk__container_reading *r = part->reading;
    const int32_t system_error = inner->system_error;

    pthread_mutex_lock(&r->store->mutex);
    part->running = false;
    const bool stop = r->stop;
    pthread_mutex_unlock(&r->store->mutex);
    if (status == STK_OK && part->kind != PART_RAW)
        status = stop ? STK_ECANCELED : use(part);
    if (part->kind != PART_RAW)
        leave_room(part);
    end_one(r, status, system_error);
}

/* ---- Submitting ------------------------------------------------------------------------------ */

/* The length of the part that begins at `from`: as much as one read of the object brings. */
static uint64_t part_length(const stk__container_reading *r, uint64_t from,
                            const stk__container_run *e)
{
    const stk__container_store *store = r->store;
    const uint64_t most = e->raw ? store->limits.max_read : PART_MOST, end = r->offset + r->length;
    uint64_t length = STK_MIN(e->length, end - from), stored = e->stored;
    stk__container_run next, last = *e;

    if (e->raw && most && length > most)
        return most;
    while (!e->lead && from + length < end) {
        if (stk__container_find_run(store->container, r->file, from + length, &next) != STK_OK ||
            next.lead || !next.stored || next.raw != e->raw || next.skip ||
            next.at != last.at + last.stored || (most && stored + next.stored > most))
            break;
        stored += next.stored;
        length = STK_MIN(length + next.length, end - from);
        last = next;
    }
    return length;
}

static stk_status submit_parts(stk__container_reading *r)
{
    const uint64_t end = r->offset + r->length;
    stk__container_run e;

    for (uint64_t from = r->offset, length; from < end; from += length) {
        STK_TRY(stk__container_find_run(r->store->container, r->file, from, &e));
        if (!e.stored) {
            length = STK_MIN(e.length, end - from);
            memset(place_of(r, from), 0, length);
            continue;
        }
        length = part_length(r, from, &e);
        STK_TRY(send(r, from, length));
    }
    return STK_OK;
}

/* The file of a read, and how many bytes of it there are. */
static stk_status find_file(const stk__container_store *store, const stk_read *read,
                            const stk__container_entry **file, uint64_t *length)
{
    char path[STK_MAX_OBJECT_KEY];
    uint64_t end;

    if (!stk__add_size(read->offset, read->length, &end) ||
        stk__container_path_of(store, read->key, path, NULL) != STK_OK)
        return STK_EINVAL;
    *file = stk__container_find(store->container, path);
    if (!*file)
        return stk__container_is_folder(store->container, path) ? STK_EKIND : STK_ENOENT;
    if ((*file)->is != STK__CONTAINED_FILE)
        return STK_EKIND;
    *length = STK_MIN(read->length, (*file)->length - STK_MIN(read->offset, (*file)->length));
    return *length < read->length && !read->up_to ? STK_ETRUNCATED : STK_OK;
}

stk_status stk__container_submit(stk_store *base, stk_read *read)
{
    stk__container_store *store = (stk__container_store *)base;
    const stk__container_entry *file;
    uint64_t length = 0;

    read->system_error = 0;
    stk_status status = find_file(store, read, &file, &length);
    if (status == STK_EINVAL)
        return status;
    if (status != STK_OK || !length) {
        if (read->up_to)
            read->got = length;
        read->done(read, status);
        return STK_OK;
    }
    stk__container_reading *r = begin(store, read, file, length);
    if (!r)
        return STK_ENOMEM;
    status = submit_parts(r);
    end_one(r, status, 0);
    unpin(r);
    return STK_OK;
}

void stk__container_reads_end(stk__container_store *store)
{
    stk_context *ctx = store->base.context;

    pthread_mutex_lock(&store->mutex);
    for (stk__container_reading *r = store->under_way; r;) {
        if (r->stop || !r->pending) {
            r = r->next;
            continue;
        }
        r->stop = true;
        r->pins++;
        pthread_mutex_unlock(&store->mutex);
        cancel_parts(r);
        unpin(r);
        pthread_mutex_lock(&store->mutex);
        r = store->under_way;
    }
    while (store->under_way)
        pthread_cond_wait(&store->idle, &store->mutex);
    pthread_mutex_unlock(&store->mutex);
    for (stk__container_reading *r = store->free_readings, *next; r; r = next) {
        next = r->next;
        stk__free(ctx, r);
    }
    for (stk__container_part *part = store->free_parts, *next; part; part = next) {
        next = part->next;
        stk__free(ctx, part->buffer);
        stk__free(ctx, part);
    }
    for (uint32_t i = 0; i < store->num_states; i++)
        stk__codec_state_destroy(&store->states[i]);
}
