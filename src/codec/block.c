/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of SquashFS 4.0, whose codecs are those of chunks, each in the form that the kernel reads
 * [Documentation/filesystems/squashfs.rst, squashfs-tools-ng doc/format.adoc]. Their sizes are the
 * image's to know, so there is nothing to compile.
 */
#define ZSTD_STATIC_LINKING_ONLY /* ZSTD_estimateCCtxSize_usingCParams() */
#include <lz4.h>
#include <zstd.h>

#include "codec/codec.h"
#include "codec/state.h"
#include "codec/step.h"

/* ---- Decoding ---- */

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

/* ---- Encoding ---- */

#define XZ_LEAST      8192 /* of a dictionary: tables have blocks of so many bytes */
#define XZ_TIMES      12   /* dictionaries that an encoder takes at most */
#define USUAL_MEMORY  (UINT64_C(2) << 20)
#define QUICK         8    /* acceleration of the search for repeats */
#define SAMPLE        4096 /* bytes that are counted, in RUNS runs */
#define RUNS          16
#define LEAST_PROMISE 1024 /* shorter blocks are tried */

static const stk__reasons reasons = STK__REASONS("lz4");

static void make_step(const stk__block_kind *kind, stk__codec_step *step)
{
    *step = (stk__codec_step){.size = kind->most};
    switch (kind->codec) {
    case STK__BLOCK_ZSTD:
        step->ops = &stk__codec_zstd;
        step->u.zstd.level = kind->level;
        break;
    case STK__BLOCK_ZLIB:
        step->ops = &stk__codec_zlib;
        step->u.deflate.level = kind->level;
        step->u.deflate.format = 'z';
        break;
    case STK__BLOCK_XZ:
        step->ops = &stk__codec_lzma;
        stk__lzma_block(&step->u.lzma, (uint32_t)kind->level, STK_MAX(kind->most, XZ_LEAST));
        break;
    default:
        break;
    }
}

uint64_t stk__block_bound(const stk__block_kind *kind, uint64_t length)
{
    stk__codec_step step;
    uint64_t bound = 0;

    make_step(kind, &step);
    if (!step.ops)
        return length + length / 255 + 16;
    return step.ops->bound(&step, length, &bound) ? bound : UINT64_MAX;
}

uint64_t stk__block_memory(const stk__block_kind *kind)
{
    uint64_t bytes = USUAL_MEMORY;

    if (kind->codec == STK__BLOCK_ZSTD)
        bytes += ZSTD_estimateCCtxSize_usingCParams(ZSTD_getCParams(kind->level, kind->most, 0));
    else if (kind->codec == STK__BLOCK_XZ)
        bytes += XZ_TIMES * (uint64_t)STK_MAX(kind->most, XZ_LEAST);
    return bytes;
}

static stk_status fail(stk_status status, const char *text, const char **reason)
{
    *reason = text;
    return status;
}

/* *got 0: it does not fit. */
static stk_status encode_lz4(stk__codec_state *state, int acceleration, const void *in,
                             uint64_t length, void *out, uint64_t capacity, uint64_t *got,
                             const char **reason)
{
    uint8_t *lz4 = stk__scratch(state, STK__SCRATCH_BLOCK, (uint64_t)LZ4_sizeofState());

    if (!lz4)
        return fail(STK_ENOMEM, reasons.memory, reason);
    const int n = LZ4_compress_fast_extState(
        lz4, in, out, (int)length, (int)STK_MIN(capacity, (uint64_t)INT32_MAX), acceleration);
    *got = n > 0 ? (uint64_t)n : 0;
    return STK_OK;
}

/*
 * Whether the values of bytes are spread as evenly as those of random ones: the sum of squares of
 * their counts, of n bytes, is about n + n * n / 256 then; of bytes that a code of their own would
 * shorten by a sixteenth it is a third above.
 */
static bool is_even(const uint8_t *in, uint64_t length)
{
    const uint64_t runs = length > SAMPLE ? RUNS : 1, run = STK_MIN(length, SAMPLE) / runs;
    const uint64_t n = runs * run, step = length / runs;
    uint32_t counts[256] = {0};
    uint64_t sum = 0;

    for (uint64_t i = 0; i < runs; i++)
        for (uint64_t k = 0; k < run; k++)
            counts[in[i * step + k]]++;
    for (int i = 0; i < 256; i++)
        sum += (uint64_t)counts[i] * counts[i];
    return sum <= n + n * n / 256 * 9 / 8;
}

stk_status stk__block_promises(const stk__block_kind *kind, stk__codec_state *state, const void *in,
                               uint64_t length, void *out, bool *promises, const char **reason)
{
    uint64_t got = 0;

    *promises = true;
    if (kind->codec == STK__BLOCK_LZ4 || length < LEAST_PROMISE || !is_even(in, length))
        return STK_OK;
    STK_TRY(encode_lz4(state, QUICK, in, length, out, length, &got, reason));
    *promises = got && got < length - length / RUNS;
    return STK_OK;
}

stk_status stk__block_encode(const stk__block_kind *kind, stk__codec_state *state, const void *in,
                             uint64_t length, void *out, uint64_t capacity, uint64_t *got,
                             const char **reason)
{
    stk__codec_pass pass = {.in = in, .length = length, .out = out, .capacity = capacity};
    stk__codec_step step;

    make_step(kind, &step);
    if (!step.ops) {
        STK_TRY(encode_lz4(state, 1, in, length, out, capacity, got, reason));
        return *got ? STK_OK : fail(STK_EINVAL, "lz4 could not compress the block", reason);
    }
    const stk_status status = step.ops->encode(&step, state, &pass);
    *got = pass.got;
    *reason = pass.reason;
    return status;
}
