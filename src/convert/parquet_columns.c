/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fields -> columns and what files say of them. Encoded pictures are the structure {bytes, path}
 * that the datasets library of Hugging Face reads as an Image, as the key "huggingface" says
 * [datasets, docs/source/about_dataset_features.mdx; Features.from_arrow_schema]; the key
 * "stoker.fields" has shapes, which Parquet has no place for.
 */
#include "base/text.h"
#include "convert/parquet.h"
#include "dataset/dataset.h"

#define OPTIONAL_BYTES 2u /* level: the structure is there, and the bytes */
#define OPTIONAL_PATH  1u /* the structure is there, and no path */

static const struct {
    int8_t type;      /* stk__parquet_type */
    uint8_t width;    /* bytes of a value */
    int8_t converted; /* ConvertedType of an integer; -1: none */
    uint8_t bits;     /* of LogicalType INTEGER; 0: it has none */
    bool sign;
} types[STK_DTYPE_COUNT] = {
    [STK_BOOL] = {STK__PARQUET_BOOLEAN, 0, -1, 0, false},
    [STK_UINT8] = {STK__PARQUET_INT32, 4, 11, 8, false},
    [STK_INT8] = {STK__PARQUET_INT32, 4, 15, 8, true},
    [STK_UINT16] = {STK__PARQUET_INT32, 4, 12, 16, false},
    [STK_INT16] = {STK__PARQUET_INT32, 4, 16, 16, true},
    [STK_UINT32] = {STK__PARQUET_INT32, 4, 13, 32, false},
    [STK_INT32] = {STK__PARQUET_INT32, 4, 17, 32, true},
    [STK_UINT64] = {STK__PARQUET_INT64, 8, 14, 64, false},
    [STK_INT64] = {STK__PARQUET_INT64, 8, 18, 64, true},
    [STK_FLOAT16] = {STK__PARQUET_FIXED, 2, -1, 0, false},
    [STK_FLOAT32] = {STK__PARQUET_FLOAT, 4, -1, 0, false},
    [STK_FLOAT64] = {STK__PARQUET_DOUBLE, 8, -1, 0, false},
};

const char *stk__parquet_out_refuses(const stk_field *field)
{
    if (field->layout == STK_BYTES)
        return NULL;
    if (field->dtype == STK_BFLOAT16)
        return "has bfloat16, which Parquet does not; make it float32 with the option cast";
    if (field->dtype == STK_COMPLEX64 || field->dtype == STK_COMPLEX128)
        return "has complex numbers";
    return NULL;
}

/* Labels whose names are known. */
static bool has_classes(const stk_dataset *dataset, const stk_field *f)
{
    return dataset->classes && dataset->num_classes && f->layout == STK_FIXED && f->rank == 0 &&
           f->dtype == STK_INT64 && strcmp(f->name, "label") == 0;
}

static stk__parquet_out_kind kind_of(const stk_field *f)
{
    if (f->layout == STK_BYTES)
        return stk__rows_is_picture(f) ? STK__PARQUET_PICTURE : STK__PARQUET_BYTES;
    return f->layout == STK_FIXED && f->rank == 0 ? STK__PARQUET_NUMBER : STK__PARQUET_NUMBERS;
}

stk__parquet_out_column *stk__parquet_out_columns(const stk_dataset *dataset,
                                                  const stk__rows_writer *writer, uint32_t *count)
{
    stk_context *ctx = dataset->context;
    stk__parquet_out_column *columns =
        stk__calloc(ctx, 2 * (uint64_t)writer->num_columns, sizeof *columns);

    *count = 0;
    for (uint32_t k = 0; columns && k < writer->num_columns; k++) {
        const stk__rows_column *row = &writer->columns[k];
        const stk_field *field = row->field;
        stk__parquet_out_column *c = &columns[(*count)++];
        *c = (stk__parquet_out_column){
            .field = field, .number = row->number, .row = row, .kind = kind_of(field)};
        c->optional = row->mask >= 0 || has_classes(dataset, field);
        c->codes = c->kind <= STK__PARQUET_NUMBERS &&
                   (field->dtype == STK_UINT8 || field->dtype == STK_INT8);
        if (c->kind == STK__PARQUET_PICTURE)
            columns[(*count)++] = (stk__parquet_out_column){
                .field = field, .number = row->number, .row = row, .kind = STK__PARQUET_PATH};
    }
    for (uint32_t i = 0; i < *count; i++)
        columns[i].values.ctx = columns[i].lengths.ctx = columns[i].nulls.ctx =
            columns[i].pages.ctx = ctx;
    return columns;
}

