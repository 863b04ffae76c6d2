/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "array/kerchunk/kerchunk.h"
#include "base/base64.h"

#define PIECE_BYTES 256u /* of a template that count as one reference more */

static stk_status wrong(const char *key, const char *name, const char *what, stk_error *err)
{
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                        "%s: the reference '%.200s' %s; write the references again", key, name,
                        what);
}

stk_status stk__kerchunk_begin(const json_t *document, const char *key, stk__kerchunk *out,
                               stk_error *err)
{
    const json_t *version = json_object_get(document, "version");
    const json_t *refs = json_object_get(document, "refs");

    *out = (stk__kerchunk){.key = key, .refs = refs ? refs : document};
    if (refs ? json_integer_value(version) != 1 : version != NULL)
        return stk__fail_at(err, STK_EKIND, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s: references of this version are not read; versions 0 and 1 are",
                            key);
    if (refs) {
        out->templates = json_object_get(document, "templates");
        out->gen = json_object_get(document, "gen");
    }
    if (!json_is_object(out->refs) || (out->templates && !json_is_object(out->templates)) ||
        (out->gen && !json_is_array(out->gen)))
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s: refs and templates are no objects, or gen is no list", key);
    return STK_OK;
}

/* ---- Those that are listed ---- */

static bool take_size(const json_t *value, uint64_t *out)
{
    *out = (uint64_t)json_integer_value(value);
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

/* [url] or [url, offset, length] */
static stk_status take_list(const stk__kerchunk *k, const stk__kerchunk_names *names,
                            const json_t *value, stk__text *url, stk__reference *r, stk_error *err)
{
    const size_t n = json_array_size(value);
    const char *text = json_string_value(json_array_get(value, 0));

    if (!text || (n != 1 && n != 3))
        return wrong(k->key, r->key, "is neither [url] nor [url, offset, length]", err);
    r->whole = n == 1;
    if (n == 3 && (!take_size(json_array_get(value, 1), &r->offset) ||
                   !take_size(json_array_get(value, 2), &r->length) || r->length == 0))
        return wrong(k->key, r->key, "has an offset or a length that is no size", err);
    r->url = text;
    if (!strstr(text, "{{"))
        return STK_OK;
    STK_TRY(stk__kerchunk_expand(text, names, k->key, url, err));
    r->url = url->bytes;
    return STK_OK;
}

static stk_status each_listed(const stk__kerchunk *k, const char *prefix, stk__text *url,
                              stk__kerchunk_fn *each, void *user, stk_error *err)
{
    const stk__kerchunk_names names = {.texts = k->templates};
    const size_t length = strlen(prefix);
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)k->refs, key, value)
    {
        stk__reference r = {.key = key};
        if (strncmp(key, prefix, length) != 0)
            continue;
        if (json_is_array(value))
            STK_TRY(take_list(k, &names, value, url, &r, err));
        else if (json_is_string(value) || json_is_object(value))
            r.value = value;
        else
            return wrong(k->key, key, "is neither a text nor a list", err);
        STK_TRY(each(user, &r, err));
    }
    return STK_OK;
}

/* ---- Those that are generated ---- */

/* The values that a variable takes: of a list, or start, stop and step. */
typedef struct values {
    const json_t *list;
    int64_t start, step;
    uint64_t count;
} values;

static bool take_values(const json_t *from, values *out)
{
    const json_t *start = json_object_get(from, "start"), *stop = json_object_get(from, "stop"),
                 *step = json_object_get(from, "step");
    int64_t room;

    *out = (values){.list = json_is_array(from) ? from : NULL, .step = 1};
    out->count = json_array_size(from);
    if (out->list) {
        for (size_t i = 0; i < out->count; i++)
            if (!json_is_integer(json_array_get(from, i)))
                return false;
        return true;
    }
    if (!json_is_integer(stop) || (start && !json_is_integer(start)) ||
        (step && !json_is_integer(step)))
        return false;
    out->start = json_integer_value(start);
    out->step = step ? json_integer_value(step) : 1;
    if (out->step < 1 || __builtin_sub_overflow(json_integer_value(stop), out->start, &room))
        return false;
    out->count = room <= 0 ? 0 : (uint64_t)((room - 1) / out->step + 1);
    return true;
}

