/* SPDX-License-Identifier: Apache-2.0 */
/* Consolidated metadata of a Zarr v3 group: what lies below it, in its zarr.json. */
#include "array/group.h"
#include "array/zarr.h"

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory to consolidate a group");
}

static json_t *new_group(void)
{
    return json_pack("{s:i,s:s,s:{}}", "zarr_format", 3, "node_type", "group", "attributes");
}

static bool has_node(const stk_group *g, const char *path, size_t length)
{
    for (size_t i = 0; i < g->num_nodes; i++)
        if (!strncmp(g->nodes[i].path, path, length) && !g->nodes[i].path[length])
            return true;
    return false;
}

/* Give the groups above a node their metadata, where they have none. */
static stk_status make_parents(stk_group *g, const char *path, stk_error *err)
{
    for (const char *slash = path; (slash = strchr(slash, '/')); slash++) {
        char key[STK_MAX_OBJECT_KEY];
        size_t length = (size_t)(slash - path);
        if (has_node(g, path, length))
            continue;
        memcpy(key, path, length);
        memcpy(key + length, "/" STK__ZARR_V3, sizeof "/" STK__ZARR_V3);
        json_t *document = new_group();
        if (!document)
            return no_memory(err);
        stk_status status = stk__array_put_json(g->shared->store, key, document, err);
        key[length] = 0;
        if (status == STK_OK)
            status =
                stk__group_add(g, key, false, (stk__json){.value = document}, (stk__json){0}, err);
        else
            json_decref(document);
        STK_TRY(status);
    }
    return STK_OK;
}

static stk_status write_group(stk_group *g, json_t *attributes, stk_error *err)
{
    stk_status status = STK_OK;
    json_t *metadata = json_object();

    for (size_t i = 0; metadata && i < g->num_nodes && status == STK_OK; i++) {
        /* What an inner group had consolidated is here as well. */
        json_t *document = json_copy(g->nodes[i].metadata.value);
        if (!document || json_object_set(metadata, g->nodes[i].path, document) != 0)
            status = no_memory(err);
        json_object_del(document, "consolidated_metadata");
        json_decref(document);
    }
    json_t *all = json_pack("{s:i,s:s,s:O,s:{s:s,s:b,s:o}}", "zarr_format", 3, "node_type", "group",
                            "attributes", attributes, "consolidated_metadata", "kind", "inline",
                            "must_understand", 0, "metadata", metadata);
    if (!all)
        return no_memory(err);
    if (status == STK_OK)
        status = stk__array_put_json(g->shared->store, STK__ZARR_V3, all, err);
    json_decref(all);
    return status;
}

/* A folder that is no group yet becomes one. */
static stk_status make_group(stk_context *ctx, const char *url, stk_error *err)
{
    char prefix[STK_MAX_OBJECT_KEY], key[STK_MAX_OBJECT_KEY];
    stk_store *store = NULL;

    json_t *document = new_group();
    if (!document)
        return no_memory(err);
    stk_status status = stk__put_folder_open(ctx, url, &store, prefix, err);
    if (status == STK_OK)
        status = stk__key_below(prefix, STK__ZARR_V3, key, err);
    if (status == STK_OK)
        status = stk__array_put_json(store, key, document, err);
    stk_store_close(&store);
    json_decref(document);
    return status;
}

stk_status stk_group_consolidate(stk_context *context, const char *url, const char *attributes,
                                 stk_error *err)
{
    stk__json given = {0};
    stk_group *g = NULL;

    if (!context || !url)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "stk_group_consolidate: an argument is NULL");
    STK_TRY(stk__context_check(context, err));
    if (attributes) {
        STK_TRY(
            stk__json_parse(context, attributes, strlen(attributes), "attributes", &given, err));
        if (!json_is_object(given.value)) {
            stk__json_drop(context, &given);
            return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                             "the attributes of a group are no JSON object");
        }
    }
    stk_status status = stk__group_open(context, url, false, &g, err);
    if (status == STK_ENOENT) {
        status = make_group(context, url, err);
        if (status == STK_OK)
            status = stk__group_open(context, url, false, &g, err);
    }
    if (status == STK_OK && g->version != 3)
        status = stk__fail(err, STK_EKIND, STK_STAGE_ARRAY,
                           "'%.200s' is a group of version 2; consolidate it with the program "
                           "that wrote it",
                           url);
    if (status == STK_OK) {
        g->implicit = true;
        status = stk__group_list(g, err);
    }
    for (size_t i = 0; status == STK_OK && i < g->num_nodes; i++)
        status = make_parents(g, g->nodes[i].path, err);
    if (status == STK_OK)
        stk__group_sort(g);
    json_t *kept = given.value          ? json_incref(given.value)
                   : g && g->attributes ? json_incref(g->attributes)
                                        : json_object();
    if (status == STK_OK)
        status = kept ? write_group(g, kept, err) : no_memory(err);
    json_decref(kept);
    stk__json_drop(context, &given);
    stk_group_close(&g);
    return status;
}
