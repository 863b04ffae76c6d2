/* SPDX-License-Identifier: Apache-2.0 */
/* The entropy decoder in C, and what gives it bytes. */
#include "codec/image/entropy_loops.h"

#define STUFFING 0x00
#define MARK     0xff
#define NOWHERE  STK__BLOCK_COEFFICIENTS

/* clang-format off */
const uint8_t stk__places[256] = {
    64, 0, 2, 17, 32, 19, 4, 6, 21, 34, 48, 1, 50, 36, 23, 8,
    10, 25, 38, 52, 3, 49, 33, 51, 5, 54, 40, 27, 12, 14, 29, 42,
    56, 7, 53, 35, 16, 18, 37, 55, 9, 58, 44, 31, 46, 60, 11, 57,
    39, 20, 22, 41, 59, 13, 62, 15, 61, 43, 24, 26, 45, 63, 47, 28,
    30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30,
    30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30,
    30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30,
    30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30,
    30,
    [129 ... 255] = NOWHERE,
};
/* clang-format on */

uint8_t *stk__unstuff(const uint8_t **in, const uint8_t *in_end, uint8_t *out,
                      const uint8_t *out_end, uint32_t *marker)
{
    const uint8_t *p = *in;

    *marker = 0;
    while (out < out_end && p < in_end) {
        uint8_t byte = *p++;
        if (byte == MARK) {
            while (p < in_end && *p == MARK) /* fill bytes, before stuffing as well */
                p++;
            if (p == in_end)
                break;
            if (*p != STUFFING) {
                *marker = *p++;
                break;
            }
            p++;
        }
        *out++ = byte;
    }
    *in = p;
    return out;
}

void stk__entropy_start(stk__entropy *e, const uint8_t *in, const uint8_t *in_end)
{
    e->in = in;
    e->in_end = in_end;
    e->ended = false;
    e->marker = 0;
    e->at = (stk__bits){.next = e->segment};
    e->end = e->limit = e->segment;
    memset(e->dc_before, 0, sizeof e->dc_before);
}

int64_t stk__entropy_left(const stk__entropy *e)
{
    return ((int64_t)(e->end - e->at.next)) * 8 + e->at.count;
}

bool stk__entropy_more(stk__entropy *e)
{
    if (e->ended)
        return stk__entropy_left(e) >= 0;
    /* Keep the byte that the next bit is in, and all behind it. */
    const uint8_t *kept = e->at.next - ((e->at.count + 7) >> 3);
    size_t count = (size_t)(e->end - kept);
    uint8_t *out = e->segment + count;
    memmove(e->segment, kept, count);
    e->at.next -= kept - e->segment;
    out = e->unstuff(&e->in, e->in_end, out, e->segment + STK__SEGMENT_BYTES, &e->marker);
    e->end = out;
    e->ended = e->marker || e->in == e->in_end;
    /* Zeros are read behind the end, by one MCU at most. */
    if (e->ended)
        memset(out, 0, STK__MCU_BYTES + 16);
    e->limit = e->ended ? out : out - STK__MCU_BYTES - 16;
    return true;
}

stk__entropy_result stk__decode_mcus(stk__entropy *e, uint32_t first, uint32_t count)
{
    return stk__decode_loop(e, first, count);
}
