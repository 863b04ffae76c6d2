/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of a file, also one of Python's or a checkpoint, -> a file for other programs. */
#include "base/sized.h"
#include "checkpoint/weights/weights.h"
#include "train/trainer.h"

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), of_end = strlen(end);

    return length > of_end && strcmp(text + length - of_end, end) == 0;
}

/* Read them; a checkpoint of ours only if every byte is as it was written. */
static stk_status load(stk_context *ctx, const char *from, stk__weights *out, stk_error *err)
{
    STK_TRY(stk__weights_load(ctx, from, out, err));
    stk_status status = STK_OK;
    if (stk__safetensors_find_text(&out->file.parsed, STK__CHECKPOINT_HASH))
        status = stk__checkpoint_verify(ctx, from, err);
    if (status == STK_OK && out->num_tensors == 0)
        status = stk__fail_at(err, STK_EMISMATCH, STK_STAGE_TRAIN, from, STK_NO_OFFSET,
                              "'%.300s' has no weights", from);
    if (status != STK_OK)
        stk__weights_release(out);
    return status;
}

static stk_status write_weights(stk_context *ctx, const stk__weights *weights, const char *to,
                                const stk_weights_options *options, stk_error *err)
{
    const stk_store_call call = {.struct_size = sizeof call, .no_replace = !options->overwrite};
    stk_put *put;

    STK_TRY(stk_put_open(ctx, to, &call, &put, err));
    const stk_status status =
        stk__weights_write(ctx, put, weights->tensors, weights->num_tensors, err);
    if (status == STK_OK)
        return put->ops->commit(put, err);
    put->ops->abandon(put);
    return status;
}

stk_status stk_weights_convert(stk_context *ctx, const char *from, const char *to,
                               const stk_weights_options *given, size_t *written, stk_error *err)
{
    stk_weights_options options = {.struct_size = sizeof options};
    stk__weights weights;

    stk_error_init(err);
    STK_TRY(stk__context_check(ctx, err));
    if (given)
        STK_TRY(stk__sized_read(&options, sizeof options, given, "stk_weights_options",
                                STK_STAGE_TRAIN, err));
    if (!ends_with(to, ".safetensors"))
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_TRAIN, to, STK_NO_OFFSET,
                            "weights are written as a file NAME.safetensors, which '%.200s' is not",
                            to);
    STK_TRY(load(ctx, from, &weights, err));
    const stk_status status = write_weights(ctx, &weights, to, &options, err);
    if (status == STK_OK && written)
        *written = weights.num_tensors;
    stk__weights_release(&weights);
    if (status == STK_EEXIST)
        return stk__fail_at(err, status, STK_STAGE_TRAIN, to, STK_NO_OFFSET,
                            "'%.300s' exists already: choose another name, or set overwrite to "
                            "replace it",
                            to);
    return status;
}
