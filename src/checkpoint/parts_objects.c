/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts that are objects of a store, each with a mark of its own, which says that its rank has put
 * all of it. That of the first is the mark of the whole, so it comes behind all others and goes in
 * front of them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/url.h"
#include "checkpoint/parts.h"
#include "checkpoint/upload_send.h"

static stk_status no_memory(const char *url, stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for the parts of '%.300s'", url);
}

/* Those whose URL names the same objects on every machine, and that can list them. */
bool stk__checkpoint_parts_store(stk_context *ctx, const char *url)
{
    static const char *const names[] = {"s3", "gs"};
    stk__url parsed;

    stk__url_unwrap(ctx, url, &parsed);
    const stk_store_ops *driver = parsed.driver;
    for (size_t i = 0; i < STK_COUNT(names) && driver; i++)
        if (strcmp(driver->name, names[i]) == 0)
            return true;
    return false;
}

bool stk__parts_same_folder(const char *a, const char *b)
{
    const char *const in_a = strrchr(a, '/'), *const in_b = strrchr(b, '/');
    const size_t n = in_a ? (size_t)(in_a - a) : 0;

    return n == (in_b ? (size_t)(in_b - b) : 0) && memcmp(a, b, n) == 0;
}

/* ---- What is there --------------------------------------------------------------------------- */

stk_status stk__parts_object_of(stk__put_place *place, const char *url, bool *any,
                                stk__checkpoint_part *out, stk_error *err)
{
    stk__presence presence = STK__IS_NOTHING;
    char folder[STK_MAX_OBJECT_KEY], key[STK_MAX_OBJECT_KEY];
    stk_error own;

    *out = (stk__checkpoint_part){.count = 0};
    *any = false;
    /* Most folders have no parts, and then no object is read for it. */
    STK_TRY(stk__put_place_open(place, url, err));
    const char *slash = strrchr(place->key, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash + 1 - place->key) : 0, place->key);
    stk_status status = stk__key_below(folder, STK__CHECKPOINT_PARTS, key, err);
    if (status == STK_OK && STK__STORE_HAS(place->store->ops, list))
        status = stk__store_look(place->store, key, &presence, err);
    stk__put_place_rest(place);
    /* Who may put and not look has put no parts. */
    if (status == STK_EACCES || status == STK_ENOTSUP)
        return STK_OK;
    *any = status == STK_OK && presence == STK__IS_FOLDER;
    if (!*any)
        return status;
    status = stk__part_read(place->context, url, out, &own);
    if (status != STK_OK || out->number)
        out->count = 0;
    /* What is there and is none needs no parts. */
    if (status == STK_OK || stk__part_is_none(status))
        return STK_OK;
    *err = own;
    return status;
}

/* Whether the mark of an object is there. */
static stk_status is_marked(stk__put_place *place, const char *url, bool *there, stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};
    const stk_store_call call = stk__upload_call(place, 0);
    stk_error own;

    *there = false;
    char *mark = stk__upload_mark_url(place->context, url);
    if (!mark)
        return no_memory(url, err);
    stk_status status = stk__put_place_open(place, mark, err);
    stk__free(place->context, mark);
    STK_TRY(status);
    status = stk_store_stat(place->store, place->key, &call, &info, &own);
    stk__put_place_rest(place);
    *there = status == STK_OK && !info.is_folder;
    if (status == STK_OK || status == STK_ENOENT)
        return STK_OK;
    *err = own;
    return status;
}

stk_status stk__parts_objects_look(stk__put_place *place, const char *url,
                                   const stk__checkpoint_part *part, uint32_t *next, stk_error *err)
{
    bool there = true;

    for (*next = STK_MAX(*next, 1); *next < part->count; ++*next) {
        char *path = stk__part_path(place->context, url, part, *next);
        const stk_status status = path ? is_marked(place, path, &there, err) : no_memory(url, err);
        stk__free(place->context, path);
        STK_TRY(status);
        if (!there)
            return stk__fail_at(err, STK_EAGAIN, STK_STAGE_TRAIN, url, STK_NO_OFFSET,
                                "the part of rank %" PRIu32 " of %" PRIu32 " is not in the store",
                                *next, part->count);
    }
    return STK_OK;
}

/* ---- Each part ------------------------------------------------------------------------------- */

