/* SPDX-License-Identifier: Apache-2.0 */
/* Specs within a spec: each in parentheses, parted by ','; before it perhaps a weight and a '*'. */
#include "dataset/nested.h"

#include <inttypes.h>
#include <stdio.h>

#define MAX_WEIGHT_DIGITS 15
#define UNPAIRED          "parentheses that are not in pairs, or more than 8 in each other,"

bool stk__is_nested(const stk_dataset_ops *kind)
{
    return kind == &stk__dataset_mix || kind == &stk__dataset_concat || kind == &stk__dataset_pair;
}

/* ---- Reading the text ---- */

static stk_status refuse(const char *kind, const char *text, const char *at, const char *why,
                         stk_error *err)
{
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_DATASET, kind, (uint64_t)(at - text),
                        "%s: %s at '%.40s'; write each dataset in parentheses, as "
                        "%s:%s(images:A?subset=0:100),%s(images:B)",
                        kind, why, at, kind, strcmp(kind, "mix") == 0 ? "0.7*" : "",
                        strcmp(kind, "mix") == 0 ? "0.3*" : "");
}

/* "0.7*": plain decimals, the same in every locale. Nothing: 1. */
static const char *read_weight(const char *p, double *out)
{
    double value = 0, scale = 1;
    int digits = 0;

    *out = 1;
    if (*p == '(')
        return p;
    for (; *p >= '0' && *p <= '9'; p++, digits++)
        value = value * 10 + (*p - '0');
    if (*p == '.')
        for (p++; *p >= '0' && *p <= '9'; p++, digits++) {
            value = value * 10 + (*p - '0');
            scale *= 10;
        }
    if (digits == 0 || digits > MAX_WEIGHT_DIGITS || *p != '*' || !(value > 0))
        return NULL;
    *out = value / scale;
    return p + 1;
}

/* The ')' of the '(' at `p`; NULL: there is none, or the parentheses are too deep. */
static const char *closing(const char *p)
{
    int depth = 0;

    for (; *p; p++) {
        depth += *p == '(';
        if (depth > STK_NESTED_MAX_DEPTH)
            return NULL;
        if (*p == ')' && --depth == 0)
            return p;
    }
    return NULL;
}

stk_status stk__nested_check(const char *kind, const char *text, stk_error *err)
{
    for (const char *p = text; *p && *p != '?'; p++) {
        const char *end = *p == '(' ? closing(p) : *p == ')' ? NULL : p;
        if (!end)
            return refuse(kind, text, p, UNPAIRED, err);
        p = end;
    }
    return STK_OK;
}

/* Open the spec between `begin` and `end` as the next one. */
static stk_status open_one(stk__nested *n, const char *begin, const char *end, stk_error *err)
{
    size_t length = (size_t)(end - begin);
    char *spec = stk__alloc(n->ctx, length + 1);

    if (!spec)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory to open '%.200s'", begin);
    memcpy(spec, begin, length);
    spec[length] = 0;
    const stk_status status = stk_dataset_open(n->ctx, spec, &n->datasets[n->count], err);
    stk__free(n->ctx, spec);
    n->count += status == STK_OK;
    return status;
}

static stk_status open_next(stk__nested *n, const char *kind, const char *text, const char **at,
                            bool weighted, stk_error *err)
{
    const char *p = *at, *end = NULL;
    double weight = 1;

    if (n->count == STK_NESTED_MAX)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                         "%s: more than %d datasets; put some into one of their own, as "
                         "(concat:(A),(B))",
                         kind, STK_NESTED_MAX);
    if (weighted && !(p = read_weight(p, &weight)))
        return refuse(kind, text, *at, "no weight above 0 followed by '*('", err);
    if (*p != '(')
        return refuse(kind, text, p, "no '('", err);
    if (!(end = closing(p)))
        return refuse(kind, text, p, UNPAIRED, err);
    n->weights[n->count] = weight;
    STK_TRY(open_one(n, p + 1, end, err));
    *at = end + 1;
    return STK_OK;
}

stk_status stk__nested_open(stk_context *ctx, const char *kind, const char *text, bool weighted,
                            stk__nested *out, stk_error *err)
{
    const char *p = text;
    stk_status status = STK_OK;

    *out = (stk__nested){.ctx = ctx};
    out->datasets = stk__calloc(ctx, STK_NESTED_MAX, sizeof *out->datasets);
    out->weights = stk__calloc(ctx, STK_NESTED_MAX, sizeof *out->weights);
    if (!out->datasets || !out->weights)
        status = stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "%s: no memory for its list", kind);
    while (status == STK_OK) {
        status = open_next(out, kind, text, &p, weighted, err);
        if (status != STK_OK || *p == 0)
            break;
        if (*p++ != ',')
            status = refuse(kind, text, p - 1, "no ',' or end", err);
    }
    if (status != STK_OK)
        stk__nested_release(out);
    return status;
}

void stk__nested_release(stk__nested *nested)
{
    for (uint32_t i = 0; i < nested->count; i++)
        stk_dataset_close(&nested->datasets[i]);
    stk__free(nested->ctx, nested->datasets);
    stk__free(nested->ctx, nested->weights);
    nested->datasets = NULL;
    nested->weights = NULL;
    nested->count = 0;
}

/* ---- Whether samples are alike ---- */

/* What differs between two fields, as a noun; NULL: nothing. */
static const char *field_difference(const stk_field *a, const stk_field *b)
{
    if (a->dtype != b->dtype)
        return "type";
    if (a->layout != b->layout)
        return "layout";
    if (strcmp(a->codec, b->codec) != 0)
        return "codec";
    if (a->rank != b->rank || memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) != 0)
        return "shape";
    return a->picture != b->picture || a->mask != b->mask ? "use as a picture" : NULL;
}

static void shape_text(const stk_field *field, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "%s [", stk_dtype_name(field->dtype));

    for (uint32_t i = 0; i < field->rank && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%" PRId64, i ? ", " : "",
                                 field->shape[i]);
    if (used < size)
        snprintf(text + used, size - used, "]%s",
                 field->layout == STK_FIXED    ? ""
                 : field->layout == STK_RAGGED ? " ragged"
                                               : " bytes");
}

static stk_status same_as_first(const stk_dataset *first, const stk_dataset *other, uint32_t number,
                                const char *kind, stk_error *err)
{
    for (uint32_t f = 0; f < STK_MIN(first->num_fields, other->num_fields); f++) {
        const stk_field *a = &first->fields[f], *b = &other->fields[f];
        char one[120], two[120];

        if (strcmp(a->name, b->name) != 0)
            return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                             "%s: field %u of its dataset 0 is '%.60s', of its dataset %u '%.60s'; "
                             "the fields have to be the same",
                             kind, f, a->name, number, b->name);
        const char *what = field_difference(a, b);
        shape_text(a, one, sizeof one);
        shape_text(b, two, sizeof two);
        if (what)
            return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                             "%s: the field '%.60s' differs in %s: %s in its dataset 0, %s in its "
                             "dataset %u; the fields have to be the same",
                             kind, a->name, what, one, two, number);
    }
    if (first->num_fields != other->num_fields)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                         "%s: its dataset 0 has %u fields, its dataset %u has %u; the fields have "
                         "to be the same",
                         kind, first->num_fields, number, other->num_fields);
    return STK_OK;
}

stk_status stk__nested_same_fields(const stk__nested *nested, const char *kind, stk_error *err)
{
    for (uint32_t i = 1; i < nested->count; i++)
        STK_TRY(same_as_first(nested->datasets[0], nested->datasets[i], i, kind, err));
    return STK_OK;
}
