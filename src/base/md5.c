/* SPDX-License-Identifier: Apache-2.0 */
/* MD5 as in section 3.4 of RFC 1321. */
#include "base/md5.h"

#include <stdio.h>

/* The integer parts of 2^32 |sin(i + 1)|. */
static const uint32_t sines[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};

static const unsigned char turns[4][4] = {
    {7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};

static void block(uint32_t *state, const uint8_t *data)
{
    uint32_t x[16], a = state[0], b = state[1], c = state[2], d = state[3];

    for (size_t i = 0; i < 16; i++)
        x[i] = (uint32_t)stk__little_endian(data + 4 * i, 4);
    for (unsigned i = 0; i < 64; i++) {
        const unsigned round = i / 16, turn = turns[round][i % 4];
        uint32_t mix = round == 0   ? (b & c) | (~b & d)
                       : round == 1 ? (b & d) | (c & ~d)
                       : round == 2 ? b ^ c ^ d
                                    : c ^ (b | ~d);
        const unsigned word = round == 0   ? i
                              : round == 1 ? 5 * i + 1
                              : round == 2 ? 3 * i + 5
                                           : 7 * i;
        mix += a + x[word % 16] + sines[i];
        a = d;
        d = c;
        c = b;
        b += mix << turn | mix >> (32 - turn);
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

void stk__md5_init(stk__md5 *h)
{
    *h = (stk__md5){.state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476}};
}

void stk__md5_add(stk__md5 *h, const void *data, size_t length)
{
    stk__digest_add(&h->blocks, data, length, block, h->state);
}

void stk__md5_text(stk__md5 *h, char text[STK__MD5_TEXT])
{
    stk__digest_end(&h->blocks, false, block, h->state);
    for (size_t i = 0; i < sizeof h->state; i++)
        snprintf(text + 2 * i, 3, "%02x", (unsigned)(h->state[i / 4] >> 8 * (i % 4) & 255));
}
