/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include <stoker/options.h>

#include "base/decimal.h"

static bool make_room(stk__text *text, size_t more)
{
    if (text->length + more + 1 <= text->room)
        return true;
    const size_t wanted = STK_MAX(text->length + more + 1, (size_t)256);
    char *bytes = stk__grow(text->ctx, text->bytes, &text->room, wanted, 1);
    if (bytes)
        text->bytes = bytes;
    return bytes;
}

void stk__text_add(stk__text *text, const char *format, ...)
{
    const size_t left = text->length < text->room ? text->room - text->length : 0;
    va_list arguments;

    va_start(arguments, format);
    const int length = vsnprintf(left ? text->bytes + text->length : NULL, left, format, arguments);
    va_end(arguments);
    if (length < 0)
        text->failed = true;
    if (text->failed)
        return;
    if (text->ctx && (size_t)length >= left) {
        if (!make_room(text, (size_t)length)) {
            text->failed = true;
            return;
        }
        va_start(arguments, format);
        vsnprintf(text->bytes + text->length, (size_t)length + 1, format, arguments);
        va_end(arguments);
    }
    text->length += (size_t)length;
}

void stk__text_put(stk__text *text, const char *bytes, size_t length)
{
    if (text->ctx && !text->failed && !make_room(text, length))
        text->failed = true;
    if (text->failed)
        return;
    if (text->length + 1 < text->room) {
        const size_t fits = STK_MIN(length, text->room - text->length - 1);
        memcpy(text->bytes + text->length, bytes, fits);
        text->bytes[text->length + fits] = 0;
    }
    text->length += length;
}

/* Bytes in front that stand for themselves in a JSON string. */
static size_t plain(const char *string, size_t left)
{
    size_t length = 0, n = 0;

    do {
        length += n;
        n = stk__utf8_character(string + length, left - length);
    } while (n && (unsigned char)string[length] >= 0x20 && string[length] != 0x7f &&
             string[length] != '"' && string[length] != '\\');
    return length;
}

