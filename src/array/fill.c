/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fill values [zarr-specs 3.1 "Fill value"; zarr-specs 2.0 "Fill value encoding"]: numbers, the
 * words NaN, Infinity, -Infinity, bits as "0x...", lists of two for complex numbers, lists of bytes
 * or base64 for bytes.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "array/room.h"
#include "base/base64.h"
#include "base/digits.h"

static stk_status wrong(const stk__type *type, const char *key, stk_error *err)
{
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                        "%s: 'fill_value' is no %s", key, type->name);
}

/* ---- Integers ---- */

/* Decimal digits, also those beyond int64 that stand as text. */
static bool parse_integer(const json_t *value, bool *negative, uint64_t *magnitude)
{
    const char *text = stk__json_special(value);

    if (json_is_integer(value)) {
        json_int_t n = json_integer_value(value);
        *negative = n < 0;
        *magnitude = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
        return true;
    }
    if (json_is_real(value)) { /* 0.0, as some write it */
        double x = json_real_value(value);
        if (x != floor(x) || fabs(x) > 0x1p53)
            return false;
        *negative = x < 0;
        *magnitude = (uint64_t)fabs(x);
        return true;
    }
    if (!text || text[0] == 'N' || text[0] == 'I' || text[1] == 'I')
        return false;
    *negative = text[0] == '-';
    *magnitude = 0;
    for (text += *negative; *text; text++)
        if (!stk__mul_size(*magnitude, 10, magnitude) ||
            !stk__add_size(*magnitude, (uint64_t)(*text - '0'), magnitude))
            return false;
    return true;
}

static bool integer_bytes(const stk__type *type, bool negative, uint64_t magnitude, void *out)
{
    unsigned bits = 8 * type->itemsize;
    bool is_signed = type->kind != STK__KIND_UINT;
    uint64_t most = is_signed    ? (UINT64_C(1) << (bits - 1)) - 1
                    : bits == 64 ? UINT64_MAX
                                 : (UINT64_C(1) << bits) - 1;

    if (magnitude > (negative ? (is_signed ? most + 1 : 0) : most))
        return false;
    uint64_t value = negative ? 0 - magnitude : magnitude;
    memcpy(out, &value, type->itemsize);
    return true;
}

/* ---- Floats ---- */

static bool parse_hex(const char *text, uint32_t size, void *out)
{
    uint64_t bits = 0;

    if (text[0] != '0' || (text[1] != 'x' && text[1] != 'X') || strlen(text) != 2 + 2 * size)
        return false;
    for (text += 2; *text; text++) {
        const int digit = stk__hex_digit(*text);
        if (digit < 0)
            return false;
        bits = bits << 4 | (uint64_t)digit;
    }
    memcpy(out, &bits, size);
    return true;
}

/* A whole number beyond int64: digits with a sign, which no locale writes in another way. */
static bool parse_digits(const char *text, double *out)
{
    char *end;

    *out = strtod(text, &end);
    return end != text && !*end && isfinite(*out);
}

static bool parse_float(stk_dtype dtype, const json_t *value, void *out)
{
    const char *special = stk__json_special(value), *text = json_string_value(value);
    double x;

    if (special)
        text = special;
    if (!text) {
        if (!json_is_number(value))
            return false;
        stk__float_bytes(dtype, json_number_value(value), out);
        return true;
    }
    if (parse_hex(text, (uint32_t)stk_dtype_size(dtype), out))
        return true;
    if (!strcmp(text, "NaN"))
        x = (double)NAN;
    else if (!strcmp(text, "Infinity"))
        x = (double)INFINITY;
    else if (!strcmp(text, "-Infinity"))
        x = -(double)INFINITY;
    else if (!special || !parse_digits(text, &x))
        return false;
    stk__float_bytes(dtype, x, out);
    return true;
}

static bool parse_complex(const stk__type *type, const json_t *value, void *out)
{
    stk_dtype part = type->dtype == STK_COMPLEX64 ? STK_FLOAT32 : STK_FLOAT64;
    char *imaginary = (char *)out + stk_dtype_size(part);

    if (json_array_size(value) == 2)
        return parse_float(part, json_array_get(value, 0), out) &&
               parse_float(part, json_array_get(value, 1), imaginary);
    return parse_float(part, value, out); /* the imaginary part stays 0 */
}

/* ---- Bytes and texts ---- */

bool stk__byte_list_parse(const json_t *list, uint32_t size, unsigned char *out)
{
    const json_t *value;
    size_t i;

    if (json_array_size(list) > size)
        return false;
    json_array_foreach(list, i, value)
    {
        json_int_t byte = json_integer_value(value);
        if (!json_is_integer(value) || byte < 0 || byte > 255)
            return false;
        out[i] = (unsigned char)byte;
    }
    return true;
}

/* UTF-8, which the parser has checked, to UTF-32. */
static bool parse_text(const char *text, uint32_t size, unsigned char *out)
{
    const unsigned char *p = (const unsigned char *)text;

    for (uint32_t at = 0; *p; at += 4) {
        unsigned more = *p >= 0xf0 ? 3 : *p >= 0xe0 ? 2 : *p >= 0xc0 ? 1 : 0;
        uint32_t code = more ? *p & (0x3fu >> more) : *p;
        for (p++; more; more--)
            code = code << 6 | (*p++ & 0x3f);
        if (at + 4 > size)
            return false;
        memcpy(out + at, &code, 4);
    }
    return true;
}

