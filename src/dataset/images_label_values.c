/* SPDX-License-Identifier: Apache-2.0 */
/* Labels of pictures: classes by name or number, numbers, several classes each. */
#include <inttypes.h>
#include <stdio.h>

#include "dataset/images_labels.h"

#define NONE STK__LABELS_NONE

static stk_status no_memory(const stk__label_values *v)
{
    return stk__labels_no_memory(v->pictures, v->err);
}

static stk_status fail_row(const stk__label_values *v, uint64_t row,
                           const stk__labels_column *column, const char *what, const char *remedy)
{
    char where[STK__LABELS_WHERE];

    return stk__fail_at(v->err, STK_EFORMAT, STK_STAGE_DATASET, v->table->name, STK_NO_OFFSET,
                        "images: %s: its column '%.60s' %s; %s",
                        stk__labels_where(v->table, v->taken, row, where), column->name, what,
                        remedy);
}

/* ---- What labels are ------------------------------------------------------------------------- */

static stk_status refuse_form(const stk__label_values *v, const char *what, const char *remedy)
{
    return stk__fail_at(v->err, STK_EINVAL, STK_STAGE_OPTIONS, "label_type", STK_NO_OFFSET,
                        "images: the column '%.60s' of %.150s %s; %s", v->table->targets[0].name,
                        v->table->name, what, remedy);
}

static stk_status read_separator(stk__label_values *v)
{
    const char *text = v->separated;

    v->separator = strcmp(text, "space") == 0 ? ' ' : strcmp(text, "tab") == 0 ? '\t' : text[0];
    if (text[0] && (!text[1] || v->separator != text[0] || strcmp(text, "tab") == 0))
        return STK_OK;
    return stk__fail_at(v->err, STK_EINVAL, STK_STAGE_OPTIONS, "label_separator", STK_NO_OFFSET,
                        "images: label_separator=%.60s is not one sign; write the one between the "
                        "names, or space, or tab",
                        text);
}

/* One text of several names. */
static stk_status choose_several(stk__label_values *v)
{
    const stk__labels_table *t = v->table;

    v->form = STK__FORM_SEVERAL;
    if (t->num_targets != 1 || !t->targets[0].text || v->type == STK__LABELS_CLASS ||
        v->type == STK__LABELS_VALUE)
        return refuse_form(v, "is not one text of several names",
                           "leave label_separator out, or name one column by label_columns");
    return read_separator(v);
}

/* One text, list or number by itself. */
static stk_status choose_one(stk__label_values *v)
{
    const stk__labels_column *c = &v->table->targets[0];
    const bool integer = c->width == 1 && stk__taken_is_integer(c->dtype);
    const bool classes = v->type == STK__LABELS_AUTO || v->type == STK__LABELS_CLASS;

    if (c->text && !classes)
        return refuse_form(v, "has texts",
                           "names in one text are parted by label_separator=SIGN; for numbers give "
                           "it a type, as labels=FILE?types=COLUMN:float64");
    if (v->type == STK__LABELS_CLASS && !c->text && !integer)
        return refuse_form(v, "has no single integers or names",
                           "a class is one of these; leave label_type out");
    v->form = c->text              ? STK__FORM_NAMES
              : integer && classes ? STK__FORM_INTEGERS
                                   : STK__FORM_VALUES;
    v->out->width = v->form == STK__FORM_VALUES ? (uint32_t)c->width : 0;
    return STK_OK;
}

stk_status stk__label_values_choose(stk__label_values *v)
{
    const stk__labels_table *t = v->table;

    if (v->separated)
        return choose_several(v);
    if (t->num_targets == 1)
        return choose_one(v);
    if (v->type == STK__LABELS_CLASS)
        return refuse_form(v, "is one of several", "a class is one text or integer");
    v->form = STK__FORM_VALUES;
    for (uint32_t i = 0; i < t->num_targets; i++) {
        if (t->targets[i].text || t->targets[i].list)
            return refuse_form(v, "and the others are not all single numbers",
                               "name fewer by label_columns=COLUMN,...");
        v->out->width += (uint32_t)t->targets[i].width;
    }
    return STK_OK;
}

stk_status stk__label_values_make_room(stk__label_values *v)
{
    const uint64_t n = v->pictures;

    if (v->form == STK__FORM_NAMES || v->form == STK__FORM_INTEGERS)
        v->out->labels = stk__calloc(v->context, n, sizeof *v->out->labels);
    else if (v->form == STK__FORM_SEVERAL)
        v->begin = stk__calloc(v->context, n, sizeof *v->begin);
    else
        return STK_OK; /* a list tells how many numbers there are */
    return v->out->labels || v->begin ? STK_OK : no_memory(v);
}

