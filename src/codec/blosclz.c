/* SPDX-License-Identifier: Apache-2.0 */
/* The two small formats inside blosc frames that no library of ours decodes: BloscLZ [c-blosc
 * blosclz.c, which is FastLZ's level 2] and raw Snappy [google/snappy format_description.txt]. */
#include "codec/step.h"

#define LONG_MATCH   7    /* length field that says: more bytes follow */
#define FAR_DISTANCE 8191 /* beyond it the distance is in two bytes of its own */

#define PIECE 16 /* bytes copied at once where there is room for more than is wanted */

/* `length` bytes from elsewhere. Both sides have `room` bytes, at least `length`: what is written
 * beyond is written again later. */
static inline void copy_new(uint8_t *to, const uint8_t *from, uint64_t length, uint64_t room)
{
    if (length > 4 * PIECE || room < 4 * PIECE)
        memcpy(to, from, length);
    else
        for (uint64_t i = 0; i < length; i += PIECE)
            memcpy(to + i, from + i, PIECE);
}

/* A copy from what was written. Distances below the length repeat. */
static inline bool copy_back(uint8_t *out, uint64_t *at, uint64_t size, uint64_t distance,
                             uint64_t length)
{
    uint64_t room = size - *at;

    if (!distance || distance > *at || length > room)
        return false;
    uint8_t *to = out + *at;
    const uint8_t *from = to - distance;
    *at += length;
    if (distance >= PIECE && room >= length + PIECE)
        for (uint64_t i = 0; i < length; i += PIECE)
            memcpy(to + i, from + i, PIECE);
    else if (distance >= length)
        memcpy(to, from, length);
    else if (distance == 1)
        memset(to, *from, length);
    else if (distance >= 8 && room >= length + 8)
        for (uint64_t i = 0; i < length; i += 8)
            memcpy(to + i, from + i, 8);
    else
        for (uint64_t i = 0; i < length; i++)
            to[i] = from[i];
    return true;
}

bool stk__blosclz_decode(const uint8_t *in, uint64_t length, uint8_t *out, uint64_t size)
{
    uint64_t i = 0, at = 0;

    if (!length)
        return false;
    uint32_t code = in[i++] & 31;
    for (;;) {
        if (code >= 32) { /* a match */
            uint64_t count = (code >> 5) - 1, distance = (uint64_t)(code & 31) << 8;
            uint8_t byte;
            if (count == LONG_MATCH - 1)
                do {
                    if (i >= length)
                        return false;
                    byte = in[i++];
                    count += byte;
                } while (byte == 255);
            if (i >= length)
                return false;
            byte = in[i++];
            distance += byte;
            if (byte == 255 && (code & 31) == 31) {
                if (length - i < 2)
                    return false;
                distance = ((uint64_t)in[i] << 8 | in[i + 1]) + FAR_DISTANCE;
                i += 2;
            }
            if (!copy_back(out, &at, size, distance + 1, count + 3))
                return false;
        } else { /* bytes as they are */
            uint64_t count = code + 1;
            if (count > size - at || count > length - i)
                return false;
            copy_new(out + at, in + i, count, STK_MIN(size - at, length - i));
            at += count;
            i += count;
        }
        if (i >= length)
            return at == size;
        code = in[i++];
    }
}

/* The size in front, 7 bits a byte. */
static bool snappy_size(const uint8_t *in, uint64_t length, uint64_t *i, uint64_t *size)
{
    *size = 0;
    for (int shift = 0; shift < 35 && *i < length; shift += 7) {
        uint8_t byte = in[(*i)++];
        *size |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return true;
    }
    return false;
}

/* `count` bytes, least first. */
static bool snappy_number(const uint8_t *in, uint64_t length, uint64_t *i, unsigned count,
                          uint64_t *value)
{
    *value = 0;
    if (length - *i < count)
        return false;
    for (unsigned k = 0; k < count; k++)
        *value |= (uint64_t)in[(*i)++] << (8 * k);
    return true;
}

bool stk__snappy_decode(const uint8_t *in, uint64_t length, uint8_t *out, uint64_t size)
{
    uint64_t i = 0, at = 0, told;

    if (!snappy_size(in, length, &i, &told) || told != size)
        return false;
    while (i < length) {
        unsigned tag = in[i++];
        uint64_t count = tag >> 2, distance;
        if (!(tag & 3)) {
            if (count >= 60 && !snappy_number(in, length, &i, (unsigned)count - 59, &count))
                return false;
            if (++count > size - at || count > length - i)
                return false;
            copy_new(out + at, in + i, count, STK_MIN(size - at, length - i));
            at += count;
            i += count;
            continue;
        }
        if ((tag & 3) == 1) {
            count = (tag >> 2 & 7) + 4;
            if (!snappy_number(in, length, &i, 1, &distance))
                return false;
            distance |= (uint64_t)(tag >> 5) << 8;
        } else {
            count++;
            if (!snappy_number(in, length, &i, (tag & 3) == 2 ? 2 : 4, &distance))
                return false;
        }
        if (!copy_back(out, &at, size, distance, count))
            return false;
    }
    return at == size;
}
