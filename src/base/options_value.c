/* SPDX-License-Identifier: Apache-2.0 */
/* One value: text -> member, member -> text. Both are free of the locale of the program. */
#include "base/decimal.h"
#include "base/digits.h"
#include "base/options.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Names of units and what they multiply by; `divide` keeps "5ms" as exact as "0.005". */
typedef struct unit {
    const char *name;
    uint64_t multiply, divide;
} unit;

/* The first SIZE_UNITS_WRITTEN are also written. */
static const unit size_units[] = {
    {"TiB", UINT64_C(1) << 40, 1},
    {"GiB", 1 << 30, 1},
    {"MiB", 1 << 20, 1},
    {"KiB", 1 << 10, 1},
    {"TB", UINT64_C(1000000000000), 1},
    {"GB", 1000000000, 1},
    {"MB", 1000000, 1},
    {"KB", 1000, 1},
    {"T", UINT64_C(1000000000000), 1},
    {"G", 1000000000, 1},
    {"M", 1000000, 1},
    {"K", 1000, 1},
    {"Ti", UINT64_C(1) << 40, 1},
    {"Gi", 1 << 30, 1},
    {"Mi", 1 << 20, 1},
    {"Ki", 1 << 10, 1},
    {"B", 1, 1},
    {"", 1, 1},
};
#define SIZE_UNITS_WRITTEN 8

static const unit time_units[] = {
    {"ns", 1, 1000000000},
    {"us", 1, 1000000},
    {"\xc2\xb5s", 1, 1000000},
    {"ms", 1, 1000},
    {"s", 1, 1},
    {"min", 60, 1},
    {"m", 60, 1},
    {"h", 3600, 1},
    {"d", 86400, 1},
    {"", 1, 1},
};

static const char *const true_words[] = {"true", "yes", "on", "1"};
static const char *const false_words[] = {"false", "no", "off", "0"};

static char lower(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    return c == '-' ? '_' : c;
}

