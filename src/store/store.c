/* SPDX-License-Identifier: Apache-2.0 */
/* The public face of stores: opening by URL, limits, and what asks of objects. */
#include "store/store.h"

#include <errno.h>
#include <stdio.h>

#include "base/options.h"
#include "base/sized.h"
#include "base/table.h"
#include "store/url.h"

/* Looking at an object, and listing a folder, however many it holds, fail after this long, so that
 * a storage that hangs is named instead of waited for. */
#define STAT_PATIENCE_NS UINT64_C(120000000000)
#define LIST_PATIENCE_NS UINT64_C(3600000000000)

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

bool stk__store_read_now(stk_store *store, const char *key, uint64_t offset, uint64_t length,
                         void *data)
{
    return STK__STORE_HAS(store->ops, read_now) &&
           store->ops->read_now(store, key, offset, length, data) == STK_OK;
}

void stk__store_know(stk_store *store, const char *key, const stk_object_info *info)
{
    if (STK__STORE_HAS(store->ops, know))
        store->ops->know(store, key, info);
}

/* File systems made of other things number files anew now and then, so that of a near one time and
 * size count, and not which file it is. */
bool stk__store_is_other(const stk_object_info *was, const stk_object_info *is, bool far)
{
    if (was->identity == is->identity)
        return false;
    return far || !was->mtime_ns || was->mtime_ns != is->mtime_ns || was->size != is->size;
}

static const stk__member members[] = {
    STK__MEMBER(stk_store_ops, open), STK__MEMBER(stk_store_ops, close),
    STK__MEMBER(stk_store_ops, submit), STK__MEMBER(stk_store_ops, cancel),
    STK__MEMBER(stk_store_ops, stat)};
static const stk__given_table table = {.type = "stk_store_ops",
                                       .least = offsetof(stk_store_ops, list),
                                       .members = members,
                                       .num_members = STK_COUNT(members),
                                       .stage = STK_STAGE_STORE};

/* Open with the driver of a URL; an outsider's is held to what a store is. */
static stk_status open_with(const stk__url *parsed, stk_context *ctx, const char *url,
                            stk_store **out, stk_error *err)
{
    const stk_store_ops *driver = parsed->driver;
    stk__store_given given;
    stk_store *store = NULL;

    STK_TRY(stk__store_given_take(ctx, url, parsed, &given, err));
    stk_status status = driver->open(ctx, given.url, given.options, &store, err);
    stk__store_given_release(ctx, &given);
    /* What a wrapper passes on may be an option of its own, mistyped. */
    if (status != STK_OK && (parsed->inner || parsed->container) && STK__STORE_HAS(driver, options))
        stk__option_unknown_nearer(driver->options, err);
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
    stk_error unheard;

    err = err ? err : &unheard;
    *out = NULL;
    STK_TRY(stk__url_parse(ctx, url, &parsed, err));
    return open_with(&parsed, ctx, url, out, err);
}

stk_status stk_store_open(stk_context *context, const char *url, stk_store **out, char *key,
                          size_t key_size, stk_error *err)
{
    char rest[STK_MAX_OBJECT_KEY];

    if (!context || !url || !out || (key && key_size == 0))
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                         "stk_store_open: an argument is NULL or empty");
    *out = NULL;
    if (key)
        key[0] = 0;
    STK_TRY(stk__context_check(context, err));
    STK_TRY(stk__store_split(context, url, out, key, key_size, rest, sizeof rest, err));
    if (!*rest)
        return STK_OK;
    const stk_status status = stk__store_no_rest(url, key, rest, err);
    stk_store_close(out);
    key[0] = 0;
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

const stk_store_call stk__store_call_none = {.struct_size = sizeof(stk_store_call)};

stk_status stk__store_call_take(const stk_store_call *theirs, uint64_t patience_ns,
                                stk_store_call *out, stk_error *err)
{
    *out = stk__store_call_none;
    if (theirs)
        return stk__sized_read(out, sizeof *out, theirs, "stk_store_call", STK_STAGE_STORE, err);
    out->deadline_ns = patience_ns ? stk__now_ns() + patience_ns : 0;
    return STK_OK;
}

