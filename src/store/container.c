/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files in an object of another store, as a store. Reads are those of the store below; what else is
 * asked is answered from the tables, which were read when the object was opened.
 */
#include "store/container_store.h"

#include <stdio.h>
#include <xxhash.h>

#include "base/options.h"
#include "store/url.h"

#define LEAD_MOST 8192 /* bytes in front of a run that are worth looking at without a read */

const stk_option stk__container_option_list[STK__CONTAINER_OPTION_COUNT] = {
    {.name = "unpacked_cache",
     .type = STK_OPTION_SIZE,
     .offset = offsetof(stk__container_options, unpacked_cache),
     .initial = "256MiB",
     .min = 0,
     .max = 1e15,
     .doc = "Bytes of unpacked files that are kept for reads of parts of them. A packed file that "
            "is larger can only be read as a whole."},
};

stk_status stk__container_path_of(const stk__container_store *store, const char *key,
                                  char path[STK_MAX_OBJECT_KEY], stk_error *err)
{
    size_t length = store->prefix_length;

    STK_TRY(stk__key_check(key, err));
    memcpy(path, store->prefix, length);
    for (const char *at = key; *at; at++) {
        if (*at == '/' && (!length || path[length - 1] == '/'))
            continue;
        if (length + 1 == STK_MAX_OBJECT_KEY)
            return stk__key_below(store->prefix, key, path, err);
        path[length++] = *at;
    }
    while (length && path[length - 1] == '/')
        length--;
    path[length] = 0;
    return STK_OK;
}

stk_status stk__container_find_run(const stk__container *c, const stk__container_entry *file,
                                   uint64_t offset, stk__container_run *out)
{
    uint64_t end;

    *out = (stk__container_run){0};
    STK_TRY(c->format->extent(c, c->tables, file->payload, file->length, offset, out));
    if (!out->length || out->length > file->length - offset || out->length > out->decoded ||
        out->skip > out->decoded - out->length || (out->raw && out->stored != out->decoded) ||
        !stk__add_size(out->at, out->stored, &end) || !stk__add_size(end, out->lead, &end) ||
        end > c->size)
        return STK_EFORMAT;
    return STK_OK;
}

/* ---- Looking --------------------------------------------------------------------------------- */

static void describe(const stk__container *c, const stk__container_entry *entry,
                     stk_object_info *out)
{
    const uint64_t parts[4] = {c->identity, entry->payload, entry->length,
                               (uint64_t)entry->mtime_ns};

    out->is_folder = entry->is == STK__CONTAINED_FOLDER;
    out->size = out->is_folder ? 0 : entry->length;
    out->mtime_ns = entry->mtime_ns;
    /* Of an object that nobody can tell from its successor, nothing in it can be told either. */
    out->identity = c->identity ? XXH3_64bits(parts, sizeof parts) : 0;
}

stk_status stk__container_stat(stk_store *base, const char *key, const stk_store_call *call,
                               stk_object_info *out, stk_error *err)
{
    stk__container_store *store = (stk__container_store *)base;
    const stk__container *c = store->container;
    char path[STK_MAX_OBJECT_KEY];

    (void)call;
    STK_TRY(stk__container_path_of(store, key, path, err));
    const stk__container_entry *entry = stk__container_find(c, path);
    if (entry && entry->is == STK__CONTAINED_OTHER)
        return stk__fail_at(err, STK_EKIND, STK_STAGE_STORE, key, STK_NO_OFFSET,
                            "'%.200s' in the %s '%.200s' is a link or a device, and cannot be read",
                            path, c->format->word, c->url);
    if (entry)
        describe(c, entry, out);
    else
        out->is_folder = stk__container_is_folder(c, path);
    if (entry || out->is_folder)
        return STK_OK;
    return stk__fail_at(err, STK_ENOENT, STK_STAGE_STORE, key, STK_NO_OFFSET,
                        "'%.200s' does not exist in the %s '%.200s'; check its name", path,
                        c->format->word, c->url);
}

stk_status stk__container_list(stk_store *base, const char *prefix, const stk_store_call *call,
                               stk_list_fn *each, void *user, stk_error *err)
{
    stk__container_store *store = (stk__container_store *)base;
    const stk__container *c = store->container;
    char path[STK_MAX_OBJECT_KEY + 1], key[STK_MAX_OBJECT_KEY + 1];

    (void)call;
    STK_TRY(stk__container_path_of(store, prefix, path, err));
    if (!stk__container_is_folder(c, path))
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_STORE, prefix, STK_NO_OFFSET,
                            "there is no folder '%.200s' in the %s '%.200s'", path, c->format->word,
                            c->url);
    size_t length = strlen(path);
    if (length)
        memcpy(path + length++, "/", 2);
    size_t at = stk__container_place(c, path);
    while (at < c->count) {
        const stk__container_entry *entry = &c->entries[at++];
        const char *name = stk__container_path(c, entry);
        stk_object_info info = {.struct_size = sizeof info};
        if (strncmp(name, path, length) != 0)
            break;
        if (!name[length] || entry->is == STK__CONTAINED_OTHER)
            continue;
        const char *slash = strchr(name + length, '/');
        const size_t n = slash ? (size_t)(slash - name) : strlen(name);
        memcpy(key, name, n);
        key[n] = 0;
        if (slash) {
            /* Once for all that is in the folder ('0' follows '/'), and not where it was named. */
            const bool named = stk__container_find(c, key) != NULL;
            key[n] = '/' + 1;
            key[n + 1] = 0;
            at = stk__container_place(c, key);
            key[n] = 0;
            info.is_folder = true;
            if (named)
                continue;
        } else {
            describe(c, entry, &info);
        }
        STK_TRY(each(user, key + store->prefix_length, &info));
    }
    return STK_OK;
}

