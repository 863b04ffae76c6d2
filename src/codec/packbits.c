/* SPDX-License-Identifier: Apache-2.0 */
/* Booleans as bits: numcodecs' packbits (number of padding bits in front, first value in the upper
 * bit) and Zarr v3's (first value in the lowest bit, padding told in front, behind or not). */
#include "codec/step.h"

static const stk__reasons reasons = STK__REASONS("packbits");

static unsigned turn(const stk__codec_step *step, uint64_t i)
{
    return step->u.packbits.msb_first ? 7 - (unsigned)(i & 7) : (unsigned)(i & 7);
}

static stk_status decode(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass)
{
    uint64_t count = step->u.packbits.count, extra = step->u.packbits.padding != 0;
    uint64_t bytes = (count + 7) / 8, front = step->u.packbits.padding == 's';
    const uint8_t *bits = pass->in + front;

    if (pass->length > bytes + extra)
        return stk__pass_fail(pass, STK_EFORMAT, reasons.longer);
    if (pass->length < front || (pass->length < bytes + extra && pass->needed == pass->capacity))
        return stk__pass_fail(pass, STK_ETRUNCATED, reasons.truncated);
    if (front || pass->length == bytes + extra)
        if (extra && pass->in[front ? 0 : bytes] != bytes * 8 - count)
            return stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
    uint64_t have = STK_MIN(count, (pass->length - front) * 8);
    for (uint64_t i = 0; i < have; i++)
        pass->out[i] = bits[i / 8] >> turn(step, i) & 1;
    pass->got = have;
    return STK_OK;
}

static stk_status encode(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass)
{
    uint64_t count = step->u.packbits.count, extra = step->u.packbits.padding != 0;
    uint64_t bytes = (count + 7) / 8;
    uint8_t *bits = pass->out + (step->u.packbits.padding == 's');

    memset(bits, 0, bytes);
    for (uint64_t i = 0; i < count; i++)
        bits[i / 8] |= (uint8_t)((pass->in[i] != 0) << turn(step, i));
    if (extra)
        pass->out[step->u.packbits.padding == 's' ? 0 : bytes] = (uint8_t)(bytes * 8 - count);
    pass->got = bytes + extra;
    return STK_OK;
}

static bool bound(const stk__codec_step *step, uint64_t size, uint64_t *out)
{
    return stk__add_size((size + 7) / 8, step->u.packbits.padding != 0, out);
}

static uint64_t prefix(const stk__codec_step *step, uint64_t needed)
{
    return (needed + 7) / 8 + (step->u.packbits.padding == 's');
}

const stk__codec_ops stk__codec_packbits = {.name = "packbits",
                                            .reasons = &reasons,
                                            .decode = decode,
                                            .encode = encode,
                                            .bound = bound,
                                            .prefix = prefix};
