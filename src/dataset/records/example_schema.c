/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/records/example_schema.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/items.h"
#include "base/options.h"
#include "dataset/images.h"

#define RAW       "raw_"
#define MOST_TYPE 32u /* bytes of the name of a type */

static stk_status refuse(const char *entry, size_t length, const char *why, stk_error *err)
{
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "schema", STK_NO_OFFSET,
                        "schema: '%.*s' %s; fields are given as image/encoded:image, "
                        "label:int64, embedding:float[128], tokens:int64[]",
                        (int)STK_MIN(length, 200), entry, why);
}

/* ---- Types and shapes ------------------------------------------------------------------------ */

static bool is_integer(stk_dtype dtype)
{
    return dtype >= STK_UINT8 && dtype <= STK_INT64 && dtype != STK_UINT64;
}

static bool is_raw(stk_dtype dtype)
{
    return dtype >= STK_UINT8 && dtype <= STK_FLOAT64;
}

static bool take_type(stk__schema_field *f, const char *text)
{
    const bool raw = strncmp(text, RAW, strlen(RAW)) == 0;
    const char *name = raw ? text + strlen(RAW) : text;

    f->image = strcmp(text, "image") == 0;
    if (f->image || strcmp(text, "bytes") == 0) {
        f->form = STK__SCHEMA_BYTES;
        f->dtype = STK_UINT8;
        return true;
    }
    f->dtype = strcmp(name, "float") == 0 ? STK_FLOAT32 : stk_dtype_parse(name);
    f->form = raw                       ? STK__SCHEMA_RAW
              : f->dtype == STK_FLOAT32 ? STK__SCHEMA_FLOATS
                                        : STK__SCHEMA_INTEGERS;
    return raw ? is_raw(f->dtype) : f->dtype == STK_FLOAT32 || is_integer(f->dtype);
}

/* A number of values; moves *at behind it. */
static bool take_number(const char **at, const char *end, uint64_t *out)
{
    const char *begin = *at;

    *out = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; ++*at) {
        *out = *out * 10 + (uint64_t)(**at - '0');
        if (*out > STK__SCHEMA_MAX_VALUES)
            return false;
    }
    return *at > begin && *out > 0;
}

/* Between the brackets. */
static bool take_shape(stk__schema_field *f, const char *at, const char *end)
{
    uint64_t side = 0;

    if (at == end || (end - at > 2 && memcmp(at, "..", 2) == 0)) {
        f->ragged = true;
        f->count = 0;
        if (at == end)
            return true;
        at += 2;
        return take_number(&at, end, &f->count) && at == end;
    }
    for (f->rank = 0; f->rank < STK_MAX_RANK;) {
        if (!take_number(&at, end, &side) || !stk__mul_size(f->count, side, &f->count) ||
            f->count > STK__SCHEMA_MAX_VALUES)
            return false;
        f->shape[f->rank++] = (int64_t)side;
        if (at == end)
            return true;
        if (*at != ',' && *at != 'x')
            return false;
        at++;
    }
    return false;
}

/* "type[shape]" */
static stk_status take_kind(stk__schema_field *f, const char *entry, size_t length,
                            const char *text, size_t text_length, stk_error *err)
{
    const char *open = memchr(text, '[', text_length);
    const size_t type_length = open ? (size_t)(open - text) : text_length;
    char type[MOST_TYPE] = "";

    if (type_length < sizeof type)
        memcpy(type, text, type_length);
    if (!take_type(f, type))
        return refuse(entry, length,
                      "has no type that is read (bytes, image, float32, int64 or a shorter type of "
                      "integers, raw_TYPE)",
                      err);
    f->count = 1;
    if (!open)
        return STK_OK;
    if (f->form == STK__SCHEMA_BYTES)
        return refuse(entry, length,
                      "gives a shape to bytes, of which a field has one value; numbers in them are "
                      "raw_uint8[28,28]",
                      err);
    if (text[text_length - 1] != ']' || !take_shape(f, open + 1, text + text_length - 1))
        return refuse(entry, length, "has no shape in its brackets that can be", err);
    return STK_OK;
}

/* ---- Names ----------------------------------------------------------------------------------- */

const char *stk__schema_usual_name(const char *feature)
{
    static const char *const usual[][2] = {{"image/encoded", "image"},
                                           {"image_raw", "image"},
                                           {"image/class/label", "label"},
                                           {"class/label", "label"}};

    for (size_t i = 0; i < STK_COUNT(usual); i++)
        if (strcmp(feature, usual[i][0]) == 0)
            return usual[i][1];
    return feature;
}

static char *copy(stk_context *ctx, const char *text, size_t length)
{
    char *to = stk__alloc(ctx, length + 1);

    if (to) {
        memcpy(to, text, length);
        to[length] = 0;
    }
    return to;
}

static const stk__schema_field *find_name(const stk__schema *schema, uint32_t before,
                                          const char *name)
{
    for (uint32_t i = 0; i < before; i++)
        if (schema->fields[i].name && strcmp(schema->fields[i].name, name) == 0)
            return &schema->fields[i];
    return NULL;
}

