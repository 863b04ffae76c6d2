/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"

#include <errno.h>
#include <time.h>

#define CANCEL_CHECK_NS UINT64_C(20000000)

static uint64_t read_clock(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

uint64_t stk__now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

double stk__wall_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

uint64_t stk__thread_cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t stk__process_cpu_ns(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

void stk__sleep_until(uint64_t when_ns, const atomic_bool *cancel)
{
    for (uint64_t now = stk__now_ns(); now < when_ns; now = stk__now_ns()) {
        uint64_t until = when_ns;
        if (cancel) {
            if (atomic_load_explicit(cancel, memory_order_relaxed))
                return;
            until = STK_MIN(when_ns, now + CANCEL_CHECK_NS);
        }
        struct timespec t = {.tv_sec = (time_t)(until / 1000000000u),
                             .tv_nsec = (long)(until % 1000000000u)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
    }
}
