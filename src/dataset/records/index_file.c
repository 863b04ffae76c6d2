/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of shards as a file: beside them, in the folder of a cache, or where it was asked for.
 * What it says of a shard is used where that is the one that was scanned; the others are scanned
 * and the index written anew. Without an index everything works as well.
 */
#include <stdio.h>
#include <xxhash.h>

#include "dataset/kept.h"
#include "dataset/records/records.h"

/* Where the index lies; store NULL: nowhere. */
typedef struct place {
    stk_store *store, *own; /* the second is to be closed */
    stk__put_place asked;   /* of a path that was given */
    bool is_asked;
    char key[STK_MAX_OBJECT_KEY];
} place;

/* The spec without the folder that the shards lie in, so that a copy of them finds its index. */
static uint64_t hash_of_spec(const stk__records *set, const char *url)
{
    const char *end = url + strcspn(url, "?"), *at = url;
    const char *brace = memchr(url, '{', (size_t)(end - url));

    if (set->num_stores == 1 && set->of_folder)
        at = end;
    for (const char *p = url; set->num_stores == 1 && !set->of_folder && p < (brace ? brace : end);
         p++)
        if (*p == '/')
            at = p + 1;
    return XXH3_64bits_withSeed(at, (size_t)(end - at), stk__records_index_of(set->format));
}

static stk_status find_place(const stk__records *set, const char *url, const char *index, place *at,
                             stk_error *err)
{
    stk_context *ctx = set->base.context;
    stk_store *first = set->stores[0].store;
    const char *folder;
    uint64_t of;

    *at = (place){0};
    if (strcmp(index, "none") == 0)
        return STK_OK;
    if (strcmp(index, "auto") != 0) {
        at->is_asked = true;
        at->asked.context = ctx;
        STK_TRY(stk__put_place_open(&at->asked, index, err));
        at->store = at->asked.store;
        snprintf(at->key, sizeof at->key, "%s", at->asked.key);
        return STK_OK;
    }
    snprintf(at->key, sizeof at->key, ".stoker-index-%s-%016llx", set->format->ops->name,
             (unsigned long long)hash_of_spec(set, url));
    if (stk__file_root(first) >= 0) {
        at->store = first;
    } else if (stk__cache_folder(first, &folder, &of)) {
        STK_TRY(stk__file_open_folder(ctx, folder, NULL, &at->own, err));
        snprintf(at->key, sizeof at->key, "records-%016llx.index",
                 (unsigned long long)(of ^ hash_of_spec(set, url)));
        at->store = at->own;
    }
    return STK_OK;
}

static void close_place(place *at)
{
    stk_store_close(&at->own);
    if (at->is_asked)
        stk__put_place_close(&at->asked);
}

static stk_status load(const stk__records *set, const place *at, stk__records_table *out)
{
    stk_context *ctx = set->base.context;
    stk_object_info info;
    void *data;

    *out = (stk__records_table){.context = ctx};
    STK_TRY(stk__kept_read(ctx, at->store, at->key, &data, &info));
    const stk_status status =
        stk__records_index_parse(ctx, data, info.size, stk__records_index_of(set->format), out);
    stk__free(ctx, data);
    return status;
}

static stk_status save(const stk__records *set, const place *at, stk_error *err)
{
    void *data = NULL;
    uint64_t length = 0;

    stk_status status =
        stk__records_index_make(&set->table, stk__records_index_of(set->format), &data, &length);
    if (status != STK_OK)
        return stk__fail(err, status, STK_STAGE_DATASET, "no memory for the index");
    status = stk__kept_write(at->store, at->key, at->is_asked || at->own, data, length, err);
    stk__free(set->base.context, data);
    return status;
}

static void write_index(stk__records *set, const place *at)
{
    stk_error err;

    stk_error_init(&err);
    set->index_use = STK__RECORDS_INDEX_WRITTEN;
    if (save(set, at, &err) == STK_OK)
        return;
    set->index_use = STK__RECORDS_INDEX_REFUSED;
    stk__message(set->base.context, at->is_asked ? STK_MESSAGE_WARNING : STK_MESSAGE_DEBUG,
                 "%s: the index %s could not be written, and the shards are read each time: %.300s",
                 set->format->ops->name, at->key, err.text);
}

stk_status stk__records_index(stk__records *set, const char *url, const void *options,
                              stk_error *err)
{
    const stk__records_options *o = options;
    stk__records_table known = {.context = set->base.context};
    place at;

    stk_status status = find_place(set, url, o->index, &at, err);
    const stk_status loaded = status == STK_OK && at.store ? load(set, &at, &known) : STK_ENOENT;
    if (loaded != STK_OK && loaded != STK_ENOENT)
        stk__message(set->base.context, STK_MESSAGE_DEBUG, "%s: the index %s is not used: %s",
                     set->format->ops->name, at.key, stk_status_text(loaded));
    if (status == STK_OK)
        status = stk__records_scan(set, options, loaded == STK_OK ? &known : NULL, err);
    if (status == STK_OK && at.store && loaded == STK_OK && !set->scanned)
        set->index_use = STK__RECORDS_INDEX_USED;
    else if (status == STK_OK && at.store)
        write_index(set, &at);
    stk__records_table_release(&known);
    close_place(&at);
    return status;
}
