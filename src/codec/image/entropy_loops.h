/* codes -> coefficients: the loop, for each instruction set */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chain from code to code bounds the speed: shift, look up, shift. So the lookup takes two
 * codes where they fit, all that is known of them is in its entry, and bits are brought in
 * once for several lookups, without a branch.
 */
#ifndef STK_SRC_CODEC_IMAGE_ENTROPY_LOOPS_H
#define STK_SRC_CODEC_IMAGE_ENTROPY_LOOPS_H

#include "codec/image/entropy.h"

#define STK__INLINE static inline __attribute__((always_inline))

/* Compilers make one load of it. */
STK__INLINE uint64_t stk__load_be64(const uint8_t *p)
{
    return (uint64_t)p[0] << 56 | (uint64_t)p[1] << 48 | (uint64_t)p[2] << 40 |
           (uint64_t)p[3] << 32 | (uint64_t)p[4] << 24 | (uint64_t)p[5] << 16 |
           (uint64_t)p[6] << 8 | p[7];
}

/* At least 56 bits are there afterwards [Giesen, "Reading bits in far too many ways", 2018]. */
STK__INLINE void stk__refill(stk__bits *b)
{
    b->bits |= b->ahead >> b->count;
    b->next += (63 - b->count) >> 3;
    b->count |= 56;
    b->ahead = stk__load_be64(b->next);
}

STK__INLINE void stk__take(stk__bits *b, uint64_t n)
{
    b->bits <<= n & 63;
    b->count -= (uint32_t)n & 0xff;
}

/* A value of `size` bits from the top, T.81 F.2.2.1 EXTEND. */
STK__INLINE int32_t stk__extend(uint64_t bits, uint32_t size)
{
    uint64_t negative = (uint64_t)(~(int64_t)bits >> 63);
    uint64_t value = (bits ^ negative) >> 1 >> (63 - size);

    return (int32_t)((value ^ negative) - negative);
}

/* The length of a code longer than `above` bits, and its symbol; 0 where there is none. */
STK__INLINE uint32_t stk__long_code(const stk__huffman_codes *codes, uint64_t bits, uint32_t above,
                                    uint32_t *symbol)
{
    uint32_t code = (uint32_t)(bits >> 48), length = above + 1;

    while (code >= codes->limit[length])
        length++;
    if (length > STK__HUFFMAN_LENGTHS)
        return 0;
    code >>= STK__HUFFMAN_LENGTHS - length;
    *symbol = codes->symbols[(uint32_t)((int32_t)code + codes->offset[length]) & 0xff];
    return length;
}

/* Takes up to 31 bits. */
STK__INLINE bool stk__decode_dc(stk__bits *b, const stk__huffman_dc *dc, int32_t *before)
{
    uint32_t entry = dc->entries[b->bits >> (64 - STK__DC_BITS)];

    if (__builtin_expect(!entry, 0)) {
        uint32_t symbol, length = stk__long_code(&dc->codes, b->bits, STK__DC_BITS, &symbol);
        if (!length)
            return false;
        entry = (length + symbol) | symbol << 8 | length << 16;
    }
    uint64_t value = b->bits << (entry >> 16);
    stk__take(b, entry);
    *before = (int32_t)((uint32_t)*before + (uint32_t)stk__extend(value, entry >> 8 & 0xff));
    return true;
}

/* Go back to where the first code of a pair ended. */
STK__INLINE void stk__untake(stk__bits *b, uint32_t n)
{
    uint32_t left = b->count + n;

    b->next -= (left + 7) >> 3;
    b->bits = stk__load_be64(b->next) << (-left & 7);
    b->next += 7;
    b->count = 56 - (-left & 7);
    b->ahead = stk__load_be64(b->next);
}

/* One code that is not in an entry as a whole. False: there is none. */
STK__INLINE bool stk__decode_other(stk__bits *b, const stk__huffman_ac *ac, uint32_t entry,
                                   uint32_t *k, int16_t *coefficients)
{
    uint32_t length = entry >> 8 & 0xff, symbol = entry >> 16 & 0xff;

    stk__refill(b);
    if (!length)
        length = stk__long_code(&ac->codes, b->bits, STK__AC_BITS, &symbol);
    if (!length)
        return false;
    uint32_t size = symbol & 15, run = symbol >> 4;
    stk__take(b, length);
    int32_t value = stk__extend(b->bits, size);
    stk__take(b, size);
    *k += size || run == 15 ? run + 1 : STK__AC_END;
    if (coefficients && size)
        coefficients[stk__places[*k]] = (int16_t)value;
    return true;
}

