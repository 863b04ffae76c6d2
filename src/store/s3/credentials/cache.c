/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"
#include "store/s3/credentials/credentials.h"

#define EARLY   300 /* seconds in front of the end, and up to as many more, by chance */
#define GIVE_UP 1   /* seconds for which a failed load is the answer to all */
#define PAUSE   10  /* the same while the old keys serve */

struct stk__s3_cache {
    stk_context *context;
    stk__s3_cache_ops ops;
    void *user;
    stk__thread thread;
    stk__s3_keys *loaded;  /* the thread's */
    pthread_mutex_t mutex; /* guards the rest */
    pthread_cond_t wanted_now;
    stk__s3_keys *keys; /* `generation` 0: none */
    uint64_t generation;
    uint64_t taken; /* the newest generation that a server took */
    bool expired;   /* a server says so of `keys` */
    bool forced;    /* `keys` were loaded because it said so of those before */
    bool wanted, loading, stopping, started;
    int64_t refresh_at, again_at; /* Unix time, seconds */
    stk_status failed;            /* of the last load; STK_OK: it did not fail */
    stk_error error;
};

static bool valid_locked(const stk__s3_cache *cache, int64_t now)
{
    return cache->generation > 0 && !cache->expired && now < cache->keys->expires;
}

/* When keys that last from `now` on are to be loaded again: at half their time at the earliest. */
static int64_t refresh_time(const stk__s3_cache *cache, int64_t now)
{
    const int64_t expires = cache->keys->expires, left = expires - now;
    const uint32_t counter[4] = {(uint32_t)now, (uint32_t)cache->generation};
    const uint32_t key[2] = {(uint32_t)(uintptr_t)cache, (uint32_t)((uintptr_t)cache >> 32)};
    uint32_t drawn[4];

    if (expires == INT64_MAX)
        return INT64_MAX;
    stk__philox(counter, key, drawn);
    return expires - STK_MIN(EARLY + (int64_t)(drawn[0] % (EARLY + 1)), left / 2);
}

static void store_locked(stk__s3_cache *cache, stk_status status, const stk_error *err)
{
    const int64_t now = cache->ops.now(cache->user);

    cache->loading = false;
    cache->failed = status;
    if (status != STK_OK) {
        cache->error = *err;
        cache->again_at = now + (valid_locked(cache, now) ? PAUSE : GIVE_UP);
        return;
    }
    *cache->keys = *cache->loaded;
    cache->generation++;
    cache->forced = cache->expired;
    cache->expired = false;
    cache->refresh_at = refresh_time(cache, now);
    cache->again_at = 0;
}

static void load_keys(void *argument)
{
    stk__s3_cache *cache = argument;
    stk_error err;

    pthread_mutex_lock(&cache->mutex);
    for (;;) {
        while (!cache->wanted && !cache->stopping)
            pthread_cond_wait(&cache->wanted_now, &cache->mutex);
        if (cache->stopping)
            break;
        cache->wanted = false;
        pthread_mutex_unlock(&cache->mutex);
        memset(&err, 0, sizeof err);
        stk_status status = cache->ops.load(cache->user, cache->loaded, &err);
        /* To load them again at once would give the same. */
        if (status == STK_OK && cache->loaded->expires <= cache->ops.now(cache->user))
            status = stk__fail(&err, STK_EIO, STK_STAGE_STORE,
                               "the credentials that were given have expired already; log in "
                               "again, or set the clock of this machine");
        pthread_mutex_lock(&cache->mutex);
        store_locked(cache, status, &err);
        explicit_bzero(cache->loaded, sizeof *cache->loaded);
        pthread_mutex_unlock(&cache->mutex);
        cache->ops.wake(cache->user);
        pthread_mutex_lock(&cache->mutex);
    }
    pthread_mutex_unlock(&cache->mutex);
}

/* Have them loaded, once. */
static stk_status want_locked(stk__s3_cache *cache, stk_error *err)
{
    if (cache->loading)
        return STK_OK;
    if (!cache->started) {
        STK_TRY(
            stk__thread_start(cache->context, &cache->thread, "stk-keys", load_keys, cache, err));
        cache->started = true;
    }
    cache->loading = cache->wanted = true;
    pthread_cond_signal(&cache->wanted_now);
    return STK_OK;
}

