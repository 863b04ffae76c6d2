/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects in memory: mem://NAME holds them for as long as the context lives, whoever has it open.
 * An object never changes; putting one under a key that exists replaces it. A replaced or removed
 * object is freed when the last read of it has ended, except that one which has ever been mapped is
 * kept until the context ends.
 */
#include "store/mem.h"

#include <xxhash.h>

#include "base/slot.h"
#include "store/url.h"

#define SMALL_COPY 4096 /* bytes copied under the lock, which is cheaper than to pin the object */

/* ---- Reading ---- */

static void copy_pinned(stk__mem_store *store, stk__mem_object *o, const stk_read *read,
                        uint64_t length)
{
    stk__mem_space *s = store->space;

    memcpy(read->data, o->data + read->offset, (size_t)length);
    pthread_mutex_lock(&s->mutex);
    bool last = --o->readers == 0 && !o->listed && !o->mapped;
    pthread_mutex_unlock(&s->mutex);
    if (last)
        stk__mem_free(s->context, o);
}

static uint64_t identity_of(const stk__mem_object *o)
{
    const uint64_t parts[2] = {o->size, o->serial};

    return XXH3_64bits(parts, sizeof parts);
}

static stk_status mem_submit(stk_store *base, stk_read *read)
{
    stk__mem_store *store = (stk__mem_store *)base;
    stk_status status = STK_OK;
    stk__mem_object *pinned = NULL;
    uint64_t length = 0; /* of the bytes that there are */

    if (!read->key)
        return STK_EINVAL;
    read->system_error = 0;
    pthread_mutex_lock(&store->space->mutex);
    stk__mem_object *o = stk__mem_find_locked(store, read->key);
    if (o)
        length = STK_MIN(read->length, o->size - STK_MIN(read->offset, o->size));
    if (!o) {
        status = STK_ENOENT;
    } else if (!read->up_to && (length < read->length || read->offset > o->size)) {
        status = STK_ETRUNCATED;
    } else if (length > SMALL_COPY) {
        pinned = o;
        o->readers++;
    } else if (length) {
        memcpy(read->data, o->data + read->offset, (size_t)length);
    }
    if (o && read->identity)
        *read->identity = identity_of(o);
    pthread_mutex_unlock(&store->space->mutex);
    if (pinned)
        copy_pinned(store, pinned, read, length);
    if (read->up_to)
        read->got = length;
    read->done(read, status);
    return STK_OK;
}

/* Every read has ended within submit. */
static void mem_cancel(stk_store *store, stk_read *read)
{
    (void)store, (void)read;
}

static stk_status mem_map(stk_store *base, const char *key, const void **data, uint64_t *size)
{
    stk__mem_store *store = (stk__mem_store *)base;

    pthread_mutex_lock(&store->space->mutex);
    stk__mem_object *o = stk__mem_find_locked(store, key);
    if (o) {
        o->mapped = true;
        *data = o->data;
        *size = o->size;
    }
    pthread_mutex_unlock(&store->space->mutex);
    return o ? STK_OK : STK_ENOENT;
}

static void describe(const stk__mem_object *o, stk_object_info *out)
{
    out->size = o->size;
    out->identity = identity_of(o);
}

/* Whether some object lies below the folder `key` (with or without '/' at its end; "": the root).
 */
static bool is_folder_locked(const stk__mem_store *store, const char *key)
{
    char folder[STK_MAX_OBJECT_KEY + 1];
    size_t length = strlen(key);

    if (length == 0)
        return true;
    memcpy(folder, key, length);
    if (folder[length - 1] != '/')
        folder[length++] = '/';
    folder[length] = 0;
    size_t at = stk__mem_place_locked(store->space, store, folder);
    if (at == store->space->count)
        return false;
    const char *found = store->space->objects[at]->key;
    return strncmp(found, store->prefix, store->prefix_length) == 0 &&
           strncmp(found + store->prefix_length, folder, length) == 0;
}

