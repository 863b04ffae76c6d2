/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of files in a container. A read is cut into parts: runs of bytes of the object, each one
 * read of the store below. Of what is stored as it is the destination is the caller's; what is
 * packed is read into a buffer and unpacked into the destination (container_unpack.c), or, where
 * less is wanted than one run holds, beside it (container_cache.c).
 *
 * A part whose file has not been looked at before begins with what lies in front of its run; where
 * that and the run are few bytes they are one read.
 */
#include "store/container_store.h"

#include <time.h>

#include "store/url.h"

#define SLACK       128                   /* bytes between a lead and its run, at a guess */
#define JOINED      (UINT64_C(64) << 10)  /* a lead and a run of so many bytes are read together */
#define PART_MOST   (UINT64_C(1) << 20)   /* bytes of packed runs that are read together */
#define KEPT_ROOM   (UINT64_C(256) << 10) /* of a buffer that stays for the next part */
#define NOW_MOST    65536                /* bytes copied within submit() where they are in memory */
#define FAR_GAP     (UINT64_C(1) << 16)  /* a coalesce_gap of storage on another machine */
#define EVERY_NS    UINT64_C(100000000)  /* from look to look at the object */
#define PATIENCE_NS UINT64_C(5000000000) /* a look that takes longer is none */

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
        if (part->room > KEPT_ROOM) {
            stk__free(store->base.context, part->buffer);
            part->buffer = NULL;
            part->room = 0;
        }
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

stk__container_part *stk__container_add_part(stk__container_reading *r, uint64_t from,
                                             uint64_t length)
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
    part->waits = part->carries = NULL;
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
        stk__container_find_run(c, r->file, 0, &e) != STK_OK || !e.raw || e.length != r->length ||
        stk__container_sum_right(c, r->file, &e, r->outer->data))
        return STK_OK;
    stk__container_warn(
        r->store, r->file,
        "its checksum does not match its bytes; copy or download the archive again");
    return STK_ECHECKSUM;
}

/* One part, or who submitted, has ended: the last one tells. */
void stk__container_end_one(stk__container_reading *r, stk_status status, int32_t system_error)
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
    stk__container_stop_waiting(r);
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
        /* Of what is unpacked beside its place the lead is looked at alone: another may have it. */
        if (wanted <= joined - SLACK && (e->raw || part->length == e->decoded))
            length += SLACK + wanted;
        length = STK_MIN(length, c->size - e->at);
        part->kind = STK__PART_LEAD;
    } else if (e->raw) {
        part->kind = STK__PART_RAW;
        part->at += e->skip;
        part->inner.data = stk__container_place_of(part->reading, part->from);
        part->inner.length = part->length;
    } else {
        part->kind = STK__PART_PACKED;
        stk__container_run next = *e;
        for (uint64_t done = next.length; done < part->length; done += next.length)
            STK_TRY(stk__container_find_run(c, part->reading->file, part->from + done, &next));
        length = next.at + next.stored - e->at;
    }
    if (part->kind != STK__PART_RAW) {
        part->inner.length = length;
        part->inner.data = find_room(part, length);
        if (!part->inner.data)
            return STK_ENOMEM;
    }
    part->inner.offset = part->at;
    return STK_OK;
}

