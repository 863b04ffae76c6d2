/* SPDX-License-Identifier: Apache-2.0 */
/* A model of layers of whose parameters each rank steps a part. */
#include "train/model_module.h"

stk_status stk__module_shard(stk_module *module, const stk_shard *shards, size_t n, stk_error *err)
{
    stk__model_module *self = (stk__model_module *)module;

    if (self->num_parts)
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRAIN,
                         "ranks share out what learns when training begins, and \"%.100s\" begins "
                         "to learn later (backbone_finetuning): train it by trainer.strategy ddp",
                         self->parts[0].patterns);
    self->shards = shards;
    self->num_shards = n;
    return STK_OK;
}

bool stk__module_whole(const stk_module *module, const stk_state_tensor *part,
                       stk_state_tensor *whole, size_t *parameter)
{
    const stk__model_module *self = (const stk__model_module *)module;

    return self->optimizer && stk__optimizer_whole(self->optimizer, part, whole, parameter);
}
