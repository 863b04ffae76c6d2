/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fields of varying length that a batch fills up: [N, L] for values and a field FIELD_length. What
 * L is, a batch alone knows, so the loader fills up (loader/finish.c) by what the head of the
 * dataset says (`pads`). The lengths are fields of this dataset: they stand behind those of the
 * inner one, which so prepares its samples in place.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "dataset/view.h"

#define MAX_MULTIPLE (UINT64_C(1) << 20)

/* Of one block: the arrays lie behind it. */
typedef struct pad_map {
    uint32_t num, num_inner;
    stk_field *fields;
    stk__pad *pads;  /* of each field */
    uint32_t *field; /* of each length, from field `num_inner` on: of which it is */
    char *names;
} pad_map;

/* ---- Samples ---- */

static void map_same(const stk__view *view, const uint64_t *indices, uint64_t *out, size_t n)
{
    (void)view;
    memcpy(out, indices, n * sizeof *out);
}

static stk_status pad_locate(stk_dataset *dataset, const uint64_t *indices, size_t n,
                             stk_locator *to, stk_error *err)
{
    stk_dataset *inner = ((stk__view *)dataset)->inner;

    return inner->ops->locate(inner, indices, n, to, err);
}

static void measure(const pad_map *m, uint32_t i, stk_sample *sample)
{
    const stk_value *value = stk_sample_value(sample, m->field[i]);
    stk_value *length = stk_sample_value(sample, m->num_inner + i);
    const uint64_t unit = m->pads[m->field[i]].unit;
    const int64_t rows = (int64_t)(value->size / unit);

    if (value->size % unit) {
        sample->status = STK_EFORMAT;
        sample->reason = "a value that is filled up has a part of a row";
        return;
    }
    memcpy(length->out, &rows, sizeof rows);
    length->data = length->out;
    length->size = sizeof rows;
}

static void pad_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    stk__view *view = (stk__view *)dataset;
    const pad_map *m = view->extra;

    view->inner->ops->prepare(view->inner, samples, n);
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < m->num - m->num_inner; k++) {
            stk_sample *sample = stk_sample_at(samples, i);
            if (sample->status == STK_OK)
                measure(m, k, sample);
        }
}

/* ---- The option ---- */

static stk_status refuse(const char *text, const char *entry, size_t length, const char *why,
                         stk_error *err)
{
    (void)text;
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "padding", STK_NO_OFFSET,
                        "padding: '%.*s' %s; write FIELD:MULTIPLE or FIELD:MULTIPLE:VALUE, as "
                        "tokens:64:0",
                        (int)STK_MIN(length, 80), entry, why);
}

/* The bytes of one element that fills up; false: the type does not hold the number. */
static bool set_value(stk__pad *pad, stk_dtype dtype, double value)
{
    const size_t size = stk_dtype_size(dtype);
    const bool is_signed =
        dtype == STK_INT8 || dtype == STK_INT16 || dtype == STK_INT32 || dtype == STK_INT64;

    memset(pad->value, 0, sizeof pad->value);
    pad->size = (uint32_t)size;
    if (size == 0 || size > sizeof pad->value || dtype >= STK_COMPLEX64)
        return false;
    if (dtype == STK_FLOAT32 || dtype == STK_FLOAT64) {
        stk__elements_to(pad->value, dtype, &value, STK_FLOAT64, 1);
        return true;
    }
    if (stk__dtype_is_float(dtype))
        return value == 0;
    const double most = ldexp(1, (int)(8 * size) - is_signed);
    if (value != floor(value) || fabs(value) > 0x1p53 || value >= most ||
        value < (is_signed ? -most : 0) || (dtype == STK_BOOL && value > 1))
        return false;
    const int64_t whole = (int64_t)value;
    memcpy(pad->value, &whole, size);
    return true;
}

/* Digits, perhaps a '-' and decimals, the same in every locale. */
static bool read_number(const char *at, size_t length, double *out)
{
    double value = 0, scale = 1;
    size_t i = length && at[0] == '-', digits = 0;

    for (; i < length && at[i] >= '0' && at[i] <= '9'; i++, digits++)
        value = value * 10 + (at[i] - '0');
    if (i < length && at[i] == '.')
        for (i++; i < length && at[i] >= '0' && at[i] <= '9'; i++, digits++) {
            value = value * 10 + (at[i] - '0');
            scale *= 10;
        }
    *out = length && at[0] == '-' ? -value / scale : value / scale;
    return digits && digits <= 18 && i == length;
}