/* "[field=]feature:type" */
static stk_status take_entry(stk__schema *schema, const char *entry, size_t length, stk_error *err)
{
    stk__schema_field *f = &schema->fields[schema->count];
    const char *equal = memchr(entry, '=', length), *end = entry + length;
    const char *feature = equal ? equal + 1 : entry, *colon = end;

    if (schema->count == STK__SCHEMA_MAX_FIELDS)
        return refuse(entry, length, "is one field too many", err);
    while (colon > feature && colon[-1] != ':')
        colon--;
    if (colon == feature)
        return refuse(entry, length, "has no type", err);
    const char *kind = colon--;
    *f = (stk__schema_field){.feature_length = (size_t)(colon - feature)};
    schema->count++;
    if (f->feature_length == 0 || f->feature_length > STK__EXAMPLE_MAX_NAME || equal == entry)
        return refuse(entry, length, "has no name, or a very long one", err);
    f->feature = copy(schema->ctx, feature, f->feature_length);
    if (equal)
        f->name = copy(schema->ctx, entry, (size_t)(equal - entry));
    else if (f->feature)
        f->name = stk__strdup(schema->ctx, stk__schema_usual_name(f->feature));
    if (!f->feature || !f->name)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory for the schema");
    if (find_name(schema, schema->count - 1, f->name))
        return refuse(entry, length, "has the name of another field; name it NAME=FEATURE:TYPE",
                      err);
    return take_kind(f, entry, length, kind, (size_t)(end - kind), err);
}

/* ---- Padding and reasons --------------------------------------------------------------------- */

#define PAD(type)                                                                                  \
    do {                                                                                           \
        const type held = (type)value;                                                             \
        memcpy(f->pad, &held, sizeof held);                                                        \
        return (double)held == value;                                                              \
    } while (0)

/* Whether the type of a field holds the value, which is put down then. */
static bool take_pad(stk__schema_field *f, double value)
{
    const bool is_signed = f->dtype == STK_INT8 || f->dtype == STK_INT16 || f->dtype == STK_INT32 ||
                           f->dtype == STK_INT64;
    const unsigned bits = 8 * (unsigned)stk_dtype_size(f->dtype) - is_signed;

    if (f->dtype == STK_FLOAT64)
        PAD(double);
    if (f->dtype == STK_FLOAT32) {
        const float held = (float)value;
        memcpy(f->pad, &held, sizeof held);
        return isfinite(held);
    }
    if (f->dtype == STK_FLOAT16 || f->dtype == STK_BFLOAT16)
        return value == 0;
    if (value < (is_signed ? -ldexp(1, (int)bits) : 0) || value >= ldexp(1, (int)bits))
        return false;
    if (is_signed) {
        const int64_t held = (int64_t)value;
        memcpy(f->pad, &held, sizeof held); /* little-endian: the low bytes come first */
        return (double)held == value;
    }
    PAD(uint64_t);
}

static stk_status take_pads(stk__schema *schema, const char *pad, stk_error *err)
{
    const char *end = "";
    double value = 0;

    if (!pad)
        return STK_OK;
    if (!stk__option_number(pad, &value, &end) || *end)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "pad", STK_NO_OFFSET,
                            "pad=%.60s is no number", pad);
    schema->pads = true;
    for (uint32_t i = 0; i < schema->count; i++) {
        stk__schema_field *f = &schema->fields[i];
        if (f->form == STK__SCHEMA_BYTES || f->ragged)
            continue;
        if (!take_pad(f, value))
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "pad", STK_NO_OFFSET,
                                "pad=%.60s is no value of the field '%.80s', which is of %s", pad,
                                f->name, stk_dtype_name(f->dtype));
    }
    return STK_OK;
}

static const char *kind_name(const stk__schema_field *f)
{
    return f->form == STK__SCHEMA_FLOATS     ? "float_list"
           : f->form == STK__SCHEMA_INTEGERS ? "int64_list"
                                             : "bytes_list";
}

static char *reason_of_count(stk_context *ctx, const stk__schema_field *f, stk__example_fault fault)
{
    const bool few = fault == STK__EXAMPLE_FEWER;

    if (f->form == STK__SCHEMA_BYTES)
        return few ? stk__format(ctx, "the feature '%.80s' of the record has no value", f->feature)
                   : stk__format(
                         ctx,
                         "the feature '%.80s' of the record has several values, and a field "
                         "of bytes has one; leave it out of schema",
                         f->feature);
    return stk__format(ctx,
                       "the feature '%.80s' of the record has %s values than the %" PRIu64
                       " of its field; %sgive schema=%.80s:%s%s[]",
                       f->feature, few ? "fewer" : "more", f->count, few ? "give pad, or " : "",
                       f->feature, f->form == STK__SCHEMA_RAW ? RAW : "", stk_dtype_name(f->dtype));
}

