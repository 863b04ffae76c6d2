/* SPDX-License-Identifier: Apache-2.0 */
/* What jansson 2.x takes for values, from above, is in the constants; a test holds them against
 * the allocator's figures. */
#include "base/json.h"

#include "base/context.h"
#include "base/digits.h"

#define MARK        '\x01' /* in front of a text that means a word or number */
#define MARK_QUOTED "\"\\u0001"
#define MAX_DIGITS  18 /* digits of an integer that surely fits int64 */

/* Bytes that a value takes, with its place in the list or object that holds it: the head of a key
 * and its part of a table while that grows, rounded up as malloc() does. */
#define OBJECT_BYTES 320
#define ARRAY_BYTES  192
#define STRING_BYTES 176 /* as a value or as a key, and TEXT_TIMES its text while it is read */
#define TEXT_TIMES   3
#define NUMBER_BYTES 80
#define PLACE_BYTES  48 /* of a value that is none of these, of a comma */

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
    uint64_t bytes; /* that the values will take; wraps nowhere, as the text is bounded */
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
    s->bytes += STRING_BYTES + TEXT_TIMES * (s->at - begin);
    put(s, s->text + begin, s->at - begin);
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

    s->bytes += NUMBER_BYTES;
    if (take_word(s, "NaN") || take_word(s, "Infinity") || take_word(s, "-Infinity")) {
        s->bytes += STRING_BYTES;
        put_marked(s, s->text + begin, s->at - begin);
        return;
    }
    if (s->text[s->at] == '-')
        s->at++;
    for (; s->at < s->length; s->at++) {
        char c = s->text[s->at];
        if (stk__is_digit(c))
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
        s->bytes += STRING_BYTES + TEXT_TIMES * (s->at - begin);
        put_marked(s, s->text + begin, s->at - begin);
    } else {
        put(s, s->text + begin, s->at - begin);
    }
}

static void scan_mark(scan *s, char c)
{
    if (c == '[' || c == '{') {
        s->values++;
        s->bytes += c == '{' ? OBJECT_BYTES : ARRAY_BYTES;
        if (++s->depth > STK__JSON_MAX_DEPTH)
            s->problem = "nests deeper than 32 levels";
    } else if ((c == ']' || c == '}') && s->depth) {
        s->depth--;
    } else if (c == ',') {
        s->bytes += PLACE_BYTES;
        if (++s->values > STK__JSON_MAX_VALUES)
            s->problem = "holds more than 4194304 values";
    }
}

static void scan_all(scan *s)
{
    while (s->at < s->length && !s->problem) {
        char c = s->text[s->at];
        if (c == '"') {
            scan_string(s);
        } else if (stk__is_digit(c) || c == '-' || c == 'N' || c == 'I') {
            scan_number(s);
        } else {
            scan_mark(s, c);
            put(s, &c, 1);
            s->at++;
        }
    }
}

/* ---- What is claimed ---- */

uint64_t stk__json_most(const stk_context *ctx)
{
    return STK_MIN(ctx->memory_limit / STK__JSON_PART, STK__JSON_MAX_BYTES);
}

static void give_back(stk_context *ctx, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&ctx->json_bytes, bytes, memory_order_relaxed);
    stk__memory_note(ctx, -(int64_t)bytes);
}

static stk_status claim(stk_context *ctx, uint64_t bytes, const char *key, stk_error *err)
{
    uint64_t most = ctx->memory_limit / STK__JSON_PART;
    uint64_t before = atomic_fetch_add_explicit(&ctx->json_bytes, bytes, memory_order_relaxed);

    if (bytes <= most && before <= most - bytes) {
        stk__memory_note(ctx, (int64_t)bytes);
        return STK_OK;
    }
    atomic_fetch_sub_explicit(&ctx->json_bytes, bytes, memory_order_relaxed);
    return stk__fail_at(err, STK_ELIMIT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                        "%s needs up to %llu bytes of memory as JSON, and %llu of the %llu that "
                        "metadata may take are taken (a quarter of memory_limit); raise "
                        "memory_limit if the file is sound",
                        key, (unsigned long long)bytes, (unsigned long long)before,
                        (unsigned long long)most);
}

