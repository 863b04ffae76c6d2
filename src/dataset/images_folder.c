/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listing a tree. Folders wait on one stack and each thread takes the next; what it finds stays in
 * its own arena, sorted within the folder, until all folders are known. Then they are sorted and
 * the names laid behind each other, so that the table does not depend on who listed what.
 */
#include "base/worklist.h"
#include "dataset/images.h"
#include "dataset/object.h"
#include "dataset/packed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define MAX_LISTERS 16u

/* A folder of the walk. */
typedef struct node node;
struct node {
    stk__worklist_piece piece; /* next: among those that wait, then among all */
    node *parent;
    stk__images_folder folder;
    uint64_t device;
    uint32_t depth, lister; /* lister: whose arena holds its names */
    uint64_t names, bytes;  /* of the pictures in it, in that arena */
    uint64_t sizes;         /* where theirs begin, if the store told them */
    char path[];
};

/* A name before sorting. */
typedef struct raw_name {
    uint64_t at, size, identity;
} raw_name;

/* What one thread has found. */
typedef struct lister {
    char *names;
    uint64_t names_used, names_room;
    uint64_t *sizes; /* and identities, in turn */
    uint64_t num_sizes, sizes_room;
    char *raw; /* names of the folder being listed */
    uint64_t raw_used, raw_room;
    raw_name *items;
    uint64_t num_items, items_room;
    uint64_t ignored, unread;
} lister;

typedef struct walk {
    stk_context *context;
    stk_store *store;
    int root; /* -1: no local folder */
    atomic_uint_fast64_t found;
    atomic_bool is_group;
    lister listers[MAX_LISTERS];
    stk__worklist folders; /* its mutex guards the rest */
    stk__worklist_piece *listed;
    uint64_t num_nodes; /* folders ever seen */
    node **seen;        /* local folders, by device and inode; `seen_room` is a power of two */
    uint64_t num_seen, seen_room;
    uint64_t repeats; /* entries of folders that had been seen before */
} walk;

/* The folder being listed, for the callbacks. */
typedef struct visit {
    walk *walk;
    lister *lister;
    node *node;
    stk_error *err;
} visit;

static stk_status no_memory(stk_error *err, const char *path)
{
    return stk__fail_at(err, STK_ENOMEM, STK_STAGE_DATASET, path, STK_NO_OFFSET,
                        "images: no memory for the names of the files in '%.200s', or no room "
                        "within memory_limit",
                        path[0] ? path : ".");
}

/* ---- What is found --------------------------------------------------------------------------- */

static stk_status add_file(visit *v, const char *name, size_t length, uint64_t size,
                           uint64_t identity)
{
    lister *l = v->lister;
    stk_context *ctx = v->walk->context;
    int kind = stk__images_kind(name, length);

    if (kind < STK__IMAGES_JPEG) {
        l->ignored++;
        l->unread += kind == STK__IMAGES_UNREAD;
        return STK_OK;
    }
    if (atomic_fetch_add_explicit(&v->walk->found, 1, memory_order_relaxed) >=
            STK__IMAGES_MAX_FILES ||
        length > STK__IMAGES_MAX_NAME)
        return stk__fail_at(v->err, STK_ELIMIT, STK_STAGE_DATASET, v->node->path, STK_NO_OFFSET,
                            "images: '%.300s' in '%.200s' is beyond the %llu files of names of %u "
                            "bytes that are listed; pack the pictures into shards",
                            name, v->node->path, (unsigned long long)STK__IMAGES_MAX_FILES,
                            STK__IMAGES_MAX_NAME);
    char *raw = stk__grow(ctx, l->raw, &l->raw_room, l->raw_used + length + 1, sizeof *raw);
    if (raw)
        l->raw = raw;
    raw_name *items = stk__grow(ctx, l->items, &l->items_room, l->num_items + 1, sizeof *items);
    if (items)
        l->items = items;
    if (!raw || !items)
        return no_memory(v->err, v->node->path);
    memcpy(l->raw + l->raw_used, name, length);
    l->raw[l->raw_used + length] = 0;
    l->items[l->num_items++] = (raw_name){l->raw_used, size, identity};
    l->raw_used += length + 1;
    return STK_OK;
}

