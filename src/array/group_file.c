/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of files that hold several arrays: the format of the file tells what is in it. */
#include "array/group.h"

struct stk_array_listing {
    stk_group *group;
    bool has_attributes;
};

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory for the nodes of a group");
}

stk_status stk_array_listing_add(stk_array_listing *listing, const char *path, bool is_array,
                                 stk_error *err)
{
    if (!listing || !path)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "stk_array_listing_add: an argument is NULL");
    STK_TRY(stk__group_check_path(path, listing->group->key, err));
    return stk__group_add(listing->group, path, is_array, (stk__json){0}, (stk__json){0}, err);
}

stk_status stk_array_listing_attributes(stk_array_listing *listing, const char *json_object,
                                        stk_error *err)
{
    if (!listing || !json_object || listing->has_attributes)
        return stk__fail(
            err, STK_EINVAL, STK_STAGE_ARRAY,
            "stk_array_listing_attributes: an argument is NULL, or it is called twice");
    stk_group *g = listing->group;
    listing->has_attributes = true;
    STK_TRY(
        stk__json_parse(g->context, json_object, strlen(json_object), g->key, &g->document, err));
    return stk__group_attributes(g, g->document.value, g->key, err);
}

/* A table that was built before there was list() ends in front of it. */
static bool can_list(const stk_array_format_ops *ops)
{
    return ops->struct_size > offsetof(stk_array_format_ops, list) && ops->list;
}

/* Likewise before forget(): nothing is kept for it. */
static bool can_forget(const stk_array_format_ops *ops)
{
    return ops->struct_size > offsetof(stk_array_format_ops, forget) && ops->forget;
}

/* The opening of what is at `rest` of the file. */
static stk_status opening_of(const stk_group *g, const char *rest, const stk_array_options *options,
                             stk_array_opening *out, stk_error *err)
{
    *out = (stk_array_opening){.struct_size = sizeof *out,
                               .store = g->shared->store,
                               .key = g->key,
                               .url = g->url,
                               .rest = rest,
                               .array_options = options};
    return stk__own_options_get(g->own, g->ops, &out->options, err);
}

/* The identity of the group's object; 0: it cannot be had. */
static uint64_t identity_now(const stk_group *g)
{
    stk_object_info info = {.struct_size = sizeof info};

    return stk_store_stat(g->shared->store, g->key, NULL, &info, NULL) == STK_OK ? info.identity
                                                                                 : 0;
}

stk_status stk__group_open_file(stk_group *g, const char *url, const char *key, const char *rest,
                                const stk_array_format_ops *named, stk_error *err)
{
    stk_array_listing listing = {.group = g};
    stk_array_opening opening;
    stk_array_options options;

    if (named)
        g->ops = named;
    else
        stk__array_best_format(g->shared->store, key, &g->ops);
    if (!g->ops || !can_list(g->ops))
        return *rest ? stk__store_no_rest(url, key, rest, err)
                     : stk__fail_at(err, STK_EINVAL, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                                    "'%.300s' is a file of no format that holds groups", url);
    g->url = stk__strdup(g->context, url);
    g->key = stk__strdup(g->context, key);
    g->rest = stk__strdup(g->context, rest);
    if (!g->url || !g->key || !g->rest)
        return no_memory(err);
    g->consolidated = true;
    STK_TRY(stk__array_settle(g->context, NULL, &options, err));
    STK_TRY(opening_of(g, g->rest, &options, &opening, err));
    g->kept_of = can_forget(g->ops) ? identity_now(g) : 0;
    opening.kept = g->kept_of ? &g->kept : NULL;
    STK_TRY(g->ops->list(&opening, &listing, err));
    return listing.has_attributes ? STK_OK : stk__group_attributes(g, NULL, g->key, err);
}

void stk__group_close_file(stk_group *g)
{
    if (g->kept)
        g->ops->forget(g->kept);
    stk__free(g->context, g->url);
    stk__free(g->context, g->key);
    stk__free(g->context, g->rest);
    stk__own_options_free(g->context, &g->own);
}

char *stk__group_rest(const stk_group *g, const char *path)
{
    return stk__format(g->context, "%s%s%s", g->rest, *g->rest ? "/" : "", path);
}

stk_status stk__group_open_in_file(stk_group *g, const char *path, stk_array *a, stk_error *err)
{
    stk_array_opening opening;

    char *rest = stk__group_rest(g, path);
    if (!rest)
        return no_memory(err);
    stk_status status = opening_of(g, rest, &a->options, &opening, err);
    /* An object that is another one by now is read again. */
    if (g->kept && identity_now(g) == g->kept_of)
        opening.kept = &g->kept;
    if (status == STK_OK)
        status = stk__array_open_with(a, g->ops, &opening, err);
    stk__free(g->context, rest);
    return status;
}
