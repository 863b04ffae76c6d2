/* SPDX-License-Identifier: Apache-2.0 */
/* Packed numbers and runs of them. */
#include "codec/parquet.h"
#include "codec/parquet_kernels.h"
#include "codec/state.h"

#define GROUP      STK__PARQUET_GROUP
#define BEYOND     STK__PARQUET_BEYOND
#define BLOCK      1024 /* levels that are looked at at once */
#define VARINT_MAX 5    /* bytes of a number of 32 bits */

static const char runs_end[] = "its runs end before its last value";
static const char runs_wrong[] = "a run of its values is damaged";
static const char level_wrong[] = "a level is beyond those of the schema";

/* ---- Packed bits ---- */

/* What is there of a group, and zeros. */
static void copy_group(const uint8_t *in, uint64_t length, unsigned width, uint8_t *group)
{
    memset(group, 0, 8 * GROUP + BEYOND);
    memcpy(group, in, STK_MIN(length, width));
}

void stk__parquet_unpack_bits(const stk__parquet_kernels *kernels, const uint8_t *in,
                              uint64_t length, unsigned width, uint32_t *out, uint64_t count)
{
    if (!width) {
        memset(out, 0, count * sizeof *out);
        return;
    }
    uint64_t groups = STK_MIN(count / GROUP, length / width);

    /* Those whose bytes beyond are there, too. */
    while (groups && groups * width + BEYOND > length)
        groups--;
    kernels->unpack(in, width, out, groups);
    for (uint64_t at = groups * GROUP; at < count; at += GROUP) {
        uint8_t group[8 * GROUP + BEYOND];
        uint32_t numbers[GROUP];
        const uint64_t from = STK_MIN(at / GROUP * width, length);
        copy_group(in + from, length - from, width, group);
        kernels->unpack(group, width, numbers, 1);
        memcpy(out + at, numbers, STK_MIN(count - at, GROUP) * sizeof *out);
    }
}

void stk__parquet_unpack_wide(const uint8_t *in, uint64_t length, unsigned width, uint64_t *out,
                              uint64_t count)
{
    const uint64_t mask = width < 64 ? (UINT64_C(1) << width) - 1 : UINT64_MAX;

    for (uint64_t i = 0; i < count; i++) {
        const uint64_t bit = i * width, byte = STK_MIN(bit / 8, length);
        uint8_t nine[9] = {0};
        uint64_t x;
        memcpy(nine, in + byte, STK_MIN(length - byte, sizeof nine));
        memcpy(&x, nine, sizeof x);
        x >>= bit % 8;
        if (bit % 8)
            x |= (uint64_t)nine[8] << (64 - bit % 8);
        out[i] = x & mask;
    }
}

/* ---- Runs ---- */

static bool take_varint(stk__parquet_runs *runs, uint32_t *out)
{
    uint64_t x = 0;

    for (unsigned i = 0; i < VARINT_MAX && runs->at < runs->end; i++) {
        const uint8_t byte = *runs->at++;
        x |= (uint64_t)(byte & 0x7f) << 7 * i;
        if (byte < 0x80) {
            *out = (uint32_t)x;
            return x <= UINT32_MAX;
        }
    }
    return false;
}

/* Nothing of what follows is used. */
static const char *stop(stk__parquet_runs *runs, const char *wrong)
{
    runs->at = runs->end;
    runs->left = 0;
    return wrong;
}

/* Begin the next run. A run of none takes a byte, so that this ends. */
static const char *next_run(stk__parquet_runs *runs)
{
    uint32_t header = 0;

    if (runs->at == runs->end)
        return runs_end;
    if (!take_varint(runs, &header))
        return stop(runs, runs_wrong);
    runs->packed = header & 1;
    runs->left = header >> 1;
    runs->inside = 0;
    if (runs->packed) {
        runs->left *= GROUP;
        return NULL;
    }
    const uint64_t bytes = (runs->width + 7) / 8;
    if ((uint64_t)(runs->end - runs->at) < bytes)
        return stop(runs, runs_end);
    runs->value = (uint32_t)stk__little_endian(runs->at, (unsigned)bytes);
    runs->at += bytes;
    if (runs->width < 32 && runs->value >> runs->width)
        return stop(runs, runs_wrong);
    return NULL;
}

