/* SPDX-License-Identifier: Apache-2.0 */
/* The orientation in EXIF [CIPA DC-008, TIFF 6.0], of which nothing is trusted. */
#include "codec/image/room.h"

#define TAG_ORIENTATION 0x0112
#define TYPE_SHORT      3
#define ENTRY_BYTES     12

static uint32_t read16(const uint8_t *p, bool little)
{
    return little ? (uint32_t)p[1] << 8 | p[0] : stk__be16(p);
}

static uint32_t read32(const uint8_t *p, bool little)
{
    return little ? read16(p + 2, true) << 16 | read16(p, true) : stk__be32(p);
}

uint32_t stk__exif_orientation(const uint8_t *tiff, uint64_t length)
{
    if (length < 8 || !(tiff[0] == tiff[1] && (tiff[0] == 'I' || tiff[0] == 'M')))
        return 1;
    bool little = tiff[0] == 'I';
    uint64_t at = read32(tiff + 4, little);
    if (read16(tiff + 2, little) != 42 || at < 8 || at > length - 2)
        return 1;
    uint32_t entries = read16(tiff + at, little);
    at += 2;
    for (uint32_t i = 0; i < entries && length - at >= ENTRY_BYTES; i++, at += ENTRY_BYTES) {
        if (read16(tiff + at, little) != TAG_ORIENTATION)
            continue;
        uint32_t value = read16(tiff + at + 8, little);
        bool sound = read16(tiff + at + 2, little) == TYPE_SHORT &&
                     read32(tiff + at + 4, little) == 1 && value >= 1 && value <= 8;
        return sound ? value : 1;
    }
    return 1;
}
