/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which objects the store below has: by what it lists, and else asked for by threads, as submit()
 * does not wait. Each object is asked for once.
 */
#include "store/cache/reading.h"
#include "store/file.h"

/* ---- Noting ---------------------------------------------------------------------------------- */

static void remove_kept(stk__cache_store *store, const stk__cache_id *id)
{
    stk__cache_place place;

    if (!store->kept || !id->identity ||
        !stk__cache_place_of(store->room.store, id, store->options.block, &place))
        return;
    stk__cache_file_remove(&store->room, place.name);
    stk__file_forget((stk__file_store *)store->kept, place.name, NULL);
}

static void set(stk__cache_store *store, const stk__cache_id *id)
{
    stk__cache_id old;

    pthread_mutex_lock(&store->mutex);
    stk__cache_ids_set(store->base.context, &store->ids, id, &old);
    pthread_mutex_unlock(&store->mutex);
    if (old.identity && (old.identity != id->identity || old.size != id->size))
        remove_kept(store, &old);
}

void stk__cache_note(stk__cache_store *store, const char *key, const stk_object_info *info)
{
    const stk__cache_id id = {
        .key = stk__cache_key(key), .size = info->size, .identity = info->identity};

    if (!info->is_folder && info->identity)
        set(store, &id);
}

void stk__cache_forget(stk__cache_store *store, const char *key)
{
    const XXH128_hash_t hash = stk__cache_key(key);
    stk__cache_id old = {0};

    pthread_mutex_lock(&store->mutex);
    const stk__cache_id *id = stk__cache_ids_find(&store->ids, hash);
    if (id)
        old = *id;
    stk__cache_ids_forget(&store->ids, hash);
    pthread_mutex_unlock(&store->mutex);
    remove_kept(store, &old);
}

void stk__cache_forget_version(stk__cache_store *store, XXH128_hash_t key,
                               const stk__cache_place *place)
{
    const stk__cache_id old = {.key = key, .size = place->size, .identity = place->identity};

    pthread_mutex_lock(&store->mutex);
    const stk__cache_id *id = stk__cache_ids_find(&store->ids, key);
    if (id && id->size == old.size && id->identity == old.identity)
        stk__cache_ids_forget(&store->ids, key);
    pthread_mutex_unlock(&store->mutex);
    remove_kept(store, &old);
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static bool is_stopped(void *user)
{
    stk__cache_reading *r = user;

    pthread_mutex_lock(&r->store->mutex);
    const bool stop = r->stop;
    pthread_mutex_unlock(&r->store->mutex);
    return stop;
}

/* The first reading whose object nobody is asking for, taken out. */
static stk__cache_reading *take_locked(stk__cache_store *store)
{
    stk__cache_reading **at = &store->first_asking, *before = NULL;

    for (stk__cache_reading *r; (r = *at); before = r, at = &r->next_waiter) {
        bool asked = false;
        for (size_t i = 0; i < STK__CACHE_ASKERS; i++)
            asked |= XXH128_isEqual(store->asking[i], r->key);
        if (asked)
            continue;
        *at = r->next_waiter;
        if (store->last_asking == r)
            store->last_asking = before;
        r->asking = false;
        return r;
    }
    return NULL;
}

/* Ask the store below; what cannot be told has no identity, and reading it says why. */
static void ask(stk__cache_store *store, stk__cache_reading *r, stk__cache_id *id)
{
    const stk_store_call call = {.struct_size = sizeof call,
                                 .deadline_ns = r->outer->deadline_ns,
                                 .canceled = is_stopped,
                                 .user = r,
                                 .bare = true};
    stk_object_info info = {.struct_size = sizeof info};

    *id = (stk__cache_id){.key = r->key};
    if (stk_store_stat(store->inner, r->outer->key, &call, &info, NULL) != STK_OK || info.is_folder)
        return;
    id->size = info.size;
    id->identity = info.identity;
    if (id->identity)
        set(store, id);
}

static void ask_all(void *user)
{
    stk__cache_store *store = user;
    stk__cache_id id;

    pthread_mutex_lock(&store->mutex);
    for (;;) {
        stk__cache_reading *r = take_locked(store);
        if (!r && store->stopping)
            break;
        if (!r) {
            store->idle_askers++;
            pthread_cond_wait(&store->asked, &store->mutex);
            store->idle_askers--;
            continue;
        }
        const stk__cache_id *known = stk__cache_ids_find(&store->ids, r->key);
        if (known)
            id = *known;
        XXH128_hash_t *mine = store->asking;
        while (mine->high64 || mine->low64)
            mine++;
        if (!known)
            *mine = r->key;
        r->pins++;
        pthread_mutex_unlock(&store->mutex);
        if (!known)
            ask(store, r, &id);
        pthread_mutex_lock(&store->mutex);
        if (!known) {
            *mine = (XXH128_hash_t){0};
            pthread_cond_broadcast(&store->asked);
        }
        pthread_mutex_unlock(&store->mutex);
        stk__cache_identified(r, &id);
        stk__cache_unpin(r);
        pthread_mutex_lock(&store->mutex);
    }
    pthread_mutex_unlock(&store->mutex);
}

bool stk__cache_ask(stk__cache_reading *r)
{
    stk__cache_store *store = r->store;

    atomic_store(&r->gate, STK__CACHE_WAITING);
    pthread_mutex_lock(&store->mutex);
    if (!store->idle_askers && store->num_askers < STK__CACHE_ASKERS &&
        stk__thread_start(store->base.context, &store->askers[store->num_askers], "stk-cache-ask",
                          ask_all, store, NULL) == STK_OK)
        store->num_askers++;
    const bool asks = store->num_askers > 0 && !r->stop;
    if (asks) {
        r->asking = true;
        r->next_waiter = NULL;
        *(store->first_asking ? &store->last_asking->next_waiter : &store->first_asking) = r;
        store->last_asking = r;
        pthread_cond_signal(&store->asked);
    }
    pthread_mutex_unlock(&store->mutex);
    return asks;
}

void stk__cache_askers_end(stk__cache_store *store)
{
    pthread_mutex_lock(&store->mutex);
    pthread_cond_broadcast(&store->asked);
    pthread_mutex_unlock(&store->mutex);
    for (uint32_t i = 0; i < store->num_askers; i++)
        stk__thread_join(&store->askers[i]);
}
