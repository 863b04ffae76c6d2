/* SPDX-License-Identifier: Apache-2.0 */
/* The types of apache/arrow format/Schema.fbs: how they are stored, and what they become. */
#include "dataset/table/arrow.h"

enum { FIELD_TYPE = 3, FIELD_DICTIONARY = 4, FIELD_METADATA = 6 };
enum { DICTIONARY_ID, DICTIONARY_INDEX };
enum { INT_BITS, INT_SIGNED };
enum { DECIMAL_PRECISION, DECIMAL_SCALE, DECIMAL_BITS };
enum { TIME_UNIT, TIME_BITS };
enum { TIMESTAMP_UNIT, TIMESTAMP_ZONE };
enum { KEY, VALUE };

#define MOST_SCALE 300 /* a decimal of 256 bits has 76 digits */

static const char *const units[] = {"s", "ms", "us", "ns"};

static const char *unit_of(int64_t unit)
{
    return unit >= 0 && unit < (int64_t)STK_COUNT(units) ? units[unit] : "?";
}

static stk_dtype integer(int64_t bits, bool is_signed)
{
    switch (bits) {
    case 8:
        return is_signed ? STK_INT8 : STK_UINT8;
    case 16:
        return is_signed ? STK_INT16 : STK_UINT16;
    case 32:
        return is_signed ? STK_INT32 : STK_UINT32;
    case 64:
        return is_signed ? STK_INT64 : STK_UINT64;
    default:
        return STK_DTYPE_NONE;
    }
}

static void plain(stk__arrow_node *node, stk_dtype dtype)
{
    node->form = STK__ARROW_PLAIN;
    node->dtype = dtype;
    node->bytes = (uint8_t)stk_dtype_size(dtype);
}

static void read_float(stk__arrow_node *node, int64_t precision)
{
    static const stk_dtype types[] = {STK_FLOAT16, STK_FLOAT32, STK_FLOAT64};

    if (precision >= 0 && precision < (int64_t)STK_COUNT(types))
        plain(node, types[precision]);
}

static void read_decimal(stk__arrow_node *node, stk__flat *flat, const stk__flat_table *type,
                         stk__text *note)
{
    const int64_t digits = stk__flat_number(flat, type, DECIMAL_PRECISION, 4, 0),
                  scale = stk__flat_number(flat, type, DECIMAL_SCALE, 4, 0),
                  bits = stk__flat_number(flat, type, DECIMAL_BITS, 4, 128);

    stk__text_add(note, "decimal%lld(%lld, %lld)", (long long)bits, (long long)digits,
                  (long long)scale);
    if ((bits != 32 && bits != 64 && bits != 128 && bits != 256) || scale < -MOST_SCALE ||
        scale > MOST_SCALE)
        return;
    node->form = STK__ARROW_DECIMALS;
    node->dtype = STK_FLOAT64;
    node->bytes = (uint8_t)(bits / 8);
    node->scale = (int16_t)scale;
}

static void read_timestamp(stk__arrow_node *node, stk__flat *flat, const stk__flat_table *type,
                           stk__text *note)
{
    const stk__flat_vector zone = stk__flat_list(flat, type, TIMESTAMP_ZONE, 1);

    plain(node, STK_INT64);
    stk__text_add(note, "timestamp[%s",
                  unit_of(stk__flat_number(flat, type, TIMESTAMP_UNIT, 2, 0)));
    if (zone.count && zone.count < 64)
        stk__text_add(note, ", %.*s", (int)zone.count, (const char *)flat->data + zone.at);
    stk__text_add(note, "]");
}

static void read_time(stk__arrow_node *node, stk__flat *flat, const stk__flat_table *type,
                      stk__text *note)
{
    const int64_t bits = stk__flat_number(flat, type, TIME_BITS, 4, 32);

    plain(node, bits == 32 || bits == 64 ? integer(bits, true) : STK_DTYPE_NONE);
    stk__text_add(note, "time%lld[%s]", (long long)bits,
                  unit_of(stk__flat_number(flat, type, TIME_UNIT, 2, 1)));
}

static void read_date(stk__arrow_node *node, int64_t unit, stk__text *note)
{
    plain(node, unit == 0 ? STK_INT32 : STK_INT64);
    stk__text_add(note, unit == 0 ? "date32[day]" : "date64[ms]");
}

static void read_interval(stk__arrow_node *node, int64_t unit, stk__text *note)
{
    if (unit == 0)
        plain(node, STK_INT32);
    stk__text_add(note, unit == 0 ? "interval[months]" : "an interval of days and parts of them");
}

static void read_width(stk__arrow_node *node, int64_t width)
{
    node->width = width > 0 ? (uint32_t)width : 0;
}