void stk__parquet_out_columns_free(stk_context *ctx, stk__parquet_out_column *columns,
                                   uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        stk__bytes_release(&columns[i].values);
        stk__bytes_release(&columns[i].lengths);
        stk__bytes_release(&columns[i].nulls);
        stk__bytes_release(&columns[i].pages);
        stk__free(ctx, columns[i].list);
    }
    stk__free(ctx, columns);
}

stk__parquet_type stk__parquet_out_type_of(const stk__parquet_out_column *c)
{
    return c->kind > STK__PARQUET_NUMBERS ? STK__PARQUET_BYTE_ARRAY
                                          : (stk__parquet_type)types[c->field->dtype].type;
}

uint32_t stk__parquet_out_width(stk_dtype dtype)
{
    return types[dtype].width;
}

unsigned stk__parquet_out_definition(const stk__parquet_out_column *c)
{
    switch (c->kind) {
    case STK__PARQUET_NUMBER:
    case STK__PARQUET_BYTES:
        return c->optional;
    case STK__PARQUET_NUMBERS:
        return 1u + c->optional;
    case STK__PARQUET_PICTURE:
        return OPTIONAL_BYTES;
    default:
        return OPTIONAL_PATH;
    }
}

/* ---- The schema ------------------------------------------------------------------------------ */

static void put_i32(stk__thrift_out *t, int field, int64_t value)
{
    stk__thrift_out_number(t, field, STK__THRIFT_I32, value);
}

/* Members 1 to 5 of a SchemaElement. */
static void put_element(stk__thrift_out *t, int type, uint32_t length, int repetition,
                        const char *name, int children)
{
    stk__thrift_out_element(t);
    if (type != STK__PARQUET_TYPES)
        put_i32(t, 1, type);
    if (type == STK__PARQUET_FIXED)
        put_i32(t, 2, length);
    put_i32(t, 3, repetition);
    stk__thrift_out_text(t, 4, name);
    if (children)
        put_i32(t, 5, children);
}

/* LogicalType of a type without members. */
static void put_logical(stk__thrift_out *t, int which)
{
    stk__thrift_out_begin(t, 10);
    stk__thrift_out_begin(t, which);
    stk__thrift_out_end(t);
    stk__thrift_out_end(t);
}

static void put_number_element(stk__thrift_out *t, stk_dtype dtype, bool optional, const char *name)
{
    put_element(t, types[dtype].type, types[dtype].width,
                optional ? STK__PARQUET_OPTIONAL : STK__PARQUET_REQUIRED, name, 0);
    if (types[dtype].converted >= 0)
        put_i32(t, 6, types[dtype].converted);
    if (dtype == STK_FLOAT16)
        put_logical(t, STK__PARQUET_LOGICAL_FLOAT16);
    if (types[dtype].bits) {
        stk__thrift_out_begin(t, 10);
        stk__thrift_out_begin(t, STK__PARQUET_LOGICAL_INTEGER);
        stk__thrift_out_i8(t, 1, (int8_t)types[dtype].bits);
        stk__thrift_out_bool(t, 2, types[dtype].sign);
        stk__thrift_out_end(t);
        stk__thrift_out_end(t);
    }
    stk__thrift_out_end(t);
}

static int repetition(const stk__parquet_out_column *c)
{
    return c->optional ? STK__PARQUET_OPTIONAL : STK__PARQUET_REQUIRED;
}

static void put_utf8(stk__thrift_out *t)
{
    put_i32(t, 6, STK__PARQUET_UTF8);
    put_logical(t, STK__PARQUET_LOGICAL_STRING);
}

static void put_list_elements(stk__thrift_out *t, const stk__parquet_out_column *c)
{
    put_element(t, STK__PARQUET_TYPES, 0, repetition(c), c->field->name, 1);
    put_i32(t, 6, STK__PARQUET_LIST);
    put_logical(t, STK__PARQUET_LOGICAL_LIST);
    stk__thrift_out_end(t);
    put_element(t, STK__PARQUET_TYPES, 0, STK__PARQUET_REPEATED, "list", 1);
    stk__thrift_out_end(t);
    put_number_element(t, c->field->dtype, false, "element");
}

static void put_column_elements(stk__thrift_out *t, const stk__parquet_out_column *c)
{
    switch (c->kind) {
    case STK__PARQUET_NUMBER:
        put_number_element(t, c->field->dtype, c->optional, c->field->name);
        return;
    case STK__PARQUET_NUMBERS:
        put_list_elements(t, c);
        return;
    case STK__PARQUET_BYTES:
        put_element(t, STK__PARQUET_BYTE_ARRAY, 0, repetition(c), c->field->name, 0);
        if (c->field->text)
            put_utf8(t);
        break;
    case STK__PARQUET_PICTURE:
        put_element(t, STK__PARQUET_TYPES, 0, STK__PARQUET_OPTIONAL, c->field->name, 2);
        stk__thrift_out_end(t);
        put_element(t, STK__PARQUET_BYTE_ARRAY, 0, STK__PARQUET_OPTIONAL, "bytes", 0);
        break;
    case STK__PARQUET_PATH:
        put_element(t, STK__PARQUET_BYTE_ARRAY, 0, STK__PARQUET_OPTIONAL, "path", 0);
        put_utf8(t);
        break;
    }
    stk__thrift_out_end(t);
}

