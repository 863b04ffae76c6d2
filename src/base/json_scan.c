/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_scan.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/digits.h"

#define DEPTH 16 /* of nesting */

static bool fail_at_end(stk__json_cursor *c)
{
    c->more = c->at >= c->end;
    return false;
}

void stk__json_skip_blanks(stk__json_cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t' || *c->at == '\r'))
        c->at++;
}

/* Behind the backslash. */
static bool take_escape(stk__json_cursor *c)
{
    if (c->at == c->end)
        return fail_at_end(c);
    char kind = *c->at++;
    if (kind != 'u')
        return kind && strchr("\"\\/bfnrt", kind);
    for (int i = 0; i < 4; i++, c->at++)
        if (c->at == c->end || stk__hex_digit(*c->at) < 0)
            return fail_at_end(c);
    return true;
}

bool stk__json_take_string(stk__json_cursor *c, const char **text, size_t *length)
{
    *text = ++c->at;
    while (c->at < c->end && *c->at != '"') {
        if ((unsigned char)*c->at < 0x20)
            return false;
        if (*c->at++ == '\\' && !take_escape(c))
            return false;
    }
    if (c->at == c->end)
        return fail_at_end(c);
    *length = (size_t)(c->at++ - *text);
    return true;
}

static bool take_word(stk__json_cursor *c, const char *word)
{
    for (; *word; word++, c->at++)
        if (c->at == c->end || *c->at != *word)
            return fail_at_end(c);
    return true;
}

static bool take_digits(stk__json_cursor *c)
{
    const char *from = c->at;

    while (c->at < c->end && *c->at >= '0' && *c->at <= '9')
        c->at++;
    return c->at > from || fail_at_end(c);
}

static bool take_number(stk__json_cursor *c)
{
    if (*c->at == '-')
        c->at++;
    if (c->at < c->end && *c->at == 'I')
        return take_word(c, "Infinity");
    if (c->at < c->end && *c->at == '0')
        c->at++;
    else if (!take_digits(c))
        return false;
    if (c->at < c->end && *c->at == '.') {
        c->at++;
        if (!take_digits(c))
            return false;
    }
    if (c->at < c->end && (*c->at == 'e' || *c->at == 'E')) {
        c->at++;
        if (c->at < c->end && (*c->at == '+' || *c->at == '-'))
            c->at++;
        if (!take_digits(c))
            return false;
    }
    return true;
}

static bool take_value(stk__json_cursor *c, stk__json_member *member, int depth);

static bool take_key(stk__json_cursor *c, stk__json_member *member)
{
    if (c->at == c->end || *c->at != '"')
        return fail_at_end(c);
    if (!stk__json_take_string(c, &member->key, &member->key_length))
        return false;
    stk__json_skip_blanks(c);
    if (c->at == c->end || *c->at != ':')
        return fail_at_end(c);
    c->at++;
    return true;
}

/* The next member of a group, or its end. */
static bool take_member(stk__json_cursor *c, int depth, bool object, bool first,
                        stk__json_member *member, bool *closed)
{
    const char close = object ? '}' : ']';

    stk__json_skip_blanks(c);
    *closed = c->at < c->end && *c->at == close;
    if (*closed) {
        c->at++;
        return true;
    }
    if (!first) {
        if (c->at == c->end || *c->at != ',')
            return fail_at_end(c);
        c->at++;
        stk__json_skip_blanks(c);
    }
    return (!object || take_key(c, member)) && take_value(c, member, depth + 1);
}

bool stk__json_next(stk__json_cursor *cursor, bool object, bool first, stk__json_member *member,
                    bool *closed)
{
    return take_member(cursor, 0, object, first, member, closed);
}

/* At the opening brace or bracket. `members` may be NULL. */
static bool take_group(stk__json_cursor *c, int depth, stk__json_member *members, size_t room,
                       size_t *n)
{
    const bool object = *c->at++ == '{';
    stk__json_member member = {0};
    bool closed = false;

    *n = 0;
    if (depth == DEPTH)
        return false;
    while (take_member(c, depth, object, *n == 0, &member, &closed)) {
        if (closed)
            return true;
        if (members && *n < room)
            members[*n] = member;
        ++*n;
    }
    return false;
}

static bool take_value(stk__json_cursor *c, stk__json_member *member, int depth)
{
    size_t n;
    bool good;

    stk__json_skip_blanks(c);
    if (c->at == c->end)
        return fail_at_end(c);
    member->text = c->at;
    switch (*c->at) {
    case '"':
        member->kind = STK__JSON_STRING;
        return stk__json_take_string(c, &member->text, &member->length);
    case '{':
    case '[':
        member->kind = *c->at == '{' ? STK__JSON_OBJECT : STK__JSON_ARRAY;
        good = take_group(c, depth, NULL, 0, &n);
        break;
    case 't':
        member->kind = STK__JSON_TRUE;
        good = take_word(c, "true");
        break;
    case 'f':
        member->kind = STK__JSON_FALSE;
        good = take_word(c, "false");
        break;
    case 'n':
        member->kind = STK__JSON_NULL;
        good = take_word(c, "null");
        break;
    case 'N':
        member->kind = STK__JSON_NUMBER;
        good = take_word(c, "NaN");
        break;
    default:
        member->kind = STK__JSON_NUMBER;
        good = take_number(c);
    }
    member->length = (size_t)(c->at - member->text);
    return good;
}

