/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache+URL: any store, of which what was read is kept in a folder of this machine. Reads are in
 * read.c; all else is asked of the store below, and what that says of objects is remembered.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/options.h"
#include "store/cache/reading.h"
#include "store/file.h"
#include "store/url.h"

#define MOST_BUFFERS                                                                               \
    (UINT64_C(256) << 20) /* bytes of blocks that are read below, or wait to be kept */
#define BUFFERS_PART   8  /* or such a part of memory_limit */
#define BLOCK_LEAST    4096
#define BLOCK_MOST     (UINT64_C(16) << 20)
#define OPTION(member) .name = #member, .offset = offsetof(stk__cache_options, member)

static const stk_option option_list[] = {
    {OPTION(dir), .type = STK_OPTION_STRING, .initial = "",
     .doc = "The folder of a local disk to keep bytes in, made where it is missing. Several stores "
            "and processes may share one; theirs is the folder stoker-cache-1 in it."},
    {OPTION(size), .type = STK_OPTION_SIZE, .initial = "100GiB", .min = 1048576, .max = 1e18,
     .doc = "Bytes at most that all of the folder takes, whoever writes it."},
    {OPTION(block), .type = STK_OPTION_SIZE, .initial = "0", .min = 0, .max = (double)BLOCK_MOST,
     .doc = "Bytes that are read, checked and kept together: a power of two from 4KiB to 16MiB; 0 "
            "is 16KiB, and 64KiB for objects of 1 GiB and more."},
};

const stk_option_table stk__cache_option_table = {
    .name = "cache",
    .doc = "A store whose bytes are kept on a local disk.",
    .struct_size = sizeof(stk__cache_options),
    .options = option_list,
    .count = STK_COUNT(option_list),
};

/* ---- What is passed on ----------------------------------------------------------------------- */

static stk_status lacks(const stk__cache_store *store, const char *what, stk_error *err)
{
    return stk__fail(err, STK_ENOTSUP, STK_STAGE_STORE,
                     "a store of the kind '%s' cannot %s objects", store->inner->ops->name, what);
}

static stk_status cache_stat(stk_store *base, const char *key, const stk_store_call *call,
                             stk_object_info *out, stk_error *err)
{
    stk__cache_store *store = (stk__cache_store *)base;

    STK_TRY(store->inner->ops->stat(store->inner, key, call, out, err));
    stk__cache_note(store, key, out);
    return STK_OK;
}

typedef struct listing {
    stk__cache_store *store;
    stk_list_fn *each;
    void *user;
} listing;

static stk_status list_one(void *user, const char *key, const stk_object_info *info)
{
    const listing *l = user;

    stk__cache_note(l->store, key, info);
    return l->each(l->user, key, info);
}

static stk_status cache_list(stk_store *base, const char *prefix, const stk_store_call *call,
                             stk_list_fn *each, void *user, stk_error *err)
{
    stk__cache_store *store = (stk__cache_store *)base;

    if (!STK__STORE_HAS(store->inner->ops, list))
        return lacks(store, "list", err);
    return store->inner->ops->list(store->inner, prefix, call, list_one,
                                   &(listing){.store = store, .each = each, .user = user}, err);
}

/* A put below, after which the object is another one. */
typedef struct cache_put {
    stk_put base;
    stk__cache_store *store;
    stk_put *inner;
    char key[];
} cache_put;

static stk_status put_write(stk_put *base, const void *data, size_t length, stk_error *err)
{
    cache_put *put = (cache_put *)base;

    return put->inner->ops->write(put->inner, data, length, err);
}

static stk_status put_commit(stk_put *base, stk_error *err)
{
    cache_put *put = (cache_put *)base;
    const stk_status status = stk__store_put_commit(&put->inner, err);

    stk__cache_forget(put->store, put->key);
    stk__free(put->store->base.context, put);
    return status;
}

static void put_abandon(stk_put *base)
{
    cache_put *put = (cache_put *)base;

    stk__store_put_abandon(&put->inner);
    stk__free(put->store->base.context, put);
}