static int64_t value_at(const values *v, uint64_t i)
{
    return v->list ? json_integer_value(json_array_get(v->list, i))
                   : v->start + (int64_t)i * v->step;
}

typedef struct generator {
    const stk__kerchunk *k;
    const char *prefix;
    stk__kerchunk_fn *each;
    void *user;
    uint64_t left; /* references that may still be generated, or 256 bytes of their templates */
    stk__text key, url, size;
} generator;

static stk_status too_many(const generator *g, stk_error *err)
{
    return stk__fail_at(err, STK_ELIMIT, STK_STAGE_ARRAY, g->k->key, STK_NO_OFFSET,
                        "%s: gen makes more than %llu references, or 256 times as many bytes of "
                        "them (STK__KERCHUNK_MAX_GENERATED)",
                        g->k->key, (unsigned long long)STK__KERCHUNK_MAX_GENERATED);
}

/* Expand a template, and count what is more of it than most have. */
static stk_status expand(generator *g, const char *text, const stk__kerchunk_names *names,
                         stk__text *out, stk_error *err)
{
    STK_TRY(stk__kerchunk_expand(text, names, g->k->key, out, err));
    const uint64_t more = (strlen(text) + out->length) / PIECE_BYTES;
    if (more > g->left)
        return too_many(g, err);
    g->left -= more;
    return STK_OK;
}

/* A size that a template gives, or a number. */
static stk_status expand_size(generator *g, const json_t *value, const stk__kerchunk_names *names,
                              uint64_t *out, stk_error *err)
{
    char *end;

    if (take_size(value, out))
        return STK_OK;
    if (!json_is_string(value))
        return wrong(g->k->key, "gen", "has an offset or a length that is no size", err);
    STK_TRY(expand(g, json_string_value(value), names, &g->size, err));
    errno = 0;
    *out = strtoull(g->size.bytes, &end, 10);
    if (errno || end == g->size.bytes || *end || g->size.bytes[0] == '-' || *out > INT64_MAX)
        return wrong(g->k->key, "gen", "has an offset or a length that is no size", err);
    return STK_OK;
}

static stk_status generate_one(generator *g, const json_t *gen, const stk__kerchunk_names *names,
                               stk_error *err)
{
    const char *key = json_string_value(json_object_get(gen, "key"));
    const char *url = json_string_value(json_object_get(gen, "url"));
    const json_t *offset = json_object_get(gen, "offset"), *length = json_object_get(gen, "length");
    stk__reference r = {.whole = !offset && !length};

    STK_TRY(expand(g, key, names, &g->key, err));
    if (strncmp(g->key.bytes, g->prefix, strlen(g->prefix)) != 0)
        return STK_OK;
    STK_TRY(expand(g, url, names, &g->url, err));
    r.key = g->key.bytes;
    r.url = g->url.bytes;
    if (!r.whole) {
        STK_TRY(expand_size(g, offset, names, &r.offset, err));
        STK_TRY(expand_size(g, length, names, &r.length, err));
        if (r.length == 0)
            return wrong(g->k->key, r.key, "has a length of 0", err);
    }
    return g->each(g->user, &r, err);
}

