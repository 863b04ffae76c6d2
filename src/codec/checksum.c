/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checksums of 4 bytes, little endian, before or after the bytes: CRC-32C [RFC 3720], CRC-32
 * [RFC 1952], Adler-32 [RFC 1950], Fletcher-32 in HDF5's variant [HDF5 H5checksum.c]. Decoding
 * gives the bytes where they are.
 */
#include <libdeflate.h>

#include "codec/codec.h"
#include "codec/kernels.h"
#include "codec/state.h"
#include "codec/step.h"

#define SUM_BYTES      4
#define FLETCHER_BLOCK 360 /* words of 16 bits whose sums stay within 32 bits */

static const stk__reasons reasons_of[] = {STK__REASONS("crc32c"), STK__REASONS("crc32"),
                                          STK__REASONS("adler32"), STK__REASONS("fletcher32")};

static uint32_t fold(uint32_t sum)
{
    return (sum & 0xffff) + (sum >> 16);
}

/* Words are read with the first byte above, a last odd byte as the upper one. */
static uint32_t fletcher32(const uint8_t *data, uint64_t length)
{
    uint32_t a = 0, b = 0;
    uint64_t words = length / 2;

    while (words) {
        uint64_t n = STK_MIN(words, FLETCHER_BLOCK);
        words -= n;
        for (; n; n--, data += 2) {
            a += (uint32_t)data[0] << 8 | data[1];
            b += a;
        }
        a = fold(a);
        b = fold(b);
    }
    if (length % 2) {
        a += (uint32_t)data[0] << 8;
        b += a;
        a = fold(a);
        b = fold(b);
    }
    a = fold(a);
    b = fold(b);
    return b << 16 | a;
}

uint32_t stk__crc32(const void *data, uint64_t length)
{
    return libdeflate_crc32(0, data, length);
}

static uint32_t sum_of(const stk__codec_step *step, const stk__codec_state *state,
                       const uint8_t *data, uint64_t length)
{
    if (step->ops == &stk__codec_crc32c)
        return state->kernels->crc32c(0, data, length);
    if (step->ops == &stk__codec_crc32)
        return libdeflate_crc32(0, data, length);
    if (step->ops == &stk__codec_adler32)
        return libdeflate_adler32(1, data, length);
    return fletcher32(data, length);
}

static uint32_t load(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void store(uint8_t *p, uint32_t sum)
{
    for (int i = 0; i < SUM_BYTES; i++)
        p[i] = (uint8_t)(sum >> (8 * i));
}

static bool same(const stk__codec_step *step, uint32_t stored, uint32_t sum)
{
    if (stored == sum)
        return true;
    /* HDF5 before 1.6.3 swapped the bytes of each half on little-endian machines. */
    return step->ops == &stk__codec_fletcher32 &&
           stored == ((sum & 0x00ff00ff) << 8 | (sum >> 8 & 0x00ff00ff));
}

static stk_status decode(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass)
{
    if (pass->length < SUM_BYTES)
        return stk__pass_fail(pass, STK_ETRUNCATED, step->ops->reasons->truncated);
    uint64_t length = pass->length - SUM_BYTES;
    bool first = step->u.checksum.at_start;
    const uint8_t *data = first ? pass->in + SUM_BYTES : pass->in;
    if (!step->u.checksum.skip) {
        uint32_t stored = load(first ? pass->in : pass->in + length);
        if (!same(step, stored, sum_of(step, state, data, length)))
            return stk__pass_fail(pass, STK_ECHECKSUM, step->ops->reasons->checksum);
    }
    pass->out = (uint8_t *)data; /* of a view: read, never written */
    pass->got = length;
    return STK_OK;
}

static stk_status encode(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass)
{
    bool first = step->u.checksum.at_start;

    memcpy(first ? pass->out + SUM_BYTES : pass->out, pass->in, pass->length);
    store(first ? pass->out : pass->out + pass->length,
          sum_of(step, state, pass->in, pass->length));
    pass->got = pass->length + SUM_BYTES;
    return STK_OK;
}

static bool bound(const stk__codec_step *step, uint64_t size, uint64_t *out)
{
    return stk__add_size(size, SUM_BYTES, out);
}

#define STK__CHECKSUM(number, text)                                                                \
    {                                                                                              \
        .name = text, .reasons = &reasons_of[number], .decode = decode, .encode = encode,          \
        .bound = bound                                                                             \
    }

const stk__codec_ops stk__codec_crc32c = STK__CHECKSUM(0, "crc32c");
const stk__codec_ops stk__codec_crc32 = STK__CHECKSUM(1, "crc32");
const stk__codec_ops stk__codec_adler32 = STK__CHECKSUM(2, "adler32");
const stk__codec_ops stk__codec_fletcher32 = STK__CHECKSUM(3, "fletcher32");
