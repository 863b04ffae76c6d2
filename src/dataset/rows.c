/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hdf5: and npz: tables, whose samples are rows of several arrays. An array is found by its name,
 * and opened as any array is; from there on its rows are windows (window_rows.c).
 */
#include "dataset/rows.h"

#include <stdio.h>

#include "base/spec.h"
#include "base/url.h"

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory to open rows of arrays");
}

/* ---- Finding --------------------------------------------------------------------------------- */

stk_status stk__rows_add(stk__rows *rows, const char *path, stk_array *array, const char *why,
                         stk_error *err)
{
    stk_context *ctx = rows->context;

    if (rows->count == STK__ROWS_MOST) {
        stk_array_close(&array);
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_OPTIONS, "fields", STK_NO_OFFSET,
                            "'%.200s' has more than %d arrays; name those that are wanted, as "
                            "fields=%.100s,...",
                            rows->url, STK__ROWS_MOST, path);
    }
    stk__rows_array *grown =
        stk__grow(ctx, rows->arrays, &rows->room, rows->count + 1, sizeof *grown);
    if (grown) {
        rows->arrays = grown;
        grown += rows->count++;
        *grown = (stk__rows_array){.path = stk__strdup(ctx, path), .array = array};
        grown->why = why ? stk__strdup(ctx, why) : NULL;
        if (grown->path && (grown->why || !why))
            return STK_OK;
        return no_memory(err);
    }
    stk_array_close(&array);
    return no_memory(err);
}

stk_status stk__rows_next_field(const stk__rows *rows, const char **at, char *name, size_t size,
                                stk_error *err)
{
    const size_t length = strcspn(*at, ",");

    if (!length || length >= size)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "fields", STK_NO_OFFSET,
                            "fields=%.200s: write it as images,labels", rows->fields);
    memcpy(name, *at, length);
    name[length] = 0;
    for (size_t i = 0; i < rows->count; i++)
        if (strcmp(rows->arrays[i].path, name) == 0)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "fields", STK_NO_OFFSET,
                                "fields=%.200s: '%.200s' is there twice", rows->fields, name);
    *at += length + ((*at)[length] == ',');
    return STK_OK;
}

void stk__rows_names_init(stk__rows_names *names, const char *wanted)
{
    stk__nearest_init(&names->nearest, wanted);
    names->known[0] = 0;
}

void stk__rows_names_add(stk__rows_names *names, const char *name)
{
    const size_t length = strlen(names->known);

    stk__nearest_offer(&names->nearest, name);
    snprintf(names->known + length, sizeof names->known - length, "%s%s", length ? ", " : "", name);
}

stk_status stk__rows_unknown(const stk__rows_names *names, const char *wanted, stk_error *err)
{
    char meant[STK_OPTION_MEANT];

    return stk__fail_at(err, STK_ENOENT, STK_STAGE_OPTIONS, "fields", STK_NO_OFFSET,
                        "fields: there is no array '%.100s'; there are %s%s", wanted,
                        names->known[0] ? names->known : "none",
                        stk__nearest_said(&names->nearest, meant));
}

/* An array of a group; one that was not asked for, and that no reader knows, is passed over. */
static stk_status add_of(stk__rows *rows, stk_group *group, const char *path, bool asked,
                         stk_error *err)
{
    stk_array *array = NULL;
    stk_error why;

    stk_error_init(&why);
    stk_status status = stk_group_array(group, path, &rows->options, &array, &why);
    if (status == STK_EKIND && !asked)
        return stk__rows_add(rows, path, NULL, why.text, err);
    if (status == STK_OK)
        return stk__rows_add(rows, path, array, NULL, err);
    if (err)
        *err = why;
    return status;
}

static stk_status list_group(stk__rows *rows, stk_group *group, stk_error *err)
{
    const stk_node *node;

    for (size_t i = 0; (node = stk_group_node(group, i)); i++)
        if (node->is_array && !strchr(node->path, '/'))
            STK_TRY(add_of(rows, group, node->path, false, err));
    return STK_OK;
}