/*
 * The coefficients of a block behind the first; NULL: only step over them. k counts coefficients,
 * the first included. Gives the k it ended with: 64 or more; 0: a code that is none. As libjpeg
 * has it, a run beyond the end puts its value into the last coefficient.
 */
STK__INLINE uint32_t stk__decode_ac(stk__bits *b, const stk__huffman_ac *ac, int16_t *coefficients)
{
    uint32_t entry, index, k = 1;

#define STK__LOOKUP()                                                                              \
    do {                                                                                           \
        index = (uint32_t)(b->bits >> (64 - STK__AC_BITS));                                        \
        entry = ac->entries[index];                                                                \
        if (__builtin_expect(!(entry & 0xff), 0))                                                  \
            goto other;                                                                            \
        stk__take(b, entry);                                                                       \
        if (coefficients) {                                                                        \
            coefficients[stk__places[k + (entry >> 8 & 0xff)]] = ac->values[index][0];             \
            coefficients[stk__places[k + (entry >> 16 & 0xff)]] = ac->values[index][1];            \
        }                                                                                          \
        k += entry >> 16 & 0xff;                                                                   \
        if (k >= STK__BLOCK_COEFFICIENTS)                                                          \
            goto done;                                                                             \
    } while (0)

    /* 25 bits are left behind a DC. */
    STK__LOOKUP();
    STK__LOOKUP();
    for (;;) {
        stk__refill(b);
        STK__LOOKUP();
        STK__LOOKUP();
        STK__LOOKUP();
        STK__LOOKUP();
        STK__LOOKUP();
        continue;
    other:
        if (!stk__decode_other(b, ac, entry, &k, coefficients))
            return 0;
        if (k >= STK__BLOCK_COEFFICIENTS)
            return k;
    }
#undef STK__LOOKUP
done:;
    uint32_t first = entry >> 8 & 0xff, both = entry >> 16 & 0xff, k_first = k - both + first;
    /* The first code ended the block: the second is of the next one. */
    if (__builtin_expect((k_first >= STK__BLOCK_COEFFICIENTS) & (first != both), 0)) {
        stk__untake(b, (entry & 0xff) - (entry >> 24));
        k = k_first;
        if (coefficients)
            coefficients[stk__places[k]] = ac->values[index][0];
    }
    return k;
}

/* A block whose coefficients are there and whose samples are not. */
typedef struct stk__waiting {
    int16_t *coefficients;
    const int16_t *quantisers;
    uint8_t *out; /* NULL: there is none */
    size_t stride;
} stk__waiting;

STK__INLINE stk__entropy_result stk__decode_loop(stk__entropy *e, uint32_t first, uint32_t count)
{
    const stk__mcu_block *blocks_end = e->blocks + e->num_blocks;
    int16_t *coefficients = e->coefficients[0], *other = e->coefficients[1];
    stk__waiting waiting = {0};
    stk__bits at = e->at;

    for (uint32_t mcu = first; mcu < first + count; mcu++) {
        if (at.next >= e->limit) {
            e->at = at;
            if (!stk__entropy_more(e))
                return STK__ENTROPY_ENDED;
            at = e->at;
            at.ahead = stk__load_be64(at.next);
        }
        for (const stk__mcu_block *b = e->blocks; b < blocks_end; b++) {
            uint32_t nth = mcu - b->first;
            stk__refill(&at);
            if (!stk__decode_dc(&at, b->dc, b->dc_before))
                return STK__ENTROPY_BAD_CODE;
            if (nth >= b->count) {
                if (!stk__decode_ac(&at, b->ac, NULL))
                    return STK__ENTROPY_BAD_CODE;
                continue;
            }
            if (waiting.out)
                e->idct(waiting.coefficients, waiting.quantisers, waiting.out, waiting.stride);
            waiting.out = NULL;
            uint32_t k = stk__decode_ac(&at, b->ac, coefficients);
            uint8_t *out = b->out + nth * b->step;
            int16_t dc = (int16_t)*b->dc_before;
            if (k == 1 + STK__AC_END) {
                stk__idct_flat(dc * b->quantisers[0], out, b->stride);
                continue;
            }
            if (!k)
                return STK__ENTROPY_BAD_CODE;
            coefficients[0] = dc;
            waiting = (stk__waiting){coefficients, b->quantisers, out, b->stride};
            coefficients = other;
            other = waiting.coefficients;
        }
    }
    if (waiting.out)
        e->idct(waiting.coefficients, waiting.quantisers, waiting.out, waiting.stride);
    e->at = at;
    return STK__ENTROPY_OK;
}

#endif