stk_status stk__container_submit_part(stk__container_part *part, const stk__container_run *run)
{
    stk__container_reading *r = part->reading;
    stk__container_store *store = r->store;

    part->inner = (stk_read){.struct_size = sizeof part->inner,
                             .key = store->key,
                             .deadline_ns = r->outer->deadline_ns,
                             .needed_next = r->outer->needed_next,
                             .done = part_done};
    STK_TRY(aim(part, run));
    pthread_mutex_lock(&store->mutex);
    const bool stop = r->stop;
    part->sender = pthread_self();
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

/* Read bytes of a file that one read brings, the first of which are of `run`. On failure nothing is
 * pending. Whoever calls has something pending itself. */
static stk_status send(stk__container_reading *r, uint64_t from, uint64_t length,
                       const stk__container_run *run)
{
    stk__container_part *part = stk__container_add_part(r, from, length);

    if (!part)
        return STK_ENOMEM;
    const stk_status status = stk__container_submit_part(part, run);
    if (status == STK_OK)
        return STK_OK;
    /* Who sends has something pending itself: this is not the last. */
    pthread_mutex_lock(&r->store->mutex);
    r->pending--;
    pthread_mutex_unlock(&r->store->mutex);
    return status;
}

/* ---- What has been read ---------------------------------------------------------------------- */

void stk__container_warn(const stk__container_store *store, const stk__container_entry *file,
                         const char *reason)
{
    const stk__container *c = store->container;

    stk__message(store->base.context, STK_MESSAGE_WARNING, "'%s' in the %s '%s': %s",
                 stk__container_path(c, file), c->format->word, c->url, reason);
}

/* What lies in front of a file is there. *unpack: and all of its run, to be unpacked. Else what
 * came along is in place, or the file itself is being read. */
static stk_status use_lead(stk__container_part *part, bool *unpack)
{
    stk__container_reading *r = part->reading;
    stk__container *c = r->store->container;
    const uint64_t end = part->inner.offset + part->inner.length;
    const char *reason = NULL;
    stk__container_run run;

    stk_status status = c->format->settle(c, c->tables, r->file, part->buffer, &reason);
    if (status != STK_OK && reason)
        stk__container_warn(r->store, r->file, reason);
    STK_TRY(status);
    STK_TRY(stk__container_find_run(c, r->file, part->from, &run));
    if (run.lead || run.at < part->at)
        return STK_EFORMAT;
    if (run.raw && run.at + run.skip + part->length <= end) {
        memcpy(stk__container_place_of(r, part->from),
               part->buffer + (run.at - part->at) + run.skip, part->length);
        return STK_OK;
    }
    *unpack = !run.raw && part->length == run.decoded && run.at + run.stored <= end;
    if (*unpack)
        return STK_OK;
    if (!run.raw && part->length != run.decoded)
        return stk__container_share(r, part->from, part->length, &run);
    return send(r, part->from, part->length, &run);
}

static void part_done(stk_read *inner, stk_status status)
{
    stk__container_part *part = (stk__container_part *)inner;
    stk__container_reading *r = part->reading;
    const int32_t system_error = inner->system_error;
    bool unpack = part->kind == STK__PART_PACKED;

    pthread_mutex_lock(&r->store->mutex);
    part->running = false;
    const bool stop = r->stop;
    pthread_mutex_unlock(&r->store->mutex);
    if (status == STK_OK && stop && part->kind != STK__PART_RAW)
        status = STK_ECANCELED;
    if (status == STK_OK && part->kind == STK__PART_LEAD)
        status = use_lead(part, &unpack);
    if (status == STK_OK && unpack)
        stk__container_unpack(part);
    else if (part->carries)
        stk__container_block_end(part, status, system_error);
    else
        stk__container_end_one(r, status, system_error);
}

/* ---- Submitting ------------------------------------------------------------------------------ */

/* Whether of a packed run, which is known, less than all is wanted. */
static bool is_part(const stk__container_run *e, uint64_t from, uint64_t end)
{
    return !e->raw && !e->lead && STK_MIN(e->length, end - from) < e->decoded;
}

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
    while (!e->lead && !is_part(e, from, end) && from + length < end) {
        if (stk__container_find_run(store->container, r->file, from + length, &next) != STK_OK ||
            (!next.raw && next.length > end - from - length) || next.lead || !next.stored ||
            next.raw != e->raw || next.skip || next.at != last.at + last.stored ||
            (most && stored + next.stored > most))
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
            memset(stk__container_place_of(r, from), 0, length);
            continue;
        }
        length = part_length(r, from, &e);
        if (is_part(&e, from, end))
            STK_TRY(stk__container_share(r, from, length, &e));
        else
            STK_TRY(send(r, from, length, &e));
    }
    return STK_OK;
}

/* The time of the last tick, some milliseconds ago at most: asked for by every read, it costs less
 * than the time itself. */
static uint64_t ticks_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Whether the object is another one than was opened. It is looked at now and then where that is no
 * request to another machine, whose objects have their own way. */
bool stk__container_changed(stk__container_store *store)
{
    const stk__container *c = store->container;
    const uint64_t now = ticks_ns();
    const stk_store_call call = {.struct_size = sizeof call, .deadline_ns = now + PATIENCE_NS};
    uint64_t due = atomic_load_explicit(&store->due_ns, memory_order_relaxed);
    stk_object_info is = {.struct_size = sizeof is};

    if (store->limits.coalesce_gap >= FAR_GAP || now < due ||
        !atomic_compare_exchange_strong(&store->due_ns, &due, now + EVERY_NS))
        return atomic_load(&store->changed);
    /* One that is gone, or cannot be asked for, is no other one: reads say what fails. */
    if (stk_store_stat(store->inner, store->key, &call, &is, NULL) != STK_OK || !is.identity ||
        !c->identity)
        return atomic_load(&store->changed);
    /* File systems made of other things number files anew now and then. */
    const bool changed = is.identity != c->identity &&
                         (is.size != c->size || is.mtime_ns != c->mtime_ns || !is.mtime_ns);
    if (atomic_exchange(&store->changed, changed) != changed && changed)
        stk__message(store->base.context, STK_MESSAGE_WARNING,
                     "the %s '%s' has changed since it was opened, so that nothing more is read of "
                     "it: it had %llu bytes and has %llu; open it again when no program writes it",
                     c->format->word, c->url, (unsigned long long)c->size,
                     (unsigned long long)is.size);
    return changed;
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
    read->driver[0] = NULL;
    stk_status status = find_file(store, read, &file, &length);
    if (status == STK_EINVAL)
        return status;
    if (status == STK_OK && stk__container_changed(store))
        status = STK_ECHANGED;
    /* Most reads of what is in memory end here, without a part. */
    const bool now =
        status == STK_OK && length && (length <= NOW_MOST || read->needed_next) &&
        stk__container_file_now(store, file, read->offset, length, read->needed_next, read->data);
    if (status != STK_OK || !length || now) {
        if (read->up_to)
            read->got = length;
        read->done(read, status);
        return STK_OK;
    }
    stk__container_reading *r = begin(store, read, file, length);
    if (!r)
        return STK_ENOMEM;
    status = submit_parts(r);
    stk__container_end_one(r, status, 0);
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
        stk__container_stop_waiting(r);
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
    stk__container_unpackers_end(store);
    stk__container_cache_free(store);
}