/* What is said of a record; the sample names shard and offset. */
static char *reason_of(stk_context *ctx, const stk__schema_field *f, stk__example_fault fault)
{
    const char *const name = f->feature, *const type = stk_dtype_name(f->dtype);

    switch (fault) {
    case STK__EXAMPLE_DAMAGED:
        return stk__format(ctx, "the feature '%.80s' of the record is damaged", name);
    case STK__EXAMPLE_MISSING:
        return stk__format(
            ctx,
            "the record has no feature '%.80s'; leave it out of schema, or write the "
            "shard again",
            name);
    case STK__EXAMPLE_KIND:
        return stk__format(ctx,
                           "the feature '%.80s' of the record is no %s, as the schema says; give "
                           "its type in schema, or write the shard again",
                           name, kind_name(f));
    case STK__EXAMPLE_FEWER:
    case STK__EXAMPLE_MORE:
        return reason_of_count(ctx, f, fault);
    case STK__EXAMPLE_RANGE:
        return stk__format(
            ctx, "the feature '%.80s' of the record has a value that %s does not hold", name, type);
    default:
        return stk__strdup(ctx, "");
    }
}

static stk_status make_reasons(stk__schema *schema, stk_error *err)
{
    for (uint32_t i = 0; i < schema->count; i++)
        for (int k = 0; k < STK__EXAMPLE_FAULTS; k++) {
            stk__schema_field *f = &schema->fields[i];
            f->reasons[k] = reason_of(schema->ctx, f, (stk__example_fault)k);
            if (!f->reasons[k])
                return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory for the schema");
        }
    return STK_OK;
}

/* ---- The whole ------------------------------------------------------------------------------- */

stk_status stk__schema_parse(stk_context *ctx, const char *text, const char *pad, stk__schema *out,
                             stk_error *err)
{
    *out = (stk__schema){.ctx = ctx};
    for (;;) {
        stk__unpaired unpaired = {0};
        size_t skip = strspn(text, " ");
        text += skip;
        size_t length = stk__part_length(text, strlen(text), ",", &unpaired), used = length;
        if (length == SIZE_MAX)
            return refuse(text, strlen(text), "has a bracket or a quote too many", err);
        while (used && text[used - 1] == ' ')
            used--;
        STK_TRY(take_entry(out, text, used, err));
        if (!text[length])
            break;
        text += length + 1;
    }
    STK_TRY(take_pads(out, pad, err));
    return make_reasons(out, err);
}

void stk__schema_release(stk__schema *schema)
{
    for (uint32_t i = 0; i < schema->count; i++) {
        stk__schema_field *f = &schema->fields[i];
        stk__free(schema->ctx, f->name);
        stk__free(schema->ctx, f->feature);
        for (int k = 0; k < STK__EXAMPLE_FAULTS; k++)
            stk__free(schema->ctx, f->reasons[k]);
    }
    schema->count = 0;
}

void stk__schema_print(const stk__schema *schema, stk__text *out)
{
    for (uint32_t i = 0; i < schema->count; i++) {
        const stk__schema_field *f = &schema->fields[i];
        stk__text_add(out, "%s", i ? "," : "");
        if (strcmp(f->name, stk__schema_usual_name(f->feature)) != 0)
            stk__text_add(out, "%s=", f->name);
        stk__text_add(out, "%s:%s%s", f->feature, f->form == STK__SCHEMA_RAW ? RAW : "",
                      f->image                       ? "image"
                      : f->form == STK__SCHEMA_BYTES ? "bytes"
                                                     : stk_dtype_name(f->dtype));
        if (f->ragged && f->count)
            stk__text_add(out, "[..%" PRIu64 "]", f->count);
        else if (f->ragged)
            stk__text_add(out, "[]");
        for (uint32_t k = 0; k < f->rank; k++)
            stk__text_add(out, "%s%" PRId64 "%s", k ? "," : "[", f->shape[k],
                          k + 1 == f->rank ? "]" : "");
    }
}

void stk__schema_describe(const stk__schema *schema, stk_field *fields)
{
    for (uint32_t i = 0; i < schema->count; i++) {
        const stk__schema_field *f = &schema->fields[i];
        fields[i] = (stk_field){.struct_size = sizeof *fields, .dtype = f->dtype, .name = f->name};
        if (f->image) {
            fields[i] = stk__images_field(f->name, 3, false);
            continue;
        }
        if (f->form == STK__SCHEMA_BYTES || f->ragged) {
            fields[i].layout = f->ragged ? STK_RAGGED : STK_BYTES;
            fields[i].rank = 1;
            fields[i].shape[0] = -1;
            continue;
        }
        fields[i].rank = f->rank;
        memcpy(fields[i].shape, f->shape, sizeof f->shape);
        fields[i].picture = f->dtype == STK_UINT8 && f->rank == 3 &&
                            (f->shape[2] == 1 || f->shape[2] == 3 || f->shape[2] == 4);
    }
}

uint64_t stk__schema_bound(const stk__schema_field *field, uint64_t record)
{
    const uint64_t size = stk_dtype_size(field->dtype);
    uint64_t bound = 0;

    if (!field->ragged)
        return record;
    /* An integer takes a byte at least. */
    if (field->form != STK__SCHEMA_INTEGERS)
        bound = record / size * size;
    else if (!stk__mul_size(record, size, &bound))
        bound = UINT64_MAX;
    return field->count ? STK_MIN(bound, field->count * size) : bound;
}