/* What a type with numbers of its own says. */
static void read_parameters(stk__arrow_node *node, stk__flat *flat, const stk__flat_table *type,
                            stk__text *note)
{
    switch (node->type) {
    case STK__ARROW_INT:
        plain(node, integer(stk__flat_number(flat, type, INT_BITS, 4, 0),
                            stk__flat_number(flat, type, INT_SIGNED, 1, 0)));
        break;
    case STK__ARROW_FLOAT:
        read_float(node, stk__flat_number(flat, type, 0, 2, 0));
        break;
    case STK__ARROW_BOOL:
        node->form = STK__ARROW_BITS;
        node->dtype = STK_BOOL;
        break;
    case STK__ARROW_DECIMAL:
        read_decimal(node, flat, type, note);
        break;
    case STK__ARROW_DATE:
        read_date(node, stk__flat_number(flat, type, 0, 2, 1), note);
        break;
    case STK__ARROW_TIME:
        read_time(node, flat, type, note);
        break;
    case STK__ARROW_TIMESTAMP:
        read_timestamp(node, flat, type, note);
        break;
    case STK__ARROW_INTERVAL:
        read_interval(node, stk__flat_number(flat, type, 0, 2, 0), note);
        break;
    case STK__ARROW_DURATION:
        plain(node, STK_INT64);
        stk__text_add(note, "duration[%s]", unit_of(stk__flat_number(flat, type, 0, 2, 1)));
        break;
    case STK__ARROW_UNION:
        node->dense = stk__flat_number(flat, type, 0, 2, 0) == 1;
        break;
    case STK__ARROW_FIXED_BINARY:
        read_width(node, stk__flat_number(flat, type, 0, 4, 0));
        break;
    case STK__ARROW_FIXED_LIST:
        read_width(node, stk__flat_number(flat, type, 0, 4, 0));
        break;
    default:
        break;
    }
}

/* The name of an extension type, whose values are those of its storage. */
static void read_extension(stk__flat *flat, const stk__flat_table *field, stk__text *note)
{
    static const char extension[] = "ARROW:extension:name";
    const stk__flat_vector pairs = stk__flat_list(flat, field, FIELD_METADATA, 4);

    for (uint32_t i = 0; i < pairs.count && !flat->damaged; i++) {
        const stk__flat_table pair = stk__flat_entry(flat, &pairs, i);
        const stk__flat_vector key = stk__flat_list(flat, &pair, KEY, 1),
                               value = stk__flat_list(flat, &pair, VALUE, 1);
        if (key.count != sizeof extension - 1 ||
            memcmp(flat->data + key.at, extension, key.count) != 0)
            continue;
        stk__text_add(note, "%sextension<%.*s>", note->length ? " " : "",
                      (int)STK_MIN(value.count, 64u), (const char *)flat->data + value.at);
    }
}

/* Codes in place of the values: their type. */
static void read_dictionary(stk__arrow_node *node, stk__flat *flat, const stk__flat_table *field)
{
    const stk__flat_table coded = stk__flat_child(flat, field, FIELD_DICTIONARY);

    node->piece = STK__TABLE_NO_PIECE;
    if (!coded.at)
        return;
    const stk__flat_table index = stk__flat_child(flat, &coded, DICTIONARY_INDEX);
    const int64_t bits = index.at ? stk__flat_number(flat, &index, INT_BITS, 4, 0) : 32;
    node->dictionary = true;
    node->id = stk__flat_number(flat, &coded, DICTIONARY_ID, 8, 0);
    node->index_signed = !index.at || stk__flat_number(flat, &index, INT_SIGNED, 1, 0);
    node->index_bytes = (uint8_t)stk_dtype_size(integer(bits, node->index_signed));
    flat->damaged |= !node->index_bytes;
}

void stk__arrow_type_read(stk__arrow_node *node, stk__flat *flat, const stk__flat_table *field,
                          stk__text *note)
{
    const stk__flat_table type = stk__flat_child(flat, field, FIELD_TYPE);

    read_parameters(node, flat, &type, note);
    read_extension(flat, field, note);
    read_dictionary(node, flat, field);
}

/* ---- What cannot be a column ---- */

static const char *refuse_list(const stk__arrow_schema *schema, uint32_t at)
{
    const stk__arrow_node *node = &schema->nodes[at], *value = node + 1;

    if (node->end == at + 1)
        return "a list without a type of its values";
    if (node->type == STK__ARROW_FIXED_LIST && !node->width)
        return "lists of no values";
    if (value->dictionary)
        return "a list of codes of a dictionary";
    if (value->dtype != STK_DTYPE_NONE)
        return NULL;
    switch (value->type) {
    case STK__ARROW_LIST:
    case STK__ARROW_LARGE_LIST:
    case STK__ARROW_FIXED_LIST:
    case STK__ARROW_LIST_VIEW:
    case STK__ARROW_LARGE_LIST_VIEW:
        return "a list of lists";
    case STK__ARROW_STRUCT:
        return "a list of structs";
    default:
        return stk__arrow_is_bytes(value->type) || stk__arrow_is_view(value->type)
                   ? "a list of strings"
                   : "a list of no numbers";
    }
}

const char *stk__arrow_refusal(const stk__arrow_schema *schema, uint32_t at)
{
    static const char *const refused[] = {
        [STK__ARROW_NULL] = "null: no row has a value",
        [STK__ARROW_STRUCT] = "a struct without fields, or a dictionary of structs",
        [STK__ARROW_INTERVAL] = "an interval of days and parts of them",
        [STK__ARROW_UNION] = "a union",
        [STK__ARROW_MAP] = "a map",
        [STK__ARROW_RUN_END] = "run-end encoded",
        [STK__ARROW_LIST_VIEW] = "list_view: write it as list",
        [STK__ARROW_LARGE_LIST_VIEW] = "large_list_view: write it as large_list"};
    const stk__arrow_node *node = &schema->nodes[at];

    if (stk__arrow_is_list(node->type) || node->type == STK__ARROW_FIXED_LIST)
        return refuse_list(schema, at);
    if (stk__arrow_is_bytes(node->type) || stk__arrow_is_view(node->type) ||
        node->dtype != STK_DTYPE_NONE)
        return NULL;
    if (node->type == STK__ARROW_FIXED_BINARY)
        return node->width ? NULL : "strings of no bytes";
    if (node->type < STK_COUNT(refused) && refused[node->type])
        return refused[node->type];
    return "a type that is not known";
}
