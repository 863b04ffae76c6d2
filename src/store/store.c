/* SPDX-License-Identifier: Apache-2.0 */
/* The public face of stores: opening by URL, limits, and what asks of objects. */
#include "store/store.h"

#include <errno.h>
#include <stdio.h>

#include "base/sized.h"
#include "base/table.h"
#include "store/url.h"

/* A page comes along anyway; beyond it, a second read of a cached file costs less than copying in
 * vain. */
#define FILE_COALESCE_GAP 4096
/* Large enough for a disk's best rate, small enough that several threads share one large object. */
#define FILE_MAX_READ (UINT64_C(4) << 20)
#define FILE_IO_DEPTH 64

void stk__store_limits(stk_store *store, stk_store_limits *out)
{
    *out = (stk_store_limits){.struct_size = sizeof *out,
                              .coalesce_gap = FILE_COALESCE_GAP,
                              .max_read = FILE_MAX_READ,
                              .io_depth = FILE_IO_DEPTH};
    if (STK__STORE_HAS(store->ops, limits))
        store->ops->limits(store, out);
    out->struct_size = sizeof *out;
    out->io_depth = STK_MAX(out->io_depth, 1u);
}

static const stk__member members[] = {
    STK__MEMBER(stk_store_ops, open), STK__MEMBER(stk_store_ops, close),
    STK__MEMBER(stk_store_ops, submit), STK__MEMBER(stk_store_ops, cancel),
    STK__MEMBER(stk_store_ops, stat)};
static const stk__table table = {.type = "stk_store_ops",
                                 .least = offsetof(stk_store_ops, list),
                                 .members = members,
                                 .num_members = STK_COUNT(members),
                                 .stage = STK_STAGE_STORE};

/* Open with a driver; an outsider's is held to what a store is. */
static stk_status open_with(const stk_store_ops *driver, stk_context *ctx, const char *url,
                            stk_store **out, stk_error *err)
{
    stk_store *store = NULL;
    stk_status status = driver->open(ctx, url, &store, err);

    STK_TRY(stk__table_made(&table, driver->name, "open", status, store, err));
    STK_TRY(stk__table_check(&table, store->ops, err));
    if (!store->context)
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                         "open() of the stk_store_ops of '%.64s' gave a store without its context",
                         driver->name);
    *out = store;
    return STK_OK;
}

stk_status stk__store_open_url(stk_context *ctx, const char *url, stk_store **out, stk_error *err)
{
    stk__url parsed;

    *out = NULL;
    STK_TRY(stk__url_parse(ctx, url, &parsed, err));
    return open_with(parsed.driver, ctx, url, out, err);
}

/* STK_OK when `key` is an object of the store, STK_ENOENT when it is none. */
static stk_status holds(stk_store *store, const char *key, stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};

    if (stk__key_check(key, NULL) != STK_OK)
        return STK_ENOENT;
    STK_TRY(store->ops->stat(store, key, &info, err));
    return info.is_folder ? STK_ENOENT : STK_OK;
}

/* The URL names no folder: try its folder, with the last part of the path as the key. */
static stk_status open_folder_of(stk_context *ctx, const char *url, const stk__url *parsed,
                                 stk_store **out, char *key, size_t key_size, stk_error *err)
{
    size_t cut = parsed->path_length;

    while (cut > 0 && parsed->path[cut - 1] != '/')
        cut--;
    const char *name = parsed->path + cut;
    size_t name_length = parsed->path_length - cut;
    if (name_length == 0)
        return STK_ENOENT;
    if (parsed->plain && name_length < key_size) {
        memcpy(key, name, name_length);
        key[name_length] = 0;
    } else if (parsed->plain) {
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE, "the name of '%.200s' is too long", url);
    } else {
        STK_TRY(stk__url_decode(name, name_length, key, key_size, err));
    }
    /* "dir/name?q" -> "dir/?q"; "name" -> "."; the root keeps its slash. */
    char *folder = stk__format(ctx, "%.*s%s%s%s", (int)(name - url), url, cut == 0 ? "." : "",
                               parsed->query ? "?" : "", parsed->query ? parsed->query : "");
    if (!folder)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to open '%.200s'", url);
    stk_status status = stk__store_open_url(ctx, folder, out, err);
    stk__free(ctx, folder);
    if (status == STK_OK)
        status = stk__file_name(*out, key, err);
    if (status == STK_OK)
        status = holds(*out, key, err);
    if (status != STK_OK)
        stk_store_close(out);
    return status;
}

