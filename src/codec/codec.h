/* bytes -> bytes */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CODEC_CODEC_H
#define STK_SRC_CODEC_CODEC_H

#include "base/base.h"
#include "codec/chain.h"   /* compiled codec chains of arrays */
#include "codec/parquet.h" /* encodings of Parquet */

/* ---- gzip [RFC 1952, RFC 1951] (gzip.c) ------------------------------------------------------ */

/* Most bytes that one byte of deflate can become. A size beyond this is forged. */
#define STK_DEFLATE_RATIO 1032

/* A gzip file being inflated. One thread at a time. */
typedef struct stk__gzip stk__gzip;

/*
 * Begin to inflate the `length` bytes at `data`, which stay the caller's and must live until the
 * end. Members that follow each other are one stream; zeros after the last are padding. No more
 * than `limit` bytes are ever given out. `key` names the object in messages and must live as long.
 */
stk_status stk__gzip_create(stk_context *ctx, const void *data, uint64_t length, uint64_t limit,
                            const char *key, stk__gzip **out, stk_error *err);

/* Gives bytes [offset, offset + length) of a packed file. A failure is that of stk__gzip_read(). */
typedef stk_status stk__gzip_source(void *user, uint64_t offset, uint64_t length, void *data,
                                    stk_error *err);
/* The same of a file of `length` bytes that is read from the front to the end, 256 KiB at a time.
 */
stk_status stk__gzip_create_from(stk_context *ctx, stk__gzip_source *source, void *user,
                                 uint64_t length, uint64_t limit, const char *key, stk__gzip **out,
                                 stk_error *err);

/*
 * Give the next `size` bytes. *got is less only at the end of the stream, and then every checksum
 * has been found right. Errors: STK_ETRUNCATED, STK_EFORMAT, STK_ECHECKSUM, STK_ELIMIT (the stream
 * holds more than `limit`), STK_ENOMEM, each with the offset in the compressed bytes. After an
 * error the stream is of no more use.
 */
stk_status stk__gzip_read(stk__gzip *gzip, void *out, uint64_t size, uint64_t *got, stk_error *err);

/* Ends it and sets *gzip to NULL. Accepts NULL. */
void stk__gzip_destroy(stk__gzip **gzip);

/*
 * Inflate one member that is all of `data` and gives exactly `size` bytes, three times as fast.
 * False: it is more, less or damaged, or there was no memory; a stk__gzip says which.
 */
bool stk__gzip_whole(const void *data, uint64_t length, void *out, uint64_t size);

/* ---- Files that are compressed as a whole (unpack.c) ---- */

typedef enum stk__stream {
    STK__STREAM_NOT,
    STK__STREAM_GZIP,
    STK__STREAM_ZLIB,
    STK__STREAM_ZSTD
} stk__stream;

/* By what a file begins with: two bytes, or four where it is zstd. zlib's are no magic: other files
 * may begin so. */
stk__stream stk__stream_kind(const void *head, uint64_t length);

/* A file being unpacked, of any length within some memory: 256 KiB of it and the window of its
 * compression, 128 MiB at most. One thread at a time. */
typedef struct stk__unpack stk__unpack;
/* `source` gives the file of `length` bytes; `key` names it in messages and lives as long. */
stk_status stk__unpack_create(stk_context *ctx, stk__stream kind, stk__gzip_source *source,
                              void *user, uint64_t length, const char *key, stk__unpack **out,
                              stk_error *err);
/* The next `size` bytes; *got is less only at the end, when all sums were right. Errors:
 * STK_ETRUNCATED, STK_EFORMAT, STK_ECHECKSUM, STK_ENOMEM and the source's. */
stk_status stk__unpack_read(stk__unpack *unpack, void *out, uint64_t size, uint64_t *got,
                            stk_error *err);
/* Ends it and sets *unpack to NULL. Accepts NULL. */
void stk__unpack_destroy(stk__unpack **unpack);

