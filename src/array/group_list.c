/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nodes of a group that has no consolidated metadata: folders are listed and their metadata is
 * read by several threads, since each waits for the store. Folders of arrays are not entered.
 */
#include "array/group.h"
#include "array/zarr.h"
#include "base/worklist.h"

#define MAX_THREADS 16

/* A folder to look at. */
typedef struct folder {
    stk__worklist_piece piece;
    uint32_t level;
    char path[];
} folder;

typedef struct listing {
    stk_group *group;
    stk__worklist folders;        /* its mutex guards the group's nodes, too */
    atomic_uint_fast32_t entries; /* that were listed; under no lock */
} listing;

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory to list a group");
}

typedef struct children {
    listing *list;
    const folder *parent;
    stk__worklist_piece *found;
    stk_error *err;
} children;

/* Folders that contain themselves, by links, end at the levels; wide ones at the entries. */
static stk_status check_child(const children *c, const char *key, bool is_folder)
{
    if (atomic_fetch_add(&c->list->entries, 1) >= STK__GROUP_MAX_ENTRIES)
        return stk__fail_at(c->err, STK_ELIMIT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "a group has more than %u files and folders to look at "
                            "(STK__GROUP_MAX_ENTRIES); consolidate its metadata",
                            STK__GROUP_MAX_ENTRIES);
    if (is_folder && c->parent->level == STK__GROUP_MAX_LEVELS)
        return stk__fail_at(c->err, STK_ELIMIT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%.200s: the group nests deeper than %d levels "
                            "(STK__GROUP_MAX_LEVELS); does a link lead back into it?",
                            key, STK__GROUP_MAX_LEVELS);
    return STK_OK;
}

static stk_status take_child(void *user, const char *key, const stk_object_info *info)
{
    children *c = user;
    size_t length = strlen(key);

    STK_TRY(check_child(c, key, info->is_folder));
    if (!info->is_folder || length == 0)
        return STK_OK;
    folder *f = stk__calloc(c->list->group->context, 1, sizeof *f + length + 1);
    if (!f)
        return STK_ENOMEM;
    memcpy(f->path, key, length);
    while (length && f->path[length - 1] == '/')
        f->path[--length] = 0;
    f->level = c->parent->level + 1;
    f->piece.next = c->found;
    c->found = &f->piece;
    return STK_OK;
}

/* List a folder and queue the folders in it. */
static stk_status enter(listing *l, const folder *f, stk_error *err)
{
    stk_store *store = l->group->shared->store;
    children c = {.list = l, .parent = f, .err = err};
    char *prefix = *f->path ? stk__format(l->group->context, "%s/", f->path)
                            : stk__strdup(l->group->context, "");

    if (!prefix)
        return no_memory(err);
    stk_status status = stk_store_list(store, prefix, NULL, take_child, &c, err);
    stk__free(l->group->context, prefix);
    if (status == STK_ENOMEM)
        no_memory(err);
    pthread_mutex_lock(&l->folders.mutex);
    for (stk__worklist_piece *next; c.found; c.found = next) {
        next = c.found->next;
        stk__worklist_add_locked(&l->folders, c.found);
    }
    pthread_mutex_unlock(&l->folders.mutex);
    return status;
}

static stk_status load(listing *l, const folder *f, const char *name, stk__json *out, bool *found,
                       stk_error *err)
{
    char *key = stk__format(l->group->context, "%s/%s", f->path, name);

    *out = (stk__json){0};
    if (!key)
        return no_memory(err);
    stk_status status = stk__zarr_load(l->group->shared->store, key, out, found, err);
    stk__free(l->group->context, key);
    return status;
}

static stk_status add(listing *l, const folder *f, bool is_array, stk__json metadata,
                      stk__json attributes, stk_error *err)
{
    pthread_mutex_lock(&l->folders.mutex);
    stk_status status = stk__group_add(l->group, f->path, is_array, metadata, attributes, err);
    pthread_mutex_unlock(&l->folders.mutex);
    return status;
}

/* A folder below the group: a node, or nothing. */
static stk_status look_v3(listing *l, const folder *f, stk_error *err)
{
    stk__json document = {0};
    bool found = false;

    STK_TRY(load(l, f, STK__ZARR_V3, &document, &found, err));
    if (!found)
        return l->group->implicit ? enter(l, f, err) : STK_OK;
    const char *type = json_string_value(json_object_get(document.value, "node_type"));
    bool is_array = type && !strcmp(type, "array");
    STK_TRY(add(l, f, is_array, document, (stk__json){0}, err));
    return is_array ? STK_OK : enter(l, f, err);
}

static stk_status look_v2(listing *l, const folder *f, stk_error *err)
{
    stk_context *ctx = l->group->context;
    stk__json document = {0}, attributes = {0};
    bool is_array = false, is_group = false, found = false;

    STK_TRY(load(l, f, STK__ZARR_V2_ARRAY, &document, &is_array, err));
    if (!is_array) {
        STK_TRY(load(l, f, STK__ZARR_V2_GROUP, &document, &is_group, err));
        stk__json_drop(ctx, &document);
        if (!is_group)
            return STK_OK;
    }
    stk_status status = load(l, f, STK__ZARR_V2_ATTRS, &attributes, &found, err);
    if (status != STK_OK) {
        stk__json_drop(ctx, &document);
        return status;
    }
    STK_TRY(add(l, f, is_array, document, attributes, err));
    return is_array ? STK_OK : enter(l, f, err);
}

static stk_status look(void *user, uint32_t thread, stk__worklist_piece *piece, stk_error *err)
{
    listing *l = user;
    folder *f = (folder *)piece;

    (void)thread;
    const stk_status status = !*f->path                ? enter(l, f, err)
                              : l->group->version == 3 ? look_v3(l, f, err)
                                                       : look_v2(l, f, err);
    stk__free(l->group->context, f);
    return status;
}

stk_status stk__group_list(stk_group *g, stk_error *err)
{
    listing l = {.group = g,
                 .folders = {.ctx = g->context, .name = "stk-group", .one = look, .user = &l}};
    stk_store_limits limits;

    folder *root = stk__calloc(g->context, 1, sizeof *root + 1);
    if (!root)
        return no_memory(err);
    stk__store_limits(g->shared->store, &limits);
    l.folders.most = STK_MIN(limits.io_depth, MAX_THREADS) - 1;
    stk__worklist_init(&l.folders);
    stk__worklist_add_locked(&l.folders, &root->piece);
    stk__worklist_work(&l.folders);
    return stk__worklist_end(&l.folders, err);
}