static stk_status check_name(stk_group *group, const char *name, stk_error *err)
{
    stk__rows_names names;
    const stk_node *node;

    stk__rows_names_init(&names, name);
    for (size_t i = 0; (node = stk_group_node(group, i)); i++) {
        if (!node->is_array)
            continue;
        if (strcmp(node->path, name) == 0)
            return STK_OK;
        stk__rows_names_add(&names, node->path);
    }
    return stk__rows_unknown(&names, name, err);
}

static stk_status list_fields(stk__rows *rows, stk_group *group, stk_error *err)
{
    char name[512];

    for (const char *at = rows->fields; *at;) {
        STK_TRY(stk__rows_next_field(rows, &at, name, sizeof name, err));
        STK_TRY(check_name(group, name, err));
        STK_TRY(add_of(rows, group, name, true, err));
    }
    return STK_OK;
}

static stk_status find_in_group(stk__rows *rows, stk_error *err)
{
    stk_group *group = NULL;

    stk_status status = stk_group_open(rows->context, rows->url, &group, err);
    if (status == STK_EMISMATCH)
        return stk__fail_at(err, status, STK_STAGE_DATASET, rows->url, STK_NO_OFFSET,
                            "'%.200s' is an array: name the group that it is in, and the array in "
                            "fields; windows of one array are array:%.200s",
                            rows->url, rows->url);
    if (status != STK_OK)
        return status;
    const bool named = rows->fields && *rows->fields;
    status = named ? list_fields(rows, group, err) : list_group(rows, group, err);
    stk_group_close(&group);
    return status;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static void release(stk__rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        stk_array_close(&rows->arrays[i].array);
        stk__free(rows->context, rows->arrays[i].path);
        stk__free(rows->context, rows->arrays[i].why);
    }
    stk__free(rows->context, rows->arrays);
    rows->arrays = NULL;
    rows->count = rows->room = 0;
}

static stk_status open_found(stk__rows *rows, const stk_dataset_ops *ops, stk_dataset **out,
                             stk_error *err)
{
    stk_context *ctx = rows->context;
    uint32_t n = 0;
    char *notes = NULL;

    stk__window_row *row = stk__calloc(ctx, STK__WINDOW_FIELDS, sizeof *row);
    if (!row)
        return no_memory(err);
    stk_status status = stk__rows_choose(rows, row, &n, &notes, err);
    if (status == STK_OK)
        status = stk__window_open_rows(ctx, ops, row, n, &rows->options, notes, out, err);
    else
        stk__free(ctx, notes);
    for (uint32_t i = 0; i < STK__WINDOW_FIELDS; i++)
        stk_array_close(&row[i].array);
    stk__free(ctx, row);
    if (status == STK_OK)
        (*out)->held_bytes += rows->held;
    return status;
}

stk_status stk__rows_open(stk_context *ctx, const stk_dataset_ops *ops, stk__rows_find *find,
                          const char *url, const stk__rows_options *o, stk_dataset **out,
                          stk_error *err)
{
    char *rest = stk__strdup(ctx, url), *below = NULL, *texts = NULL;
    stk__rows rows = {.context = ctx, .fields = o->fields};

    *out = NULL;
    if (!rest)
        return no_memory(err);
    stk_array_options_init(&rows.options);
    stk_status status =
        stk__spec_take(ctx, rest, &stk__array_option_table, &rows.options, &texts, err);
    if (status == STK_OK)
        status = stk__window_refuse_slow(url, &rows.options, err);
    if (status == STK_OK && rows.options.concat && *rows.options.concat)
        status = stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "concat", STK_NO_OFFSET,
                              "concat: rows are of one file; files are joined by array:");
    if (status == STK_OK) {
        const char *group = o->group ? o->group + strspn(o->group, "/") : "";
        below = *group ? stk__url_below(ctx, rest, group) : stk__strdup(ctx, rest);
        rows.url = below;
        status = below ? find(&rows, err) : no_memory(err);
    }
    if (status == STK_OK)
        status = open_found(&rows, ops, out, err);
    if (status != STK_OK)
        stk__option_unknown_nearer(&stk__array_option_table, err);
    release(&rows);
    stk__free(ctx, below);
    stk__free(ctx, texts);
    stk__free(ctx, rest);
    return status;
}

