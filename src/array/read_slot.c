/* SPDX-License-Identifier: Apache-2.0 */
/* Requests on their way through the store, and what becomes of their bytes. */
#include "array/reading.h"

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory to read chunks of an array");
}

stk__slot_read *stk__slot_take_locked(stk__reading *r)
{
    stk__slot_read *s = r->free_slots;

    if (s) {
        r->free_slots = s->next;
    } else {
        /* The allocator is called under the mutex only until there are enough slots. */
        s = stk__calloc(r->array->context, 1, sizeof *s);
        if (!s)
            return NULL;
        s->reading = r;
        s->all = r->all_slots;
        r->all_slots = s;
    }
    s->next = NULL;
    s->num_needs = 0;
    s->charged = 0;
    s->direct = false;
    s->walk = NULL;
    s->object_size = STK__ARRAY_UNKNOWN;
    r->active++;
    return s;
}

void stk__slots_free(stk__reading *r)
{
    stk_context *ctx = r->array->context;

    for (stk__slot_read *s = r->all_slots, *next; s; s = next) {
        next = s->all;
        stk__walk_destroy(&s->walk);
        stk__free(ctx, s->memory);
        stk__free(ctx, s->needs);
        stk__free(ctx, s);
    }
}

/* ---- Sending ---- */

/* (r->mutex held) */
static void ready_locked(stk__slot_read *s)
{
    stk__reading *r = s->reading;

    s->next = NULL;
    *(r->ready ? &r->last_ready->next : &r->ready) = s;
    r->last_ready = s;
    r->waiting--;
    pthread_cond_signal(&r->cond);
}

void stk__slots_ended(void *reading, stk__transfer *list)
{
    stk__reading *r = reading;

    pthread_mutex_lock(&r->mutex);
    for (stk__transfer *next; list; list = next) {
        next = list->next;
        ready_locked(list->user);
    }
    pthread_mutex_unlock(&r->mutex);
}

static bool grow_needs(stk_context *ctx, stk__slot_read *s, uint32_t count)
{
    if (count <= s->room_needs)
        return true;
    stk__need *grown = stk__realloc(ctx, s->needs, count * sizeof *grown);
    if (!grown)
        return false;
    s->needs = grown;
    s->room_needs = count;
    return true;
}

static stk_status take_plan(stk__slot_read *s, const stk__request *request, stk_error *err)
{
    stk__reading *r = s->reading;
    bool alone = request->first == UINT32_MAX;
    uint32_t count = alone ? 1 : request->count;
    stk__need *first = &r->needs[alone ? request->count : r->wants[request->first].tag];

    if (first->kind == STK__NEED_INDEX) { /* from here on the walk is the slot's */
        s->walk = (stk__walk *)(uintptr_t)first->skip;
        first->skip = 0;
    }
    if (!grow_needs(r->array->context, s, count))
        return no_memory(err);
    for (uint32_t i = 0; i < count; i++)
        s->needs[i] = r->needs[alone ? request->count : r->wants[request->first + i].tag];
    s->num_needs = count;
    s->object = request->object;
    s->offset = request->offset;
    s->length = request->length;
    return STK_OK;
}

/* Whether all needs of a slot lie in the destination as they lie in the object: then the request
 * is read straight there. */
static bool find_direct(stk__slot_read *s)
{
    stk__reading *r = s->reading;
    const stk_array *a = r->array;
    uint64_t end = s->offset;
    char *begin = NULL;

    if (s->walk || !stk__array_is_copy(a))
        return false;
    for (uint32_t i = 0; i < s->num_needs; i++) {
        const stk__need *need = &s->needs[i];
        const int64_t at = stk__array_place(a, r->box, need, r->strides);
        if (at < 0 || need->offset != end || (begin && r->out + at != begin + (end - s->offset)))
            return false;
        if (!begin)
            begin = r->out + at;
        end += need->length;
    }
    s->data = (unsigned char *)begin;
    return end == s->offset + s->length;
}

#define INDEX_TIMES 8 /* its bytes: what it takes to read, decode and check a shard index */

static stk_status find_room(stk__slot_read *s, stk_error *err)
{
    stk__reading *r = s->reading;
    stk_context *ctx = r->array->context;

    /* An index is decoded next to what was read, and its entries are sorted to be checked. */
    const uint64_t takes = s->walk ? s->length * INDEX_TIMES : s->length;
    if (takes > r->array->options.memory)
        return stk__fail_at(err, STK_EBUDGET, STK_STAGE_ARRAY, s->key, s->offset,
                            "%s: a read that takes %llu bytes does not fit the memory of %llu; "
                            "give the option memory more",
                            s->key, (unsigned long long)takes,
                            (unsigned long long)r->array->options.memory);
    if (!s->memory || s->room < s->length) { /* of an empty object too */
        stk__free(ctx, s->memory);
        s->room = 0;
        s->memory = stk__alloc_buffer(ctx, s->length);
        if (!s->memory)
            return no_memory(err);
        s->room = s->length;
    }
    s->data = s->memory;
    return STK_OK;
}

