/* keys, positions -> random words, permutations */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_RANDOM_H
#define STK_SRC_BASE_RANDOM_H

#include "base/base.h"

/* Philox4x32-10 [Salmon et al., SC'11]: 128 bits of counter and 64 of key -> 128 random bits. */
void stk__philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
/* A float in [0, 1) of a word, with 24 bits; the result of u * 2^-32 rounded down. */
static inline float stk__uniform(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

/* What a draw is for: no two purposes share a stream. The transform's number in its pipeline is
 * added to TRANSFORM. */
enum {
    STK_DRAW_ORDER = 0,   /* keys of permutations */
    STK_DRAW_REPLACE = 1, /* substitutes of bad samples */
    STK_DRAW_DATA = 2,    /* data made procedurally */
    STK_DRAW_SPLIT = 3,
    STK_DRAW_BATCH = 4,  /* batch -> batch transforms */
    STK_DRAW_MIX = 5,    /* seeds of the sources of a mixture */
    STK_DRAW_BUCKET = 6, /* the order of batches of like length */
    STK_DRAW_TRANSFORM = 16
};

/* `n` words (a multiple of 4 is made up) for (seed, epoch, position, purpose). position < 2^48,
 * purpose < 2^16. */
void stk__draw(uint64_t seed, uint32_t epoch, uint64_t position, uint32_t purpose, uint32_t *words,
               size_t n);

/* At most 256 bytes that nobody can foretell, of the system. False: errno says why not. */
bool stk__system_random(void *bytes, size_t size);

#define STK_PERMUTATION_ROUNDS 8

/* A keyed permutation of [0, size), size <= 2^48, computed and not stored. */
typedef struct stk__permutation {
    uint64_t size;
    uint32_t left_bits, right_bits;
    uint32_t keys[STK_PERMUTATION_ROUNDS];
    uint32_t swap; /* 1: the positions 0 and 1 change places first */
} stk__permutation;

#define STK_PERMUTATION_MAX (UINT64_C(1) << 48)

void stk__permutation_init(stk__permutation *p, uint64_t size, uint64_t seed, uint64_t epoch,
                           uint32_t which);
uint64_t stk__permutation_at(const stk__permutation *p, uint64_t position); /* position -> value */
uint64_t stk__permutation_inverse(const stk__permutation *p,
                                  uint64_t value); /* value -> position */
/* out[i] = at(positions[i]); the same values, faster, with or without AVX2. */
void stk__permutation_many(const stk__permutation *p, const uint64_t *positions, uint64_t *out,
                           size_t n, bool avx2);

#endif
