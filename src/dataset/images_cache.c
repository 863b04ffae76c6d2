/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of a tree as a file: used where the tree is as it was, else the tree is listed and the
 * index written anew.
 *
 * A folder is as it was when its inode and its time of change are. Two kinds are not believed so
 * easily. Where the index lies in the tree, writing it changed the root: its names and their inodes
 * are compared. And a folder that changed just before it was listed may have changed once more
 * within the same tick of the clock: there the sizes are compared as well.
 *
 * Other stores have no times of folders, and what would tell whether one has changed is listing it.
 * An index of those is believed for a time that the user sets. It has the identity of each object,
 * by which the store holds its reads: what was removed or replaced since then is an error of that
 * sample, and what was added comes with the next listing.
 */
#include "dataset/images.h"
#include "dataset/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

/* Where the index lies. */
typedef struct place {
    stk_store *store;
    stk_store *own; /* to be closed */
    char key[STK_MAX_OBJECT_KEY];
    bool inside; /* in the root of the tree */
    bool asked;  /* by its path */
} place;

/* Comparing a tree with its index. */
typedef struct checking {
    const stk__images_table *table;
    const stk_store *store;
    bool inside;
    int64_t settled_ns; /* folders that changed later are not believed */
    atomic_uint_fast64_t next, done;
    atomic_bool changed, racy;
} checking;

/* ---- Comparing ------------------------------------------------------------------------------- */

static bool same_sizes(const checking *c, const stk__images_folder *f, int fd)
{
    for (uint64_t i = f->first; i < f->first + f->count; i++) {
        const stk__images_file *file = &c->table->files[i];
        char key[STK_MAX_OBJECT_KEY];
        struct stat st;
        stk__images_key(c->table, i, key, sizeof key);
        if (stk__images_look_at(c->store, fd, c->table->text + file->name, key, &st) < 0 ||
            (uint64_t)st.st_size != file->size)
            return false;
    }
    return true;
}

/* List the folder again. */
static bool same_entries(const checking *c, const stk__images_folder *f, const char *path,
                         bool sizes)
{
    stk__images_folder now;
    uint64_t device, entries = 0;
    int fd = -1;

    if (stk__images_open_folder(c->store, path, &fd, &now, &device, NULL) != STK_OK)
        return false;
    if (sizes && !same_sizes(c, f, fd)) {
        close(fd);
        return false;
    }
    return stk__images_read_folder(fd, path, NULL, NULL, &entries, NULL) == STK_OK &&
           entries == f->entries;
}

