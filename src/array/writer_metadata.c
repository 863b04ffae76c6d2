/* SPDX-License-Identifier: Apache-2.0 */
/* The zarr.json of an array that is written [zarr-specs docs/v3/core]. */
#include "array/writer.h"

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory to write an array");
}

static stk_status refuse(const char *option, const char *what, stk_error *err)
{
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_ARRAY, option, STK_NO_OFFSET,
                        "array_writer.%s: %s", option, what);
}

static json_t *shape_json(const int64_t *shape, uint32_t rank)
{
    json_t *list = json_array();

    for (uint32_t d = 0; list && d < rank; d++)
        if (json_array_append_new(list, json_integer(shape[d])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* The codecs of the chunks. NULL: no memory, or *unknown. */
static json_t *codecs_json(const stk_array_writer_options *o, uint32_t itemsize, bool *unknown)
{
    const char *name = o->codec ? o->codec : "none";
    json_int_t level = o->level;
    bool usual = o->level == STK_AUTO;
    json_t *codec = NULL;

    *unknown = false;
    json_t *list =
        json_pack("[{s:s,s:{s:s}}]", "name", "bytes", "configuration", "endian", "little");
    if (!strcmp(name, "zstd"))
        codec = json_pack("{s:s,s:{s:I,s:b}}", "name", "zstd", "configuration", "level",
                          usual ? (json_int_t)3 : level, "checksum", 0);
    else if (!strcmp(name, "gzip"))
        codec = json_pack("{s:s,s:{s:I}}", "name", "gzip", "configuration", "level",
                          usual ? (json_int_t)6 : level);
    else if (!strcmp(name, "blosc"))
        codec = json_pack("{s:s,s:{s:s,s:I,s:s,s:i,s:i}}", "name", "blosc", "configuration",
                          "cname", "lz4", "clevel", usual ? (json_int_t)5 : level, "shuffle",
                          itemsize > 1 ? "shuffle" : "noshuffle", "typesize",
                          (int)STK_MIN(itemsize, 255u), "blocksize", 0);
    else if (strcmp(name, "none") != 0)
        *unknown = true;
    bool good = list && !*unknown && (codec || !strcmp(name, "none"));
    if (good && codec)
        good = json_array_append(list, codec) == 0;
    json_decref(codec);
    if (good && o->checksum)
        good = json_array_append_new(list, json_pack("{s:s}", "name", "crc32c")) == 0;
    if (good)
        return list;
    json_decref(list);
    return NULL;
}

/* The chain: the codecs of the chunks, in shards where there are such. */
static stk_status chain_json(const stk_array_writer_options *o, uint32_t itemsize, json_t **out,
                             stk_error *err)
{
    bool unknown = false;
    json_t *codecs = codecs_json(o, itemsize, &unknown);

    *out = NULL;
    if (unknown)
        return refuse("codec", "it is one of none, zstd, gzip, blosc", err);
    if (codecs && o->shard_shape)
        codecs =
            json_pack("[{s:s,s:{s:o,s:o,s:[{s:s,s:{s:s}},{s:s}],s:s}}]", "name", "sharding_indexed",
                      "configuration", "chunk_shape", shape_json(o->chunk_shape, o->rank), "codecs",
                      codecs, "index_codecs", "name", "bytes", "configuration", "endian", "little",
                      "name", "crc32c", "index_location", "end");
    *out = codecs;
    return codecs ? STK_OK : no_memory(err);
}

static stk_status names_json(const stk_array_writer_options *o, json_t *document, stk_error *err)
{
    if (!o->dimension_names)
        return STK_OK;
    json_t *names = json_array();
    bool good = names != NULL;
    for (uint32_t d = 0; good && d < o->rank; d++) {
        const char *name = o->dimension_names[d];
        json_t *value = name ? json_string(name) : json_null();
        if (!value && name) {
            json_decref(names);
            return refuse("dimension_names", "a name is no UTF-8", err);
        }
        good = json_array_append_new(names, value) == 0;
    }
    if (good && json_object_set(document, "dimension_names", names) != 0)
        good = false;
    json_decref(names);
    return good ? STK_OK : no_memory(err);
}

static stk_status attributes_json(stk_context *ctx, const stk_array_writer_options *o,
                                  json_t *document, stk_error *err)
{
    const char *text = o->attributes ? o->attributes : "{}";
    stk__json attributes = {0};

    STK_TRY(stk__json_parse(ctx, text, strlen(text), "attributes", &attributes, err));
    stk_status status = STK_OK;
    if (!json_is_object(attributes.value))
        status = refuse("attributes", "it is no JSON object", err);
    else if (json_object_set(document, "attributes", attributes.value) != 0)
        status = no_memory(err);
    stk__json_drop(ctx, &attributes);
    return status;
}

static stk_status check_options(const stk_array_writer_options *o, stk_error *err)
{
    if (o->rank > STK_ARRAY_MAX_RANK)
        return refuse("rank", "at most 32 dimensions can be written", err);
    if (o->rank && (!o->shape || !o->chunk_shape))
        return refuse("shape", "shape and chunk_shape have to be given", err);
    if (stk_dtype_size(o->dtype) == 0)
        return refuse("dtype", "it has to be given", err);
    for (uint32_t d = 0; d < o->rank; d++) {
        if (o->shape[d] < 0)
            return refuse("shape", "a dimension is negative", err);
        if (o->chunk_shape[d] < 1)
            return refuse("chunk_shape", "each dimension takes at least 1", err);
        if (o->shard_shape && (o->shard_shape[d] < 1 || o->shard_shape[d] % o->chunk_shape[d] != 0))
            return refuse("shard_shape", "it is no multiple of chunk_shape", err);
    }
    return STK_OK;
}

stk_status stk__writer_metadata(stk_context *ctx, const stk_array_writer_options *o, json_t **out,
                                stk_error *err)
{
    unsigned char zero[16] = {0};
    stk__type type;
    json_t *codecs = NULL;

    *out = NULL;
    STK_TRY(check_options(o, err));
    STK_TRY(stk__type_numpy(o->type_name ? o->type_name : stk_dtype_name(o->dtype), "type_name",
                            &type, err));
    if (type.dtype != o->dtype || type.big_endian)
        return refuse("type_name", "it is another type than dtype", err);
    STK_TRY(chain_json(o, type.itemsize, &codecs, err));
    json_t *document = json_pack(
        "{s:i,s:s,s:o,s:o,s:{s:s,s:{s:o}},s:{s:s,s:{s:s}},s:o,s:o}", "zarr_format", 3, "node_type",
        "array", "shape", shape_json(o->shape, o->rank), "data_type", stk__type_to_v3(&type),
        "chunk_grid", "name", "regular", "configuration", "chunk_shape",
        shape_json(o->shard_shape ? o->shard_shape : o->chunk_shape, o->rank), "chunk_key_encoding",
        "name", "default", "configuration", "separator", "/", "fill_value",
        stk__fill_to_json(&type, o->fill_value ? o->fill_value : zero), "codecs", codecs);
    if (!document)
        return no_memory(err);
    stk_status status = names_json(o, document, err);
    if (status == STK_OK)
        status = attributes_json(ctx, o, document, err);
    if (status == STK_OK)
        *out = document;
    else
        json_decref(document);
    return status;
}
