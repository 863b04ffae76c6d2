/* SPDX-License-Identifier: Apache-2.0 */
/* The shapes of tensors, which Parquet has no place for: convert/parquet_columns.c writes them. */
#include "base/json.h"
#include "dataset/table/parquet.h"

#define VALUES_MOST (UINT64_C(1) << 31) /* of a tensor */

static stk__parquet_column *list_of(stk__parquet_schema *schema, const json_t *field)
{
    const char *name = json_string_value(json_object_get(field, "name")),
               *dtype = json_string_value(json_object_get(field, "dtype")),
               *layout = json_string_value(json_object_get(field, "layout"));

    if (!name || !dtype || !layout || strcmp(layout, "fixed") != 0)
        return NULL;
    for (uint32_t i = 0; i < schema->count; i++) {
        stk__parquet_column *c = &schema->columns[i];
        if (c->column.kind == STK__COLUMN_LIST && strcmp(c->column.name, name) == 0)
            return strcmp(stk_dtype_name(c->column.dtype), dtype) == 0 ? c : NULL;
    }
    return NULL;
}

static void take_shape(stk__table_column *column, const json_t *shape)
{
    const size_t rank = json_array_size(shape);
    int64_t sides[STK_MAX_RANK] = {0};
    uint64_t values = 1;

    if (!rank || rank > STK_MAX_RANK)
        return;
    for (size_t i = 0; i < rank; i++) {
        sides[i] = json_integer_value(json_array_get(shape, i));
        if (sides[i] < 1 || !stk__mul_size(values, (uint64_t)sides[i], &values) ||
            values > VALUES_MOST)
            return;
    }
    column->rank = (uint32_t)rank;
    memcpy(column->shape, sides, sizeof sides);
}

stk_status stk__parquet_shapes(stk__thrift_text fields, stk__parquet_schema *schema, stk_error *err)
{
    stk__json json = {0};
    const json_t *field;
    size_t i;

    if (!fields.length)
        return STK_OK;
    const stk_status status = stk__json_parse(schema->ctx, (const char *)fields.data, fields.length,
                                              "stoker.fields", &json, err);
    if (status == STK_ENOMEM)
        return status;
    json_array_foreach(json.value, i, field)
    {
        stk__parquet_column *c = list_of(schema, field);
        if (c)
            take_shape(&c->column, json_object_get(field, "shape"));
    }
    stk__json_drop(schema->ctx, &json);
    return STK_OK;
}
