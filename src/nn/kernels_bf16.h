/* Rounding of floats to bfloat16, for the tables of float. */
/* SPDX-License-Identifier: Apache-2.0 */

static inline uint32_t bf16_bits(const float *x)
{
    uint32_t bits;

    memcpy(&bits, x, sizeof bits);
    uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
    /* Of a NaN the fraction must not become 0. */
    return (bits & 0x7fffffff) > 0x7f800000 ? bits | 0x400000 : rounded;
}

static void round_bf16(float *y, const float *x, uint64_t n)
{
    SAFE for (uint64_t i = 0; i < n; i++)
    {
        uint32_t bits = bf16_bits(x + i) & 0xffff0000;
        memcpy(y + i, &bits, sizeof bits);
    }
}

static void to_bf16(uint16_t *y, const float *x, uint64_t n)
{
    SAFE for (uint64_t i = 0; i < n; i++) y[i] = (uint16_t)(bf16_bits(x + i) >> 16);
}