static bool parse_bytes(const stk__type *type, const json_t *value, int version, unsigned char *out)
{
    const char *text = json_string_value(value);
    uint32_t size = type->itemsize;

    if (json_is_array(value))
        return stk__byte_list_parse(value, size, out);
    if (json_is_integer(value) && json_integer_value(value) == 0) /* as v2 writes "nothing" */
        return true;
    if (!text)
        return false;
    if (type->kind == STK__KIND_TEXT)
        return parse_text(text, size, out);
    if (stk__base64_parse(text, size, out))
        return true;
    memset(out, 0, size);
    size_t length = strlen(text);
    if (version != 2 || length > size)
        return false;
    memcpy(out, text, length); /* older writers put the bytes themselves */
    return true;
}

stk_status stk__fill_parse(const stk__type *type, const json_t *value, int version, const char *key,
                           void *out, stk_error *err)
{
    const char *text = json_string_value(value);
    int64_t not_a_time = INT64_MIN;
    uint64_t magnitude;
    bool negative, good = false;

    memset(out, 0, type->itemsize);
    switch (type->kind) {
    case STK__KIND_BOOL:
        good = json_is_boolean(value) || json_is_integer(value) || json_is_real(value);
        *(unsigned char *)out = json_is_true(value) || json_number_value(value) != 0;
        break;
    case STK__KIND_TIME:
        if (text && !strcmp(text, "NaT")) {
            memcpy(out, &not_a_time, sizeof not_a_time);
            return STK_OK;
        }
        /* fall through */
    case STK__KIND_INT:
    case STK__KIND_UINT:
        good = parse_integer(value, &negative, &magnitude) &&
               integer_bytes(type, negative, magnitude, out);
        break;
    case STK__KIND_FLOAT:
        good = parse_float(type->dtype, value, out);
        break;
    case STK__KIND_COMPLEX:
        good = parse_complex(type, value, out);
        break;
    default:
        good = parse_bytes(type, value, version, out);
    }
    return good ? STK_OK : wrong(type, key, err);
}

/* ---- Writing ---- */

static json_t *float_json(stk_dtype dtype, const void *value)
{
    double x = stk__element_as_double(value, dtype);
    char hex[24];

    if (isnan(x)) {
        unsigned char plain[8];
        uint64_t bits = 0;
        size_t size = stk_dtype_size(dtype);
        stk__float_bytes(dtype, (double)NAN, plain);
        if (!memcmp(plain, value, size))
            return json_string("NaN");
        memcpy(&bits, value, size);
        snprintf(hex, sizeof hex, "0x%0*llx", (int)(2 * size), (unsigned long long)bits);
        return json_string(hex);
    }
    if (isinf(x))
        return json_string(x < 0 ? "-Infinity" : "Infinity");
    return json_real(x);
}

static json_t *byte_list(const unsigned char *bytes, uint32_t size)
{
    json_t *list = json_array();

    for (uint32_t i = 0; list && i < size; i++)
        if (json_array_append_new(list, json_integer(bytes[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

json_t *stk__fill_to_json(const stk__type *type, const void *value)
{
    uint64_t bits = 0;
    int64_t number;

    switch (type->kind) {
    case STK__KIND_BOOL:
        return json_boolean(*(const unsigned char *)value);
    case STK__KIND_FLOAT:
        return float_json(type->dtype, value);
    case STK__KIND_COMPLEX: {
        stk_dtype part = type->dtype == STK_COMPLEX64 ? STK_FLOAT32 : STK_FLOAT64;
        return json_pack("[o,o]", float_json(part, value),
                         float_json(part, (const char *)value + stk_dtype_size(part)));
    }
    case STK__KIND_TIME:
        memcpy(&number, value, sizeof number);
        return number == INT64_MIN ? json_string("NaT") : json_integer(number);
    case STK__KIND_UINT:
        memcpy(&bits, value, type->itemsize);
        if (bits > INT64_MAX) { /* as text that stk__json_text() writes as a number */
            char text[24];
            snprintf(text, sizeof text, "\x01%llu", (unsigned long long)bits);
            return json_string(text);
        }
        return json_integer((json_int_t)bits);
    case STK__KIND_BYTES:
    case STK__KIND_TEXT:
    case STK__KIND_RAW:
        return byte_list(value, type->itemsize);
    case STK__KIND_STRING: {
        const stk_array_string *text = value;
        return json_stringn(text->data ? text->data : "", text->length);
    }
    case STK__KIND_STRING_BYTES: {
        const stk_array_string *bytes = value;
        return byte_list((const unsigned char *)bytes->data, (uint32_t)bytes->length);
    }
    default:
        memcpy(&bits, value, type->itemsize);
        number = (int64_t)(bits << (64 - 8 * type->itemsize)) >> (64 - 8 * type->itemsize);
        return json_integer(number);
    }
}
