/* SPDX-License-Identifier: Apache-2.0 */
/* LZ4 frames [lz4/doc/lz4_Frame_format.md, 1.6.x]: a descriptor, blocks, an end mark. */
#define XXH_INLINE_ALL
#include <lz4.h>
#include <xxhash.h>

#include "codec/codec.h"

#define MAGIC       UINT32_C(0x184D2204)
#define LEAST       7u /* magic, flags, block size, checksum of the descriptor */
#define STORED      UINT32_C(0x80000000)
#define DICTIONARY  (UINT64_C(64) << 10) /* of blocks before that a block may repeat */
#define VERSION     0x40
#define VERSIONS    0xc0
#define INDEPENDENT 0x20
#define SUM_BLOCKS  0x10
#define HAS_SIZE    0x08
#define SUM_CONTENT 0x04
#define RESERVED    0x02
#define HAS_ID      0x01

typedef struct frame {
    const uint8_t *in;
    uint64_t at, length;
    uint8_t *out;
    uint64_t done, size, most; /* most: of a block */
    unsigned flags;
    const char **reason;
} frame;

static stk_status damaged(const frame *f)
{
    *f->reason = "lz4: the frame is damaged; write the data again";
    return STK_EFORMAT;
}

static stk_status truncated(const frame *f)
{
    *f->reason = "lz4: the frame ends too early; copy or write the data again";
    return STK_ETRUNCATED;
}

static stk_status mismatch(const frame *f)
{
    *f->reason = "lz4: a checksum of the frame does not match; copy or write the data again";
    return STK_ECHECKSUM;
}

static bool word(frame *f, uint32_t *out)
{
    if (f->length - f->at < 4)
        return false;
    *out = (uint32_t)stk__little_endian(f->in + f->at, 4);
    f->at += 4;
    return true;
}

static stk_status read_descriptor(frame *f)
{
    uint32_t magic = 0;

    if (f->length < LEAST)
        return truncated(f);
    word(f, &magic);
    f->flags = f->in[4];
    const unsigned code = f->in[5] >> 4 & 7;
    if (magic != MAGIC || (f->flags & (VERSIONS | RESERVED | HAS_ID)) != VERSION || code < 4 ||
        (f->in[5] & 0x8f))
        return damaged(f);
    f->most = UINT64_C(1) << (8 + 2 * code);
    const uint64_t descriptor = f->flags & HAS_SIZE ? 10 : 2;
    if (f->length < 4 + descriptor + 1)
        return truncated(f);
    if (f->in[4 + descriptor] != (XXH32(f->in + 4, descriptor, 0) >> 8 & 0xff))
        return mismatch(f);
    if (f->flags & HAS_SIZE && stk__little_endian(f->in + 6, 8) != f->size)
        return damaged(f);
    f->at = 4 + descriptor + 1;
    return STK_OK;
}

static stk_status read_block(frame *f, uint32_t head)
{
    const uint32_t length = head & ~STORED;
    const uint8_t *in = f->in + f->at;
    uint8_t *out = f->out + f->done;
    const uint64_t room = STK_MIN(f->most, f->size - f->done),
                   before = f->flags & INDEPENDENT ? 0 : STK_MIN(f->done, DICTIONARY);
    uint32_t sum;
    int got = (int)length;

    if (length > f->length - f->at)
        return truncated(f);
    if (length > f->most)
        return damaged(f);
    f->at += length;
    if (f->flags & SUM_BLOCKS) {
        if (!word(f, &sum))
            return truncated(f);
        if (sum != XXH32(in, length, 0))
            return mismatch(f);
    }
    if (!(head & STORED))
        got = LZ4_decompress_safe_usingDict((const char *)in, (char *)out, (int)length, (int)room,
                                            (const char *)out - before, (int)before);
    else if (length <= room)
        memcpy(out, in, length);
    else
        return damaged(f);
    if (got < 0)
        return damaged(f);
    f->done += (uint64_t)got;
    return STK_OK;
}

stk_status stk__lz4_frame_decode(const void *in, uint64_t length, void *out, uint64_t size,
                                 const char **reason)
{
    frame f = {.in = in, .length = length, .out = out, .size = size, .reason = reason};
    uint32_t head = 0, sum = 0;

    STK_TRY(read_descriptor(&f));
    for (;;) {
        if (!word(&f, &head))
            return truncated(&f);
        if (!head)
            break;
        STK_TRY(read_block(&f, head));
    }
    if (f.flags & SUM_CONTENT) {
        if (!word(&f, &sum))
            return truncated(&f);
        if (f.done == size && sum != XXH32(out, size, 0))
            return mismatch(&f);
    }
    return f.done == size && f.at == length ? STK_OK : damaged(&f);
}

/* ---- Writing --------------------------------------------------------------------------------- */

#define BLOCK_CODE 7u /* of 4 MiB */
#define BLOCK      (UINT64_C(4) << 20)
#define WORD       4u

static const stk__block_kind kind = {.codec = STK__BLOCK_LZ4, .most = BLOCK};

uint64_t stk__lz4_frame_bound(uint64_t length)
{
    const uint64_t blocks = stk__divide_up(length, BLOCK);

    return LEAST + blocks * WORD + length / BLOCK * stk__block_bound(&kind, BLOCK) +
           stk__block_bound(&kind, length % BLOCK) + WORD;
}

static uint8_t *put_word(uint8_t *to, uint64_t value)
{
    for (int k = 0; k < 4; k++)
        *to++ = (uint8_t)(value >> (8 * k));
    return to;
}

stk_status stk__lz4_frame_encode(stk__codec_state *state, const void *in, uint64_t length,
                                 void *out, uint64_t *got, const char **reason)
{
    const uint8_t *from = in;
    uint8_t *to = put_word(out, MAGIC);

    *to++ = VERSION | INDEPENDENT;
    *to++ = BLOCK_CODE << 4;
    *to = (uint8_t)(XXH32(to - 2, 2, 0) >> 8);
    to++;
    for (uint64_t done = 0, n; done < length; done += n) {
        uint64_t packed = 0;
        n = STK_MIN(length - done, BLOCK);
        STK_TRY(stk__block_encode(&kind, state, from + done, n, to + WORD,
                                  stk__block_bound(&kind, n), &packed, reason));
        if (packed >= n) {
            memcpy(to + WORD, from + done, n);
            packed = n;
            put_word(to, n | STORED);
        } else {
            put_word(to, packed);
        }
        to += WORD + packed;
    }
    to = put_word(to, 0);
    *got = (uint64_t)(to - (uint8_t *)out);
    return STK_OK;
}
