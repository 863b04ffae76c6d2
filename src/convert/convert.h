/* dataset in one form -> the same data in another */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CONVERT_CONVERT_H
#define STK_SRC_CONVERT_CONVERT_H

#include <stoker/convert.h>

#include "base/base.h"

/* A conversion that was begun: what every converter is given. */
struct stk_conversion {
    stk_context *context; /* held */
    const struct stk__converter *converter;
    char *source, *target;
    stk_dataset *dataset; /* `source`, opened */
    atomic_bool canceled;
    bool ran;
};

/*
 * The seam of this room. To add a way to convert: a file src/convert/NAME.c with such a table, its
 * declaration below, and a row in the table of src/stoker.c.
 */
typedef struct stk__converter {
    stk_converter shown;
    /* Endings of targets that it writes ("|.zarr|"); NULL: a folder without such an ending. */
    const char *endings;
    /* Options of stk_convert_options that do nothing here, NULL-ended, or NULL. */
    const char *const *ignores;
    /* Whether it reads such samples; *why says why not, as the end of "SOURCE cannot be written as
     * ...: it". The first converter that suits the target and accepts the source is chosen. */
    bool (*accepts)(const stk_dataset *dataset, const char **why);
    /* Options are complete and in range. */
    stk_status (*run)(stk_conversion *conversion, const stk_convert_options *options,
                      const void *own, stk_conversion_report *report, stk_error *err);
} stk__converter;

extern const stk__converter stk__convert_images, stk__convert_idx;
extern const stk_option_table stk__convert_option_table, stk__convert_images_option_table,
    stk__survey_option_table;

/* A field of a dataset by name; NULL when there is none. */
const stk_field *stk__convert_field(const stk_dataset *dataset, const char *name);

#endif