/* Put a folder on the stack. */
static stk_status add_folder(visit *v, const char *name, size_t length)
{
    walk *w = v->walk;
    const node *parent = v->node;
    size_t front = parent ? strlen(parent->path) : 0;
    size_t bytes = front + (front != 0) + length;

    if (bytes > STK__IMAGES_MAX_PATH || length > STK__IMAGES_MAX_NAME)
        return stk__fail_at(v->err, STK_ELIMIT, STK_STAGE_DATASET, parent->path, STK_NO_OFFSET,
                            "images: the path of a folder in '%.200s' is longer than %d bytes; "
                            "open the tree further down",
                            parent->path, STK__IMAGES_MAX_PATH);
    if (parent && parent->depth == STK__IMAGES_MAX_DEPTH)
        return stk__fail_at(v->err, STK_ELIMIT, STK_STAGE_DATASET, parent->path, STK_NO_OFFSET,
                            "images: '%.200s' lies more than %u folders deep: look for links that "
                            "lead in circles, or open the tree further down",
                            parent->path, STK__IMAGES_MAX_DEPTH);
    node *n = stk__calloc(w->context, 1, sizeof *n + bytes + 1);
    if (!n)
        return no_memory(v->err, parent ? parent->path : "");
    if (front)
        snprintf(n->path, bytes + 1, "%s/%.*s", parent->path, (int)length, name);
    else
        memcpy(n->path, name, length);
    n->parent = v->node;
    n->depth = parent ? parent->depth + 1 : 0;
    pthread_mutex_lock(&w->folders.mutex);
    bool many = w->num_nodes == STK__IMAGES_MAX_FOLDERS;
    if (!many) {
        w->num_nodes++;
        stk__worklist_add_locked(&w->folders, &n->piece);
    }
    pthread_mutex_unlock(&w->folders.mutex);
    if (!many)
        return STK_OK;
    stk__free(w->context, n);
    return stk__fail_at(v->err, STK_ELIMIT, STK_STAGE_DATASET, parent->path, STK_NO_OFFSET,
                        "images: more than %llu folders; links may lead to the same ones again "
                        "and again",
                        (unsigned long long)STK__IMAGES_MAX_FOLDERS);
}

static int by_name(const void *a, const void *b, void *text)
{
    return strcmp((const char *)text + ((const raw_name *)a)->at,
                  (const char *)text + ((const raw_name *)b)->at);
}

/* Move the names of the folder, sorted, behind those of other folders. */
static stk_status keep_names(visit *v)
{
    lister *l = v->lister;
    node *n = v->node;
    stk_context *ctx = v->walk->context;
    bool sized = v->walk->root < 0;

    if (l->num_items > 1)
        qsort_r(l->items, l->num_items, sizeof *l->items, by_name, l->raw);
    char *names =
        stk__grow(ctx, l->names, &l->names_room, l->names_used + l->raw_used, sizeof *names);
    if (names)
        l->names = names;
    uint64_t *sizes = sized ? stk__grow(ctx, l->sizes, &l->sizes_room,
                                        l->num_sizes + 2 * l->num_items, sizeof *sizes)
                            : NULL;
    if (sizes)
        l->sizes = sizes;
    if (!names || (sized && !sizes))
        return no_memory(v->err, n->path);
    n->lister = (uint32_t)(l - v->walk->listers);
    n->names = l->names_used;
    n->bytes = l->raw_used;
    n->sizes = l->num_sizes;
    n->folder.count = l->num_items;
    for (uint64_t i = 0; i < l->num_items; i++) {
        const char *name = l->raw + l->items[i].at;
        size_t bytes = strlen(name) + 1;
        memcpy(l->names + l->names_used, name, bytes);
        l->names_used += bytes;
        if (sized) {
            l->sizes[l->num_sizes++] = l->items[i].size;
            l->sizes[l->num_sizes++] = l->items[i].identity;
        }
    }
    return STK_OK;
}