static stk_status too_short(const stk__slot_read *s, uint64_t size, stk_error *err)
{
    return stk__fail_at(err, STK_ETRUNCATED, STK_STAGE_ARRAY, s->key, size,
                        "%s has %llu bytes, less than its shard index of %llu; copy or write it "
                        "again",
                        s->key, (unsigned long long)size, (unsigned long long)s->length);
}

/* Ask for a size that only the store knows. *absent: there is no such object. */
static stk_status find_size(stk__slot_read *s, bool *absent, stk_error *err)
{
    const stk_array *a = s->reading->array;
    stk_error asked;

    stk_error_init(&asked);
    stk_status status = stk__array_object_size(a, s->object, &s->object_size, &asked);
    if (status == STK_ENOENT) {
        *absent = true;
        return STK_OK;
    }
    if (status != STK_OK) {
        if (err)
            *err = asked;
        return status;
    }
    if (s->length == STK__ARRAY_UNKNOWN)
        s->length = s->needs[0].length = s->object_size;
    if (s->offset == STK__ARRAY_FROM_END) {
        if (s->object_size < s->length)
            return too_short(s, s->object_size, err);
        s->offset = s->object_size - s->length;
    }
    return STK_OK;
}

static uint64_t read_deadline(const stk__reading *r)
{
    double seconds = r->array->options.timeout;
    uint64_t when = r->deadline_ns;

    if (seconds > 0)
        when = STK_MIN(when, stk__now_ns() + (uint64_t)(seconds * 1e9));
    return when == UINT64_MAX ? 0 : when;
}

static void submit(stk__slot_read *s)
{
    stk__reading *r = s->reading;

    s->transfer = (stk__transfer){.store = stk__array_store(r->array),
                                  .key = s->key,
                                  .offset = s->offset,
                                  .length = s->length,
                                  .from_end = s->offset == STK__ARRAY_FROM_END,
                                  .up_to = s->unsized,
                                  .data = s->data,
                                  .deadline_ns = read_deadline(r),
                                  .needed_next = true, /* with nothing ready, it is decoded next */
                                  .user = s};
    pthread_mutex_lock(&r->mutex);
    r->waiting++;
    pthread_mutex_unlock(&r->mutex);
    stk__fetcher_add(r->fetcher, &s->transfer);
    stk__fetcher_pump(r->fetcher);
}

/* A request whose object is proven to be absent, before or by the read. */
static stk_status use_absent(stk__reader *reader, stk__slot_read *s, stk_error *err)
{
    stk__reading *r = s->reading;

    if (!s->walk) {
        for (uint32_t i = 0; i < s->num_needs; i++)
            STK_TRY(stk__reading_fill(r, &s->needs[i], s->key, err));
        return STK_OK;
    }
    STK_TRY(stk__array_give_index(r->array, s->walk, &s->needs[0], NULL, 0, reader->state, err));
    stk__walk *walk = s->walk;
    s->walk = NULL;
    return stk__reading_add_walk(r, walk, err);
}

stk_status stk__slot_send(stk__slot_read *s, const stk__request *request, stk_error *err)
{
    stk__reading *r = s->reading;
    bool absent = false;

    STK_TRY(take_plan(s, request, err));
    stk__array_key(r->array, s->object, s->key, sizeof s->key);
    s->unsized = s->length == STK__ARRAY_UNKNOWN && r->most_encoded;
    if (s->unsized)
        s->length = s->needs[0].length = r->most_encoded;
    if (s->length == STK__ARRAY_UNKNOWN || (s->offset == STK__ARRAY_FROM_END && !r->limits.ends))
        STK_TRY(find_size(s, &absent, err));
    if (absent) { /* used like one that the store has answered so */
        s->transfer.status = STK_ENOENT;
        pthread_mutex_lock(&r->mutex);
        r->waiting++;
        ready_locked(s);
        pthread_mutex_unlock(&r->mutex);
        return STK_OK;
    }
    s->direct = !r->indexes_only && find_direct(s);
    if (!s->direct) {
        STK_TRY(find_room(s, err));
        pthread_mutex_lock(&r->mutex);
        s->charged = s->length;
        r->in_flight += s->length;
        pthread_mutex_unlock(&r->mutex);
    }
    submit(s);
    return STK_OK;
}

/* ---- Using ---- */

static stk_status name_failure(const stk__slot_read *s, stk_error *err)
{
    const char *reason =
        s->transfer.system_error > 0 ? strerrordesc_np(s->transfer.system_error) : NULL;

    return stk__fail_at(err, s->transfer.status, STK_STAGE_ARRAY, s->key, s->offset,
                        "cannot read %llu bytes of '%.200s' from byte %llu on: %s%s",
                        (unsigned long long)s->length, s->key, (unsigned long long)s->offset,
                        reason ? reason : stk_status_text(s->transfer.status),
                        s->transfer.status == STK_ETRUNCATED ? "; copy or write it again"
                        : stk_status_fault(s->transfer.status) != STK_FAULT_MACHINE
                            ? ""
                            : "; trying again may help");
}