/* ---- Recognition ----------------------------------------------------------------------------- */

/* Whether no array has dimensions by name, as those of NetCDF and of xarray do, and one is labels
 * of others. */
static bool is_table(const stk__rows *rows)
{
    int64_t size = -1;
    size_t others = 0;

    for (size_t i = 0; i < rows->count; i++) {
        const stk_array *array = rows->arrays[i].array;
        const stk_array_info *info = array ? stk_array_get_info(array) : NULL;
        if (info && info->dimension_names)
            return false;
        if (info && stk__rows_is_label(rows->arrays[i].path, info))
            size = info->shape[0];
    }
    for (size_t i = 0; i < rows->count; i++) {
        const stk_array *array = rows->arrays[i].array;
        const stk_array_info *info = array ? stk_array_get_info(array) : NULL;
        others += info && info->rank > 1 && info->shape[0] == size;
    }
    return size > 0 && others > 0;
}

/* Whether names allow it, before any array is opened. */
static bool may_be_table(stk_group *group)
{
    const stk_node *node;
    size_t arrays = 0;
    bool labels = false;

    for (size_t i = 0; (node = stk_group_node(group, i)); i++) {
        if (!node->is_array || strchr(node->path, '/'))
            continue;
        arrays++;
        labels = labels || stk__rows_is_label_name(node->path);
    }
    return labels && arrays > 1 && arrays <= STK__ROWS_MOST;
}

static stk_status look(stk__rows *rows, bool *is)
{
    stk_group *group = NULL;

    STK_TRY(stk_group_open(rows->context, rows->url, &group, NULL));
    stk_status status = STK_OK;
    if (may_be_table(group))
        status = list_group(rows, group, NULL);
    *is = status == STK_OK && is_table(rows);
    stk_group_close(&group);
    return status;
}

int stk__rows_recognise(stk_context *ctx, const char *url)
{
    const stk_array_format_ops *format = NULL;
    stk__rows rows = {.context = ctx};
    char *rest = stk__strdup(ctx, url), *texts = NULL;
    bool is = false;

    if (!rest)
        return STK_ENOMEM;
    stk_array_options_init(&rows.options);
    stk_status status =
        stk__spec_take(ctx, rest, &stk__array_option_table, &rows.options, &texts, NULL);
    rows.url = rest;
    const int sure = status == STK_OK ? stk_array_recognise(ctx, rest, &format) : 0;
    if (sure > 0 && format == &stk__array_hdf5)
        status = look(&rows, &is);
    else if (sure < 0)
        status = (stk_status)sure;
    release(&rows);
    stk__free(ctx, texts);
    stk__free(ctx, rest);
    return is ? 2 : stk__dataset_unsure(status);
}

/* ---- The kind -------------------------------------------------------------------------------- */

#define AT(member) offsetof(stk__rows_options, member)

const stk_option stk__rows_option_list[STK__ROWS_OPTION_COUNT] = {
    {"fields", STK_OPTION_STRING, AT(fields), NULL, 0, 0, NULL, "A,B,...",
     "Arrays whose rows make a sample; without it all whose number of rows most arrays have."},
    {"group", STK_OPTION_STRING, AT(group), NULL, 0, 0, NULL, "PATH",
     "The group or folder that the arrays are in; without it the topmost."},
};

static const stk_option_table hdf5_table = {"hdf5", "Rows of the arrays of an HDF5 file.",
                                            sizeof(stk__rows_options), stk__rows_option_list,
                                            STK__ROWS_OPTION_COUNT};

static stk_status hdf5_open(stk_context *ctx, const char *url, const void *options,
                            stk_dataset **out, stk_error *err)
{
    return stk__rows_open(ctx, &stk__dataset_hdf5, find_in_group, url, options, out, err);
}

const stk_dataset_ops stk__dataset_hdf5 = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "hdf5",
    .doc = "Tables of HDF5: a sample is a row of each of several arrays of one length.",
    .options = &hdf5_table,
    .open = hdf5_open,
    .recognise = stk__rows_recognise,
    STK__WINDOW_OPS,
    .describe = stk__window_rows_describe,
};