/* ---- Local folders --------------------------------------------------------------------------- */

/* What a link leads to, or an entry of a file system that does not tell types. */
static stk_status find_type(visit *v, int folder, const char *name, unsigned *type)
{
    char path[STK_MAX_OBJECT_KEY];
    struct stat st;

    snprintf(path, sizeof path, "%s%s%s", v->node->path, v->node->path[0] ? "/" : "", name);
    if (stk__images_look_at(v->walk->store, folder, name, path, &st) == 0) {
        *type = S_ISDIR(st.st_mode) ? DT_DIR : S_ISREG(st.st_mode) ? DT_REG : DT_FIFO;
        return STK_OK;
    }
    int error = errno;
    /* A link to nothing: reading it will say so, where it is named like a picture. */
    *type = DT_REG;
    if (error == ENOENT)
        return STK_OK;
    if (error == ELOOP)
        return stk__fail_at(v->err, STK_EINVAL, STK_STAGE_DATASET, path, STK_NO_OFFSET,
                            "images: the link '%.300s' leads in a circle; remove it", path);
    return stk__images_system_fail(v->walk->store, v->err, "look at", path, error);
}

static stk_status local_entry(void *user, int folder, const char *name, unsigned type)
{
    visit *v = user;

    if (type != DT_REG && type != DT_DIR)
        STK_TRY(find_type(v, folder, name, &type));
    if (type == DT_DIR)
        return add_folder(v, name, strlen(name));
    if (type == DT_REG)
        return add_file(v, name, strlen(name), 0, 0);
    v->lister->ignored++;
    return STK_OK;
}

/* A folder that is one of those it lies in was reached by a link. */
static stk_status check_circle(const visit *v)
{
    const node *n = v->node;

    for (const node *p = n->parent; p; p = p->parent)
        if (p->folder.inode == n->folder.inode && p->device == n->device)
            return stk__fail_at(v->err, STK_EINVAL, STK_STAGE_DATASET, n->path, STK_NO_OFFSET,
                                "images: the link '%.200s' leads to '%.200s', a folder that it "
                                "lies in: remove the link",
                                n->path, p->path[0] ? p->path : ".");
    return STK_OK;
}

/* Put a folder where its inode belongs; false: one of the same inode is there. */
static bool place_locked(node **seen, uint64_t room, node *n)
{
    const uint64_t key[2] = {n->folder.inode, n->device};
    uint64_t at = XXH3_64bits(key, sizeof key) & (room - 1);

    for (; seen[at]; at = (at + 1) & (room - 1))
        if (seen[at]->folder.inode == n->folder.inode && seen[at]->device == n->device)
            return false;
    seen[at] = n;
    return true;
}

static bool grow_seen_locked(walk *w)
{
    uint64_t room = w->seen_room ? 2 * w->seen_room : 256;
    node **seen = stk__calloc(w->context, room, sizeof(node *));

    if (!seen)
        return false;
    for (uint64_t i = 0; i < w->seen_room; i++)
        if (w->seen[i])
            place_locked(seen, room, w->seen[i]);
    stk__free(w->context, w->seen);
    w->seen = seen;
    w->seen_room = room;
    return true;
}

/* Note that the folder is listed; *repeated when links have led to it before. */
static stk_status note_folder(visit *v, bool *repeated)
{
    walk *w = v->walk;

    pthread_mutex_lock(&w->folders.mutex);
    bool room = w->num_seen < w->seen_room / 2 || grow_seen_locked(w);
    if (room) {
        *repeated = !place_locked(w->seen, w->seen_room, v->node);
        w->num_seen += !*repeated;
    }
    pthread_mutex_unlock(&w->folders.mutex);
    return room ? STK_OK : no_memory(v->err, v->node->path);
}

