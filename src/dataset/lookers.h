/* Threads that list and look at files while a dataset is opened, and tell of it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_LOOKERS_H
#define STK_SRC_DATASET_LOOKERS_H

#include "base/base.h"

/* Of another machine: they wait, whatever the cores. */
#define STK__LOOKERS_FAR 16u

/* Threads that listing gains from: it waits more than it works. */
uint32_t stk__lookers(const stk_context *ctx);

/* Run `work` on some threads, all with the same argument, until all have returned; the calling
 * thread tells of progress meanwhile. With 1, or where no thread starts, it works itself. */
void stk__lookers_run(stk_context *ctx, uint32_t threads, void (*work)(void *), void *argument,
                      const char *what, const atomic_uint_fast64_t *done, uint64_t total);

#endif