/* An object that was there when its index was read does not become fill value. */
static bool may_be_absent(const stk__slot_read *s)
{
    const stk_array *a = s->reading->array;

    return (a->manifest == STK__MANIFEST_KEYS || a->manifest == STK__MANIFEST_READ) &&
           (a->num_levels == 1 || s->needs[0].level == 0);
}

/* What has a wrong checksum was perhaps damaged on the way: once more from the store. */
static bool read_again(stk__slot_read *s, uint64_t offset, uint64_t length)
{
    return stk_store_read(stk__array_store(s->reading->array), s->key, offset, length,
                          s->data + (offset - s->offset), NULL) == STK_OK;
}

static stk_status use_index(stk__reader *reader, stk__slot_read *s, stk_error *err)
{
    stk__reading *r = s->reading;

    stk_status status = stk__array_give_index(r->array, s->walk, &s->needs[0], s->data,
                                              s->object_size, reader->state, err);
    if (status == STK_ECHECKSUM && read_again(s, s->offset, s->length))
        status = stk__array_give_index(r->array, s->walk, &s->needs[0], s->data, s->object_size,
                                       reader->state, err);
    if (status != STK_OK)
        return status;
    stk__walk *walk = s->walk;
    s->walk = NULL;
    return stk__reading_add_walk(r, walk, err);
}

static stk_status decode(stk__reader *reader, const stk__need *need, const void *bytes, void *to,
                         stk_error *err)
{
    const stk__reading *r = reader->reading;

    if (r->texts)
        return stk__texts_decode(r->texts, r->array, reader->state, need, bytes, to, err);
    return stk__array_decode(r->array, reader->state, need, bytes, need->length, to, err);
}

static stk_status use_chunk(stk__reader *reader, stk__slot_read *s, const stk__need *need,
                            stk_error *err)
{
    stk__reading *r = s->reading;
    const stk_array *a = r->array;
    const unsigned char *bytes = s->data + (need->offset - s->offset);
    const bool plain = stk__array_is_copy(a) && !(a->type.big_endian && a->type.swap_size > 1);

    if (s->direct && plain)
        return STK_OK;
    if (plain) {
        stk__array_copy_large(a, r->box, need, bytes, r->out, r->strides, r->large);
        return STK_OK;
    }
    const int64_t at = stk__array_place(a, r->box, need, r->strides);
    if (at < 0 && !reader->scratch) {
        reader->scratch = stk__alloc_buffer(a->context, a->chunk_bytes);
        if (!reader->scratch)
            return no_memory(err);
    }
    void *to = at < 0 ? reader->scratch : (unsigned char *)r->out + at;
    stk_status status = decode(reader, need, bytes, to, err);
    if (status == STK_ECHECKSUM && read_again(s, need->offset, need->length))
        status = decode(reader, need, bytes, to, err);
    if (status == STK_OK && at < 0)
        stk__array_copy_large(a, r->box, need, to, r->out, r->strides, r->large);
    return status;
}

/* The length of what was read whole is known now. */
static stk_status take_length(stk__slot_read *s, stk_error *err)
{
    if (s->transfer.got == s->length)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, s->key, s->length,
                            "%s is longer than a chunk of this array can be; write it again",
                            s->key);
    s->length = s->needs[0].length = s->transfer.got;
    return STK_OK;
}

/* What was asked for as the end of an object has a place now. */
static void place_end(stk__slot_read *s)
{
    if (!s->transfer.from_end)
        return;
    s->object_size = s->transfer.size;
    s->offset = s->object_size - s->length;
}

static stk_status use(stk__reader *reader, stk__slot_read *s, stk_error *err)
{
    if (s->transfer.status == STK_ENOENT && may_be_absent(s))
        return use_absent(reader, s, err);
    if (s->transfer.status == STK_ETRUNCATED && s->transfer.from_end)
        return too_short(s, s->transfer.size, err);
    if (s->transfer.status != STK_OK)
        return name_failure(s, err);
    if (s->unsized)
        STK_TRY(take_length(s, err));
    place_end(s);
    if (s->walk)
        return use_index(reader, s, err);
    for (uint32_t i = 0; i < s->num_needs; i++)
        STK_TRY(use_chunk(reader, s, &s->needs[i], err));
    return STK_OK;
}

/* The bytes are there by now: an object that is what it was, was it when they were read. What
 * fails may fail since it is another one, and then that is the reason. */
stk_status stk__slot_use(stk__reader *reader, stk__slot_read *s, stk_error *err)
{
    const stk_status status = use(reader, s, err);

    STK_TRY(stk__array_unchanged(reader->reading->array, s->object, status != STK_OK, err));
    return status;
}