static stk_status mem_stat(stk_store *base, const char *key, const stk_store_call *call,
                           stk_object_info *out, stk_error *err)
{
    stk__mem_store *store = (stk__mem_store *)base;

    STK_TRY(stk__key_check(key, err));
    pthread_mutex_lock(&store->space->mutex);
    stk__mem_object *o = stk__mem_find_locked(store, key);
    if (o)
        describe(o, out);
    else
        out->is_folder = is_folder_locked(store, key);
    pthread_mutex_unlock(&store->space->mutex);
    if (!o && !out->is_folder)
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_STORE, key, STK_NO_OFFSET,
                            "'%.200s' does not exist in mem://%.100s", key, store->space->name);
    return STK_OK;
}

/*
 * Take what follows `key` (a name in the folder of `length` bytes that `key` begins with) into
 * `key` and `info`: an object, or a folder once for all that is in it. False at the end. The list
 * may change between two calls.
 */
static bool next_entry(stk__mem_store *store, char *key, size_t length, stk_object_info *info)
{
    stk__mem_space *s = store->space;
    bool found = false;

    *info = (stk_object_info){.struct_size = sizeof *info};
    pthread_mutex_lock(&s->mutex);
    size_t at = stk__mem_place_locked(s, store, key);
    if (at < s->count && strncmp(s->objects[at]->key, store->prefix, store->prefix_length) == 0) {
        const char *name = s->objects[at]->key + store->prefix_length;
        const char *slash = strchr(name + STK_MIN(length, strlen(name)), '/');
        found = strncmp(name, key, length) == 0;
        if (found) {
            describe(s->objects[at], info);
            info->is_folder = slash != NULL;
            info->size = slash ? 0 : info->size;
            info->identity = slash ? 0 : info->identity;
            size_t n = slash ? (size_t)(slash - name) : strlen(name);
            memcpy(key, name, n);
            key[n] = 0;
        }
    }
    pthread_mutex_unlock(&s->mutex);
    return found;
}

static stk_status mem_list(stk_store *base, const char *prefix, const stk_store_call *call,
                           stk_list_fn *each, void *user, stk_error *err)
{
    stk__mem_store *store = (stk__mem_store *)base;
    char key[STK_MAX_OBJECT_KEY + 2], shown[STK_MAX_OBJECT_KEY + 2];
    stk_object_info info = {.struct_size = sizeof info};

    STK_TRY(stk__key_check(prefix, err));
    pthread_mutex_lock(&store->space->mutex);
    bool folder = is_folder_locked(store, prefix);
    pthread_mutex_unlock(&store->space->mutex);
    if (!folder)
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_STORE, prefix, STK_NO_OFFSET,
                            "there is no folder '%.200s' in mem://%.100s", prefix,
                            store->space->name);
    size_t length = strlen(prefix);
    memcpy(key, prefix, length + 1);
    if (length && key[length - 1] != '/') {
        key[length++] = '/';
        key[length] = 0;
    }
    while (next_entry(store, key, length, &info)) {
        size_t n = strlen(key);
        memcpy(shown, key, n + 1);
        STK_TRY(each(user, shown, &info));
        /* On: behind all that is in a folder ('0' follows '/'), or behind the object itself. */
        key[n] = info.is_folder ? '/' + 1 : '\1';
        key[n + 1] = 0;
    }
    return STK_OK;
}

/* ---- Spaces, opening, closing ---- */

static void free_spaces(stk_context *ctx, void *data)
{
    for (stk__mem_space *s = data, *next; s; s = next) {
        next = s->next;
        for (size_t i = 0; i < s->count; i++)
            stk__mem_free(ctx, s->objects[i]);
        for (stk__mem_object *o = s->graveyard, *after; o; o = after) {
            after = o->next;
            stk__mem_free(ctx, o);
        }
        stk__free(ctx, s->objects);
        pthread_mutex_destroy(&s->mutex);
        stk__free(ctx, s);
    }
}

/* Find the space of a name among those of the context, or add the one given. `user` is a space of
 * that name, which is replaced by the one found. */
