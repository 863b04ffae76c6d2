/* SPDX-License-Identifier: Apache-2.0 */
/* Zarr arrays: which version a folder holds, and what both versions share. */
#include <stdio.h>

#include "array/room.h"
#include "array/texts.h"
#include "array/zarr.h"

stk_status stk__zarr_load(stk_store *store, const char *key, stk__json *out, bool *found,
                          stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};
    stk_context *ctx = store->context;

    *out = (stk__json){0};
    *found = false;
    stk_status status = stk_store_stat(store, key, NULL, &info, err);
    if (status == STK_ENOENT || (status == STK_OK && info.is_folder)) {
        stk_error_init(err);
        return STK_OK;
    }
    if (status != STK_OK)
        return status;
    if (info.size > stk__json_most(ctx))
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s has %llu bytes, and metadata of at most %llu is read (a quarter of "
                            "memory_limit, and 64 MiB)",
                            key, (unsigned long long)info.size,
                            (unsigned long long)stk__json_most(ctx));
    char *text = stk__alloc(ctx, info.size);
    if (!text)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "no memory for the %llu bytes of %s", (unsigned long long)info.size,
                            key);
    status = stk_store_read(store, key, 0, info.size, text, err);
    if (status == STK_OK)
        status = stk__json_parse(ctx, text, info.size, key, out, err);
    stk__free(ctx, text);
    if (status == STK_OK && !json_is_object(out->value)) {
        stk__json_drop(ctx, out);
        status = stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, 0,
                              "%s is JSON, but no object: no metadata of Zarr", key);
    }
    *found = status == STK_OK;
    return status;
}

void stk__zarr_expect(stk_store *store)
{
    static const char *const names[] = {STK__ZARR_V3, STK__ZARR_V2_ARRAY, STK__ZARR_V2_ATTRS,
                                        STK__ZARR_V2_ALL, STK__ZARR_V2_GROUP};

    stk__store_expect(store, names, STK_COUNT(names));
}

stk_status stk__zarr_known(const json_t *object, const char *const *known, const char *key,
                           stk_error *err)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)object, name, value)
    {
        size_t i = 0;
        while (known[i] && strcmp(known[i], name) != 0)
            i++;
        if (!known[i] && !json_is_false(json_object_get(value, "must_understand")))
            return stk__fail_at(err, STK_EKIND, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                                "%s: the extension '%.80s' is not known, and it does not say that "
                                "a reader may ignore it (must_understand: false)",
                                key, name);
    }
    return STK_OK;
}

stk_status stk__zarr_integers(const json_t *list, const char *what, const char *key, int64_t least,
                              int64_t *out, uint32_t *rank, stk_error *err)
{
    size_t n = json_array_size(list);

    if (!json_is_array(list))
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s: '%s' is missing or no list", key, what);
    if (n > STK_ARRAY_MAX_RANK)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s: '%s' has %zu dimensions, and at most %d are read", key, what, n,
                            STK_ARRAY_MAX_RANK);
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_array_get(list, i);
        out[i] = json_integer_value(value);
        if (!json_is_integer(value) || out[i] < least)
            return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                                "%s: '%s' holds a value that is no whole number from %lld up", key,
                                what, (long long)least);
    }
    *rank = (uint32_t)n;
    return STK_OK;
}

