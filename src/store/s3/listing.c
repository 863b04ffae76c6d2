/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lies in a folder, a thousand keys a request. Each page names the one behind it, so that a
 * large folder would be listed by one request after another: its keys are cut into ranges instead,
 * which several threads list at the same time. Where to cut is a guess by the keys that were seen
 * (between.c); one that was bad costs a request. A range ends where the next one begins, so that
 * no key is given twice.
 */
#include <stdio.h>

#include "base/bytes.h"
#include "base/worklist.h"
#include "store/http/head.h"
#include "store/s3/between.h"
#include "store/s3/list.h"
#include "store/s3/s3.h"

#define PAGE_MOST (UINT64_C(16) << 20) /* bytes of a page of a list: 1000 keys are a quarter */

/* One page: `page` is the token of it, and becomes that of the next; the first one of what lies
 * behind the key `after`. */
static stk_status list_page(stk__s3_store *store, const char *folder, const char *more,
                            const char *after, const stk_store_call *call, stk__s3_entry_fn *each,
                            void *user, char page[STK__S3_TOKEN], stk_error *err)
{
    stk__text target = {.ctx = store->base.context};

    stk__text_add(
        &target, "%s%s?list-type=2&encoding-type=url%s&prefix=", store->endpoint.in_path ? "/" : "",
        store->endpoint.in_path ? store->endpoint.bucket : "/", more);
    stk__text_add_percent(&target, store->prefix, strlen(store->prefix), false);
    stk__text_add_percent(&target, folder, strlen(folder), false);
    if (page[0]) {
        stk__text_add(&target, "&continuation-token=");
        stk__text_add_percent(&target, page, strlen(page), false);
    } else if (after[0]) {
        stk__text_add(&target, "&start-after=");
        stk__text_add_percent(&target, after, strlen(after), false);
    }
    if (target.failed) {
        stk__text_release(&target);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to list '%.200s'", folder);
    }
    stk__s3_request request = {
        .exchange = {.method = "GET", .target = target.bytes, .most = PAGE_MOST}};
    stk_status status = stk__s3_call(store, &request, call, err);
    if (status == STK_OK)
        status = stk__s3_list_read(request.exchange.text ? request.exchange.text : "",
                                   (size_t)request.exchange.got, folder, each, user, page, err);
    stk__http_exchange_release(store->client, &request.exchange);
    stk__text_release(&target);
    return status;
}

static stk_status count_one(void *user, const stk__s3_entry *entry, stk_error *err)
{
    (void)entry, (void)err;
    *(bool *)user = true;
    return STK_OK;
}

stk_status stk__s3_folder_look(stk__s3_store *store, const char *folder, const stk_store_call *call,
                               bool *is, stk_error *err)
{
    char page[STK__S3_TOKEN] = "";

    *is = false;
    return list_page(store, folder, "&max-keys=1", "", call, count_one, is, page, err);
}

/* ---- Ranges ---- */

/* Keys behind `after` up to `until`, both whole keys of the bucket; "" is no bound. */
typedef struct range {
    stk__worklist_piece piece;
    char after[STK_MAX_OBJECT_KEY], until[STK_MAX_OBJECT_KEY];
} range;

/* A list on its way to a caller. */
typedef struct listing {
    stk__s3_store *store;
    const char *folder;
    size_t folder_length; /* of the key, from the bucket's root */
    const stk_store_call *call;
    stk_list_fn *each;
    void *user;
    bool splits;
    stk__worklist ranges; /* its mutex guards the rest, and calls of `each` */
    stk__s3_letters letters;
    bool any;
} listing;

/* A range while it is listed. */
typedef struct reading {
    listing *list;
    range *range;
    char first[STK_MAX_OBJECT_KEY], last[STK_MAX_OBJECT_KEY]; /* of the page */
} reading;

/* Keys that no store can have, of others' making, are passed over: "a//b", "../a". */
static stk_status give_locked(listing *l, const stk__s3_entry *entry)
{
    const size_t root = strlen(l->store->prefix), length = strlen(entry->key);
    char key[STK_MAX_OBJECT_KEY];
    stk_object_info info = {.struct_size = sizeof info, .is_folder = entry->is_folder};

    l->any = true;
    if (length <= l->folder_length || strncmp(entry->key, l->store->prefix, root) != 0 ||
        snprintf(key, sizeof key, "%s", entry->key + root) >= (int)sizeof key)
        return STK_OK;
    const size_t used = strlen(key);
    if (entry->is_folder && used > 0 && key[used - 1] == '/')
        key[used - 1] = 0;
    if (length == l->folder_length + entry->is_folder || stk__key_check(key, NULL) != STK_OK)
        return STK_OK;
    if (!entry->is_folder) {
        info.size = entry->size;
        info.mtime_ns = entry->mtime_ns;
        info.identity = stk__http_identity(entry->etag, entry->size, entry->mtime_ns);
    }
    return l->each(l->user, key, &info);
}

