/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/zarr_documents.h"

#include <stdio.h>

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for the metadata of Zarr");
}

/* ---- Arrays -------------------------------------------------------------------------------- */

/* The attributes of an array with what marks a missing value, as xarray has it in version 3. */
static stk_status with_missing(stk_context *ctx, const stk__target_node *node, char **out,
                               stk_error *err)
{
    stk__json attributes = {0};

    STK_TRY(stk__json_parse(ctx, node->attributes, strlen(node->attributes), "attributes",
                            &attributes, err));
    json_t *value = stk__fill_attribute_json(ctx, node->dtype, node->missing_value);
    const bool set = value && json_object_set_new(attributes.value, "_FillValue", value) == 0;
    *out = set ? stk__json_text(ctx, attributes.value, false) : NULL;
    stk__json_drop(ctx, &attributes);
    return *out ? STK_OK : no_memory(err);
}

static const char *const codec_names[] = {"none",  "zstd",       "gzip", "zlib",
                                          "blosc", "blosc_zstd", "zstd"};
static const char *const shuffle_names[] = {NULL, "none", "byte", "bit"};

static stk_status make_writer(stk__zarr_documents *t, size_t i, stk_error *err)
{
    const stk_convert_arrays_options *own = t->own;
    const stk__target_node *node = &t->nodes[i];
    stk_context *ctx = t->context;
    const bool sharded = !node->varies && own->shards && *own->shards;
    stk_array_writer_options o;
    char *attributes = NULL;

    stk_array_writer_options_init(&o);
    o.dtype = node->dtype;
    o.type_name = node->type_name;
    o.rank = node->rank;
    o.shape = node->shape;
    o.chunk_shape = node->chunk_shape;
    o.shard_shape = sharded ? node->object_shape : NULL;
    o.codec = codec_names[own->codec];
    o.level = own->level;
    o.checksum = own->checksum;
    o.shuffle = shuffle_names[own->shuffle];
    if (o.shuffle && own->shuffle > STK__ARRAYS_SHUFFLE_NONE && node->itemsize == 1 &&
        (own->codec < STK__ARRAYS_CODEC_BLOSC || own->codec == STK__ARRAYS_CODEC_AUTO))
        o.shuffle = NULL; /* there is nothing to shuffle */
    o.zarr_format = t->v2 ? 2 : 3;
    o.fill_value = t->v2 ? node->missing_value : node->fill_value;
    o.no_fill_value = t->v2 && !node->missing_value;
    o.write_empty_chunks = node->whole;
    o.dimension_names = node->dimension_names;
    o.attributes = node->attributes;
    if (!t->v2 && node->missing_value && node->dtype != STK_DTYPE_NONE) {
        STK_TRY(with_missing(ctx, node, &attributes, err));
        o.attributes = attributes;
    }
    const stk_status status = stk__array_writer_plan(ctx, &o, &t->writers[i], err);
    stk__free(ctx, attributes);
    return status;
}

stk_status stk__zarr_documents_init(stk__zarr_documents *t, stk_error *err)
{
    t->writers = stk__calloc(t->context, t->num_nodes, sizeof(stk_array_writer *));
    if (!t->writers)
        return no_memory(err);
    for (size_t i = 0; i < t->num_nodes; i++)
        if (t->nodes[i].is_array)
            STK_TRY(make_writer(t, i, err));
    return STK_OK;
}

void stk__zarr_documents_release(stk__zarr_documents *t)
{
    for (size_t i = 0; t->writers && i < t->num_nodes; i++)
        stk_array_writer_abandon(&t->writers[i]);
    stk__free(t->context, t->writers);
    t->writers = NULL;
}

/* ---- Documents: names below the target and their values -------------------------------------- */

stk_status stk__zarr_below(const char *path, const char *name, char out[STK_MAX_OBJECT_KEY],
                           stk_error *err)
{
    char prefix[STK_MAX_OBJECT_KEY];

    if (strlen(path) + 2 > sizeof prefix)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_CONVERT, "the path '%.200s...' is too long",
                         path);
    snprintf(prefix, sizeof prefix, "%s%s", path, *path ? "/" : "");
    return stk__key_below(prefix, name, out, err);
}