static stk_status adopt_space(stk_context *ctx, stk__slot *slot, void *user)
{
    stk__mem_space **wanted = user;

    (void)ctx;
    for (stk__mem_space *s = slot->data; s; s = s->next) {
        if (strcmp(s->name, (*wanted)->name) == 0) {
            *wanted = s;
            return STK_OK;
        }
    }
    (*wanted)->next = slot->data;
    slot->data = *wanted;
    slot->destroy = free_spaces;
    return STK_OK;
}

static stk_status find_space(stk_context *ctx, const char *name, size_t length,
                             stk__mem_space **out)
{
    stk__mem_space *made = stk__calloc(ctx, 1, sizeof *made + length + 1);

    if (!made)
        return STK_ENOMEM;
    made->context = ctx;
    memcpy(made->name, name, length);
    pthread_mutex_init(&made->mutex, NULL);
    *out = made;
    STK_TRY(stk__context_slot(ctx, STK__SLOT_MEM, adopt_space, out));
    if (*out != made) {
        pthread_mutex_destroy(&made->mutex);
        stk__free(ctx, made);
    }
    return STK_OK;
}

static void mem_close(stk_store *base)
{
    stk_context *ctx = base->context;

    if (stk__context_forked(ctx))
        return;
    stk__free(ctx, base);
    stk__context_unref(ctx);
}

static stk_status mem_open(stk_context *ctx, const char *text, const void *options, stk_store **out,
                           stk_error *err)
{
    char path[STK_MAX_OBJECT_KEY];
    stk__url url;

    (void)options;
    *out = NULL;
    STK_TRY(stk__url_parse(ctx, text, &url, err));
    STK_TRY(stk__url_decode(url.path, url.path_length, path, sizeof path, err));
    if (url.query && url.query[0])
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                         "'%.200s' is not an option of mem:, which has none", url.query);
    char *name = path;
    while (*name == '/')
        name++;
    char *folder = name + strcspn(name, "/");
    size_t name_length = (size_t)(folder - name);
    while (*folder == '/')
        folder++;
    size_t folder_length = strlen(folder);
    while (folder_length && folder[folder_length - 1] == '/')
        folder_length--;
    folder[folder_length] = 0;
    if (name_length == 0)
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                         "'%.200s' lacks a name; write mem://NAME", text);
    STK_TRY(stk__key_check(folder, err));

    stk__mem_store *store = stk__calloc(ctx, 1, sizeof *store + folder_length + 2);
    if (!store || find_space(ctx, name, name_length, &store->space) != STK_OK) {
        stk__free(ctx, store);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to open '%.200s'", text);
    }
    store->base.ops = &stk__store_mem;
    store->base.context = ctx;
    pthread_mutex_lock(&store->space->mutex);
    bool exists = is_folder_locked(store, folder);
    pthread_mutex_unlock(&store->space->mutex);
    if (!exists) {
        stk__free(ctx, store);
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_STORE, folder, STK_NO_OFFSET,
                            "'%.200s' does not exist: mem://%.*s holds nothing below '%.200s'",
                            text, (int)STK_MIN(name_length, 100u), name, folder);
    }
    if (folder_length) {
        memcpy(store->prefix, folder, folder_length);
        store->prefix[folder_length] = '/';
        store->prefix_length = folder_length + 1;
    }
    stk__context_ref(ctx);
    *out = &store->base;
    return STK_OK;
}

/* A read is a copy: reading in vain gains nothing, and one thread is as good as many. */
static void mem_limits(stk_store *store, stk_store_limits *out)
{
    (void)store;
    out->coalesce_gap = 0;
    out->max_read = 0;
    out->io_depth = 16;
}

const stk_store_ops stk__store_mem = {
    .struct_size = sizeof(stk_store_ops),
    .name = "mem",
    .doc = "memory of this process, by name",
    .open = mem_open,
    .close = mem_close,
    .submit = mem_submit,
    .cancel = mem_cancel,
    .stat = mem_stat,
    .list = mem_list,
    .put = stk__mem_put,
    .remove = stk__mem_remove,
    .map = mem_map,
    .limits = mem_limits,
};