static bool same_folder(checking *c, uint64_t i)
{
    const stk__images_folder *f = &c->table->folders[i];
    const char *path = c->table->text + f->path;
    struct stat st;

    if (stk__file_stat_below(c->store, path, &st) < 0 || !S_ISDIR(st.st_mode) ||
        st.st_ino != f->inode)
        return false;
    bool written_to = i == 0 && c->inside;
    bool racy = f->mtime_ns > c->settled_ns;
    if (!written_to && f->mtime_ns != (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec)
        return false;
    if (!racy && !written_to)
        return true;
    /* The root of an index that lies in it has always just changed: that alone is no reason to
     * write it again. */
    if (racy && !written_to)
        atomic_store(&c->racy, true);
    return same_entries(c, f, path, racy);
}

static void check_main(void *argument)
{
    checking *c = argument;
    uint64_t i;

    while (!atomic_load(&c->changed) &&
           (i = atomic_fetch_add(&c->next, 1)) < c->table->num_folders) {
        if (!same_folder(c, i))
            atomic_store(&c->changed, true);
        atomic_fetch_add_explicit(&c->done, 1, memory_order_relaxed);
    }
}

/* Whether the tree is as the index says; *racy when saying so took a second look. */
static bool tree_is_same(const stk__images_table *table, const stk_store *store, bool inside,
                         int64_t index_mtime_ns, bool *racy)
{
    checking c = {.table = table, .store = store, .inside = inside};
    int64_t listed = table->listed_ns;

    /* When listing began by the clock that also stamps the folders, if that was earlier. */
    if (!__builtin_sub_overflow(index_mtime_ns, (int64_t)table->elapsed_ns, &index_mtime_ns))
        listed = STK_MIN(listed, index_mtime_ns);
    if (__builtin_sub_overflow(listed, STK__RACY_NS, &c.settled_ns))
        return false;
    uint32_t threads = table->num_folders < 64 ? 1 : stk__lookers(table->context);
    stk__lookers_run(table->context, threads, check_main, &c, "folders compared", &c.done,
                     table->num_folders);
    *racy = atomic_load(&c.racy);
    return !atomic_load(&c.changed);
}

/* ---- Reading and writing --------------------------------------------------------------------- */

static stk_status load(stk_context *ctx, const place *at, stk__images_table *out, int64_t *mtime_ns)
{
    stk_object_info info;
    void *data;

    STK_TRY(stk__kept_read(ctx, at->store, at->key, &data, &info));
    const stk_status status = stk__images_index_parse(ctx, data, info.size, out);
    stk__free(ctx, data);
    *mtime_ns = info.mtime_ns;
    return status;
}

static stk_status save(const place *at, const stk__images_table *table, stk_error *err)
{
    void *data = NULL;
    uint64_t length = 0;

    stk_status status = stk__images_index_make(table, &data, &length);
    if (status != STK_OK)
        return stk__fail(err, status, STK_STAGE_DATASET, "no memory for the index");
    status = stk__kept_write(at->store, at->key, at->asked, data, length, err);
    stk__free(table->context, data);
    return status;
}

/* Without an index everything works as well: what went wrong is a remark. */
static stk__images_index_use write_index(stk_context *ctx, const place *at,
                                         const stk__images_table *table)
{
    stk_error err;

    stk_error_init(&err);
    if (save(at, table, &err) == STK_OK)
        return STK__IMAGES_INDEX_WRITTEN;
    stk__message(
        ctx, at->asked ? STK_MESSAGE_WARNING : STK_MESSAGE_DEBUG,
        "images: the index %s could not be written, and the tree is listed each time: %.300s",
        at->key, err.text);
    return STK__IMAGES_INDEX_REFUSED;
}

/* Where the index of another store lies that is read through a cache: in its folder. */
static stk_status find_in_cache(stk_context *ctx, stk_store *store, place *at, stk_error *err)
{
    const char *folder;
    uint64_t of;

    if (!stk__cache_folder(store, &folder, &of))
        return STK_OK;
    STK_TRY(stk__file_open_folder(ctx, folder, NULL, &at->own, err));
    snprintf(at->key, sizeof at->key, "images-%016llx.index", (unsigned long long)of);
    at->store = at->own;
    return STK_OK;
}

/* Open the folder that the index named by its path lies in; at->store NULL: there is no place. */
static stk_status find_place(stk_context *ctx, stk_store *store, const char *index, place *at,
                             stk_error *err)
{
    const char *slash = strrchr(index, '/');
    const bool local = stk__file_root(store) >= 0;

    *at = (place){.inside = local};
    snprintf(at->key, sizeof at->key, "%s", STK__IMAGES_INDEX);
    if (strcmp(index, "auto") == 0 && !local)
        return find_in_cache(ctx, store, at, err);
    at->store = store;
    if (strcmp(index, "auto") == 0)
        return STK_OK;
    const char *name = slash ? slash + 1 : index;
    if (!name[0] || strlen(name) > STK__IMAGES_MAX_NAME)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                         "images: index=%.200s names no file; give auto, none or the path of a "
                         "file that may be written",
                         index);
    char *folder =
        slash ? stk__format(ctx, "%.*s", (int)(slash - index + 1), index) : stk__strdup(ctx, ".");
    if (!folder)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "images: no memory for the index");
    stk_status status = stk_store_open(ctx, folder, &at->own, NULL, 0, err);
    stk__free(ctx, folder);
    snprintf(at->key, sizeof at->key, "%s", name);
    at->asked = true;
    if (status == STK_OK)
        status = stk__file_name(at->own, at->key, err);
    if (status != STK_OK) {
        stk_store_close(&at->own);
        return status;
    }
    at->store = at->own;
    struct stat here, tree;
    int own = stk__file_root(at->own);
    at->inside = local && own >= 0 && fstat(own, &here) == 0 &&
                 fstat(stk__file_root(store), &tree) == 0 && here.st_ino == tree.st_ino &&
                 here.st_dev == tree.st_dev;
    return STK_OK;
}

