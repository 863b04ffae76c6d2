/* Memory that several threads use at a time: who finds too little of it left waits. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CONVERT_SHARE_H
#define STK_SRC_CONVERT_SHARE_H

#include "base/base.h"

#define STK__SHARE_REASON 256

/* A part of the context's memory_limit. Who holds of two takes them in the same order as others. */
typedef struct stk__share {
    const char *use, *part, *remedy; /* for messages: "decoding it", "half", ", or save ..." */
    uint64_t most;
    pthread_mutex_t lock; /* guards `held` */
    pthread_cond_t given;
    uint64_t held;
} stk__share;

void stk__share_init(stk__share *share, uint64_t most, const char *use, const char *part,
                     const char *remedy);
void stk__share_release(stk__share *share);
/* Wait for `bytes`. STK_EBUDGET when all of it is too little, with both numbers in `reason`. */
stk_status stk__share_take(stk__share *share, uint64_t bytes, char reason[STK__SHARE_REASON]);
void stk__share_give(stk__share *share, uint64_t bytes);

#endif
