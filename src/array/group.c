/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups of Zarr, both versions, and their consolidated metadata: v3 inline in the group's
 * zarr.json [zarr-specs#373], v2 in .zmetadata (a convention of zarr-python).
 */
#include "array/group.h"

#include <stdlib.h>

#include "array/zarr.h"

#include "base/spec.h"

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory for the nodes of a group");
}

stk_status stk__group_check_path(const char *path, const char *key, stk_error *err)
{
    const char *part = path;
    bool good = *path && strlen(path) < STK_MAX_OBJECT_KEY - 256;

    for (const char *p = path;; p++) {
        if ((unsigned char)*p < 0x20 && *p)
            good = false;
        if (*p && *p != '/')
            continue;
        size_t length = (size_t)(p - part), dots = strspn(part, ".");
        if (length == 0 || (dots == length && length <= 2))
            good = false;
        if (!*p)
            break;
        part = p + 1;
    }
    if (good)
        return STK_OK;
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                        "%s names a node '%.100s', which is no path below the group", key, path);
}

stk_status stk__group_add(stk_group *g, const char *path, bool is_array, stk__json metadata,
                          stk__json attributes, stk_error *err)
{
    const uint64_t most = stk__context_memory_limit(g->context) / STK__GROUP_PART;
    stk_status status = STK_OK;
    char *copy = NULL;

    if (g->num_nodes == STK__GROUP_MAX_NODES)
        status = stk__fail(err, STK_ELIMIT, STK_STAGE_ARRAY, "a group has more than %u nodes",
                           STK__GROUP_MAX_NODES);
    if (status == STK_OK && g->num_nodes == g->room_nodes) {
        bool fits = 2 * (g->num_nodes + 1) * sizeof *g->nodes <= most;
        stk__group_node *grown =
            fits ? stk__grow(g->context, g->nodes, &g->room_nodes, g->num_nodes + 1, sizeof *grown)
                 : NULL;
        if (!fits) {
            status = stk__fail(err, STK_ELIMIT, STK_STAGE_ARRAY,
                               "the list of a group's nodes takes more than %llu bytes, an eighth "
                               "of memory_limit; raise it",
                               (unsigned long long)most);
        } else if (grown) {
            g->nodes = grown;
        } else {
            status = no_memory(err);
        }
    }
    if (status == STK_OK && !(copy = stk__strdup(g->context, path)))
        status = no_memory(err);
    if (status != STK_OK) {
        stk__json_drop(g->context, &metadata);
        stk__json_drop(g->context, &attributes);
        return status;
    }
    g->nodes[g->num_nodes++] = (stk__group_node){.base = {.path = copy, .is_array = is_array},
                                                 .path = copy,
                                                 .metadata = metadata,
                                                 .attributes = attributes};
    return STK_OK;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const stk__group_node *)a)->path, ((const stk__group_node *)b)->path);
}

void stk__group_sort(stk_group *g)
{
    if (g->num_nodes)
        qsort(g->nodes, g->num_nodes, sizeof *g->nodes, by_path);
}

/* ---- Consolidated metadata ---- */

/* A part of the group's document, which is claimed as a whole. */
static stk__json shared(json_t *value)
{
    return (stk__json){json_incref(value), 0};
}

static stk_status take_v3_nodes(stk_group *g, const json_t *metadata, const char *key,
                                stk_error *err)
{
    const char *path;
    json_t *document;

    json_object_foreach((json_t *)metadata, path, document)
    {
        const char *type = json_string_value(json_object_get(document, "node_type"));
        STK_TRY(stk__group_check_path(path, key, err));
        if (!type || (strcmp(type, "array") != 0 && strcmp(type, "group") != 0))
            return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                                "%s: the node '%.100s' of the consolidated metadata is neither an "
                                "array nor a group",
                                key, path);
        STK_TRY(stk__group_add(g, path, type[0] == 'a', shared(document), (stk__json){0}, err));
    }
    return STK_OK;
}

