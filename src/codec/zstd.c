/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zstandard [RFC 8878] through libzstd: several frames in a row, with content size or without, with
 * checksums or without. A whole stream is decoded straight into its output, so that no window is
 * allocated whatever a frame claims; a prefix block by block, into the same output.
 */
#define ZSTD_STATIC_LINKING_ONLY /* allocators and output that stays in place */
#include <zstd.h>
#include <zstd_errors.h>

#include "codec/state.h"
#include "codec/step.h"

static const stk__reasons reasons = STK__REASONS("zstd");

static void *zstd_alloc(void *opaque, size_t size)
{
    return stk__alloc(opaque, size);
}

static void zstd_free(void *opaque, void *memory)
{
    stk__free(opaque, memory);
}

static ZSTD_DCtx *decoder(stk__codec_state *state)
{
    ZSTD_customMem memory = {zstd_alloc, zstd_free, state->context};

    if (!state->zstd_d)
        state->zstd_d = ZSTD_createDCtx_advanced(memory);
    return state->zstd_d;
}

static ZSTD_CCtx *encoder(stk__codec_state *state)
{
    ZSTD_customMem memory = {zstd_alloc, zstd_free, state->context};

    if (!state->zstd_c)
        state->zstd_c = ZSTD_createCCtx_advanced(memory);
    return state->zstd_c;
}

void stk__zstd_release(stk__codec_state *state)
{
    ZSTD_freeDCtx(state->zstd_d);
    ZSTD_freeCCtx(state->zstd_c);
}

uint64_t stk__zstd_held(const stk__codec_state *state)
{
    return ZSTD_sizeof_DCtx(state->zstd_d) + ZSTD_sizeof_CCtx(state->zstd_c);
}

static stk_status failed(size_t code, const char **reason)
{
    switch (ZSTD_getErrorCode(code)) {
    case ZSTD_error_memory_allocation:
        *reason = reasons.memory;
        return STK_ENOMEM;
    case ZSTD_error_srcSize_wrong:
        *reason = reasons.truncated;
        return STK_ETRUNCATED;
    case ZSTD_error_checksum_wrong:
        *reason = reasons.checksum;
        return STK_ECHECKSUM;
    case ZSTD_error_dstSize_tooSmall:
        *reason = reasons.longer;
        return STK_EFORMAT;
    default:
        *reason = reasons.damaged;
        return STK_EFORMAT;
    }
}

stk_status stk__zstd_decode(stk__codec_state *state, const void *in, uint64_t length, void *out,
                            uint64_t capacity, uint64_t *got, const char **reason)
{
    ZSTD_DCtx *dctx = decoder(state);

    *got = 0;
    if (!dctx)
        return failed((size_t)-ZSTD_error_memory_allocation, reason);
    if (!length) {
        *reason = reasons.truncated;
        return STK_ETRUNCATED;
    }
    /* Made ready by itself; what a prefix left half done is dropped. */
    size_t n = ZSTD_decompressDCtx(dctx, out, capacity, in, length);
    if (ZSTD_isError(n))
        return failed(n, reason);
    *got = n;
    return STK_OK;
}

/*
 * Input is given in the pieces that the decoder asks for (a header, a block), so that it works
 * straight from the input into the output and stops after the block that holds the last byte
 * wanted.
 */
static stk_status decode_prefix(stk__codec_state *state, stk__codec_pass *pass)
{
    ZSTD_DCtx *dctx = decoder(state);
    ZSTD_inBuffer in = {.src = pass->in};
    ZSTD_outBuffer out = {.dst = pass->out, .size = pass->capacity};

    if (!dctx)
        return failed((size_t)-ZSTD_error_memory_allocation, &pass->reason);
    ZSTD_DCtx_reset(dctx, ZSTD_reset_session_only);
    size_t code = ZSTD_DCtx_setParameter(dctx, ZSTD_d_windowLogMax, ZSTD_WINDOWLOG_MAX);
    if (!ZSTD_isError(code))
        code = ZSTD_DCtx_setParameter(dctx, ZSTD_d_stableOutBuffer, 1);
    size_t want = ZSTD_FRAMEHEADERSIZE_MIN(ZSTD_f_zstd1);
    while (!ZSTD_isError(code) && out.pos < pass->needed) {
        if (in.pos == pass->length) {
            code = (size_t)-ZSTD_error_srcSize_wrong;
            break;
        }
        in.size = STK_MIN(pass->length, in.pos + want);
        code = ZSTD_decompressStream(dctx, &out, &in);
        want = ZSTD_isError(code) || !code ? ZSTD_FRAMEHEADERSIZE_MIN(ZSTD_f_zstd1) : code;
    }
    ZSTD_DCtx_reset(dctx, ZSTD_reset_session_and_parameters);
    if (ZSTD_isError(code))
        return failed(code, &pass->reason);
    pass->got = out.pos;
    return STK_OK;
}

static stk_status decode(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass)
{
    if (pass->needed < pass->capacity)
        return decode_prefix(state, pass);
    return stk__zstd_decode(state, pass->in, pass->length, pass->out, pass->capacity, &pass->got,
                            &pass->reason);
}

static stk_status encode(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass)
{
    ZSTD_CCtx *cctx = encoder(state);

    if (!cctx)
        return failed((size_t)-ZSTD_error_memory_allocation, &pass->reason);
    ZSTD_CCtx_setParameter(cctx, ZSTD_c_compressionLevel, step->u.zstd.level);
    ZSTD_CCtx_setParameter(cctx, ZSTD_c_checksumFlag, step->u.zstd.checksum);
    size_t n = ZSTD_compress2(cctx, pass->out, pass->capacity, pass->in, pass->length);
    if (ZSTD_isError(n))
        return failed(n, &pass->reason);
    pass->got = n;
    return STK_OK;
}

static bool bound(const stk__codec_step *step, uint64_t size, uint64_t *out)
{
    return stk__add_size(size, size / 128 + 4096, out);
}

const stk__codec_ops stk__codec_zstd = {
    .name = "zstd", .reasons = &reasons, .decode = decode, .encode = encode, .bound = bound};
