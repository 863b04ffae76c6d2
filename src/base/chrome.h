/* Events of a trace as Chrome's and Perfetto's JSON [Trace Event Format, Google]. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_CHROME_H
#define STK_SRC_BASE_CHROME_H

#include "base/text.h"

/* Threads of the format: who takes the steps; workers; batches in the making and reads, which
 * overlap. */
enum {
    STK__LANE_STEP = 0,
    STK__LANE_WORKERS = 1000,
    STK__LANE_BATCHES = 2000,
    STK__LANE_READS = 3000
};

/* Where and when an event is. */
typedef struct stk__chrome_place {
    uint64_t process;
    uint32_t lane;
    uint64_t when_ns;
} stk__chrome_place;

/* What every event has. `phase`: X a span, i an instant, C a counter, b and e what overlaps, s, t
 * and f an arrow. The caller goes on with ",members" and the closing brace. */
void stk__chrome_begin(stk__text *out, const char *name, const char *category, char phase,
                       stk__chrome_place at);
/* A span that ends at `end_ns`, likewise. */
void stk__chrome_begin_span(stk__text *out, const char *name, const char *category,
                            stk__chrome_place at, uint64_t end_ns);
/* ',"args":{...}' of a batch. */
void stk__chrome_batch(stk__text *out, uint64_t epoch, uint64_t step, uint64_t samples);
/* A whole event that names a lane ("thread_name") or the process ("process_name"). */
void stk__chrome_name(stk__text *out, const char *what, stk__chrome_place at, const char *name);

#endif
