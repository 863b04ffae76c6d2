/* "url?name=value" -> url, options */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_SPEC_H
#define STK_SRC_BASE_SPEC_H

#include "base/base.h"

/*
 * Where the query of a spec begins: at its first '?' outside parentheses, in which other specs
 * stand with queries of their own. Where the parentheses are not in pairs, as in names of files,
 * at the first of all. NULL: there is none.
 */
const char *stk__spec_query(const char *text);
/*
 * Take the options of `table` out of the query of "url?name=value&name=value": known names are set
 * in `options`, the others stay. `url` (writable) becomes the rest. Values may be %-escaped.
 * `texts` receives a block that the values of STRING options point into, to be freed with
 * stk__free() after use; NULL when there is none.
 */
stk_status stk__spec_take(stk_context *ctx, char *url, const stk_option_table *table, void *options,
                          char **texts, stk_error *err);
/* Fail for the first option of a query that no table has taken; the table names the nearest. */
stk_status stk__spec_unknown(const stk_option_table *table, const char *query, stk_error *err);

#endif
