/* SPDX-License-Identifier: Apache-2.0 */
/* Objects in memory: finding, adding, removing, and writing them in pieces. */
#include "store/mem.h"

#include "store/url.h"

void stk__mem_free(stk_context *ctx, stk__mem_object *o)
{
    if (!o)
        return;
    stk__free(ctx, o->data);
    stk__free(ctx, o);
}

size_t stk__mem_place_locked(const stk__mem_space *s, const stk__mem_store *store, const char *key)
{
    size_t low = 0, high = s->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strncmp(s->objects[middle]->key, store->prefix, store->prefix_length);
        if (order == 0)
            order = strcmp(s->objects[middle]->key + store->prefix_length, key);
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

stk__mem_object *stk__mem_find_locked(const stk__mem_store *store, const char *key)
{
    const stk__mem_space *s = store->space;
    size_t at = stk__mem_place_locked(s, store, key);

    if (at == s->count || strncmp(s->objects[at]->key, store->prefix, store->prefix_length) != 0 ||
        strcmp(s->objects[at]->key + store->prefix_length, key) != 0)
        return NULL;
    return s->objects[at];
}

/* An object has left the list. Returns it when it is to be freed once the mutex is free, else NULL.
 */
static stk__mem_object *bury_locked(stk__mem_space *s, stk__mem_object *o)
{
    o->listed = false;
    if (o->mapped) {
        o->next = s->graveyard;
        s->graveyard = o;
        return NULL;
    }
    return o->readers ? NULL : o;
}

/* Put `o` in its place; room for one more has been made. Returns the object to free, or NULL; `o`
 * itself where `keep` and its key is taken. */
static stk__mem_object *insert_locked(const stk__mem_store *store, stk__mem_object *o, bool keep)
{
    stk__mem_space *s = store->space;
    size_t at = stk__mem_place_locked(s, store, o->key + store->prefix_length);
    const bool taken = at < s->count && strcmp(s->objects[at]->key, o->key) == 0;

    if (taken && keep)
        return o;
    o->serial = ++s->serial;
    o->listed = true;
    if (taken) {
        stk__mem_object *old = s->objects[at];
        s->objects[at] = o;
        return bury_locked(s, old);
    }
    memmove(&s->objects[at + 1], &s->objects[at], (s->count - at) * sizeof *s->objects);
    s->objects[at] = o;
    s->count++;
    return NULL;
}

/* The allocator may be the caller's: it is not called under the mutex. */
static stk_status make_room(stk__mem_space *s)
{
    stk_status status = STK_OK;

    for (;;) {
        pthread_mutex_lock(&s->mutex);
        size_t room = s->room, count = s->count;
        pthread_mutex_unlock(&s->mutex);
        if (count < room)
            return status;
        size_t wanted = STK_MAX(2 * room, (size_t)64);
        stk__mem_object **grown = stk__calloc(s->context, wanted, sizeof *grown);
        if (!grown)
            return STK_ENOMEM;
        pthread_mutex_lock(&s->mutex);
        stk__mem_object **old = grown;
        if (s->room == room) {
            if (s->count)
                memcpy(grown, s->objects, s->count * sizeof *grown);
            old = s->objects;
            s->objects = grown;
            s->room = wanted;
        }
        pthread_mutex_unlock(&s->mutex);
        stk__free(s->context, old);
    }
}

static stk__mem_object *make_object(const stk__mem_store *store, const char *key)
{
    size_t length = strlen(key) + 1;
    stk__mem_object *o =
        stk__calloc(store->base.context, 1, sizeof *o + store->prefix_length + length);

    if (!o)
        return NULL;
    memcpy(o->key, store->prefix, store->prefix_length);
    memcpy(o->key + store->prefix_length, key, length);
    return o;
}

static stk_status fail_taken(const stk__mem_store *store, const char *key, stk_error *err)
{
    return stk__fail_at(err, STK_EEXIST, STK_STAGE_STORE, key, STK_NO_OFFSET,
                        "'%.200s' exists already in mem://%.100s, and is not to be replaced", key,
                        store->space->name);
}

/* Give an object with data to its space. On failure it is still the caller's. */
static stk_status add_object(const stk__mem_store *store, stk__mem_object *o, bool keep,
                             stk_error *err)
{
    stk__mem_space *s = store->space;
    stk__mem_object *old = NULL;
    bool added = false;

    /* Another put may take the room that was made: then more is made. */
    while (!added) {
        if (make_room(s) != STK_OK)
            return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to keep '%.200s'",
                             o->key);
        pthread_mutex_lock(&s->mutex);
        added = s->count < s->room;
        if (added)
            old = insert_locked(store, o, keep);
        pthread_mutex_unlock(&s->mutex);
    }
    if (old == o)
        return fail_taken(store, o->key + store->prefix_length, err);
    stk__mem_free(s->context, old);
    return STK_OK;
}

static stk_status check_name(const stk__mem_store *store, const char *key, stk_error *err)
{
    STK_TRY(stk__key_check(key, err));
    /* Seen from the root of its space it must be a key as well. */
    if (strlen(key) + store->prefix_length >= STK_MAX_OBJECT_KEY)
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                         "the key '%.60s...' is longer than %d bytes", key, STK_MAX_OBJECT_KEY - 1);
    if (!key[0] || key[strlen(key) - 1] == '/')
        return stk__fail_at(
            err, STK_EINVAL, STK_STAGE_STORE, key, STK_NO_OFFSET,
            "'%.200s' names no object: a key does not end with '/' and is not empty", key);
    return STK_OK;
}

