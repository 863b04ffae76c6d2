/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opened containers of a context. A URL is tried folder by folder, and by every kind of dataset
 * that might know it: the tables of an object are read once, kept while a store uses them, and for
 * a while longer. They hold memory alone, no store and no reference to the context.
 */
#include "store/container.h"

#include "base/slot.h"

#define MOST_IDLE 4 /* containers kept that no store uses */

static void free_container(stk__container *c)
{
    if (!c)
        return;
    stk_context *const ctx = c->context;

    c->format->close(c, c->tables);
    stk__free(ctx, c->entries);
    stk__free(ctx, c->names);
    stk__free(ctx, c->checked);
    stk__free(ctx, c);
}

static void free_all(stk_context *ctx, void *data)
{
    (void)ctx;
    for (stk__container *c = data, *next; c; c = next) {
        next = c->next;
        free_container(c);
    }
}

/* ---- What is done under the lock of the slot ---- */

typedef struct finding {
    const stk__container_format *format;
    const char *url;
    const stk_object_info *is;
    stk__container *found; /* referenced for the caller; NULL: none */
} finding;

static stk_status find(stk_context *ctx, stk__slot *slot, void *user)
{
    finding *f = user;

    (void)ctx;
    for (stk__container *c = slot->data; c && !f->found; c = c->next)
        if (c->format == f->format && c->identity && c->identity == f->is->identity &&
            c->size == f->is->size && strcmp(c->url, f->url) == 0)
            f->found = c;
    if (f->found)
        f->found->refs++;
    return STK_OK;
}

static stk_status adopt(stk_context *ctx, stk__slot *slot, void *user)
{
    stk__container *c = user;

    (void)ctx;
    c->refs = 1;
    c->next = slot->data;
    slot->data = c;
    slot->destroy = free_all;
    return STK_OK;
}

/* Take the one that is idle longest out of the list where there are too many; *out is it. */
static void evict(stk__slot *slot, stk__container **out)
{
    stk__container **oldest = NULL;
    size_t idle = 0;

    *out = NULL;
    for (stk__container **at = (stk__container **)&slot->data; *at; at = &(*at)->next) {
        if ((*at)->refs)
            continue;
        idle++;
        if (!oldest || (*at)->used < (*oldest)->used)
            oldest = at;
    }
    if (idle <= MOST_IDLE)
        return;
    *out = *oldest;
    *oldest = (*oldest)->next;
}

static stk_status give(stk_context *ctx, stk__slot *slot, void *user)
{
    stk__container **c = user;

    (void)ctx;
    (*c)->refs--;
    (*c)->used = stk__now_ns();
    evict(slot, c);
    return STK_OK;
}

/* Take all that are idle out of the list. */
static stk_status take_idle(stk_context *ctx, stk__slot *slot, void *user)
{
    stk__container **idle = user, **at = (stk__container **)&slot->data;

    (void)ctx;
    while (*at) {
        stk__container *c = *at;
        if (c->refs) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        c->next = *idle;
        *idle = c;
    }
    return STK_OK;
}

void stk__container_give(stk__container *c)
{
    if (!c)
        return;
    (void)stk__context_slot(c->context, STK__SLOT_CONTAINERS, give, &c);
    free_container(c);
}

/* ---- Reading the tables ---- */

static stk_status read_tables(stk_context *ctx, const stk__container_format *format,
                              const char *url, stk_store *store, const char *key,
                              const stk_object_info *is, stk__container **out, stk_error *err)
{
    const size_t length = strlen(url) + 1;
    stk__container *c = stk__calloc(ctx, 1, sizeof *c + length);

    if (!c)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to open '%.200s'", url);
    c->context = ctx;
    c->format = format;
    c->size = is->size;
    c->identity = is->identity;
    c->mtime_ns = is->mtime_ns;
    c->store = store;
    c->key = key;
    memcpy(c->url, url, length);
    stk_status status = format->open(c, &c->tables, err);
    if (status == STK_OK)
        status = stk__container_finish(c, err);
    c->store = NULL;
    c->key = NULL;
    if (status == STK_OK)
        *out = c;
    else
        free_container(c);
    return status;
}

stk_status stk__container_read(stk__container *c, uint64_t offset, uint64_t length, void *data,
                               stk_error *err)
{
    uint64_t end;

    if (!stk__add_size(offset, length, &end) || end > c->size)
        return stk__container_fail(c, err, STK_ETRUNCATED, offset,
                                   "points beyond its end, at byte %llu; copy or download it again",
                                   (unsigned long long)c->size);
    return stk_store_read(c->store, c->key, offset, length, data, err);
}

stk_status stk__container_take(stk_context *ctx, const stk__container_format *format,
                               const char *url, stk_store *store, const char *key,
                               stk__container **out, stk_error *err)
{
    stk_object_info is = {.struct_size = sizeof is};

    *out = NULL;
    STK_TRY(stk_store_stat(store, key, NULL, &is, err));
    if (is.is_folder)
        return stk__fail_at(err, STK_EKIND, STK_STAGE_STORE, url, STK_NO_OFFSET,
                            "'%.200s' is a folder and no %s; leave '%s:' away", url, format->word,
                            format->name);
    finding f = {.format = format, .url = url, .is = &is};
    (void)stk__context_slot(ctx, STK__SLOT_CONTAINERS, find, &f);
    *out = f.found;
    if (*out)
        return STK_OK;
    stk_status status = read_tables(ctx, format, url, store, key, &is, out, err);
    if (status == STK_ENOMEM || status == STK_ELIMIT) {
        /* What nobody uses goes, and perhaps there is room then. */
        stk__container *idle = NULL;
        (void)stk__context_slot(ctx, STK__SLOT_CONTAINERS, take_idle, &idle);
        for (stk__container *next; idle; idle = next) {
            next = idle->next;
            free_container(idle);
            status = STK_OK;
        }
        if (status == STK_OK)
            status = read_tables(ctx, format, url, store, key, &is, out, err);
    }
    STK_TRY(status);
    return stk__context_slot(ctx, STK__SLOT_CONTAINERS, adopt, *out);
}
