/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gzip [RFC 1952], zlib [RFC 1950] and raw deflate [RFC 1951]: whole streams through libdeflate,
 * prefixes through zlib, which can stop early. gzip members that follow each other are one stream;
 * zeros after the last are padding. libdeflate 1.14 takes no allocator of ours: its two objects are
 * made once for each state.
 */
#include <libdeflate.h>
#include <zlib.h>

#include "codec/codec.h"
#include "codec/state.h"
#include "codec/step.h"

#define WINDOW_BITS     15
#define WINDOW_GZIP     16         /* added to WINDOW_BITS: a gzip header */
#define PIECE_MAX       (1u << 30) /* zlib counts in 32 bits */
#define LEVEL_DEFAULT   6
#define PREFIX_WORTH(n) ((n) / 2) /* zlib takes about twice libdeflate's time */

static const stk__reasons reasons_of[] = {STK__REASONS("gzip"), STK__REASONS("zlib"),
                                          STK__REASONS("deflate")};

struct stk__inflater {
    z_stream z;
    bool ready;
};

static struct libdeflate_decompressor *decoder(stk__codec_state *state)
{
    if (!state->deflate_d)
        state->deflate_d = libdeflate_alloc_decompressor();
    return state->deflate_d;
}

void stk__deflate_release(stk__codec_state *state)
{
    if (state->deflate_d)
        libdeflate_free_decompressor(state->deflate_d);
    if (state->deflate_c)
        libdeflate_free_compressor(state->deflate_c);
    if (state->inflater && state->inflater->ready)
        inflateEnd(&state->inflater->z);
    stk__free(state->context, state->inflater);
}

static bool is_gzip(const uint8_t *in, uint64_t length)
{
    return length >= 2 && in[0] == 0x1f && in[1] == 0x8b;
}

/* libdeflate does not tell data that ends too early from data that is damaged: both are bad data to
 * it. What is cut has no room for what it promised; damage is the safer word. */
static stk_status failed(enum libdeflate_result result, const stk__reasons *reasons,
                         const char **reason)
{
    *reason = result == LIBDEFLATE_INSUFFICIENT_SPACE ? reasons->longer : reasons->damaged;
    return STK_EFORMAT;
}

static enum libdeflate_result one_stream(const stk__codec_step *step, stk__codec_state *state,
                                         const uint8_t *in, uint64_t length, uint8_t *out,
                                         uint64_t capacity, size_t *used, size_t *got)
{
    if (step->u.deflate.format == 'g')
        return libdeflate_gzip_decompress_ex(state->deflate_d, in, length, out, capacity, used,
                                             got);
    if (step->u.deflate.format == 'z')
        return libdeflate_zlib_decompress_ex(state->deflate_d, in, length, out, capacity, used,
                                             got);
    return libdeflate_deflate_decompress_ex(state->deflate_d, in, length, out, capacity, used, got);
}

/* One stream after the other, and padding. */
static stk_status decode_whole(const stk__codec_step *step, stk__codec_state *state,
                               stk__codec_pass *pass)
{
    const stk__reasons *reasons = step->ops->reasons;
    const uint8_t *in = pass->in;
    uint64_t left = pass->length;

    if (!decoder(state))
        return stk__pass_fail(pass, STK_ENOMEM, reasons->memory);
    if (!left)
        return stk__pass_fail(pass, STK_ETRUNCATED, reasons->truncated);
    do {
        size_t used = 0, got = 0;
        enum libdeflate_result result = one_stream(step, state, in, left, pass->out + pass->got,
                                                   pass->capacity - pass->got, &used, &got);
        if (result != LIBDEFLATE_SUCCESS)
            return failed(result, reasons, &pass->reason);
        in += used;
        left -= used;
        pass->got += got;
    } while (step->u.deflate.format == 'g' && is_gzip(in, left));
    if (!stk__all_zero(in, left))
        return stk__pass_fail(pass, STK_EFORMAT, reasons->damaged);
    return STK_OK;
}

/* ---- Prefixes ---- */

static void *inflate_alloc(void *state, unsigned count, unsigned size)
{
    uint64_t bytes;

    return stk__mul_size(count, size, &bytes) ? stk__spare_alloc(state, bytes) : NULL;
}

static void inflate_free(void *state, void *memory)
{
    stk__spare_free(state, memory);
}

static z_stream *inflater(stk__codec_state *state, int bits)
{
    if (!state->inflater)
        state->inflater = stk__calloc(state->context, 1, sizeof *state->inflater);
    if (!state->inflater)
        return NULL;
    z_stream *z = &state->inflater->z;
    if (!state->inflater->ready) {
        z->zalloc = inflate_alloc;
        z->zfree = inflate_free;
        z->opaque = state;
        state->inflater->ready = inflateInit2(z, bits) == Z_OK;
        return state->inflater->ready ? z : NULL;
    }
    return inflateReset2(z, bits) == Z_OK ? z : NULL;
}

