/* SPDX-License-Identifier: Apache-2.0 */
/* Metadata of Zarr version 3 arrays [zarr-specs docs/v3/core, 3.1; codecs/sharding-indexed]. */
#include <stdio.h>

#include "array/room.h"
#include "array/zarr.h"

/* An extension is {name, configuration} or, since 3.1, the name alone; a URI names it as well. */
static const char *name_of(const json_t *extension)
{
    return json_string_value(json_is_object(extension) ? json_object_get(extension, "name")
                                                       : extension);
}

static const json_t *configuration_of(const json_t *extension)
{
    return json_is_object(extension) ? json_object_get(extension, "configuration") : NULL;
}

static stk_status refuse(const char *key, const char *what, const char *name, stk_error *err)
{
    return stk__fail_at(err, name ? STK_EKIND : STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                        name ? "%s: the %s '%.80s' is not read" : "%s: the %s has no name%.0s", key,
                        what, name ? name : "");
}

static bool is_named(const json_t *extension, const char *name)
{
    const char *found = name_of(extension), *slash = found ? strrchr(found, '/') : NULL;

    if (slash && strstr(found, "://"))
        found = slash + 1;
    return found && !strcmp(found, name);
}

/* ---- Codecs ---- */

/* Apply a transpose to `axes`: encoded dimension i is decoded dimension order[i]. */
static stk_status transpose(const stk_array *a, const json_t *codec, uint32_t *axes,
                            const char *key, stk_error *err)
{
    const json_t *order = json_object_get(configuration_of(codec), "order");
    const char *word = json_string_value(order);
    uint32_t before[STK_ARRAY_MAX_RANK];
    bool seen[STK_ARRAY_MAX_RANK] = {false};

    if (word && !strcmp(word, "C"))
        return STK_OK;
    memcpy(before, axes, sizeof before);
    bool fortran = word && !strcmp(word, "F");
    bool good = fortran || (!word && json_array_size(order) == a->rank && json_is_array(order));
    for (uint32_t i = 0; i < a->rank && good; i++) {
        json_int_t d =
            fortran ? (json_int_t)(a->rank - 1 - i) : json_integer_value(json_array_get(order, i));
        good = d >= 0 && d < (json_int_t)a->rank && !seen[d] &&
               (fortran || json_is_integer(json_array_get(order, i)));
        if (good) {
            seen[d] = true;
            axes[i] = before[d];
        }
    }
    if (!good)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s: the 'order' of the codec transpose is no permutation of %u "
                            "dimensions",
                            key, a->rank);
    return STK_OK;
}

/* The chain of the innermost chunks: what is left of the list behind the transposes, which become
 * strides. */
static stk_status leaf_chain(stk_array *a, const json_t *codecs, size_t first, const uint32_t *axes,
                             const char *key, stk_error *err)
{
    stk__chain_spec spec;

    json_t *rest = json_array();
    for (size_t i = first; rest && i < json_array_size(codecs); i++)
        if (json_array_append(rest, json_array_get(codecs, i)) != 0) {
            json_decref(rest);
            rest = NULL;
        }
    if (!rest)
        return stk__array_no_memory(a, err);
    stk__chain_spec_init(&spec);
    spec.codecs = rest;
    stk_status status = stk__zarr_chain(a, axes, spec, key, err);
    json_decref(rest);
    return status;
}

