/* SPDX-License-Identifier: Apache-2.0 */
/* A table of labels opened: which of its columns names the files, which are the labels. */
#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

#include "base/spec.h"
#include "base/text.h"
#include "base/url.h"
#include "dataset/images_labels.h"
#include "dataset/table/formats.h"

/* ---- The spec -------------------------------------------------------------------------------- */

/* Whether the query of a spec gives an option. */
static bool gives(const char *spec, const char *name)
{
    const size_t length = strlen(name);

    for (const char *p = strchr(spec, '?'); p; p = strchr(p + 1, '&'))
        if (strncmp(p + 1, name, length) == 0 && p[length + 1] == '=')
            return true;
    return false;
}

/* What is read of a table: nothing is known of it yet, or these columns. */
typedef struct asked {
    const char *columns; /* with commas; NULL: all */
    const char *text;    /* a column that is read as text; NULL: none */
} asked;

static void add_option(stk__text *spec, const char *name, const char *value, const char *end)
{
    stk__text_add(spec, "%c%s=", stk__spec_query(spec->bytes) ? '&' : '?', name);
    stk__text_add_percent(spec, value, strlen(value), false);
    stk__text_add(spec, "%s", end);
}

/* The spec of the table: from the folder of the pictures on, or of its own place. */
static stk_status make_spec(stk_context *ctx, const char *url, const char *labels,
                            const asked *what, stk__text *spec, stk_error *err)
{
    const char *path;
    const stk__table_format *format = stk__table_format_of(labels, &path);
    char *own = stk__strdup(ctx, path), *below = NULL;

    if (!format) {
        stk__free(ctx, own);
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "labels", STK_NO_OFFSET,
                            "images: labels=%.200s is no table by its name; name a .csv, .tsv, "
                            ".jsonl, .parquet or .arrow file, or say what it is, as csv:FILE",
                            labels);
    }
    char *query = own ? strchr(own, '?') : NULL;
    if (query)
        *query++ = 0;
    if (own && own[0] != '/' && !strstr(own, "://") && !stk__url_elsewhere(ctx, own))
        below = stk__url_below(ctx, url, own);
    else
        below = own ? stk__strdup(ctx, own) : NULL;
    if (below) {
        stk__text_add(spec, "%s:%s", format->ops->name, below);
        if (query && *query && !spec->failed)
            stk__text_add(spec, "%c%s", stk__spec_query(spec->bytes) ? '&' : '?', query);
        if (!spec->failed && what->columns && !gives(labels, "columns"))
            add_option(spec, "columns", what->columns, "");
        if (!spec->failed && what->text)
            add_option(spec, "types", what->text, ":text");
    }
    const bool good = below && !spec->failed;
    stk__free(ctx, below);
    stk__free(ctx, own);
    return good ? STK_OK
                : stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET,
                            "images: no memory to open the table %.200s", labels);
}

/* ---- Columns --------------------------------------------------------------------------------- */

static bool is_real(stk_dtype dtype)
{
    return dtype == STK_FLOAT16 || dtype == STK_FLOAT32 || dtype == STK_FLOAT64;
}

/* Field `f` as a column; false: it is the mask of another. */
static bool column_of(const stk_dataset *d, uint32_t f, stk__labels_column *out)
{
    const stk_field *field = &d->fields[f];
    const stk__table_column *c = stk__table_field_column(d, f);

    if (!c)
        return false;
    *out = (stk__labels_column){.name = c->name,
                                .field = f,
                                .mask = (int)stk_dataset_null_mask(d, f),
                                .dtype = field->dtype,
                                .text = field->layout == STK_BYTES && !field->picture,
                                .list = field->layout == STK_RAGGED};
    out->width =
        field->layout == STK_FIXED ? stk_field_bytes(field) / stk_dtype_size(field->dtype) : 0;
    return true;
}

/* "a, b, c" of the columns. */
static void say_columns(const stk_dataset *d, stk__text *out)
{
    stk__labels_column c;
    const char *comma = "";

    for (uint32_t f = 0; f < d->num_fields; f++)
        if (column_of(d, f, &c)) {
            stk__text_add(out, "%s%.60s", comma, c.name);
            comma = ", ";
        }
}

static stk_status refuse(const stk__labels_table *t, const char *option, const char *what,
                         const char *name, const char *remedy, stk_error *err)
{
    char text[250] = "";
    stk__text names = {.bytes = text, .room = sizeof text};

    say_columns(t->dataset, &names);
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, option, STK_NO_OFFSET,
                        "images: the table %.150s %s%.60s; its columns are %s: %s", t->name, what,
                        name, text, remedy);
}

static bool column_by_name(const stk_dataset *d, const char *name, size_t length, bool exact,
                           stk__labels_column *out)
{
    for (uint32_t f = 0; f < d->num_fields; f++)
        if (column_of(d, f, out) && strlen(out->name) == length &&
            (exact ? strncmp : strncasecmp)(out->name, name, length) == 0)
            return true;
    return false;
}

