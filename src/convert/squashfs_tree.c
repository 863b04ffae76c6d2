/* SPDX-License-Identifier: Apache-2.0 */
/* What lies below a folder of any store, in the order in which it is packed. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "convert/squashfs.h"
#include "convert/target.h"

/* One listing. */
typedef struct listing {
    stk__squashfs_tree *tree;
    int root; /* of a local folder, where links are told apart; -1: another store */
    stk_error *err;
} listing;

static stk_status no_memory(const stk__squashfs_tree *tree, stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT,
                     "no memory for a list of %zu files and folders", tree->count);
}

/* ---- Names ----------------------------------------------------------------------------------- */

static stk_status refuse(const char *path, const char *why, stk_error *err)
{
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_CONVERT, path, STK_NO_OFFSET,
                        "'%.300s' cannot be in a SquashFS image: %s; rename it, or take it out of "
                        "the source",
                        path, why);
}

static stk_status check_name(const char *path, const char *name, stk_error *err)
{
    const size_t length = strlen(name);

    if (length > STK__SQUASHFS_NAME)
        return refuse(path, "its name is longer than 256 bytes", err);
    if (length == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return refuse(path, "its name is no name of a file", err);
    return STK_OK;
}

/* By parts, so that what is in a folder lies together: '/' is less than any byte of a name. */
static int by_path(const void *a, const void *b, void *paths)
{
    const unsigned char *p = paths, *q = paths;

    p += ((const stk__squashfs_node *)a)->path;
    q += ((const stk__squashfs_node *)b)->path;
    while (*p && *p == *q)
        p++, q++;
    if (*p == *q || !*p || !*q)
        return (*p > *q) - (*p < *q);
    return *p == '/' ? -1 : *q == '/' ? 1 : (*p > *q) - (*p < *q);
}

/* ---- Listing --------------------------------------------------------------------------------- */

static stk_status add(stk__squashfs_tree *tree, const char *path, const stk_object_info *info,
                      stk_error *err)
{
    const size_t before = tree->paths.length;
    const char *name = stk__convert_last_name(path);

    if (tree->count >= STK__SQUASHFS_NODES)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_CONVERT,
                         "'%.200s' holds more files than a SquashFS image can; pack its folders "
                         "one by one",
                         tree->prefix);
    stk__squashfs_node *nodes =
        stk__grow(tree->context, tree->nodes, &tree->room, tree->count + 1, sizeof *nodes);
    if (!nodes)
        return no_memory(tree, err);
    tree->nodes = nodes;
    stk__text_put(&tree->paths, path, strlen(path) + 1);
    if (tree->paths.failed)
        return no_memory(tree, err);
    nodes[tree->count++] = (stk__squashfs_node){.path = before,
                                                .name = (uint16_t)(name - path),
                                                .is_folder = info->is_folder,
                                                .size = info->is_folder ? 0 : info->size,
                                                .identity = info->identity,
                                                .mtime_ns = info->is_folder ? 0 : info->mtime_ns,
                                                .parent = STK__SQUASHFS_NONE,
                                                .child = STK__SQUASHFS_NONE,
                                                .next = STK__SQUASHFS_NONE};
    return STK_OK;
}

/* What Stoker keeps beside files, bound to them as they are in the source. */
static bool is_index(const char *name)
{
    return strcmp(name, ".stoker-index") == 0 ||
           (name[0] == '.' && stk__ends_with(name, strlen(name), ".stoker-index"));
}

/* Folders from the root to one, itself included. */
static unsigned depth_of(const char *path)
{
    unsigned depth = 1;

    for (; *path; path++)
        depth += *path == '/';
    return depth;
}