/* Take the table from the index, if it is true. */
static bool use_index(stk_context *ctx, stk_store *store, const place *at, stk__images_table *out,
                      stk__images_index_use *use)
{
    int64_t mtime_ns = 0, begin_ns = (int64_t)(stk__wall_seconds() * 1e9);
    uint64_t begin = stk__now_ns();
    bool racy = false;

    stk_status status = load(ctx, at, out, &mtime_ns);
    if (status != STK_OK) {
        if (status != STK_ENOENT)
            stk__message(ctx, STK_MESSAGE_DEBUG, "images: the index %s is not used: %s", at->key,
                         stk_status_text(status));
        return false;
    }
    /* Links out of the tree are not taken from an index of somebody who allowed them. */
    if ((out->followed && !stk__file_follows(store)) ||
        !tree_is_same(out, store, at->inside, mtime_ns, &racy)) {
        stk__message(ctx, STK_MESSAGE_DEBUG, "images: the tree has changed since %s was written",
                     at->key);
        stk__images_release(out);
        return false;
    }
    *use = STK__IMAGES_INDEX_USED;
    if (racy) {
        /* Looked at once more, and now long enough after its last change, most likely. */
        out->listed_ns = begin_ns;
        out->elapsed_ns = stk__now_ns() - begin;
        write_index(ctx, at, out);
    }
    return true;
}

/* A hash of where a tree lies, for an index that may be of another one; never 0. */
static uint64_t hash_of(const char *url)
{
    return XXH3_64bits(url, strcspn(url, "?")) | 1;
}

/* The same of another store than a local folder: by its age alone. */
static bool use_far_index(stk_context *ctx, stk_store *store, const place *at,
                          const stk__images_place *from, stk__images_table *out,
                          stk__images_index_use *use)
{
    int64_t mtime_ns = 0;

    if (load(ctx, at, out, &mtime_ns) != STK_OK)
        return false;
    const double age = stk__wall_seconds() - (double)out->listed_ns * 1e-9;
    if (!out->identities || out->folders[0].inode != hash_of(from->url) || age < 0 ||
        age >= from->index_age) {
        stk__message(ctx, STK_MESSAGE_DEBUG, "images: the index %s is of another folder, or old",
                     at->key);
        stk__images_release(out);
        return false;
    }
    *use = STK__IMAGES_INDEX_YOUNG;
    return true;
}

/* Reads hold to what was listed. */
static void tell_store(stk_store *store, const stk__images_table *table)
{
    char key[STK_MAX_OBJECT_KEY];

    for (uint64_t i = 0; table->identities && i < table->num_files; i++) {
        const stk_object_info info = {.struct_size = sizeof info,
                                      .size = table->files[i].size,
                                      .identity = table->identities[i]};
        stk__images_key(table, i, key, sizeof key);
        stk__store_know(store, key, &info);
    }
}

stk_status stk__images_open_tree(stk_context *ctx, stk_store *store, const stk__images_place *from,
                                 stk__images_table *out, stk__images_index_use *use, stk_error *err)
{
    const bool local = stk__file_root(store) >= 0;
    stk_status status = STK_OK;
    place at = {0};

    *out = (stk__images_table){.context = ctx};
    *use = STK__IMAGES_INDEX_NONE;
    if (strcmp(from->index, "none") != 0)
        STK_TRY(find_place(ctx, store, from->index, &at, err));
    const bool used = at.store && (local ? use_index(ctx, store, &at, out, use)
                                         : use_far_index(ctx, store, &at, from, out, use));
    if (!used) {
        status = stk__images_list_tree(ctx, store, local ? stk__lookers(ctx) : STK__LOOKERS_FAR,
                                       out, err);
        if (status == STK_OK && !local)
            out->folders[0].inode = hash_of(from->url);
        if (status == STK_OK && at.store)
            *use = write_index(ctx, &at, out);
    }
    if (status == STK_OK)
        tell_store(store, out);
    stk_store_close(&at.own);
    return status;
}
