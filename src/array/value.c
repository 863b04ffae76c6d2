/* SPDX-License-Identifier: Apache-2.0 */
/* Elements as texts and as plain numbers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "array/room.h"
#include "base/base64.h"
#include "base/decimal.h"

typedef struct writing {
    char *to;
    size_t size, used; /* `used` goes on where `size` ends, as snprintf() counts */
} writing;

static void add(writing *t, const char *from, size_t length)
{
    for (size_t i = 0; i < length; i++, t->used++)
        if (t->used + 1 < t->size)
            t->to[t->used] = from[i];
}

static void add_words(writing *t, const char *words)
{
    add(t, words, strlen(words));
}

/* The fewest digits that give the same bytes again. */
static void add_float(writing *t, stk_dtype dtype, const void *value)
{
    const double x = stk__element_as_double(value, dtype);
    char number[STK__DECIMAL];

    if (isnan(x) || isinf(x)) {
        add_words(t, isnan(x) ? "\"NaN\"" : x < 0 ? "\"-Infinity\"" : "\"Infinity\"");
        return;
    }
    stk__decimal_of(dtype, value, number);
    add_words(t, number);
    if (!strpbrk(number, ".e"))
        add_words(t, ".0");
}

static void add_utf8(writing *t, uint32_t c)
{
    char out[4];

    if (c < 0x80) {
        out[0] = (char)c;
        add(t, out, 1);
    } else if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        add(t, out, 2);
    } else if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        add(t, out, 3);
    } else {
        out[0] = (char)(0xf0 | c >> 18);
        out[1] = (char)(0x80 | (c >> 12 & 0x3f));
        out[2] = (char)(0x80 | (c >> 6 & 0x3f));
        out[3] = (char)(0x80 | (c & 0x3f));
        add(t, out, 4);
    }
}

/* One character of a JSON string. What is no character is U+FFFD. */
static void add_character(writing *t, uint32_t c)
{
    char escaped[8];

    if (c == '"' || c == '\\') {
        add_words(t, c == '"' ? "\\\"" : "\\\\");
    } else if (c < 0x20 || (c >= 0x7f && c < 0xa0)) {
        snprintf(escaped, sizeof escaped, "\\u%04x", c);
        add_words(t, escaped);
    } else {
        add_utf8(t, c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0xfffd : c);
    }
}

/* Strings of fixed length without the zeros behind them. Bytes stand for the characters of Latin-1,
 * so that each has a text. */
static void add_string(writing *t, const stk__type *type, const unsigned char *value)
{
    uint32_t step = type->kind == STK__KIND_TEXT ? 4 : 1, count = type->itemsize / step, c = 0;

    for (; count > 0; count--) {
        c = 0;
        memcpy(&c, value + (size_t)(count - 1) * step, step);
        if (c)
            break;
    }
    add_words(t, "\"");
    for (uint32_t i = 0; i < count; i++) {
        c = 0;
        memcpy(&c, value + (size_t)i * step, step);
        add_character(t, c);
    }
    add_words(t, "\"");
}

static void add_bytes(writing *t, const unsigned char *value, uint64_t count)
{
    char number[8];

    add_words(t, "[");
    for (uint64_t i = 0; i < count; i++) {
        snprintf(number, sizeof number, "%s%u", i ? ", " : "", value[i]);
        add_words(t, number);
    }
    add_words(t, "]");
}

/* Text of an element of varying length; of bytes as of raw ones. */
static void add_varying(writing *t, const stk__type *type, const stk_array_string *value)
{
    const unsigned char *p = (const unsigned char *)value->data;

    if (type->kind == STK__KIND_STRING_BYTES) {
        add_bytes(t, p, value->length);
        return;
    }
    add_words(t, "\"");
    for (uint64_t i = 0; i < value->length;) {
        const unsigned more = p[i] >= 0xf0 ? 3 : p[i] >= 0xe0 ? 2 : p[i] >= 0xc0 ? 1 : 0;
        uint32_t c = more ? p[i] & (0x3fu >> more) : p[i];
        for (uint64_t end = STK_MIN(i + more, value->length - 1); i < end;)
            c = c << 6 | (p[++i] & 0x3f);
        add_character(t, c);
        i++;
    }
    add_words(t, "\"");
}

static void add_integer(writing *t, const stk__type *type, const void *value)
{
    unsigned unused = 64 - 8 * type->itemsize;
    uint64_t bits = 0;
    char number[24];

    memcpy(&bits, value, type->itemsize);
    if (type->kind == STK__KIND_UINT)
        snprintf(number, sizeof number, "%llu", (unsigned long long)bits);
    else
        snprintf(number, sizeof number, "%lld", (long long)((int64_t)(bits << unused) >> unused));
    if (type->kind == STK__KIND_TIME && bits == (uint64_t)INT64_MIN)
        add_words(t, "\"NaT\"");
    else
        add_words(t, number);
}

