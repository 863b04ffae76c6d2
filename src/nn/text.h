/* text -> items of layers and their arguments */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_NN_TEXT_H
#define STK_SRC_NN_TEXT_H

#include "base/items.h"
#include "base/numbers.h"
#include "base/options.h"

#define STK__MAX_WHOLE 64 /* numbers in one list */

extern const stk__items_kind stk__layer_items;

/* Take "from", the layer whose output this one reads, off the arguments; NULL: none is given. */
const char *stk__layer_from(stk__item *item);
/* Fill a struct of `table`; `places` names the arguments by place, parted by spaces; where fewer
 * than `full` are given, the first is left out. */
stk_status stk__layer_options_read(const stk__item *item, const stk_option_table *table,
                                   const char *places, uint32_t full, void *options,
                                   stk_error *err);
/* "2, 4, 8" -> whole numbers within [min, max]; *count of at most `capacity`. */
stk_status stk__whole_read(const char *who, const char *argument, const char *text, int64_t min,
                           int64_t max, int64_t *out, uint32_t capacity, uint32_t *count,
                           stk_error *err);
/* "3", "3x5", "(3, 5)" -> two numbers, of the argument of layer `who`. */
stk_status stk__pair_read(const char *who, const char *argument, const char *text, int64_t min,
                          int64_t max, int64_t out[2], stk_error *err);

#endif
