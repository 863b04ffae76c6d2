/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thinning as a virtual clock: each item let through moves `paid_ns` on by one interval; items pass
 * while it is not ahead of the time. It may lag by a second at most, so that work in bursts below
 * the rate is never thinned.
 */
#include "measure/measure.h"

#define SECOND_NS UINT64_C(1000000000)

void stk__thinner_init(stk__thinner *thinner, uint64_t rate)
{
    thinner->interval_ns = SECOND_NS / rate;
    atomic_init(&thinner->paid_ns, 0);
    atomic_init(&thinner->dropped, 0);
}

uint64_t stk__thinner_pass(stk__thinner *thinner, uint64_t n, uint64_t now_ns)
{
    uint64_t oldest = now_ns > SECOND_NS ? now_ns - SECOND_NS : 0;
    uint64_t paid = atomic_load_explicit(&thinner->paid_ns, memory_order_relaxed);
    uint64_t from, pass;

    do {
        from = STK_MAX(paid, oldest);
        pass = from < now_ns ? STK_MIN(n, (now_ns - from) / thinner->interval_ns) : 0;
        if (pass == 0)
            break;
    } while (!atomic_compare_exchange_weak_explicit(&thinner->paid_ns, &paid,
                                                    from + pass * thinner->interval_ns,
                                                    memory_order_relaxed, memory_order_relaxed));
    if (pass < n)
        atomic_fetch_add_explicit(&thinner->dropped, n - pass, memory_order_relaxed);
    return pass;
}

uint64_t stk__thinner_take(stk__thinner *thinner)
{
    return atomic_exchange_explicit(&thinner->dropped, 0, memory_order_relaxed);
}
