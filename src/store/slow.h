/* seed, number of a read -> its latency and failure: what the slow store draws */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_SLOW_H
#define STK_SRC_STORE_SLOW_H

#include "store/store.h"

enum { STK__SLOW_FIFO, STK__SLOW_RANDOM };

typedef struct stk__slow_options {
    uint32_t struct_size;
    double latency, jitter; /* seconds */
    int32_t distribution;
    double bandwidth; /* bytes per second; 0: no limit */
    double fail;
    int32_t fail_kind, order;
    uint64_t seed;
} stk__slow_options;

extern const stk_option_table stk__slow_option_table;

/* What read `number` of a store has drawn. */
typedef struct stk__slow_draw {
    uint64_t latency_ns;
    stk_status status; /* STK_OK: it is read */
    double place;      /* in [0, 1): with which of the reads under way it changes places */
} stk__slow_draw;

void stk__slow_draw_read(const stk__slow_options *options, uint64_t number, const stk_read *read,
                         stk__slow_draw *out);

#endif