/* Nodes of .zmetadata: "a/b/.zarray" and the like. */
static stk_status take_v2_nodes(stk_group *g, const json_t *metadata, const char *key,
                                stk_error *err)
{
    const char *name;
    json_t *document;

    json_object_foreach((json_t *)metadata, name, document)
    {
        char path[STK_MAX_OBJECT_KEY];
        const char *slash = strrchr(name, '/'), *kind = slash ? slash + 1 : name;
        bool is_array = !strcmp(kind, STK__ZARR_V2_ARRAY);
        size_t length = slash ? (size_t)(slash - name) : 0;
        if (length == 0 || (!is_array && strcmp(kind, STK__ZARR_V2_GROUP) != 0))
            continue;
        if (length + sizeof "/" STK__ZARR_V2_ATTRS > sizeof path)
            length = 0; /* refused below */
        memcpy(path, name, length);
        memcpy(path + length, "/" STK__ZARR_V2_ATTRS, sizeof "/" STK__ZARR_V2_ATTRS);
        json_t *attributes = json_object_get(metadata, path);
        path[length] = 0;
        STK_TRY(stk__group_check_path(path, key, err));
        if (!json_is_object(document))
            return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                                "%s: '%.100s' is no object", key, name);
        STK_TRY(stk__group_add(g, path, is_array, shared(is_array ? document : NULL),
                               shared(attributes), err));
    }
    return STK_OK;
}

stk_status stk__group_attributes(stk_group *g, json_t *attributes, const char *key, stk_error *err)
{
    if (attributes && !json_is_object(attributes) && !json_is_null(attributes))
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s: 'attributes' is no object", key);
    g->attributes = json_is_object(attributes) ? json_incref(attributes) : NULL;
    g->attributes_text = g->attributes ? stk__json_text(g->context, g->attributes, false)
                                       : stk__strdup(g->context, "{}");
    return g->attributes_text ? STK_OK : no_memory(err);
}

/* ---- Opening ---- */

static stk_status open_v3(stk_group *g, const json_t *document, bool consolidated, stk_error *err)
{
    static const char *const known[] = {"zarr_format", "node_type", "attributes",
                                        "consolidated_metadata", NULL};
    const json_t *all = json_object_get(document, "consolidated_metadata");
    const char *type = json_string_value(json_object_get(document, "node_type"));
    const char *kind = json_string_value(json_object_get(all, "kind"));

    g->version = 3;
    if (type && !strcmp(type, "array"))
        return stk__fail_at(err, STK_EMISMATCH, STK_STAGE_ARRAY, STK__ZARR_V3, STK_NO_OFFSET,
                            "this is an array and no group: open it with stk_array_open()");
    if (!type || strcmp(type, "group") != 0 ||
        json_integer_value(json_object_get(document, "zarr_format")) != 3)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, STK__ZARR_V3, STK_NO_OFFSET,
                            "zarr.json is not of a group of version 3");
    STK_TRY(stk__zarr_known(document, known, STK__ZARR_V3, err));
    STK_TRY(stk__group_attributes(g, json_object_get(document, "attributes"), STK__ZARR_V3, err));
    if (!consolidated || !all || json_is_null(all))
        return STK_OK;
    if (!kind || strcmp(kind, "inline") != 0) {
        if (json_is_false(json_object_get(all, "must_understand")))
            return STK_OK;
        return stk__fail_at(err, STK_EKIND, STK_STAGE_ARRAY, STK__ZARR_V3, STK_NO_OFFSET,
                            "zarr.json: consolidated metadata of the kind '%.80s' is not read",
                            kind ? kind : "?");
    }
    g->consolidated = true;
    return take_v3_nodes(g, json_object_get(all, "metadata"), STK__ZARR_V3, err);
}

static stk_status open_v2(stk_group *g, bool consolidated, bool *found, stk_error *err)
{
    stk_store *store = g->shared->store;
    stk__json attributes = {0};
    bool has_all = false, has_attributes = false;

    g->version = 2;
    stk_status status = STK_OK;
    if (consolidated)
        status = stk__zarr_load(store, STK__ZARR_V2_ALL, &g->document, &has_all, err);
    *found = has_all;
    if (status == STK_OK && has_all) {
        const json_t *all = json_object_get(g->document.value, "metadata");
        g->consolidated = true;
        status = stk__group_attributes(g, json_object_get(all, STK__ZARR_V2_ATTRS),
                                       STK__ZARR_V2_ALL, err);
        if (status == STK_OK)
            status = take_v2_nodes(g, all, STK__ZARR_V2_ALL, err);
    } else if (status == STK_OK) {
        status = stk__zarr_load(store, STK__ZARR_V2_GROUP, &g->document, found, err);
        if (status == STK_OK && *found)
            status = stk__zarr_load(store, STK__ZARR_V2_ATTRS, &attributes, &has_attributes, err);
        if (status == STK_OK && *found) {
            stk__json_drop(g->context, &g->document);
            g->document = attributes;
            return stk__group_attributes(g, attributes.value, STK__ZARR_V2_ATTRS, err);
        }
    }
    stk__json_drop(g->context, &attributes);
    return status;
}