static uint64_t bytes_of(const json_t *value)
{
    const char *key;
    json_t *child;
    size_t i;
    uint64_t bytes = PLACE_BYTES;

    if (json_is_string(value))
        return STRING_BYTES + TEXT_TIMES * (uint64_t)json_string_length(value);
    if (json_is_number(value))
        return NUMBER_BYTES;
    if (json_is_object(value))
        bytes = OBJECT_BYTES;
    else if (json_is_array(value))
        bytes = ARRAY_BYTES;
    json_object_foreach((json_t *)value, key, child)
    {
        bytes += STRING_BYTES + TEXT_TIMES * strlen(key) + bytes_of(child);
    }
    json_array_foreach(value, i, child)
    {
        bytes += PLACE_BYTES + bytes_of(child);
    }
    return bytes;
}

stk_status stk__json_keep(stk_context *ctx, const json_t *value, const char *key, stk__json *out,
                          stk_error *err)
{
    uint64_t bytes = value ? bytes_of(value) : 0;

    *out = (stk__json){0};
    STK_TRY(claim(ctx, bytes, key, err));
    *out = (stk__json){json_incref((json_t *)(uintptr_t)value), bytes};
    return STK_OK;
}

void stk__json_drop(stk_context *ctx, stk__json *json)
{
    json_decref(json->value);
    give_back(ctx, json->bytes);
    *json = (stk__json){0};
}

/* ---- Parsing ---- */

static stk_status no_memory(const char *key, stk_error *err)
{
    return stk__fail_at(err, STK_ENOMEM, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                        "no memory to parse %s", key);
}

/* Parse a text that was looked at. */
static stk_status load(const char *text, uint64_t length, const char *key, json_t **out,
                       stk_error *err)
{
    json_error_t problem;

    *out = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
    if (*out)
        return STK_OK;
    if (json_error_code(&problem) == json_error_out_of_memory)
        return no_memory(key, err);
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, (uint64_t)problem.position,
                        "%s is no JSON: line %d, column %d: %s", key, problem.line, problem.column,
                        problem.text);
}

stk_status stk__json_parse(stk_context *ctx, const char *text, uint64_t length, const char *key,
                           stk__json *out, stk_error *err)
{
    scan s = {.text = text, .length = length};
    char *changed = NULL;

    *out = (stk__json){0};
    if (length > STK__JSON_MAX_BYTES)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s has %llu bytes, and metadata of at most %llu is read", key,
                            (unsigned long long)length, (unsigned long long)STK__JSON_MAX_BYTES);
    scan_all(&s);
    if (s.problem)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_ARRAY, key, s.at,
                            "%s %s at byte %llu, which no metadata needs", key, s.problem,
                            (unsigned long long)s.at);
    STK_TRY(claim(ctx, s.bytes, key, err));
    uint64_t bytes = s.bytes, written = s.written;
    if (written != length && (changed = stk__alloc(ctx, written))) {
        s = (scan){.text = text, .length = length, .out = changed};
        scan_all(&s);
    }
    stk_status status = written != length && !changed
                            ? no_memory(key, err)
                            : load(changed ? changed : text, written, key, &out->value, err);
    stk__free(ctx, changed);
    if (status == STK_OK)
        out->bytes = bytes;
    else
        give_back(ctx, bytes);
    return status;
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
        if (!stk__is_digit(text[at]))
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
    size_t flags = JSON_ENCODE_ANY | (indent ? JSON_INDENT(2) : 0);
    size_t size = json_dumpb(value, NULL, 0, flags);

    if (!size)
        return NULL;
    char *text = stk__alloc(ctx, size + 1);
    if (!text)
        return NULL;
    if (json_dumpb(value, text, size, flags) != size) { /* no memory */
        stk__free(ctx, text);
        return NULL;
    }
    text[size] = 0;
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
