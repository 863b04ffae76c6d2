/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nodes of a group that has no consolidated metadata: folders are listed and their metadata is
 * read by several threads, since each waits for the store. Folders of arrays are not entered.
 */
#include "array/group.h"
#include "array/zarr.h"

#define MAX_THREADS 16

/* A folder to look at. */
typedef struct folder folder;
struct folder {
    folder *next;
    uint32_t level;
    char path[];
};

typedef struct listing {
    stk_group *group;
    pthread_mutex_t mutex; /* guards all below, and the group's nodes */
    pthread_cond_t cond;
    folder *waiting;
    uint32_t num_waiting;
    uint32_t busy; /* threads that look at a folder */
    stk__thread threads[MAX_THREADS];
    uint32_t num_threads, most_threads; /* beside the one that asked */
    atomic_uint_fast32_t entries;       /* that were listed; under no lock */
    stk_status status;
    stk_error error;
} listing;

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory to list a group");
}

typedef struct children {
    listing *list;
    const folder *parent;
    folder *found;
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
    f->next = c->found;
    c->found = f;
    return STK_OK;
}

static void work(void *listing);

/* As many as find folders to look at, besides those that do, and this one, which will. (l->mutex is
 * held.) A thread that cannot be started is not missed. */
static void start_threads(listing *l)
{
    while (l->status == STK_OK && l->num_threads < l->most_threads &&
           l->num_waiting + l->busy > l->num_threads + 2) {
        if (stk__thread_start(l->group->context, &l->threads[l->num_threads], "stk-group", work, l,
                              NULL) != STK_OK)
            l->most_threads = l->num_threads;
        else
            l->num_threads++;
    }
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
    pthread_mutex_lock(&l->mutex);
    for (folder *next; c.found; c.found = next) {
        next = c.found->next;
        c.found->next = l->waiting;
        l->waiting = c.found;
        l->num_waiting++;
    }
    start_threads(l);
    pthread_cond_broadcast(&l->cond);
    pthread_mutex_unlock(&l->mutex);
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
    pthread_mutex_lock(&l->mutex);
    stk_status status = stk__group_add(l->group, f->path, is_array, metadata, attributes, err);
    pthread_mutex_unlock(&l->mutex);
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

static void look(listing *l, folder *f)
{
    stk_error err;

    stk_error_init(&err);
    stk_status status = !*f->path                ? enter(l, f, &err)
                        : l->group->version == 3 ? look_v3(l, f, &err)
                                                 : look_v2(l, f, &err);
    stk__free(l->group->context, f);
    if (status == STK_OK)
        return;
    pthread_mutex_lock(&l->mutex);
    if (l->status == STK_OK) {
        l->status = status;
        l->error = err;
    }
    pthread_mutex_unlock(&l->mutex);
}

static void work(void *argument)
{
    listing *l = argument;

    pthread_mutex_lock(&l->mutex);
    while (l->status == STK_OK && (l->waiting || l->busy)) {
        folder *f = l->waiting;
        if (!f) {
            pthread_cond_wait(&l->cond, &l->mutex);
            continue;
        }
        l->waiting = f->next;
        l->num_waiting--;
        l->busy++;
        pthread_mutex_unlock(&l->mutex);
        look(l, f);
        pthread_mutex_lock(&l->mutex);
        l->busy--;
        pthread_cond_broadcast(&l->cond);
    }
    pthread_mutex_unlock(&l->mutex);
}

stk_status stk__group_list(stk_group *g, stk_error *err)
{
    listing l = {.group = g, .mutex = PTHREAD_MUTEX_INITIALIZER, .num_waiting = 1};
    stk_store_limits limits;

    folder *root = stk__calloc(g->context, 1, sizeof *root + 1);
    if (!root)
        return no_memory(err);
    stk_error_init(&l.error);
    stk__cond_init(&l.cond);
    l.waiting = root;
    stk__store_limits(g->shared->store, &limits);
    l.most_threads = STK_MIN(limits.io_depth, MAX_THREADS) - 1;
    work(&l);
    for (uint32_t i = 0; i < l.num_threads; i++)
        stk__thread_join(&l.threads[i]);
    for (folder *next; l.waiting; l.waiting = next) {
        next = l.waiting->next;
        stk__free(g->context, l.waiting);
    }
    pthread_cond_destroy(&l.cond);
    pthread_mutex_destroy(&l.mutex);
    if (l.status != STK_OK && err)
        *err = l.error;
    return l.status;
}