/* The folder of a group, in the store of `g`. */
static stk_status open_folder(stk_group *g, const char *url, bool consolidated, stk_error *err)
{
    bool found = false;

    stk__zarr_expect(g->shared->store);
    STK_TRY(stk__zarr_load(g->shared->store, STK__ZARR_V3, &g->document, &found, err));
    if (found)
        return open_v3(g, g->document.value, consolidated, err);
    STK_TRY(open_v2(g, consolidated, &found, err));
    if (found)
        return STK_OK;
    return stk__fail_at(err, STK_ENOENT, STK_STAGE_ARRAY, url, STK_NO_OFFSET,
                        "'%.300s' holds no Zarr group: neither zarr.json nor .zgroup is there",
                        url);
}

/* A group of a store, which it takes over, also on failure. */
static stk_status create(stk_context *ctx, stk_store *store, stk_group **out, stk_error *err)
{
    stk__shared_store *shared;

    *out = NULL;
    STK_TRY(stk__shared_create(&store, &shared, err));
    stk_group *g = stk__calloc(ctx, 1, sizeof *g);
    if (!g) {
        stk__shared_unref(shared);
        return no_memory(err);
    }
    g->context = stk__context_ref(ctx);
    g->shared = shared;
    *out = g;
    return STK_OK;
}

/* Of the options of arrays a group has two: the format of the file that it is in, and the dimension
 * along which several are joined; a new text in *along, where it is given. */
static stk_status take_options(stk_context *ctx, char *url, const stk_array_format_ops **out,
                               char **along, stk_error *err)
{
    static const stk_option rows[] = {
        {"format", STK_OPTION_STRING, offsetof(stk_array_options, format), "auto", 0, 0, NULL,
         "NAME", "How the arrays are stored."},
        {"concat", STK_OPTION_STRING, offsetof(stk_array_options, concat), NULL, 0, 0, NULL, "DIM",
         "The dimension along which files are joined."},
    };
    static const stk_option_table table = {.name = "array",
                                           .doc = "How a group is opened.",
                                           .struct_size = sizeof(stk_array_options),
                                           .options = rows,
                                           .count = STK_COUNT(rows)};
    stk_array_options options;
    char *texts = NULL;

    stk_array_options_init(&options);
    stk_status status = stk__spec_take(ctx, url, &table, &options, &texts, err);
    if (status == STK_OK)
        status = stk__array_named(ctx, &options, out, err);
    if (status == STK_OK && options.concat && *options.concat) {
        stk__free(ctx, *along);
        *along = stk__strdup(ctx, options.concat);
        status = *along ? STK_OK : no_memory(err);
    }
    stk__free(ctx, texts);
    return status;
}

/* Where a group lies, as stk_array_opening has it. */
typedef struct place {
    stk_store *store;
    stk__group_joined *joined;
    const char *key, *rest;
    char own_key[STK_MAX_OBJECT_KEY], own_rest[STK_MAX_OBJECT_KEY];
} place;

static stk_status find_place(stk_context *ctx, const char *url, const char *along, place *p,
                             stk_error *err)
{
    p->key = p->own_key;
    p->rest = p->own_rest;
    if (along)
        return stk__group_joined_find(ctx, url, along, &p->joined, &p->store, &p->key, &p->rest,
                                      err);
    return stk__store_split(ctx, url, &p->store, p->own_key, sizeof p->own_key, p->own_rest,
                            sizeof p->own_rest, err);
}

/* `along` of the URL counts, or else that which is given. */
static stk_status open_group(stk_context *ctx, const char *url, const char *along,
                             bool consolidated, stk_group **out, stk_error *err)
{
    const stk_array_format_ops *named = NULL;
    stk__own_options *own = NULL;
    stk_group *g = NULL;
    place p = {0};

    *out = NULL;
    char *rest = stk__strdup(ctx, url), *dimension = along ? stk__strdup(ctx, along) : NULL;
    stk_status status = rest && (dimension || !along) ? STK_OK : no_memory(err);
    if (status == STK_OK)
        status = take_options(ctx, rest, &named, &dimension, err);
    if (status == STK_OK && !named)
        status = stk__container_enter(ctx, &rest, err);
    if (status == STK_OK)
        status = stk__own_options_take(ctx, rest, named, &own, err);
    if (status == STK_OK)
        status = find_place(ctx, rest, dimension, &p, err);
    if (status == STK_OK)
        status = create(ctx, p.store, &g, err);
    if (status == STK_OK) {
        g->own = own;
        g->joined = p.joined;
        own = NULL;
        p.joined = NULL;
        status = *p.key ? stk__group_open_file(g, rest, p.key, p.rest, named, err)
                        : open_folder(g, url, consolidated, err);
        if (status == STK_OK && g->joined)
            status = stk__group_joined_check(g, err);
    }
    stk__group_joined_free(&p.joined);
    stk__own_options_free(ctx, &own);
    stk__free(ctx, dimension);
    stk__free(ctx, rest);
    if (status != STK_OK)
        stk_group_close(&g);
    *out = g;
    return status;
}

