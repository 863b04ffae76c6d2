/* A loader without its ledger: included before each of its files, for the program ledger_without.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_BENCH_NO_LEDGER_H
#define STK_BENCH_NO_LEDGER_H

#include "base/probe.h"
#include "loader/parts.h"
#include "store/trend.h"

#define stk__stamp() UINT64_C(0)

#define stk__probed(context)      false
#define stk__emit(context, event) ((void)(event))

#define stk__trend_add(trend, bytes, ns)                                    ((void)0)
#define stk__stall_round_locked(stalls)                                     ((void)0)
#define stk__stall_starve_locked(stalls)                                    ((void)0)
#define stk__stall_starves_locked(stalls)                                   false
#define stk__stall_feed_locked(stalls, now_ns)                              ((void)0)
#define stk__stall_cold_locked(stalls)                                      ((void)0)
#define stk__stall_widened_locked(stalls)                                   ((void)0)
#define stk__stall_helped_locked(stalls, end_ns)                            ((void)0)
#define stk__stall_task_locked(path, last, work, idle_ns, start_ns, end_ns) ((void)(last))
#define stk__stall_settle_locked(stalls, steps, step, idle, asked, got)     ((void)(step))
#define stk__stall_in_vain_locked(stalls, asked_ns, turn)                   ((void)0)

#endif
