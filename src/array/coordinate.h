/* SPDX-License-Identifier: Apache-2.0 */
/* What this room alone does with coordinates. (coordinate.c) */
#ifndef STK_SRC_ARRAY_COORDINATE_H
#define STK_SRC_ARRAY_COORDINATE_H

#include "array/room.h"

/* Turn an element of `array` of at most 8 bytes, a time of `from`, into the same date in the units
 * of `to`, of the same calendar; both without scale, offset and months. False: it is no date, or
 * elements of the type have none in those units that is the same; `value` is lost then. */
bool stk__coordinate_convert(const stk__coordinate *from, const stk__coordinate *to,
                             const stk_array *array, void *value);
/* "1979-01-01T00:00:00 to 2021-12-31T18:00:00", the first and the last of a list of times, which
 * are read. False: it is none, or they cannot be. */
bool stk__coordinate_ends(stk_array *array, char *text, size_t size);

#endif