const char *stk__parquet_runs_begin(stk__parquet_runs *runs, const stk__codec_state *state,
                                    const uint8_t *in, uint64_t length, unsigned width)
{
    *runs = (stk__parquet_runs){
        .kernels = state->parquet, .at = in, .end = in + length, .width = width};
    return width > 32 ? "its numbers have more than 32 bits" : NULL;
}

/* `n` numbers of a packed run, from the first of a group on, or within one. */
static const char *take_packed(stk__parquet_runs *runs, uint32_t *out, uint64_t n)
{
    const uint64_t there = (uint64_t)(runs->end - runs->at);

    if (((runs->inside + n) * runs->width + 7) / 8 > there)
        return runs_end;
    if (runs->inside) {
        uint32_t group[GROUP];
        stk__parquet_unpack_bits(runs->kernels, runs->at, there, runs->width, group, GROUP);
        memcpy(out, group + runs->inside, n * sizeof *out);
    } else {
        stk__parquet_unpack_bits(runs->kernels, runs->at, there, runs->width, out, n);
    }
    const uint64_t passed = runs->inside + n;
    runs->at += STK_MIN(passed / GROUP * runs->width, there);
    runs->inside = (unsigned)(passed % GROUP);
    runs->left -= n;
    return NULL;
}

const char *stk__parquet_runs_take(stk__parquet_runs *runs, uint32_t *out, uint64_t count)
{
    while (count) {
        if (!runs->left) {
            const char *wrong = next_run(runs);
            if (wrong)
                return wrong;
            continue;
        }
        uint64_t n = STK_MIN(count, runs->left);
        if (runs->packed) {
            if (runs->inside)
                n = STK_MIN(n, GROUP - runs->inside);
            const char *wrong = take_packed(runs, out, n);
            if (wrong)
                return wrong;
        } else {
            for (uint64_t i = 0; i < n; i++)
                out[i] = runs->value;
            runs->left -= n;
        }
        out += n;
        count -= n;
    }
    return NULL;
}

/* Whether the next `count` numbers are one run of one number, which it tells. Takes nothing. */
static bool is_constant(stk__parquet_runs *runs, uint64_t count, uint32_t *value)
{
    while (!runs->left && runs->at < runs->end)
        if (next_run(runs))
            return false;
    *value = runs->packed ? 0 : runs->value;
    return runs->left >= count && (!runs->packed || !runs->width);
}

const char *stk__parquet_levels(const stk__codec_state *state, const uint8_t *in, uint64_t length,
                                unsigned most, uint8_t *out, uint64_t count)
{
    stk__parquet_runs runs;
    uint32_t block[BLOCK], constant = 0;

    const char *wrong = stk__parquet_runs_begin(&runs, state, in, length, stk__parquet_width(most));
    if (wrong)
        return wrong;
    if (is_constant(&runs, count, &constant)) {
        memset(out, (int)constant, count);
        return constant > most ? level_wrong : NULL;
    }
    for (uint64_t at = 0; at < count; at += BLOCK) {
        const uint64_t n = STK_MIN(count - at, BLOCK);
        uint32_t highest = 0;
        wrong = stk__parquet_runs_take(&runs, block, n);
        if (wrong)
            return wrong;
        for (uint64_t i = 0; i < n; i++) {
            highest = STK_MAX(highest, block[i]);
            out[at + i] = (uint8_t)block[i];
        }
        if (highest > most)
            return level_wrong;
    }
    return NULL;
}

bool stk__parquet_levels_full(const stk__codec_state *state, const uint8_t *in, uint64_t length,
                              unsigned most, uint64_t count)
{
    stk__parquet_runs runs;
    uint32_t constant = 0;

    return !stk__parquet_runs_begin(&runs, state, in, length, stk__parquet_width(most)) &&
           is_constant(&runs, count, &constant) && constant == most;
}
