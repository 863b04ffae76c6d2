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

bool info_is_array(stk_context *context, const char *spec)
{
    static const char *const groups[] = {".zgroup", ".zmetadata"};
    const stk_array_format_ops *format = NULL;
    stk_object_info info = {.struct_size = sizeof info};
    const char *query = strchr(spec, '?');
    stk_store *store = NULL;
    bool is = false;
    char key[4096];

    if (asks_for_dataset(context, spec))
        return false;
    if (strncmp(spec, "array:", 6) == 0)
        return true;
    for (size_t i = 0; stk_driver_at(context, STK_DRIVER_DATASET, i); i++) {
        const char *name = stk_driver_at(context, STK_DRIVER_DATASET, i)->name;
        if (strncmp(spec, name, strlen(name)) == 0 && spec[strlen(name)] == ':')
            return false;
    }
    /* A format that is named holds several arrays, and is none of a dataset. */
    if (query && stk_array_recognise(context, spec, &format) == 2 && format->takes_rest)
        return true;
    /* Options in the query may be the array's, and the store knows none of them. */
    char *url = query ? strndup(spec, (size_t)(query - spec)) : strdup(spec);
    if (url && stk_array_recognise(context, url, &format) == 2)
        is = strcmp(format->name, "npy") != 0; /* one file is the dataset's of the same name */
    else if (url && stk_store_open(context, url, &store, key, sizeof key, NULL) == STK_OK && !*key)
        for (size_t i = 0; i < sizeof groups / sizeof *groups && !is; i++)
            is = stk_store_stat(store, groups[i], NULL, &info, NULL) == STK_OK && !info.is_folder;
    stk_store_close(&store);
    free(url);
    return is;
}
