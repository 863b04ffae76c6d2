/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of a file, also one of Python's or a checkpoint, into a model. */
#include "checkpoint/weights/weights.h"
#include "nn/nn.h"
#include "train/trainer.h"

stk_status stk_model_load_file(stk_context *ctx, stk_model *model, const char *path, bool strict,
                               size_t *taken, stk_error *err)
{
    stk__weights weights;

    stk_error_init(err);
    STK_TRY(stk__context_check(ctx, err));
    STK_TRY(stk__weights_load(ctx, path, NULL, &weights, err));
    const stk_status status =
        stk__model_load(model, weights.tensors, weights.num_tensors, strict, taken, err);
    if (status == STK_EMISMATCH && err) {
        char why[STK_ERROR_TEXT];
        memcpy(why, err->text, sizeof why);
        stk__fail_at(err, status, STK_STAGE_TRAIN, path, STK_NO_OFFSET, "'%.120s': %.510s", path,
                     why);
    }
    stk__weights_release(&weights);
    return status;
}
