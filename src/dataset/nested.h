/* "0.7*(SPEC),0.3*(SPEC)" -> open datasets */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_NESTED_H
#define STK_SRC_DATASET_NESTED_H

#include "dataset/dataset.h"

#define STK_NESTED_MAX       256 /* datasets in a spec */
#define STK_NESTED_MAX_DEPTH 8   /* of parentheses in parentheses */

/* The datasets that a spec names in parentheses. */
typedef struct stk__nested {
    stk_context *ctx;
    uint32_t count;
    stk_dataset **datasets; /* open */
    double *weights;        /* 1 where none is given */
} stk__nested;

/* Whether specs of a kind hold other specs. */
bool stk__is_nested(const stk_dataset_ops *kind);
/* Whether the parentheses of "(SPEC),(SPEC)?options" are in pairs: else it has no options. */
stk_status stk__nested_check(const char *kind, const char *text, stk_error *err);
/*
 * Open what "(SPEC),(SPEC)" names; `kind` is for messages. With `weighted` a number and a '*' may
 * stand before each. On failure nothing is open. Blocks.
 */
stk_status stk__nested_open(stk_context *ctx, const char *kind, const char *text, bool weighted,
                            stk__nested *out, stk_error *err);
/* Close those that nobody has taken over (they are NULL then), and free the lists. */
void stk__nested_release(stk__nested *nested);
/* Whether the samples of all are alike: fields of the same names, types and shapes. */
stk_status stk__nested_same_fields(const stk__nested *nested, const char *kind, stk_error *err);

#endif
