/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of a module's tensors in memory, to go back to. */
#include "train/callbacks/copy.h"

typedef struct taking {
    stk_trainer *trainer;
    stk__copy *copy;
    size_t next;
} taking;

static stk_status no_memory(uint64_t bytes, stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN,
                     "no memory for a copy of %llu bytes of state", (unsigned long long)bytes);
}

/* A new entry at the end. */
static stk_status add(stk__copy *copy, stk_state_kind kind, const stk_state_tensor *tensor,
                      stk_error *err)
{
    stk__copy_tensor *tensors =
        stk__grow(copy->ctx, copy->tensors, &copy->room, copy->n + 1, sizeof *tensors);
    if (!tensors)
        return no_memory((copy->n + 1) * sizeof *tensors, err);
    copy->tensors = tensors;
    stk__copy_tensor *to = &copy->tensors[copy->n];
    *to = (stk__copy_tensor){.tensor = *tensor, .kind = kind};
    to->tensor.name = stk__strdup(copy->ctx, tensor->name);
    to->tensor.data = stk__alloc_buffer(copy->ctx, (size_t)tensor->bytes);
    if (!to->tensor.name || !to->tensor.data) {
        stk__free(copy->ctx, (char *)to->tensor.name);
        stk__free(copy->ctx, to->tensor.data);
        return no_memory(tensor->bytes, err);
    }
    copy->n++;
    return STK_OK;
}

stk_status stk__copy_add(stk__copy *copy, stk_state_kind kind, const stk_state_tensor *tensor,
                         void **data, stk_error *err)
{
    STK_TRY(add(copy, kind, tensor, err));
    *data = copy->tensors[copy->n - 1].tensor.data;
    return STK_OK;
}

static stk_status take_one(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                           stk_error *err)
{
    taking *at = user;
    stk__copy *copy = at->copy;

    if (at->next == copy->n)
        STK_TRY(add(copy, kind, tensor, err));
    stk__copy_tensor *to = &copy->tensors[at->next++];
    if (to->tensor.bytes != tensor->bytes || strcmp(to->tensor.name, tensor->name))
        return stk__fail(err, STK_EMISMATCH, STK_STAGE_TRAIN,
                         "the module shows '%s' where it showed '%s' before: its state() has to "
                         "keep order and sizes",
                         tensor->name, to->tensor.name);
    return stk_trainer_copy(at->trainer, to->tensor.data, tensor->data, tensor->bytes,
                            STK_COPY_DEVICE_TO_HOST, err);
}

stk_status stk__copy_visit(stk_trainer *t, uint32_t kinds, stk_state_visit *visit, void *user,
                           stk_error *err)
{
    return stk_trainer_module_ops(t)->state(stk_trainer_moment(t)->module, kinds, visit, user, err);
}

stk_status stk__copy_take(stk__copy *copy, stk_trainer *t, uint32_t kinds, stk_error *err)
{
    return stk__copy_visit(t, kinds, take_one, &(taking){.trainer = t, .copy = copy}, err);
}

static stk_status put_one(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                          stk_error *err)
{
    taking *at = user;
    const stk__copy_tensor *from = &at->copy->tensors[at->next];

    if (at->next++ >= at->copy->n || from->tensor.bytes != tensor->bytes)
        return stk__fail(err, STK_EMISMATCH, STK_STAGE_TRAIN,
                         "the module shows '%s' in another place than before", tensor->name);
    return stk_trainer_copy(at->trainer, tensor->data, from->tensor.data, tensor->bytes,
                            STK_COPY_HOST_TO_DEVICE, err);
}

stk_status stk__copy_put(const stk__copy *copy, stk_trainer *t, uint32_t kinds, stk_error *err)
{
    taking at = {.trainer = t, .copy = (stk__copy *)copy};

    return stk__copy_visit(t, kinds, put_one, &at, err);
}

void stk__copy_release(stk__copy *copy)
{
    for (size_t i = 0; i < copy->n; i++) {
        stk__free(copy->ctx, (char *)copy->tensors[i].tensor.name);
        stk__free(copy->ctx, copy->tensors[i].tensor.data);
    }
    stk__free(copy->ctx, copy->tensors);
    copy->tensors = NULL;
    copy->n = copy->room = 0;
}