/* How a field is filled up; its rows have a fixed number of bytes. */
static stk_status set_pad(const stk_dataset *d, uint32_t f, const char *entry, size_t length,
                          double multiple, double value, stk__pad *pad, stk_error *err)
{
    const stk_field *field = &d->fields[f];
    uint64_t unit = stk_dtype_size(field->dtype);

    if (field->layout == STK_FIXED || field->picture)
        return refuse(NULL, entry, length,
                      "is of a field whose values do not vary in length, or "
                      "are pictures",
                      err);
    if (pad->unit)
        return refuse(NULL, entry, length, "is of a field that is filled up already", err);
    if (!(multiple >= 1 && multiple <= (double)MAX_MULTIPLE && multiple == floor(multiple)))
        return refuse(NULL, entry, length, "has no multiple from 1 to 2^20", err);
    for (uint32_t i = 1; i < field->rank; i++)
        if (field->shape[i] < 1 || !stk__mul_size(unit, (uint64_t)field->shape[i], &unit))
            return refuse(NULL, entry, length,
                          "is of a field that varies in more than its first "
                          "dimension",
                          err);
    if (unit > UINT32_MAX / MAX_MULTIPLE * 256 || !set_value(pad, field->dtype, value))
        return refuse(NULL, entry, length, "has a value that the type of the field does not hold",
                      err);
    pad->unit = unit;
    pad->multiple = (uint64_t)multiple;
    return STK_OK;
}

/* The field of an entry, whose name ends at *end: names may have a ':' of their own. */
static bool find_field(const stk_dataset *d, const char *entry, size_t length, uint32_t *field,
                       size_t *end)
{
    bool found = false;

    for (uint32_t f = 0; f < d->num_fields; f++) {
        const size_t n = strlen(d->fields[f].name);
        if (n < length && entry[n] == ':' && memcmp(entry, d->fields[f].name, n) == 0 &&
            (!found || n > *end)) {
            *field = f;
            *end = n;
            found = true;
        }
    }
    return found;
}

static stk_status add_length(pad_map *m, const stk_dataset *d, uint32_t f, char **name,
                             stk_error *err)
{
    const size_t bytes = strlen(d->fields[f].name) + sizeof "_length";

    snprintf(*name, bytes, "%s_length", d->fields[f].name);
    for (uint32_t i = 0; i < m->num; i++)
        if (strcmp(m->fields[i].name, *name) == 0)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "padding", STK_NO_OFFSET,
                                "padding: there is a field '%.80s' already; rename it", *name);
    m->field[m->num - m->num_inner] = f;
    m->fields[m->num++] = stk__field(*name, STK_INT64, (const int64_t[]){-1}, false);
    *name += bytes;
    return STK_OK;
}

static stk_status read_entries(pad_map *m, const stk_dataset *d, const char *text, stk_error *err)
{
    char *name = m->names;

    for (const char *at = text; *at; at += *at == ',') {
        const size_t length = strcspn(at, ",");
        size_t end = 0;
        double multiple = 0, value = 0;
        uint32_t f = 0;
        if (!find_field(d, at, length, &f, &end))
            return refuse(text, at, length, "names no field of the dataset", err);
        const char *number = at + end + 1;
        const size_t rest = length - end - 1;
        const char *colon = memchr(number, ':', rest);
        const size_t digits = colon ? (size_t)(colon - number) : rest;
        if (!read_number(number, digits, &multiple) ||
            (colon && !read_number(colon + 1, rest - digits - 1, &value)))
            return refuse(text, at, length, "is no field and its numbers", err);
        STK_TRY(set_pad(d, f, at, length, multiple, value, &m->pads[f], err));
        STK_TRY(add_length(m, d, f, &name, err));
        at += length;
    }
    return m->num > m->num_inner ? STK_OK : refuse(text, text, 0, "names no field", err);
}

/* ---- Making ---- */

static pad_map *make_map(const stk_dataset *d)
{
    const uint64_t n = d->num_fields;
    uint64_t bytes = 0;

    for (uint32_t f = 0; f < n; f++)
        bytes += strlen(d->fields[f].name) + sizeof "_length";
    pad_map *m = stk__calloc(
        d->context, 1,
        sizeof *m + n * (2 * sizeof *m->fields + 2 * sizeof *m->pads + sizeof *m->field) + bytes);
    if (!m)
        return NULL;
    m->num = m->num_inner = d->num_fields;
    m->fields = (stk_field *)(m + 1);
    m->pads = (stk__pad *)(m->fields + 2 * n);
    m->field = (uint32_t *)(m->pads + 2 * n);
    m->names = (char *)(m->field + n);
    memcpy(m->fields, d->fields, n * sizeof *m->fields);
    return m;
}

stk_status stk__dataset_pad(stk_dataset **dataset, const char *text, stk_error *err)
{
    stk_context *ctx = (*dataset)->context;
    stk__view *view = NULL;

    STK_TRY(stk__view_create(*dataset, (*dataset)->size, "padding", &view, err));
    pad_map *m = view->extra = make_map(*dataset);
    const stk_status status = m ? read_entries(m, *dataset, text, err)
                                : stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET,
                                            "no memory for the fields of '%.80s'", text);
    if (status != STK_OK) {
        stk__free(ctx, m);
        stk__free(ctx, view);
        return status;
    }
    view->map = map_same;
    view->ops.prepare = pad_prepare;
    view->ops.prepare_rows = NULL;
    if (view->ops.locate)
        view->ops.locate = pad_locate;
    view->base.fields = m->fields;
    view->base.num_fields = m->num;
    view->base.pads = m->pads;
    view->base.fingerprint = stk__fingerprint(view->base.fingerprint, text, strlen(text));
    snprintf(view->text, sizeof view->text, "%.90s", text);
    stk__view_same_indices(view, *dataset);
    stk__view_finish(view, dataset);
    return STK_OK;
}
