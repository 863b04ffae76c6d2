/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdlib.h>

#include "array/kerchunk/kerchunk.h"

/* An expression that is being computed. */
typedef struct sum_of {
    const char *at, *end;
    const stk__kerchunk_names *names;
    uint32_t depth;
} sum_of;

static void skip_space(sum_of *s)
{
    while (s->at < s->end && *s->at == ' ')
        s->at++;
}

static bool take(sum_of *s, char mark)
{
    skip_space(s);
    if (s->at >= s->end || *s->at != mark)
        return false;
    s->at++;
    return true;
}

static size_t name_length(const char *at, const char *end)
{
    size_t n = 0;

    while (at + n < end && (isalpha((unsigned char)at[n]) || at[n] == '_' ||
                            (n && isdigit((unsigned char)at[n]))))
        n++;
    return n;
}

static bool take_number(sum_of *s, int64_t *out)
{
    const char *begin = s->at;

    for (*out = 0; s->at < s->end && isdigit((unsigned char)*s->at); s->at++)
        if (__builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, *s->at - '0', out))
            return false;
    return s->at > begin;
}

static bool take_sum(sum_of *s, int64_t *out);

static bool take_factor(sum_of *s, int64_t *out)
{
    bool good = false;

    skip_space(s);
    if (++s->depth > STK__KERCHUNK_MAX_DEPTH)
        return false;
    const size_t n = name_length(s->at, s->end);
    if (take(s, '-')) {
        good = take_factor(s, out) && !__builtin_sub_overflow((int64_t)0, *out, out);
    } else if (take(s, '(')) {
        good = take_sum(s, out) && take(s, ')');
    } else if (n) {
        for (uint32_t i = 0; i < s->names->count && !good; i++) {
            good = strlen(s->names->names[i]) == n && !memcmp(s->names->names[i], s->at, n);
            *out = s->names->values[i];
        }
        s->at += n;
    } else {
        good = take_number(s, out);
    }
    s->depth--;
    return good;
}

/* As Python divides: towards minus infinity. */
static bool divide(int64_t a, int64_t b, bool rest, int64_t *out)
{
    if (b == 0 || (a == INT64_MIN && b == -1))
        return false;
    const int64_t floor = a / b - (a % b != 0 && (a % b < 0) != (b < 0));
    *out = rest ? a - floor * b : floor;
    return true;
}

static bool take_product(sum_of *s, int64_t *out)
{
    int64_t other;

    if (!take_factor(s, out))
        return false;
    for (;;) {
        bool good;
        if (take(s, '*'))
            good = take_factor(s, &other) && !__builtin_mul_overflow(*out, other, out);
        else if (take(s, '/'))
            good = take(s, '/') && take_factor(s, &other) && divide(*out, other, false, out);
        else if (take(s, '%'))
            good = take_factor(s, &other) && divide(*out, other, true, out);
        else
            return true;
        if (!good)
            return false;
    }
}

static bool take_sum(sum_of *s, int64_t *out)
{
    int64_t other;

    if (!take_product(s, out))
        return false;
    for (;;) {
        bool good;
        if (take(s, '+'))
            good = take_product(s, &other) && !__builtin_add_overflow(*out, other, out);
        else if (take(s, '-'))
            good = take_product(s, &other) && !__builtin_sub_overflow(*out, other, out);
        else
            return true;
        if (!good)
            return false;
    }
}

/* The text of a template's name; NULL: it is none. */
static const char *text_of(const stk__kerchunk_names *names, const char *at, const char *end)
{
    char name[128];

    while (at < end && *at == ' ')
        at++;
    while (end > at && end[-1] == ' ')
        end--;
    const size_t n = name_length(at, end);
    if (n == 0 || at + n != end || n >= sizeof name)
        return NULL;
    memcpy(name, at, n);
    name[n] = 0;
    const char *text = json_string_value(json_object_get(names->texts, name));
    return text && !strstr(text, "{{") ? text : NULL;
}

stk_status stk__kerchunk_expand(const char *text, const stk__kerchunk_names *names, const char *key,
                                stk__text *out, stk_error *err)
{
    const char *at = text, *open;

    out->length = 0;
    while ((open = strstr(at, "{{")) && out->length < STK__KERCHUNK_MAX_TEXT) {
        const char *end = strstr(open + 2, "}}");
        sum_of s = {.at = open + 2, .end = end, .names = names};
        int64_t value = 0;
        const char *word = end ? text_of(names, open + 2, end) : NULL;
        stk__text_put(out, at, (size_t)(open - at));
        if (word) {
            stk__text_put(out, word, strlen(word));
        } else if (end && take_sum(&s, &value) && (skip_space(&s), s.at == end)) {
            stk__text_add(out, "%lld", (long long)value);
        } else {
            return stk__fail_at(err, STK_EKIND, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                                "%s: the expression '%.80s' is not computed: names of templates, "
                                "and whole numbers with + - * // %% are",
                                key, open);
        }
        at = end + 2;
    }
    stk__text_put(out, at, strlen(at) + 1);
    if (out->failed)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "no memory for the references of %s", key);
    if (out->length > STK__KERCHUNK_MAX_TEXT)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s: a template grows to more than %u bytes", key,
                            STK__KERCHUNK_MAX_TEXT);
    return STK_OK;
}