/* A column that can name files: a text, or an integer, which stands for its digits. */
static bool names_files(const stk__labels_column *c)
{
    return c->text || (c->width == 1 && c->dtype != STK_BOOL && stk__taken_is_integer(c->dtype));
}

static stk_status choose_file(stk__labels_table *t, const stk__images_labels_options *o,
                              stk_error *err)
{
    static const char *const usual[] = {"file_name",  "filename",    "file",       "path",
                                        "filepath",   "file_path",   "image_path", "image",
                                        "image_file", "image_name",  "image_id",   "img",
                                        "image id",   "image index", "id_code",    "id"};
    const char *remedy = "name the one of the files' paths by file_column=COLUMN";
    stk__labels_column c;
    uint32_t texts = 0;

    if (o->file_column) {
        if (!column_by_name(t->dataset, o->file_column, strlen(o->file_column), true, &t->file))
            return refuse(t, "file_column", "has no column ", o->file_column, remedy, err);
        return names_files(&t->file) ? STK_OK
                                     : refuse(t, "file_column", "has no paths in its column ",
                                              o->file_column, "name one of text", err);
    }
    for (size_t i = 0; i < STK_COUNT(usual); i++)
        if (column_by_name(t->dataset, usual[i], strlen(usual[i]), false, &t->file) &&
            names_files(&t->file))
            return STK_OK;
    for (uint32_t f = 0; f < t->dataset->num_fields; f++)
        if (column_of(t->dataset, f, &c) && c.text && !texts++)
            t->file = c;
    return texts == 1 ? STK_OK
                      : refuse(t, "file_column", "does not say which column names the files", "",
                               remedy, err);
}

static stk_status add_target(stk__labels_table *t, const stk__labels_column *c)
{
    t->targets[t->num_targets++] = *c;
    return c->text || c->list                                                   ? STK_OK
           : c->width && (stk__taken_is_integer(c->dtype) || is_real(c->dtype)) ? STK_OK
                                                                                : STK_EINVAL;
}

static stk_status named_targets(stk__labels_table *t, const char *names, stk_error *err)
{
    const char *remedy = "name those of the labels by label_columns=COLUMN,...";
    stk__labels_column c;

    for (const char *at = names;; at++) {
        const size_t length = strcspn(at, ",");
        char name[80];
        snprintf(name, sizeof name, "%.*s", (int)length, at);
        if (t->num_targets == t->dataset->num_fields ||
            !column_by_name(t->dataset, at, length, true, &c))
            return refuse(t, "label_columns", "has no column ", name, remedy, err);
        if (c.field == t->file.field)
            return refuse(t, "label_columns", "names files in its column ", name, remedy, err);
        if (add_target(t, &c) != STK_OK)
            return refuse(t, "label_columns", "has neither numbers nor texts in its column ", name,
                          remedy, err);
        at += length;
        if (!*at)
            return STK_OK;
    }
}

/* The only column but that of the files, the one that is called as labels are, or all of them. */
static stk_status usual_targets(stk__labels_table *t, stk_error *err)
{
    static const char *const usual[] = {"label", "labels", "target",     "targets",
                                        "class", "y",      "class_name", "category"};
    const char *remedy = "name those of the labels by label_columns=COLUMN,...";
    bool numbers = true;
    stk__labels_column c;

    for (uint32_t f = 0; f < t->dataset->num_fields; f++)
        if (column_of(t->dataset, f, &c) && c.field != t->file.field) {
            numbers = numbers && c.width == 1;
            if (add_target(t, &c) != STK_OK)
                numbers = false;
        }
    if (!t->num_targets)
        return refuse(t, "labels", "has no column beside that of the files, ", t->file.name, remedy,
                      err);
    for (size_t i = 0; t->num_targets > 1 && i < STK_COUNT(usual); i++)
        for (uint32_t k = 0; k < t->num_targets && t->num_targets > 1; k++)
            if (strcasecmp(t->targets[k].name, usual[i]) == 0) {
                t->targets[0] = t->targets[k];
                t->num_targets = 1;
            }
    if (t->num_targets == 1)
        return STK_OK;
    t->guessed = true;
    return numbers ? STK_OK
                   : refuse(t, "label_columns", "does not say which columns are labels", "", remedy,
                            err);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static stk_status open_once(stk_context *ctx, const char *url, const char *labels,
                            const asked *what, stk__labels_table *t, stk_error *err)
{
    stk__text spec = {.ctx = ctx};

    stk_status status = make_spec(ctx, url, labels, what, &spec, err);
    if (status == STK_OK)
        status = stk_dataset_open_with_nulls(ctx, spec.bytes, &t->dataset, err);
    stk__text_release(&spec);
    STK_TRY(status);
    t->targets = stk__calloc(ctx, t->dataset->num_fields, sizeof *t->targets);
    if (!t->targets)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET,
                         "images: no memory to open the table %.200s", labels);
    if (!stk__table_field_column(t->dataset, 0))
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "labels", STK_NO_OFFSET,
                            "images: labels=%.200s: rows of a table of labels are chosen by "
                            "where=EXPRESSION alone; leave the other options out",
                            labels);
    return STK_OK;
}

