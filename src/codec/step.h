/* one step of a chain: parameters, bytes -> bytes. Inside src/codec only. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CODEC_STEP_H
#define STK_SRC_CODEC_STEP_H

#include "base/base.h"
#include "codec/chain.h"

/* Where a codec may be in a v3 list: decoded elements, their bytes, or bytes of any kind. */
typedef enum stk__codec_kind {
    STK__ARRAY_ARRAY,
    STK__ARRAY_BYTES,
    STK__BYTES_BYTES
} stk__codec_kind;

/* A number as a filter stores it. */
typedef struct stk__number {
    char kind;    /* 'b' bool, 'i', 'u', 'f' as NumPy has them; 0: not a number */
    uint8_t size; /* bytes: 1, 2, 4, 8 */
    bool swap;    /* big endian */
} stk__number;

/* One pass of a step over one chunk. */
typedef struct stk__codec_pass {
    const uint8_t *in;
    uint64_t length;
    uint8_t *out;      /* may be `in` where the step says in_place */
    uint64_t capacity; /* bytes of room at out; of a decode the size it must give, where fixed */
    uint64_t needed;   /* decode: only the first so many bytes are wanted; at most capacity */
    uint64_t got;      /* result: bytes at out */
    const char *reason;
} stk__codec_pass;

typedef struct stk__codec_step stk__codec_step;

/* The texts of what can be wrong with the data of one codec. */
typedef struct stk__reasons {
    const char *truncated, *damaged, *longer, *checksum, *memory;
} stk__reasons;

#define STK__REASON_ENDING "; fetch the object again, or write it again"
#define STK__REASONS(name)                                                                         \
    {                                                                                              \
        .truncated = "the " name " data ends too early" STK__REASON_ENDING,                        \
        .damaged = "the " name " data is damaged" STK__REASON_ENDING,                              \
        .longer = "the " name " data holds more bytes than the chunk" STK__REASON_ENDING,          \
        .checksum = "the " name " checksum does not match the data" STK__REASON_ENDING,            \
        .memory = "no memory for " name "; use fewer workers, or smaller chunks"                   \
    }

typedef struct stk__codec_ops {
    const char *name;
    const stk__reasons *reasons;
    /* Decode all of in[0, length) -> at most capacity bytes. More than that is STK_EFORMAT. May
     * stop when `needed` bytes are out. NULL: decoded and encoded are alike (encode loses
     * precision). */
    stk_status (*decode)(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass);
    /* NULL: it is read only. */
    stk_status (*encode)(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass);
    /* Most bytes that `size` bytes become, by any encoder worth the name. */
    bool (*bound)(const stk__codec_step *step, uint64_t size, uint64_t *bound);
    /* Encoded bytes that must be decoded for the first `needed` decoded ones; NULL: all. */
    uint64_t (*prefix)(const stk__codec_step *step, uint64_t needed);
} stk__codec_ops;

enum { STK__LZMA_FILTERS = 4 }; /* most that liblzma takes */
/* Its formats, by the numbers of Python's module; 0: found out. */
enum { STK__LZMA_AUTO = 0, STK__LZMA_XZ = 1, STK__LZMA_ALONE = 2, STK__LZMA_RAW = 3 };
enum { STK__SZIP_BLOCK = 32 }; /* most pixels of a block */
/* How blocks of bitshuffle are compressed. */
enum { STK__BITSHUFFLE_PLAIN = 0, STK__BITSHUFFLE_LZ4 = 2, STK__BITSHUFFLE_ZSTD = 3 };

