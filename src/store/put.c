/* SPDX-License-Identifier: Apache-2.0 */
/* Writing whole objects: by key of a store, or by URL. */
#include <errno.h>
#include <stdio.h>

#include "base/durable.h"
#include "base/sized.h"
#include "base/table.h"
#include "store/store.h"
#include "store/url.h"

#define COPY_BYTES ((size_t)4 << 20) /* of one read */

/* What a put may take, and for each byte in addition: 256 KiB/s is less than any storage gives that
 * a training could be run from. */
#define PUT_PATIENCE_NS  UINT64_C(120000000000)
#define PUT_NS_FOR_BYTES (UINT64_C(1000000000) / (256 << 10))

/* ---- By key ---------------------------------------------------------------------------------- */

static const stk__member members[] = {STK__MEMBER(stk_put_ops, write),
                                      STK__MEMBER(stk_put_ops, commit),
                                      STK__MEMBER(stk_put_ops, abandon)};
static const stk__given_table table = {.type = "stk_put_ops",
                                       .least = sizeof(stk_put_ops),
                                       .members = members,
                                       .num_members = STK_COUNT(members),
                                       .stage = STK_STAGE_STORE,
                                       .nameless = true};

static stk_status read_only(const stk_store *store, const char *key, stk_error *err)
{
    return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_STORE, key, STK_NO_OFFSET,
                        "a store of the kind '%s' cannot be written; choose a local folder",
                        store->ops->name);
}

stk_status stk__store_put_begin(stk_store *store, const char *key, const stk_store_call *call,
                                stk_put **out, stk_error *err)
{
    stk_put *put = NULL;
    stk_error unheard;

    err = err ? err : &unheard;
    *out = NULL;
    STK_TRY(stk__context_check(store->context, err));
    STK_TRY(stk__key_check(key, err));
    if (!STK__STORE_HAS(store->ops, put))
        return read_only(store, key, err);
    STK_TRY(stk__store_call_check(call, key, err));
    stk_status status = store->ops->put(store, key, call, &put, err);
    STK_TRY(stk__table_made(&table, store->ops->name, "put", status, put, err));
    STK_TRY(stk__table_check(&table, put->ops, err));
    *out = put;
    return STK_OK;
}

stk_status stk__store_put_commit(stk_put **put, stk_error *err)
{
    stk_put *own = *put;
    stk_error unheard;

    *put = NULL;
    return own->ops->commit(own, err ? err : &unheard);
}

void stk__store_put_abandon(stk_put **put)
{
    if (*put)
        (*put)->ops->abandon(*put);
    *put = NULL;
}

static uint64_t deadline_in(uint64_t patience_ns, uint64_t length)
{
    const uint64_t most = UINT64_MAX / 4;

    return stk__now_ns() + patience_ns +
           STK_MIN(length, most / PUT_NS_FOR_BYTES) * PUT_NS_FOR_BYTES;
}

uint64_t stk__store_put_deadline(uint64_t length)
{
    return deadline_in(PUT_PATIENCE_NS, length);
}

stk_status stk_store_put(stk_store *store, const char *key, const void *data, uint64_t length,
                         const stk_store_call *call, stk_error *err)
{
    stk_store_call own;
    stk_put *put = NULL;
    stk_error unheard;

    err = err ? err : &unheard;
    if (!store || (!data && length) || length > SIZE_MAX)
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE, "stk_store_put: an argument is NULL");
    STK_TRY(stk__store_call_take(call, 0, &own, err));
    own.length = length;
    STK_TRY(stk__store_put_begin(store, key, &own, &put, err));
    stk_status status = put->ops->write(put, data, (size_t)length, err);
    if (status == STK_OK)
        status = stk__store_put_commit(&put, err);
    stk__store_put_abandon(&put);
    return status;
}

static stk_status remove_by(stk_store *store, const char *key, const stk_store_call *call,
                            stk_error *err)
{
    stk_error unheard;

    err = err ? err : &unheard;
    STK_TRY(stk__context_check(store->context, err));
    STK_TRY(stk__key_check(key, err));
    if (!STK__STORE_HAS(store->ops, remove))
        return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_STORE, key, STK_NO_OFFSET,
                            "a store of the kind '%s' cannot remove '%.200s'", store->ops->name,
                            key);
    return store->ops->remove(store, key, call, err);
}