static stk_status tell(const char *path, const char *name, const json_t *value,
                       stk__zarr_document_fn *each, void *user, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY];

    if (!value)
        return no_memory(err);
    STK_TRY(stk__zarr_below(path, name, key, err));
    return each(user, key, value, err);
}

static stk_status tell_array(const stk__zarr_documents *t, size_t i, stk__zarr_document_fn *each,
                             void *user, stk_error *err)
{
    const char *path = t->nodes[i].path;
    const json_t *zattrs;

    const json_t *metadata = stk__array_writer_metadata(t->writers[i], &zattrs);
    if (!zattrs)
        return tell(path, "zarr.json", metadata, each, user, err);
    STK_TRY(tell(path, ".zattrs", zattrs, each, user, err));
    return tell(path, ".zarray", metadata, each, user, err);
}

static stk_status tell_group(const stk__zarr_documents *t, size_t i, stk__zarr_document_fn *each,
                             void *user, stk_error *err)
{
    const stk__target_node *node = &t->nodes[i];
    stk__json attributes = {0};
    json_t *group;

    STK_TRY(stk__json_parse(t->context, node->attributes, strlen(node->attributes), "attributes",
                            &attributes, err));
    group = t->v2 ? json_pack("{s:i}", "zarr_format", 2)
                  : json_pack("{s:i,s:s,s:O}", "zarr_format", 3, "node_type", "group", "attributes",
                              attributes.value);
    stk_status status = STK_OK;
    if (t->v2)
        status = tell(node->path, ".zattrs", attributes.value, each, user, err);
    if (status == STK_OK)
        status = tell(node->path, t->v2 ? ".zgroup" : "zarr.json", group, each, user, err);
    json_decref(group);
    stk__json_drop(t->context, &attributes);
    return status;
}

/* All but the root's of version 3, which holds the others. Inner nodes first. */
stk_status stk__zarr_documents_each(const stk__zarr_documents *t, bool root,
                                    stk__zarr_document_fn *each, void *user, stk_error *err)
{
    for (size_t i = t->num_nodes; i-- > 0;) {
        if (!*t->nodes[i].path && !root)
            continue;
        STK_TRY(t->nodes[i].is_array ? tell_array(t, i, each, user, err)
                                     : tell_group(t, i, each, user, err));
    }
    return STK_OK;
}

static stk_status collect_v2(void *user, const char *name, const json_t *value, stk_error *err)
{
    return json_object_set(user, name, (json_t *)(uintptr_t)value) == 0 ? STK_OK : no_memory(err);
}

/* By the path of the node, without the name of the document. */
static stk_status collect_v3(void *user, const char *name, const json_t *value, stk_error *err)
{
    char path[STK_MAX_OBJECT_KEY];

    snprintf(path, sizeof path, "%s", name);
    *strrchr(path, '/') = 0;
    return collect_v2(user, path, value, err);
}

static stk_status root_of(const stk__zarr_documents *t, json_t *all, json_t **out, stk_error *err)
{
    stk__json attributes = {0};

    if (t->v2) {
        *out = json_pack("{s:i,s:O}", "zarr_consolidated_format", 1, "metadata", all);
        return *out ? STK_OK : no_memory(err);
    }
    STK_TRY(stk__json_parse(t->context, t->nodes[0].attributes, strlen(t->nodes[0].attributes),
                            "attributes", &attributes, err));
    *out = json_pack("{s:i,s:s,s:O,s:{s:s,s:b,s:O}}", "zarr_format", 3, "node_type", "group",
                     "attributes", attributes.value, "consolidated_metadata", "kind", "inline",
                     "must_understand", 0, "metadata", all);
    stk__json_drop(t->context, &attributes);
    return *out ? STK_OK : no_memory(err);
}

const char *stk__zarr_documents_root_name(const stk__zarr_documents *t)
{
    return t->v2 ? ".zmetadata" : "zarr.json";
}

stk_status stk__zarr_documents_root(const stk__zarr_documents *t, json_t **out, stk_error *err)
{
    json_t *all = json_object();

    *out = NULL;
    if (!all)
        return no_memory(err);
    stk_status status =
        stk__zarr_documents_each(t, t->v2, t->v2 ? collect_v2 : collect_v3, all, err);
    if (status == STK_OK)
        status = root_of(t, all, out, err);
    json_decref(all);
    return status;
}
