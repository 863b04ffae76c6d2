/* SPDX-License-Identifier: Apache-2.0 */
#include "array/json.h"

#include <stdlib.h>

#define MARK        '\x01' /* in front of a text that stands for a word or number */
#define MARK_QUOTED "\"\\u0001"
#define MAX_DIGITS  18 /* digits of an integer that surely fits int64 */

/* Whether decimal digits with a sign are an int64. */
static bool fits(const char *text, uint64_t length)
{
    bool negative = length && text[0] == '-';
    int64_t value = 0;

    for (uint64_t i = negative; i < length; i++) {
        int digit = text[i] - '0';
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value))
            return false;
    }
    return true;
}

/* A pass over the text before it is parsed: bounds what the parser will take, and puts what JSON
 * does not know into texts. */
typedef struct scan {
    const char *text;
    uint64_t length, at;
    char *out; /* NULL: only counted */
    uint64_t written;
    uint64_t values, depth;
    const char *problem;
} scan;

static void put(scan *s, const char *text, uint64_t length)
{
    if (s->out)
        memcpy(s->out + s->written, text, length);
    s->written += length;
}

static void put_marked(scan *s, const char *text, uint64_t length)
{
    put(s, MARK_QUOTED, sizeof MARK_QUOTED - 1);
    put(s, text, length);
    put(s, "\"", 1);
}

static void scan_string(scan *s)
{
    uint64_t begin = s->at++;

    while (s->at < s->length && s->text[s->at] != '"')
        s->at += s->text[s->at] == '\\' ? 2 : 1;
    s->at = STK_MIN(s->at + 1, s->length);
    put(s, s->text + begin, s->at - begin);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool take_word(scan *s, const char *word)
{
    uint64_t length = strlen(word);

    if (s->length - s->at < length || memcmp(s->text + s->at, word, length) != 0)
        return false;
    s->at += length;
    return true;
}

/* A number, or a word in place of one. */
static void scan_number(scan *s)
{
    uint64_t begin = s->at, digits = 0;
    bool whole = true;

    if (take_word(s, "NaN") || take_word(s, "Infinity") || take_word(s, "-Infinity")) {
        put_marked(s, s->text + begin, s->at - begin);
        return;
    }
    if (s->text[s->at] == '-')
        s->at++;
    for (; s->at < s->length; s->at++) {
        char c = s->text[s->at];
        if (is_digit(c))
            digits++;
        else if (c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-')
            whole = false;
        else
            break;
    }
    if (s->at == begin) { /* no number: the parser will say so */
        s->at++;
        put(s, s->text + begin, 1);
    } else if (whole && digits > MAX_DIGITS && !fits(s->text + begin, s->at - begin)) {
        put_marked(s, s->text + begin, s->at - begin);
    } else {
        put(s, s->text + begin, s->at - begin);
    }
}

static void scan_all(scan *s)
{
    while (s->at < s->length && !s->problem) {
        char c = s->text[s->at];
        if (c == '"') {
            scan_string(s);
            continue;
        }
        if (is_digit(c) || c == '-' || c == 'N' || c == 'I') {
            scan_number(s);
            continue;
        }
        if (c == '[' || c == '{') {
            s->values++;
            if (++s->depth > STK__JSON_MAX_DEPTH)
                s->problem = "nests deeper than 32 levels";
        } else if ((c == ']' || c == '}') && s->depth) {
            s->depth--;
        } else if (c == ',' && ++s->values > STK__JSON_MAX_VALUES) {
            s->problem = "holds more than 4194304 values";
        }
        put(s, &c, 1);
        s->at++;
    }
}

stk_status stk__json_parse(stk_context *ctx, const char *text, uint64_t length, const char *key,
                           json_t **out, stk_error *err)
{
    scan s = {.text = text, .length = length};
    char *changed = NULL;
    json_error_t problem;

    *out = NULL;
    if (length > STK__JSON_MAX_BYTES)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s has %llu bytes, and metadata of at most %llu is read", key,
                            (unsigned long long)length, (unsigned long long)STK__JSON_MAX_BYTES);
    scan_all(&s);
    if (s.problem)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_ARRAY, key, s.at,
                            "%s %s at byte %llu, which no metadata needs", key, s.problem,
                            (unsigned long long)s.at);
    if (s.written != length) {
        changed = stk__alloc(ctx, s.written);
        if (!changed)
            return stk__fail_at(err, STK_ENOMEM, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                                "no memory to parse %s", key);
        s = (scan){.text = text, .length = length, .out = changed};
        scan_all(&s);
    }
    *out = json_loadb(changed ? changed : text, changed ? s.written : length,
                      JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
    stk__free(ctx, changed);
    if (*out)
        return STK_OK;
    if (json_error_code(&problem) == json_error_out_of_memory)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "no memory to parse %s", key);
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, (uint64_t)problem.position,
                        "%s is no JSON: line %d, column %d: %s", key, problem.line, problem.column,
                        problem.text);
}

/* Whether what follows the mark is one of the words or numbers that are marked. */
static bool is_special(const char *text, size_t length)
{
    if ((length == 3 && !memcmp(text, "NaN", 3)) || (length == 8 && !memcmp(text, "Infinity", 8)) ||
        (length == 9 && !memcmp(text, "-Infinity", 9)))
        return true;
    size_t at = length && text[0] == '-';
    if (length - at <= MAX_DIGITS)
        return false;
    for (; at < length; at++)
        if (!is_digit(text[at]))
            return false;
    return true;
}

const char *stk__json_special(const json_t *value)
{
    const char *text = json_string_value(value);

    if (!text || text[0] != MARK || !is_special(text + 1, strlen(text + 1)))
        return NULL;
    return text + 1;
}

char *stk__json_text(stk_context *ctx, const json_t *value, bool indent)
{
    size_t mark = sizeof MARK_QUOTED - 1;
    char *dumped = json_dumps(value, JSON_ENCODE_ANY | (indent ? JSON_INDENT(2) : 0));

    if (!dumped)
        return NULL;
    char *text = stk__strdup(ctx, dumped);
    json_free_t release = NULL;
    json_get_alloc_funcs(NULL, &release);
    release(dumped);
    if (!text)
        return NULL;
    /* Each marked text becomes its content, which is shorter. */
    char *to = text;
    for (const char *from = text; *from;) {
        const char *end = strncmp(from, MARK_QUOTED, mark) ? NULL : strchr(from + mark, '"');
        if (end && is_special(from + mark, (size_t)(end - from) - mark)) {
            size_t n = (size_t)(end - from) - mark;
            memmove(to, from + mark, n);
            to += n;
            from = end + 1;
        } else if (*from == '\\' && from[1]) {
            *to++ = *from++;
            *to++ = *from++;
        } else {
            *to++ = *from++;
        }
    }
    *to = 0;
    return text;
}