stk_status stk__store_remove(stk_store *store, const char *key, stk_error *err)
{
    const stk_store_call call = {.struct_size = sizeof call,
                                 .deadline_ns = stk__store_put_deadline(0)};

    return remove_by(store, key, &call, err);
}

/* ---- Places ---------------------------------------------------------------------------------- */

void stk__put_place_close(stk__put_place *place)
{
    stk_store_close(&place->store);
    stk__free(place->context, place->folder);
    place->folder = NULL;
}

void stk__put_place_rest(stk__put_place *place)
{
    if (!place->folder)
        stk__put_place_close(place);
}

/* The key of what follows the folder. */
static stk_status take_key(stk__put_place *place, const stk__url *parsed, const char *name,
                           size_t length, stk_error *err)
{
    if (!parsed->plain)
        return stk__url_decode(name, length, place->key, sizeof place->key, err);
    if (length >= sizeof place->key)
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE, "the name '%.100s...' is too long",
                         name);
    memcpy(place->key, name, length);
    place->key[length] = 0;
    return STK_OK;
}

/* Open the store of the longest part of the URL's path that it can open; the rest is the key. An
 * object store has no folders to make, and another may know the first part alone. */
static stk_status open_longest(stk__put_place *place, const char *url, const stk__url *parsed,
                               stk_error *err)
{
    const char *path = parsed->path;
    size_t cut = parsed->path_length;
    stk_status status = STK_ENOENT;
    stk__url innermost;

    stk__url_unwrap(place->context, url, &innermost);
    for (bool ended = false; status == STK_ENOENT && !ended;) {
        while (cut > 0 && path[cut - 1] != '/')
            cut--;
        /* Of a relative path the last is the folder that the process is in. */
        ended = cut == 0;
        if (ended && !innermost.local)
            break;
        STK_TRY(take_key(place, parsed, path + cut, parsed->path_length - cut, err));
        char *folder = stk__format(place->context, "%.*s%s%s%s", (int)(path + cut - url), url,
                                   ended ? "." : "", parsed->query ? "?" : "",
                                   parsed->query ? parsed->query : "");
        if (!folder)
            return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to write '%.200s'", url);
        status = stk__store_open_url(place->context, folder, &place->store, err);
        stk__free(place->context, folder);
        cut -= !ended;
    }
    if (status == STK_ENOENT)
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_STORE, url, STK_NO_OFFSET,
                            "no folder of '%.300s' can be opened", url);
    return status;
}

/* A local file: its folder is made. */
static stk_status open_local(stk__put_place *place, const char *url, const stk__url *parsed,
                             stk_error *err)
{
    char path[STK_MAX_OBJECT_KEY];

    STK_TRY(stk__url_path(parsed, url, path, sizeof path, err));
    char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    memcpy(place->key, name, strlen(name) + 1);
    if (slash == path)
        return stk__file_open_folder(place->context, "/", place->calls, &place->store, err);
    if (slash)
        *slash = 0;
    return stk__file_open_folder(place->context, slash ? path : ".", place->calls, &place->store,
                                 err);
}

/* A plain path is the path of a file, whatever it looks like; a wrapper is none. */
static void take_plain(stk__url *parsed, const char *url)
{
    if (!parsed->plain || parsed->inner)
        return;
    parsed->path = url;
    parsed->path_length = strlen(url);
    parsed->query = NULL;
}

stk_status stk__put_place_open(stk__put_place *place, const char *url, stk_error *err)
{
    stk__url parsed;

    STK_TRY(stk__url_parse(place->context, url, &parsed, err));
    take_plain(&parsed, url);
    size_t cut = parsed.path_length;
    while (cut > 0 && parsed.path[cut - 1] != '/')
        cut--;
    const size_t folder_length = (size_t)(parsed.path + cut - url);
    if (place->folder && strlen(place->folder) == folder_length &&
        memcmp(place->folder, url, folder_length) == 0 && !parsed.query)
        return take_key(place, &parsed, parsed.path + cut, parsed.path_length - cut, err);
    stk__put_place_close(place);
    if (parsed.driver == &stk__store_file)
        return open_local(place, url, &parsed, err);
    STK_TRY(open_longest(place, url, &parsed, err));
    /* Only where the whole folder was opened is it kept for the next; without memory it is not. */
    if (!strchr(place->key, '/'))
        place->folder = stk__format(place->context, "%.*s", (int)folder_length, url);
    return STK_OK;
}

