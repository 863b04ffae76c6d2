/* SPDX-License-Identifier: Apache-2.0 */
/* Taking Zarr out of a folder that is written anew: metadata first, then chunks, nothing else. */
#include "convert/zarr_clear.h"

#include "convert/convert.h"
#include "store/store.h"

#define MAX_DEPTH 64 /* of folders: paths of nodes and of chunks */

/* What lies in a folder. */
typedef struct listing {
    stk_context *context;
    char **keys; /* objects first or folders, as they come */
    bool *folders;
    size_t count, room, room_folders;
} listing;

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory to list the target");
}

static stk_status note(void *user, const char *key, const stk_object_info *info)
{
    listing *l = user;
    char **keys = stk__grow(l->context, l->keys, &l->room, l->count + 1, sizeof *keys);

    if (keys)
        l->keys = keys;
    bool *folders =
        stk__grow(l->context, l->folders, &l->room_folders, l->count + 1, sizeof *folders);
    if (folders)
        l->folders = folders;
    char *copy = keys && folders ? stk__strdup(l->context, key) : NULL;
    if (!copy)
        return STK_ENOMEM;
    l->folders[l->count] = info->is_folder;
    l->keys[l->count++] = copy;
    return STK_OK;
}

static void release(listing *l)
{
    for (size_t i = 0; i < l->count; i++)
        stk__free(l->context, l->keys[i]);
    stk__free(l->context, l->keys);
    stk__free(l->context, l->folders);
}

/* Whether an object of this name is of Zarr: a document, or a chunk as "0.1", "c", "c.0.1", or the
 * last part of "0/1" and "c/0/1". */
static bool is_own(const char *name)
{
    static const char *const documents[] = {"zarr.json", ".zarray",    ".zattrs",
                                            ".zgroup",   ".zmetadata", "c"};

    for (size_t i = 0; i < STK_COUNT(documents); i++)
        if (strcmp(name, documents[i]) == 0)
            return true;
    if (name[0] == 'c' && name[1] == '.')
        name += 2;
    return *name >= '0' && *name <= '9' && name[strspn(name, "0123456789.")] == 0;
}

static stk_status clear_folder(stk_store *store, const char *key, int depth, stk_error *err)
{
    listing l = {.context = store->context};
    stk_status status = STK_OK;

    if (depth > MAX_DEPTH)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_CONVERT,
                         "%.200s has folders within folders, more than %d; choose another target",
                         key, MAX_DEPTH);
    status = stk_store_list(store, key, NULL, note, &l, err);
    if (status == STK_ENOMEM)
        status = no_memory(err);
    for (int folders = 0; folders < 2; folders++)
        for (size_t i = 0; status == STK_OK && i < l.count; i++) {
            if (l.folders[i] != (folders == 1))
                continue;
            if (folders)
                status = clear_folder(store, l.keys[i], depth + 1, err);
            else if (is_own(stk__convert_last_name(l.keys[i])))
                status = stk__store_remove(store, l.keys[i], err);
        }
    release(&l);
    return status;
}

stk_status stk__zarr_clear(stk_context *ctx, const char *url, stk_error *err)
{
    char prefix[STK_MAX_OBJECT_KEY];
    stk_store *store = NULL;

    STK_TRY(stk__put_folder_open(ctx, url, &store, prefix, err));
    if (*prefix)
        prefix[strlen(prefix) - 1] = 0;
    stk_status status = clear_folder(store, prefix, 0, err);
    if (status == STK_ENOENT)
        status = STK_OK;
    stk_store_close(&store);
    return status;
}