struct stk__codec_step {
    const stk__codec_ops *ops;
    uint64_t size;  /* bytes before encoding; the most where not fixed */
    uint64_t bound; /* bytes after encoding; the most where not fixed */
    bool fixed;     /* `size` is exact */
    bool fixed_out; /* `bound` is exact */
    bool in_place;  /* decode may have out == in */
    bool view;      /* decode gives a part of its input as it is: out is set, not written */
    bool streams;   /* decode can stop early */
    uint64_t block; /* most bytes that decode takes of STK__SCRATCH_BLOCK */
    union {
        struct {
            int level;
            bool checksum;
        } zstd;
        struct {
            int acceleration;
        } lz4;
        struct {
            int level, shuffle, block_size, type_size;
            uint8_t swap; /* elements of so many bytes are reversed after decoding; 0: not */
            char name[8];
        } blosc;
        struct {
            int level;
            uint8_t format; /* 'g' gzip, 'z' zlib, 'd' raw */
        } deflate;
        struct {
            int level;
        } bz2;
        struct stk__lzma_step {
            int format, check, filters;
            uint32_t preset;
            uint64_t memory; /* that decoding may take */
            struct stk__lzma_filter {
                uint64_t id;
                uint32_t preset, dict_size, lc, lp, pb, mode, nice_len, mf, depth, value;
                uint32_t given; /* bits of those that were given */
            } filter[STK__LZMA_FILTERS];
        } lzma;
        struct {
            bool at_start, skip;
        } checksum;
        struct {
            uint32_t element;
            bool reverse; /* the bytes of each element are swapped as well */
        } shuffle;
        struct {
            uint8_t size;
        } swap;
        struct {
            uint32_t rank, item;
            uint64_t shape[STK__CHAIN_MAX_RANK];  /* of the decoded array, merged axes */
            uint64_t stride[STK__CHAIN_MAX_RANK]; /* bytes in the encoded array */
            uint64_t whole; /* prefixes are the same in multiples of so many bytes */
        } transpose;
        struct {
            stk__number from, to; /* decoded, encoded */
            double scale, offset;
            int64_t int_scale, int_offset;
            bool integers; /* scale and offset are */
        } number;
        struct {
            uint32_t keep_bits, bits, size;
        } bitround;
        struct {
            uint8_t padding; /* where the count of padding bits is: 0, 's' or 'e' */
            bool msb_first;
            uint64_t count; /* elements */
        } packbits;
        struct stk__nbit_step {
            uint64_t count;                  /* elements */
            uint8_t size, precision, offset; /* of one: bytes, bits, and of these above the least */
            bool big;
        } nbit;
        struct stk__scaleoffset_step {
            uint64_t count, fill; /* elements; the bits of the fill value */
            int32_t factor;       /* of floats: decimal places that are kept */
            uint8_t size;
            bool big, real, has_fill;
        } scaleoffset;
        struct stk__szip_step {
            uint32_t line, block; /* pixels */
            uint8_t bits, sample; /* of one that the library gives: bits, bytes */
            uint8_t planes;       /* bytes of a pixel that are stored apart; 0: none are */
            bool msb, predicts;
        } szip;
        struct stk__zfp_step {
            uint64_t count, shape[4]; /* elements; the last dimension first */
            uint64_t room;            /* bytes that a decode may look at */
            uint32_t min_bits, max_bits, max_precision;
            int32_t min_exponent;
            uint8_t rank, type, size; /* zfp's type, bytes of an element */
            bool headed;              /* how, is said in front of each chunk */
        } zfp;
        struct stk__optional_step {
            stk__chain *mask, *values; /* its own */
            uint64_t count, bound;     /* elements; bytes of an encoded chunk at most */
            stk__number number;        /* that is stored, where it is not what is read */
            bool converts, swap;
            uint8_t item, stored; /* bytes of an element: read, stored */
            uint8_t missing[8];   /* what one that is missing is read as */
        } optional;
        struct {
            uint64_t element, size; /* bytes; of a block, its elements (0: the library's choice) */
            uint8_t mode;
        } blocks;
    } u;
};

/* Fill a pass with a failure. */
static inline stk_status stk__pass_fail(stk__codec_pass *pass, stk_status status,
                                        const char *reason)
{
    pass->reason = reason;
    return status;
}

/* ---- The codecs ---- */

extern const stk__codec_ops stk__codec_zstd, stk__codec_lz4, stk__codec_blosc, stk__codec_gzip,
    stk__codec_zlib, stk__codec_deflate, stk__codec_bz2, stk__codec_brotli, stk__codec_lzma,
    stk__codec_crc32c, stk__codec_crc32, stk__codec_adler32, stk__codec_fletcher32,
    stk__codec_shuffle, stk__codec_swap, stk__codec_transpose, stk__codec_delta,
    stk__codec_fixedscaleoffset, stk__codec_quantize, stk__codec_bitround, stk__codec_packbits,
    stk__codec_astype, stk__codec_szip, stk__codec_nbit, stk__codec_scaleoffset,
    stk__codec_hdf5_lz4, stk__codec_bitshuffle, stk__codec_optional, stk__codec_zfp,
    stk__codec_zfpy, stk__codec_hdf5_zfp, stk__codec_lz4_block;

/*
 * Make the transpose step `order` (encoded axis i is decoded axis order[i]) of an array; false when
 * nothing moves and no step is wanted. `shape` is that of the decoded array.
 */
bool stk__transpose_init(stk__codec_step *step, const uint64_t *shape, const uint32_t *order,
                         uint32_t rank, uint32_t item);

/* End the chains that such a step has. */
void stk__optional_release(stk__codec_step *step);

/* ---- Between codecs ---- */

/* What liblzma takes to decode, by the configuration: no chunk may ask for more. */
uint64_t stk__lzma_memory(const struct stk__lzma_step *step, uint64_t size);
/* Streams of .xz that the kernel reads in any build: CRC32, and a dictionary of `dict_size`. */
void stk__lzma_block(struct stk__lzma_step *step, uint32_t preset, uint32_t dict_size);

/* Decoders that blosc uses as well. */
/* The whole of a zstd stream (frames in a row) -> at most `capacity` bytes. */
stk_status stk__zstd_decode(stk__codec_state *state, const void *in, uint64_t length, void *out,
                            uint64_t capacity, uint64_t *got, const char **reason);
/* One zlib stream -> exactly `size` bytes. */
stk_status stk__zlib_decode(stk__codec_state *state, const void *in, uint64_t length, void *out,
                            uint64_t size, const char **reason);
/* BloscLZ and raw Snappy -> exactly `size` bytes; false when damaged. */
bool stk__blosclz_decode(const uint8_t *in, uint64_t length, uint8_t *out, uint64_t size);
bool stk__snappy_decode(const uint8_t *in, uint64_t length, uint8_t *out, uint64_t size);

#endif