stk_status stk__put_folder_open(stk_context *ctx, const char *url, stk_store **out, char *prefix,
                                stk_error *err)
{
    stk__put_place place = {.context = ctx};
    stk__url parsed;

    *out = NULL;
    STK_TRY(stk__url_parse(ctx, url, &parsed, err));
    char *below = stk__url_below(ctx, url, "x");
    if (!below)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to write '%.200s'", url);
    stk_status status = stk__put_place_open(&place, below, err);
    stk__free(ctx, below);
    if (status == STK_OK && !STK__STORE_HAS(place.store->ops, put))
        status = read_only(place.store, url, err);
    if (status == STK_OK) {
        const size_t length = strlen(place.key) - 1;
        memcpy(prefix, place.key, length);
        prefix[length] = 0;
        *out = place.store;
        place.store = NULL;
    }
    stk__put_place_close(&place);
    return status;
}

/* ---- By URL ---------------------------------------------------------------------------------- */

/* A put with the store that it goes to, and what the caller wished. */
typedef struct url_put {
    stk_put base;
    stk__put_place place;
    stk_store_call call;
    stk_put *put;
} url_put;

/* In a child all of it is the parent's still. */
static void end_url_put(url_put *put)
{
    stk_context *ctx = put->place.context;

    if (stk__context_forked(ctx))
        return;
    stk__store_put_abandon(&put->put);
    stk__put_place_close(&put->place);
    stk__free(ctx, put);
    stk__context_unref(ctx);
}

static stk_status url_put_write(stk_put *base, const void *data, size_t length, stk_error *err)
{
    url_put *put = (url_put *)base;

    STK_TRY(stk__context_check(put->place.context, err));
    return put->put->ops->write(put->put, data, length, err);
}

static stk_status url_put_commit(stk_put *base, stk_error *err)
{
    url_put *put = (url_put *)base;

    STK_TRY(stk__context_check(put->place.context, err));
    stk_status status = stk__store_put_commit(&put->put, err);
    end_url_put(put);
    return status;
}

static void url_put_abandon(stk_put *base)
{
    end_url_put((url_put *)base);
}

static const stk_put_ops url_put_ops = {
    .struct_size = sizeof(stk_put_ops),
    .write = url_put_write,
    .commit = url_put_commit,
    .abandon = url_put_abandon,
};

stk_status stk_put_open(stk_context *context, const char *url, const stk_store_call *call,
                        stk_put **out, stk_error *err)
{
    if (!context || !url || !out)
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE, "stk_put_open: an argument is NULL");
    *out = NULL;
    STK_TRY(stk__context_check(context, err));
    url_put *put = stk__calloc(context, 1, sizeof *put);
    if (!put)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to write '%.200s'", url);
    put->base.ops = &url_put_ops;
    put->place.context = stk__context_ref(context);
    stk_status status = stk__store_call_take(call, 0, &put->call, err);
    if (status == STK_OK)
        status = stk__put_place_open(&put->place, url, err);
    if (status == STK_OK)
        status = stk__store_put_begin(put->place.store, put->place.key, &put->call, &put->put, err);
    if (status != STK_OK) {
        end_url_put(put);
        return status;
    }
    *out = &put->base;
    return STK_OK;
}

stk_status stk_put_bytes(stk_context *context, const char *url, const void *data, size_t size,
                         const stk_store_call *call, stk_error *err)
{
    stk_store_call own;
    stk_put *put;

    if (!data && size)
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE, "stk_put_bytes: an argument is NULL");
    STK_TRY(stk__store_call_take(call, 0, &own, err));
    own.length = size;
    STK_TRY(stk_put_open(context, url, &own, &put, err));
    stk_status status = put->ops->write(put, size ? data : "", size, err);
    if (status == STK_OK)
        return put->ops->commit(put, err);
    put->ops->abandon(put);
    return status;
}

/* A call about so many bytes of a place. */
static stk_store_call call_of(const stk__put_place *place, uint64_t length)
{
    return (stk_store_call){.struct_size = sizeof(stk_store_call),
                            .deadline_ns = stk__store_put_deadline(length),
                            .canceled = place->canceled,
                            .user = place->user};
}

stk_status stk__url_put(stk__put_place *place, const char *url, const void *data, size_t size,
                        stk_error *err)
{
    STK_TRY(stk__put_place_open(place, url, err));
    const stk_store_call call = call_of(place, size);
    const stk_status status = stk_store_put(place->store, place->key, data, size, &call, err);
    stk__put_place_rest(place);
    return status;
}

