/* SPDX-License-Identifier: Apache-2.0 */
/* The metadata of an array that is written [zarr-specs docs/v3/core, docs/v2]. */
#include "array/writer.h"
#include "array/zarr.h"
#include "base/base64.h"

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory to write an array");
}

static stk_status refuse(const char *option, const char *what, stk_error *err)
{
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_ARRAY, option, STK_NO_OFFSET,
                        "array_writer.%s: %s", option, what);
}

/* Append `value`, of which a reference is taken over, to a list that may be NULL. */
static bool append(json_t *list, json_t *value)
{
    if (list && value)
        return json_array_append_new(list, value) == 0;
    json_decref(value);
    return false;
}

/* What both versions call their codecs, and what a level is where none is given. */
static const struct {
    const char *name, *id, *v3, *inner;
    int usual;
} codecs[] = {
    {"none", NULL, NULL, NULL, 0},         {"zstd", "zstd", "zstd", NULL, 3},
    {"gzip", "gzip", "gzip", NULL, 6},     {"zlib", "zlib", "numcodecs.zlib", NULL, 6},
    {"blosc", "blosc", "blosc", "lz4", 5}, {"blosc_zstd", "blosc", "blosc", "zstd", 5},
};

/* The bytes that are shuffled together: 0 none, 1 bytes, 2 bits; -1: no such word. */
static int shuffle_of(const stk_array_writer_options *o, bool blosc, uint32_t itemsize)
{
    static const char *const words[] = {"none", "byte", "bit"};

    if (!o->shuffle)
        return blosc && itemsize > 1;
    for (int i = 0; i < (int)STK_COUNT(words); i++)
        if (!strcmp(o->shuffle, words[i]))
            return i;
    return -1;
}

/* The compressor of version 2 or 3. NULL: no memory. */
static json_t *compressor_json(size_t codec, int64_t level, int shuffle, uint32_t itemsize, bool v3)
{
    static const char *const shuffles[] = {"noshuffle", "shuffle", "bitshuffle"};
    const char *id = codecs[codec].id, *name = codecs[codec].v3, *inner = codecs[codec].inner;
    const json_int_t at = level == STK_AUTO ? codecs[codec].usual : level;

    if (inner && v3)
        return json_pack("{s:s,s:{s:s,s:I,s:s,s:i,s:i}}", "name", name, "configuration", "cname",
                         inner, "clevel", at, "shuffle", shuffles[shuffle], "typesize",
                         (int)STK_MIN(itemsize, 255u), "blocksize", 0);
    if (inner)
        return json_pack("{s:s,s:s,s:I,s:i,s:i}", "id", id, "cname", inner, "clevel", at, "shuffle",
                         shuffle, "blocksize", 0);
    if (!v3)
        return json_pack("{s:s,s:I}", "id", id, "level", at);
    if (!strcmp(name, "zstd"))
        return json_pack("{s:s,s:{s:I,s:b}}", "name", name, "configuration", "level", at,
                         "checksum", 0);
    return json_pack("{s:s,s:{s:I}}", "name", name, "configuration", "level", at);
}

typedef struct chosen {
    size_t codec;
    int shuffle;
    bool filter; /* the shuffle is a step of its own */
} chosen;

static stk_status choose(const stk_array_writer_options *o, uint32_t itemsize, chosen *out,
                         stk_error *err)
{
    const char *name = o->codec ? o->codec : "none";

    *out = (chosen){0};
    while (out->codec < STK_COUNT(codecs) && strcmp(name, codecs[out->codec].name) != 0)
        out->codec++;
    if (out->codec == STK_COUNT(codecs))
        return refuse("codec", "it is one of none, zstd, gzip, zlib, blosc, blosc_zstd", err);
    const bool blosc = codecs[out->codec].inner;
    out->shuffle = shuffle_of(o, blosc, itemsize);
    if (out->shuffle < 0)
        return refuse("shuffle", "it is one of none, byte, bit", err);
    if (out->shuffle && !codecs[out->codec].id)
        return refuse("shuffle", "it does nothing without a codec behind it", err);
    if (out->shuffle == 2 && !blosc)
        return refuse("shuffle", "bits are shuffled by blosc and blosc_zstd alone", err);
    out->filter = out->shuffle && !blosc && itemsize > 1;
    return STK_OK;
}

/* Bytes of an element that codecs see. */
static uint32_t item_of(const stk__type *type)
{
    return stk__type_varies(type) ? 1 : type->itemsize;
}

/* The codec and filter of elements of varying length. */
static const char *varying_codec(const stk__type *type)
{
    return type->kind == STK__KIND_STRING ? "vlen-utf8" : "vlen-bytes";
}

