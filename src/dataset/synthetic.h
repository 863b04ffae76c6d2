/* Options and planned work of `synthetic:`. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_SYNTHETIC_H
#define STK_SRC_DATASET_SYNTHETIC_H

#include "dataset/dataset.h"

/* Most bytes of one field, and of one read. */
#define STK_SYNTHETIC_BYTES (UINT64_C(1) << 30)

typedef enum stk__distribution {
    STK_CONSTANT = 0,
    STK_EXPONENTIAL,
    STK_LOGNORMAL,
    STK_PARETO
} stk__distribution;

typedef struct stk__synthetic_options {
    uint32_t struct_size;
    uint64_t size, seed;
    const char *shape, *dtype;
    bool label;
    const char *ragged, *value_bytes;          /* "MIN..MAX" or "N"; NULL: no such field */
    double delay, tail_share, tail_delay, cpu; /* seconds; tail_share: of samples */
    int32_t distribution;                      /* stk__distribution */
    double fail, fail_transient;               /* shares of samples */
    uint64_t read_bytes, block_size;
    bool cost_hint;
} stk__synthetic_options;

/* What is asked of one sample, a pure function of (seed, index). */
typedef struct stk__synthetic_work {
    double delay, cpu;      /* seconds */
    stk_status status;      /* how it fails, or STK_OK */
    uint64_t ragged, bytes; /* elements and bytes of the fields that vary */
} stk__synthetic_work;

/* A closed range of sizes. */
typedef struct stk__span {
    uint64_t low, high;
} stk__span;

void stk__synthetic_plan(const stk__synthetic_options *o, stk__span ragged, stk__span bytes,
                         uint64_t index, stk__synthetic_work *out);
/* "28x28x1": the first field, whose `dtype` is set; at most STK_SYNTHETIC_BYTES. */
stk_status stk__synthetic_shape(const char *text, stk_field *field, stk_error *err);
/* "MIN..MAX" or "N", each `itemsize` bytes: the value of the option `name`. */
stk_status stk__synthetic_span(const char *name, const char *text, uint64_t itemsize,
                               stk__span *out, stk_error *err);
/* Sleep and burn what the work says. */
void stk__synthetic_spend(const stk__synthetic_work *work);

#endif