stk_status stk__parts_objects_copy(stk__put_place *place, const char *from, const char *to,
                                   const stk__checkpoint_part *part, stk_error *err)
{
    stk_status status = STK_OK;

    for (uint32_t k = 1; k < part->count && status == STK_OK; k++) {
        char *source = stk__part_path(place->context, from, part, k);
        char *target = stk__part_path(place->context, to, part, k);
        status = source && target ? stk__upload_copy_marked(place, source, target, err)
                                  : no_memory(to, err);
        stk__free(place->context, source);
        stk__free(place->context, target);
    }
    return status;
}

/* Objects that may be the first part of a save. */
typedef struct names {
    stk_context *ctx;
    char **list;
    size_t n, room;
    stk_error *err;
} names;

static stk_status note_name(void *user, const char *key, const stk_object_info *info)
{
    names *found = user;

    if (info->is_folder || stk__ends_with(key, strlen(key), STK__UPLOAD_MARK))
        return STK_OK;
    char **grown =
        stk__grow(found->ctx, found->list, &found->room, found->n + 1, sizeof *found->list);
    if (!grown)
        return no_memory(key, found->err);
    found->list = grown;
    grown[found->n] = stk__strdup(found->ctx, key);
    return grown[found->n] ? (found->n++, STK_OK) : no_memory(key, found->err);
}

/* The URL of an object in the folder of another. */
static char *beside(stk_context *ctx, const char *url, const char *name)
{
    size_t length;
    const char *last = stk__url_name(ctx, url, &length);
    char *folder = stk__format(ctx, "%.*s%s", (int)(last - url), url, last + length);
    char *path = folder ? stk__url_below(ctx, folder, name) : NULL;

    stk__free(ctx, folder);
    return path;
}

/* What lies beside an object. */
static stk_status list_folder(stk__put_place *place, const char *url, stk_list_fn *each, void *user,
                              stk_error *err)
{
    STK_TRY(stk__put_place_open(place, url, err));
    const stk_status status = stk__upload_list_beside(place, each, user, err);
    stk__put_place_rest(place);
    return status;
}

/* ---- What nobody needs ----------------------------------------------------------------------- */

/* A part that a folder has, or its mark. */
typedef struct listed {
    stk__checkpoint_part part;
    bool young;
    bool needed; /* of the first of a save: its first part is there */
} listed;

/* Sorted by saves, then by numbers. */
typedef struct listing {
    stk_context *ctx;
    const stk__checkpoint_part *only; /* of this save; NULL: of all */
    int64_t young_ns;                 /* Unix time from which on a first may yet come */
    listed *list;
    size_t n, room;
    stk_error *err;
} listing;

static stk_status note_part(void *user, const char *key, const stk_object_info *info)
{
    const char *slash = strrchr(key, '/'), *own = slash ? slash + 1 : key;
    const size_t mark = strlen(STK__UPLOAD_MARK), length = strlen(own);
    char name[STK_MAX_OBJECT_KEY];
    stk__checkpoint_part part;
    listing *l = user;

    snprintf(name, sizeof name, "%.*s",
             (int)(length - (stk__ends_with(own, length, STK__UPLOAD_MARK) ? mark : 0)), own);
    if (info->is_folder || !stk__part_name_parse(name, &part) ||
        (l->only && !stk__part_same_save(l->only, &part)))
        return STK_OK;
    listed *grown = stk__grow(l->ctx, l->list, &l->room, l->n + 1, sizeof *grown);
    if (!grown)
        return no_memory(key, l->err);
    l->list = grown;
    l->list[l->n++] = (listed){part, info->mtime_ns > l->young_ns, false};
    return STK_OK;
}

static int compare_saves(const stk__checkpoint_part *a, const stk__checkpoint_part *b)
{
    if (a->save[0] != b->save[0])
        return a->save[0] < b->save[0] ? -1 : 1;
    return (a->save[1] > b->save[1]) - (a->save[1] < b->save[1]);
}

static int compare(const void *a, const void *b)
{
    const stk__checkpoint_part *x = &((const listed *)a)->part, *y = &((const listed *)b)->part;
    const int order = compare_saves(x, y);

    if (order)
        return order;
    return x->number != y->number ? (x->number < y->number ? -1 : 1)
                                  : (x->count > y->count) - (x->count < y->count);
}