stk_status stk__group_open(stk_context *ctx, const char *url, bool consolidated, stk_group **out,
                           stk_error *err)
{
    return open_group(ctx, url, NULL, consolidated, out, err);
}

stk_status stk__group_open_along(stk_context *ctx, const char *url, const char *along,
                                 stk_group **out, stk_error *err)
{
    stk__opening_begin(ctx);
    stk_status status = open_group(ctx, url, along, true, out, err);
    if (status == STK_OK && !(*out)->consolidated)
        status = stk__group_list(*out, err);
    stk__opening_end(ctx);
    if (status != STK_OK) {
        stk_group_close(out);
        return status;
    }
    stk__group_sort(*out);
    return STK_OK;
}

stk_status stk_group_open(stk_context *context, const char *url, stk_group **out, stk_error *err)
{
    if (!context || !url || !out)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY, "stk_group_open: an argument is NULL");
    *out = NULL;
    STK_TRY(stk__context_check(context, err));
    return stk__group_open_along(context, url, NULL, out, err);
}

void stk_group_close(stk_group **group)
{
    stk_group *g = group ? *group : NULL;

    if (!g)
        return;
    *group = NULL;
    if (stk__context_forked(g->context))
        return;
    stk_context *ctx = g->context;
    for (size_t i = 0; i < g->num_nodes; i++) {
        stk__json_drop(ctx, &g->nodes[i].metadata);
        stk__json_drop(ctx, &g->nodes[i].attributes);
        stk__free(ctx, g->nodes[i].path);
    }
    stk__free(ctx, g->nodes);
    json_decref(g->attributes);
    stk__json_drop(ctx, &g->document);
    stk__free(ctx, g->attributes_text);
    stk__group_joined_free(&g->joined);
    stk__group_close_file(g);
    stk__shared_unref(g->shared);
    stk__free(ctx, g);
    stk__context_unref(ctx);
}

const stk_node *stk_group_node(const stk_group *group, size_t i)
{
    return i < group->num_nodes ? &group->nodes[i].base : NULL;
}

const char *stk_group_attributes(const stk_group *group)
{
    return group->attributes_text;
}

bool stk_group_is_consolidated(const stk_group *group)
{
    return group->consolidated;
}

/* ---- Arrays of a group ---- */

static stk_status open_node(stk_group *g, const stk__group_node *node, stk_array *a, stk_error *err)
{
    if (g->ops)
        return stk__group_open_in_file(g, node->path, a, err);
    a->metadata_key = stk__format(g->context, "%s/%s", node->path,
                                  g->version == 3 ? STK__ZARR_V3 : STK__ZARR_V2_ARRAY);
    if (!a->metadata_key)
        return stk__array_no_memory(a, err);
    if (g->version == 3)
        return stk__zarr_v3(a, node->metadata.value, a->metadata_key, err);
    return stk__zarr_v2(a, node->metadata.value, node->attributes.value, a->metadata_key, err);
}

stk_status stk_group_array(stk_group *group, const char *path, const stk_array_options *options,
                           stk_array **out, stk_error *err)
{
    stk_array_options o;

    if (!group || !path || !out)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY, "stk_group_array: an argument is NULL");
    *out = NULL;
    STK_TRY(stk__context_check(group->context, err));
    STK_TRY(stk__array_settle(group->context, options, &o, err));
    stk__group_node wanted = {.path = (char *)(uintptr_t)path};
    const stk__group_node *node =
        group->num_nodes ? bsearch(&wanted, group->nodes, group->num_nodes, sizeof wanted, by_path)
                         : NULL;
    if (!node || !node->base.is_array)
        return stk__fail_at(err, node ? STK_EMISMATCH : STK_ENOENT, STK_STAGE_ARRAY, path,
                            STK_NO_OFFSET,
                            node ? "'%.200s' is a group; name one of its arrays"
                                 : "the group has no array '%.200s'",
                            path);
    char *prefix =
        group->ops ? stk__strdup(group->context, "") : stk__format(group->context, "%s/", path);
    if (!prefix)
        return no_memory(err);
    stk_status status = stk__array_create(group->context, group->shared, prefix, &o, out, err);
    stk__free(group->context, prefix);
    if (status == STK_OK)
        status = open_node(group, node, *out, err);
    if (status == STK_OK && group->joined)
        status = stk__group_joined_array(group, path, out, err);
    if (status != STK_OK)
        stk_array_close(out);
    return status;
}
