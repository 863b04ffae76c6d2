/* SPDX-License-Identifier: Apache-2.0 */
/* HDF5's n-bit filter [HDF5 H5Znbit.c]: of each element only the bits of its precision, the upper
 * ones first, without gaps. The bits around them come back as zeros. */
#include "codec/bit_reader.h"
#include "codec/step.h"

static const stk__reasons reasons = STK__REASONS("hdf5.nbit");

static stk_status decode(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass)
{
    const struct stk__nbit_step *n = &step->u.nbit;
    stk__bit_reader bits = {pass->in, pass->in + pass->length, 0};
    uint64_t bytes = 0;

    if (!stk__bits_bytes(n->count, n->precision, &bytes) || pass->length < bytes)
        return stk__pass_fail(pass, STK_ETRUNCATED, reasons.truncated);
    if (pass->length > bytes + 1) /* the library counts one byte too many where all are full */
        return stk__pass_fail(pass, STK_EFORMAT, reasons.longer);
    for (uint64_t i = 0; i < n->count; i++) {
        uint64_t x = stk__bits_take(&bits, n->precision) << n->offset;
        stk__bytes_store(pass->out + i * n->size, x, n->size, n->big);
    }
    pass->got = n->count * n->size;
    return STK_OK;
}

static bool bound(const stk__codec_step *step, uint64_t size, uint64_t *out)
{
    return stk__bits_bytes(step->u.nbit.count, step->u.nbit.precision, out) &&
           stk__add_size(*out, 1, out);
}

const stk__codec_ops stk__codec_nbit = {
    .name = "hdf5.nbit", .reasons = &reasons, .decode = decode, .bound = bound};
