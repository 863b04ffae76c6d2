/* encoded values of a page -> values */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The encodings of Parquet [apache/parquet-format, Encodings.md and Compression.md], without what
 * surrounds them. Each function reads within `length` bytes at `in`, writes what its arguments say
 * and no more, whatever the bytes are, and gives NULL, or a static text of what is wrong with them:
 * the data is damaged then, and what was written is of no use. Any thread.
 */
#ifndef STK_SRC_CODEC_PARQUET_H
#define STK_SRC_CODEC_PARQUET_H

#include "codec/chain.h"

/* Type of parquet.thrift. */
typedef enum stk__parquet_type {
    STK__PARQUET_BOOLEAN,
    STK__PARQUET_INT32,
    STK__PARQUET_INT64,
    STK__PARQUET_INT96,
    STK__PARQUET_FLOAT,
    STK__PARQUET_DOUBLE,
    STK__PARQUET_BYTE_ARRAY,
    STK__PARQUET_FIXED,
    STK__PARQUET_TYPES
} stk__parquet_type;

/* Encoding of parquet.thrift. */
enum {
    STK__PARQUET_PLAIN = 0,
    STK__PARQUET_PLAIN_DICTIONARY = 2,
    STK__PARQUET_RLE = 3,
    STK__PARQUET_BIT_PACKED = 4,
    STK__PARQUET_DELTA = 5,
    STK__PARQUET_DELTA_LENGTHS = 6,
    STK__PARQUET_DELTA_STRINGS = 7,
    STK__PARQUET_RLE_DICTIONARY = 8,
    STK__PARQUET_SPLIT = 9
};

/* ---- Packed bits (parquet_bits.c) ---- */

/* `count` numbers of `width` bits (0 to 32), the least bit first. Bytes that are not there count as
 * zeros. */
struct stk__parquet_kernels;
void stk__parquet_unpack_bits(const struct stk__parquet_kernels *kernels, const uint8_t *in,
                              uint64_t length, unsigned width, uint32_t *out, uint64_t count);
/* The same of up to 64 bits. */
void stk__parquet_unpack_wide(const uint8_t *in, uint64_t length, unsigned width, uint64_t *out,
                              uint64_t count);

/* Runs of one number, and packed numbers, by turns (RLE = 3). */
typedef struct stk__parquet_runs {
    const struct stk__parquet_kernels *kernels;
    const uint8_t *at, *end;
    unsigned width;
    bool packed;
    uint32_t value;  /* of a run of one number */
    uint64_t left;   /* numbers of this run */
    unsigned inside; /* packed: numbers of the group of eight at `at` that were taken */
} stk__parquet_runs;

/* `width`: 0 to 32. */
const char *stk__parquet_runs_begin(stk__parquet_runs *runs, const stk__codec_state *state,
                                    const uint8_t *in, uint64_t length, unsigned width);
/* The next `count` numbers. */
const char *stk__parquet_runs_take(stk__parquet_runs *runs, uint32_t *out, uint64_t count);

/* `count` levels of a page, none above `most` (at most 255). */
const char *stk__parquet_levels(const stk__codec_state *state, const uint8_t *in, uint64_t length,
                                unsigned most, uint8_t *out, uint64_t count);
/* Whether all of them are `most`, as one run says: no value is null. */
bool stk__parquet_levels_full(const stk__codec_state *state, const uint8_t *in, uint64_t length,
                              unsigned most, uint64_t count);
/* Codes of a dictionary of so many entries; false: one is beyond it. */
bool stk__parquet_codes_sound(const stk__codec_state *state, const uint32_t *codes, uint64_t count,
                              uint64_t entries);
/* Codes -> values of `size` bytes; all are sound, and the entries are less than 4 GiB. */
void stk__parquet_look_up(const stk__codec_state *state, const uint8_t *entries,
                          const uint32_t *codes, uint32_t size, uint8_t *out, uint64_t count);
/* Bits that a number up to `most` takes. */
static inline unsigned stk__parquet_width(uint32_t most)
{
    return most ? 32u - (unsigned)__builtin_clz(most) : 0;
}

/* ---- Values (parquet_values.c) ---- */

/* DELTA_BINARY_PACKED = 5: `count` numbers of `size` bytes (4 or 8). *used: bytes of them. */
const char *stk__parquet_delta(const stk__codec_state *state, const uint8_t *in, uint64_t length,
                               unsigned size, void *out, uint64_t count, uint64_t *used);
/* BYTE_STREAM_SPLIT = 9: values of `size` bytes; in has count * size. */
void stk__parquet_split(stk__codec_state *state, const uint8_t *in, uint32_t size, uint8_t *out,
                        uint64_t count);
/* PLAIN = 0 of booleans: each becomes a byte, 0 or 1. */
const char *stk__parquet_booleans(const uint8_t *in, uint64_t length, uint8_t *out, uint64_t count);

/* ---- Strings of bytes (parquet_strings.c) ---- */

/*
 * Strings one behind the other: offsets[i] to offsets[i + 1] are those of string i, count + 1
 * offsets. `bytes` has room for `room`; more than that is an error.
 */
typedef struct stk__parquet_strings {
    uint32_t *offsets;
    uint8_t *bytes;
    uint64_t room;
} stk__parquet_strings;

/* PLAIN = 0: a length of 4 bytes before each. */
const char *stk__parquet_strings_plain(const uint8_t *in, uint64_t length,
                                       const stk__parquet_strings *out, uint64_t count);
/* DELTA_LENGTH_BYTE_ARRAY = 6: the lengths, then all bytes. */
const char *stk__parquet_strings_lengths(const stk__codec_state *state, const uint8_t *in,
                                         uint64_t length, const stk__parquet_strings *out,
                                         uint64_t count);
/* DELTA_BYTE_ARRAY = 7: how much of the string before begins each, then what follows. `lengths` has
 * room for 2 * count numbers. */
const char *stk__parquet_strings_prefixes(const stk__codec_state *state, const uint8_t *in,
                                          uint64_t length, uint32_t *lengths,
                                          const stk__parquet_strings *out, uint64_t count);
/* Bytes that those strings take together: needs no room for them. */
const char *stk__parquet_strings_size(const stk__codec_state *state, const uint8_t *in,
                                      uint64_t length, uint32_t *lengths, uint64_t count,
                                      uint64_t *size);

/* ---- Compression (parquet_unpack.c) ---- */

typedef enum stk__parquet_codec { /* CompressionCodec of parquet.thrift */
                                  STK__PARQUET_NONE,
                                  STK__PARQUET_SNAPPY,
                                  STK__PARQUET_GZIP,
                                  STK__PARQUET_LZO, /* not read */
                                  STK__PARQUET_BROTLI,
                                  STK__PARQUET_LZ4, /* blocks with the sizes of Hadoop in front, or
                                                       without */
                                  STK__PARQUET_ZSTD,
                                  STK__PARQUET_LZ4_RAW,
                                  STK__PARQUET_CODECS
} stk__parquet_codec;

/* NULL: no such codec. */
const char *stk__parquet_codec_name(uint32_t codec);
/* Whether this build decompresses it. */
bool stk__parquet_codec_known(uint32_t codec);
/* Exactly `size` bytes, of a codec that is known and not NONE. */
stk_status stk__parquet_unpack(uint32_t codec, stk__codec_state *state, const void *in,
                               uint64_t length, void *out, uint64_t size, const char **reason);

#endif