stk_status stk__mem_remove(stk_store *base, const char *key, const stk_store_call *call,
                           stk_error *err)
{
    stk__mem_store *store = (stk__mem_store *)base;
    stk__mem_space *s = store->space;
    stk__mem_object *gone = NULL;

    STK_TRY(stk__context_check(base->context, err));
    STK_TRY(check_name(store, key, err));
    pthread_mutex_lock(&s->mutex);
    stk__mem_object *o = stk__mem_find_locked(store, key);
    if (o) {
        size_t at = stk__mem_place_locked(s, store, key);
        s->count--;
        memmove(&s->objects[at], &s->objects[at + 1], (s->count - at) * sizeof *s->objects);
        gone = bury_locked(s, o);
    }
    pthread_mutex_unlock(&s->mutex);
    stk__mem_free(s->context, gone);
    if (!o)
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_STORE, key, STK_NO_OFFSET,
                            "cannot remove '%.200s': it does not exist in mem://%.100s", key,
                            s->name);
    return STK_OK;
}

/* ---- Writing in pieces ---- */

typedef struct mem_put {
    stk_put base;
    stk__mem_store *store;
    stk__mem_object *object;
    const stk_store_call *call;
    uint64_t room;
    bool failed;
} mem_put;

static void put_abandon(stk_put *base)
{
    mem_put *put = (mem_put *)base;
    stk_context *ctx = put->store->base.context;

    if (stk__context_forked(ctx))
        return;
    stk__mem_free(ctx, put->object);
    stk__free(ctx, put);
}

static stk_status put_write(stk_put *base, const void *data, size_t length, stk_error *err)
{
    mem_put *put = (mem_put *)base;
    stk__mem_object *o = put->object;
    uint64_t needed;

    STK_TRY(stk__context_check(put->store->base.context, err));
    STK_TRY(stk__store_call_check(put->call, o->key, err));
    if (put->failed || !stk__add_size(o->size, length, &needed) || needed > SIZE_MAX / 4)
        goto no_memory;
    if (needed > put->room) {
        uint64_t room = STK_MAX(needed, put->room ? 2 * put->room : put->call->length);
        unsigned char *grown = stk__alloc_buffer(put->store->base.context, (size_t)room);
        if (!grown)
            goto no_memory;
        if (o->size)
            memcpy(grown, o->data, (size_t)o->size);
        stk__free(put->store->base.context, o->data);
        o->data = grown;
        put->room = room;
    }
    if (length)
        memcpy(o->data + o->size, data, length);
    o->size = needed;
    return STK_OK;
no_memory:
    put->failed = true;
    return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory for %zu more bytes of '%.200s'",
                     length, o->key);
}

static stk_status put_commit(stk_put *base, stk_error *err)
{
    mem_put *put = (mem_put *)base;
    stk_status status = put->failed ? STK_ENOMEM : STK_OK;

    STK_TRY(stk__context_check(put->store->base.context, err));
    if (put->failed)
        stk__fail(err, status, STK_STAGE_STORE,
                  "'%.200s' is not written: an earlier part of it could not be", put->object->key);
    if (!put->failed && !put->object->data) { /* an empty object has a readable tail too */
        put->object->data = stk__alloc_buffer(put->store->base.context, 0);
        if (!put->object->data)
            status = stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory for '%.200s'",
                               put->object->key);
    }
    if (status == STK_OK)
        status = add_object(put->store, put->object, put->call->no_replace, err);
    if (status == STK_OK)
        put->object = NULL;
    put_abandon(base);
    return status;
}

static const stk_put_ops put_ops = {
    .struct_size = sizeof(stk_put_ops),
    .write = put_write,
    .commit = put_commit,
    .abandon = put_abandon,
};

static bool is_taken(const stk__mem_store *store, const char *key)
{
    pthread_mutex_lock(&store->space->mutex);
    const bool taken = stk__mem_find_locked(store, key) != NULL;
    pthread_mutex_unlock(&store->space->mutex);
    return taken;
}

stk_status stk__mem_put(stk_store *base, const char *key, const stk_store_call *call, stk_put **out,
                        stk_error *err)
{
    stk_context *ctx = base->context;

    *out = NULL;
    STK_TRY(stk__context_check(ctx, err));
    STK_TRY(check_name((stk__mem_store *)base, key, err));
    if (call->no_replace && is_taken((stk__mem_store *)base, key))
        return fail_taken((stk__mem_store *)base, key, err);
    mem_put *put = stk__calloc(ctx, 1, sizeof *put);
    stk__mem_object *o = make_object((stk__mem_store *)base, key);
    if (!put || !o) {
        stk__free(ctx, put);
        stk__mem_free(ctx, o);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to write '%.200s'", key);
    }
    put->base.ops = &put_ops;
    put->store = (stk__mem_store *)base;
    put->object = o;
    put->call = call;
    *out = &put->base;
    return STK_OK;
}
