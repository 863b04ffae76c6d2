/* tensors of a module -> copies in memory of the host, and back */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_CALLBACKS_COPY_H
#define STK_SRC_TRAIN_CALLBACKS_COPY_H

#include <stoker/trainer.h>

#include "base/base.h"

typedef struct stk__copy_tensor {
    stk_state_tensor tensor; /* name and data are its own */
    stk_state_kind kind;
} stk__copy_tensor;

typedef struct stk__copy {
    stk_context *ctx;
    stk__copy_tensor *tensors;
    size_t n, room;
} stk__copy;

/* Take (or take again, without allocating) the tensors of `kinds` of the module at work. */
stk_status stk__copy_take(stk__copy *copy, stk_trainer *t, uint32_t kinds, stk_error *err);
/* One more tensor, as `tensor` but without its data; into *data where they go. */
stk_status stk__copy_add(stk__copy *copy, stk_state_kind kind, const stk_state_tensor *tensor,
                         void **data, stk_error *err);
/* Put them back. */
stk_status stk__copy_put(const stk__copy *copy, stk_trainer *t, uint32_t kinds, stk_error *err);
void stk__copy_release(stk__copy *copy);
/* Show the tensors of the module at work; it has to have state(). */
stk_status stk__copy_visit(stk_trainer *t, uint32_t kinds, stk_state_visit *visit, void *user,
                           stk_error *err);

#endif