/* The chain of version 3: the codecs of the chunks, in shards where there are such. */
static stk_status chain_json(const stk_array_writer_options *o, const stk__type *type, json_t **out,
                             stk_error *err)
{
    const uint32_t itemsize = item_of(type);
    chosen how;

    *out = NULL;
    STK_TRY(choose(o, itemsize, &how, err));
    json_t *list =
        stk__type_varies(type)
            ? json_pack("[{s:s,s:{}}]", "name", varying_codec(type), "configuration")
            : json_pack("[{s:s,s:{s:s}}]", "name", "bytes", "configuration", "endian", "little");
    bool good = list;
    if (how.filter)
        good =
            good && append(list, json_pack("{s:s,s:{s:I}}", "name", "numcodecs.shuffle",
                                           "configuration", "elementsize", (json_int_t)itemsize));
    if (codecs[how.codec].id)
        good =
            good && append(list, compressor_json(how.codec, o->level, how.shuffle, itemsize, true));
    if (o->checksum)
        good = good && append(list, json_pack("{s:s}", "name", "crc32c"));
    if (!good) {
        json_decref(list);
        return no_memory(err);
    }
    if (o->shard_shape)
        list =
            json_pack("[{s:s,s:{s:o,s:o,s:[{s:s,s:{s:s}},{s:s}],s:s}}]", "name", "sharding_indexed",
                      "configuration", "chunk_shape", stk__zarr_shape_json(o->chunk_shape, o->rank),
                      "codecs", list, "index_codecs", "name", "bytes", "configuration", "endian",
                      "little", "name", "crc32c", "index_location", "end");
    *out = list;
    return list ? STK_OK : no_memory(err);
}