stk_status stk__url_remove(stk__put_place *place, const char *url, stk_error *err)
{
    const stk_store_call call = call_of(place, 0);
    stk_error own;

    STK_TRY(stk__put_place_open(place, url, err));
    stk_status status = remove_by(place->store, place->key, &call, &own);
    stk__put_place_rest(place);
    if (status == STK_ENOENT)
        return STK_OK;
    if (status != STK_OK && err)
        *err = own;
    return status;
}

/* ---- Copying --------------------------------------------------------------------------------- */

static stk_status copy_bytes(stk_store *from, const char *key, stk_put *put, uint64_t size,
                             stk_error *err)
{
    const size_t room = (size_t)STK_MIN(size, COPY_BYTES);
    stk_status status = STK_OK;

    char *piece = stk__alloc_buffer(from->context, room);
    if (!piece)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to copy '%.200s'", key);
    for (uint64_t at = 0; at < size && status == STK_OK; at += room) {
        const uint64_t n = STK_MIN(size - at, room);
        status = stk_store_read(from, key, at, n, piece, err);
        if (status == STK_OK)
            status = put->ops->write(put, piece, (size_t)n, err);
    }
    stk__free(from->context, piece);
    return status;
}

static stk_status read_and_put(stk_store *from, const char *from_key, stk_store *to,
                               const char *to_key, const stk_store_call *call, uint64_t patience_ns,
                               stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};
    stk_store_call own = *call;
    stk_put *put = NULL;

    STK_TRY(stk_store_stat(from, from_key, NULL, &info, err));
    if (info.is_folder)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_STORE, from_key, STK_NO_OFFSET,
                            "'%.300s' is a folder; name an object in it", from_key);
    own.length = info.size;
    if (!own.deadline_ns)
        own.deadline_ns = deadline_in(patience_ns ? patience_ns : PUT_PATIENCE_NS, info.size);
    STK_TRY(stk__store_put_begin(to, to_key, &own, &put, err));
    stk_status status = copy_bytes(from, from_key, put, info.size, err);
    if (status == STK_OK)
        status = stk__store_put_commit(&put, err);
    stk__store_put_abandon(&put);
    return status;
}

static stk_status copy_in(stk_store *store, const char *from, const char *to,
                          const stk_store_call *call, stk_error *err)
{
    if (STK__STORE_HAS(store->ops, copy)) {
        stk_error own;
        stk_status status = store->ops->copy(store, from, to, call, &own);
        if (status != STK_ENOTSUP) {
            if (status != STK_OK && err)
                *err = own;
            return status;
        }
    }
    return read_and_put(store, from, store, to, call, 0, err);
}

/* The key of `from` in the folder of the URL `to`, or NULL where it lies elsewhere. */
static const char *key_beside(const char *from, const char *to)
{
    const char *slash = strrchr(to, '/');
    const size_t folder = slash ? (size_t)(slash + 1 - to) : 0;

    if (strpbrk(from, "?%") || strpbrk(to, "?%") || strncmp(from, to, folder) != 0 ||
        from[folder] == '/' || (folder == 0 && strchr(from, ':')))
        return NULL;
    return from + folder;
}

stk_status stk__url_copy(stk__put_place *place, const char *from, const char *to, stk_error *err)
{
    const stk_store_call call = {
        .struct_size = sizeof call, .canceled = place->canceled, .user = place->user};
    const char *beside = key_beside(from, to);
    stk_status status;

    STK_TRY(stk__put_place_open(place, to, err));
    /* The store may be that of a folder further up: then the key begins with the others. */
    const char *slash = strrchr(place->key, '/');
    const int above = slash ? (int)(slash + 1 - place->key) : 0;
    char key[STK_MAX_OBJECT_KEY];
    if (beside && *beside && stk__key_check(beside, NULL) == STK_OK &&
        (size_t)above + strlen(beside) < sizeof key) {
        snprintf(key, sizeof key, "%.*s%s", above, place->key, beside);
        status = copy_in(place->store, key, place->key, &call, err);
    } else {
        stk__put_place other = {.context = place->context, .calls = place->calls};
        status = stk__put_place_open(&other, from, err);
        if (status == STK_OK)
            status = read_and_put(other.store, other.key, place->store, place->key, &call,
                                  place->patience_ns, err);
        stk__put_place_close(&other);
    }
    stk__put_place_rest(place);
    return status;
}