/* The first of a save in the list; NULL: none is of it. */
static listed *find_save(const listing *l, const stk__checkpoint_part *part)
{
    size_t low = 0, high = l->n;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare_saves(&l->list[middle].part, part) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < l->n && stk__part_same_save(&l->list[low].part, part) ? &l->list[low] : NULL;
}

/* Behind those of the save that is the first in [from, n). *young: one of them is. */
static size_t end_of_save(const listing *l, size_t from, bool *young)
{
    size_t end = from;

    for (*young = false; end < l->n; end++) {
        if (!stk__part_same_save(&l->list[from].part, &l->list[end].part))
            break;
        *young |= l->list[end].young;
    }
    return end;
}

/* Mark the saves whose first part is one of the objects, until `open` of them are. */
static stk_status find_firsts(const names *found, const char *url, const listing *l, size_t open,
                              stk_error *err)
{
    stk_status status = STK_OK;

    for (size_t i = 0; i < found->n && status == STK_OK && open; i++) {
        const char *slash = strrchr(found->list[i], '/');
        stk__checkpoint_part part;
        char *path = beside(found->ctx, url, slash ? slash + 1 : found->list[i]);
        status = path ? stk__part_read(found->ctx, path, &part, err) : no_memory(url, err);
        stk__free(found->ctx, path);
        listed *save = status == STK_OK ? find_save(l, &part) : NULL;
        open -= save && !save->needed;
        if (save)
            save->needed = true;
        if (stk__part_is_none(status))
            status = STK_OK;
    }
    return status;
}

static stk_status look_for_firsts(stk__put_place *place, const char *url, const listing *l,
                                  stk_error *err)
{
    names found = {.ctx = place->context, .err = err};
    size_t open = 0;
    bool young;

    for (size_t i = 0; i < l->n; open++)
        i = end_of_save(l, i, &young);
    if (open == 0)
        return STK_OK;
    stk_status status = list_folder(place, url, note_name, &found, err);
    if (status == STK_OK)
        status = find_firsts(&found, url, l, open, err);
    for (size_t i = 0; i < found.n; i++)
        stk__free(place->context, found.list[i]);
    stk__free(place->context, found.list);
    return status;
}

/* Those of a save, [from, end): what is there, whatever number its names say. */
static stk_status remove_listed(stk__put_place *place, const char *url, const listing *l,
                                size_t from, size_t end, stk_error *err)
{
    stk_status status = STK_OK;

    for (size_t i = from; i < end && status == STK_OK; i++) {
        const stk__checkpoint_part *part = &l->list[i].part;
        /* The first lies elsewhere; an object stands beside its mark. */
        if (!part->number || (i > from && compare(&l->list[i - 1], &l->list[i]) == 0))
            continue;
        char *path = stk__part_path(place->context, url, part, part->number);
        status = path ? stk__upload_remove_marked(place, path, err) : no_memory(url, err);
        stk__free(place->context, path);
    }
    return status;
}

/* Of the parts that are listed those of saves without a first, which none of is young. */
static stk_status remove_unneeded(stk__put_place *place, const char *url, listing *l,
                                  stk_error *err)
{
    bool young;

    l->ctx = place->context;
    l->err = err;
    char *any = beside(place->context, url, STK__CHECKPOINT_PARTS "/x");
    if (!any)
        return no_memory(url, err);
    stk_status status = list_folder(place, any, note_part, l, err);
    stk__free(place->context, any);
    if (l->n)
        qsort(l->list, l->n, sizeof *l->list, compare);
    if (status == STK_OK)
        status = look_for_firsts(place, url, l, err);
    for (size_t i = 0, end; i < l->n && status == STK_OK; i = end) {
        end = end_of_save(l, i, &young);
        if (!young && !l->list[i].needed)
            status = remove_listed(place, url, l, i, end, err);
    }
    stk__free(place->context, l->list);
    return status;
}

stk_status stk__parts_objects_drop(stk__put_place *place, const char *url,
                                   const stk__checkpoint_part *part, stk_error *err)
{
    listing l = {.only = part, .young_ns = INT64_MAX};

    return remove_unneeded(place, url, &l, err);
}

stk_status stk__parts_objects_sweep(stk__put_place *place, const char *url, stk_error *err)
{
    listing l = {.young_ns = (int64_t)((stk__wall_seconds() - STK__PARTS_YOUNG_S) * 1e9)};

    return remove_unneeded(place, url, &l, err);
}
