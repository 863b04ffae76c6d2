/* SPDX-License-Identifier: Apache-2.0 */
/* bzip2 through libbz2: streams in a row, each block checked. Memory of libbz2 (4 MiB at most) is
 * kept by the state between chunks. */
#include <bzlib.h>

#include "codec/state.h"
#include "codec/step.h"

#define PIECE_MAX (1u << 30) /* libbz2 counts in 32 bits */

static const stk__reasons reasons = STK__REASONS("bz2");

static void *bz2_alloc(void *state, int count, int size)
{
    uint64_t bytes;

    if (count < 0 || size < 0 || !stk__mul_size((uint64_t)count, (uint64_t)size, &bytes))
        return NULL;
    return stk__spare_alloc(state, bytes);
}

static void bz2_free(void *state, void *memory)
{
    stk__spare_free(state, memory);
}

static void open_stream(bz_stream *z, stk__codec_state *state)
{
    *z = (bz_stream){.bzalloc = bz2_alloc, .bzfree = bz2_free, .opaque = state};
}

/* One more byte than there is room for would be too much: it is let out into a byte of its own. */
static int step_out(bz_stream *z, stk__codec_pass *pass, uint64_t *at, char *beyond)
{
    uint64_t left = pass->length - *at, space = pass->needed - pass->got;
    unsigned in = (unsigned)STK_MIN(left, PIECE_MAX);
    unsigned room = space ? (unsigned)STK_MIN(space, PIECE_MAX) : 1;

    z->next_in = (char *)pass->in + *at;
    z->avail_in = in;
    z->next_out = space ? (char *)pass->out + pass->got : beyond;
    z->avail_out = room;
    int code = BZ2_bzDecompress(z);
    *at += in - z->avail_in;
    pass->got += room - z->avail_out;
    if (code == BZ_OK && !z->avail_in && z->avail_out && *at == pass->length)
        return BZ_UNEXPECTED_EOF;
    return code;
}

static stk_status failed(stk__codec_pass *pass, int code)
{
    if (code == BZ_MEM_ERROR)
        return stk__pass_fail(pass, STK_ENOMEM, reasons.memory);
    if (code == BZ_UNEXPECTED_EOF)
        return stk__pass_fail(pass, STK_ETRUNCATED, reasons.truncated);
    return stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
}

static stk_status decode_one(stk__codec_state *state, stk__codec_pass *pass, uint64_t *at)
{
    bool whole = pass->needed == pass->capacity;
    bz_stream z;
    char beyond;

    open_stream(&z, state);
    int code = BZ2_bzDecompressInit(&z, 0, 0);
    if (code != BZ_OK)
        return failed(pass, code);
    do
        code = step_out(&z, pass, at, &beyond);
    while (code == BZ_OK && pass->got <= pass->needed && (whole || pass->got < pass->needed));
    BZ2_bzDecompressEnd(&z);
    if (code != BZ_OK && code != BZ_STREAM_END)
        return failed(pass, code);
    if (pass->got > pass->capacity)
        return stk__pass_fail(pass, STK_EFORMAT, reasons.longer);
    return STK_OK;
}

static stk_status decode(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass)
{
    uint64_t at = 0;

    do
        STK_TRY(decode_one(state, pass, &at));
    while (at < pass->length && (pass->needed == pass->capacity || pass->got < pass->needed));
    return STK_OK;
}

static stk_status encode(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass)
{
    uint64_t at = 0;
    bz_stream z;
    int code;

    open_stream(&z, state);
    if (BZ2_bzCompressInit(&z, step->u.bz2.level, 0, 0) != BZ_OK)
        return stk__pass_fail(pass, STK_ENOMEM, reasons.memory);
    do {
        unsigned in = (unsigned)STK_MIN(pass->length - at, PIECE_MAX);
        unsigned room = (unsigned)STK_MIN(pass->capacity - pass->got, PIECE_MAX);
        z.next_in = (char *)pass->in + at;
        z.avail_in = in;
        z.next_out = (char *)pass->out + pass->got;
        z.avail_out = room;
        code = BZ2_bzCompress(&z, at + in == pass->length ? BZ_FINISH : BZ_RUN);
        at += in - z.avail_in;
        pass->got += room - z.avail_out;
    } while ((code == BZ_RUN_OK || code == BZ_FINISH_OK) && pass->got < pass->capacity);
    BZ2_bzCompressEnd(&z);
    if (code != BZ_STREAM_END)
        return stk__pass_fail(pass, STK_EINVAL, "bz2 could not compress the chunk");
    return STK_OK;
}

static bool bound(const stk__codec_step *step, uint64_t size, uint64_t *out)
{
    return stk__add_size(size, size / 64 + 4096, out);
}

const stk__codec_ops stk__codec_bz2 = {
    .name = "bz2", .reasons = &reasons, .decode = decode, .encode = encode, .bound = bound};
