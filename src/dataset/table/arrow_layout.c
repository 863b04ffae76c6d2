/* SPDX-License-Identifier: Apache-2.0 */
/* Where the buffers of a piece lie, in the 128 bits that a piece has for its format. */
#include "dataset/table/arrow.h"

#define BITS        128u
#define SIZE_BITS   5u  /* a number is how many bits it has, then these bits */
#define NUMBER_BITS 31u /* the most that it has */
#define SCALE       512 /* a scale is stored with so much added */
#define SCALE_BITS  10u

typedef struct bits {
    uint64_t word[2];
    unsigned at;
    bool full; /* a number did not fit, or was read beyond the last bit */
} bits;

static void put(bits *b, uint64_t value, unsigned n)
{
    if (n > BITS - b->at) {
        b->full = true;
        return;
    }
    for (unsigned i = 0; i < n; i++, b->at++)
        b->word[b->at / 64] |= (value >> i & 1) << b->at % 64;
}

static uint64_t get(bits *b, unsigned n)
{
    uint64_t value = 0;

    if (n > BITS - b->at) {
        b->full = true;
        return 0;
    }
    for (unsigned i = 0; i < n; i++, b->at++)
        value |= (b->word[b->at / 64] >> b->at % 64 & 1) << i;
    return value;
}

/* Buffers that begin at multiples of 8 have no more than a few such steps between them. */
static bool is_aligned(const stk__arrow_layout *layout)
{
    uint64_t together = 0;

    for (uint32_t i = 1; i < layout->slots; i++)
        together |= layout->slot[i].at - layout->slot[0].at;
    return together % 8 == 0;
}

static void put_number(bits *b, uint64_t value)
{
    const unsigned n = value ? 64u - (unsigned)__builtin_clzll(value) : 0;

    b->full |= n > NUMBER_BITS;
    put(b, n, SIZE_BITS);
    put(b, value, n);
}

static uint64_t get_number(bits *b)
{
    return get(b, (unsigned)get(b, SIZE_BITS));
}

bool stk__arrow_layout_pack(const stk__arrow_layout *layout, uint64_t own[2])
{
    bits b = {{0}, 0, false};
    uint64_t end = 0;

    put(&b, layout->codec, 2);
    put(&b, layout->parents, 2);
    put(&b, layout->validity, 1);
    put(&b, layout->offsets, 1);
    put(&b, layout->inner, 1);
    put(&b, layout->wide, 1);
    put(&b, layout->form, 2);
    put(&b, layout->bytes, 6);
    put(&b, layout->is_signed, 1);
    const uint64_t step = is_aligned(layout) ? 8 : 1;
    put(&b, step == 8, 1);
    if (layout->form == STK__ARROW_DECIMALS)
        put(&b, (uint16_t)(layout->scale + SCALE), SCALE_BITS);
    put_number(&b, layout->number);
    put_number(&b, layout->slot[0].at);
    end = layout->slot[0].at;
    for (uint32_t i = 0; i < layout->slots; i++) {
        const stk__arrow_slot *slot = &layout->slot[i];
        if (slot->at < end)
            return false;
        put_number(&b, (slot->at - end) / step);
        if (i + 1 < layout->slots)
            put_number(&b, slot->length);
        end = slot->at + stk__round_up(slot->length, step);
    }
    own[0] = b.word[0];
    own[1] = b.word[1];
    return !b.full;
}

bool stk__arrow_layout_unpack(const uint64_t own[2], uint64_t length, stk__arrow_layout *layout)
{
    bits b = {{own[0], own[1]}, 0, false};
    uint64_t end = 0;

    *layout = (stk__arrow_layout){.codec = (uint8_t)get(&b, 2), .parents = (uint8_t)get(&b, 2)};
    layout->validity = get(&b, 1);
    layout->offsets = get(&b, 1);
    layout->inner = get(&b, 1);
    layout->wide = get(&b, 1);
    layout->form = (uint8_t)get(&b, 2);
    layout->bytes = (uint8_t)get(&b, 6);
    layout->is_signed = get(&b, 1);
    const uint64_t step = get(&b, 1) ? 8 : 1;
    if (layout->form == STK__ARROW_DECIMALS)
        layout->scale = (int16_t)((int)get(&b, SCALE_BITS) - SCALE);
    layout->number = (uint32_t)get_number(&b);
    end = get_number(&b);
    layout->slots =
        (uint32_t)layout->parents + layout->validity + layout->offsets + layout->inner + 1;
    for (uint32_t i = 0; i < layout->slots; i++) {
        stk__arrow_slot *slot = &layout->slot[i];
        slot->at = end + step * get_number(&b);
        if (b.full || slot->at > length)
            return false;
        slot->length = i + 1 < layout->slots ? get_number(&b) : length - slot->at;
        if (b.full || slot->length > length - slot->at)
            return false;
        end = slot->at + stk__round_up(slot->length, step);
    }
    return true;
}
