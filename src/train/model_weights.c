/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of a safetensors file, also one of Python's or a checkpoint, into a model. */
#include "checkpoint/safetensors/safetensors.h"
#include "nn/nn.h"
#include "train/trainer.h"

static bool is_own(const char *name)
{
    return strncmp(name, STK__CHECKPOINT_OWN, strlen(STK__CHECKPOINT_OWN)) == 0;
}

stk_status stk_model_load_file(stk_context *ctx, stk_model *model, const char *path, bool strict,
                               size_t *taken, stk_error *err)
{
    stk__safetensors_file file;
    uint8_t *data = NULL, *moved = NULL;
    stk_state_tensor *tensors = NULL;
    size_t n = 0;

    stk_error_init(err);
    STK_TRY(stk__context_check(ctx, err));
    STK_TRY(stk__safetensors_file_open(ctx, path, &file, err));
    stk_status status = stk__safetensors_file_load(&file, path, &data, &moved, err);
    if (status != STK_OK)
        goto out;
    tensors = stk__calloc(ctx, file.parsed.num_tensors + 1, sizeof *tensors);
    if (!tensors) {
        status = stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for the list of weights");
        goto out;
    }
    for (size_t i = 0; i < file.parsed.num_tensors; i++)
        if (!is_own(file.parsed.tensors[i].name))
            tensors[n++] = file.parsed.tensors[i];
    status = stk__model_load(model, tensors, n, strict, taken, err);
    if (status == STK_EMISMATCH && err) {
        char why[STK_ERROR_TEXT];
        memcpy(why, err->text, sizeof why);
        stk__fail_at(err, status, STK_STAGE_TRAIN, path, STK_NO_OFFSET, "'%.120s': %.510s", path,
                     why);
    }
out:
    stk__free(ctx, tensors);
    stk__free(ctx, data);
    stk__free(ctx, moved);
    stk__safetensors_file_close(&file);
    return status;
}
