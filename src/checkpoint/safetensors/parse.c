/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header's JSON has one shape, so it is read by a parser for that shape: no tree is built, the
 * strings are cut in place, and what a hostile header can cost is a small multiple of its length.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/json_scan.h"
#include "checkpoint/safetensors/safetensors.h"

typedef struct parser {
    char *at, *end; /* *end is 0 */
    char *begin;
    const char *path;
    stk__safetensors *out;
    size_t tensor_room, text_room;
    stk_error *err;
} parser;

/* ---- Errors ---- */

static stk_status fail(parser *p, const char *format, ...) STK_PRINTF(2, 3);

static stk_status fail(parser *p, const char *format, ...)
{
    char what[256];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return stk__fail_at(
        p->err, STK_EFORMAT, STK_STAGE_TRAIN, p->path, 8 + (uint64_t)(p->at - p->begin),
        "the header of '%.200s' is damaged: %s (byte %" PRIu64 ")" STK__SAFETENSORS_REMEDY, p->path,
        what, 8 + (uint64_t)(p->at - p->begin));
}

static stk_status no_memory(parser *p)
{
    return stk__fail_at(p->err, STK_ENOMEM, STK_STAGE_TRAIN, p->path, STK_NO_OFFSET,
                        "no memory for the header of '%.300s'", p->path);
}

/* ---- Tokens ---- */

static void skip_space(parser *p)
{
    stk__json_cursor c = {.at = p->at, .end = p->end};

    stk__json_skip_blanks(&c);
    p->at += c.at - p->at;
}

/* Take a character that must come. */
static stk_status take(parser *p, char wanted)
{
    skip_space(p);
    if (*p->at != wanted)
        return fail(p, "'%c' is missing", wanted);
    p->at++;
    return STK_OK;
}

/* After a member: *more says whether ',' or the closing character came. */
static stk_status take_next(parser *p, char closing, bool *more)
{
    skip_space(p);
    *more = *p->at == ',';
    if (!*more && *p->at != closing)
        return fail(p, "',' or '%c' is missing", closing);
    p->at++;
    return STK_OK;
}

/* Whether an object or list has no members; then its end is taken. */
static bool take_empty(parser *p, char closing)
{
    skip_space(p);
    if (*p->at != closing)
        return false;
    p->at++;
    return true;
}

/* A string, cut in place: it ends with a 0 that takes the place of its closing quote or earlier. */
static stk_status take_string(parser *p, char **out)
{
    const char *text;
    size_t length;

    skip_space(p);
    if (*p->at != '"')
        return fail(p, "'\"' is missing");
    stk__json_cursor c = {.at = p->at, .end = p->end};
    char *to = p->at + 1;
    const bool good = stk__json_take_string(&c, &text, &length);
    p->at += c.at - p->at;
    if (!good && (c.more || (unsigned char)*c.at < 0x20))
        return fail(p, "a string does not end");
    if (!good)
        return fail(p, "a string has an unknown escape");
    *out = to;
    for (const char *from = text, *end = text + length; from < end;) {
        if (*from != '\\') {
            *to++ = *from++;
            continue;
        }
        from++;
        const uint32_t character = stk__json_unescape(&from, end);
        if (character == 0)
            return fail(p, "a string has a NUL or half a surrogate pair, which no text can have");
        char bytes[4];
        const size_t n = stk__utf8_put(character, bytes);
        memcpy(to, bytes, n);
        to += n;
    }
    *to = 0;
    if (!stk__utf8_valid(*out, (size_t)(to - *out)))
        return fail(p, "a string is not UTF-8");
    return STK_OK;
}

/* A whole number from 0 on. */
static stk_status take_number(parser *p, uint64_t *out)
{
    uint64_t value = 0;

    skip_space(p);
    const char *first = p->at;
    for (; *p->at >= '0' && *p->at <= '9'; p->at++)
        if (!stk__mul_size(value, 10, &value) ||
            !stk__add_size(value, (uint64_t)(*p->at - '0'), &value))
            return fail(p, "a number is too large");
    if (p->at == first || (*first == '0' && p->at > first + 1) || *p->at == '.' || *p->at == 'e' ||
        *p->at == 'E')
        return fail(p, "a whole number is missing");
    *out = value;
    return STK_OK;
}

/* ---- Members ---- */

static stk_status take_texts(parser *p)
{
    stk__safetensors *out = p->out;
    bool more = true;

    /* null is none [safetensors 0.8, whose field is optional]. */
    skip_space(p);
    if (strncmp(p->at, "null", 4) == 0) {
        p->at += 4;
        return STK_OK;
    }
    STK_TRY(take(p, '{'));
    if (take_empty(p, '}'))
        return STK_OK;
    while (more) {
        char *name, *text;
        stk__checkpoint_text *texts =
            stk__grow(out->ctx, out->texts, &p->text_room, out->num_texts + 1, sizeof *texts);
        if (!texts)
            return no_memory(p);
        out->texts = texts;
        STK_TRY(take_string(p, &name));
        STK_TRY(take(p, ':'));
        STK_TRY(take_string(p, &text));
        STK_TRY(take_next(p, '}', &more));
        out->texts[out->num_texts++] = (stk__checkpoint_text){name, text};
    }
    return STK_OK;
}

