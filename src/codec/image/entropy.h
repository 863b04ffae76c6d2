/* entropy-coded bytes -> coefficients -> samples of blocks, MCU after MCU */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coefficients of a block lie in the order that the inverse transform wants them in: row r and
 * column c at stk__coefficient_place(r, c). Quantisers lie the same way.
 */
#ifndef STK_SRC_CODEC_IMAGE_ENTROPY_H
#define STK_SRC_CODEC_IMAGE_ENTROPY_H

#include "codec/image/huffman.h"

#define STK__BLOCK_COEFFICIENTS 64
/* Coefficients of a block and those that codes beyond its end put nowhere. */
#define STK__BLOCK_ROOM (STK__BLOCK_COEFFICIENTS + 16)
#define STK__MCU_BLOCKS 6
/* Most bytes of an MCU: each of its coefficients takes a code of 16 bits and a value of 15. */
#define STK__MCU_BYTES (STK__MCU_BLOCKS * STK__BLOCK_COEFFICIENTS * 31 / 8)
/* Bytes of a segment that are cleared of stuffing at a time, and zeros behind its end. */
#define STK__SEGMENT_BYTES 8192
#define STK__SEGMENT_ROOM  (STK__SEGMENT_BYTES + STK__MCU_BYTES + 128)

/*
 * Rows 0 and 4, 7 and 1, 2 and 6, 3 and 5 are in pairs: four vectors of sixteen, each having both
 * coefficients of a column next to each other, so that one multiply-and-add of pairs takes both.
 */
static inline uint32_t stk__coefficient_place(uint32_t row, uint32_t column)
{
    static const uint8_t vector[] = {0, 1, 2, 3, 0, 3, 2, 1}, second[] = {0, 1, 0, 0, 1, 1, 1, 0};

    return vector[row] * 16u + column * 2 + second[row];
}

/* The place of the n-th coefficient in zigzag order, counted from 1. A code beyond the 64th goes to
 * that one; an end of block (STK__AC_END more) nowhere. */
extern const uint8_t stk__places[256];

/* The state of the reading of codes. */
typedef struct stk__bits {
    uint64_t bits;       /* what comes next, from the highest bit on */
    uint64_t ahead;      /* the eight bytes at `next` */
    const uint8_t *next; /* where the bits behind those `count` are */
    uint32_t count;      /* of bits that are there, at most 63; below them stand later ones or 0 */
} stk__bits;

/* One block of each MCU. */
typedef struct stk__mcu_block {
    const stk__huffman_dc *dc;
    const stk__huffman_ac *ac;
    const int16_t *quantisers;
    int32_t *dc_before;    /* of the block of the same component before */
    uint8_t *out;          /* samples of the block in the first MCU that it is wanted of */
    size_t stride, step;   /* bytes from row to row, from MCU to MCU */
    uint32_t first, count; /* the MCUs of a row that it is wanted of; of others it is skipped */
} stk__mcu_block;

/* Coefficients -> samples, and zeros into the coefficients. `out` and `stride` are multiples of 8.
 */
typedef void stk__idct_fn(int16_t *coefficients, const int16_t *quantisers, uint8_t *out,
                          size_t stride);
/* Copy bytes without stuffing, from *in on, until `out_end` is reached or a marker found or the
 * input at its end; up to 32 bytes behind what is copied may be written. *marker is 0 or the one
 * that was stepped over. */
typedef uint8_t *stk__unstuff_fn(const uint8_t **in, const uint8_t *in_end, uint8_t *out,
                                 const uint8_t *out_end, uint32_t *marker);

typedef enum stk__entropy_result {
    STK__ENTROPY_OK,
    STK__ENTROPY_BAD_CODE, /* no code begins so */
    STK__ENTROPY_ENDED,    /* the segment has fewer bits than its blocks */
} stk__entropy_result;

typedef struct stk__entropy stk__entropy;
struct stk__entropy {
    stk__bits at;
    const uint8_t *limit;       /* from here on stk__entropy_more() is asked before an MCU */
    const uint8_t *end;         /* of the bytes in the segment buffer */
    const uint8_t *in, *in_end; /* what is not in the buffer yet */
    uint8_t *segment;           /* STK__SEGMENT_ROOM */
    bool ended;                 /* `end` is that of the segment */
    uint32_t marker;            /* behind it; 0: none, the file ends */
    uint32_t num_blocks;
    stk__mcu_block blocks[STK__MCU_BLOCKS];
    int32_t dc_before[3];
    stk__unstuff_fn *unstuff;
    stk__idct_fn *idct;
    _Alignas(32) int16_t coefficients[2][STK__BLOCK_ROOM]; /* zero between blocks */
};

/* Begin a segment at `in`. */
void stk__entropy_start(stk__entropy *e, const uint8_t *in, const uint8_t *in_end);
/* Bring more of the segment into the buffer; false when more bits were taken than it has. */
bool stk__entropy_more(stk__entropy *e);
/* Bits of the segment that were not taken, once it has ended. Negative: more were. */
int64_t stk__entropy_left(const stk__entropy *e);

/* Decode `count` MCUs of a row from `first` on, all of one segment. */
typedef stk__entropy_result stk__decode_mcus_fn(stk__entropy *e, uint32_t first, uint32_t count);

stk__decode_mcus_fn stk__decode_mcus, stk__decode_mcus_avx2;
stk__unstuff_fn stk__unstuff, stk__unstuff_avx2;
stk__idct_fn stk__idct, stk__idct_avx2;

/* The samples of a block that has but a DC coefficient. */
static inline void stk__idct_flat(int32_t dc, uint8_t *out, size_t stride)
{
    int32_t value = (((int16_t)dc * 4 + 16) >> 5) + 128;
    uint64_t eight = UINT64_C(0x0101010101010101) * (uint8_t)STK_MAX(STK_MIN(value, 255), 0);

    for (int i = 0; i < 8; i++)
        memcpy(out + (size_t)i * stride, &eight, 8);
}

#endif
