/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HDF5's szip filter [HDF5 H5Zszip.c; CCSDS 121.0-B] through libaec: the size as 4 bytes, little
 * endian, then one stream of scanlines, each filled up to whole blocks of pixels. Pixels of 32 and
 * 64 bits are stored as planes of their bytes.
 */
#include <libaec.h>

#include "codec/kernels.h"
#include "codec/state.h"
#include "codec/step.h"

#define HEADER 4
#define SLACK  4096 /* bytes that a chunk may grow by: the library keeps no chunk that grew */

static const stk__reasons reasons = STK__REASONS("hdf5.szip");

static stk_status failed(stk__codec_pass *pass, int code)
{
    if (code == AEC_MEM_ERROR)
        return stk__pass_fail(pass, STK_ENOMEM, reasons.memory);
    return stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
}

/* The next `size` bytes of the stream. */
static stk_status take(struct aec_stream *aec, uint8_t *out, uint64_t size, stk__codec_pass *pass)
{
    aec->next_out = out;
    aec->avail_out = size;
    int code = aec_decode(aec, AEC_FLUSH);
    if (code != AEC_OK)
        return failed(pass, code);
    if (aec->avail_out)
        return stk__pass_fail(pass, STK_ETRUNCATED, reasons.truncated);
    return STK_OK;
}

static stk_status decode_lines(const struct stk__szip_step *s, struct aec_stream *aec, uint8_t *out,
                               uint64_t size, stk__codec_pass *pass)
{
    uint8_t filling[STK__SZIP_BLOCK * sizeof(uint32_t)];
    uint64_t line = (uint64_t)s->line * s->sample;
    uint64_t more = (uint64_t)aec->rsi * s->block * s->sample - line;

    if (!more)
        return take(aec, out, size, pass);
    for (uint64_t at = 0; at < size; at += line) {
        STK_TRY(take(aec, out + at, STK_MIN(line, size - at), pass));
        if (size - at > line)
            STK_TRY(take(aec, filling, more, pass));
    }
    return STK_OK;
}

static stk_status decode(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass)
{
    const struct stk__szip_step *s = &step->u.szip;

    if (pass->length < HEADER)
        return stk__pass_fail(pass, STK_ETRUNCATED, reasons.truncated);
    uint64_t size = stk__little_endian(pass->in, HEADER);
    if (size > pass->capacity)
        return stk__pass_fail(pass, STK_EFORMAT, reasons.longer);
    if (size % (s->planes ? s->planes : s->sample))
        return stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
    uint8_t *out =
        s->planes ? stk__scratch(state, STK__SCRATCH_BLOCK, STK_MAX(size, 1)) : pass->out;
    if (!out)
        return stk__pass_fail(pass, STK_ENOMEM, reasons.memory);
    struct aec_stream aec = {.next_in = pass->in + HEADER,
                             .avail_in = pass->length - HEADER,
                             .bits_per_sample = s->bits,
                             .block_size = s->block,
                             .rsi = (s->line + s->block - 1) / s->block,
                             .flags = (s->msb ? AEC_DATA_MSB : 0u) |
                                      (s->predicts ? AEC_DATA_PREPROCESS : 0u)};
    int code = aec_decode_init(&aec);
    stk_status status =
        code != AEC_OK ? failed(pass, code) : decode_lines(s, &aec, out, size, pass);
    if (aec.state) /* also of one that it could not finish */
        aec_decode_end(&aec);
    if (status == STK_OK && s->planes)
        state->kernels->unshuffle(out, pass->out, size / s->planes, s->planes, false);
    pass->got = size;
    return status;
}

static bool bound(const stk__codec_step *step, uint64_t size, uint64_t *out)
{
    return stk__add_size(size, SLACK, out);
}

const stk__codec_ops stk__codec_szip = {
    .name = "hdf5.szip", .reasons = &reasons, .decode = decode, .bound = bound};