static const stk_put_ops put_ops = {.struct_size = sizeof put_ops,
                                    .write = put_write,
                                    .commit = put_commit,
                                    .abandon = put_abandon};

static stk_status cache_put_begin(stk_store *base, const char *key, const stk_store_call *call,
                                  stk_put **out, stk_error *err)
{
    stk__cache_store *store = (stk__cache_store *)base;
    const size_t length = strlen(key) + 1;
    cache_put *put = stk__calloc(base->context, 1, sizeof *put + length);

    *out = NULL;
    if (!put)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to write '%.200s'", key);
    const stk_status status = stk__store_put_begin(store->inner, key, call, &put->inner, err);
    if (status != STK_OK) {
        stk__free(base->context, put);
        return status;
    }
    put->base.ops = &put_ops;
    put->store = store;
    memcpy(put->key, key, length);
    *out = &put->base;
    return STK_OK;
}

static stk_status cache_remove(stk_store *base, const char *key, const stk_store_call *call,
                               stk_error *err)
{
    stk__cache_store *store = (stk__cache_store *)base;

    if (!STK__STORE_HAS(store->inner->ops, remove))
        return lacks(store, "remove", err);
    const stk_status status = store->inner->ops->remove(store->inner, key, call, err);
    stk__cache_forget(store, key);
    return status;
}

static stk_status cache_copy(stk_store *base, const char *from, const char *to,
                             const stk_store_call *call, stk_error *err)
{
    stk__cache_store *store = (stk__cache_store *)base;

    if (!STK__STORE_HAS(store->inner->ops, copy))
        return lacks(store, "copy", err);
    const stk_status status = store->inner->ops->copy(store->inner, from, to, call, err);
    stk__cache_forget(store, to);
    return status;
}

static void cache_know(stk_store *base, const char *key, const stk_object_info *info)
{
    stk__cache_store *store = (stk__cache_store *)base;

    stk__cache_note(store, key, info);
    stk__store_know(store->inner, key, info);
}

bool stk__cache_folder(const stk_store *base, const char **folder, uint64_t *of)
{
    const stk__cache_store *store = (const stk__cache_store *)base;

    if (base->ops != &stk__store_cache || store->room.folder < 0)
        return false;
    *folder = store->dir;
    *of = store->room.store;
    return true;
}

/* Reads that miss are the dear ones, so those are planned for. */
static void cache_limits(stk_store *base, stk_store_limits *out)
{
    stk__store_limits(((stk__cache_store *)base)->inner, out);
    out->ends = false;
}

