/* figures <-> names: what the log calls them */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_MEASURE_FIGURES_H
#define STK_SRC_MEASURE_FIGURES_H

#include "measure/measure.h"

enum {
    STK__FIGURE_REAL,   /* double */
    STK__FIGURE_COUNT,  /* uint64_t */
    STK__FIGURE_WHOLE,  /* int64_t */
    STK__FIGURE_CORES,  /* uint32_t */
    STK__FIGURE_SWITCH, /* bool */
    STK__FIGURE_TEXT,   /* char[STK__FIGURE_TEXT_SIZE] */
};

#define STK__FIGURE_TEXT_SIZE sizeof(((stk_figures *)0)->chunks)

typedef struct stk__figure {
    const char *name;
    size_t offset; /* in stk_figures */
    int kind;
    double least, most; /* of a number that is read */
} stk__figure;

extern const stk__figure stk__figures[];
extern const size_t stk__num_figures;

#endif
