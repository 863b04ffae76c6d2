/* SPDX-License-Identifier: Apache-2.0 */
/* Which arrays of a file are the fields of its rows, and what the fields are called. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "dataset/rows.h"

static const char *last_name(const char *path)
{
    const char *last = strrchr(path, '/');

    return last ? last + 1 : path;
}

bool stk__rows_is_label_name(const char *path)
{
    static const char *const names[] = {"label", "labels", "target", "targets", "y"};

    for (size_t i = 0; i < STK_COUNT(names); i++)
        if (strcmp(last_name(path), names[i]) == 0)
            return true;
    return false;
}

bool stk__rows_is_label(const char *path, const stk_array_info *info)
{
    return info->rank == 1 && stk__widen_c(info->dtype) && stk__rows_is_label_name(path);
}

/* ---- Notes ----------------------------------------------------------------------------------- */

/* Names are the file's: no control character of theirs reaches a line. */
static void make_plain(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 32 || *text == 127)
            *text = '?';
}

static stk_status add_note(stk_context *ctx, char **notes, const char *name, char text[400],
                           stk_error *err)
{
    make_plain(text);
    char *longer = stk__format(ctx, "%s%s\t%s\n", *notes ? *notes : "", name, text);
    if (!longer)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory to open rows of arrays");
    stk__free(ctx, *notes);
    *notes = longer;
    return STK_OK;
}

/* ---- Which ----------------------------------------------------------------------------------- */

/* Why an array can be no field; false: it can. */
static bool is_refused(const stk__rows_array *a, char *why, size_t size)
{
    const stk_array_info *info = a->array ? stk_array_get_info(a->array) : NULL;

    if (!info)
        snprintf(why, size, "%s", a->why ? a->why : "it cannot be read");
    else if (info->dtype == STK_DTYPE_NONE)
        snprintf(why, size, "holds %s, and rows are of numbers", info->type_name);
    else if (info->rank == 0)
        snprintf(why, size, "is a single number, without rows");
    else if (info->bytes == 0)
        snprintf(why, size, "has no elements");
    else if (strcmp(last_name(a->path), "index") == 0)
        snprintf(why, size, "is named as a field that every batch has: the number of its sample");
    else if (info->order == 'F' && strcmp(info->format, "npy") == 0)
        snprintf(why, size,
                 "is in Fortran order, in which no row lies in one piece; save it with "
                 "numpy.ascontiguousarray()");
    else if (info->rank > STK_MAX_RANK + 1)
        snprintf(why, size, "has %u dimensions, and rows have at most %d", info->rank,
                 STK_MAX_RANK);
    else
        return false;
    return true;
}

static int64_t length_of(const stk__rows_array *a)
{
    return stk_array_get_info(a->array)->shape[0];
}

/* How many of the arrays that can be fields have `length` rows. */
static size_t count_of(const stk__rows *rows, const bool *can, int64_t length)
{
    size_t count = 0;

    for (size_t i = 0; i < rows->count; i++)
        count += can[i] && length_of(&rows->arrays[i]) == length;
    return count;
}

/* The number of rows that most arrays have. */
static stk_status most_common(const stk__rows *rows, const bool *can, int64_t *length,
                              stk_error *err)
{
    size_t most = 0;
    const stk__rows_array *first = NULL, *rival = NULL;

    for (size_t i = 0; i < rows->count; i++) {
        const stk__rows_array *a = &rows->arrays[i];
        if (!can[i] || (first && length_of(a) == length_of(first)))
            continue;
        const size_t count = count_of(rows, can, length_of(a));
        if (count > most)
            rival = NULL;
        else if (count == most && !rival)
            rival = a;
        if (count > most) {
            first = a;
            most = count;
        }
    }
    if (!first)
        return stk__fail(err, STK_EFORMAT, STK_STAGE_DATASET,
                         "'%.200s' has no array of numbers with rows at its top; name the group "
                         "that they are in, as group=PATH, or arrays by fields=PATH/images,...",
                         rows->url);
    if (rival)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "fields", STK_NO_OFFSET,
                            "as many arrays have %" PRId64 " rows, as '%.100s', as have %" PRId64
                            ", as '%.100s': name those that are wanted, as fields=%.100s,...",
                            length_of(first), first->path, length_of(rival), rival->path,
                            first->path);
    *length = length_of(first);
    return STK_OK;
}

/* Of those that were asked for, the first that cannot be, or is of another length. */
static stk_status check_asked(const stk__rows *rows, stk_error *err)
{
    char why[STK_ERROR_TEXT];

    for (size_t i = 0; i < rows->count; i++) {
        const stk__rows_array *a = &rows->arrays[i];
        if (is_refused(a, why, sizeof why))
            return stk__fail_at(err, STK_EKIND, STK_STAGE_DATASET, a->path, STK_NO_OFFSET,
                                "'%.200s' %.300s; leave it out of fields", a->path, why);
        if (length_of(a) != length_of(&rows->arrays[0]))
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "fields", STK_NO_OFFSET,
                                "'%.200s' has %" PRId64 " rows where '%.200s' has %" PRId64
                                "; a sample is a row of each: name arrays of one length",
                                a->path, length_of(a), rows->arrays[0].path,
                                length_of(&rows->arrays[0]));
    }
    return STK_OK;
}

