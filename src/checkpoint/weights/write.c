/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors alone as a safetensors file, as Python's save_file() writes them. */
#include "checkpoint/weights/weights.h"

static stk_status write_all(const stk__safetensors_head *head, const stk_state_tensor *tensors,
                            size_t n, stk__write_fn *write, void *user, stk_error *err)
{
    STK_TRY(write(user, head->text.bytes, head->text.length, err));
    for (size_t i = 0; i < n; i++) {
        const stk_state_tensor *t = &tensors[head->order[i]];
        if (t->bytes)
            STK_TRY(write(user, t->data, (size_t)t->bytes, err));
    }
    return STK_OK;
}

stk_status stk__weights_write(stk_context *ctx, const stk_state_tensor *tensors, size_t n,
                              stk__write_fn *write, void *user, stk_error *err)
{
    /* What readers of PyTorch's tensors ask for. */
    static const stk__checkpoint_text format = {"format", "pt"};
    stk__safetensors_head head = {.text.ctx = ctx};

    stk_status status = stk__safetensors_head_make(&head, tensors, n, &format, 1, err);
    if (status == STK_OK)
        status = write_all(&head, tensors, n, write, user, err);
    stk__safetensors_head_release(&head);
    return status;
}
