/* code lengths, symbols -> tables that the entropy decoder looks codes up in */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CODEC_IMAGE_HUFFMAN_H
#define STK_SRC_CODEC_IMAGE_HUFFMAN_H

#include "base/base.h"

#define STK__HUFFMAN_LENGTHS 16  /* longest code, T.81 annex C */
#define STK__HUFFMAN_SYMBOLS 256 /* most codes */
#define STK__DC_BITS         9   /* looked up at once */
#define STK__AC_BITS         11

/* A table as DHT has it. */
typedef struct stk__huffman_spec {
    const uint8_t *counts;  /* codes of 1, 2, ... 16 bits */
    const uint8_t *symbols; /* in the order of the codes */
    uint32_t num_symbols;
} stk__huffman_spec;

/* Codes of any length: of `length` bits are those below limit[length] (of 16 bits), and the symbol
 * of one is symbols[(code >> (16 - length)) + offset[length]]. limit[17] is above all. */
typedef struct stk__huffman_codes {
    uint32_t limit[STK__HUFFMAN_LENGTHS + 2];
    int32_t offset[STK__HUFFMAN_LENGTHS + 1];
    uint8_t symbols[STK__HUFFMAN_SYMBOLS];
} stk__huffman_codes;

/*
 * Differences of DC. An entry: bits of code and value together, bits of the value << 8, bits of the
 * code << 16; 0 where the code is longer than the lookup.
 */
typedef struct stk__huffman_dc {
    uint32_t entries[1 << STK__DC_BITS];
    stk__huffman_codes codes;
    uint8_t counts[STK__HUFFMAN_LENGTHS]; /* what it was made of */
    uint32_t num_symbols;
} stk__huffman_dc;

/*
 * AC coefficients: up to two codes with their values in one entry, of four bytes from the low end:
 *   0     bits of all of it; 0: the entry is none of this kind, see below
 *   1, 2  coefficients that the first code goes on by, and both do; STK__AC_END more at an end of
 *         block. Where one code is alone, both are the same
 *   3     bits of the first code and its value
 * What does not fit has byte 0 = 0, byte 1 = bits of the code (0: more than the lookup, or none),
 * byte 2 = symbol. The values stand apart, since they are not waited for and the entries, which
 * are, should stay in the first-level cache. values[][1] of one that is alone is the same again.
 */
typedef struct stk__huffman_ac {
    uint32_t entries[1 << STK__AC_BITS];
    int8_t values[1 << STK__AC_BITS][2];
    stk__huffman_codes codes;
    uint8_t counts[STK__HUFFMAN_LENGTHS];
    uint32_t num_symbols;
} stk__huffman_ac;

#define STK__AC_END 128

/* Make a table, or keep it where it is that one already. False: the codes are impossible. */
bool stk__huffman_make_dc(stk__huffman_dc *dc, const stk__huffman_spec *spec);
bool stk__huffman_make_ac(stk__huffman_ac *ac, const stk__huffman_spec *spec);

#endif
