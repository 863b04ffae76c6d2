/* SPDX-License-Identifier: Apache-2.0 */
/* The checksum of metadata: hashlittle() of Bob Jenkins' lookup3 (2006), from 0. */
#include "array/hdf5/hdf5.h"

static uint32_t rotate(uint32_t x, unsigned bits)
{
    return x << bits | x >> (32 - bits);
}

static void mix(uint32_t s[3])
{
    static const uint8_t by[6] = {4, 6, 8, 16, 19, 4};

    for (unsigned i = 0; i < 6; i++) {
        uint32_t *a = &s[i % 3], *b = &s[(i + 1) % 3], *c = &s[(i + 2) % 3];
        *a = (*a - *c) ^ rotate(*c, by[i]);
        *c += *b;
    }
}

static uint32_t finish(const uint32_t s[3])
{
    uint32_t a = s[0], b = s[1], c = s[2];

    c = (c ^ b) - rotate(b, 14);
    a = (a ^ c) - rotate(c, 11);
    b = (b ^ a) - rotate(a, 25);
    c = (c ^ b) - rotate(b, 16);
    a = (a ^ c) - rotate(c, 4);
    b = (b ^ a) - rotate(a, 14);
    return (c ^ b) - rotate(b, 24);
}

uint32_t stk__hdf5_checksum(const uint8_t *data, uint64_t length)
{
    const uint32_t first = UINT32_C(0xdeadbeef) + (uint32_t)length;
    uint32_t s[3] = {first, first, first};
    uint8_t last[12] = {0};

    if (length == 0)
        return first;
    for (; length > 12; data += 12, length -= 12) {
        for (unsigned i = 0; i < 3; i++)
            s[i] += (uint32_t)stk__little_endian(data + 4 * i, 4);
        mix(s);
    }
    memcpy(last, data, length);
    for (unsigned i = 0; i < 3; i++)
        s[i] += (uint32_t)stk__little_endian(last + 4 * i, 4);
    return finish(s);
}