/* Links may lead to the same folders in ever new ways: what is listed again is counted. */
static stk_status count_repeat(visit *v)
{
    walk *w = v->walk;

    pthread_mutex_lock(&w->folders.mutex);
    bool many = ++w->repeats > STK__IMAGES_MAX_REPEATS;
    pthread_mutex_unlock(&w->folders.mutex);
    if (!many)
        return STK_OK;
    return stk__fail_at(v->err, STK_ELIMIT, STK_STAGE_DATASET, v->node->path, STK_NO_OFFSET,
                        "images: links lead to the same folders again and again, the last of them "
                        "'%.200s': more than %llu entries (STK__IMAGES_MAX_REPEATS) are listed a "
                        "second time; remove the links",
                        v->node->path, (unsigned long long)STK__IMAGES_MAX_REPEATS);
}

static stk_status repeated_entry(void *user, int folder, const char *name, unsigned type)
{
    STK_TRY(count_repeat(user));
    return local_entry(user, folder, name, type);
}

static stk_status list_local(visit *v)
{
    node *n = v->node;
    bool repeated = false;
    int fd = -1;

    STK_TRY(stk__images_open_folder(v->walk->store, n->path, &fd, &n->folder, &n->device, v->err));
    stk_status status = check_circle(v);
    if (status == STK_OK)
        status = note_folder(v, &repeated);
    if (status == STK_OK && repeated)
        status = count_repeat(v);
    if (status != STK_OK) {
        close(fd);
        return status;
    }
    return stk__images_read_folder(fd, n->path, repeated ? repeated_entry : local_entry, v,
                                   &n->folder.entries, v->err);
}

/* ---- Other stores ---------------------------------------------------------------------------- */

static stk_status store_entry(void *user, const char *key, const stk_object_info *info)
{
    visit *v = user;
    size_t length;
    const char *name = stk__object_name(key, &length);

    if (!v->node->parent && !info->is_folder && stk__packed_is_metadata(name, length)) {
        atomic_store(&v->walk->is_group, true);
        return stk__fail(v->err, STK_EKIND, STK_STAGE_DATASET, "a group of Zarr is no tree");
    }
    if (length == 0 || name[0] == '.')
        return STK_OK;
    if (info->is_folder)
        return add_folder(v, name, length);
    return add_file(v, name, length, info->size, info->identity);
}

static stk_status list_folder(visit *v)
{
    lister *l = v->lister;

    l->raw_used = l->num_items = 0;
    STK_TRY(v->walk->root >= 0
                ? list_local(v)
                : stk_store_list(v->walk->store, v->node->path, NULL, store_entry, v, v->err));
    return keep_names(v);
}

/* ---- The walk -------------------------------------------------------------------------------- */

static stk_status list_one(void *user, uint32_t thread, stk__worklist_piece *piece, stk_error *err)
{
    walk *w = user;
    visit v = {.walk = w, .lister = &w->listers[thread], .node = (node *)piece, .err = err};

    const stk_status status = list_folder(&v);
    pthread_mutex_lock(&w->folders.mutex);
    piece->next = w->listed;
    w->listed = piece;
    pthread_mutex_unlock(&w->folders.mutex);
    return status;
}

static int by_path(const void *a, const void *b)
{
    return stk__images_compare_paths((*(node *const *)a)->path, (*(node *const *)b)->path);
}

