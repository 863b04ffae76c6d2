/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/table/arrow.h"

enum { SCHEMA_ENDIANNESS, SCHEMA_FIELDS, SCHEMA_METADATA };
enum { FIELD_NAME, FIELD_NULLABLE, FIELD_TYPE_TYPE, FIELD_CHILDREN = 5 };

/* One schema being read. */
typedef struct reader {
    stk__arrow_schema *schema;
    stk__table_file *file;
    stk__flat *flat;
    stk_error *err;
} reader;

static stk_status no_memory(const reader *r)
{
    return stk__table_file_fail(r->file, STK_ENOMEM, 0, r->err, "no memory for its schema");
}

/* "parent.name" behind the other names. */
static stk_status put_name(reader *r, stk__arrow_node *node, const stk__flat_table *field)
{
    stk__arrow_schema *s = r->schema;
    const stk__flat_vector name = stk__flat_list(r->flat, field, FIELD_NAME, 1);
    const char *text = (const char *)r->flat->data + name.at;

    if (memchr(text, 0, name.count))
        return stk__table_file_fail(r->file, STK_EFORMAT, 0, r->err,
                                    "a name of its columns has a zero byte in it");
    const size_t above =
        node->parent == STK__ARROW_NONE ? 0 : strlen(stk__arrow_name(s, node->parent));
    if (above + name.count + 2 > STK_MAX_OBJECT_KEY)
        return stk__table_file_fail(r->file, STK_ELIMIT, 0, r->err,
                                    "a name of its columns has more than %d bytes",
                                    STK_MAX_OBJECT_KEY);
    if (!stk__bytes_reserve(&s->names, above + name.count + 2))
        return no_memory(r);
    node->name = (uint32_t)s->names.length;
    if (above) { /* there is room: the names do not move */
        const char *of_parent = stk__arrow_name(s, node->parent);
        stk__bytes_put(&s->names, of_parent, above);
        stk__bytes_put(&s->names, ".", 1);
    }
    stk__bytes_put(&s->names, text, name.count);
    stk__bytes_put(&s->names, "", 1);
    return STK_OK;
}

static stk_status put_note(reader *r, stk__arrow_node *node, const stk__flat_table *field)
{
    char text[256] = "";
    stk__text note = {.bytes = text, .room = sizeof text};

    stk__arrow_type_read(node, r->flat, field, &note);
    node->note = r->schema->names.length;
    if (!stk__bytes_put(&r->schema->names, text, strlen(text) + 1))
        return no_memory(r);
    return STK_OK;
}

/* A field and those below it. */
static stk_status read_field(reader *r, const stk__flat_table *field, uint32_t parent,
                             unsigned depth)
{
    stk__arrow_schema *s = r->schema;
    const uint32_t at = s->num_nodes;
    stk__arrow_node node = {.parent = parent, .column = STK__ARROW_NONE};

    if (depth > STK__ARROW_MAX_DEPTH || at == STK__ARROW_MAX_NODES)
        return stk__table_file_fail(r->file, STK_ELIMIT, 0, r->err,
                                    "its schema has more than %u fields, or more than %u within "
                                    "each other",
                                    STK__ARROW_MAX_NODES, STK__ARROW_MAX_DEPTH);
    node.type = (uint8_t)stk__flat_number(r->flat, field, FIELD_TYPE_TYPE, 1, 0);
    node.nullable = stk__flat_number(r->flat, field, FIELD_NULLABLE, 1, 0);
    STK_TRY(put_name(r, &node, field));
    STK_TRY(put_note(r, &node, field));
    stk__arrow_node *nodes = stk__grow(s->ctx, s->nodes, &s->room, at + 1u, sizeof node);
    if (!nodes)
        return no_memory(r);
    s->nodes = nodes;
    s->nodes[at] = node;
    s->num_nodes++;
    const stk__flat_vector below = stk__flat_list(r->flat, field, FIELD_CHILDREN, 4);
    for (uint32_t i = 0; i < below.count && !r->flat->damaged; i++) {
        const stk__flat_table child = stk__flat_entry(r->flat, &below, i);
        STK_TRY(read_field(r, &child, at, depth + 1));
    }
    s->nodes[at].end = s->num_nodes;
    return STK_OK;
}

/* The nodes whose fields are columns of their own. */
static bool is_flattened(const stk__arrow_schema *s, uint32_t at)
{
    const stk__arrow_node *node = &s->nodes[at];

    return node->type == STK__ARROW_STRUCT && !node->dictionary && node->end > at + 1;
}

static bool nullable(const stk__arrow_schema *s, uint32_t at)
{
    bool is = false;

    for (; at != STK__ARROW_NONE; at = s->nodes[at].parent)
        is |= s->nodes[at].nullable;
    return is;
}