static stk_status choose(stk__labels_table *t, const stk__images_labels_options *o, stk_error *err)
{
    t->num_targets = 0;
    STK_TRY(choose_file(t, o, err));
    return o->label_columns ? named_targets(t, o->label_columns, err) : usual_targets(t, err);
}

static void release(stk_context *ctx, stk__labels_table *t)
{
    stk__free(ctx, t->targets);
    stk_dataset_close(&t->dataset);
    t->targets = NULL;
}

/* Open it again for the columns that are in use alone, and names of digits as they are written. */
static stk_status open_again(stk_context *ctx, const char *url, const stk__images_labels_options *o,
                             bool text, stk__labels_table *t, stk_error *err)
{
    stk__images_labels_options known = *o;
    stk__text columns = {.ctx = ctx};
    const bool guessed = t->guessed;

    known.file_column = stk__strdup(ctx, t->file.name);
    for (uint32_t i = 0; i < t->num_targets; i++)
        stk__text_add(&columns, "%s%s", i ? "," : "", t->targets[i].name);
    const size_t labels = columns.length;
    stk__text_add(&columns, ",%s", t->file.name);
    char *label_columns =
        columns.failed ? NULL : stk__format(ctx, "%.*s", (int)labels, columns.bytes);
    known.label_columns = label_columns;
    release(ctx, t);
    stk_status status =
        known.file_column && label_columns
            ? open_once(ctx, url, o->labels,
                        &(asked){columns.bytes, text ? known.file_column : NULL}, t, err)
            : stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET,
                        "images: no memory to open the table %.200s", o->labels);
    if (status == STK_OK)
        status = choose(t, &known, err);
    t->guessed = guessed;
    stk__text_release(&columns);
    stk__free(ctx, label_columns);
    stk__free(ctx, (char *)known.file_column);
    return status;
}

stk_status stk__labels_table_open(stk_context *ctx, const char *url,
                                  const stk__images_labels_options *o, stk__labels_table *t,
                                  stk_error *err)
{
    const asked all = {0};
    uint32_t columns = 0;
    stk__labels_column c;

    *t = (stk__labels_table){.name = o->labels};
    STK_TRY(open_once(ctx, url, o->labels, &all, t, err));
    STK_TRY(choose(t, o, err));
    bool plain = !strchr(t->file.name, ',');
    for (uint32_t i = 0; i < t->num_targets; i++)
        plain = plain && !strchr(t->targets[i].name, ',');
    for (uint32_t f = 0; f < t->dataset->num_fields; f++)
        columns += column_of(t->dataset, f, &c);
    /* In lines 007 is as good a name as 7. */
    const char *name = t->dataset->ops->name;
    const bool text = !t->file.text && !strchr(t->file.name, ':') && !gives(o->labels, "types") &&
                      (strcmp(name, "csv") == 0 || strcmp(name, "tsv") == 0);
    if (plain && (text || columns > t->num_targets + 1))
        return open_again(ctx, url, o, text, t, err);
    return STK_OK;
}

void stk__labels_table_close(stk__labels_table *t)
{
    if (t->dataset)
        release(t->dataset->context, t);
}

/* ---- Values ---------------------------------------------------------------------------------- */

bool stk__labels_has(const stk__labels_column *c, const stk__taken *taken)
{
    return c->mask < 0 || *(const uint8_t *)taken->values[c->mask].data;
}

const char *stk__labels_text(const stk__labels_column *c, const stk__taken *taken, char room[32],
                             size_t *length)
{
    const stk_value *value = &taken->values[c->field];
    int64_t number = 0;

    if (c->text) {
        *length = value->size;
        return value->size ? value->data : "";
    }
    (void)stk__labels_integer(c, taken, &number);
    *length = (size_t)snprintf(room, 32, "%" PRId64, number);
    return room;
}

static double number_at(const stk__labels_column *c, const void *data, uint64_t i)
{
    const char *at = (const char *)data + i * stk_dtype_size(c->dtype);
    float single;
    double real;
    uint16_t half;

    if (c->dtype == STK_FLOAT32) {
        memcpy(&single, at, sizeof single);
        return (double)single;
    }
    if (c->dtype == STK_FLOAT16) {
        memcpy(&half, at, sizeof half);
        return stk__half_to_double(half);
    }
    memcpy(&real, at, sizeof real);
    return real;
}

bool stk__labels_integer(const stk__labels_column *c, const stk__taken *taken, int64_t *out)
{
    return stk__taken_integer(c->dtype, taken->values[c->field].data, out);
}

double stk__labels_real(const stk__labels_column *c, const stk__taken *taken, uint64_t i)
{
    const void *data = taken->values[c->field].data;
    int64_t integer;

    if (is_real(c->dtype))
        return number_at(c, data, i);
    return stk__taken_integer(c->dtype, (const char *)data + i * stk_dtype_size(c->dtype), &integer)
               ? (double)integer
               : (double)(uint64_t)integer;
}