static stk_status decode_prefix(const stk__codec_step *step, stk__codec_state *state,
                                stk__codec_pass *pass)
{
    const stk__reasons *reasons = step->ops->reasons;
    char format = (char)step->u.deflate.format;
    int bits = format == 'g' ? WINDOW_BITS + WINDOW_GZIP : format == 'z' ? WINDOW_BITS : -15;
    z_stream *z = inflater(state, bits);
    uint64_t at = 0;

    if (!z)
        return stk__pass_fail(pass, STK_ENOMEM, reasons->memory);
    while (pass->got < pass->needed) {
        uint64_t left = pass->length - at;
        unsigned in = (unsigned)STK_MIN(left, PIECE_MAX);
        unsigned room = (unsigned)STK_MIN(pass->needed - pass->got, PIECE_MAX);
        z->next_in = (unsigned char *)pass->in + at;
        z->avail_in = in;
        z->next_out = pass->out + pass->got;
        z->avail_out = room;
        int code = in ? inflate(z, Z_NO_FLUSH) : Z_BUF_ERROR;
        at += in - z->avail_in;
        pass->got += room - z->avail_out;
        if (code == Z_STREAM_END && format == 'g' && is_gzip(pass->in + at, pass->length - at) &&
            inflateReset(z) == Z_OK)
            continue;
        if (code == Z_STREAM_END)
            break; /* the chain says that these are too few, if they are */
        if (code == Z_BUF_ERROR)
            return stk__pass_fail(pass, STK_ETRUNCATED, reasons->truncated);
        if (code == Z_MEM_ERROR)
            return stk__pass_fail(pass, STK_ENOMEM, reasons->memory);
        if (code != Z_OK)
            return stk__pass_fail(pass, STK_EFORMAT, reasons->damaged);
    }
    return STK_OK;
}

static stk_status decode(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass)
{
    if (pass->needed < PREFIX_WORTH(pass->capacity))
        return decode_prefix(step, state, pass);
    return decode_whole(step, state, pass);
}

stk_status stk__zlib_decode(stk__codec_state *state, const void *in, uint64_t length, void *out,
                            uint64_t size, const char **reason)
{
    size_t used, got = 0;

    if (!decoder(state)) {
        *reason = reasons_of[1].memory;
        return STK_ENOMEM;
    }
    enum libdeflate_result result =
        libdeflate_zlib_decompress_ex(state->deflate_d, in, length, out, size, &used, &got);
    if (result != LIBDEFLATE_SUCCESS || got != size)
        return failed(result, &reasons_of[1], reason);
    return STK_OK;
}

stk_status stk__deflate_decode(stk__codec_state *state, const void *in, uint64_t length, void *out,
                               uint64_t size, const char **reason)
{
    const stk__reasons *reasons = &reasons_of[2];
    size_t used = 0, got = 0;

    if (!decoder(state)) {
        *reason = reasons->memory;
        return STK_ENOMEM;
    }
    enum libdeflate_result result =
        libdeflate_deflate_decompress_ex(state->deflate_d, in, length, out, size, &used, &got);
    if (result != LIBDEFLATE_SUCCESS || used != length)
        return failed(result, reasons, reason);
    if (got != size) {
        *reason = reasons->truncated;
        return STK_ETRUNCATED;
    }
    return STK_OK;
}

/* ---- Encoding ---- */

static stk_status encode(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass)
{
    int level = step->u.deflate.level < 0 ? LEVEL_DEFAULT : step->u.deflate.level;
    size_t n;

    if (state->deflate_c && state->deflate_level != level) {
        libdeflate_free_compressor(state->deflate_c);
        state->deflate_c = NULL;
    }
    if (!state->deflate_c)
        state->deflate_c = libdeflate_alloc_compressor(level);
    if (!state->deflate_c)
        return stk__pass_fail(pass, STK_ENOMEM, step->ops->reasons->memory);
    state->deflate_level = level;
    if (step->u.deflate.format == 'g')
        n = libdeflate_gzip_compress(state->deflate_c, pass->in, pass->length, pass->out,
                                     pass->capacity);
    else if (step->u.deflate.format == 'z')
        n = libdeflate_zlib_compress(state->deflate_c, pass->in, pass->length, pass->out,
                                     pass->capacity);
    else
        n = libdeflate_deflate_compress(state->deflate_c, pass->in, pass->length, pass->out,
                                        pass->capacity);
    if (!n)
        return stk__pass_fail(pass, STK_EINVAL, "deflate could not compress the chunk");
    pass->got = n;
    return STK_OK;
}

/* Stored blocks of a few hundred bytes are the worst that writers do. */
static bool bound(const stk__codec_step *step, uint64_t size, uint64_t *out)
{
    return stk__add_size(size, size / 64 + 4096, out);
}

const stk__codec_ops stk__codec_gzip = {
    .name = "gzip", .reasons = &reasons_of[0], .decode = decode, .encode = encode, .bound = bound};
const stk__codec_ops stk__codec_zlib = {
    .name = "zlib", .reasons = &reasons_of[1], .decode = decode, .encode = encode, .bound = bound};
const stk__codec_ops stk__codec_deflate = {.name = "deflate",
                                           .reasons = &reasons_of[2],
                                           .decode = decode,
                                           .encode = encode,
                                           .bound = bound};