/* ---- Labels of rows -------------------------------------------------------------------------- */

static stk_status add_name(stk__label_values *v, uint64_t row, const char *text, size_t length,
                           uint32_t *number)
{
    const stk_status status = stk__names_add(&v->out->names, text, length, number);

    if (status == STK_ENOMEM)
        return no_memory(v);
    return status == STK_OK
               ? STK_OK
               : fail_row(v, row, &v->table->targets[0],
                          status == STK_ELIMIT ? "has one name too many" : "has a zero byte",
                          "is it the column of the labels?");
}

static stk_status take_name(stk__label_values *v, uint64_t row, uint32_t picture)
{
    uint32_t number;
    size_t length;
    char room[32];
    const char *text = stk__labels_text(&v->table->targets[0], v->taken, room, &length);

    STK_TRY(add_name(v, row, text, length, &number));
    if (picture != NONE)
        v->out->labels[picture] = number;
    return STK_OK;
}

static stk_status add_mark(stk__label_values *v, uint32_t number)
{
    uint32_t *marks = stk__grow(v->context, v->out->marks, &v->marks_room,
                                (uint64_t)v->num_marks + 1, sizeof *marks);

    if (!marks)
        return no_memory(v);
    v->out->marks = marks;
    v->out->marks[v->num_marks++] = number;
    return STK_OK;
}

/* The numbers of all names in a text; behind them NONE. */
static stk_status take_names(stk__label_values *v, uint64_t row, uint32_t picture)
{
    char room[32];
    size_t length, part;
    const char *text = stk__labels_text(&v->table->targets[0], v->taken, room, &length);
    const char *end = text + length;

    if (picture != NONE)
        v->begin[picture] = v->num_marks;
    for (; text < end; text += part + 1) {
        const char *stop = memchr(text, v->separator, (size_t)(end - text));
        const char *from = text, *to = stop ? stop : end;
        uint32_t number;
        part = (size_t)(to - text);
        while (from < to && *from == ' ')
            from++;
        while (from < to && to[-1] == ' ')
            to--;
        if (from == to)
            continue;
        STK_TRY(add_name(v, row, from, (size_t)(to - from), &number));
        if (picture != NONE)
            STK_TRY(add_mark(v, number));
    }
    return picture == NONE ? STK_OK : add_mark(v, NONE);
}

static stk_status take_integer(stk__label_values *v, uint64_t row, uint32_t picture)
{
    int64_t label;

    if (!stk__labels_integer(&v->table->targets[0], v->taken, &label))
        return fail_row(v, row, &v->table->targets[0], "is beyond int64",
                        "number the classes from 0 on");
    if (picture != NONE)
        v->out->labels[picture] = label;
    return STK_OK;
}

/* The first row with a list says how many numbers a label has. */
static stk_status check_list(stk__label_values *v, uint64_t row)
{
    const stk__labels_column *c = &v->table->targets[0];
    const uint64_t count = v->taken->values[c->field].size / stk_dtype_size(c->dtype);

    if (!v->out->width)
        v->out->width = (uint32_t)count;
    return count && count == v->out->width
               ? STK_OK
               : fail_row(v, row, c, "is a list of another length than the first, or empty",
                          "labels are of one length");
}

static stk_status make_values(stk__label_values *v)
{
    uint64_t bytes;

    if (!stk__mul_size(v->pictures, v->out->width * sizeof *v->out->values, &bytes) ||
        bytes > stk__memory_left(v->context))
        return no_memory(v);
    v->out->values = stk__calloc(v->context, v->pictures, v->out->width * sizeof *v->out->values);
    return v->out->values ? STK_OK : no_memory(v);
}

static stk_status take_values(stk__label_values *v, uint64_t row, uint32_t picture)
{
    stk__images_labels *out = v->out;

    if (v->table->targets[0].list)
        STK_TRY(check_list(v, row));
    if (!out->values)
        STK_TRY(make_values(v));
    uint32_t at = 0;
    for (uint32_t i = 0; i < v->table->num_targets; i++) {
        const stk__labels_column *c = &v->table->targets[i];
        const uint64_t width = c->list ? out->width : c->width;
        v->whole = v->whole && stk__taken_is_integer(c->dtype);
        for (uint64_t k = 0; k < width; k++, at++) {
            const double value = stk__labels_real(c, v->taken, k);
            if (v->type == STK__LABELS_MULTI && value != 0 && value != 1)
                return fail_row(v, row, c, "is neither 0 nor 1",
                                "label_type=multi takes these alone; leave it out for numbers");
            v->flags = v->flags && (value == 0 || value == 1);
            if (picture != NONE)
                out->values[(uint64_t)picture * out->width + at] = (float)value;
        }
    }
    return STK_OK;
}