/* ---- Without waiting ------------------------------------------------------------------------- */

/* The run at `offset` of a file, where it can be said without waiting. */
static bool find_run_now(stk__container_store *store, const stk__container_entry *file,
                         uint64_t offset, stk__container_run *out)
{
    stk__container *const c = store->container;
    const char *reason;
    unsigned char lead[LEAD_MOST];

    if (stk__container_find_run(c, file, offset, out) != STK_OK)
        return false;
    if (!out->lead)
        return true;
    return out->lead <= sizeof lead &&
           stk__store_read_now(store->inner, store->key, out->at, out->lead, lead) &&
           c->format->settle(c, c->tables, file, lead, &reason) == STK_OK &&
           stk__container_find_run(c, file, offset, out) == STK_OK && !out->lead;
}

/* The entry of a file that a key names; NULL: it names none. */
static const stk__container_entry *file_of(const stk__container_store *store, const char *key)
{
    char path[STK_MAX_OBJECT_KEY];

    if (stk__container_path_of(store, key, path, NULL) != STK_OK)
        return NULL;
    const stk__container_entry *file = stk__container_find(store->container, path);
    return file && file->is == STK__CONTAINED_FILE ? file : NULL;
}

bool stk__container_file_now(stk__container_store *store, const stk__container_entry *file,
                             uint64_t offset, uint64_t length, bool unpack, void *data)
{
    stk__container_run run;

    if (!find_run_now(store, file, offset, &run) || length > run.length)
        return false;
    if (!run.raw)
        return unpack && run.stored && length == run.decoded &&
               stk__container_unpack_now(store, &run, data);
    if (!stk__store_read_now(store->inner, store->key, run.at + run.skip, length, data))
        return false;
    /* submit() names what is wrong. */
    return length != file->length || length != run.decoded ||
           stk__container_sum_right(store->container, file, &run, data);
}

bool stk__container_unpacks(stk_store *base, const char *key, uint64_t *bytes, uint64_t *most)
{
    stk__container_run run;

    if (base->ops->close != stk__container_close)
        return false;
    const stk__container_store *store = (const stk__container_store *)base;
    const stk__container_entry *file = file_of(store, key);
    if (!file || !file->length ||
        stk__container_find_run(store->container, file, 0, &run) != STK_OK || run.raw)
        return false;
    *bytes = run.decoded;
    *most = store->options.unpacked_cache;
    return true;
}

stk_status stk__container_read_now(stk_store *base, const char *key, uint64_t offset,
                                   uint64_t length, void *data)
{
    stk__container_store *store = (stk__container_store *)base;
    const stk__container_entry *file = file_of(store, key);

    if (!file || offset > file->length || length > file->length - offset ||
        stk__container_changed(store))
        return STK_EAGAIN;
    return !length || stk__container_file_now(store, file, offset, length, true, data) ? STK_OK
                                                                                       : STK_EAGAIN;
}

stk_status stk__container_map(stk_store *base, const char *key, const void **data, uint64_t *size)
{
    stk__container_store *store = (stk__container_store *)base;
    stk_store *const inner = store->inner;
    const stk__container_entry *file = file_of(store, key);
    const void *all;
    uint64_t all_size;
    stk__container_run e;

    if (!file || !file->length || !STK__STORE_HAS(inner->ops, map) ||
        !find_run_now(store, file, 0, &e) || !e.raw || e.length != file->length)
        return STK_ENOTSUP;
    STK_TRY(inner->ops->map(inner, store->key, &all, &all_size));
    if (all_size != store->container->size)
        return STK_ENOTSUP;
    *data = (const char *)all + e.at + e.skip;
    *size = file->length;
    return STK_OK;
}