json_t *stk__zarr_shape_json(const int64_t *shape, uint32_t rank)
{
    json_t *list = json_array();

    for (uint32_t d = 0; list && d < rank; d++)
        if (json_array_append_new(list, json_integer(shape[d])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

stk_status stk__zarr_separator(const json_t *value, char usual, const char *key, char *out,
                               stk_error *err)
{
    const char *text = json_string_value(value);

    *out = usual;
    if (!value || json_is_null(value))
        return STK_OK;
    if (!text || (strcmp(text, ".") != 0 && strcmp(text, "/") != 0))
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s: the separator of chunk keys is neither '.' nor '/'", key);
    *out = text[0];
    return STK_OK;
}

/* null: a missing element; a list of one value: one that is there. */
static stk_status optional_fill(stk_array *a, const json_t *value, int version, const char *key,
                                stk_error *err)
{
    const json_t *one = json_array_get(value, 0);

    a->fill_defined = true;
    stk__type_missing(&a->type, a->fill);
    if (json_is_null(value))
        return STK_OK;
    if (json_array_size(value) != 1)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s: the fill value of elements that may be missing is neither null "
                            "nor a list of one value",
                            key);
    if (json_is_boolean(one) && a->type.stored == STK_BOOL) {
        stk__float_bytes(a->type.dtype, json_is_true(one), a->fill);
        return STK_OK;
    }
    return stk__fill_parse(&a->type, one, version, key, a->fill, err);
}

stk_status stk__zarr_fill(stk_array *a, const json_t *value, int version, const char *key,
                          stk_error *err)
{
    a->fill = stk__calloc(a->context, 1, a->type.itemsize);
    if (!a->fill)
        return stk__array_no_memory(a, err);
    if (a->type.optional)
        return optional_fill(a, value, version, key, err);
    a->fill_defined = value && !json_is_null(value);
    if (!a->fill_defined)
        return STK_OK;
    if (stk__type_varies(&a->type))
        return stk__texts_fill(a, value, key, err);
    return stk__fill_parse(&a->type, value, version, key, a->fill, err);
}

void stk__array_chain_spec(const stk_array *a, stk__chain_spec *spec)
{
    spec->key = a->metadata_key;
    spec->dtype = a->type.kind == STK__KIND_TIME ? STK_DTYPE_NONE : a->type.dtype;
    spec->itemsize = a->type.itemsize;
    spec->swap_size = a->type.swap_size;
    spec->rank = a->rank;
    spec->shape = a->levels[a->num_levels - 1].shape;
    spec->skip_checksums = !a->options.checksums;
    spec->varies = stk__type_varies(&a->type);
}

stk_status stk__zarr_chain(stk_array *a, const uint32_t *axes, stk__chain_spec spec,
                           const char *key, stk_error *err)
{
    const stk__level *level = &a->levels[a->num_levels - 1];
    unsigned char missing[8];
    int64_t shape[STK_ARRAY_MAX_RANK], strides[STK_ARRAY_MAX_RANK];
    bool c = true, f = true;

    for (uint32_t i = 0; i < a->rank; i++) {
        shape[i] = level->shape[axes[i]];
        c = c && axes[i] == i;
        f = f && axes[i] == a->rank - 1 - i;
    }
    a->order = c ? 'C' : f ? 'F' : 'T';
    stk__array_chain_spec(a, &spec);
    spec.key = key;
    spec.shape = shape;
    if (a->type.optional) {
        stk__type_missing(&a->type, missing);
        spec.missing = missing;
        spec.stored = a->type.stored;
    }
    STK_TRY(stk__chain_create(a->context, &spec, &a->chain, err));
    stk__array_strides(a->rank, shape, a->type.itemsize, strides);
    for (uint32_t i = 0; i < a->rank; i++)
        a->chunk_strides[axes[i]] = strides[i];
    return STK_OK;
}

stk_status stk__zarr_attributes(stk_array *a, const json_t *attributes, const char *key,
                                stk_error *err)
{
    if (!attributes || json_is_null(attributes))
        return STK_OK;
    if (!json_is_object(attributes))
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s: 'attributes' is no object", key);
    return stk__json_keep(a->context, attributes, key, &a->attributes, err);
}

/* ---- Opening ---- */

static char *key_below(stk_context *ctx, const char *prefix, const char *name)
{
    return stk__format(ctx, "%s%s", prefix, name);
}

static stk_status load_below(stk_array *a, const char *name, stk__json *out, bool *found,
                             stk_error *err)
{
    char *key = key_below(a->context, a->prefix, name);

    if (!key)
        return stk__array_no_memory(a, err);
    stk_status status = stk__zarr_load(a->shared->store, key, out, found, err);
    if (*found) {
        stk__free(a->context, a->metadata_key);
        a->metadata_key = key;
    } else {
        stk__free(a->context, key);
    }
    return status;
}

static stk_status zarr_open(stk_array *a, const stk_array_opening *opening, stk_error *err)
{
    stk__json metadata = {0}, attributes = {0};
    bool found = false, has_attributes = false;

    if (*opening->key)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_ARRAY, opening->key, STK_NO_OFFSET,
                            "'%.300s' is a file, and a Zarr array is a folder", opening->url);
    stk_status status = load_below(a, STK__ZARR_V3, &metadata, &found, err);
    if (status == STK_OK && found) {
        status = stk__zarr_v3(a, metadata.value, a->metadata_key, err);
        stk__json_drop(a->context, &metadata);
        return status;
    }
    if (status == STK_OK)
        status = load_below(a, STK__ZARR_V2_ATTRS, &attributes, &has_attributes, err);
    if (status == STK_OK)
        status = load_below(a, STK__ZARR_V2_ARRAY, &metadata, &found, err);
    if (status == STK_OK && !found)
        status = stk__fail_at(err, STK_ENOENT, STK_STAGE_ARRAY, a->prefix, STK_NO_OFFSET,
                              "there is no Zarr array here: neither %szarr.json nor %s.zarray "
                              "exists; name the folder of the array itself",
                              a->prefix, a->prefix);
    if (status == STK_OK)
        status = stk__zarr_v2(a, metadata.value, attributes.value, a->metadata_key, err);
    stk__json_drop(a->context, &metadata);
    stk__json_drop(a->context, &attributes);
    return status;
}

static bool has(stk_store *store, const char *key)
{
    stk__presence is = STK__IS_NOTHING;

    return stk__store_look(store, key, &is, NULL) == STK_OK && is == STK__IS_OBJECT;
}

static int zarr_recognise(stk_store *store, const char *key)
{
    return !*key && (has(store, STK__ZARR_V3) || has(store, STK__ZARR_V2_ARRAY)) ? 2 : 0;
}

const stk_array_format_ops stk__array_zarr = {
    .struct_size = sizeof(stk_array_format_ops),
    .name = "zarr",
    .doc = "Zarr, versions 2 and 3, with shards",
    .recognise = zarr_recognise,
    .open = zarr_open,
};