void stk__text_add_json_bytes(stk__text *text, const void *bytes, size_t length)
{
    const char *string = bytes;
    size_t left = length;

    stk__text_put(text, "\"", 1);
    while (left) {
        const size_t n = plain(string, left);
        const unsigned char c = (unsigned char)string[n];
        stk__text_put(text, string, n);
        if (n == left)
            break;
        if (c == '"' || c == '\\')
            stk__text_add(text, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            stk__text_add(text, "\\u%04x", c);
        else
            stk__text_put(text, "?", 1);
        string += n + 1;
        left -= n + 1;
    }
    stk__text_put(text, "\"", 1);
}

void stk__text_add_json(stk__text *text, const char *string)
{
    stk__text_add_json_bytes(text, string, strlen(string));
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static void add_float(stk__text *text, stk_dtype dtype, const void *element)
{
    const double value = stk__element_as_double(element, dtype);
    char decimal[STK__DECIMAL];

    if (isnan(value)) {
        stk__text_put(text, "NaN", 3);
    } else if (isinf(value)) {
        stk__text_add(text, value < 0 ? "-Infinity" : "Infinity");
    } else {
        const int length = stk__decimal_of(dtype, element, decimal);
        stk__text_put(text, decimal, (size_t)length);
        if (!strpbrk(decimal, ".e"))
            stk__text_put(text, ".0", 2);
    }
}

void stk__text_add_real(stk__text *text, double value)
{
    add_float(text, STK_FLOAT64, &value);
}

static void add_integer(stk__text *text, stk_dtype dtype, const void *element)
{
    const unsigned unused = 64 - 8 * (unsigned)stk_dtype_size(dtype);
    uint64_t bits = 0;

    memcpy(&bits, element, stk_dtype_size(dtype)); /* little-endian, as all machines */
    if (dtype == STK_INT8 || dtype == STK_INT16 || dtype == STK_INT32 || dtype == STK_INT64)
        stk__text_add(text, "%lld", (long long)((int64_t)(bits << unused) >> unused));
    else
        stk__text_add(text, "%llu", (unsigned long long)bits);
}

void stk__text_add_element(stk__text *text, stk_dtype dtype, const void *element)
{
    const stk_dtype part = dtype == STK_COMPLEX64 ? STK_FLOAT32 : STK_FLOAT64;

    if (dtype == STK_BOOL) {
        stk__text_add(text, *(const uint8_t *)element ? "true" : "false");
    } else if (stk__dtype_is_float(dtype)) {
        add_float(text, dtype, element);
    } else if (dtype == STK_COMPLEX64 || dtype == STK_COMPLEX128) {
        stk__text_put(text, "[", 1);
        add_float(text, part, element);
        stk__text_put(text, ", ", 2);
        add_float(text, part, (const char *)element + stk_dtype_size(part));
        stk__text_put(text, "]", 1);
    } else {
        add_integer(text, dtype, element);
    }
}

void stk__text_add_percent(stk__text *text, const char *bytes, size_t length, bool slashes)
{
    for (size_t i = 0; i < length; i++) {
        const char c = bytes[i];
        if ((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
            c == '-' || c == '.' || c == '_' || c == '~' || (c == '/' && slashes))
            stk__text_put(text, &c, 1);
        else
            stk__text_add(text, "%%%02X", (unsigned)(uint8_t)c);
    }
}

static void add_sides(stk__text *text, const int64_t *shape, uint32_t rank)
{
    for (uint32_t i = 0; i < rank; i++)
        stk__text_add(text, i ? ", %" PRId64 : "%" PRId64, shape[i]);
}

void stk__text_add_shape(stk__text *text, const int64_t *shape, uint32_t rank, bool rows)
{
    stk__text_add(text, rows ? rank ? "[N, " : "[N" : "[");
    add_sides(text, shape, rank);
    stk__text_add(text, "]");
}

void stk__shape_tuple(const int64_t *shape, uint32_t rank, char *bytes, size_t size)
{
    stk__text text = {.bytes = bytes, .room = size};

    stk__text_add(&text, "(");
    add_sides(&text, shape, rank);
    stk__text_add(&text, rank == 1 ? ",)" : ")");
}

/* Whether a text means itself in YAML without quotes, or is a number or word that is to be read as
 * one. */
static bool is_plain(const char *string)
{
    static const char marks[] = "_./+-", *const others[] = {"",     "-",    "---", "...",
                                                            "null", "Null", "NULL"};

    for (size_t i = 0; i < STK_COUNT(others); i++)
        if (strcmp(string, others[i]) == 0)
            return false;
    for (const char *c = string; *c; c++)
        if (!(*c >= 'a' && *c <= 'z') && !(*c >= 'A' && *c <= 'Z') && !(*c >= '0' && *c <= '9') &&
            !strchr(marks, *c))
            return false;
    return true;
}

void stk__text_add_yaml(stk__text *text, const char *string)
{
    if (is_plain(string))
        stk__text_put(text, string, strlen(string));
    else
        stk__text_add_json(text, string);
}

void stk__text_add_csv_bytes(stk__text *text, const void *bytes, size_t length, char delimiter)
{
    const char *string = bytes, *quote;
    bool quoted = false;

    for (size_t i = 0; i < length && !quoted; i++)
        quoted =
            string[i] == delimiter || string[i] == '"' || string[i] == '\r' || string[i] == '\n';
    if (!quoted) {
        stk__text_put(text, string, length);
        return;
    }
    stk__text_put(text, "\"", 1);
    for (; length && (quote = memchr(string, '"', length)); string = quote + 1) {
        const size_t n = (size_t)(quote - string) + 1;
        stk__text_put(text, string, n);
        stk__text_put(text, "\"", 1);
        length -= n;
    }
    stk__text_put(text, string, length);
    stk__text_put(text, "\"", 1);
}

void stk__text_add_csv(stk__text *text, const char *string)
{
    stk__text_add_csv_bytes(text, string, strlen(string), ',');
}

void stk__text_add_fixed(stk__text *text, double value, int decimals)
{
    char digits[DBL_MAX_10_EXP + 64];
    const size_t length = (size_t)snprintf(digits, sizeof digits, "%.*f", decimals, value);

    if (!isfinite(value)) {
        stk__text_put(text, digits, length);
        return;
    }
    /* The point of a locale may be of several bytes. */
    stk__text_put(text, digits, strspn(digits, "-0123456789"));
    stk__text_put(text, ".", 1);
    stk__text_put(text, digits + length - (size_t)decimals, (size_t)decimals);
}

void stk__text_add_thousandths(stk__text *text, uint64_t value)
{
    stk__text_add(text, "%" PRIu64 ".%03u", value / 1000, (unsigned)(value % 1000));
}

const char *stk_size_text(double bytes, char text[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t i = 0;

    for (; i + 1 < STK_COUNT(units) && bytes >= 1023.5; i++)
        bytes /= 1024;
    snprintf(text, 32, bytes < 99.95 ? "%.3g %s" : "%.0f %s", bytes, units[i]);
    return text;
}

void stk__text_add_double(stk__text *text, const char *key, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    stk__text_add(text, "%s %016llx\n", key, (unsigned long long)bits);
}

void stk__text_release(stk__text *text)
{
    stk__free(text->ctx, text->bytes);
    text->bytes = NULL;
    text->length = text->room = 0;
}

size_t stk__utf8_character(const char *text, size_t left)
{
    const uint8_t *at = (const uint8_t *)text;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t code;
    size_t n;

    if (left == 0 || at[0] < 0x80)
        return left > 0;
    n = (at[0] & 0xe0) == 0xc0 ? 2 : (at[0] & 0xf0) == 0xe0 ? 3 : (at[0] & 0xf8) == 0xf0 ? 4 : 0;
    if (n == 0 || n > left)
        return 0;
    code = at[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3f);
    }
    return code < least[n] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff) ? 0 : n;
}