static stk_status take_shape(parser *p, stk_state_tensor *t)
{
    bool more = true;
    uint64_t size;

    STK_TRY(take(p, '['));
    if (take_empty(p, ']'))
        return STK_OK;
    while (more) {
        STK_TRY(take_number(p, &size));
        if (t->rank == STK_MAX_RANK)
            return stk__fail_at(p->err, STK_EKIND, STK_STAGE_TRAIN, p->path, STK_NO_OFFSET,
                                "tensor '%.100s' of '%.200s' has more than %d dimensions", t->name,
                                p->path, STK_MAX_RANK);
        if (size > INT64_MAX)
            return fail(p, "the shape of '%.100s' is too large", t->name);
        t->shape[t->rank++] = (int64_t)size;
        STK_TRY(take_next(p, ']', &more));
    }
    return STK_OK;
}

static stk_status take_offsets(parser *p, uint64_t *begin, uint64_t *end)
{
    STK_TRY(take(p, '['));
    STK_TRY(take_number(p, begin));
    STK_TRY(take(p, ','));
    STK_TRY(take_number(p, end));
    return take(p, ']');
}

/* Members of a tensor, in any order, each once. */
static stk_status take_members(parser *p, stk_state_tensor *t, char **dtype, uint64_t *begin,
                               uint64_t *end)
{
    unsigned seen = 0, bit;
    bool more = true;
    char *name;

    STK_TRY(take(p, '{'));
    while (more) {
        STK_TRY(take_string(p, &name));
        STK_TRY(take(p, ':'));
        if (strcmp(name, "dtype") == 0) {
            bit = 1;
            STK_TRY(take_string(p, dtype));
        } else if (strcmp(name, "shape") == 0) {
            bit = 2;
            t->rank = 0;
            STK_TRY(take_shape(p, t));
        } else if (strcmp(name, "data_offsets") == 0) {
            bit = 4;
            STK_TRY(take_offsets(p, begin, end));
        } else {
            return fail(p, "tensor '%.100s' has an unknown member '%.40s'", t->name, name);
        }
        if (seen & bit)
            return fail(p, "tensor '%.100s' has '%.40s' twice", t->name, name);
        seen |= bit;
        STK_TRY(take_next(p, '}', &more));
    }
    if (seen != 7)
        return fail(p, "tensor '%.100s' has not all of dtype, shape and data_offsets", t->name);
    return STK_OK;
}

static stk_status take_tensor(parser *p, const char *name)
{
    stk__safetensors *out = p->out;
    stk_state_tensor t = {.name = name};
    uint64_t begin = 0, end = 0, bytes;
    size_t room = p->tensor_room;
    char *dtype = NULL;

    STK_TRY(take_members(p, &t, &dtype, &begin, &end));
    t.dtype = stk__safetensors_dtype_parse(dtype);
    if (t.dtype == STK_DTYPE_NONE)
        return stk__fail_at(p->err, STK_EKIND, STK_STAGE_TRAIN, p->path, STK_NO_OFFSET,
                            "tensor '%.100s' of '%.200s' is of type '%.20s', which is not known "
                            "here: convert it to F32, F16 or BF16",
                            name, p->path, dtype);
    if (end < begin || !stk__shape_bytes(t.shape, t.rank, stk_dtype_size(t.dtype), &bytes) ||
        bytes != end - begin)
        return fail(p, "the bytes of tensor '%.100s' do not fit its shape", name);
    t.bytes = bytes;
    uint64_t *begins =
        stk__grow(out->ctx, out->begins, &room, out->num_tensors + 1, sizeof *begins);
    if (begins)
        out->begins = begins;
    stk_state_tensor *tensors =
        stk__grow(out->ctx, out->tensors, &p->tensor_room, out->num_tensors + 1, sizeof *tensors);
    if (tensors)
        out->tensors = tensors;
    if (!begins || !tensors)
        return no_memory(p);
    out->begins[out->num_tensors] = begin;
    out->tensors[out->num_tensors++] = t;
    return STK_OK;
}

static stk_status take_all(parser *p)
{
    bool more = true, texts = false;
    char *name;

    STK_TRY(take(p, '{'));
    if (take_empty(p, '}'))
        more = false;
    while (more) {
        STK_TRY(take_string(p, &name));
        STK_TRY(take(p, ':'));
        if (strcmp(name, "__metadata__") != 0) {
            STK_TRY(take_tensor(p, name));
        } else if (texts) {
            return fail(p, "'__metadata__' comes twice");
        } else {
            texts = true;
            STK_TRY(take_texts(p));
        }
        STK_TRY(take_next(p, '}', &more));
    }
    skip_space(p);
    if (p->at != p->end)
        return fail(p, "something follows its end");
    return STK_OK;
}

/* ---- Order, names, holes ---- */