/* ---- Blocks of SquashFS images (block.c) ---- */

/* Those that are written in the order of the option that names them. */
typedef enum stk__block_codec {
    STK__BLOCK_ZSTD, /* zstd frames [RFC 8878] */
    STK__BLOCK_ZLIB, /* a zlib stream [RFC 1950] */
    STK__BLOCK_LZ4,  /* one LZ4 block without its size */
    STK__BLOCK_XZ,   /* .xz streams; written with a dictionary no longer than a block */
    STK__BLOCK_NONE, /* neither encoded nor decoded */
    STK__BLOCK_LZMA  /* a .lzma file; not written */
} stk__block_codec;

/* What decoding of lzma and xz may take: a dictionary of 4 MiB, where blocks have 1 MiB at most. */
#define STK__BLOCK_LZMA_MEMORY (UINT64_C(5) << 20)

/*
 * Decode one block: `length` bytes at `in` -> *got bytes at `out`, at most `capacity`. Status and
 * reason of a failure are those of a chain (chain.h). Thread: one at a time for each state.
 */
stk_status stk__block_decode(stk__block_codec codec, stk__codec_state *state, const void *in,
                             uint64_t length, void *out, uint64_t capacity, uint64_t *got,
                             const char **reason);

/* How blocks are encoded: each by itself, of any length up to `most`. */
typedef struct stk__block_kind {
    stk__block_codec codec; /* one that is written */
    int level;
    uint32_t most;
} stk__block_kind;

/* Bytes of room that stk__block_encode() wants for a block of `length`. */
uint64_t stk__block_bound(const stk__block_kind *kind, uint64_t length);
/* Bytes that a thread takes to encode, nearly. */
uint64_t stk__block_memory(const stk__block_kind *kind);
/*
 * Whether it is worth trying: not where a sample of the bytes is as even as random ones and a quick
 * search finds no repeats, as of pictures and of what was compressed before. `out` has the room of
 * stk__block_bound() for the search. STK_ENOMEM.
 */
stk_status stk__block_promises(const stk__block_kind *kind, stk__codec_state *state, const void *in,
                               uint64_t length, void *out, bool *promises, const char **reason);
/* Statuses and reasons are those of chains. */
stk_status stk__block_encode(const stk__block_kind *kind, stk__codec_state *state, const void *in,
                             uint64_t length, void *out, uint64_t capacity, uint64_t *got,
                             const char **reason);

/* One LZ4 frame that is all of `in` -> exactly `size` bytes. `reason` as that of chains.
 * (lz4_frame.c) */
stk_status stk__lz4_frame_decode(const void *in, uint64_t length, void *out, uint64_t size,
                                 const char **reason);

/* Bytes of room that the next wants for `length` bytes. */
uint64_t stk__lz4_frame_bound(uint64_t length);
/* All of `in` as one LZ4 frame: blocks that stand for themselves, no checksums but the
 * descriptor's. `reason` as that of chains. */
stk_status stk__lz4_frame_encode(stk__codec_state *state, const void *in, uint64_t length,
                                 void *out, uint64_t *got, const char **reason);

/* ---- Files in containers ---- */

/* One raw deflate stream [RFC 1951] that is all of `in` -> exactly `size` bytes. `reason` as that
 * of chains. (deflate.c) */
stk_status stk__deflate_decode(stk__codec_state *state, const void *in, uint64_t length, void *out,
                               uint64_t size, const char **reason);
/* CRC-32 [RFC 1952]. (checksum.c) */
uint32_t stk__crc32(const void *data, uint64_t length);

/* ---- CRC-32C [RFC 3720] (kernels.c) ---- */

/* As stk__crc32c(), the fastest that the context's instruction sets allow. */
typedef uint32_t stk__codec_crc32c_fn(uint32_t crc, const uint8_t *data, size_t length);
stk__codec_crc32c_fn *stk__codec_crc32c_of(const stk_context *ctx);

#endif
