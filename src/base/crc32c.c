/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc32c.h"

#define POLYNOMIAL 0x82f63b78u /* its bits reversed [RFC 3720] */

static stk__crc32c_tables tables;
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void make_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t x = i;
        for (int bit = 0; bit < 8; bit++)
            x = x >> 1 ^ (x & 1 ? POLYNOMIAL : 0);
        tables.slice[0][i] = x;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++)
            tables.slice[k][i] =
                tables.slice[k - 1][i] >> 8 ^ tables.slice[0][tables.slice[k - 1][i] & 255];
    /* What zeros do to the register is linear: to each bit by itself, then sums of these. */
    uint32_t bits[32];
    for (int i = 0; i < 32; i++) {
        bits[i] = 1u << i;
        for (int n = 0; n < STK__CRC32C_SHIFT; n++)
            bits[i] = bits[i] >> 8 ^ tables.slice[0][bits[i] & 255];
    }
    for (int k = 0; k < 4; k++)
        for (int i = 1; i < 256; i++)
            for (int bit = 0; bit < 8; bit++)
                if (i >> bit & 1)
                    tables.shift[k][i] ^= bits[8 * k + bit];
}

const stk__crc32c_tables *stk__crc32c_get(void)
{
    pthread_once(&tables_once, make_tables);
    return &tables;
}

uint32_t stk__crc32c(uint32_t crc, const uint8_t *data, size_t length)
{
    const stk__crc32c_tables *t = stk__crc32c_get();

    crc = ~crc;
    for (; length >= 8; data += 8, length -= 8) {
        uint32_t low = crc ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 |
                              (uint32_t)data[3] << 24);
        crc = t->slice[7][low & 255] ^ t->slice[6][low >> 8 & 255] ^ t->slice[5][low >> 16 & 255] ^
              t->slice[4][low >> 24] ^ t->slice[3][data[4]] ^ t->slice[2][data[5]] ^
              t->slice[1][data[6]] ^ t->slice[0][data[7]];
    }
    for (; length; data++, length--)
        crc = crc >> 8 ^ t->slice[0][(crc ^ *data) & 255];
    return ~crc;
}