stk__json_scanned stk__json_scan(const char *at, const char *end, stk__json_member *members,
                                 size_t room, size_t *n, const char **stop)
{
    stk__json_cursor c = {at, end, false};

    *n = 0;
    if (at == end)
        return STK__JSON_MORE;
    if (*at != '{')
        return STK__JSON_BAD;
    if (!take_group(&c, 0, members, room, n))
        return c.more ? STK__JSON_MORE : STK__JSON_BAD;
    *stop = c.at;
    return STK__JSON_DONE;
}

/* ---- Values --------------------------------------------------------------------------------- */

#define EXACT_DIGITS 19 /* that fit 64 bits */
#define EXACT_POWER  22 /* of ten that is a double */

/*
 * A quotient of 64 bits, rounded once more to a double: the nearest one, unless the first rounding
 * went exactly between two.
 */
static bool divide_wide(uint64_t mantissa, double power, double *out)
{
#if LDBL_MANT_DIG == 64
    const uint64_t below = (UINT64_C(1) << 11) - 1, between = UINT64_C(1) << 10;
    long double quotient = (long double)mantissa / (long double)power;
    uint64_t bits;

    memcpy(&bits, &quotient, sizeof bits);
    *out = (double)quotient;
    return (bits & below) != between;
#else
    return false;
#endif
}

/*
 * Digits and a point alone, with a mantissa and a power of ten that are doubles: their quotient is
 * the nearest double [Clinger 1990]. With Python's 17 digits the mantissa takes 64 bits. Nearly all
 * numbers of a log are such.
 */
static bool number_fast(const char *text, size_t length, double *out)
{
    static const double powers[EXACT_POWER + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    uint64_t mantissa = 0;
    size_t digits = 0, places = 0, i = 0;
    bool point = false;

    bool minus = length && *text == '-';
    for (i = minus; i < length; i++) {
        if (text[i] == '.') {
            point = true;
            continue;
        }
        if (text[i] < '0' || text[i] > '9' || ++digits > EXACT_DIGITS)
            return false;
        mantissa = mantissa * 10 + (uint64_t)(text[i] - '0');
        places += point;
    }
    if (places > EXACT_POWER)
        return false;
    if (mantissa <= UINT64_C(1) << 53)
        *out = (double)mantissa / powers[places];
    else if (!divide_wide(mantissa, powers[places], out))
        return false;
    if (minus)
        *out = -*out;
    return true;
}

static double number_of(const stk__json_member *member)
{
    char text[64];
    double value;

    if (member->kind != STK__JSON_NUMBER)
        return NAN;
    if (number_fast(member->text, member->length, &value))
        return value;
    if (member->length >= sizeof text)
        return NAN;
    memcpy(text, member->text, member->length);
    text[member->length] = 0;
    return strtod(text, NULL);
}

bool stk__json_member_real(const stk__json_member *member, stk__json_range range, double *out)
{
    const double value = number_of(member);

    if (!(value >= range.least && value <= range.most))
        return false;
    *out = value;
    return true;
}

bool stk__json_member_whole(const stk__json_member *member, int64_t most, int64_t *out)
{
    int64_t value = 0;

    if (member->kind != STK__JSON_NUMBER)
        return false;
    for (size_t i = 0; i < member->length; i++) {
        char c = member->text[i];
        if (c < '0' || c > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, c - '0', &value))
            return false;
    }
    if (value > most)
        return false;
    *out = value;
    return true;
}

static uint32_t hex4(const char *at)
{
    uint32_t value = 0;

    for (int i = 0; i < 4; i++)
        value = value * 16 + (uint32_t)stk__hex_digit(at[i]);
    return value;
}

size_t stk__utf8_put(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(0xf0 << (4 - n) | c);
    return n;
}

uint32_t stk__json_unescape(const char **at, const char *end)
{
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    char kind = *(*at)++;

    if (kind != 'u') {
        const char *found = strchr(from, kind);
        return (unsigned char)(found ? to[found - from] : kind);
    }
    uint32_t c = hex4(*at);
    *at += 4;
    if (c >= 0xd800 && c < 0xdc00 && end - *at >= 6 && (*at)[0] == '\\' && (*at)[1] == 'u') {
        uint32_t low = hex4(*at + 2);
        if (low >= 0xdc00 && low < 0xe000) {
            *at += 6;
            return 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        }
    }
    return c >= 0xd800 && c < 0xe000 ? 0 : c;
}

#define REPLACEMENT 0xfffd /* in the place of what is no character */

size_t stk__json_member_text(const stk__json_member *member, char *out, size_t size)
{
    const char *at = member->text, *end = at + member->length;
    size_t used = 0;

    while (at < end) {
        char bytes[4];
        size_t n = 1;
        if (member->kind == STK__JSON_STRING && *at == '\\') {
            at++;
            const uint32_t c = stk__json_unescape(&at, end);
            n = stk__utf8_put(c ? c : REPLACEMENT, bytes);
        } else {
            bytes[0] = *at++;
            while (n < 4 && at < end && ((unsigned char)*at & 0xc0) == 0x80)
                bytes[n++] = *at++;
        }
        if (used + n >= size)
            break;
        memcpy(out + used, bytes, n);
        used += n;
    }
    if (size)
        out[used] = 0;
    return used;
}

bool stk__json_member_key_is(const stk__json_member *member, const char *key)
{
    size_t length = strlen(key);

    return member->key_length == length && memcmp(member->key, key, length) == 0;
}