void stk__parquet_out_put_schema(const stk__rows_writer *writer,
                                 const stk__parquet_out_column *columns, uint32_t count,
                                 stk__thrift_out *t)
{
    uint64_t elements = 1;

    for (uint32_t i = 0; i < count; i++)
        elements += columns[i].kind == STK__PARQUET_NUMBERS   ? 3
                    : columns[i].kind == STK__PARQUET_PICTURE ? 2
                                                              : 1;
    stk__thrift_out_list(t, 2, STK__THRIFT_STRUCT, elements);
    stk__thrift_out_element(t);
    stk__thrift_out_text(t, 4, "schema");
    put_i32(t, 5, writer->num_columns);
    stk__thrift_out_end(t);
    for (uint32_t i = 0; i < count; i++)
        put_column_elements(t, &columns[i]);
}

void stk__parquet_out_put_path(const stk__parquet_out_column *c, stk__thrift_out *t)
{
    static const char *const below[][2] = {[STK__PARQUET_NUMBERS] = {"list", "element"},
                                           [STK__PARQUET_PICTURE] = {"bytes", NULL},
                                           [STK__PARQUET_PATH] = {"path", NULL}};
    uint64_t count = 1;

    for (int k = 0; k < 2; k++)
        count += below[c->kind][k] != NULL;
    stk__thrift_out_list(t, 3, STK__THRIFT_BINARY, count);
    stk__thrift_out_element_binary(t, c->field->name, strlen(c->field->name));
    for (uint64_t k = 0; k + 1 < count; k++)
        stk__thrift_out_element_binary(t, below[c->kind][k], strlen(below[c->kind][k]));
}

/* ---- Key-value metadata ---------------------------------------------------------------------- */

static void add_feature(const stk_dataset *dataset, const stk_field *f, stk__text *to)
{
    const stk__parquet_out_kind kind = kind_of(f);

    if (kind == STK__PARQUET_PICTURE) {
        stk__text_add(to, "{\"_type\":\"Image\"}");
    } else if (has_classes(dataset, f)) {
        for (uint32_t k = 0; k < dataset->num_classes; k++) {
            stk__text_add(to, "%s", k ? "," : "{\"names\":[");
            stk__text_add_json(to, dataset->classes[k]);
        }
        stk__text_add(to, "],\"_type\":\"ClassLabel\"}");
    } else {
        const bool list = kind == STK__PARQUET_NUMBERS;
        stk__text_add(to, "%s{\"dtype\":\"%s\",\"_type\":\"Value\"}%s", list ? "{\"feature\":" : "",
                      f->text                      ? "string"
                      : kind == STK__PARQUET_BYTES ? "binary"
                                                   : stk_dtype_name(f->dtype),
                      list ? ",\"_type\":\"Sequence\"}" : "");
    }
}

static void add_features(const stk_dataset *dataset, const stk__rows_writer *writer, stk__text *to)
{
    stk__text_add(to, "{\"info\":{\"features\":{");
    for (uint32_t i = 0; i < writer->num_columns; i++) {
        const stk_field *f = writer->columns[i].field;
        stk__text_add(to, i ? "," : "");
        stk__text_add_json(to, f->name);
        stk__text_add(to, ":");
        add_feature(dataset, f, to);
    }
    stk__text_add(to, "}}}");
}

static void put_note(stk__thrift_out *t, const char *key, const stk__text *text)
{
    stk__thrift_out_element(t);
    stk__thrift_out_text(t, 1, key);
    stk__thrift_out_binary(t, 2, text->bytes, text->length);
    stk__thrift_out_end(t);
    t->failed = t->failed || text->failed;
}

void stk__parquet_out_put_notes(const stk_dataset *dataset, const stk__rows_writer *writer,
                                stk__thrift_out *t)
{
    stk__text fields = {.ctx = dataset->context}, features = {.ctx = dataset->context};

    stk__rows_put_fields(writer, &fields);
    add_features(dataset, writer, &features);
    stk__thrift_out_list(t, 5, STK__THRIFT_STRUCT, 2);
    put_note(t, "huggingface", &features);
    put_note(t, STK__ROWS_FIELDS, &fields);
    stk__text_release(&fields);
    stk__text_release(&features);
}
