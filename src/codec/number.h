/* numbers as filters store them -> wide numbers, and back. Inside src/codec. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CODEC_NUMBER_H
#define STK_SRC_CODEC_NUMBER_H

#include "codec/step.h"

#define STK__WIDE_COUNT 512 /* numbers of a block that stays in the first-level cache */

/* A block of numbers, all of the class of their type: bool and unsigned as u, signed as i, floats
 * as f. Conversions between classes are C's; NaN and floats beyond an integer become what x86
 * gives: the upper bit alone. */
typedef union stk__wide {
    int64_t i[STK__WIDE_COUNT];
    uint64_t u[STK__WIDE_COUNT];
    double f[STK__WIDE_COUNT];
} stk__wide;

/* NumPy's type string ("<f4", "|b1", "<M8[ns]") or name ("float32"); false for others. Times are
 * the integers that they are stored as. */
bool stk__number_parse(const char *text, stk__number *out);
/* 'i', 'u' or 'f' for a type. */
char stk__number_class(stk__number number);
void stk__number_load(stk__number number, const uint8_t *in, size_t count, stk__wide *out);
/* `class` is that of `in`. */
void stk__number_store(stk__number number, char class, const stk__wide *in, size_t count,
                       uint8_t *out);
/* In half precision, rounded to nearest even. */
uint16_t stk__double_to_half(double x);

#endif