void stk__container_limits(stk_store *base, stk_store_limits *out)
{
    *out = ((stk__container_store *)base)->limits;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

void stk__container_close(stk_store *base)
{
    stk__container_store *store = (stk__container_store *)base;
    stk_context *ctx = base->context;

    if (stk__context_forked(ctx))
        return;
    stk__container_reads_end(store);
    stk_store_close(&store->inner);
    stk__container_give(store->container);
    pthread_cond_destroy(&store->work);
    pthread_cond_destroy(&store->idle);
    pthread_mutex_destroy(&store->mutex);
    stk__free(ctx, store->key);
    stk__free(ctx, store);
    stk__context_unref(ctx);
}

/* A URL without "!/": say where that belongs, by what there is. */
static stk_status no_mark(stk_context *ctx, const stk__container_format *format, const char *text,
                          const stk__url *url, stk_error *err)
{
    size_t length = url->path_length;

    while (length > 1 && url->path[length - 1] == '/')
        length--;
    char *meant = stk__format(ctx, "%.*s", (int)length, url->path);
    const stk_status status = meant ? stk__container_enter(ctx, &meant, err) : STK_ENOMEM;
    const size_t found = meant ? strlen(meant) : 0;
    const bool below = found > length && !stk__ends_with(meant, found, "!/");

    if (status == STK_OK && below)
        stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                  "'%.200s' does not say where the %s ends and the path in it begins; write %.200s",
                  text, format->word, meant);
    else if (status == STK_OK)
        stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                  "'%.200s' does not say where the %s ends and the path in it begins; write "
                  "%s:%.*s!/ for all of it, %s:%.*s!/FOLDER for a folder of it",
                  text, format->word, format->name, (int)STK_MIN(length, 200u), url->path,
                  format->name, (int)STK_MIN(length, 200u), url->path);
    else
        stk__fail(err, status, STK_STAGE_STORE, "no memory to open '%.200s'", text);
    stk__free(ctx, meant);
    return status == STK_OK ? STK_EINVAL : status;
}

/* The URL of the object, with what of the query is not the container's own; and the folder in it.
 */
static stk_status take_url(stk_context *ctx, const stk__container_format *format, const char *text,
                           char **object, char folder[STK_MAX_OBJECT_KEY], stk_error *err)
{
    stk__url url;

    STK_TRY(stk__url_parse(ctx, text, &url, err));
    if (!url.object_length)
        return no_mark(ctx, format, text, &url, err);
    STK_TRY(stk__url_decode(url.path + url.object_length, url.path_length - url.object_length,
                            folder, STK_MAX_OBJECT_KEY, err));
    const int length = (int)(url.object_length - 2);
    const bool more = url.query && *url.query;
    *object =
        stk__format(ctx, "%.*s%s%s", length, url.path, more ? "?" : "", more ? url.query : "");
    return *object
               ? STK_OK
               : stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to open '%.200s'", text);
}

/* Take the container of an object that is named by its URL. */
static stk_status take_object(stk__container_store *store, const stk__container_format *format,
                              const char *object, stk_error *err)
{
    stk_context *ctx = store->base.context;
    char key[STK_MAX_OBJECT_KEY];

    STK_TRY(stk_store_open(ctx, object, &store->inner, key, sizeof key, err));
    store->key = stk__strdup(ctx, key);
    if (!store->key)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to open '%.200s'", object);
    stk__store_limits(store->inner, &store->limits);
    store->limits.ends = false;
    return stk__container_take(ctx, format, object, store->inner, store->key, &store->container,
                               err);
}

/* The folder that all keys are below. */
static stk_status take_folder(stk__container_store *store, const char *folder, stk_error *err)
{
    const stk__container *c = store->container;
    char path[STK_MAX_OBJECT_KEY];

    const char *name = folder + strspn(folder, "/");
    STK_TRY(stk__container_path_of(store, name, path, err));
    if (!stk__container_is_folder(c, path))
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_STORE, path, STK_NO_OFFSET,
                            "'%.200s' is no folder in the %s '%.200s'; check its name", path,
                            c->format->word, c->url);
    const size_t length = strlen(path);
    if (length) {
        memcpy(store->prefix, path, length);
        memcpy(store->prefix + length, "/", 2);
        store->prefix_length = length + 1;
    }
    return STK_OK;
}

stk_status stk__container_open(const stk__container_format *format, const stk_store_ops *ops,
                               stk_context *ctx, const char *text, const void *options,
                               stk_store **out, stk_error *err)
{
    char folder[STK_MAX_OBJECT_KEY], *object;

    *out = NULL;
    STK_TRY(take_url(ctx, format, text, &object, folder, err));
    stk__container_store *store = stk__calloc(ctx, 1, sizeof *store + strlen(folder) + 2);
    stk_status status;
    if (!store) {
        status = stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to open '%.200s'", text);
        goto out;
    }
    store->base.ops = ops;
    store->base.context = stk__context_ref(ctx);
    store->options = *(const stk__container_options *)options;
    pthread_mutex_init(&store->mutex, NULL);
    pthread_cond_init(&store->idle, NULL);
    pthread_cond_init(&store->work, NULL);
    status = take_object(store, format, object, err);
    if (status == STK_OK)
        status = take_folder(store, folder, err);
    if (status == STK_OK)
        *out = &store->base;
    else
        stk__container_close(&store->base);
out:
    stk__free(ctx, object);
    return status;
}
