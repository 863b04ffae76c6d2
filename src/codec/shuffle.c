/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes moved within and between elements: shuffle [HDF5, numcodecs] and byte order. */
#include "codec/kernels.h"
#include "codec/state.h"
#include "codec/step.h"

/* What is left over behind the last whole element stays as it is. */
static stk_status unshuffle(const stk__codec_step *step, stk__codec_state *state,
                            stk__codec_pass *pass)
{
    uint64_t element = step->u.shuffle.element, whole = pass->length / element * element;

    if (pass->length > pass->capacity)
        return stk__pass_fail(pass, STK_EFORMAT, step->ops->reasons->longer);
    state->kernels->unshuffle(pass->in, pass->out, whole / element, element,
                              step->u.shuffle.reverse);
    memcpy(pass->out + whole, pass->in + whole, pass->length - whole);
    pass->got = pass->length;
    return STK_OK;
}

static stk_status shuffle(const stk__codec_step *step, stk__codec_state *state,
                          stk__codec_pass *pass)
{
    uint64_t element = step->u.shuffle.element, whole = pass->length / element * element;

    state->kernels->shuffle(pass->in, pass->out, whole / element, element, step->u.shuffle.reverse);
    memcpy(pass->out + whole, pass->in + whole, pass->length - whole);
    pass->got = pass->length;
    return STK_OK;
}

static stk_status swap(const stk__codec_step *step, stk__codec_state *state, stk__codec_pass *pass)
{
    uint64_t size = step->u.swap.size;

    if (pass->length > pass->capacity)
        return stk__pass_fail(pass, STK_EFORMAT, step->ops->reasons->longer);
    state->kernels->swap(pass->in, pass->out, pass->length / size, size);
    pass->got = pass->length / size * size;
    return STK_OK;
}

static stk_status swap_encode(const stk__codec_step *step, stk__codec_state *state,
                              stk__codec_pass *pass)
{
    return swap(step, state, pass);
}

static uint64_t swap_prefix(const stk__codec_step *step, uint64_t needed)
{
    uint64_t size = step->u.swap.size;

    return (needed + size - 1) / size * size;
}

static bool same_size(const stk__codec_step *step, uint64_t size, uint64_t *out)
{
    *out = size;
    return true;
}

static const stk__reasons shuffle_reasons = STK__REASONS("shuffle"),
                          swap_reasons = STK__REASONS("bytes");

const stk__codec_ops stk__codec_shuffle = {.name = "shuffle",
                                           .reasons = &shuffle_reasons,
                                           .decode = unshuffle,
                                           .encode = shuffle,
                                           .bound = same_size};
const stk__codec_ops stk__codec_swap = {.name = "bytes",
                                        .reasons = &swap_reasons,
                                        .decode = swap,
                                        .encode = swap_encode,
                                        .bound = same_size,
                                        .prefix = swap_prefix};
