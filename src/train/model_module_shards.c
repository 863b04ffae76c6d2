/* SPDX-License-Identifier: Apache-2.0 */
/* A model of layers that ranks share out: of each parameter one steps a part, and may have no more
 * of it outside of its layer. */
#include "train/model_module.h"
#include "train/trainer.h"

stk_status stk__module_shard(stk_module *module, uint32_t kinds, const stk_shard *shards, size_t n,
                             stk_error *err)
{
    stk__model_module *self = (stk__model_module *)module;

    self->shards = shards;
    self->num_shards = n;
    self->parted = kinds & STK_STATE_PARAMETER;
    return STK_OK;
}

void stk__module_cut(const stk__model_module *self, size_t number, stk_state_tensor *tensor)
{
    const stk_shard *shard = &self->shards[number];
    const size_t size = stk_dtype_size(tensor->dtype);

    tensor->rank = 1;
    tensor->shape[0] = (int64_t)shard->count;
    tensor->data = (char *)tensor->data + shard->from * size;
    tensor->bytes = shard->count * size;
}

static bool whole_parameter(const stk__model_module *self, const char *name,
                            stk_state_tensor *whole, size_t *parameter)
{
    size_t number = 0;

    for (size_t i = 0; stk_model_get_state(self->model, i, whole, NULL) == STK_OK; i++) {
        /* Names stay where they are. */
        if (whole->name == name) {
            *parameter = number;
            return true;
        }
        number += stk__model_may_learn(self->model, i);
    }
    return false;
}

bool stk__module_whole(const stk_module *module, stk_state_kind kind, const stk_state_tensor *part,
                       stk_state_tensor *whole, size_t *parameter)
{
    const stk__model_module *self = (const stk__model_module *)module;

    if (kind == STK_STATE_OPTIMIZER)
        return self->optimizer && stk__optimizer_whole(self->optimizer, part, whole, parameter);
    return kind == STK_STATE_PARAMETER && self->parted &&
           whole_parameter(self, part->name, whole, parameter);
}

stk_status stk__module_wants(void *trainer, const stk_state_tensor *parameters, size_t n,
                             stk_error *err)
{
    return stk_trainer_parameters_wanted(trainer, parameters, n, err);
}