static stk_status cache_describe(stk_store *base, const char *key,
                                 void (*line)(void *user, const char *name, const char *value),
                                 void *user, stk_error *err)
{
    stk__cache_store *store = (stk__cache_store *)base;
    const stk__cache_stats *s = &store->stats;
    const uint64_t all = atomic_load(&s->read_bytes), hits = atomic_load(&s->hit_bytes),
                   used = stk__cache_room_used(&store->room);
    char text[STK_ERROR_TEXT];

    snprintf(text, sizeof text, "%.400s%s", store->dir,
             !store->kept            ? ", which cannot be used: all is read below"
             : store->room.state < 0 ? ", which cannot be written: nothing more is kept"
                                     : "");
    line(user, "cache", text);
    snprintf(text, sizeof text, "%" PRIu64 " of %" PRIu64 " bytes", used, store->room.size);
    line(user, "cache used", text);
    snprintf(text, sizeof text, "%" PRIu64 ", %" PRIu64 " bytes", atomic_load(&s->reads), all);
    line(user, "cache reads", text);
    snprintf(text, sizeof text, "%" PRIu64 " bytes, %.4g %%", hits,
             all ? 100.0 * (double)hits / (double)all : 0.0);
    line(user, "cache hits", text);
    snprintf(text, sizeof text, "%" PRIu64 ", %" PRIu64 " bytes", atomic_load(&s->fetches),
             atomic_load(&s->fetched));
    line(user, "reads below", text);
    snprintf(text, sizeof text,
             "%" PRIu64 " bytes, %" PRIu64 " not, %" PRIu64 " files evicted, %" PRIu64
             " blocks found damaged",
             atomic_load(&s->kept), atomic_load(&s->not_kept), atomic_load(&store->room.evicted),
             atomic_load(&s->wrong));
    line(user, "kept", text);
    if (STK__STORE_HAS(store->inner->ops, describe))
        return store->inner->ops->describe(store->inner, key, line, user, err);
    return STK_OK;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static void end_all(stk__cache_store *store)
{
    pthread_mutex_lock(&store->mutex);
    store->stopping = true;
    pthread_mutex_unlock(&store->mutex);
    stk__cache_poller_end(store);
    stk__cache_readings_end(store);
    stk__cache_askers_end(store);
    /* Those that were canceled and have not ended; then those that are to be kept. */
    stk__cache_keeper_end(store);
    pthread_mutex_lock(&store->mutex);
    while (store->num_fetches)
        pthread_cond_wait(&store->idle, &store->mutex);
    pthread_mutex_unlock(&store->mutex);
}

static void cache_close(stk_store *base)
{
    stk__cache_store *store = (stk__cache_store *)base;
    stk_context *ctx = base->context;

    /* After fork() the locks may be held by threads that do not exist here: nothing can be given
     * back. */
    if (stk__context_forked(ctx))
        return;
    end_all(store);
    stk__cache_room_close(&store->room);
    stk_store_close(&store->kept);
    stk_store_close(&store->inner);
    stk__free(ctx, store->ids.table);
    pthread_cond_destroy(&store->look);
    pthread_cond_destroy(&store->work);
    pthread_cond_destroy(&store->asked);
    pthread_cond_destroy(&store->idle);
    pthread_mutex_destroy(&store->mutex);
    stk__free(ctx, store->dir);
    stk__free(ctx, store);
    stk__context_unref(ctx);
}

static uint64_t mix(uint64_t hash, const void *data, size_t length)
{
    return XXH3_64bits_withSeed(data, length, hash);
}

/* The same of what a URL without wrappers names. A path that does not say where it begins is one of
 * this folder. */
static uint64_t hash_unwrapped(stk_context *ctx, const char *text, const stk__url *url)
{
    char path[STK_MAX_OBJECT_KEY], real[PATH_MAX];
    const stk_store_ops *driver = url->driver;
    uint64_t hash = mix(0, driver->name, strlen(driver->name));

    if (url->local && stk__url_path(url, text, path, sizeof path, NULL) == STK_OK &&
        realpath(*path ? path : ".", real))
        return mix(hash, real, strlen(real));
    if (strcmp(driver->name, stk__store_mem.name) == 0) {
        /* Its identities are those of one process. */
        const uint64_t own[] = {(uint64_t)getpid(), (uint64_t)(uintptr_t)ctx};
        hash = mix(hash, own, sizeof own);
    }
    if (!memmem(url->path, url->path_length, "//", 2) && getcwd(real, sizeof real))
        hash = mix(hash, real, strlen(real));
    hash = mix(hash, url->path, url->path_length);
    /* The query of a store without options is a part of its address. */
    if (url->query && *url->query && !(STK__STORE_HAS(driver, options)))
        hash = mix(hash, url->query, strlen(url->query));
    return hash;
}

/* Hash of what the keys of a store are below: its URL without wrappers and options, which do not
 * change the bytes of an object. */
static stk_status hash_store(stk_context *ctx, const char *text, uint64_t *out, stk_error *err)
{
    stk__store_given given;
    stk__url url;

    STK_TRY(stk__url_parse(ctx, text, &url, err));
    if (!url.inner) {
        *out = hash_unwrapped(ctx, text, &url);
        return STK_OK;
    }
    STK_TRY(stk__store_given_take(ctx, text, &url, &given, err));
    stk__url_scan(ctx, given.url, &url);
    const stk_status status = hash_store(ctx, url.inner, out, err);
    stk__store_given_release(ctx, &given);
    return status;
}

static stk_status check_options(const stk__cache_options *o, const char *text, stk_error *err)
{
    if (!o->dir || !*o->dir)
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                         "'%.200s' lacks its folder; write %.200s%cdir=FOLDER, a folder of a local "
                         "disk",
                         text, text, strchr(text, '?') ? '&' : '?');
    if (o->block && (o->block < BLOCK_LEAST || (o->block & (o->block - 1))))
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                         "block=%" PRIu64 " of a cache is no power of two of 4096 or more; "
                         "leave it out, or write 64KiB",
                         o->block);
    return STK_OK;
}