static int compare_begins(const void *a, const void *b, void *user)
{
    const stk__safetensors *out = user;
    size_t x = *(const size_t *)a, y = *(const size_t *)b;

    if (out->begins[x] != out->begins[y])
        return out->begins[x] < out->begins[y] ? -1 : 1;
    /* Empty tensors stand before the one that begins where they do. */
    if (out->tensors[x].bytes != out->tensors[y].bytes)
        return out->tensors[x].bytes < out->tensors[y].bytes ? -1 : 1;
    return x < y ? -1 : x > y;
}

static int compare_names(const void *a, const void *b, void *user)
{
    const stk_state_tensor *tensors = user;

    return strcmp(tensors[*(const size_t *)a].name, tensors[*(const size_t *)b].name);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(((const stk__checkpoint_text *)a)->name, ((const stk__checkpoint_text *)b)->name);
}

/* Put the tensors in the order of their data. */
static stk_status sort_tensors(parser *p)
{
    stk__safetensors *out = p->out;
    size_t n = out->num_tensors;

    /* Both lists have the same room. */
    stk_state_tensor *tensors = stk__calloc(out->ctx, n + 1, sizeof *tensors);
    uint64_t *begins = stk__calloc(out->ctx, n + 1, sizeof *begins);
    out->by_name = stk__calloc(out->ctx, n + 1, sizeof *out->by_name);
    if (!tensors || !begins || !out->by_name) {
        stk__free(out->ctx, tensors);
        stk__free(out->ctx, begins);
        return no_memory(p);
    }
    for (size_t i = 0; i < n; i++)
        out->by_name[i] = i;
    qsort_r(out->by_name, n, sizeof *out->by_name, compare_begins, out);
    for (size_t i = 0; i < n; i++) {
        tensors[i] = out->tensors[out->by_name[i]];
        begins[i] = out->begins[out->by_name[i]];
    }
    stk__free(out->ctx, out->tensors);
    stk__free(out->ctx, out->begins);
    out->tensors = tensors;
    out->begins = begins;
    return STK_OK;
}

const char *stk__safetensors_sort_names(stk__safetensors *file)
{
    const size_t n = file->num_tensors;

    for (size_t i = 0; i < n; i++)
        file->by_name[i] = i;
    qsort_r(file->by_name, n, sizeof *file->by_name, compare_names, file->tensors);
    for (size_t i = 1; i < n; i++) {
        const char *name = file->tensors[file->by_name[i]].name;
        if (strcmp(file->tensors[file->by_name[i - 1]].name, name) == 0)
            return name;
    }
    return NULL;
}

static stk_status check_names(parser *p)
{
    stk__safetensors *out = p->out;
    const char *twice = stk__safetensors_sort_names(out);

    if (twice)
        return fail(p, "two tensors have the name '%.100s'", twice);
    if (out->num_texts)
        qsort(out->texts, out->num_texts, sizeof *out->texts, compare_texts);
    for (size_t i = 1; i < out->num_texts; i++)
        if (strcmp(out->texts[i - 1].name, out->texts[i].name) == 0)
            return fail(p, "two texts have the name '%.100s'", out->texts[i].name);
    return STK_OK;
}

static stk_status check_cover(parser *p)
{
    stk__safetensors *out = p->out;

    for (size_t i = 0; i < out->num_tensors; i++) {
        if (out->begins[i] != out->data_bytes)
            return fail(p, "the data of tensor '%.100s' %s", out->tensors[i].name,
                        out->begins[i] < out->data_bytes ? "overlaps that of another one"
                                                         : "follows a hole");
        out->data_bytes += out->tensors[i].bytes;
    }
    return STK_OK;
}

stk_status stk__safetensors_parse(stk_context *ctx, char *json, size_t length, const char *path,
                                  stk__safetensors *out, stk_error *err)
{
    *out = (stk__safetensors){.ctx = ctx, .json = json};
    json[length] = 0;
    parser p = {json, json + length, json, path, out, 0, 0, err};
    if (length == 0 || json[0] != '{')
        return fail(&p, "it does not begin with '{'");
    STK_TRY(take_all(&p));
    STK_TRY(sort_tensors(&p));
    STK_TRY(check_names(&p));
    return check_cover(&p);
}

void stk__safetensors_release(stk__safetensors *file)
{
    if (!file->ctx)
        return;
    stk__free(file->ctx, file->json);
    stk__free(file->ctx, file->tensors);
    stk__free(file->ctx, file->begins);
    stk__free(file->ctx, file->skipped);
    stk__free(file->ctx, file->by_name);
    stk__free(file->ctx, file->texts);
    *file = (stk__safetensors){0};
}

const stk_state_tensor *stk__safetensors_find(const stk__safetensors *file, const char *name)
{
    size_t low = 0, high = file->num_tensors;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const stk_state_tensor *t = &file->tensors[file->by_name[middle]];
        int order = strcmp(name, t->name);
        if (order == 0)
            return t;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const char *stk__safetensors_find_text(const stk__safetensors *file, const char *name)
{
    const stk__checkpoint_text wanted = {name, NULL};

    if (file->num_texts == 0)
        return NULL;
    const stk__checkpoint_text *found =
        bsearch(&wanted, file->texts, file->num_texts, sizeof wanted, compare_texts);
    return found ? found->text : NULL;
}
