/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of containers, by the decoders of the chains: their sizes are the container's to know, so
 * there is nothing to compile.
 */
#include "codec/codec.h"
#include "codec/step.h"

static const stk__codec_step steps[] = {
    [STK__BLOCK_ZLIB] = {.ops = &stk__codec_zlib, .u.deflate.format = 'z'},
    [STK__BLOCK_LZMA] = {.ops = &stk__codec_lzma,
                         .u.lzma = {.format = STK__LZMA_ALONE, .memory = STK__BLOCK_LZMA_MEMORY}},
    [STK__BLOCK_XZ] = {.ops = &stk__codec_lzma,
                       .u.lzma = {.format = STK__LZMA_XZ, .memory = STK__BLOCK_LZMA_MEMORY}},
    [STK__BLOCK_LZ4] = {.ops = &stk__codec_lz4_block},
    [STK__BLOCK_ZSTD] = {.ops = &stk__codec_zstd},
};

stk_status stk__block_decode(stk__block_codec codec, stk__codec_state *state, const void *in,
                             uint64_t length, void *out, uint64_t capacity, uint64_t *got,
                             const char **reason)
{
    const stk__codec_step *step = &steps[codec];
    stk__codec_pass pass = {
        .in = in, .length = length, .out = out, .capacity = capacity, .needed = capacity};

    const stk_status status = step->ops->decode(step, state, &pass);
    *got = status == STK_OK ? pass.got : 0;
    *reason = status == STK_ELIMIT
                  ? "its lzma dictionary is larger than 4 MiB; pack it again with a smaller one"
                  : pass.reason;
    return status;
}
