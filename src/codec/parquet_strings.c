/* SPDX-License-Identifier: Apache-2.0 */
/* Encodings of strings of bytes. */
#include "codec/parquet.h"

static const char strings_end[] = "its strings end too early";
static const char strings_beyond[] = "its strings are longer than it says";

const char *stk__parquet_strings_plain(const uint8_t *in, uint64_t length,
                                       const stk__parquet_strings *out, uint64_t count)
{
    uint64_t at = 0, done = 0;

    out->offsets[0] = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (length - at < 4)
            return strings_end;
        const uint64_t n = stk__little_endian(in + at, 4);
        at += 4;
        if (n > length - at)
            return strings_end;
        if (n > out->room - done)
            return strings_beyond;
        memcpy(out->bytes + done, in + at, n);
        at += n;
        done += n;
        out->offsets[i + 1] = (uint32_t)done;
    }
    return NULL;
}

/* Lengths in offsets[1 ...] -> ends. */
static const char *add_up(uint32_t *offsets, uint64_t count, uint64_t most)
{
    uint64_t sum = 0;

    offsets[0] = 0;
    for (uint64_t i = 1; i <= count; i++) {
        if (offsets[i] > INT32_MAX)
            return "a length of its strings is negative";
        sum += offsets[i];
        if (sum > most)
            return strings_end;
        offsets[i] = (uint32_t)sum;
    }
    return NULL;
}

const char *stk__parquet_strings_lengths(const stk__codec_state *state, const uint8_t *in,
                                         uint64_t length, const stk__parquet_strings *out,
                                         uint64_t count)
{
    uint64_t used = 0;

    const char *wrong = stk__parquet_delta(state, in, length, 4, out->offsets + 1, count, &used);
    if (!wrong)
        wrong = add_up(out->offsets, count, STK_MIN(length - used, UINT32_MAX));
    if (wrong)
        return wrong;
    const uint64_t bytes = out->offsets[count];
    if (bytes > out->room)
        return strings_beyond;
    memcpy(out->bytes, in + used, bytes);
    return NULL;
}

/* Both lists of lengths. *rest: where the bytes of all suffixes are. */
static const char *take_lengths(const stk__codec_state *state, const uint8_t *in, uint64_t length,
                                uint32_t *lengths, uint64_t count, uint64_t *rest, uint64_t *size)
{
    uint64_t used = 0, before = 0, suffixes = 0;

    const char *wrong = stk__parquet_delta(state, in, length, 4, lengths, count, rest);
    if (!wrong)
        wrong =
            stk__parquet_delta(state, in + *rest, length - *rest, 4, lengths + count, count, &used);
    if (wrong)
        return wrong;
    *rest += used;
    *size = 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t prefix = lengths[i], suffix = lengths[count + i];
        if (prefix > before)
            return "a string begins with more than the one before has";
        if (suffix > INT32_MAX)
            return "a length of its strings is negative";
        before = prefix + suffix;
        suffixes += suffix;
        if (suffixes > length - *rest || before > INT32_MAX)
            return strings_end;
        *size += before;
    }
    return NULL;
}

const char *stk__parquet_strings_prefixes(const stk__codec_state *state, const uint8_t *in,
                                          uint64_t length, uint32_t *lengths,
                                          const stk__parquet_strings *out, uint64_t count)
{
    uint64_t rest = 0, size = 0, at = 0, last = 0;

    const char *wrong = take_lengths(state, in, length, lengths, count, &rest, &size);
    if (wrong)
        return wrong;
    if (size > out->room || size > UINT32_MAX)
        return strings_beyond;
    const uint8_t *suffixes = in + rest;
    out->offsets[0] = 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t prefix = lengths[i], suffix = lengths[count + i];
        memcpy(out->bytes + at, out->bytes + last, prefix);
        memcpy(out->bytes + at + prefix, suffixes, suffix);
        suffixes += suffix;
        last = at;
        at += prefix + suffix;
        out->offsets[i + 1] = (uint32_t)at;
    }
    return NULL;
}

const char *stk__parquet_strings_size(const stk__codec_state *state, const uint8_t *in,
                                      uint64_t length, uint32_t *lengths, uint64_t count,
                                      uint64_t *size)
{
    uint64_t rest = 0;

    return take_lengths(state, in, length, lengths, count, &rest, size);
}
