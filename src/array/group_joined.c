/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The group of several files: of the first one's arrays those that have the dimension are joined,
 * the others are taken from it and held against those of the other files.
 */
#include "array/concat.h"
#include "array/group.h"

#include "base/url.h"

struct stk__group_joined {
    stk_context *context;
    char *along;
    stk__concat_files files; /* without a store, which is the group's */
};

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory for a group of files");
}

void stk__group_joined_free(stk__group_joined **joined)
{
    stk__group_joined *j = *joined;

    *joined = NULL;
    if (!j)
        return;
    stk__concat_files_release(&j->files);
    stk__free(j->context, j->along);
    stk__free(j->context, j);
}

stk_status stk__group_joined_find(stk_context *ctx, const char *url, const char *along,
                                  stk__group_joined **out, stk_store **store, const char **key,
                                  const char **rest, stk_error *err)
{
    stk__group_joined *j = stk__calloc(ctx, 1, sizeof *j);

    *out = j;
    if (!j)
        return no_memory(err);
    j->context = ctx;
    j->along = stk__strdup(ctx, along);
    const stk_status status =
        j->along ? stk__concat_files_find(ctx, url, &j->files, err) : no_memory(err);
    if (status != STK_OK) {
        stk__group_joined_free(out);
        return status;
    }
    *store = j->files.store;
    j->files.store = NULL;
    *key = j->files.keys[0];
    *rest = j->files.rest;
    return STK_OK;
}

/* The array at `rest` of file `i`. */
static stk_status open_of(const stk_group *g, size_t i, const char *rest,
                          const stk_array_options *options, stk_array **out, stk_error *err)
{
    const char *key = g->joined->files.keys[i];
    const stk_array_opening opening = {.struct_size = sizeof opening,
                                       .store = g->shared->store,
                                       .key = key,
                                       .url = key,
                                       .rest = rest,
                                       .array_options = options};

    return stk__array_open_key(g->shared, &opening, g->ops, g->own, out, err);
}

stk_status stk__group_joined_check(stk_group *g, stk_error *err)
{
    stk_array_options options;

    STK_TRY(stk__array_settle(g->context, NULL, &options, err));
    for (size_t i = 0; i < g->num_nodes; i++) {
        stk_array *a = NULL;
        if (!g->nodes[i].base.is_array)
            continue;
        char *rest = stk__group_rest(g, g->nodes[i].path);
        if (!rest)
            return no_memory(err);
        const stk_status status = open_of(g, 0, rest, &options, &a, NULL);
        const bool has = status == STK_OK && stk__concat_has(a, g->joined->along);
        stk__free(g->context, rest);
        stk_array_close(&a);
        if (has)
            return STK_OK;
    }
    return stk__fail_at(err, STK_EKIND, STK_STAGE_OPTIONS, "concat", STK_NO_OFFSET,
                        "array.concat: no array of %.200s has a dimension '%.64s' ('stoker info' "
                        "shows their dimensions)",
                        g->key, g->joined->along);
}

static stk_status hold_against(const stk_group *g, const char *path, stk_array *first,
                               stk_error *err)
{
    stk_status status = STK_OK;

    char *rest = stk__group_rest(g, path);
    if (!rest)
        return no_memory(err);
    for (size_t i = 1; i < g->joined->files.count && status == STK_OK; i++) {
        stk_array *other = NULL;
        status = open_of(g, i, rest, &first->options, &other, err);
        if (status == STK_OK)
            status = stk__concat_equal(first, other, err);
        stk_array_close(&other);
    }
    stk__free(g->context, rest);
    return status;
}

stk_status stk__group_joined_array(const stk_group *g, const char *path, stk_array **array,
                                   stk_error *err)
{
    stk_array *first = *array;

    if (!stk__concat_has(first, g->joined->along))
        return hold_against(g, path, first, err);
    stk_array_options options = first->options;
    options.concat = g->joined->along;
    stk_array_close(array);
    char *url = stk__url_below(g->context, g->url, path);
    if (!url)
        return no_memory(err);
    const stk_status status =
        stk__concat_open(g->context, url, &options, g->ops, g->own, array, err);
    stk__free(g->context, url);
    return status;
}
