/* SPDX-License-Identifier: Apache-2.0 */
/* Metadata of Zarr version 2 arrays [zarr-specs docs/v2/v2.0]; unknown keys are ignored. */
#include "array/room.h"
#include "array/zarr.h"

static stk_status make_chain(stk_array *a, const json_t *m, bool fortran, const char *key,
                             stk_error *err)
{
    uint32_t axes[STK_ARRAY_MAX_RANK];
    stk__chain_spec spec;

    /* Order F is order C of the reversed dimensions. */
    for (uint32_t i = 0; i < a->rank; i++)
        axes[i] = fortran ? a->rank - 1 - i : i;
    stk__chain_spec_init(&spec);
    spec.filters = json_object_get(m, "filters");
    spec.compressor = json_object_get(m, "compressor");
    spec.big_endian = a->type.big_endian;
    if (json_is_array(spec.filters) && json_array_size(spec.filters) == 0)
        spec.filters = NULL;
    return stk__zarr_chain(a, axes, spec, key, err);
}

/* Python objects ("|O") are what their first filter says: texts and bytes are read, no others. */
static stk_status read_type(stk_array *a, const json_t *m, const char *key, stk_error *err)
{
    const json_t *dtype = json_object_get(m, "dtype");
    const char *code = json_string_value(dtype);
    const json_t *filter = json_array_get(json_object_get(m, "filters"), 0);
    const char *id = json_string_value(json_object_get(filter, "id"));

    if (!code || strcmp(code, "|O") != 0 || !id)
        return stk__type_v2(dtype, key, &a->type, err);
    if (strcmp(id, "vlen-utf8") != 0 && strcmp(id, "vlen-bytes") != 0)
        return stk__fail_at(err, STK_EKIND, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s: Python objects that the filter '%.80s' wrote are not read; write "
                            "numbers, or texts with vlen-utf8",
                            key, id);
    stk__type_set_varying(&a->type, !strcmp(id, "vlen-utf8"));
    return STK_OK;
}

/* xarray keeps the names of the dimensions in an attribute. */
static stk_status read_names(stk_array *a, stk_error *err)
{
    const json_t *names = json_object_get(a->attributes.value, "_ARRAY_DIMENSIONS");

    if (!json_is_array(names) || json_array_size(names) != a->rank)
        return STK_OK;
    for (uint32_t d = 0; d < a->rank; d++) {
        const char *name = json_string_value(json_array_get(names, d));
        if (name)
            STK_TRY(stk__array_name(a, d, name, err));
    }
    return STK_OK;
}

stk_status stk__zarr_v2(stk_array *a, const json_t *m, const json_t *attributes, const char *key,
                        stk_error *err)
{
    const char *order = json_string_value(json_object_get(m, "order"));
    uint32_t rank = 0;

    if (json_integer_value(json_object_get(m, "zarr_format")) != 2)
        return stk__fail_at(err, STK_EKIND, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s: 'zarr_format' is not 2", key);
    stk__array_set_format(a, "zarr v2");
    if (!order || (strcmp(order, "C") != 0 && strcmp(order, "F") != 0))
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s: 'order' is neither C nor F", key);
    STK_TRY(
        stk__zarr_integers(json_object_get(m, "shape"), "shape", key, 0, a->shape, &a->rank, err));
    STK_TRY(stk__zarr_integers(json_object_get(m, "chunks"), "chunks", key, 1, a->levels[0].shape,
                               &rank, err));
    if (rank != a->rank)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s: 'chunks' has %u dimensions, and 'shape' has %u", key, rank,
                            a->rank);
    STK_TRY(read_type(a, m, key, err));
    a->num_levels = 1;
    STK_TRY(stk__level_init(a, &a->levels[0], key, err));
    STK_TRY(stk__zarr_separator(json_object_get(m, "dimension_separator"), '.', key, &a->separator,
                                err));
    STK_TRY(stk__zarr_fill(a, json_object_get(m, "fill_value"), 2, key, err));
    STK_TRY(make_chain(a, m, order[0] == 'F', key, err));
    STK_TRY(stk__zarr_attributes(a, attributes, key, err));
    STK_TRY(read_names(a, err));
    return stk__array_finish(a, err);
}
