/* a step whose rows are all done -> a batch */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_LOADER_FINISH_H
#define STK_SRC_LOADER_FINISH_H

#include "loader/order.h"
#include "loader/steps.h"
#include "transform/transform.h"

/* One thread finishes a step; transforms of batches take turns. */
typedef struct stk__finisher {
    stk_context *ctx;
    const stk__order *order;
    stk__batch_pipeline *pipeline; /* NULL: none */
    uint64_t scratch_bytes;
    char *scratch;
    stk__batch_field *fields; /* of the batch at hand */
    pthread_mutex_t lock;     /* guards these two */
} stk__finisher;

/* For batches of `columns`; the members before `scratch` are filled in, which
 * stk__finisher_release() frees even on failure. STK_ENOMEM. */
stk_status stk__finisher_init(stk__finisher *finisher, uint32_t columns);
void stk__finisher_release(stk__finisher *finisher);
/* The step's last row is done: make a batch of its slab. `worker`: number of the thread. The ring's
 * lock held; let go inside, held at the end. */
void stk__step_finish_locked(stk__finisher *finisher, stk__step *step, uint32_t worker);

#endif