static stk_status take(void *user, const char *key, const stk_object_info *info)
{
    listing *l = user;
    stk__squashfs_tree *tree = l->tree;
    const char *path = key + strlen(tree->prefix);
    struct stat st;

    if (is_index(stk__convert_last_name(path)))
        return STK_OK;
    if (l->root >= 0 && fstatat(l->root, key, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISLNK(st.st_mode)) {
        tree->links++;
        return STK_OK;
    }
    STK_TRY(check_name(path, stk__convert_last_name(path), l->err));
    if (info->is_folder && depth_of(path) >= STK__SQUASHFS_MAX_DEPTH)
        return refuse(path, "it lies more than 64 folders deep", l->err);
    if (!info->is_folder &&
        (info->size > INT64_MAX || !stk__add_size(tree->bytes, info->size, &tree->bytes)))
        return refuse(path, "its size is beyond what a file can have", l->err);
    tree->files += !info->is_folder;
    return add(tree, path, info, l->err);
}

/* Links of a local folder are left out, whereto they lead: the store that lists them follows them,
 * the one that is read from does not leave the folder. */
static stk_status list_all(const stk_conversion_job *job, stk__squashfs_tree *tree,
                           stk_store *lists, stk_error *err)
{
    const stk_object_info folder = {.is_folder = true};
    listing l = {.tree = tree, .root = stk__file_root(lists), .err = err};
    const stk_store_call call = {.struct_size = sizeof call,
                                 .canceled = stk__convert_canceled,
                                 .user = (void *)(uintptr_t)job};
    char key[STK_MAX_OBJECT_KEY];

    stk__file_follow(lists);
    STK_TRY(add(tree, "", &folder, err));
    for (size_t i = 0; i < tree->count; i++) {
        if (!tree->nodes[i].is_folder)
            continue;
        STK_TRY(stk__key_below(tree->prefix, stk__squashfs_path(tree, &tree->nodes[i]), key, err));
        size_t length = strlen(key);
        key[length -= length && key[length - 1] == '/'] = 0;
        STK_TRY(stk_store_list(lists, key, &call, take, &l, err));
    }
    return STK_OK;
}

/* ---- The tree -------------------------------------------------------------------------------- */

/* Whether a path lies in a folder. */
static bool lies_in(const char *path, const char *folder)
{
    const size_t length = strlen(folder);

    return !length || (strncmp(path, folder, length) == 0 && path[length] == '/');
}

/* Parents of nodes that are in order: the one before, or one above it. */
static stk_status find_parents(stk__squashfs_tree *tree, stk_error *err)
{
    stk__squashfs_node *nodes = tree->nodes;

    for (uint32_t i = 1; i < tree->count; i++) {
        const char *path = stk__squashfs_path(tree, &nodes[i]);
        uint32_t at = i - 1;
        if (strcmp(path, stk__squashfs_path(tree, &nodes[at])) == 0)
            return refuse(path, "there are two of that name, or a file and a folder", err);
        while (at && !(nodes[at].is_folder && lies_in(path, stk__squashfs_path(tree, &nodes[at]))))
            at = nodes[at].parent;
        nodes[i].parent = at;
    }
    return STK_OK;
}

static void link_nodes(stk__squashfs_tree *tree)
{
    stk__squashfs_node *nodes = tree->nodes;
    uint32_t number = 1;

    for (uint32_t i = (uint32_t)tree->count - 1; i > 0; i--) {
        stk__squashfs_node *parent = &nodes[nodes[i].parent];
        nodes[i].next = parent->child;
        parent->child = i;
        parent->mtime_ns = STK_MAX(parent->mtime_ns, nodes[i].mtime_ns);
    }
    /* Those of one folder follow each other: a listing has differences of numbers. */
    nodes[0].number = number++;
    for (uint32_t i = 0; i < tree->count; i++)
        for (uint32_t k = nodes[i].child; k != STK__SQUASHFS_NONE; k = nodes[k].next)
            nodes[k].number = number++;
}

/* The store of a folder, and what its keys begin with. */
static stk_status open_folder(stk_context *ctx, const char *source, stk_store **store,
                              char prefix[STK_MAX_OBJECT_KEY], stk_error *err)
{
    stk__presence is = STK__IS_FOLDER;

    STK_TRY(stk_store_open(ctx, source, store, prefix, STK_MAX_OBJECT_KEY - 1, err));
    if (*prefix)
        STK_TRY(stk__store_look(*store, prefix, &is, err));
    if (is != STK__IS_FOLDER)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_CONVERT, source, STK_NO_OFFSET,
                            "'%.300s' is no folder; name the one that is to be packed", source);
    const size_t length = strlen(prefix);
    if (length && prefix[length - 1] != '/')
        memcpy(prefix + length, "/", 2);
    return STK_OK;
}

bool stk__squashfs_is_folder(stk_context *ctx, const char *source)
{
    char prefix[STK_MAX_OBJECT_KEY];
    stk_store *store = NULL;

    const stk_status status = open_folder(ctx, source, &store, prefix, NULL);
    stk_store_close(&store);
    return status == STK_OK || status == STK_ENOMEM;
}

stk_status stk__squashfs_list(const stk_conversion_job *job, stk__squashfs_tree *tree,
                              stk_error *err)
{
    const char *source = stk__convert_source(job);
    stk_context *ctx = job->context;
    stk_store *lists = NULL;

    *tree = (stk__squashfs_tree){.context = ctx, .paths.ctx = ctx};
    stk_status status = open_folder(ctx, source, &tree->store, tree->prefix, err);
    if (status == STK_OK)
        status = open_folder(ctx, source, &lists, tree->prefix, err);
    if (status == STK_OK)
        status = list_all(job, tree, lists, err);
    stk_store_close(&lists);
    STK_TRY(status);
    qsort_r(tree->nodes, tree->count, sizeof *tree->nodes, by_path, tree->paths.bytes);
    STK_TRY(find_parents(tree, err));
    link_nodes(tree);
    return STK_OK;
}

void stk__squashfs_tree_release(stk__squashfs_tree *tree)
{
    stk_store_close(&tree->store);
    stk__text_release(&tree->paths);
    stk__free(tree->context, tree->nodes);
}
