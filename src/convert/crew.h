/* threads, a number of tasks -> all of them done */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CONVERT_CREW_H
#define STK_SRC_CONVERT_CREW_H

#include "base/base.h"

typedef struct stk__crew stk__crew;

/* Do task `task`, by thread `member` of the crew: 0 up to its size. A failure ends the run. */
typedef stk_status stk__crew_fn(void *user, uint32_t member, uint64_t task, stk_error *err);
/* Called by the caller's thread ten times a second while others work; a failure ends the run. */
typedef stk_status stk__crew_watch_fn(void *user, stk_error *err);

/* `threads` 0: the caller's does everything. Errors: STK_ENOMEM, STK_ETHREAD. */
stk_status stk__crew_create(stk_context *ctx, uint32_t threads, stk__crew **out, stk_error *err);
/* Accepts NULL. */
void stk__crew_destroy(stk__crew **crew);
/* Members: the most that `member` gets, and one more. */
uint32_t stk__crew_size(const stk__crew *crew);
/* Do tasks [0, count), each once, in any order, by at most `most` members (0: all), and wait for
 * them. The first failure is given; then tasks that nobody had begun are left. One caller. */
stk_status stk__crew_run(stk__crew *crew, uint32_t most, uint64_t count, stk__crew_fn *task,
                         stk__crew_watch_fn *watch, void *user, stk_error *err);

#endif
