/* a file of weights, in any format -> tensors by name, and back as safetensors */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CHECKPOINT_WEIGHTS_WEIGHTS_H
#define STK_SRC_CHECKPOINT_WEIGHTS_WEIGHTS_H

#include "checkpoint/pth/pth.h"
#include "checkpoint/safetensors/safetensors.h"

typedef struct stk__weights {
    stk_context *ctx;
    stk_state_tensor *tensors; /* of the model alone: not what is a checkpoint's own */
    size_t num_tensors;
    stk__pth pth;
    stk__safetensors_file file;
    uint8_t *data, *moved;
} stk__weights;

/* Open a file of weights; *pth: its first bytes are those of torch.save(). */
stk_status stk__weights_open(stk_context *ctx, const char *path, stk__checkpoint_source *out,
                             bool *pth, stk_error *err);
/* Read all weights of a safetensors file or of one of torch.save() into memory; their bytes say
 * which it is. A checkpoint of ours is verified. `call` (may be NULL) is asked whether it is still
 * wanted. On failure *out is empty. Blocks. */
stk_status stk__weights_load(stk_context *ctx, const char *path, const stk_store_call *call,
                             stk__weights *out, stk_error *err);
void stk__weights_release(stk__weights *weights);
/* Write tensors, and nothing else, as a safetensors file that Python's readers take for PyTorch's:
 * `write` is called with its bytes in order, once its header is made. */
stk_status stk__weights_write(stk_context *ctx, const stk_state_tensor *tensors, size_t n,
                              stk__write_fn *write, void *user, stk_error *err);

#endif
