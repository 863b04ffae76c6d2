/* arrays of one length, in a file -> samples of their rows */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_ROWS_H
#define STK_SRC_DATASET_ROWS_H

#include "base/options.h"
#include "dataset/window.h"

/* An array that may be a field. */
typedef struct stk__rows_array {
    char *path;       /* below the group: "images" */
    stk_array *array; /* NULL: it cannot be a field */
    char *why;        /* of one that cannot: "holds string" */
} stk__rows_array;

#define STK__ROWS_MOST 256 /* arrays that are opened to choose from */

/* What was found in a file, or those that were asked for, in their order. */
typedef struct stk__rows {
    stk_context *context;
    const char *url;    /* of the group, for messages and to open what is in it */
    const char *fields; /* names with commas; NULL or "": all that can be */
    stk_array_options options;
    stk__rows_array *arrays;
    size_t count, room;
    uint64_t held; /* bytes of members that are kept unpacked */
} stk__rows;

typedef struct stk__rows_options {
    uint32_t struct_size;
    const char *fields, *group;
} stk__rows_options;
#define STK__ROWS_OPTION_COUNT 2
extern const stk_option stk__rows_option_list[STK__ROWS_OPTION_COUNT];

/* How a kind finds arrays. It adds each by stk__rows_add(). */
typedef stk_status stk__rows_find(stk__rows *rows, stk_error *err);

/* Add an array, which is taken over, also on failure; NULL: it cannot be one, as `why` says. */
stk_status stk__rows_add(stk__rows *rows, const char *path, stk_array *array, const char *why,
                         stk_error *err);
/* The next name of the list of fields, which `*at` is moved past. */
stk_status stk__rows_next_field(const stk__rows *rows, const char **at, char *name, size_t size,
                                stk_error *err);

/* The names that there are, for a message on one that is not. */
typedef struct stk__rows_names {
    stk__nearest nearest;
    char known[256];
} stk__rows_names;
void stk__rows_names_init(stk__rows_names *names, const char *wanted);
void stk__rows_names_add(stk__rows_names *names, const char *name);
/* "there is no array 'X'; there are ...": STK_ENOENT. */
stk_status stk__rows_unknown(const stk__rows_names *names, const char *wanted, stk_error *err);

/* Decide which arrays are fields, and what they are called. `row` has room for STK__WINDOW_FIELDS,
 * whose arrays are the caller's then; *notes, also on failure, too. (rows_choose.c) */
stk_status stk__rows_choose(stk__rows *rows, stk__window_row *row, uint32_t *n, char **notes,
                            stk_error *err);

/* Whether an array is labels by its name and type. (rows_choose.c) */
bool stk__rows_is_label_name(const char *path);
bool stk__rows_is_label(const char *path, const stk_array_info *info);

/* Open the rows of what `find` finds. `url` is the spec's. */
stk_status stk__rows_open(stk_context *ctx, const stk_dataset_ops *ops, stk__rows_find *find,
                          const char *url, const stk__rows_options *o, stk_dataset **out,
                          stk_error *err);

/* As recognise(): whether an HDF5 file is plainly a table: labels, and other rows of their number,
 * without names of dimensions. Blocks. */
int stk__rows_recognise(stk_context *ctx, const char *url);
/* Whether a URL names an npz file by its name: "zip:x.npz!/". */
bool stk__npz_named(const stk_context *ctx, const char *url);

#endif