/* Lay the folders and their names out as a table. */
static stk_status lay_out(const walk *w, node **nodes, stk__images_table *out)
{
    uint64_t at = 0, file = 0, bytes = 0;

    for (uint64_t i = 0; i < out->num_folders; i++) {
        out->num_files += nodes[i]->folder.count;
        bytes += nodes[i]->bytes + strlen(nodes[i]->path) + 1;
    }
    out->text_bytes = bytes;
    out->text = stk__alloc(out->context, bytes);
    out->folders = stk__calloc(out->context, out->num_folders, sizeof *out->folders);
    out->files = stk__calloc(out->context, out->num_files, sizeof *out->files);
    if (w->root < 0)
        out->identities = stk__calloc(out->context, out->num_files, sizeof *out->identities);
    if (!out->text || !out->folders || !out->files || (w->root < 0 && !out->identities))
        return STK_ENOMEM;
    for (uint64_t i = 0; i < out->num_folders; i++) {
        size_t length = strlen(nodes[i]->path) + 1;
        memcpy(out->text + at, nodes[i]->path, length);
        out->folders[i] = nodes[i]->folder;
        out->folders[i].path = at;
        at += length;
    }
    for (uint64_t i = 0; i < out->num_folders; i++) {
        const node *n = nodes[i];
        const lister *l = &w->listers[n->lister];
        out->folders[i].first = file;
        if (!n->folder.count)
            continue;
        memcpy(out->text + at, l->names + n->names, n->bytes);
        for (uint64_t k = 0; k < n->folder.count; k++) {
            if (w->root < 0)
                out->identities[file] = l->sizes[n->sizes + 2 * k + 1];
            out->files[file++] =
                (stk__images_file){.name = at,
                                   .size = w->root < 0 ? l->sizes[n->sizes + 2 * k] : 0,
                                   .folder = (uint32_t)i};
            at += strlen(out->text + at) + 1;
        }
    }
    return STK_OK;
}

static stk_status make_table(walk *w, stk__images_table *out)
{
    uint64_t count = 0;

    node **nodes = stk__calloc(w->context, w->num_nodes, sizeof(node *));
    if (!nodes)
        return STK_ENOMEM;
    for (stk__worklist_piece *n = w->listed; n; n = n->next)
        nodes[count++] = (node *)n;
    qsort(nodes, count, sizeof *nodes, by_path);
    out->num_folders = count;
    stk_status status = lay_out(w, nodes, out);
    for (uint32_t i = 0; i < w->folders.came; i++) {
        out->ignored += w->listers[i].ignored;
        out->unread += w->listers[i].unread;
    }
    stk__free(w->context, nodes);
    return status;
}

static void release_walk(walk *w)
{
    for (stk__worklist_piece *next; w->listed; w->listed = next) {
        next = w->listed->next;
        stk__free(w->context, w->listed);
    }
    stk__free(w->context, w->seen);
    for (uint32_t i = 0; i < MAX_LISTERS; i++) {
        lister *l = &w->listers[i];
        stk__free(w->context, l->names);
        stk__free(w->context, l->sizes);
        stk__free(w->context, l->raw);
        stk__free(w->context, l->items);
    }
}

stk_status stk__images_list_tree(stk_context *ctx, stk_store *store, uint32_t threads,
                                 stk__images_table *out, stk_error *err)
{
    walk w = {.context = ctx,
              .store = store,
              .root = stk__file_root(store),
              .folders = {.ctx = ctx, .one = list_one, .user = &w}};
    visit first = {.walk = &w, .err = err};
    uint64_t begin_ns = stk__now_ns();

    *out = (stk__images_table){.context = ctx,
                               .followed = stk__file_follows(store),
                               .listed_ns = (int64_t)(stk__wall_seconds() * 1e9)};
    stk__worklist_init(&w.folders);
    stk_status status = add_folder(&first, "", 0);
    if (status == STK_OK)
        stk__lookers_run(ctx, STK_MIN(threads, MAX_LISTERS), stk__worklist_work, &w.folders,
                         "pictures found", &w.found, 0);
    const stk_status listed = stk__worklist_end(&w.folders, err);
    if (status == STK_OK)
        status = listed;
    if (status == STK_OK && make_table(&w, out) != STK_OK)
        status = no_memory(err, "");
    release_walk(&w);
    if (status == STK_OK && w.root >= 0)
        status = stk__images_find_sizes(out, store, threads, NULL, err);
    out->elapsed_ns = stk__now_ns() - begin_ns;
    if (status != STK_OK)
        stk__images_release(out);
    out->is_group = atomic_load(&w.is_group);
    return status;
}
