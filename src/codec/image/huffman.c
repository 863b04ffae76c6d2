/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the lookup tables of a picture. Most photographs bring tables of their own, so that this
 * has to be quick: each entry is written once, and pairs are joined from single ones. */
#include "codec/image/huffman.h"

#define MAX_DC_SIZE 15 /* of a difference; beyond it libjpeg refuses the table */
#define ZERO_RUN    15 /* the run of a symbol without a value that does not end the block */

#define MAX_SIZE 7 /* of a value that an entry holds */
/* Bytes of the second entry of a pair that are added to the first one's. */
#define OF_SECOND UINT32_C(0x00ff00ff)

static bool is_same(const stk__huffman_codes *codes, const uint8_t *counts, uint32_t num_symbols,
                    const stk__huffman_spec *spec)
{
    return num_symbols == spec->num_symbols && num_symbols &&
           !memcmp(counts, spec->counts, STK__HUFFMAN_LENGTHS) &&
           !memcmp(codes->symbols, spec->symbols, num_symbols);
}

/* T.81 annex C. False where codes are too many; as in libjpeg none may be all ones. */
static bool make_codes(stk__huffman_codes *codes, const stk__huffman_spec *spec)
{
    uint32_t code = 0, index = 0;

    for (uint32_t length = 1; length <= STK__HUFFMAN_LENGTHS; length++) {
        uint32_t count = spec->counts[length - 1];
        codes->offset[length] = (int32_t)index - (int32_t)code;
        code += count;
        index += count;
        if (index > spec->num_symbols || (count && code >= 1u << length))
            return false;
        codes->limit[length] = code << (STK__HUFFMAN_LENGTHS - length);
        code <<= 1;
    }
    codes->limit[STK__HUFFMAN_LENGTHS + 1] = UINT32_MAX;
    memset(codes->symbols, 0, sizeof codes->symbols);
    memcpy(codes->symbols, spec->symbols, spec->num_symbols);
    return index == spec->num_symbols;
}

bool stk__huffman_make_dc(stk__huffman_dc *dc, const stk__huffman_spec *spec)
{
    const uint8_t *symbol = spec->symbols;
    uint32_t at = 0;

    if (is_same(&dc->codes, dc->counts, dc->num_symbols, spec))
        return true;
    dc->num_symbols = 0;
    if (!make_codes(&dc->codes, spec))
        return false;
    for (uint32_t i = 0; i < spec->num_symbols; i++)
        if (spec->symbols[i] > MAX_DC_SIZE)
            return false;
    for (uint32_t length = 1; length <= STK__DC_BITS; length++)
        for (uint32_t i = 0; i < spec->counts[length - 1]; i++, symbol++) {
            uint32_t end = at + (1u << (STK__DC_BITS - length));
            while (at < end)
                dc->entries[at++] = (length + *symbol) | (uint32_t)*symbol << 8 | length << 16;
        }
    memset(dc->entries + at, 0, sizeof dc->entries - at * sizeof *dc->entries);
    memcpy(dc->counts, spec->counts, sizeof dc->counts);
    dc->num_symbols = spec->num_symbols;
    return true;
}

/* Entries of one code each, as they stand alone. */
typedef struct singles {
    uint32_t entries[1 << STK__AC_BITS];
    int8_t values[1 << STK__AC_BITS];
} singles;

static void make_singles(singles *s, const stk__huffman_spec *spec)
{
    const uint8_t *symbol = spec->symbols;
    uint32_t at = 0;

    for (uint32_t length = 1; length <= STK__AC_BITS; length++)
        for (uint32_t i = 0; i < spec->counts[length - 1]; i++, symbol++) {
            uint32_t size = *symbol & 15, run = *symbol >> 4, all = length + size;
            uint32_t on = size || run == ZERO_RUN ? run + 1 : STK__AC_END;
            uint32_t entry = all | on << 8 | on << 16 | all << 24;
            uint32_t end = at + (1u << (STK__AC_BITS - length)), half = (1u << size) >> 1;
            if (all > STK__AC_BITS || size > MAX_SIZE) {
                for (; at < end; at++) {
                    s->entries[at] = length << 8 | (uint32_t)*symbol << 16;
                    s->values[at] = 0;
                }
                continue;
            }
            /* Values of `size` bits: the lower half of them are the negative ones. */
            for (uint32_t bits = 0; bits < 1u << size; bits++) {
                int32_t value = (int32_t)bits - (bits < half ? (int32_t)(2 * half) - 1 : 0);
                end = at + (1u << (STK__AC_BITS - all));
                for (; at < end; at++) {
                    s->entries[at] = entry;
                    s->values[at] = (int8_t)value;
                }
            }
        }
    memset(s->entries + at, 0, sizeof s->entries - at * sizeof *s->entries);
    memset(s->values + at, 0, sizeof s->values - at);
}

/* Join to each entry the one that its remaining bits are of, where that fits as a whole. */
static void join_pairs(stk__huffman_ac *ac, const singles *s)
{
    for (uint32_t at = 0; at < 1u << STK__AC_BITS;) {
        uint32_t first = s->entries[at], all = first & 0xff, left = STK__AC_BITS - all;
        int8_t value = s->values[at];
        if (!all || first & STK__AC_END << 8) {
            ac->entries[at] = first;
            ac->values[at][0] = ac->values[at][1] = value;
            at++;
            continue;
        }
        for (uint32_t i = 0; i < 1u << left; i++, at++) {
            uint32_t second = s->entries[i << all], bits = second & 0xff;
            bool fits = bits - 1 < left; /* and there is one */
            ac->entries[at] = first + (fits ? second & OF_SECOND : 0);
            ac->values[at][0] = value;
            ac->values[at][1] = fits ? s->values[i << all] : value;
        }
    }
}

bool stk__huffman_make_ac(stk__huffman_ac *ac, const stk__huffman_spec *spec)
{
    singles s;

    if (is_same(&ac->codes, ac->counts, ac->num_symbols, spec))
        return true;
    ac->num_symbols = 0;
    if (!make_codes(&ac->codes, spec))
        return false;
    make_singles(&s, spec);
    join_pairs(ac, &s);
    memcpy(ac->counts, spec->counts, sizeof ac->counts);
    ac->num_symbols = spec->num_symbols;
    return true;
}
