/* codec list, encoded chunk -> elements in C order, little endian; and back */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compiled codec chain of an array: Zarr v3 codecs [zarr-specs 3.1], Zarr v2 filters and
 * compressor [zarr-specs 2.0, numcodecs]. A list of codecs is validated once, its sizes are
 * computed once, steps that do nothing are dropped and neighbours are fused; then any number of
 * threads decode and encode chunks with it, each with a state of its own.
 *
 * "Decoded" is a whole chunk as the array room wants it: C order, little endian, itemsize bytes an
 * element. "Encoded" is the object, or the part of a shard, that holds it.
 *
 * sharding_indexed is not a step here: the array room splits shards, with one chain for the index
 * and one for the inner chunks.
 *
 * Errors of a decode or encode are a status and a reason: a static text that is never freed,
 * without the name of the object, ending in what to do. STK_EFORMAT damaged, or more bytes than the
 * chunk holds; STK_ETRUNCATED ends too early, or fewer bytes than the chunk holds; STK_ECHECKSUM;
 * STK_EKIND a kind that is not read (blosc2 frames); STK_ELIMIT a decoder would need too much
 * memory (an lzma dictionary beyond that of the configuration); STK_ENOMEM; STK_EINVAL values that
 * the codec cannot hold (encode), or sizes of the call that do not fit the chain.
 */
#ifndef STK_SRC_CODEC_CHAIN_H
#define STK_SRC_CODEC_CHAIN_H

#include "base/base.h"

#define STK__CHAIN_MAX_RANK   32
#define STK__CHAIN_MAX_STEPS  32
#define STK__CHAIN_MAX_GROWTH 16 /* times the chunk, between any two steps */

#define STK__CHAIN_NO_SIZE UINT64_MAX

struct json_t; /* jansson's */

/* What a chain is compiled from. Everything is read during the call only. */
typedef struct stk__chain_spec {
    const char *key;      /* names the object in messages, as "a/zarr.json" */
    stk_dtype dtype;      /* STK_DTYPE_NONE: another type (raw bits, text, records, times) */
    uint32_t itemsize;    /* bytes of one element, at least 1 */
    uint32_t swap_size;   /* bytes that a change of byte order reverses together: 2, 4, 8; 4 of
                             complex64 and of UTF-32 text; 1: there is none (bytes, uint8, records) */
    uint32_t rank;        /* at most STK__CHAIN_MAX_RANK */
    const int64_t *shape; /* of a chunk, `rank` values of at least 1 */
    bool skip_checksums;  /* checksums are cut off and not compared */
    /* The elements vary in length: what a chunk decodes to is what vlen-utf8 and vlen-bytes wrote
     * [numcodecs], whose size nobody knows before; stk__chain_decode_varying() gives it. */
    bool varies;
    /* Elements may be missing and are read as `missing`, of itemsize bytes, at most 8; those that
     * are there are of `stored` where that is another type than `dtype`, which then is float64. */
    const void *missing;
    stk_dtype stored;

    /* Zarr v3: the list "codecs", each an object {name, configuration} or a string. Then the four
     * below are not looked at. */
    const struct json_t *codecs;
    /* Zarr v2: `codecs` NULL. NULL or JSON null: none. Also for raw arrays and npy files. */
    const struct json_t *filters;    /* list of {id, ...} */
    const struct json_t *compressor; /* {id, ...} */
    bool big_endian;                 /* of the dtype */
    bool fortran;                    /* order "F" */
} stk__chain_spec;

/* Zeros, and sizes of 1. */
void stk__chain_spec_init(stk__chain_spec *spec);

/* A compiled chain. Does not change: any number of threads. */
typedef struct stk__chain stk__chain;

/*
 * Compile. Refused by name, with what to do: unknown codecs, a wrong order of codecs, wrong
 * configurations, object codecs (pickle, json2, msgpack2), sharding_indexed, sizes that overflow.
 * Ownership: *out is the caller's. Errors: STK_EFORMAT, STK_EKIND, STK_ELIMIT, STK_ENOMEM, each in
 * `err` with key and codec.
 */
