/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bitshuffle as HDF5's filter 32008 stores it [kiyo-masui/bitshuffle src/bshuf_h5filter.c]: blocks
 * of elements as planes of bits, each compressed by LZ4 or Zstandard, or none. In front of
 * compressed ones are the size as 8 and that of a block in bytes as 4 bytes, in front of each its
 * stored size as 4 bytes, all big endian. The last block holds a multiple of 8 elements; the few
 * that are left behind it are stored as they are.
 */
#include <lz4.h>

#include "codec/kernels.h"
#include "codec/state.h"
#include "codec/step.h"

#define HEADER     12
#define BLOCK_SIZE 4    /* bytes in front of a block */
#define TARGET     8192 /* bytes of a block whose size was left to the library */
#define LEAST      128  /* its elements at least */
#define MULTIPLE   8    /* elements of a block */
#define GROWTH     4    /* bytes of a block's bound, besides its share: LZ4 16, zstd 64 */

static const stk__reasons reasons = STK__REASONS("hdf5.bitshuffle");

static uint64_t usual_block(uint64_t element)
{
    return STK_MAX(TARGET / element / MULTIPLE * MULTIPLE, LEAST);
}

/* The planes of the next block: where they are in the input, or decompressed to `room`. */
static stk_status read_planes(const stk__codec_step *step, stk__codec_state *state,
                              stk__codec_pass *pass, uint64_t *at, uint64_t size, uint8_t *room,
                              const uint8_t **planes)
{
    uint64_t left = pass->length - *at, head = step->u.blocks.mode ? BLOCK_SIZE : 0, got = 0;
    stk_status status = STK_OK;

    if (left < head)
        return stk__pass_fail(pass, STK_ETRUNCATED, reasons.truncated);
    uint64_t stored = head ? stk__big_endian(pass->in + *at, BLOCK_SIZE) : size;
    if (stored > left - head)
        return stk__pass_fail(pass, STK_ETRUNCATED, reasons.truncated);
    const uint8_t *in = pass->in + *at + head;
    *at += head + stored;
    *planes = head ? room : in;
    if (step->u.blocks.mode == STK__BITSHUFFLE_LZ4) {
        int n = stored > INT32_MAX || size > INT32_MAX
                    ? -1
                    : LZ4_decompress_safe((const char *)in, (char *)room, (int)stored, (int)size);
        got = n < 0 ? 0 : (uint64_t)n;
    } else if (step->u.blocks.mode == STK__BITSHUFFLE_ZSTD) {
        status = stk__zstd_decode(state, in, stored, room, size, &got, &pass->reason);
    } else {
        got = size;
    }
    if (status == STK_ENOMEM)
        return status;
    return status == STK_OK && got == size ? STK_OK
                                           : stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
}

/* `count` elements in all, `block` in a block. */
static stk_status decode_blocks(const stk__codec_step *step, stk__codec_state *state,
                                stk__codec_pass *pass, uint64_t at, uint64_t count, uint64_t block)
{
    uint64_t element = step->u.blocks.element, done = 0;
    uint64_t most = STK_MIN(block, count / MULTIPLE * MULTIPLE) * element;
    const uint8_t *planes;
    uint8_t *room = most ? stk__scratch(state, STK__SCRATCH_BLOCK, 2 * most) : pass->out;

    if (!room)
        return stk__pass_fail(pass, STK_ENOMEM, reasons.memory);
    while (count - done >= MULTIPLE) {
        uint64_t n = STK_MIN(block, (count - done) / MULTIPLE * MULTIPLE);
        STK_TRY(read_planes(step, state, pass, &at, n * element, room, &planes));
        state->kernels->unbitshuffle(planes, pass->out + done * element, room + most, n, element);
        done += n;
    }
    uint64_t rest = (count - done) * element;
    if (pass->length - at < rest)
        return stk__pass_fail(pass, STK_ETRUNCATED, reasons.truncated);
    if (pass->length - at > rest)
        return stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
    memcpy(pass->out + done * element, pass->in + at, rest);
    pass->got = count * element;
    return STK_OK;
}

static stk_status decode(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass)
{
    uint64_t element = step->u.blocks.element, size = pass->length, at = 0;
    uint64_t block = step->u.blocks.size;

    if (step->u.blocks.mode) {
        if (pass->length < HEADER)
            return stk__pass_fail(pass, STK_ETRUNCATED, reasons.truncated);
        size = stk__big_endian(pass->in, 8);
        block = stk__big_endian(pass->in + 8, 4) / element;
        at = HEADER;
    }
    if (size > pass->capacity)
        return stk__pass_fail(pass, STK_EFORMAT, reasons.longer);
    if (block == 0)
        block = usual_block(element);
    if (size % element || block % MULTIPLE)
        return stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
    return decode_blocks(step, state, pass, at, size / element, block);
}

static bool bound(const stk__codec_step *step, uint64_t size, uint64_t *out)
{
    uint64_t element = step->u.blocks.element;
    uint64_t block = step->u.blocks.size ? step->u.blocks.size : usual_block(element);
    uint64_t blocks = size / element / block + 1, more;

    if (!step->u.blocks.mode)
        return stk__add_size(size, 0, out);
    return stk__mul_size(blocks, BLOCK_SIZE + 16 * GROWTH, &more) &&
           stk__add_size(more, size / 128 + HEADER, &more) && stk__add_size(size, more, out);
}

const stk__codec_ops stk__codec_bitshuffle = {
    .name = "hdf5.bitshuffle", .reasons = &reasons, .decode = decode, .bound = bound};