size_t stk_array_value_text(const stk_array *array, const void *value, char *to, size_t size)
{
    const stk__type *type = &array->type;
    writing t = {to, size, 0};

    switch (type->kind) {
    case STK__KIND_BOOL:
        add_words(&t, *(const unsigned char *)value ? "true" : "false");
        break;
    case STK__KIND_FLOAT:
        add_float(&t, type->dtype, value);
        break;
    case STK__KIND_COMPLEX: {
        stk_dtype part = type->dtype == STK_COMPLEX64 ? STK_FLOAT32 : STK_FLOAT64;
        add_words(&t, "[");
        add_float(&t, part, value);
        add_words(&t, ", ");
        add_float(&t, part, (const char *)value + stk_dtype_size(part));
        add_words(&t, "]");
        break;
    }
    case STK__KIND_BYTES:
    case STK__KIND_TEXT:
        add_string(&t, type, value);
        break;
    case STK__KIND_RAW:
        add_bytes(&t, value, type->itemsize);
        break;
    case STK__KIND_STRING:
    case STK__KIND_STRING_BYTES:
        add_varying(&t, type, value);
        break;
    default:
        add_integer(&t, type, value);
    }
    if (size)
        to[STK_MIN(t.used, size - 1)] = 0;
    return t.used;
}

/* ---- Plain numbers ---- */

#define WIDEN(type)                                                                                \
    for (size_t i = 0; i < count; i++) {                                                           \
        type v;                                                                                    \
        memcpy(&v, from + i * sizeof v, sizeof v);                                                 \
        out[i] = (double)v;                                                                        \
    }                                                                                              \
    break

bool stk__array_numbers(const stk__type *type, const void *values, size_t count, double *out)
{
    const char *from = values;

    switch (type->kind == STK__KIND_TIME ? STK_DTYPE_NONE : type->dtype) {
    case STK_BOOL:
    case STK_UINT8:
        WIDEN(uint8_t);
    case STK_INT8:
        WIDEN(int8_t);
    case STK_UINT16:
        WIDEN(uint16_t);
    case STK_INT16:
        WIDEN(int16_t);
    case STK_UINT32:
        WIDEN(uint32_t);
    case STK_INT32:
        WIDEN(int32_t);
    case STK_UINT64:
        WIDEN(uint64_t);
    case STK_INT64:
        WIDEN(int64_t);
    case STK_FLOAT32:
        WIDEN(float);
    case STK_FLOAT64:
        WIDEN(double);
    case STK_FLOAT16:
    case STK_BFLOAT16:
        for (size_t i = 0; i < count; i++)
            out[i] = stk__element_as_double(from + 2 * i, type->dtype);
        break;
    default:
        return false;
    }
    return true;
}

/* Base64 of a double, as xarray writes floats of version 3, whatever their type. */
static bool base64_number(const char *text, double *out)
{
    unsigned char bytes[8] = {0};

    if (!text || strlen(text) != 12 || !stk__base64_parse(text, sizeof bytes, bytes))
        return false;
    *out = stk__element_as_double(bytes, STK_FLOAT64);
    return true;
}

bool stk__array_fill_attribute(const stk_array *a, void *out)
{
    const json_t *value = json_object_get(a->attributes.value, "_FillValue");
    double number;

    if (!value || a->type.dtype == STK_DTYPE_NONE || a->type.kind == STK__KIND_COMPLEX)
        return false;
    if (json_is_array(value) && json_array_size(value) == 1) /* as HDF5 has attributes */
        value = json_array_get(value, 0);
    if (a->type.kind == STK__KIND_FLOAT && base64_number(json_string_value(value), &number)) {
        stk__float_bytes(a->type.dtype, number, out);
        return true;
    }
    return stk__fill_parse(&a->type, value, 3, "", out, NULL) == STK_OK;
}

json_t *stk__fill_attribute_json(stk_context *ctx, stk_dtype dtype, const void *element)
{
    stk__type type;

    if (dtype == STK_DTYPE_NONE ||
        stk__type_numpy(stk_dtype_name(dtype), "", &type, NULL) != STK_OK ||
        type.kind == STK__KIND_COMPLEX)
        return NULL;
    if (type.kind != STK__KIND_FLOAT)
        return stk__fill_to_json(&type, element);
    const double number = stk__element_as_double(element, dtype);
    char *text = stk__base64_text(ctx, &number, sizeof number);
    json_t *value = text ? json_string(text) : NULL;
    stk__free(ctx, text);
    return value;
}

bool stk__array_missing(const stk_array *a, double *out)
{
    const char *const names[] = {"_FillValue", "missing_value"};
    unsigned char bytes[8] = {0};
    double none;

    if (!stk__array_numbers(&a->type, bytes, 0, &none))
        return false;
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        const char *text = stk_array_text(a, names[i]);
        bool found = stk_array_number(a, names[i], out);
        if (!found && a->type.kind == STK__KIND_FLOAT)
            found = base64_number(text, out);
        if (!found)
            continue;
        if (a->type.kind == STK__KIND_FLOAT) {
            stk__float_bytes(a->type.dtype, *out, bytes);
            *out = stk__element_as_double(bytes, a->type.dtype);
        }
        return !isnan(*out);
    }
    return false;
}
