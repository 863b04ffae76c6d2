/* text of an option -> names of columns, and what stands behind them */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_TABLE_LISTED_H
#define STK_SRC_DATASET_TABLE_LISTED_H

#include "base/base.h"

/* A name of a list in an option: up to one of `stops`, or in backticks, as where= has
 * names, whatever it holds. `*at` is behind it then. False: a backtick lacks the other, or
 * something else follows it. */
bool stk__table_take_name(const char **at, const char *stops, const char **name, size_t *length);

/* "COLUMN:TYPE" of types=. */
typedef struct stk__table_typed {
    const char *name;
    size_t length;
    stk_dtype dtype; /* NONE: of texts or bytes */
    bool text, list;
} stk__table_typed;

/* The next of those with commas between, which there is; `lists`: TYPE[] are lists of any length.
 * STK_EINVAL. */
stk_status stk__table_next_type(const char **at, bool lists, stk__table_typed *out, stk_error *err);

#endif
