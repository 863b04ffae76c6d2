/* SPDX-License-Identifier: Apache-2.0 */
/* LZ4 as numcodecs stores it: the size as 4 bytes, little endian, then one LZ4 block; or that block
 * alone, where a container knows the size. */
#include <lz4.h>

#include "codec/state.h"
#include "codec/step.h"

#define HEADER           4
#define ACCELERATION_MAX 65537

static const stk__reasons reasons = STK__REASONS("lz4");

static stk_status decode(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass)
{
    if (pass->length < HEADER)
        return stk__pass_fail(pass, STK_ETRUNCATED, reasons.truncated);
    const uint8_t *in = pass->in;
    uint32_t size =
        (uint32_t)in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
    if (size > pass->capacity)
        return stk__pass_fail(pass, STK_EFORMAT, reasons.longer);
    if (size > LZ4_MAX_INPUT_SIZE || pass->length - HEADER > INT32_MAX)
        return stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
    int from = (int)(pass->length - HEADER);
    if (pass->needed < size) {
        int n = LZ4_decompress_safe_partial((const char *)in + HEADER, (char *)pass->out, from,
                                            (int)pass->needed, (int)size);
        if (n < 0 || (uint64_t)n < pass->needed)
            return stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
        pass->got = (uint64_t)n;
        return STK_OK;
    }
    int n = LZ4_decompress_safe((const char *)in + HEADER, (char *)pass->out, from, (int)size);
    if (n < 0 || (uint32_t)n != size)
        return stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
    pass->got = size;
    return STK_OK;
}

/* One block alone, of at most as many bytes as there is room for. */
static stk_status decode_block(const stk__codec_step *step, stk__codec_state *state,
                               stk__codec_pass *pass)
{
    if (pass->length > INT32_MAX || pass->capacity > LZ4_MAX_INPUT_SIZE)
        return stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
    int n = LZ4_decompress_safe((const char *)pass->in, (char *)pass->out, (int)pass->length,
                                (int)pass->capacity);
    if (n < 0)
        return stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
    pass->got = (uint64_t)n;
    return STK_OK;
}

static stk_status encode(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass)
{
    /* LZ4's state is 16 KiB: scratch, not stack, and its own allocation is not wanted. */
    uint8_t *lz4 = stk__scratch(state, STK__SCRATCH_BLOCK, (uint64_t)LZ4_sizeofState());
    uint64_t size = pass->length;

    if (!lz4)
        return stk__pass_fail(pass, STK_ENOMEM, reasons.memory);
    if (size > LZ4_MAX_INPUT_SIZE)
        return stk__pass_fail(pass, STK_EINVAL,
                              "lz4 holds at most 2113929216 bytes; write smaller chunks");
    int room = (int)STK_MIN(pass->capacity - HEADER, (uint64_t)INT32_MAX);
    for (int i = 0; i < HEADER; i++)
        pass->out[i] = (uint8_t)(size >> (8 * i));
    int n = LZ4_compress_fast_extState(lz4, (const char *)pass->in, (char *)pass->out + HEADER,
                                       (int)size, room, step->u.lz4.acceleration);
    if (n <= 0)
        return stk__pass_fail(pass, STK_EINVAL, "lz4 could not compress the chunk");
    pass->got = (uint64_t)n + HEADER;
    return STK_OK;
}

static bool bound(const stk__codec_step *step, uint64_t size, uint64_t *out)
{
    return stk__add_size(size, size / 255 + 16 + HEADER, out);
}

const stk__codec_ops stk__codec_lz4 = {
    .name = "lz4", .reasons = &reasons, .decode = decode, .encode = encode, .bound = bound};
const stk__codec_ops stk__codec_lz4_block = {
    .name = "lz4", .reasons = &reasons, .decode = decode_block};