static stk__table_column describe(const stk__arrow_schema *s, uint32_t at)
{
    const stk__arrow_node *node = &s->nodes[at], *value = node;
    const char *note = s->names.data + node->note, *refused = stk__arrow_refusal(s, at);
    const bool is_text = stk__arrow_is_bytes(node->type) || stk__arrow_is_view(node->type);
    stk__table_column c = {.name = stk__arrow_name(s, at),
                           .kind = STK__COLUMN_VALUES,
                           .width = 1,
                           .nullable = nullable(s, at)};

    if (node->type == STK__ARROW_FIXED_LIST || node->type == STK__ARROW_FIXED_BINARY) {
        c.width = node->width;
        c.list = true;
    }
    if (!refused && (stk__arrow_is_list(node->type) || node->type == STK__ARROW_FIXED_LIST))
        value++;
    c.holes = value != node && value->nullable;
    c.dtype = value->dtype;
    if (stk__arrow_is_list(node->type))
        c.kind = STK__COLUMN_LIST;
    else if (is_text || node->type == STK__ARROW_FIXED_BINARY)
        c.dtype = STK_UINT8;
    if (is_text) {
        c.kind = STK__COLUMN_BYTES;
        c.text = node->type == STK__ARROW_UTF8 || node->type == STK__ARROW_LARGE_UTF8 ||
                 node->type == STK__ARROW_UTF8_VIEW;
    }
    if (!*note && value != node)
        note = s->names.data + value->note;
    c.note = *note ? note : NULL;
    if (refused) {
        c.kind = STK__COLUMN_REFUSED;
        c.note = refused;
    }
    return c;
}

/* What convert wrote of shapes among the schema's keys; NULL: nothing. */
static const char *find_shapes(stk__flat *flat, const stk__flat_table *table, size_t *length)
{
    const stk__flat_vector pairs = stk__flat_list(flat, table, SCHEMA_METADATA, 4);

    for (uint32_t i = 0; i < pairs.count && !flat->damaged; i++) {
        const stk__flat_table pair = stk__flat_entry(flat, &pairs, i);
        const stk__flat_vector key = stk__flat_list(flat, &pair, 0, 1),
                               value = stk__flat_list(flat, &pair, 1, 1);
        *length = value.count;
        if (key.count == sizeof STK__TABLE_FIELDS - 1 &&
            memcmp(flat->data + key.at, STK__TABLE_FIELDS, key.count) == 0)
            return (const char *)flat->data + value.at;
    }
    *length = 0;
    return NULL;
}

static stk_status add_columns(reader *r, const stk__flat_table *table)
{
    stk__arrow_schema *s = r->schema;
    size_t length = 0;
    const char *shapes = find_shapes(r->flat, table, &length);
    stk__table_columns columns = {.apart = sizeof *columns.first};

    columns.first = stk__calloc(s->ctx, s->num_nodes, sizeof *columns.first);
    if (!columns.first)
        return no_memory(r);
    for (uint32_t i = 0; i < s->num_nodes; i = is_flattened(s, i) ? i + 1 : s->nodes[i].end)
        if (!is_flattened(s, i))
            columns.first[columns.count++] = describe(s, i);
    stk_status status = stk__table_shapes(s->ctx, shapes, length, &columns, r->err);
    for (uint32_t i = 0, c = 0; status == STK_OK && c < columns.count;) {
        stk__arrow_node *node = &s->nodes[i];
        if (is_flattened(s, i)) {
            i++;
            continue;
        }
        status = stk__table_file_column(r->file, &columns.first[c], &node->wanted, r->err);
        node->column = c++;
        i = node->end;
    }
    stk__free(s->ctx, columns.first);
    return status;
}

stk_status stk__arrow_schema_read(stk__arrow_schema *schema, stk__table_file *file, stk__flat *flat,
                                  const stk__flat_table *table, stk_error *err)
{
    reader r = {schema, file, flat, err};
    const stk__flat_vector fields = stk__flat_list(flat, table, SCHEMA_FIELDS, 4);

    if (stk__flat_number(flat, table, SCHEMA_ENDIANNESS, 2, 0) != 0)
        return stk__table_file_fail(file, STK_EKIND, 0, err,
                                    "its numbers are big endian; write it again on a machine that "
                                    "is little endian");
    for (uint32_t i = 0; i < fields.count && !flat->damaged; i++) {
        const stk__flat_table field = stk__flat_entry(flat, &fields, i);
        STK_TRY(read_field(&r, &field, STK__ARROW_NONE, 1));
    }
    if (flat->damaged || !schema->num_nodes)
        return stk__table_file_fail(file, STK_EFORMAT, 0, err,
                                    flat->damaged ? "its schema is damaged; copy it again"
                                                  : "its schema has no fields");
    return add_columns(&r, table);
}

void stk__arrow_schema_release(stk__arrow_schema *schema)
{
    stk__free(schema->ctx, schema->nodes);
    stk__bytes_release(&schema->names);
}
