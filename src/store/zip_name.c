/* SPDX-License-Identifier: Apache-2.0 */
/* Names and times of zip archives [APPNOTE 6.3.10, 4.4.4 and appendix D]. */
#include "store/zip.h"

#include "base/bytes.h"
#include "base/calendar.h"

/* Code page 437 from 0x80 on; below it is ASCII. */
static const uint16_t cp437[128] = {
    0x00c7, 0x00fc, 0x00e9, 0x00e2, 0x00e4, 0x00e0, 0x00e5, 0x00e7, 0x00ea, 0x00eb, 0x00e8, 0x00ef,
    0x00ee, 0x00ec, 0x00c4, 0x00c5, 0x00c9, 0x00e6, 0x00c6, 0x00f4, 0x00f6, 0x00f2, 0x00fb, 0x00f9,
    0x00ff, 0x00d6, 0x00dc, 0x00a2, 0x00a3, 0x00a5, 0x20a7, 0x0192, 0x00e1, 0x00ed, 0x00f3, 0x00fa,
    0x00f1, 0x00d1, 0x00aa, 0x00ba, 0x00bf, 0x2310, 0x00ac, 0x00bd, 0x00bc, 0x00a1, 0x00ab, 0x00bb,
    0x2591, 0x2592, 0x2593, 0x2502, 0x2524, 0x2561, 0x2562, 0x2556, 0x2555, 0x2563, 0x2551, 0x2557,
    0x255d, 0x255c, 0x255b, 0x2510, 0x2514, 0x2534, 0x252c, 0x251c, 0x2500, 0x253c, 0x255e, 0x255f,
    0x255a, 0x2554, 0x2569, 0x2566, 0x2560, 0x2550, 0x256c, 0x2567, 0x2568, 0x2564, 0x2565, 0x2559,
    0x2558, 0x2552, 0x2553, 0x256b, 0x256a, 0x2518, 0x250c, 0x2588, 0x2584, 0x258c, 0x2590, 0x2580,
    0x03b1, 0x00df, 0x0393, 0x03c0, 0x03a3, 0x03c3, 0x00b5, 0x03c4, 0x03a6, 0x0398, 0x03a9, 0x03b4,
    0x221e, 0x03c6, 0x03b5, 0x2229, 0x2261, 0x00b1, 0x2265, 0x2264, 0x2320, 0x2321, 0x00f7, 0x2248,
    0x00b0, 0x2219, 0x00b7, 0x221a, 0x207f, 0x00b2, 0x25a0, 0x00a0,
};

/* One character of at most 16 bits as UTF-8. */
static size_t put_utf8(uint16_t c, char *to)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xc0 | c >> 6);
        to[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    to[0] = (char)(0xe0 | c >> 12);
    to[1] = (char)(0x80 | (c >> 6 & 0x3f));
    to[2] = (char)(0x80 | (c & 0x3f));
    return 3;
}

bool stk__zip_name(const uint8_t *name, size_t length, uint16_t flags, char *to, size_t *to_length)
{
    size_t used = 0;

    *to_length = 0;
    if (flags & STK__ZIP_UTF8) {
        if (length >= STK_MAX_OBJECT_KEY || !stk__utf8_valid((const char *)name, length))
            return false;
        memcpy(to, name, length);
        used = length;
    }
    for (size_t i = 0; i < length && !(flags & STK__ZIP_UTF8); i++) {
        if (used + 4 > STK_MAX_OBJECT_KEY)
            return false;
        used += put_utf8(name[i] < 0x80 ? name[i] : cp437[name[i] - 0x80], to + used);
    }
    to[used] = 0;
    *to_length = used;
    return true;
}

int64_t stk__zip_time(uint16_t date, uint16_t time)
{
    const stk__date day = {.year = 1980 + (date >> 9),
                           .month = date >> 5 & 15,
                           .day = date & 31,
                           .hour = time >> 11,
                           .minute = time >> 5 & 63,
                           .second = (time & 31) * 2};
    int64_t instant;

    return stk__calendar_instant(STK__CALENDAR_GREGORIAN, &day, &instant) ? instant * 1000 : 0;
}