stk_status stk__label_values_take(stk__label_values *v, uint64_t row, uint32_t picture)
{
    switch (v->form) {
    case STK__FORM_NAMES:
        return take_name(v, row, picture);
    case STK__FORM_INTEGERS:
        return take_integer(v, row, picture);
    case STK__FORM_SEVERAL:
        return take_names(v, row, picture);
    case STK__FORM_VALUES:
        break;
    }
    return take_values(v, row, picture);
}

const stk__labels_column *stk__label_values_empty(const stk__label_values *v)
{
    for (uint32_t i = 0; v->form != STK__FORM_SEVERAL && i < v->table->num_targets; i++)
        if (!stk__labels_has(&v->table->targets[i], v->taken))
            return &v->table->targets[i];
    return NULL;
}

/* ---- Labels of pictures ---------------------------------------------------------------------- */

/* Names get their numbers, in the order of their bytes. */
static stk_status settle_names(stk__label_values *v)
{
    stk__images_labels *out = v->out;
    uint32_t *renumber = NULL;

    if (stk__names_sort(&out->names, &renumber) != STK_OK)
        return no_memory(v);
    for (uint64_t i = 0; out->labels && i < v->pictures; i++)
        out->labels[i] = out->names.count ? renumber[out->labels[i]] : 0;
    for (size_t i = 0; i < v->num_marks; i++)
        if (out->marks[i] != NONE)
            out->marks[i] = renumber[out->marks[i]];
    stk__free(v->context, renumber);
    return STK_OK;
}

/* The columns' own. */
static stk_status name_elements(stk__label_values *v)
{
    uint32_t number;

    for (uint32_t i = 0; i < v->table->num_targets; i++)
        STK_TRY(
            add_name(v, 0, v->table->targets[i].name, strlen(v->table->targets[i].name), &number));
    return stk__names_list(&v->out->names) == STK_OK ? STK_OK : no_memory(v);
}

/* Marks in the order of the pictures: they were in that of the rows. */
static stk_status order_marks(stk__label_values *v, const uint32_t *picks, uint64_t n)
{
    stk__images_labels *out = v->out;
    stk_context *ctx = v->context;

    out->starts = stk__calloc(ctx, n + 1, sizeof *out->starts);
    uint32_t *marks = stk__alloc(ctx, (v->num_marks + 1) * sizeof *marks);
    if (!out->starts || !marks) {
        stk__free(ctx, marks);
        return no_memory(v);
    }
    uint64_t at = 0;
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t *from = out->marks + v->begin[picks ? picks[i] : i];
        out->starts[i] = at;
        for (uint64_t k = 0; from[k] != NONE; k++)
            marks[at++] = from[k];
    }
    out->starts[n] = at;
    stk__free(ctx, out->marks);
    out->marks = marks;
    return STK_OK;
}

/* Labels move to the places of their samples. */
static void pick(const stk__label_values *v, const uint32_t *picks, uint64_t n)
{
    stk__images_labels *out = v->out;

    for (uint64_t i = 0; picks && i < n; i++) {
        if (out->labels)
            out->labels[i] = out->labels[picks[i]];
        if (out->values)
            memmove(out->values + i * out->width, out->values + (uint64_t)picks[i] * out->width,
                    out->width * sizeof *out->values);
    }
}

stk_status stk__label_values_settle(stk__label_values *v, const uint32_t *picks, uint64_t n)
{
    stk__images_labels *out = v->out;
    const bool values = v->form == STK__FORM_VALUES;

    if (values && v->table->guessed && v->whole && !v->flags)
        return stk__fail_at(v->err, STK_EINVAL, STK_STAGE_OPTIONS, "label_columns", STK_NO_OFFSET,
                            "images: the columns of %.150s beside '%.60s' are integers of any "
                            "kind; name those of the labels by label_columns=COLUMN,...",
                            v->table->name, v->table->file.name);
    out->flags = v->form == STK__FORM_SEVERAL || (values && v->type == STK__LABELS_MULTI) ||
                 (values && v->type == STK__LABELS_AUTO && out->width > 1 && v->whole && v->flags);
    if (v->form == STK__FORM_NAMES || v->form == STK__FORM_SEVERAL)
        STK_TRY(settle_names(v));
    else if (values && out->width == v->table->num_targets)
        STK_TRY(name_elements(v));
    pick(v, picks, n);
    if (v->form != STK__FORM_SEVERAL)
        return STK_OK;
    out->width = out->names.count;
    if (!out->width)
        return refuse_form(v, "has no name in any row", "name another by label_columns=COLUMN");
    return order_marks(v, picks, n);
}

void stk__label_values_release(stk__label_values *v)
{
    stk__free(v->context, v->begin);
    v->begin = NULL;
}
