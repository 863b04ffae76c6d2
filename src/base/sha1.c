/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-1 as in section 6.1 of FIPS 180-4. */
#include "base/sha1.h"

#include <stdio.h>

static uint32_t turn(uint32_t x, unsigned by)
{
    return x << by | x >> (32 - by);
}

static void block(uint32_t *state, const uint8_t *data)
{
    static const uint32_t constants[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
    uint32_t w[80], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];

    for (size_t i = 0; i < 16; i++)
        w[i] = (uint32_t)stk__big_endian(data + 4 * i, 4);
    for (size_t i = 16; i < 80; i++)
        w[i] = turn(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (size_t i = 0; i < 80; i++) {
        const size_t round = i / 20;
        const uint32_t mix = round == 0   ? (b & c) | (~b & d)
                             : round == 2 ? (b & c) | (b & d) | (c & d)
                                          : b ^ c ^ d;
        const uint32_t next = turn(a, 5) + mix + e + constants[round] + w[i];
        e = d;
        d = c;
        c = turn(b, 30);
        b = a;
        a = next;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

void stk__sha1_init(stk__sha1 *h)
{
    *h = (stk__sha1){.state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}};
}

void stk__sha1_add(stk__sha1 *h, const void *data, size_t length)
{
    stk__digest_add(&h->blocks, data, length, block, h->state);
}

void stk__sha1_text(stk__sha1 *h, char text[STK__SHA1_TEXT])
{
    stk__digest_end(&h->blocks, true, block, h->state);
    for (size_t i = 0; i < STK_COUNT(h->state); i++)
        snprintf(text + 8 * i, 9, "%08x", (unsigned)h->state[i]);
}
