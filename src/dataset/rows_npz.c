/* SPDX-License-Identifier: Apache-2.0 */
/*
 * npz: a zip archive of npy files, as numpy.savez() and savez_compressed() write it. Each member is
 * an array by itself, opened through the store of the archive: of a stored one rows are ranges of
 * the archive; a deflated one is unpacked once, as a whole, and kept by its store.
 */
#include "dataset/rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/url.h"

#define MEMBER      ".npy"
#define MEMBER_MOST 512 /* bytes of a name */

static bool is_member(const char *key)
{
    const size_t length = strlen(key);

    return length > strlen(MEMBER) && stk__ends_with(key, length, MEMBER);
}

bool stk__npz_named(const stk_context *ctx, const char *url)
{
    stk__url parsed;

    stk__url_scan(ctx, url, &parsed);
    return parsed.container && parsed.object_length > 2 &&
           stk__ends_with(parsed.path, parsed.object_length - 2, ".npz");
}

/* What a deflated member takes as long as the dataset is open. */
static stk_status hold(stk__rows *rows, stk_store *store, const char *key, stk_error *err)
{
    uint64_t bytes = 0, most = 0, held = 0;

    if (!stk__container_unpacks(store, key, &bytes, &most))
        return STK_OK;
    if (bytes > most)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                            "%.200s is deflated, and unpacked it has %" PRIu64
                            " bytes, which is more than unpacked_cache, %" PRIu64
                            ": raise that, as npz:FILE?unpacked_cache=4GiB, or write the file "
                            "with numpy.savez(), whose members are read in part",
                            key, bytes, most);
    if (!stk__add_size(rows->held, bytes, &held) || bytes > stk__memory_left(rows->context) / 2)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                            "%.200s is deflated, and unpacked its %" PRIu64
                            " bytes are more than half of what memory_limit leaves: raise that, or "
                            "write the file with numpy.savez(), whose members are read in part",
                            key, bytes);
    rows->held = held;
    return STK_OK;
}

static stk_status add_member(stk__rows *rows, stk_store *store, const char *key, bool asked,
                             stk_error *err)
{
    char name[MEMBER_MOST];
    stk_array *array = NULL;
    stk_error why;

    snprintf(name, sizeof name, "%.*s", (int)(strlen(key) - strlen(MEMBER)), key);
    STK_TRY(hold(rows, store, key, err));
    char *url = stk__url_below(rows->context, rows->url, key);
    if (!url)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory to open rows of arrays");
    stk_error_init(&why);
    stk_status status = stk_array_open(rows->context, url, &rows->options, &array, &why);
    stk__free(rows->context, url);
    if (status == STK_EKIND && !asked)
        return stk__rows_add(rows, name, NULL, why.text, err);
    if (status == STK_OK)
        return stk__rows_add(rows, name, array, NULL, err);
    if (err)
        *err = why;
    return status;
}

/* ---- Listing ---- */

typedef struct listing {
    stk__rows *rows;
    stk_store *store;
    stk_error *err;
    bool any; /* there is a list */
} listing;

static stk_status each_member(void *user, const char *key, const stk_object_info *info)
{
    listing *l = user;

    l->any = true;
    if (info->is_folder || !is_member(key) || strlen(key) >= MEMBER_MOST)
        return STK_OK;
    return add_member(l->rows, l->store, key, false, l->err);
}

static stk_status offer(void *user, const char *key, const stk_object_info *info)
{
    char name[MEMBER_MOST];

    if (info->is_folder || !is_member(key) || strlen(key) >= sizeof name)
        return STK_OK;
    snprintf(name, sizeof name, "%.*s", (int)(strlen(key) - strlen(MEMBER)), key);
    stk__rows_names_add(user, name);
    return STK_OK;
}

static stk_status check_name(stk_store *store, const char *name, const char *key, stk_error *err)
{
    stk__presence is = STK__IS_NOTHING;
    stk__rows_names names;

    STK_TRY(stk__store_look(store, key, &is, err));
    if (is == STK__IS_OBJECT)
        return STK_OK;
    stk__rows_names_init(&names, name);
    STK_TRY(stk_store_list(store, "", NULL, offer, &names, err));
    return stk__rows_unknown(&names, name, err);
}

static int by_path(const void *a, const void *b)
{
    const stk__rows_array *x = a, *y = b;

    return strcmp(x->path, y->path);
}

/* In an order of their own: a store lists in any. */
static stk_status list_members(stk__rows *rows, stk_store *store, stk_error *err)
{
    listing l = {.rows = rows, .store = store, .err = err};

    const stk_status status = stk_store_list(store, "", NULL, each_member, &l, err);
    /* A web server has folders of any name, and lists none. */
    if (status == STK_ENOTSUP && !l.any)
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, rows->url, STK_NO_OFFSET,
                            "'%.200s' is not there, or is no npz file", rows->url);
    STK_TRY(status);
    if (rows->count)
        qsort(rows->arrays, rows->count, sizeof *rows->arrays, by_path);
    return STK_OK;
}

static stk_status list_fields(stk__rows *rows, stk_store *store, stk_error *err)
{
    char name[MEMBER_MOST - sizeof MEMBER], key[MEMBER_MOST];

    for (const char *at = rows->fields; *at;) {
        STK_TRY(stk__rows_next_field(rows, &at, name, sizeof name, err));
        snprintf(key, sizeof key, "%s" MEMBER, name);
        STK_TRY(check_name(store, name, key, err));
        STK_TRY(add_member(rows, store, key, true, err));
    }
    return STK_OK;
}

static stk_status find_members(stk__rows *rows, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY] = "";
    stk_store *store = NULL;

    rows->options.format = "npy";
    STK_TRY(stk_store_open(rows->context, rows->url, &store, key, sizeof key, err));
    stk_status status = STK_OK;
    if (*key)
        status = stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, key, 0,
                              "%.200s is no npz file, which is a zip archive of npy files; a npy "
                              "file is npy:%.200s",
                              key, rows->url);
    else if (rows->fields && *rows->fields)
        status = list_fields(rows, store, err);
    else
        status = list_members(rows, store, err);
    stk_store_close(&store);
    return status;
}

/* ---- The kind ---- */

static const stk_option_table npz_table = {"npz", "Rows of the arrays of an npz file.",
                                           sizeof(stk__rows_options), stk__rows_option_list,
                                           STK__ROWS_OPTION_COUNT};

static stk_status npz_open(stk_context *ctx, const char *url, const void *options,
                           stk_dataset **out, stk_error *err)
{
    return stk__rows_open(ctx, &stk__dataset_npz, find_members, url, options, out, err);
}

static int npz_recognise(stk_context *ctx, const char *url)
{
    return stk__npz_named(ctx, url) ? 2 : 0;
}

const stk_dataset_ops stk__dataset_npz = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "npz",
    .doc = "NumPy's npz files: a sample is a row of each of several arrays of one length.",
    .options = &npz_table,
    .open = npz_open,
    .recognise = npz_recognise,
    STK__WINDOW_OPS,
    .describe = stk__window_rows_describe,
};
