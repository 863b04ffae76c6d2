/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blosc 1 frames [c-blosc README_CHUNK_FORMAT, versions 1.0 to 1.21]. They are taken apart here,
 * block by block: decoders and memory are the state's, the input is trusted in nothing, a prefix
 * costs the blocks it needs, and a frame that c-blosc would unpack with new contexts for every
 * block is unpacked with one. Written by c-blosc, in the caller's thread.
 */
#include <blosc.h>
#include <lz4.h>

#include "codec/kernels.h"
#include "codec/state.h"
#include "codec/step.h"

#define HEADER         16
#define FLAG_SHUFFLE   0x01
#define FLAG_COPY      0x02
#define FLAG_BITS      0x04
#define FLAG_WHOLE     0x10 /* blocks are not split by the bytes of their elements */
#define VERSION_BLOSC2 3    /* and later: frames of blosc 2 */
#define MAX_SPLITS     16
#define MIN_SPLIT      128 /* elements of a block that is split */

enum { FORMAT_BLOSCLZ, FORMAT_LZ4, FORMAT_SNAPPY, FORMAT_ZLIB, FORMAT_ZSTD };

static const stk__reasons reasons = STK__REASONS("blosc");

typedef struct frame {
    const uint8_t *in;
    uint64_t length;
    uint32_t flags, type_size, size, block, blocks;
    bool partial; /* the one block is shorter than the frame says of its blocks */
} frame;