static stk_status names_json(const stk_array_writer_options *o, json_t *document, stk_error *err)
{
    /* xarray opens no array without names, and a scalar has all of its own. */
    if (!o->dimension_names && o->rank)
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
    if (stk_dtype_size(o->dtype) == 0 && !o->type_name)
        return refuse("dtype", "it has to be given", err);
    if (o->zarr_format != 0 && o->zarr_format != 2 && o->zarr_format != 3)
        return refuse("zarr_format", "it is 2 or 3", err);
    if (o->zarr_format == 2 && o->shard_shape)
        return refuse("shard_shape", "Zarr of version 2 has no shards", err);
    if (o->zarr_format == 2 && o->checksum)
        return refuse("checksum", "it is written in version 3 alone", err);
    if (o->no_fill_value && o->zarr_format != 2)
        return refuse("no_fill_value", "every array of version 3 has a fill value", err);
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

/* Numbers as any JSON has them, bytes as base64, which zarr-python reads and writes. */
static stk_status fill_json(stk_context *ctx, const stk_array_writer_options *o,
                            const stk__type *type, json_t **out, stk_error *err)
{
    static const _Alignas(stk_array_string) unsigned char zeros[STK__ARRAY_MAX_ITEM];
    const void *value = o->fill_value ? o->fill_value : zeros;
    const stk_array_string *varying = value;

    *out = NULL;
    if (type->kind == STK__KIND_TEXT) {
        if (memcmp(value, zeros, type->itemsize) != 0)
            return refuse("fill_value", "of texts it can be the empty one alone", err);
        *out = json_string("");
    } else if (type->kind == STK__KIND_STRING_BYTES) {
        char *text = stk__base64_text(ctx, varying->data ? varying->data : "", varying->length);
        *out = text ? json_string(text) : NULL;
        stk__free(ctx, text);
    } else if (type->kind == STK__KIND_BYTES || type->kind == STK__KIND_RAW) {
        char *text = stk__base64_text(ctx, value, type->itemsize);
        *out = text ? json_string(text) : NULL;
        stk__free(ctx, text);
    } else {
        *out = stk__fill_to_json(type, value);
    }
    return *out ? STK_OK : no_memory(err);
}

/* ---- Version 3 ---- */

static stk_status make_v3(const stk_array_writer_options *o, const stk__type *type, json_t *fill,
                          json_t **out, stk_error *err)
{
    json_t *chain = NULL;

    const stk_status status = chain_json(o, type, &chain, err);
    if (status != STK_OK) {
        json_decref(fill);
        return status;
    }
    *out = json_pack(
        "{s:i,s:s,s:o,s:o,s:{s:s,s:{s:o}},s:{s:s,s:{s:s}},s:o,s:o}", "zarr_format", 3, "node_type",
        "array", "shape", stk__zarr_shape_json(o->shape, o->rank), "data_type",
        stk__type_to_v3(type), "chunk_grid", "name", "regular", "configuration", "chunk_shape",
        stk__zarr_shape_json(o->shard_shape ? o->shard_shape : o->chunk_shape, o->rank),
        "chunk_key_encoding", "name", "default", "configuration", "separator", "/", "fill_value",
        fill, "codecs", chain);
    return *out ? names_json(o, *out, err) : no_memory(err);
}

/* ---- Version 2 ---- */

static stk_status make_v2(const stk_array_writer_options *o, const stk__type *type, json_t *fill,
                          json_t **out, stk_error *err)
{
    char code[STK__ARRAY_TYPE_NAME];
    chosen how;

    const stk_status status = choose(o, item_of(type), &how, err);
    if (status != STK_OK) {
        json_decref(fill);
        return status;
    }
    stk__type_to_v2(type, code);
    json_t *compressor = codecs[how.codec].id ? compressor_json(how.codec, o->level, how.shuffle,
                                                                item_of(type), false)
                                              : json_null();
    json_t *filters = stk__type_varies(type) ? json_pack("[{s:s}]", "id", varying_codec(type))
                      : how.filter ? json_pack("[{s:s,s:I}]", "id", "shuffle", "elementsize",
                                               (json_int_t)type->itemsize)
                                   : json_null();
    *out = json_pack("{s:i,s:o,s:o,s:s,s:o,s:o,s:s,s:o,s:s}", "zarr_format", 2, "shape",
                     stk__zarr_shape_json(o->shape, o->rank), "chunks",
                     stk__zarr_shape_json(o->chunk_shape, o->rank), "dtype", code, "compressor",
                     compressor, "fill_value", fill, "order", "C", "filters", filters,
                     "dimension_separator", ".");
    return *out ? STK_OK : no_memory(err);
}

/* The attribute in which xarray keeps the names. */
static stk_status names_to_attribute(const stk_array_writer_options *o, json_t *document,
                                     stk_error *err)
{
    json_t *holder = json_object(), *names;

    if (!holder)
        return no_memory(err);
    stk_status status = names_json(o, holder, err);
    names = json_object_get(holder, "dimension_names");
    for (size_t d = 0; status == STK_OK && d < json_array_size(names); d++)
        if (json_is_null(json_array_get(names, d)))
            names = NULL; /* it takes all or none */
    if (status == STK_OK && names &&
        json_object_set(json_object_get(document, "attributes"), "_ARRAY_DIMENSIONS", names) != 0)
        status = no_memory(err);
    json_decref(holder);
    return status;
}

stk_status stk__writer_metadata(stk_context *ctx, const stk_array_writer_options *o, json_t **out,
                                json_t **attributes, stk_error *err)
{
    const bool v2 = o->zarr_format == 2;
    json_t *fill = NULL, *document = NULL;
    stk__type type;

    *out = *attributes = NULL;
    STK_TRY(check_options(o, err));
    const char *name = o->type_name ? o->type_name : stk_dtype_name(o->dtype);
    if (!strcmp(name, "string") || !strcmp(name, "bytes"))
        stk__type_set_varying(&type, *name == 's');
    else
        STK_TRY(stk__type_numpy(name, "type_name", &type, err));
    if (type.dtype != o->dtype || type.big_endian)
        return refuse("type_name", "it is another type than dtype", err);
    if (v2 && type.dtype == STK_BFLOAT16)
        return refuse("dtype", "bfloat16 is written in version 3 alone", err);
    if (o->no_fill_value)
        fill = json_null();
    else
        STK_TRY(fill_json(ctx, o, &type, &fill, err));
    stk_status status =
        v2 ? make_v2(o, &type, fill, &document, err) : make_v3(o, &type, fill, &document, err);
    if (status == STK_OK)
        status = attributes_json(ctx, o, document, err);
    if (status == STK_OK && v2) {
        status = names_to_attribute(o, document, err);
        *attributes = json_incref(json_object_get(document, "attributes"));
        json_object_del(document, "attributes");
    }
    if (status == STK_OK) {
        *out = document;
        return STK_OK;
    }
    json_decref(*attributes);
    *attributes = NULL;
    json_decref(document);
    return status;
}

stk_status stk__writer_check_free(stk_store *store, const char *prefix, const char *url,
                                  stk_error *err)
{
    static const char *const names[] = {STK__ZARR_V3, STK__ZARR_V2_ARRAY, STK__ZARR_V2_GROUP};
    stk__presence is = STK__IS_NOTHING;
    char key[STK_MAX_OBJECT_KEY];

    for (size_t i = 0; i < STK_COUNT(names); i++) {
        STK_TRY(stk__key_below(prefix, names[i], key, err));
        STK_TRY(stk__store_look(store, key, &is, err));
        if (is != STK__IS_NOTHING)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                                "'%.200s' is an array or a group already; choose another name, or "
                                "remove it first",
                                url);
    }
    return STK_OK;
}