/* Those that are left out, each with its reason. */
static stk_status choose_some(stk__rows *rows, bool *chosen, char **notes, stk_error *err)
{
    char why[STK_ERROR_TEXT], text[400];
    int64_t length = 0;

    for (size_t i = 0; i < rows->count; i++)
        chosen[i] = !is_refused(&rows->arrays[i], why, sizeof why);
    STK_TRY(most_common(rows, chosen, &length, err));
    for (size_t i = 0; i < rows->count; i++) {
        const stk__rows_array *a = &rows->arrays[i];
        if (!chosen[i])
            is_refused(a, why, sizeof why);
        else if (length_of(a) != length)
            snprintf(why, sizeof why, "has %" PRId64 " rows, the others %" PRId64, length_of(a),
                     length);
        else
            continue;
        chosen[i] = false;
        snprintf(text, sizeof text, "'%.120s': %.250s", a->path, why);
        STK_TRY(add_note(rows->context, notes, "left out", text, err));
    }
    return STK_OK;
}

/* ---- What they are called -------------------------------------------------------------------- */

static stk_status note_name(stk_context *ctx, const stk__window_row *row, char **notes,
                            stk_error *err)
{
    char text[400];

    snprintf(text, sizeof text, "'%.200s' is the field %s%s", row->path, row->field,
             row->widened ? ", of int64" : "");
    return add_note(ctx, notes, "renamed", text, err);
}

static bool is_picture(const stk_array_info *info)
{
    return info->dtype == STK_UINT8 && info->rank == 4 &&
           (info->shape[3] == 1 || info->shape[3] == 3 || info->shape[3] == 4);
}

/* Pictures called `images` are the field `image`, as those of other datasets. */
static stk_status name_image(const stk__rows *rows, stk__window_row *row, uint32_t n, char **notes,
                             stk_error *err)
{
    stk__window_row *images = NULL;

    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(row[i].field, "image") == 0)
            return STK_OK; /* the name is taken */
        if (strcmp(row[i].field, "images") == 0 && is_picture(stk_array_get_info(row[i].array)))
            images = &row[i];
    }
    if (!images)
        return STK_OK;
    images->field = "image";
    return note_name(rows->context, images, notes, err);
}

/* Labels become the field `label`, of int64, where one array alone may be them. */
static stk_status name_label(const stk__rows *rows, stk__window_row *row, uint32_t n, char **notes,
                             stk_error *err)
{
    stk__window_row *label = NULL;
    uint32_t count = 0;

    for (uint32_t i = 0; i < n; i++) {
        const stk_array_info *info = stk_array_get_info(row[i].array);
        const bool exact = strcmp(row[i].field, "label") == 0;
        if (exact && !stk__rows_is_label(row[i].path, info))
            return STK_OK; /* the name is taken */
        if (!stk__rows_is_label(row[i].path, info))
            continue;
        count++;
        label = &row[i];
        if (exact) {
            count = 1;
            break;
        }
    }
    if (count != 1)
        return STK_OK;
    const stk_array_info *info = stk_array_get_info(label->array);
    label->widened = info->dtype != STK_INT64;
    if (strcmp(label->field, "label") == 0)
        return STK_OK;
    label->field = "label";
    return note_name(rows->context, label, notes, err);
}

stk_status stk__rows_choose(stk__rows *rows, stk__window_row *row, uint32_t *n, char **notes,
                            stk_error *err)
{
    const bool asked = rows->fields && *rows->fields;

    bool *chosen = stk__calloc(rows->context, STK_MAX(rows->count, 1), sizeof *chosen);
    if (!chosen)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory to open rows of arrays");
    stk_status status = asked ? check_asked(rows, err) : choose_some(rows, chosen, notes, err);
    for (size_t i = 0; i < rows->count && status == STK_OK; i++) {
        if (!asked && !chosen[i])
            continue;
        if (*n == STK__WINDOW_FIELDS) {
            status = stk__fail_at(err, STK_ELIMIT, STK_STAGE_OPTIONS, "fields", STK_NO_OFFSET,
                                  "there are more than %d arrays of one length; name those that "
                                  "are wanted, as fields=%.100s,...",
                                  STK__WINDOW_FIELDS, rows->arrays[0].path);
            break;
        }
        stk__rows_array *a = &rows->arrays[i];
        row[(*n)++] =
            (stk__window_row){.array = a->array, .path = a->path, .field = last_name(a->path)};
        a->array = NULL;
    }
    stk__free(rows->context, chosen);
    if (status == STK_OK)
        status = name_image(rows, row, *n, notes, err);
    return status == STK_OK ? name_label(rows, row, *n, notes, err) : status;
}
