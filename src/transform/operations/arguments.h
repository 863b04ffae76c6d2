/* text -> arguments of transforms */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRANSFORM_OPERATIONS_ARGUMENTS_H
#define STK_SRC_TRANSFORM_OPERATIONS_ARGUMENTS_H

#include "base/items.h"
#include "base/numbers.h"

/* Of one list: there is no need for more, and the numbers of draws stay small. */
#define STK__MAX_TRANSFORMS 64

extern const stk__items_kind stk__transform_items, stk__batch_transform_items;

/* A size "32" (a square) or "HEIGHTxWIDTH"; `example` is in the message for a missing one. */
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
