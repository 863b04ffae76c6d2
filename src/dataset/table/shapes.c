/* SPDX-License-Identifier: Apache-2.0 */
/* The shapes of tensors, which forms of tables have no place for: convert/rows.c writes them. */
#include "base/json.h"
#include "dataset/table/table.h"

#define VALUES_MOST (UINT64_C(1) << 31) /* of a tensor */

/* The list that a field is. */
static stk__table_column *list_of(const stk__table_columns *columns, const json_t *field)
{
    const char *name = json_string_value(json_object_get(field, "name")),
               *dtype = json_string_value(json_object_get(field, "dtype")),
               *layout = json_string_value(json_object_get(field, "layout"));

    if (!name || !dtype || !layout || strcmp(layout, "fixed") != 0)
        return NULL;
    for (uint32_t i = 0; i < columns->count; i++) {
        stk__table_column *c =
            (stk__table_column *)(void *)((char *)columns->first + i * columns->apart);
        if ((c->kind == STK__COLUMN_LIST || (c->kind == STK__COLUMN_VALUES && c->list)) &&
            strcmp(c->name, name) == 0)
            return strcmp(stk_dtype_name(c->dtype), dtype) == 0 ? c : NULL;
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
    if (column->kind == STK__COLUMN_VALUES && values != column->width)
        return;
    column->rank = (uint32_t)rank;
    memcpy(column->shape, sides, sizeof sides);
}

stk_status stk__table_shapes(stk_context *ctx, const char *fields, size_t length,
                             const stk__table_columns *columns, stk_error *err)
{
    stk__json json = {0};
    const json_t *field;
    size_t i;

    if (!length)
        return STK_OK;
    const stk_status status = stk__json_parse(ctx, fields, length, STK__TABLE_FIELDS, &json, err);
    if (status == STK_ENOMEM)
        return status;
    json_array_foreach(json.value, i, field)
    {
        stk__table_column *c = list_of(columns, field);
        if (c)
            take_shape(c, json_object_get(field, "shape"));
    }
    stk__json_drop(ctx, &json);
    return STK_OK;
}
