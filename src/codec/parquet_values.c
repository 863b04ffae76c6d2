/* SPDX-License-Identifier: Apache-2.0 */
/* Encodings of numbers. */
#include "codec/kernels.h"
#include "codec/parquet.h"
#include "codec/parquet_kernels.h"
#include "codec/state.h"

#define BLOCK_UNIT 128u /* a block has a multiple of so many values */
#define MINI_UNIT  32u
#define BLOCK_MOST (1u << 20)
#define STEP       128u /* differences that are unpacked at once */
#define VARINT_MAX 10   /* bytes of a number of 64 bits */

static const char delta_end[] = "its delta encoded values end too early";
static const char delta_wrong[] = "the head of its delta encoded values is damaged";

typedef struct reader {
    const uint8_t *at, *end;
} reader;

static bool take_varint(reader *r, uint64_t *out)
{
    *out = 0;
    for (unsigned i = 0; i < VARINT_MAX && r->at < r->end; i++) {
        const uint8_t byte = *r->at++;
        *out |= (uint64_t)(byte & 0x7f) << 7 * i;
        if (byte < 0x80)
            return i + 1 < VARINT_MAX || byte < 2;
    }
    return false;
}

static bool take_signed(reader *r, uint64_t *out)
{
    uint64_t x;

    if (!take_varint(r, &x))
        return false;
    *out = x >> 1 ^ (0 - (x & 1));
    return true;
}

typedef struct delta {
    const stk__parquet_kernels *kernels;
    reader in;
    unsigned size;
    uint32_t per_mini, minis;
    uint64_t last; /* value */
    uint8_t *out;  /* where the next one goes */
    uint64_t left; /* values */
} delta;

/* One value that is there as it is. */
static void put_first(delta *d)
{
    if (d->size == sizeof(uint64_t))
        memcpy(d->out, &d->last, sizeof d->last);
    else
        memcpy(d->out, &(uint32_t){(uint32_t)d->last}, sizeof(uint32_t));
    d->out += d->size;
    d->left--;
}

/* Differences of a part of a miniblock -> values: sums wrap around, as the format has it. */
static void sum(delta *d, const uint8_t *in, uint64_t length, unsigned width, uint64_t least,
                uint64_t n)
{
    uint32_t narrow[STEP];
    uint64_t wide[STEP];

    if (width <= 32)
        stk__parquet_unpack_bits(d->kernels, in, length, width, narrow, n);
    else
        stk__parquet_unpack_wide(in, length, width, wide, n);
    if (d->size == sizeof(uint32_t))
        d->last = d->kernels->add_up32(narrow, (uint32_t)least, (uint32_t)d->last, d->out, n);
    else if (width <= 32)
        d->last = d->kernels->add_up64(narrow, least, d->last, d->out, n);
    for (uint64_t i = 0; width > 32 && i < n; i++) {
        d->last += least + wide[i];
        memcpy(d->out + i * sizeof d->last, &d->last, sizeof d->last);
    }
    d->out += n * d->size;
    d->left -= n;
}

static const char *take_mini(delta *d, unsigned width, uint64_t least)
{
    const uint64_t wanted = STK_MIN(d->left, d->per_mini);
    const uint64_t whole = (uint64_t)d->per_mini * width / 8;
    const uint64_t there = (uint64_t)(d->in.end - d->in.at);

    if (width > 8 * d->size)
        return "a delta of its values has too many bits";
    if ((wanted * width + 7) / 8 > there)
        return delta_end;
    const uint8_t *from = d->in.at;
    for (uint64_t done = 0; done < wanted; done += STEP) {
        const uint64_t n = STK_MIN(wanted - done, STEP), at = done * width / 8;
        sum(d, from + at, there - at, width, least, n);
    }
    d->in.at += STK_MIN(whole, there);
    return NULL;
}

static const char *take_block(delta *d)
{
    uint64_t least;

    if (!take_signed(&d->in, &least) || (uint64_t)(d->in.end - d->in.at) < d->minis)
        return delta_end;
    const uint8_t *widths = d->in.at;
    d->in.at += d->minis;
    for (uint32_t i = 0; i < d->minis && d->left; i++) {
        const char *wrong = take_mini(d, widths[i], least);
        if (wrong)
            return wrong;
    }
    return NULL;
}

const char *stk__parquet_delta(const stk__codec_state *state, const uint8_t *in, uint64_t length,
                               unsigned size, void *out, uint64_t count, uint64_t *used)
{
    delta d = {.kernels = state->parquet,
               .in = {in, in + length},
               .size = size,
               .out = out,
               .left = count};
    uint64_t block, minis, total;

    if (!take_varint(&d.in, &block) || !take_varint(&d.in, &minis) || !take_varint(&d.in, &total) ||
        !take_signed(&d.in, &d.last))
        return delta_end;
    if (!block || block % BLOCK_UNIT || block > BLOCK_MOST || !minis || block % minis ||
        block / minis % MINI_UNIT)
        return delta_wrong;
    if (total != count)
        return "its delta encoded values are more or fewer than the page has";
    d.per_mini = (uint32_t)(block / minis);
    d.minis = (uint32_t)minis;
    if (count)
        put_first(&d);
    while (d.left) {
        const char *wrong = take_block(&d);
        if (wrong)
            return wrong;
    }
    *used = (uint64_t)(d.in.at - in);
    return NULL;
}

bool stk__parquet_codes_sound(const stk__codec_state *state, const uint32_t *codes, uint64_t count,
                              uint64_t entries)
{
    return !count || state->parquet->highest(codes, count) < entries;
}

void stk__parquet_look_up(const stk__codec_state *state, const uint8_t *entries,
                          const uint32_t *codes, uint32_t size, uint8_t *out, uint64_t count)
{
    state->parquet->look_up(entries, codes, out, count, size);
}

void stk__parquet_split(stk__codec_state *state, const uint8_t *in, uint32_t size, uint8_t *out,
                        uint64_t count)
{
    state->kernels->unshuffle(in, out, count, size, false);
}

const char *stk__parquet_booleans(const uint8_t *in, uint64_t length, uint8_t *out, uint64_t count)
{
    if (count / 8 + (count % 8 != 0) > length)
        return "its booleans end too early";
    const uint64_t whole = count / 8;
    for (uint64_t i = 0; i < whole; i++)
        for (unsigned bit = 0; bit < 8; bit++)
            out[8 * i + bit] = in[i] >> bit & 1;
    for (uint64_t i = 8 * whole; i < count; i++)
        out[i] = in[i / 8] >> i % 8 & 1;
    return NULL;
}