static stk_status generate(generator *g, const json_t *gen, stk_error *err)
{
    const json_t *dimensions = json_object_get(gen, "dimensions");
    stk__kerchunk_names names = {.texts = g->k->templates};
    uint64_t total = 1;
    values all[STK__KERCHUNK_MAX_VARIABLES];
    const char *name;
    json_t *value;

    if (!json_is_string(json_object_get(gen, "key")) ||
        !json_is_string(json_object_get(gen, "url")))
        return wrong(g->k->key, "gen", "has no key or no url", err);
    json_object_foreach((json_t *)dimensions, name, value)
    {
        if (names.count == STK__KERCHUNK_MAX_VARIABLES || !take_values(value, &all[names.count]))
            return wrong(g->k->key, name, "of gen has no values: a list, or start, stop and step",
                         err);
        if (!stk__mul_size(total, all[names.count].count, &total))
            total = UINT64_MAX;
        names.names[names.count++] = name;
    }
    if (total > g->left)
        return too_many(g, err);
    g->left -= total;
    for (uint64_t i = 0; i < total; i++) {
        uint64_t rest = i;
        for (uint32_t d = names.count; d-- > 0; rest /= all[d].count)
            names.values[d] = value_at(&all[d], rest % all[d].count);
        STK_TRY(generate_one(g, gen, &names, err));
    }
    return STK_OK;
}

stk_status stk__kerchunk_each(stk_context *ctx, const stk__kerchunk *k, const char *prefix,
                              stk__kerchunk_fn *each, void *user, stk_error *err)
{
    generator g = {.k = k,
                   .prefix = prefix,
                   .each = each,
                   .user = user,
                   .left = STK__KERCHUNK_MAX_GENERATED,
                   .key.ctx = ctx,
                   .url.ctx = ctx,
                   .size.ctx = ctx};

    stk_status status = each_listed(k, prefix, &g.url, each, user, err);
    for (size_t i = 0; i < json_array_size(k->gen) && status == STK_OK; i++)
        status = generate(&g, json_array_get(k->gen, i), err);
    stk__text_release(&g.key);
    stk__text_release(&g.url);
    stk__text_release(&g.size);
    return status;
}

/* ---- What the document holds itself ---- */

#define BASE64 "base64:"

static bool put_base64(const char *text, stk__text *out)
{
    const size_t bytes = stk__base64_bytes(text);
    unsigned char *decoded = stk__calloc(out->ctx, STK_MAX(bytes, 1), 1);
    const bool good =
        decoded && bytes <= UINT32_MAX && stk__base64_parse(text, (uint32_t)bytes, decoded);
    if (good)
        stk__text_put(out, (const char *)decoded, bytes);
    out->failed = out->failed || !decoded;
    stk__free(out->ctx, decoded);
    return good;
}

stk_status stk__kerchunk_inline(stk_context *ctx, const json_t *value, const char *key,
                                stk__text *out, stk_error *err)
{
    const char *text = json_string_value(value);
    bool good = true;

    out->ctx = ctx;
    if (!text) {
        char *document = stk__json_text(ctx, value, false);
        if (document)
            stk__text_put(out, document, strlen(document));
        out->failed = out->failed || !document;
        stk__free(ctx, document);
    } else if (strncmp(text, BASE64, sizeof BASE64 - 1) == 0) {
        good = put_base64(text + sizeof BASE64 - 1, out);
    } else {
        stk__text_put(out, text, json_string_length(value));
    }
    if (out->failed)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "no memory for the references of %s", key);
    return good ? STK_OK : wrong(key, text, "is no base64", err);
}

stk_status stk__kerchunk_document(stk_context *ctx, const stk__kerchunk *k, const char *key,
                                  stk__json *out, stk_error *err)
{
    const json_t *value = json_object_get(k->refs, key);
    stk__text text = {.ctx = ctx};

    *out = (stk__json){0};
    if (!value)
        return STK_OK;
    if (json_is_array(value))
        return stk__fail_at(err, STK_EKIND, STK_STAGE_ARRAY, k->key, STK_NO_OFFSET,
                            "%s: the metadata '%.200s' lie in another object, and are read in the "
                            "references alone",
                            k->key, key);
    stk_status status = stk__kerchunk_inline(ctx, value, k->key, &text, err);
    if (status == STK_OK)
        status = stk__json_parse(ctx, text.bytes ? text.bytes : "", text.length, k->key, out, err);
    if (status == STK_OK && !json_is_object(out->value)) {
        stk__json_drop(ctx, out);
        status = wrong(k->key, key, "is no object of JSON", err);
    }
    stk__text_release(&text);
    return status;
}