static stk_status use_locked(stk__s3_cache *cache,
                             stk_status (*use)(void *user, const stk__s3_keys *keys,
                                               stk_error *err),
                             void *user, uint64_t *generation, stk_error *err)
{
    const int64_t now = cache->ops.now(cache->user);

    if (valid_locked(cache, now)) {
        /* A load that cannot begin is tried again by the next who comes. */
        if (now >= cache->refresh_at && now >= cache->again_at)
            (void)want_locked(cache, NULL);
        *generation = cache->generation;
        return use(user, cache->keys, err);
    }
    if (!cache->loading && cache->failed != STK_OK && now < cache->again_at) {
        if (err)
            *err = cache->error;
        return cache->failed;
    }
    STK_TRY(want_locked(cache, err));
    return STK_EAGAIN;
}

stk_status stk__s3_cache_use(stk__s3_cache *cache,
                             stk_status (*use)(void *user, const stk__s3_keys *keys,
                                               stk_error *err),
                             void *user, uint64_t *generation, stk_error *err)
{
    pthread_mutex_lock(&cache->mutex);
    const stk_status status = use_locked(cache, use, user, generation, err);
    pthread_mutex_unlock(&cache->mutex);
    return status;
}

bool stk__s3_cache_expire(stk__s3_cache *cache, uint64_t generation)
{
    bool useful = true;

    pthread_mutex_lock(&cache->mutex);
    if (generation == cache->generation && !cache->expired) {
        /* Keys fresh from their source that no server takes: the next would be no better. */
        useful = !cache->forced || cache->taken >= generation;
        cache->expired = useful;
        cache->again_at = 0;
    }
    pthread_mutex_unlock(&cache->mutex);
    return useful;
}

void stk__s3_cache_taken(stk__s3_cache *cache, uint64_t generation)
{
    pthread_mutex_lock(&cache->mutex);
    cache->taken = STK_MAX(cache->taken, generation);
    pthread_mutex_unlock(&cache->mutex);
}

void stk__s3_cache_rest(stk__s3_cache *cache)
{
    pthread_mutex_lock(&cache->mutex);
    cache->stopping = true;
    pthread_cond_signal(&cache->wanted_now);
    pthread_mutex_unlock(&cache->mutex);
    stk__thread_join(&cache->thread);
    pthread_mutex_lock(&cache->mutex);
    cache->stopping = cache->started = cache->wanted = cache->loading = false;
    pthread_mutex_unlock(&cache->mutex);
}

void stk__s3_cache_close(stk__s3_cache **out)
{
    stk__s3_cache *cache = *out;

    *out = NULL;
    if (!cache)
        return;
    stk_context *ctx = cache->context;
    stk__s3_cache_rest(cache);
    stk__secrets_free(cache->keys, sizeof *cache->keys);
    stk__secrets_free(cache->loaded, sizeof *cache->loaded);
    pthread_cond_destroy(&cache->wanted_now);
    pthread_mutex_destroy(&cache->mutex);
    stk__free(ctx, cache);
}

stk_status stk__s3_cache_open(stk_context *ctx, const stk__s3_cache_ops *ops, void *user,
                              stk__s3_cache **out, stk_error *err)
{
    *out = NULL;
    stk__s3_cache *cache = stk__calloc(ctx, 1, sizeof *cache);
    if (!cache)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory for credentials");
    cache->context = ctx;
    cache->ops = *ops;
    cache->user = user;
    pthread_mutex_init(&cache->mutex, NULL);
    stk__cond_init(&cache->wanted_now);
    cache->keys = stk__secrets_alloc(sizeof *cache->keys);
    cache->loaded = stk__secrets_alloc(sizeof *cache->loaded);
    if (!cache->keys || !cache->loaded) {
        stk__s3_cache_close(&cache);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE,
                         "no memory that core dumps leave out, for credentials");
    }
    *out = cache;
    return STK_OK;
}
