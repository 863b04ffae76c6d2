/* SPDX-License-Identifier: Apache-2.0 */
/* Brotli [RFC 7932]: pages of Parquet. Windows of at most 16 MiB, which is all that it has without
 * the large ones of its authors. */
#include <brotli/decode.h>

#include "codec/state.h"
#include "codec/step.h"

static const stk__reasons reasons = STK__REASONS("brotli");

static void *alloc(void *state, size_t size)
{
    return stk__spare_alloc(state, size);
}

static void release(void *state, void *memory)
{
    if (memory)
        stk__spare_free(state, memory);
}

static stk_status failed(stk__codec_pass *pass, BrotliDecoderState *decoder)
{
    const BrotliDecoderErrorCode code = BrotliDecoderGetErrorCode(decoder);

    if (code <= BROTLI_DECODER_ERROR_ALLOC_CONTEXT_MODES &&
        code >= BROTLI_DECODER_ERROR_ALLOC_BLOCK_TYPE_TREES)
        return stk__pass_fail(pass, STK_ENOMEM, reasons.memory);
    return stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
}

static stk_status decode(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass)
{
    BrotliDecoderState *decoder = BrotliDecoderCreateInstance(alloc, release, state);
    const uint8_t *in = pass->in;
    size_t left = pass->length, room = pass->capacity;
    uint8_t *out = pass->out;
    stk_status status = STK_OK;

    if (!decoder)
        return stk__pass_fail(pass, STK_ENOMEM, reasons.memory);
    switch (BrotliDecoderDecompressStream(decoder, &left, &in, &room, &out, NULL)) {
    case BROTLI_DECODER_RESULT_SUCCESS:
        if (left)
            status = stk__pass_fail(pass, STK_EFORMAT, reasons.longer);
        pass->got = pass->capacity - room;
        break;
    case BROTLI_DECODER_RESULT_NEEDS_MORE_INPUT:
        status = stk__pass_fail(pass, STK_ETRUNCATED, reasons.truncated);
        break;
    case BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT:
        status = stk__pass_fail(pass, STK_EFORMAT, reasons.longer);
        break;
    case BROTLI_DECODER_RESULT_ERROR:
        status = failed(pass, decoder);
        break;
    }
    BrotliDecoderDestroyInstance(decoder);
    return status;
}

const stk__codec_ops stk__codec_brotli = {.name = "brotli", .reasons = &reasons, .decode = decode};
