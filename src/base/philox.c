/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Philox4x32-10, a counter-based generator: Salmon, Moraes, Dror, Shaw, "Parallel random numbers:
 * as easy as 1, 2, 3", SC'11. The constants are the paper's.
 */
#include "base/base.h"
#include "base/random.h"

#define M0 UINT32_C(0xD2511F53)
#define M1 UINT32_C(0xCD9E8D57)
#define W0 UINT32_C(0x9E3779B9)
#define W1 UINT32_C(0xBB67AE85)

void stk__philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)M0 * c0, p1 = (uint64_t)M1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += W0;
        k1 += W1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

void stk__draw(uint64_t seed, uint32_t epoch, uint64_t position, uint32_t purpose, uint32_t *words,
               size_t n)
{
    /* Counter: 48 bits of position, 16 of purpose, 32 of epoch, 32 of block. */
    uint32_t counter[4] = {(uint32_t)position, (uint32_t)(position >> 32 & 0xFFFF) | purpose << 16,
                           epoch, 0};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t block[4];

    for (size_t i = 0; i < n; i += 4) {
        stk__philox(counter, key, block);
        memcpy(words + i, block, STK_MIN(n - i, 4) * sizeof *words);
        counter[3]++;
    }
}