static uint32_t load(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static stk_status read_header(frame *f, stk__codec_pass *pass)
{
    const uint8_t *in = pass->in;

    if (pass->length < HEADER)
        return stk__pass_fail(pass, STK_ETRUNCATED, reasons.truncated);
    f->in = in;
    f->flags = in[2];
    f->type_size = in[3];
    f->size = load(in + 4);
    f->block = load(in + 8);
    f->length = load(in + 12);
    uint32_t both = FLAG_SHUFFLE | FLAG_BITS; /* blosc 2 marks its longer header so */
    if (in[0] >= VERSION_BLOSC2 || (f->flags & both) == both)
        return stk__pass_fail(pass, STK_EKIND,
                              "it is a frame of blosc 2, which is not read; write the array again "
                              "with blosc 1 or zstd");
    if (f->size > pass->capacity)
        return stk__pass_fail(pass, STK_EFORMAT, reasons.longer);
    if (f->length > pass->length)
        return stk__pass_fail(pass, STK_ETRUNCATED, reasons.truncated);
    if (f->length != pass->length || f->length < HEADER || !in[0] || !f->type_size)
        return stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
    if (!f->size)
        return STK_OK;
    if (!f->block || f->block > INT32_MAX)
        return stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
    f->partial = f->block > f->size;
    f->block = STK_MIN(f->block, f->size);
    f->blocks = (f->size - 1) / f->block + 1;
    if (!(f->flags & FLAG_COPY) && (uint64_t)f->blocks * 4 > f->length - HEADER)
        return stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
    return STK_OK;
}

static bool unpack(const frame *f, stk__codec_state *state, const uint8_t *in, uint32_t length,
                   uint8_t *out, uint32_t size, stk_status *status)
{
    const char *reason;
    uint64_t got = 0;

    *status = STK_OK;
    switch (f->flags >> 5) {
    case FORMAT_BLOSCLZ:
        return stk__blosclz_decode(in, length, out, size);
    case FORMAT_LZ4:
        return length <= INT32_MAX && size <= INT32_MAX &&
               LZ4_decompress_safe((const char *)in, (char *)out, (int)length, (int)size) ==
                   (int)size;
    case FORMAT_SNAPPY:
        return stk__snappy_decode(in, length, out, size);
    case FORMAT_ZLIB:
        *status = stk__zlib_decode(state, in, length, out, size, &reason);
        return *status == STK_OK;
    case FORMAT_ZSTD:
        *status = stk__zstd_decode(state, in, length, out, size, &got, &reason);
        return *status == STK_OK && got == size;
    default:
        return false;
    }
}

/* The compressed parts of block `n`, which is `size` bytes -> out. */
static stk_status read_block(const frame *f, stk__codec_state *state, uint32_t n, uint32_t size,
                             uint8_t *out, stk__codec_pass *pass)
{
    bool last = size != f->block || f->partial;
    bool split = !(f->flags & FLAG_WHOLE) && !last && f->type_size <= MAX_SPLITS &&
                 f->block / f->type_size >= MIN_SPLIT;
    uint32_t parts = split ? f->type_size : 1, part = size / parts;
    uint64_t at = load(f->in + HEADER + 4 * (uint64_t)n);

    if (part * parts != size)
        return stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
    for (uint32_t i = 0; i < parts; i++, out += part) {
        if (at < HEADER || at > f->length || f->length - at < 4)
            return stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
        uint32_t length = load(f->in + at);
        at += 4;
        if (length > f->length - at)
            return stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
        stk_status status = STK_OK;
        if (length == part)
            memcpy(out, f->in + at, part);
        else if (!unpack(f, state, f->in + at, length, out, part, &status))
            return status == STK_ENOMEM ? stk__pass_fail(pass, status, reasons.memory)
                                        : stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
        at += length;
    }
    return STK_OK;
}

static void unshuffle(const frame *f, stk__codec_state *state, const uint8_t *in, uint8_t *out,
                      uint8_t *room, uint32_t size, uint32_t swap)
{
    uint32_t count = size / f->type_size, whole = count * f->type_size;

    if (f->flags & FLAG_SHUFFLE) {
        state->kernels->unshuffle(in, out, count, f->type_size, swap == f->type_size);
        memcpy(out + whole, in + whole, size - whole);
    } else if (count % 8) { /* left as it is by the writer, too */
        memcpy(out, in, size);
    } else {
        state->kernels->unbitshuffle(in, out, room, count, f->type_size);
        memcpy(out + whole, in + whole, size - whole);
    }
}

static stk_status decode_blocks(const frame *f, stk__codec_state *state, uint32_t swap,
                                stk__codec_pass *pass)
{
    bool shuffled = ((f->flags & FLAG_SHUFFLE) && f->type_size > 1) || (f->flags & FLAG_BITS);
    bool reversed = (f->flags & FLAG_SHUFFLE) && shuffled && swap == f->type_size;
    /* Blocks may end within an element. */
    bool apart = swap && !reversed && f->block % swap;
    uint8_t *room = NULL;

    if (shuffled) {
        /* Never more than the chunk's size, whatever the frame says. */
        uint64_t planes = f->flags & FLAG_BITS ? f->block : 0;
        room = stk__scratch(state, STK__SCRATCH_BLOCK, f->block + planes);
        if (!room)
            return stk__pass_fail(pass, STK_ENOMEM, reasons.memory);
    }
    for (uint32_t n = 0; n < f->blocks && pass->got < pass->needed; n++) {
        uint64_t start = (uint64_t)n * f->block;
        uint32_t size = (uint32_t)STK_MIN((uint64_t)f->block, f->size - start);
        uint8_t *out = pass->out + start;
        STK_TRY(read_block(f, state, n, size, shuffled ? room : out, pass));
        if (shuffled)
            unshuffle(f, state, room, out, room + f->block, size, swap);
        if (swap && !reversed && !apart)
            state->kernels->swap(out, out, size / swap, swap);
        else if (reversed && size % swap)
            return stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
        pass->got += size;
    }
    if (apart)
        state->kernels->swap(pass->out, pass->out, pass->got / swap, swap);
    return STK_OK;
}

static stk_status decode(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass)
{
    uint32_t swap = step->u.blosc.swap;
    frame f = {0};

    STK_TRY(read_header(&f, pass));
    if (!f.size)
        return STK_OK;
    if (swap) /* whole elements */
        pass->needed = STK_MIN(stk__round_up(pass->needed, swap), pass->capacity);
    if (!(f.flags & FLAG_COPY))
        return decode_blocks(&f, state, swap, pass);
    if (f.length - HEADER < f.size)
        return stk__pass_fail(pass, STK_ETRUNCATED, reasons.truncated);
    memcpy(pass->out, f.in + HEADER, f.size);
    if (swap)
        state->kernels->swap(pass->out, pass->out, f.size / swap, swap);
    pass->got = f.size;
    return STK_OK;
}

static stk_status encode(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass)
{
    const uint8_t *in = pass->in;

    if (pass->length > BLOSC_MAX_BUFFERSIZE)
        return stk__pass_fail(pass, STK_EINVAL,
                              "blosc holds at most 2147483631 bytes; write smaller chunks");
    if (step->u.blosc.swap) {
        uint8_t *room = stk__scratch(state, STK__SCRATCH_BLOCK, pass->length);
        if (!room)
            return stk__pass_fail(pass, STK_ENOMEM, reasons.memory);
        state->kernels->swap(in, room, pass->length / step->u.blosc.swap, step->u.blosc.swap);
        in = room;
    }
    int n = blosc_compress_ctx(
        step->u.blosc.level, step->u.blosc.shuffle, (size_t)step->u.blosc.type_size, pass->length,
        in, pass->out, pass->capacity, step->u.blosc.name, (size_t)step->u.blosc.block_size, 1);
    if (n <= 0)
        return stk__pass_fail(pass, n < 0 ? STK_EKIND : STK_EINVAL,
                              "blosc could not compress the chunk; try cname lz4 or zstd");
    pass->got = (uint64_t)n;
    return STK_OK;
}

static bool bound(const stk__codec_step *step, uint64_t size, uint64_t *out)
{
    return stk__add_size(size, size / 16 + 4096, out);
}

const stk__codec_ops stk__codec_blosc = {
    .name = "blosc", .reasons = &reasons, .decode = decode, .encode = encode, .bound = bound};