stk_status stk__store_call_check(const stk_store_call *call, const char *key, stk_error *err)
{
    if (call->canceled && call->canceled(call->user))
        return stk__fail_at(err, STK_ECANCELED, STK_STAGE_STORE, key, STK_NO_OFFSET,
                            "a call about '%.200s' was canceled", key);
    if (call->deadline_ns && stk__now_ns() >= call->deadline_ns)
        return stk__fail_at(err, STK_ETIMEDOUT, STK_STAGE_STORE, key, STK_NO_OFFSET,
                            "a call about '%.200s' took longer than it was given", key);
    return STK_OK;
}

stk_status stk_store_stat(stk_store *store, const char *key, const stk_store_call *call,
                          stk_object_info *out, stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};
    stk_store_call own;
    stk_error unheard;

    err = err ? err : &unheard;
    if (!store || !out)
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE, "stk_store_stat: an argument is NULL");
    STK_TRY(stk__context_check(store->context, err));
    STK_TRY(stk__key_check(key, err));
    STK_TRY(stk__sized_check(out, "stk_object_info", STK_STAGE_STORE, err));
    STK_TRY(stk__store_call_take(call, STAT_PATIENCE_NS, &own, err));
    STK_TRY(stk__store_call_check(&own, key, err));
    stk_status status = store->ops->stat(store, key, &own, &info, err);
    stk__sized_write(out, &info);
    return status;
}

stk_status stk__store_look(stk_store *store, const char *key, stk__presence *out, stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};
    stk_error own;

    *out = STK__IS_NOTHING;
    stk_status status = stk_store_stat(store, key, NULL, &info, &own);
    if (status == STK_ENOENT)
        return STK_OK;
    if (status == STK_OK)
        *out = info.is_folder ? STK__IS_FOLDER : STK__IS_OBJECT;
    else if (err)
        *err = own;
    return status;
}

/* A listing that asks before each entry whether it is still wanted. */
typedef struct listing {
    const stk_store_call *call;
    stk_list_fn *each;
    void *user;
    stk_error *err;
} listing;

static stk_status list_one(void *user, const char *key, const stk_object_info *info)
{
    listing *l = user;

    STK_TRY(stk__store_call_check(l->call, key, l->err));
    return l->each(l->user, key, info);
}

stk_status stk_store_list(stk_store *store, const char *prefix, const stk_store_call *call,
                          stk_list_fn *each, void *user, stk_error *err)
{
    stk_store_call own;
    stk_error unheard;

    err = err ? err : &unheard;
    if (!store || !each)
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE, "stk_store_list: an argument is NULL");
    STK_TRY(stk__context_check(store->context, err));
    STK_TRY(stk__key_check(prefix, err));
    if (!STK__STORE_HAS(store->ops, list))
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_STORE,
                         "a store of the kind '%s' cannot list what it holds; name the objects",
                         store->ops->name);
    STK_TRY(stk__store_call_take(call, LIST_PATIENCE_NS, &own, err));
    STK_TRY(stk__store_call_check(&own, prefix, err));
    return store->ops->list(store, prefix, &own, list_one,
                            &(listing){.call = &own, .each = each, .user = user, .err = err}, err);
}

stk_status stk_store_describe(stk_store *store, const char *key,
                              void (*line)(void *user, const char *name, const char *value),
                              void *user, stk_error *err)
{
    stk_error unheard;

    err = err ? err : &unheard;
    if (!store || !line)
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                         "stk_store_describe: an argument is NULL");
    STK_TRY(stk__context_check(store->context, err));
    STK_TRY(stk__key_check(key, err));
    if (!STK__STORE_HAS(store->ops, describe))
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_STORE,
                         "a store of the kind '%s' has nothing to say of what it holds",
                         store->ops->name);
    return store->ops->describe(store, key, line, user, err);
}

stk_status stk__store_kind_check(const void *ops, stk_error *err)
{
    STK_TRY(stk__table_check(&table, ops, err));
    const stk_store_ops *driver = ops;
    if (strpbrk(driver->name, "_"))
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                         "'%.64s' is no name of a store: it is the scheme of URLs, which has no "
                         "'_'",
                         driver->name);
    return STK__STORE_HAS(driver, options) ? stk__options_check(driver->options, err) : STK_OK;
}
