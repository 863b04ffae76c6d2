/* answers, times -> when to try again, how many at once, what to ask for twice */
/* SPDX-License-Identifier: Apache-2.0 */
/* Pure: no clock, no lock, no memory. */
#ifndef STK_SRC_STORE_HTTP_RETRY_H
#define STK_SRC_STORE_HTTP_RETRY_H

#include "base/base.h"

/* ---- What an answer means ---- */

typedef enum stk__http_again {
    STK__HTTP_FINAL,     /* trying again gives the same */
    STK__HTTP_TRANSIENT, /* it may pass */
    STK__HTTP_THROTTLED, /* it passes when less is asked for */
} stk__http_again;

typedef struct stk__http_verdict {
    stk_status status;
    stk__http_again again;
    const char *remedy; /* never NULL */
} stk__http_verdict;

stk__http_verdict stk__http_judge(int32_t code);

/* ---- When to try again ---- */

/* A random part of `base` doubled with each try so far, 10 s at most ["full jitter", Exponential
 * Backoff And Jitter, AWS 2015]; `word` is the draw. */
uint64_t stk__http_backoff(stk__http_again again, uint32_t tries, uint32_t word);

/* Tokens that retries of one host cost, so that an outage is not made worse by asking
 * [standard_retry_strategy.c of aws-c-io]. */
typedef struct stk__http_bucket {
    uint32_t tokens;
} stk__http_bucket;
#define STK__HTTP_BUCKET 500

void stk__http_bucket_init(stk__http_bucket *bucket);
/* Tokens that a retry has cost; 0: there are too few, it is not to be tried again. */
uint32_t stk__http_bucket_take(stk__http_bucket *bucket, stk__http_again again);
/* An answer came whose retries have cost `spent`. */
void stk__http_bucket_refund(stk__http_bucket *bucket, uint32_t spent);

/* ---- How many at once ---- */

/* Additive increase, multiplicative decrease: a sixteenth of the most, one at least, for as many
 * answers as are under way; a third less where the host throttles, once a second. */
typedef struct stk__http_window {
    double limit, most;
    uint64_t lowered_ns;
} stk__http_window;

void stk__http_window_init(stk__http_window *window, uint32_t most);
void stk__http_window_raise(stk__http_window *window);
void stk__http_window_lower(stk__http_window *window, uint64_t now_ns);

/* ---- What to ask for twice ---- */

#define STK__HTTP_SAMPLES 128
/* The last times of a kind, and how long is longer than usual. */
typedef struct stk__http_times {
    uint64_t ns[STK__HTTP_SAMPLES];
    uint32_t count, next;
    uint64_t long_ns; /* 0: too few to tell */
} stk__http_times;

/* The last answers of a host, and what may be asked for twice: one request in 20. */
typedef struct stk__http_pace {
    stk__http_times first; /* until the first byte */
    stk__http_times rest;  /* the longest that a body brought nothing */
    double credit;         /* requests that may be asked for twice */
} stk__http_pace;

/* A request was sent that no other asks for. */
void stk__http_pace_sent(stk__http_pace *pace);
/* Its first byte came after so long. */
void stk__http_pace_came(stk__http_pace *pace, uint64_t first_ns);
/* How long the first byte may take before the request is sent a second time: a quarter more
 * than the 95th percentile, 20 ms at least; UINT64_MAX: for ever. */
uint64_t stk__http_pace_late(const stk__http_pace *pace);
/* A body came whole, and brought nothing for so long at most. */
void stk__http_pace_rested(stk__http_pace *pace, uint64_t rest_ns);
/* How long a body may bring nothing before the rest is asked for over another connection: likewise,
 * by the longest rests of bodies. */
uint64_t stk__http_pace_quiet(const stk__http_pace *pace);
/* One is asked for twice; false: too many were. */
bool stk__http_pace_twice(stk__http_pace *pace);

#endif
