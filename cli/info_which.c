/* SPDX-License-Identifier: Apache-2.0 */
/* Whether `stoker info SPEC` is asked about an array or about a dataset. */
#include <stdlib.h>
#include <string.h>

#include "info.h"

/* Whether an option is one of a table, or none of arrays and nearly one of the table. */
static bool is_of(const stk_option_table *table, const char *name)
{
    const stk_option_table *arrays = stk_option_table_find("array");

    if (stk_options_find(table, name))
        return true;
    for (size_t i = 0; i < table->count && !stk_options_find(arrays, name); i++)
        if (stk_nearest_name(name, &table->options[i].name, 1))
            return true;
    return false;
}

/* Whether it is an option of a format of arrays. */
static bool is_of_format(const stk_context *context, const char *name)
{
    const stk_driver_head *kind;

    for (size_t i = 0; (kind = stk_driver_at(context, STK_DRIVER_ARRAY, i)); i++) {
        const stk_option_table *own = ((const stk_array_format_ops *)kind)->options;
        if (own && stk_options_find(own, name))
            return true;
    }
    return false;
}

/* Whether the query has an option of datasets: then one is meant. */
static bool asks_for_dataset(const stk_context *context, const char *spec)
{
    const stk_option_table *any = stk_option_table_find("dataset"), *windows = any;
    const stk_driver_head *kind;
    char name[64];

    if (stk_driver_find(context, STK_DRIVER_DATASET, "array", &kind, NULL) == STK_OK)
        windows = ((const stk_dataset_ops *)kind)->options;
    for (const char *at = strchr(spec, '?'); at && *at++; at += strcspn(at, "&")) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "=&"), at);
        if (!is_of_format(context, name) && (is_of(windows, name) || is_of(any, name)))
            return true;
    }
    return false;
}

/* Whether an option is one of a store. */
static bool is_of_store(const stk_context *context, const char *name)
{
    const stk_driver_head *kind;

    for (size_t i = 0; (kind = stk_driver_at(context, STK_DRIVER_STORE, i)); i++) {
        const stk_option_table *own = ((const stk_store_ops *)kind)->options;
        if (own && stk_options_find(own, name))
            return true;
    }
    return false;
}

/* The URL with the options of stores alone: those of arrays no store knows. NULL: no memory. */
static char *url_of_store(const stk_context *context, const char *spec)
{
    char *url = malloc(strlen(spec) + 1), name[64], *to = url;

    if (!url)
        return NULL;
    size_t length = strcspn(spec, "?");
    memcpy(to, spec, length);
    to += length;
    for (const char *at = spec + length, *join = "?"; *at && *++at; at += length) {
        length = strcspn(at, "&");
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "=&"), at);
        if (!is_of_store(context, name))
            continue;
        *to++ = *join;
        memcpy(to, at, length);
        to += length;
        join = "&";
    }
    *to = 0;
    return url;
}

/* Whether a folder is a group of arrays. */
static bool is_group(stk_store *store)
{
    static const char *const groups[] = {".zgroup", ".zmetadata"};
    stk_object_info info = {.struct_size = sizeof info};
    bool is = false;

    for (size_t i = 0; i < sizeof groups / sizeof *groups && !is; i++)
        is = stk_store_stat(store, groups[i], NULL, &info, NULL) == STK_OK && !info.is_folder;
    return is;
}

stk_status info_is_array(stk_context *context, const char *spec, bool *is, stk_error *err)
{
    const stk_array_format_ops *format = NULL;
    stk_status status = STK_OK;
    stk_store *store = NULL;
    char key[4096];

    const bool dataset = asks_for_dataset(context, spec);
    *is = !dataset && strncmp(spec, "array:", 6) == 0;
    if (*is || dataset || cli_names_dataset(context, spec))
        return STK_OK;
    const int sure = stk_array_recognise(context, spec, &format);
    /* A format that is named holds several arrays, and is none of a dataset. */
    *is = strchr(spec, '?') && sure == 2 && format->takes_rest;
    char *url = *is ? NULL : url_of_store(context, spec);
    if (!url)
        return STK_OK;
    const bool same = strcmp(url, spec) == 0;
    if ((same ? sure : stk_array_recognise(context, url, &format)) == 2)
        *is = strcmp(format->name, "npy") != 0; /* one file is the dataset's of the same name */
    else
        status = stk_store_open(context, url, &store, key, sizeof key, err);
    if (store && !*key)
        *is = is_group(store);
    stk_store_close(&store);
    free(url);
    /* A store that does not answer is asked no more. */
    return status == STK_EIO || status == STK_ETIMEDOUT ? status : STK_OK;
}
