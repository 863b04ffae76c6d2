/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/parquet.h"

#define GROUP 8 /* values that are packed together, and so many alike that make a run */

static bool put_varint(stk__bytes *to, uint64_t value)
{
    uint8_t bytes[10];
    size_t n = 0;

    for (; value > 0x7f; value >>= 7)
        bytes[n++] = (uint8_t)(value | 0x80);
    bytes[n++] = (uint8_t)value;
    return stk__bytes_put(to, bytes, n);
}

/* How many alike begin at the first, of `left`; no more than `most` are looked at. */
static uint64_t alike(const uint8_t *levels, uint64_t left, uint64_t most)
{
    uint64_t n = 1;

    while (n < left && n < most && levels[n] == levels[0])
        n++;
    return n;
}

/* Groups of eight, the last filled up with zeros. */
static bool put_packed(stk__bytes *to, const uint8_t *levels, uint64_t count, unsigned width)
{
    const uint64_t groups = (count + GROUP - 1) / GROUP;

    if (!put_varint(to, groups << 1 | 1))
        return false;
    for (uint64_t g = 0; g < groups; g++) {
        uint64_t bits = 0;
        uint8_t bytes[8];
        for (unsigned k = 0; k < GROUP && g * GROUP + k < count; k++)
            bits |= (uint64_t)levels[g * GROUP + k] << (k * width);
        for (unsigned k = 0; k < width; k++)
            bytes[k] = (uint8_t)(bits >> (8 * k));
        if (!stk__bytes_put(to, bytes, width))
            return false;
    }
    return true;
}

bool stk__parquet_out_levels(stk__bytes *to, const uint8_t *levels, uint64_t count, unsigned width)
{
    for (uint64_t at = 0; at < count;) {
        const uint64_t run = alike(levels + at, count - at, UINT64_MAX);
        uint64_t end = at;
        if (run >= GROUP) {
            if (!put_varint(to, run << 1) || !stk__bytes_put(to, levels + at, 1))
                return false;
            at += run;
            continue;
        }
        /* A run can begin only where a group ends. */
        do
            end = STK_MIN(end + GROUP, count);
        while (end < count && alike(levels + end, count - end, GROUP) < GROUP);
        if (!put_packed(to, levels + at, end - at, width))
            return false;
        at = end;
    }
    return true;
}
