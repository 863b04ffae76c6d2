/* text -> names and arguments of transforms */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRANSFORM_ARGUMENTS_H
#define STK_SRC_TRANSFORM_ARGUMENTS_H

#include "base/base.h"

/* Bounds of a text of transforms: there is no need for more, and the numbers of draws stay small.
 */
#define STK__MAX_CALLS     64
#define STK__MAX_ARGUMENTS 32

typedef struct stk__argument {
    char *name; /* NULL: by place */
    char *value;
} stk__argument;

typedef struct stk__call {
    char *name;
    uint32_t first, count; /* its arguments */
} stk__call;

/* "name(value, key=value), name" taken apart. All texts point into `text`. */
typedef struct stk__calls {
    char *text;
    stk__call *calls;
    stk__argument *arguments;
    uint32_t num_calls, num_arguments;
} stk__calls;

/* `what` stands in messages for the option that the text is from. NULL and blank texts have no
 * calls. */
stk_status stk__calls_parse(stk_context *ctx, const char *what, const char *text, stk__calls *out,
                            stk_error *err);
void stk__calls_release(stk_context *ctx, stk__calls *calls);

/* Fill a struct of `table` (may be NULL: takes no arguments) from the arguments of a call. */
stk_status stk__call_options(const stk__calls *calls, const stk__call *call,
                             const stk_option_table *table, void *options, stk_error *err);

/* "2", "[2, 4]" or, with `by_x`, "32x28" -> numbers. Messages name transform and argument. */
typedef struct stk__numbers {
    const char *who, *argument, *text;
    double min, max;
    bool whole; /* integers only */
    bool by_x;  /* 'x' parts numbers as ',' does */
} stk__numbers;

/* Read at most `capacity` numbers; *count is how many, at least 1. `out` may be NULL, to count. */
stk_status stk__numbers_read(const stk__numbers *numbers, double *out, uint32_t capacity,
                             uint32_t *count, stk_error *err);

/* A size "32" (a square) or "HEIGHTxWIDTH"; `example` stands in the message for a missing one. */
stk_status stk__size_read(const char *who, const char *text, const char *example, int64_t *height,
                          int64_t *width, stk_error *err);

/* A padding of 1 (all), 2 (left and right, top and bottom) or 4 numbers (left, top, right, bottom).
 */
typedef struct stk__padding {
    int64_t left, top, right, bottom;
} stk__padding;

bool stk__padding_any(const stk__padding *padding);
stk_status stk__padding_read(const char *who, const char *text, stk__padding *out, stk_error *err);

#endif
