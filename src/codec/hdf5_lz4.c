/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LZ4 as HDF5's filter 32004 stores it [HDFGroup/hdf5_plugins LZ4/src/H5Zlz4.c]: the size as 8 and
 * that of a block as 4 bytes, then for each block its stored size as 4 bytes and one LZ4 block; all
 * numbers big endian. A block that did not become smaller is stored as it is.
 */
#include <lz4.h>

#include "codec/step.h"

#define HEADER     12
#define BLOCK_SIZE 4 /* bytes in front of a block */
#define USUAL      (UINT64_C(1) << 30)

static const stk__reasons reasons = STK__REASONS("hdf5.lz4");

static stk_status decode_block(stk__codec_pass *pass, uint64_t *at, uint64_t size)
{
    uint8_t *out = pass->out + pass->got;

    if (pass->length - *at < BLOCK_SIZE)
        return stk__pass_fail(pass, STK_ETRUNCATED, reasons.truncated);
    uint64_t stored = stk__big_endian(pass->in + *at, BLOCK_SIZE);
    *at += BLOCK_SIZE;
    if (stored > pass->length - *at)
        return stk__pass_fail(pass, STK_ETRUNCATED, reasons.truncated);
    const uint8_t *in = pass->in + *at;
    if (stored == size)
        memcpy(out, in, size);
    else if (stored > INT32_MAX || size > INT32_MAX ||
             LZ4_decompress_safe((const char *)in, (char *)out, (int)stored, (int)size) !=
                 (int)size)
        return stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
    *at += stored;
    pass->got += size;
    return STK_OK;
}

static stk_status decode(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass)
{
    uint64_t at = HEADER;

    if (pass->length < HEADER)
        return stk__pass_fail(pass, STK_ETRUNCATED, reasons.truncated);
    uint64_t size = stk__big_endian(pass->in, 8), block = stk__big_endian(pass->in + 8, 4);
    if (size > pass->capacity)
        return stk__pass_fail(pass, STK_EFORMAT, reasons.longer);
    if (!block && size)
        return stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
    while (pass->got < size)
        STK_TRY(decode_block(pass, &at, STK_MIN(block, size - pass->got)));
    if (at != pass->length)
        return stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
    return STK_OK;
}

static bool bound(const stk__codec_step *step, uint64_t size, uint64_t *out)
{
    uint64_t block = step->u.blocks.size ? step->u.blocks.size : USUAL, headers;

    return stk__mul_size(size / block + 1, BLOCK_SIZE, &headers) &&
           stk__add_size(size, headers + HEADER, out);
}

const stk__codec_ops stk__codec_hdf5_lz4 = {
    .name = "hdf5.lz4", .reasons = &reasons, .decode = decode, .bound = bound};
