/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A keyed permutation of [0, size): a Feistel network over the next power of two, walked along its
 * cycle until it is back inside (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA
 * 2002). On average fewer than two walks are needed. The halves may differ by one bit: rounds
 * alternate between changing one half by the other. Each round is an even permutation; so that a
 * size that is a power of two gets odd ones too, a bit of the key says whether the positions 0 and
 * 1 change places.
 */
#include "base/permutation.h"
#include "base/random.h"

#define ROUNDS STK_PERMUTATION_ROUNDS
/* Below this the network has too few bits to mix; longer walks are cheap for so few samples. */
#define LEAST_BITS 6

/* A 32-bit mixer after Wellons' "lowbias32" (constants from his search, public domain). */
static inline uint32_t mix(uint32_t x, uint32_t key)
{
    x ^= key;
    x *= UINT32_C(0x7feb352d);
    x ^= x >> 15;
    x *= UINT32_C(0x846ca68b);
    return x >> 7;
}

void stk__permutation_init(stk__permutation *p, uint64_t size, uint64_t seed, uint64_t epoch,
                           uint32_t which)
{
    uint32_t bits = LEAST_BITS;

    while (bits < 48 && (UINT64_C(1) << bits) < size)
        bits++;
    p->size = size;
    p->left_bits = bits / 2;
    p->right_bits = bits - bits / 2;
    /* `which` parts the streams of one epoch; the high half of the epoch goes with it. */
    uint32_t words[ROUNDS + 1];
    stk__draw(seed, (uint32_t)epoch, which | (epoch >> 32) << 32, STK_DRAW_ORDER, words,
              STK_COUNT(words));
    memcpy(p->keys, words, sizeof p->keys);
    p->swap = size > 1 ? words[ROUNDS] & 1 : 0;
}

/* 0 for 1 and 1 for 0, where the key wants it. */
static inline uint64_t swapped(const stk__permutation *p, uint64_t x)
{
    return x ^ (x < 2 ? p->swap : 0);
}

/* One pass through the network. */
static inline uint64_t forward(const stk__permutation *p, uint64_t x)
{
    const uint32_t left_mask = (UINT32_C(1) << p->left_bits) - 1,
                   right_mask = (UINT32_C(1) << p->right_bits) - 1;
    uint32_t left = (uint32_t)(x >> p->right_bits), right = (uint32_t)x & right_mask;

    for (int round = 0; round < ROUNDS; round += 2) {
        left ^= mix(right, p->keys[round]) & left_mask;
        right ^= mix(left, p->keys[round + 1]) & right_mask;
    }
    return (uint64_t)left << p->right_bits | right;
}

static inline uint64_t backward(const stk__permutation *p, uint64_t x)
{
    const uint32_t left_mask = (UINT32_C(1) << p->left_bits) - 1,
                   right_mask = (UINT32_C(1) << p->right_bits) - 1;
    uint32_t left = (uint32_t)(x >> p->right_bits), right = (uint32_t)x & right_mask;

    for (int round = ROUNDS - 2; round >= 0; round -= 2) {
        right ^= mix(left, p->keys[round + 1]) & right_mask;
        left ^= mix(right, p->keys[round]) & left_mask;
    }
    return (uint64_t)left << p->right_bits | right;
}

uint64_t stk__permutation_at(const stk__permutation *p, uint64_t position)
{
    uint64_t x = swapped(p, position);

    do
        x = forward(p, x);
    while (x >= p->size);
    return x;
}

uint64_t stk__permutation_inverse(const stk__permutation *p, uint64_t value)
{
    uint64_t x = value;

    do
        x = backward(p, x);
    while (x >= p->size);
    return swapped(p, x);
}

void stk__permutation_pass(const stk__permutation *p, const uint64_t *positions, uint64_t *out,
                           size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = forward(p, positions[i]);
}

void stk__permutation_many(const stk__permutation *p, const uint64_t *positions, uint64_t *out,
                           size_t n, bool avx2)
{
    /* A first pass without branches, which the processor overlaps; what is rare comes behind. */
#ifdef STK_WITH_AVX2
    if (avx2 && p->left_bits + p->right_bits <= 32)
        stk__permutation_pass_avx2(p, positions, out, n);
    else
#endif
        stk__permutation_pass(p, positions, out, n);
    for (size_t i = 0; i < n; i++) {
        if (positions[i] < 2)
            out[i] = forward(p, swapped(p, positions[i]));
        while (out[i] >= p->size)
            out[i] = forward(p, out[i]);
    }
}