/* Open what is kept; whatever fails there is warned of. */
static stk_status open_kept(stk__cache_store *store, const char *url, stk_error *err)
{
    stk_context *ctx = store->base.context;

    uint64_t hash;

    STK_TRY(hash_store(ctx, url, &hash, err));
    stk__cache_room_open(ctx, &store->options, hash, &store->room);
    if (store->room.folder < 0)
        return STK_OK;
    char *path = stk__format(ctx, "%s/" STK__CACHE_OWN, store->dir);
    if (!path)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to open '%.200s'", url);
    const stk_status status = stk__file_open_folder(ctx, path, NULL, &store->kept, err);
    stk__free(ctx, path);
    return status;
}

static stk_status cache_open(stk_context *ctx, const char *text, const void *options,
                             stk_store **out, stk_error *err)
{
    stk_store *inner = NULL;
    stk__url url;

    *out = NULL;
    STK_TRY(stk__url_parse(ctx, text, &url, err));
    if (!url.inner)
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                         "'%.200s' wraps nothing; write cache+URL, such as "
                         "cache+file:///data?dir=/tmp/cache",
                         text);
    STK_TRY(check_options(options, text, err));
    STK_TRY(stk__store_open_url(ctx, url.inner, &inner, err));
    stk__cache_store *store = stk__calloc(ctx, 1, sizeof *store);
    if (!store) {
        stk_store_close(&inner);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to open '%.200s'", text);
    }
    store->base.ops = &stk__store_cache;
    store->base.context = stk__context_ref(ctx);
    store->inner = inner;
    store->options = *(const stk__cache_options *)options;
    store->dir = stk__strdup(ctx, store->options.dir);
    store->options.dir = store->dir;
    store->most_bytes = STK_MIN(MOST_BUFFERS, stk__context_memory_limit(ctx) / BUFFERS_PART);
    store->room.folder = store->room.state = -1;
    stk__cache_round_begin(&store->round);
    pthread_mutex_init(&store->mutex, NULL);
    pthread_cond_init(&store->idle, NULL);
    pthread_cond_init(&store->asked, NULL);
    pthread_cond_init(&store->work, NULL);
    stk__cond_init(&store->look);
    const stk_status status = store->dir ? open_kept(store, url.inner, err)
                                         : stk__fail(err, STK_ENOMEM, STK_STAGE_STORE,
                                                     "no memory to open '%.200s'", text);
    if (status != STK_OK) {
        cache_close(&store->base);
        return status;
    }
    *out = &store->base;
    return STK_OK;
}

const stk_store_ops stk__store_cache = {
    .struct_size = sizeof(stk_store_ops),
    .name = "cache",
    .doc = "another store, of which what was read is kept on a local disk",
    .options = &stk__cache_option_table,
    .open = cache_open,
    .close = cache_close,
    .submit = stk__cache_submit,
    .cancel = stk__cache_cancel,
    .stat = cache_stat,
    .list = cache_list,
    .put = cache_put_begin,
    .remove = cache_remove,
    .limits = cache_limits,
    .know = cache_know,
    .copy = cache_copy,
    .read_now = stk__cache_read_now,
    .describe = cache_describe,
};