bool stk__option_same(const char *a, size_t a_length, const char *b, size_t b_length)
{
    if (a_length != b_length)
        return false;
    for (size_t i = 0; i < a_length; i++)
        if (lower(a[i]) != lower(b[i]))
            return false;
    return true;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Part of a text, without the blanks around it. */
typedef struct span {
    const char *text;
    size_t length;
} span;

static span trim(const char *text)
{
    while (is_space(*text))
        text++;
    size_t length = strlen(text);
    while (length && is_space(text[length - 1]))
        length--;
    return (span){text, length};
}

static bool span_is(span s, const char *word)
{
    return stk__option_same(s.text, s.length, word, strlen(word));
}

size_t stk__option_choice(const char *choices, size_t i, const char **word)
{
    for (; choices; i--) {
        const char *bar = strchr(choices, '|');
        if (i == 0) {
            *word = choices;
            return bar ? (size_t)(bar - choices) : strlen(choices);
        }
        choices = bar ? bar + 1 : NULL;
    }
    return 0;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

bool stk__option_number(const char *text, double *value, const char **end)
{
    const char *p = text + (*text == '-' || *text == '+');
    char *stop;

    /* Words such as "inf", "nan" and hexadecimal floats are not numbers here. */
    if (!(stk__is_digit(*p) || (*p == '.' && stk__is_digit(p[1]))) ||
        (*p == '0' && lower(p[1]) == 'x'))
        return false;
    /* The C library keeps this locale: nothing is allocated. */
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain)
        return false;
    locale_t before = uselocale(plain);
    *value = strtod(text, &stop);
    uselocale(before);
    freelocale(plain);
    *end = stop;
    return stop > text && isfinite(*value);
}

static bool parse_unsigned(span s, bool hexadecimal, uint64_t *out)
{
    uint64_t value = 0, base = 10;
    size_t i = 0;

    if (hexadecimal && s.length > 2 && s.text[0] == '0' && lower(s.text[1]) == 'x')
        base = 16, i = 2;
    if (i == s.length)
        return false;
    for (; i < s.length; i++) {
        const int digit = stk__hex_digit(s.text[i]);
        if (digit < 0 || (uint64_t)digit >= base || !stk__mul_size(value, base, &value) ||
            !stk__add_size(value, (uint64_t)digit, &value))
            return false;
    }
    *out = value;
    return true;
}

static bool parse_signed(span s, int64_t *out)
{
    bool minus = s.length && s.text[0] == '-';
    uint64_t value;

    if (s.length && (minus || s.text[0] == '+'))
        s.text++, s.length--;
    if (!parse_unsigned(s, false, &value) || value > (uint64_t)INT64_MAX + minus)
        return false;
    *out = minus ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

/* The unit that `text` (of `s`, behind the number) names. */
static const unit *find_unit(const unit *units, size_t n, span s, const char *text)
{
    while (text < s.text + s.length && is_space(*text))
        text++;
    size_t length = (size_t)(s.text + s.length - text);
    for (size_t i = 0; i < n; i++)
        if (stk__option_same(text, length, units[i].name, strlen(units[i].name)))
            return &units[i];
    return NULL;
}

/* Bytes, exactly: digits before and behind the point are integers, and what is less than a byte is
 * dropped. */
static bool parse_size(span s, uint64_t *out)
{
    span whole = {s.text, 0};
    uint64_t value = 0, fraction = 0, scale = 1;

    while (whole.length < s.length && stk__is_digit(s.text[whole.length]))
        whole.length++;
    const char *p = whole.text + whole.length;
    bool point = whole.length < s.length && *p == '.';
    if (point)
        for (p++; p < s.text + s.length && stk__is_digit(*p); p++)
            if (scale < UINT64_C(1000000000000000000)) {
                fraction = fraction * 10 + (uint64_t)(*p - '0');
                scale *= 10;
            }
    if (!parse_unsigned(whole, false, &value))
        return false;
    const unit *u = find_unit(size_units, STK_COUNT(size_units), s, p);
    if (!u || (point && u->multiply == 1))
        return false;
    unsigned __int128 rest = (unsigned __int128)fraction * u->multiply / scale;
    return stk__mul_size(value, u->multiply, &value) && stk__add_size(value, (uint64_t)rest, out);
}

static bool parse_scaled(span s, const unit *units, size_t n, double *out)
{
    const char *end;
    double value;

    if (!stk__option_number(s.text, &value, &end) || end > s.text + s.length)
        return false;
    const unit *u = find_unit(units, n, s, end);
    if (!u)
        return false;
    value = value * (double)u->multiply / (double)u->divide;
    if (!isfinite(value))
        return false;
    *out = value;
    return true;
}

static bool parse_rate(span s, double *out)
{
    if (s.length > 2 && s.text[s.length - 2] == '/' && lower(s.text[s.length - 1]) == 's')
        s.length -= 2;
    return parse_scaled(s, size_units, STK_COUNT(size_units), out);
}

static bool parse_double(span s, double *out)
{
    const char *end;

    return stk__option_number(s.text, out, &end) && end == s.text + s.length;
}

/* ---- Words ----------------------------------------------------------------------------------- */

static bool parse_bool(span s, bool *out)
{
    for (size_t i = 0; i < STK_COUNT(true_words); i++)
        if (span_is(s, true_words[i]) || span_is(s, false_words[i])) {
            *out = span_is(s, true_words[i]);
            return true;
        }
    return false;
}

/*
 * A choice whose first word is "none" or "false" is also a switch: no is that word, yes the second
 * one ("cache: on", "shuffle: yes").
 */
static bool parse_enum(const stk_option *option, span s, int32_t *out)
{
    const char *word = "";
    size_t length;
    bool on;

    for (size_t i = 0; (length = stk__option_choice(option->choices, i, &word)) > 0; i++)
        if (stk__option_same(s.text, s.length, word, length)) {
            *out = (int32_t)i;
            return true;
        }
    length = stk__option_choice(option->choices, 0, &word);
    if (!stk__option_same(word, length, "none", 4) && !stk__option_same(word, length, "false", 5))
        return false;
    if (!parse_bool(s, &on))
        return false;
    *out = on;
    return true;
}

bool stk__option_type_auto(stk_option_type type)
{
    return type == STK_OPTION_INT || type == STK_OPTION_DOUBLE || type == STK_OPTION_RATE ||
           type == STK_OPTION_DURATION;
}

static bool knows_auto(const stk_option *option)
{
    return stk__option_type_auto(option->type) && option->choices &&
           strcmp(option->choices, "auto") == 0;
}

static bool in_range(const stk_option *option, double value)
{
    return option->min == option->max || (value >= option->min && value <= option->max);
}

/* A value of any type, and the number that its range is about. */
typedef struct any_value {
    union {
        bool truth;
        int32_t choice;
        int64_t number;
        uint64_t natural;
        double real;
        const char *string;
    } is;
    size_t size;
    double ranged;
} any_value;

static bool parse_any(const stk_option *option, const char *text, any_value *v)
{
    span s = trim(text);
    bool good = false;

    switch (option->type) {
    case STK_OPTION_BOOL:
        v->size = sizeof v->is.truth;
        return parse_bool(s, &v->is.truth);
    case STK_OPTION_ENUM:
        v->size = sizeof v->is.choice;
        return parse_enum(option, s, &v->is.choice);
    case STK_OPTION_STRING:
        v->size = sizeof v->is.string;
        v->is.string = text;
        return true;
    case STK_OPTION_SECRET:
        return false;
    case STK_OPTION_INT:
        v->size = sizeof v->is.number;
        v->is.number = STK_AUTO;
        if (knows_auto(option) && span_is(s, "auto"))
            return true;
        good = parse_signed(s, &v->is.number);
        v->ranged = (double)v->is.number;
        return good;
    case STK_OPTION_UINT:
    case STK_OPTION_SIZE:
        v->size = sizeof v->is.natural;
        good = option->type == STK_OPTION_UINT ? parse_unsigned(s, true, &v->is.natural)
                                               : parse_size(s, &v->is.natural);
        v->ranged = (double)v->is.natural;
        return good;
    case STK_OPTION_DOUBLE:
    case STK_OPTION_RATE:
    case STK_OPTION_DURATION:
        v->size = sizeof v->is.real;
        v->is.real = NAN;
        if (knows_auto(option) && span_is(s, "auto"))
            return true;
        if (option->type == STK_OPTION_DOUBLE)
            good = parse_double(s, &v->is.real);
        else if (option->type == STK_OPTION_RATE)
            good = parse_rate(s, &v->is.real);
        else
            good = parse_scaled(s, time_units, STK_COUNT(time_units), &v->is.real);
        v->ranged = v->is.real;
        return good;
    }
    return false;
}

static stk__parsed parse_secret(const stk_option *option, void *options, const char *text)
{
    if (!stk__secret_named(text))
        return STK__PARSE_BAD;
    const char *value = getenv(text + strlen(STK__SECRET_FROM));
    if (!value || !*value)
        return STK__PARSE_RANGE;
    memcpy((char *)options + option->offset, &value, sizeof value);
    return STK__PARSED;
}

stk__parsed stk__option_parse(const stk_option *option, void *options, const char *text)
{
    /* What no range is about passes it. */
    any_value value = {.ranged = option->min};

    if (option->type == STK_OPTION_SECRET)
        return parse_secret(option, options, text);
    if (!parse_any(option, text, &value))
        return STK__PARSE_BAD;
    if (!in_range(option, value.ranged))
        return STK__PARSE_RANGE;
    memcpy((char *)options + option->offset, &value.is, value.size);
    return STK__PARSED;
}

/* ---- Formatting ------------------------------------------------------------------------------ */

/* In the unit that leaves the smallest whole number. */
static int format_size(uint64_t value, char *text, size_t size)
{
    uint64_t best = 1;
    const char *name = "";

    for (size_t i = 0; value && i < SIZE_UNITS_WRITTEN; i++)
        if (value % size_units[i].multiply == 0 && size_units[i].multiply > best) {
            best = size_units[i].multiply;
            name = size_units[i].name;
        }
    return snprintf(text, size, "%" PRIu64 "%s", value / best, name);
}

/* Whether "NUMBER UNIT" reads back as `value`, and that text. */
static bool try_unit(double value, const unit *u, char text[64])
{
    char number[STK__DECIMAL];
    double scaled = value * (double)u->divide / (double)u->multiply, back;

    if (!isfinite(scaled) || fabs(scaled) < 1)
        return false;
    stk__decimal(scaled, number);
    snprintf(text, 64, "%s%s", number, u->name);
    const char *end;
    return strlen(number) <= 7 && stk__option_number(text, &back, &end) &&
           back * (double)u->multiply / (double)u->divide == value;
}

static int format_rate(double value, char *text, size_t size)
{
    char number[64];

    for (size_t i = 4; i < SIZE_UNITS_WRITTEN; i++)
        if (try_unit(value, &size_units[i], number))
            return snprintf(text, size, "%s/s", number);
    stk__decimal(value, number);
    return snprintf(text, size, "%sB/s", number);
}

static int format_duration(double value, char *text, size_t size)
{
    static const unit written[] = {
        {"s", 1, 1}, {"ms", 1, 1000}, {"us", 1, 1000000}, {"ns", 1, 1000000000}};
    char number[64];

    for (size_t i = 0; i < STK_COUNT(written); i++)
        if (try_unit(value, &written[i], number))
            return snprintf(text, size, "%s", number);
    stk__decimal(value, number);
    return snprintf(text, size, "%ss", number);
}

int stk_options_format(const stk_option *option, const void *options, char *text, size_t size)
{
    const char *member = (const char *)options + option->offset;
    int64_t number;
    uint64_t natural;
    int32_t choice;
    double real;
    bool truth;
    const char *string;
    char buffer[STK__DECIMAL];
    uint32_t known;

    memcpy(&known, options, sizeof known);
    if (!stk__option_in(option, known))
        return snprintf(text, size, "%s", "");
    switch (option->type) {
    case STK_OPTION_BOOL:
        memcpy(&truth, member, sizeof truth);
        return snprintf(text, size, "%s", truth ? "true" : "false");
    case STK_OPTION_INT:
        memcpy(&number, member, sizeof number);
        if (knows_auto(option) && number == STK_AUTO)
            return snprintf(text, size, "auto");
        return snprintf(text, size, "%" PRId64, number);
    case STK_OPTION_UINT:
        memcpy(&natural, member, sizeof natural);
        return snprintf(text, size, "%" PRIu64, natural);
    case STK_OPTION_SIZE:
        memcpy(&natural, member, sizeof natural);
        return format_size(natural, text, size);
    case STK_OPTION_ENUM:
        memcpy(&choice, member, sizeof choice);
        size_t length =
            choice < 0 ? 0 : stk__option_choice(option->choices, (size_t)choice, &string);
        return snprintf(text, size, "%.*s", (int)length, length ? string : "");
    case STK_OPTION_STRING:
        memcpy(&string, member, sizeof string);
        return snprintf(text, size, "%s", string ? string : "");
    case STK_OPTION_SECRET:
        memcpy(&string, member, sizeof string);
        return snprintf(text, size, "%s", string ? STK__SECRET_SHOWN : "");
    case STK_OPTION_DOUBLE:
    case STK_OPTION_RATE:
    case STK_OPTION_DURATION:
        break;
    }
    memcpy(&real, member, sizeof real);
    if (knows_auto(option) && isnan(real))
        return snprintf(text, size, "auto");
    if (option->type == STK_OPTION_RATE)
        return format_rate(real, text, size);
    if (option->type == STK_OPTION_DURATION)
        return format_duration(real, text, size);
    stk__decimal(real, buffer);
    return snprintf(text, size, "%s", buffer);
}

/* ---- What is allowed ------------------------------------------------------------------------- */

/* A bound of the range in the option's own notation. */
static void format_bound(const stk_option *option, double bound, char *text, size_t size)
{
    char number[STK__DECIMAL];

    if (option->type == STK_OPTION_SIZE)
        format_size(bound < 0 ? 0 : (uint64_t)bound, text, size);
    else if (option->type == STK_OPTION_RATE)
        format_rate(bound, text, size);
    else if (option->type == STK_OPTION_DURATION && bound >= 1 && bound == floor(bound))
        snprintf(text, size, "%.0fs", bound);
    else if (option->type == STK_OPTION_DURATION && bound != 0)
        format_duration(bound, text, size);
    else if (bound == floor(bound) && fabs(bound) <= 1e15)
        snprintf(text, size, "%.0f", bound);
    else {
        stk__decimal(bound, number);
        snprintf(text, size, "%s", number);
    }
}

#define NO_BOUND 9e17 /* a bound that large is none */

static void allowed_range(const stk_option *option, char *text, size_t size)
{
    char low[64], high[64];

    *text = 0;
    if (option->min == option->max)
        return;
    format_bound(option, option->min < -NO_BOUND ? 0 : option->min, low, sizeof low);
    format_bound(option, option->max > NO_BOUND ? 0 : option->max, high, sizeof high);
    if (option->max > NO_BOUND)
        snprintf(text, size, "at least %s", low);
    else if (option->min < -NO_BOUND)
        snprintf(text, size, "at most %s", high);
    else
        snprintf(text, size, "%s..%s", low, high);
}

static const char *kind_of(const stk_option *option)
{
    switch (option->type) {
    case STK_OPTION_INT:
        return "a whole number";
    case STK_OPTION_UINT:
        /* Where it has a range, that is said behind. */
        return option->min == option->max ? "a whole number from 0" : "a whole number";
    case STK_OPTION_DOUBLE:
        return "a number";
    case STK_OPTION_SIZE:
        return "a size such as 64KiB, 1.5MiB or 2GB";
    case STK_OPTION_RATE:
        return "a rate such as 100MB/s";
    case STK_OPTION_DURATION:
        return "a duration such as 0.005, 5ms or 2m";
    case STK_OPTION_BOOL:
        return "true or false";
    case STK_OPTION_SECRET:
        return "the name of an environment variable, as env:NAME";
    case STK_OPTION_ENUM:
    case STK_OPTION_STRING:
        break;
    }
    return "text";
}

static void allowed_choices(const char *choices, char *text, size_t size)
{
    const char *word;
    size_t length, used = 0;

    *text = 0;
    for (size_t i = 0; (length = stk__option_choice(choices, i, &word)) > 0 && used < size; i++)
        used +=
            (size_t)snprintf(text + used, size - used, "%s%.*s", i ? " | " : "", (int)length, word);
}

void stk__option_allowed(const stk_option *option, bool range, char *text, size_t size)
{
    char limits[160];

    if (option->type == STK_OPTION_ENUM) {
        allowed_choices(option->choices, text, size);
        return;
    }
    allowed_range(option, limits, sizeof limits);
    if (range)
        snprintf(text, size, "%s%s%s", knows_auto(option) && *limits ? "auto or " : "", limits,
                 knows_auto(option) && !*limits ? "auto or a number" : "");
    else if (*limits)
        snprintf(text, size, "%s%s, %s", knows_auto(option) ? "auto or " : "", kind_of(option),
                 limits);
    else
        snprintf(text, size, "%s%s", knows_auto(option) ? "auto or " : "", kind_of(option));
}
