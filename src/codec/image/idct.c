/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inverse DCT of libjpeg's accurate integer method [Loeffler, Ligtenberg and Moschytz, ICASSP
 * 1989, as jidctint.c has it]: bit for bit the same for all coefficients that an encoder can give.
 * Sums wrap and are clipped where the vectors of the other versions wrap and clip, so that damaged
 * files give the same everywhere.
 */
#include "codec/image/idct.h"
#include "codec/image/entropy.h"

#define SIDE 8

static int32_t clip(int32_t value, int32_t least, int32_t most)
{
    return STK_MAX(STK_MIN(value, most), least);
}

/* a x + b y, modulo 2^32. */
static uint32_t pair(int32_t a, int32_t x, int32_t b, int32_t y)
{
    return (uint32_t)(a * x) + (uint32_t)(b * y);
}

/* One dimension; `down` bits are rounded off. */
static void transform(const int16_t in[SIDE], int16_t out[SIDE], uint32_t down)
{
    uint32_t round = 1u << (down - 1), even[4], odd[4];
    int32_t z3 = (int16_t)(in[7] + in[3]), z4 = (int16_t)(in[1] + in[5]);

    uint32_t sum = pair(1 << CONST_BITS, in[0], 1 << CONST_BITS, in[4]) + round;
    uint32_t difference = pair(1 << CONST_BITS, in[0], -(1 << CONST_BITS), in[4]) + round;
    uint32_t low = pair(C_0_541, in[2], C_0_541 - C_1_847, in[6]);
    uint32_t high = pair(C_0_541 + C_0_765, in[2], C_0_541, in[6]);
    even[0] = sum + high;
    even[1] = difference + low;
    even[2] = difference - low;
    even[3] = sum - high;
    uint32_t y3 = pair(C_1_175 - C_1_961, z3, C_1_175, z4);
    uint32_t y4 = pair(C_1_175, z3, C_1_175 - C_0_390, z4);
    odd[0] = pair(-C_0_899, in[7], C_1_501 - C_0_899, in[1]) + y4;
    odd[1] = pair(C_3_072 - C_2_562, in[3], -C_2_562, in[5]) + y3;
    odd[2] = pair(-C_2_562, in[3], C_2_053 - C_2_562, in[5]) + y4;
    odd[3] = pair(C_0_298 - C_0_899, in[7], -C_0_899, in[1]) + y3;
    for (int i = 0; i < SIDE / 2; i++) {
        out[i] = (int16_t)clip((int32_t)(even[i] + odd[i]) >> down, INT16_MIN, INT16_MAX);
        out[7 - i] = (int16_t)clip((int32_t)(even[i] - odd[i]) >> down, INT16_MIN, INT16_MAX);
    }
}

void stk__idct(int16_t *coefficients, const int16_t *quantisers, uint8_t *out, size_t stride)
{
    int16_t columns[SIDE][SIDE], line[SIDE], result[SIDE];

    for (uint32_t c = 0; c < SIDE; c++) {
        for (uint32_t r = 0; r < SIDE; r++) {
            uint32_t place = stk__coefficient_place(r, c);
            line[r] = (int16_t)(coefficients[place] * quantisers[place]);
        }
        transform(line, columns[c], CONST_BITS - PASS1_BITS);
    }
    for (uint32_t r = 0; r < SIDE; r++) {
        for (uint32_t c = 0; c < SIDE; c++)
            line[c] = columns[c][r];
        transform(line, result, CONST_BITS + PASS1_BITS + 3);
        for (uint32_t c = 0; c < SIDE; c++)
            out[r * stride + c] = (uint8_t)(clip(result[c], -128, 127) + 128);
    }
    memset(coefficients, 0, STK__BLOCK_COEFFICIENTS * sizeof *coefficients);
}