static stk_status give(void *user, const stk__s3_entry *entry, stk_error *err)
{
    reading *r = user;
    listing *l = r->list;
    stk_status status = STK_OK;

    (void)err;
    if (!r->first[0])
        snprintf(r->first, sizeof r->first, "%s", entry->key);
    if (strcmp(entry->key, r->last) > 0)
        snprintf(r->last, sizeof r->last, "%s", entry->key);
    pthread_mutex_lock(&l->ranges.mutex);
    stk__s3_letters_see(&l->letters, entry->key, l->folder_length);
    if (l->ranges.status != STK_OK)
        status = l->ranges.status; /* another thread has failed */
    else if (!r->range->until[0] || strcmp(entry->key, r->range->until) <= 0)
        status = give_locked(l, entry);
    pthread_mutex_unlock(&l->ranges.mutex);
    return status;
}

/* Leave a part of what is left of the range to others, where there are any. */
static void share(reading *r)
{
    listing *l = r->list;
    stk_context *ctx = l->store->base.context;
    range *rest = NULL;
    char middle[STK_MAX_OBJECT_KEY];

    pthread_mutex_lock(&l->ranges.mutex);
    if (stk__worklist_wants_locked(&l->ranges) &&
        stk__s3_between(&l->letters, r->first, r->last, r->range->until, l->folder_length, middle))
        rest = stk__alloc(ctx, sizeof *rest);
    if (rest) {
        memcpy(rest->after, middle, sizeof middle);
        memcpy(rest->until, r->range->until, sizeof rest->until);
        memcpy(r->range->until, middle, sizeof middle);
        stk__worklist_add_locked(&l->ranges, &rest->piece);
        stk__worklist_grow_locked(&l->ranges);
    }
    pthread_mutex_unlock(&l->ranges.mutex);
}

static stk_status list_range(reading *r, stk_error *err)
{
    listing *l = r->list;
    char page[STK__S3_TOKEN] = "", before[STK__S3_TOKEN];

    do {
        STK_TRY(stk__store_call_check(l->call, l->folder, err));
        r->first[0] = r->last[0] = 0;
        memcpy(before, page, sizeof before);
        STK_TRY(list_page(l->store, l->folder, "&delimiter=%2F", r->range->after, l->call, give, r,
                          page, err));
        if (page[0] && strcmp(page, before) == 0)
            return stk__fail_at(err, STK_EFORMAT, STK_STAGE_STORE, l->folder, STK_NO_OFFSET,
                                "the list of '%.200s' is no list as S3 has them: a page leads to "
                                "itself",
                                l->folder);
        if (page[0] && r->range->until[0] && strcmp(r->last, r->range->until) >= 0)
            return STK_OK;
        if (page[0] && l->splits)
            share(r);
    } while (page[0]);
    return STK_OK;
}

static stk_status list_one(void *user, uint32_t thread, stk__worklist_piece *piece, stk_error *err)
{
    listing *l = user;
    reading r = {.list = l, .range = (range *)piece};

    (void)thread;
    const stk_status status = list_range(&r, err);
    stk__free(l->store->base.context, piece);
    return status;
}

stk_status stk__s3_list(stk__s3_store *store, const char *prefix, const stk_store_call *call,
                        stk_list_fn *each, void *user, stk_error *err)
{
    static const char unordered[] = "--x-s3"; /* directory buckets list keys in no order */
    const size_t bucket = strlen(store->endpoint.bucket), end = sizeof unordered - 1;
    char folder[STK_MAX_OBJECT_KEY + 1];
    stk_context *ctx = store->base.context;
    size_t length = strlen(prefix);

    memcpy(folder, prefix, length + 1);
    if (length > 0 && folder[length - 1] != '/')
        memcpy(folder + length++, "/", 2);
    listing *l = stk__calloc(ctx, 1, sizeof *l);
    range *all = stk__calloc(ctx, 1, sizeof *all);
    if (!l || !all) {
        stk__free(ctx, all);
        stk__free(ctx, l);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to list '%.200s'", prefix);
    }
    *l = (listing){.store = store,
                   .folder = folder,
                   .folder_length = strlen(store->prefix) + length,
                   .call = call,
                   .each = each,
                   .user = user,
                   .splits = bucket < end ||
                             strcmp(store->endpoint.bucket + bucket - end, unordered) != 0,
                   .ranges = {.ctx = ctx,
                              .name = "stk-list",
                              .one = list_one,
                              .user = l,
                              .most = STK__WORKLIST_MOST}};
    stk__worklist_init(&l->ranges);
    stk__worklist_add_locked(&l->ranges, &all->piece);
    stk__worklist_work(&l->ranges);
    stk_status status = stk__worklist_end(&l->ranges, err);
    if (status == STK_OK && !l->any && length > 0)
        status = stk__fail_at(err, STK_ENOENT, STK_STAGE_STORE, prefix, STK_NO_OFFSET,
                              "there is no folder '%.200s' in the bucket '%s'", prefix,
                              store->endpoint.bucket);
    stk__free(ctx, l);
    return status;
}