static stk_status index_chain(stk_array *a, stk__level *level, const json_t *codecs,
                              const char *key, stk_error *err)
{
    int64_t shape[STK_ARRAY_MAX_RANK + 1];
    stk__chain_spec spec;

    if (a->rank == STK_ARRAY_MAX_RANK)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s: shards of more than %d dimensions are not read", key,
                            STK_ARRAY_MAX_RANK - 1);
    level->inner_total = 1;
    for (uint32_t i = 0; i < a->rank; i++) {
        shape[i] = level->inner[level->axes[i]];
        if (!stk__mul_size(level->inner_total, (uint64_t)shape[i], &level->inner_total) ||
            level->inner_total > UINT32_MAX)
            return stk__fail_at(err, STK_ELIMIT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                                "%s: a shard holds more than 2^32 chunks", key);
    }
    shape[a->rank] = 2;
    stk__chain_spec_init(&spec);
    spec.key = key;
    spec.dtype = STK_UINT64;
    spec.itemsize = spec.swap_size = 8;
    spec.rank = a->rank + 1;
    spec.shape = shape;
    spec.skip_checksums = !a->options.checksums;
    spec.codecs = codecs;
    STK_TRY(stk__chain_create(a->context, &spec, &level->index_chain, err));
    level->index_bytes = stk__chain_encoded_size(level->index_chain);
    if (level->index_bytes == STK__CHAIN_NO_SIZE)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s: 'index_codecs' of a shard compress: its index has no size that is "
                            "known before",
                            key);
    return STK_OK;
}

/* One level of sharding: the shape of the chunks within, and the index. */
static stk_status add_shards(stk_array *a, const json_t *sharding, const uint32_t *axes,
                             const char *key, stk_error *err)
{
    static const char *const known[] = {"chunk_shape", "codecs", "index_codecs", "index_location",
                                        NULL};
    const json_t *configuration = configuration_of(sharding);
    const char *location = json_string_value(json_object_get(configuration, "index_location"));
    stk__level *level = &a->levels[a->num_levels - 1], *inner = level + 1;
    int64_t shape[STK_ARRAY_MAX_RANK];
    uint32_t rank = 0;

    if (a->num_levels == STK__ARRAY_MAX_LEVELS)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s: shards nest deeper than %d levels", key,
                            STK__ARRAY_MAX_LEVELS - 1);
    STK_TRY(stk__zarr_known(configuration, known, key, err));
    STK_TRY(stk__zarr_integers(json_object_get(configuration, "chunk_shape"), "chunk_shape", key, 1,
                               shape, &rank, err));
    if (rank != a->rank)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s: the chunks of a shard have %u dimensions, and the array has %u",
                            key, rank, a->rank);
    memcpy(level->axes, axes, sizeof level->axes);
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t d = axes[i];
        if (level->shape[d] % shape[i] != 0)
            return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                                "%s: chunks of %lld do not divide a shard of %lld in dimension %u",
                                key, (long long)shape[i], (long long)level->shape[d], d);
        inner->shape[d] = shape[i];
        level->inner[d] = level->shape[d] / shape[i];
    }
    if (location && strcmp(location, "start") != 0 && strcmp(location, "end") != 0)
        return refuse(key, "index_location", location, err);
    level->index_at_start = location && !strcmp(location, "start");
    STK_TRY(index_chain(a, level, json_object_get(configuration, "index_codecs"), key, err));
    a->num_levels++;
    return stk__level_init(a, inner, key, err);
}

stk_status stk__zarr_codecs(stk_array *a, const json_t *codecs, const char *key, stk_error *err)
{
    uint32_t axes[STK_ARRAY_MAX_RANK];

    for (uint32_t i = 0; i < STK_ARRAY_MAX_RANK; i++)
        axes[i] = i;
    for (;;) {
        size_t n = json_array_size(codecs), first = 0;
        if (n == 0)
            return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                                "%s: 'codecs' is missing, empty or no list", key);
        while (first < n && is_named(json_array_get(codecs, first), "transpose"))
            STK_TRY(transpose(a, json_array_get(codecs, first++), axes, key, err));
        const json_t *codec = json_array_get(codecs, first);
        if (!is_named(codec, "sharding_indexed"))
            return leaf_chain(a, codecs, first, axes, key, err);
        if (first + 1 < n)
            return stk__fail_at(err, STK_EKIND, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                                "%s: the codec '%.80s' behind sharding_indexed makes shards that "
                                "cannot be read in part; put it among the codecs of the chunks",
                                key,
                                name_of(json_array_get(codecs, first + 1))
                                    ? name_of(json_array_get(codecs, first + 1))
                                    : "?");
        STK_TRY(add_shards(a, codec, axes, key, err));
        codecs = json_object_get(configuration_of(codec), "codecs");
    }
}

/* ---- The rest ---- */

