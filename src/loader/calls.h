/* a loader calls what outsiders may write -> who is in such a call, and for how long */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_LOADER_CALLS_H
#define STK_SRC_LOADER_CALLS_H

#include <stoker/loader.h>

#include "base/base.h"

typedef struct stk__worker stk__worker;

/* The calling thread is in a function of a loader's dataset, transform or store. */
typedef struct stk__call {
    const stk_loader *loader;
    const struct stk__call *outer;
} stk__call;

void stk__call_begin(stk__call *call, const stk_loader *loader);
void stk__call_end(const stk__call *call);
/* STK_EINVAL where the calling thread is in such a function of this loader: it would wait for
 * itself. */
stk_status stk__call_check(const stk_loader *loader, const char *function, stk_error *err);
/* Whether dataset and transforms are built in. */
bool stk__loader_is_own(const stk_loader *loader);
/* What a worker is doing, and for how long; returns the length, 0: nothing. */
size_t stk__call_describe(const stk__worker *worker, const char *who, uint64_t now, char *text,
                          size_t size);
/* The thread that says when a call in the caller's own does not end; none where it is not needed.
 */
stk_status stk__watch_start(stk_loader *loader, stk_error *err);
/* stopping is set. (L) free. */
void stk__watch_stop(stk_loader *loader);

#endif