stk_status stk_store_open(stk_context *context, const char *url, stk_store **out, char *key,
                          size_t key_size, stk_error *err)
{
    stk_error second;
    stk__url parsed;

    if (!context || !url || !out || (key && key_size == 0))
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                         "stk_store_open: an argument is NULL or empty");
    *out = NULL;
    if (key)
        key[0] = 0;
    STK_TRY(stk__context_check(context, err));
    STK_TRY(stk__url_parse(context, url, &parsed, err));
    stk_status status = open_with(parsed.driver, context, url, out, err);
    if (status != STK_ENOENT || !key)
        return status;
    /* The first failure tells more, unless the second is of another kind. */
    stk_error_init(&second);
    status = open_folder_of(context, url, &parsed, out, key, key_size, &second);
    if (status == STK_OK)
        return STK_OK;
    key[0] = 0;
    if (status == STK_ENOENT || second.status != status)
        return STK_ENOENT;
    if (err)
        *err = second;
    return status;
}

void stk_store_close(stk_store **store)
{
    if (!store || !*store)
        return;
    if (stk__context_forked((*store)->context)) {
        *store = NULL;
        return;
    }
    (*store)->ops->close(*store);
    *store = NULL;
}

/* ---- The rest ---- */

stk_status stk_store_stat(stk_store *store, const char *key, stk_object_info *out, stk_error *err)
{
    if (!store || !out)
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE, "stk_store_stat: an argument is NULL");
    STK_TRY(stk__context_check(store->context, err));
    STK_TRY(stk__key_check(key, err));
    STK_TRY(stk__sized_check(out, "stk_object_info", STK_STAGE_STORE, err));
    stk_object_info info = {.struct_size = sizeof info};
    stk_status status = store->ops->stat(store, key, &info, err);
    stk__sized_write(out, &info);
    return status;
}

stk_status stk_store_list(stk_store *store, const char *prefix, stk_list_fn *each, void *user,
                          stk_error *err)
{
    if (!store || !each)
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE, "stk_store_list: an argument is NULL");
    STK_TRY(stk__context_check(store->context, err));
    STK_TRY(stk__key_check(prefix, err));
    if (!STK__STORE_HAS(store->ops, list))
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_STORE,
                         "a store of the kind '%s' cannot list what it holds; name the objects",
                         store->ops->name);
    return store->ops->list(store, prefix, each, user, err);
}

static const stk__member put_members[] = {STK__MEMBER(stk_put_ops, write),
                                          STK__MEMBER(stk_put_ops, commit),
                                          STK__MEMBER(stk_put_ops, abandon)};
static const stk__table table_of_put = {.type = "stk_put_ops",
                                        .least = sizeof(stk_put_ops),
                                        .members = put_members,
                                        .num_members = STK_COUNT(put_members),
                                        .stage = STK_STAGE_STORE,
                                        .nameless = true};

stk_status stk__store_put(stk_store *store, const char *key, const void *data, uint64_t length,
                          stk_error *err)
{
    stk_put *put = NULL;

    STK_TRY(stk__context_check(store->context, err));
    if (!STK__STORE_HAS(store->ops, put))
        return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_STORE, key, STK_NO_OFFSET,
                            "a store of the kind '%s' cannot be written; choose a local folder",
                            store->ops->name);
    stk_status status = store->ops->put(store, key, &put, err);
    STK_TRY(stk__table_made(&table_of_put, store->ops->name, "put", status, put, err));
    STK_TRY(stk__table_check(&table_of_put, put->ops, err));
    status = put->ops->write(put, data, (size_t)length, err);
    if (status != STK_OK) {
        put->ops->abandon(put);
        return status;
    }
    return put->ops->commit(put, err);
}

stk_status stk__store_kind_check(const void *ops, stk_error *err)
{
    return stk__table_check(&table, ops, err);
}
