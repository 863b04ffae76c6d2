/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts that are objects of a store, each with a mark of its own, which says that its rank has put
 * all of it. That of the first is the mark of the whole, so it comes behind all others and goes in
 * front of them.
 */
#include <inttypes.h>
#include <stdio.h>

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

static stk_store_call call_of(const stk__put_place *place)
{
    return (stk_store_call){.struct_size = sizeof(stk_store_call),
                            .deadline_ns = stk__store_put_deadline(0),
                            .canceled = place->canceled,
                            .user = place->user};
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
    if (status == STK_OK || (stk_status_fault(status) == STK_FAULT_SAMPLE && status != STK_EACCES))
        return STK_OK;
    *err = own;
    return status;
}

/* Whether the mark of an object is there. */
static stk_status is_marked(stk__put_place *place, const char *url, bool *there, stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};
    const stk_store_call call = call_of(place);
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

/* Whether an object of the list is the first part of the save. */
static stk_status find_first(const names *found, const char *url, const stk__checkpoint_part *part,
                             bool *is, stk_error *err)
{
    stk_status status = STK_OK;

    for (size_t i = 0; i < found->n && status == STK_OK && !*is; i++) {
        const char *slash = strrchr(found->list[i], '/');
        stk__checkpoint_part other;
        char *path = beside(found->ctx, url, slash ? slash + 1 : found->list[i]);
        status = path ? stk__part_read(found->ctx, path, &other, err) : no_memory(url, err);
        stk__free(found->ctx, path);
        *is = status == STK_OK && stk__part_same_save(&other, part);
        if (stk_status_fault(status) == STK_FAULT_SAMPLE && status != STK_EACCES)
            status = STK_OK;
    }
    return status;
}

/* What lies beside an object; a folder that is not there has nothing. */
static stk_status list_folder(stk__put_place *place, const char *url, stk_list_fn *each, void *user,
                              stk_error *err)
{
    char folder[STK_MAX_OBJECT_KEY];

    STK_TRY(stk__put_place_open(place, url, err));
    const char *slash = strrchr(place->key, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - place->key) : 0, place->key);
    const stk_store_call call = call_of(place);
    const stk_status status = stk_store_list(place->store, folder, &call, each, user, err);
    stk__put_place_rest(place);
    return status == STK_ENOENT ? STK_OK : status;
}

static stk_status is_needed(stk__put_place *place, const char *url,
                            const stk__checkpoint_part *part, bool *needed, stk_error *err)
{
    names found = {.ctx = place->context, .err = err};

    *needed = false;
    stk_status status = list_folder(place, url, note_name, &found, err);
    if (status == STK_OK)
        status = find_first(&found, url, part, needed, err);
    for (size_t i = 0; i < found.n; i++)
        stk__free(place->context, found.list[i]);
    stk__free(place->context, found.list);
    return status;
}

stk_status stk__parts_objects_drop(stk__put_place *place, const char *url,
                                   const stk__checkpoint_part *part, stk_error *err)
{
    bool needed;

    stk_status status = is_needed(place, url, part, &needed, err);
    for (uint32_t k = 1; k < part->count && status == STK_OK && !needed; k++) {
        char *path = stk__part_path(place->context, url, part, k);
        status = path ? stk__upload_remove_marked(place, path, err) : no_memory(url, err);
        stk__free(place->context, path);
    }
    return status;
}

/* ---- What nobody needs ----------------------------------------------------------------------- */

/* The saves that a folder has parts of. */
typedef struct saves {
    stk_context *ctx;
    struct {
        stk__checkpoint_part part;
        bool young;
    } * list;
    size_t n, room;
    int64_t young_ns; /* Unix time from which on a first may yet come */
    stk_error *err;
} saves;

static stk_status note_save(void *user, const char *key, const stk_object_info *info)
{
    const char *slash = strrchr(key, '/'), *own = slash ? slash + 1 : key;
    const size_t mark = strlen(STK__UPLOAD_MARK), length = strlen(own);
    char name[STK_MAX_OBJECT_KEY];
    stk__checkpoint_part part;
    saves *found = user;
    size_t i = 0;

    snprintf(name, sizeof name, "%.*s",
             (int)(length - (stk__ends_with(own, length, STK__UPLOAD_MARK) ? mark : 0)), own);
    if (info->is_folder || !stk__part_name_parse(name, &part))
        return STK_OK;
    while (i < found->n && !stk__part_same_save(&found->list[i].part, &part))
        i++;
    if (i == found->n) {
        void *grown =
            stk__grow(found->ctx, found->list, &found->room, found->n + 1, sizeof *found->list);
        if (!grown)
            return no_memory(key, found->err);
        found->list = grown;
        found->list[found->n++].young = false;
        found->list[i].part = part;
    }
    found->list[i].young |= info->mtime_ns > found->young_ns;
    return STK_OK;
}

stk_status stk__parts_objects_sweep(stk__put_place *place, const char *url, stk_error *err)
{
    saves found = {.ctx = place->context, .err = err};
    stk_status status;

    found.young_ns = (int64_t)((stk__wall_seconds() - STK__PARTS_YOUNG_S) * 1e9);
    char *any = beside(place->context, url, STK__CHECKPOINT_PARTS "/x");
    if (!any)
        return no_memory(url, err);
    status = list_folder(place, any, note_save, &found, err);
    stk__free(place->context, any);
    for (size_t i = 0; i < found.n && status == STK_OK; i++)
        if (!found.list[i].young)
            status = stk__parts_objects_drop(place, url, &found.list[i].part, err);
    stk__free(place->context, found.list);
    return status;
}
