/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 [FIPS 180-4, section 6.2]: what `stoker cat --dump sha256` prints is compared with
 * sha256sum and hashlib elsewhere, which have no XXH3; and no library that Stoker is built on has
 * it. */
#include <string.h>

#include "cat.h"

static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turn(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static uint32_t big_endian(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void block(uint32_t state[8], const unsigned char *data)
{
    uint32_t w[64], s[8];

    for (int i = 0; i < 16; i++)
        w[i] = big_endian(data + (size_t)4 * (size_t)i);
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[i - 7] +
               (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t one = s[7] + (turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25)) +
                       ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
        uint32_t two = (turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22)) +
                       ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one;
        s[0] = one + two;
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

void sha256_init(struct sha256 *h)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

    memset(h, 0, sizeof *h);
    memcpy(h->state, start, sizeof start);
}

void sha256_add(struct sha256 *h, const void *data, size_t length)
{
    const unsigned char *p = data;
    size_t used = (size_t)(h->bytes % sizeof h->rest);

    h->bytes += length;
    if (used) {
        size_t n = sizeof h->rest - used < length ? sizeof h->rest - used : length;
        memcpy(h->rest + used, p, n);
        p += n;
        length -= n;
        if (used + n < sizeof h->rest)
            return;
        block(h->state, h->rest);
    }
    for (; length >= sizeof h->rest; p += sizeof h->rest, length -= sizeof h->rest)
        block(h->state, p);
    memcpy(h->rest, p, length);
}

void sha256_text(struct sha256 *h, char text[65])
{
    static const unsigned char end[64] = {0x80};
    uint64_t bits = h->bytes * 8;
    unsigned char length[8];

    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    sha256_add(h, end, 1 + (size_t)((119 - h->bytes % 64) % 64));
    sha256_add(h, length, sizeof length);
    for (int i = 0; i < 8; i++)
        snprintf(text + (size_t)8 * (size_t)i, 9, "%08x", h->state[i]);
}
