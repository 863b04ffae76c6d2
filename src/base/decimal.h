/* a real number -> the shortest decimal that reads back as it */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_DECIMAL_H
#define STK_SRC_BASE_DECIMAL_H

#include "base/base.h"

#define STK__DECIMAL 32 /* bytes of such a text, with its end */

/* As Python's repr() writes it, but "3" for its "3.0": with an exponent below 1e-4 and from 1e16
 * on; "nan", "inf", "-inf". The locale does not matter. Returns the length. */
int stk__decimal(double value, char text[STK__DECIMAL]);
/* The same of an element of a float type: the fewest digits that read back as it in that type. */
int stk__decimal_of(stk_dtype dtype, const void *element, char text[STK__DECIMAL]);

#endif
