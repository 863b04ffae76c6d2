/* SPDX-License-Identifier: Apache-2.0 */
/* The command has one of its own, as it is built on public headers alone. */
#include "base/sha256.h"

#include "base/digits.h"

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

static void block(uint32_t *state, const uint8_t *data)
{
    uint32_t w[64], s[8];

    for (size_t i = 0; i < 16; i++)
        w[i] = (uint32_t)stk__big_endian(data + 4 * i, 4);
    for (size_t i = 16; i < 64; i++) {
        const uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[i - 7] +
               (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    memcpy(s, state, sizeof s);
    for (size_t i = 0; i < 64; i++) {
        const uint32_t one = s[7] + (turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25)) +
                             ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
        const uint32_t two = (turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22)) +
                             ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one;
        s[0] = one + two;
    }
    for (size_t i = 0; i < 8; i++)
        state[i] += s[i];
}

void stk__sha256_init(stk__sha256 *hash)
{
    *hash = (stk__sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                    0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void stk__sha256_add(stk__sha256 *hash, const void *data, size_t length)
{
    stk__digest_add(&hash->blocks, data, length, block, hash->state);
}

void stk__sha256_end(stk__sha256 *hash, uint8_t digest[STK__SHA256])
{
    stk__digest_end(&hash->blocks, true, block, hash->state);
    for (unsigned i = 0; i < STK__SHA256; i++)
        digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void stk__sha256_text(const uint8_t digest[STK__SHA256], char text[STK__SHA256_TEXT])
{
    stk__hex_text(digest, STK__SHA256, text);
}

void stk__hmac_sha256(const void *key, size_t key_length, const void *data, size_t length,
                      uint8_t digest[STK__SHA256])
{
    uint8_t pad[STK__DIGEST_BLOCK] = {0};
    stk__sha256 hash;

    stk__sha256_init(&hash);
    if (key_length > STK__DIGEST_BLOCK) {
        stk__sha256_add(&hash, key, key_length);
        stk__sha256_end(&hash, pad);
        stk__sha256_init(&hash);
    } else if (key_length > 0) {
        memcpy(pad, key, key_length);
    }
    for (size_t i = 0; i < STK__DIGEST_BLOCK; i++)
        pad[i] ^= 0x36;
    stk__sha256_add(&hash, pad, STK__DIGEST_BLOCK);
    stk__sha256_add(&hash, data, length);
    stk__sha256_end(&hash, digest);
    for (size_t i = 0; i < STK__DIGEST_BLOCK; i++)
        pad[i] ^= 0x36 ^ 0x5c;
    stk__sha256_init(&hash);
    stk__sha256_add(&hash, pad, STK__DIGEST_BLOCK);
    stk__sha256_add(&hash, digest, STK__SHA256);
    stk__sha256_end(&hash, digest);
    explicit_bzero(pad, sizeof pad);
    explicit_bzero(&hash, sizeof hash);
}