stk_status stk__chain_create(stk_context *ctx, const stk__chain_spec *spec, stk__chain **out,
                             stk_error *err);
/* Ends it and sets *chain to NULL. Accepts NULL. */
void stk__chain_destroy(stk__chain **chain);

/* Bytes of a decoded chunk. */
uint64_t stk__chain_size(const stk__chain *chain);
/* Bytes of an encoded chunk where all are alike (shard indexes); STK__CHAIN_NO_SIZE else. */
uint64_t stk__chain_encoded_size(const stk__chain *chain);
/* Encoded and decoded are the same bytes: parts may be read straight into place. */
bool stk__chain_is_copy(const stk__chain *chain);
/* Decoding the first half of a chunk costs clearly less than decoding all of it. */
bool stk__chain_has_prefix(const stk__chain *chain);
/* Bytes of room that stk__chain_encode() wants. */
uint64_t stk__chain_bound(const stk__chain *chain);
/* The same for a chunk of `size` bytes of a chain that `varies`. */
uint64_t stk__chain_bound_varying(const stk__chain *chain, uint64_t size);
/* Most bytes that decode and encode take of a state's scratch memory for this chain. */
uint64_t stk__chain_scratch(const stk__chain *chain);
/* Of it: what is between the steps, which is taken as a whole. */
uint64_t stk__chain_stages(const stk__chain *chain);
/* Most bytes that the libraries hold for one thread, to decode: 1 MiB, of bz2 4 MiB, of lzma what
 * its configuration asks for, at most 128 MiB. */
uint64_t stk__chain_library(const stk__chain *chain);
/* Steps that are left after compiling, in the order of encoding, and what they are called
 * ("zstd"). NULL past the end. */
const char *stk__chain_step(const stk__chain *chain, uint32_t step);

/* What a thread keeps from chunk to chunk: contexts of the libraries and scratch memory, which
 * grow to what the chains want and are then used again. One thread at a time; any chains. */
typedef struct stk__codec_state stk__codec_state;

stk_status stk__codec_state_create(stk_context *ctx, stk__codec_state **out, stk_error *err);
/* Bytes that it holds from chunk to chunk. */
uint64_t stk__codec_state_held(const stk__codec_state *state);
void stk__codec_state_destroy(stk__codec_state **state);

/*
 * Decode a chunk: `length` bytes at `in` -> exactly `size` bytes at `out`, which must be
 * stk__chain_size(). The last step writes straight there. Nothing is read beyond in + length or
 * written beyond out + size; on failure what is in `out` means nothing. Memory is taken by what the
 * chain says, never by what the input says.
 */
stk_status stk__chain_decode(const stk__chain *chain, stk__codec_state *state, const void *in,
                             uint64_t length, void *out, uint64_t size, const char **reason);
/*
 * The same, when only the first `needed` bytes are wanted: the others of `out` (which has room for
 * all `size`) mean nothing. Stops early where the codecs can; damage and checksums behind what was
 * read are then not seen, but checksums of the encoded bytes are.
 */
stk_status stk__chain_decode_prefix(const stk__chain *chain, stk__codec_state *state,
                                    const void *in, uint64_t length, void *out, uint64_t size,
                                    uint64_t needed, const char **reason);
/*
 * Decode a chunk of a chain that `varies`: at most `capacity` bytes, as many as there are. Errors:
 * also STK_ELIMIT, there are more.
 */
stk_status stk__chain_decode_varying(const stk__chain *chain, stk__codec_state *state,
                                     const void *in, uint64_t length, void *out, uint64_t capacity,
                                     uint64_t *got, const char **reason);
/*
 * Encode a chunk: the stk__chain_size() bytes at `in` -> *length bytes at `out`, which has room for
 * `capacity`, at least stk__chain_bound(). Of a chain that `varies` as many bytes as there are, and
 * room for stk__chain_bound_varying(); STK_ELIMIT: more than stk__chain_size().
 */
stk_status stk__chain_encode(const stk__chain *chain, stk__codec_state *state, const void *in,
                             uint64_t size, void *out, uint64_t capacity, uint64_t *length,
                             const char **reason);

#endif
