/* A loader without its ledger: included before each of its files, for the program ledger_without.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_BENCH_NO_LEDGER_H
#define STK_BENCH_NO_LEDGER_H

#include "loader/loader.h"

#define stk__stamp() UINT64_C(0)

#define stk__probed(context)      false
#define stk__emit(context, event) ((void)(event))

#define stk__trend_add(trend, bytes, ns)                   ((void)0)
#define stk__stall_starve_locked(loader)                   ((void)0)
#define stk__stall_feed_locked(loader, now_ns)             ((void)0)
#define stk__stall_cold_locked(loader)                     ((void)0)
#define stk__stall_task_locked(worker, start_ns, end_ns)   ((void)0)
#define stk__stall_settle_locked(loader, step, asked, got) ((void)0)
#define stk__stall_in_vain(loader, asked_ns, turn)         ((void)0)

#endif