static stk_status read_grid(stk_array *a, const json_t *grid, const char *key, stk_error *err)
{
    uint32_t rank = 0;

    if (!is_named(grid, "regular"))
        return refuse(key, "chunk_grid", name_of(grid), err);
    STK_TRY(stk__zarr_integers(json_object_get(configuration_of(grid), "chunk_shape"),
                               "chunk_shape", key, 1, a->levels[0].shape, &rank, err));
    if (rank != a->rank)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s: the chunks have %u dimensions, and the array has %u", key, rank,
                            a->rank);
    a->num_levels = 1;
    return stk__level_init(a, &a->levels[0], key, err);
}

static stk_status read_key_encoding(stk_array *a, const json_t *encoding, const char *key,
                                    stk_error *err)
{
    const json_t *separator = json_object_get(configuration_of(encoding), "separator");

    a->key_c = is_named(encoding, "default");
    if (!a->key_c && !is_named(encoding, "v2"))
        return refuse(key, "chunk_key_encoding", name_of(encoding), err);
    return stk__zarr_separator(separator, a->key_c ? '/' : '.', key, &a->separator, err);
}

static stk_status read_names(stk_array *a, const json_t *names, const char *key, stk_error *err)
{
    if (!names || json_is_null(names))
        return STK_OK;
    bool good = json_array_size(names) == a->rank && json_is_array(names);
    for (uint32_t d = 0; d < a->rank && good; d++) {
        const json_t *name = json_array_get(names, d);
        good = json_is_null(name) || json_is_string(name);
        if (good && json_is_string(name))
            STK_TRY(stk__array_name(a, d, json_string_value(name), err));
    }
    if (!good)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s: 'dimension_names' is no list of %u names", key, a->rank);
    return STK_OK;
}

static stk_status check_transformers(const json_t *list, const char *key, stk_error *err)
{
    const json_t *one;
    size_t i;

    json_array_foreach(list, i, one)
    {
        if (!json_is_false(json_object_get(one, "must_understand")))
            return refuse(key, "storage_transformer", name_of(one), err);
    }
    return STK_OK;
}

stk_status stk__zarr_v3(stk_array *a, const json_t *m, const char *key, stk_error *err)
{
    static const char *const known[] = {
        "zarr_format",          "node_type", "shape",      "data_type",          "chunk_grid",
        "fill_value",           "codecs",    "attributes", "chunk_key_encoding", "dimension_names",
        "storage_transformers", NULL};
    const char *node = json_string_value(json_object_get(m, "node_type"));

    if (json_integer_value(json_object_get(m, "zarr_format")) != 3)
        return stk__fail_at(err, STK_EKIND, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s: 'zarr_format' is not 3", key);
    if (node && !strcmp(node, "group"))
        return stk__fail_at(err, STK_EMISMATCH, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s is the metadata of a group; name one of its arrays", key);
    if (!node || strcmp(node, "array") != 0)
        return refuse(key, "node_type", node, err);
    STK_TRY(stk__zarr_known(m, known, key, err));
    STK_TRY(check_transformers(json_object_get(m, "storage_transformers"), key, err));
    stk__array_set_format(a, "zarr v3");
    STK_TRY(
        stk__zarr_integers(json_object_get(m, "shape"), "shape", key, 0, a->shape, &a->rank, err));
    STK_TRY(stk__type_v3(json_object_get(m, "data_type"), key, &a->type, err));
    STK_TRY(read_grid(a, json_object_get(m, "chunk_grid"), key, err));
    STK_TRY(read_key_encoding(a, json_object_get(m, "chunk_key_encoding"), key, err));
    if (!json_object_get(m, "fill_value"))
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s: 'fill_value' is missing", key);
    STK_TRY(stk__zarr_fill(a, json_object_get(m, "fill_value"), 3, key, err));
    STK_TRY(stk__zarr_codecs(a, json_object_get(m, "codecs"), key, err));
    STK_TRY(read_names(a, json_object_get(m, "dimension_names"), key, err));
    STK_TRY(stk__zarr_attributes(a, json_object_get(m, "attributes"), key, err));
    return stk__array_finish(a, err);
}
