/* what the codecs of one thread keep from chunk to chunk. Inside src/codec only. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CODEC_STATE_H
#define STK_SRC_CODEC_STATE_H

#include "codec/chain.h"

enum { STK__SCRATCH_A, STK__SCRATCH_B, STK__SCRATCH_BLOCK, STK__SCRATCH_COUNT };
enum { STK__SPARE_BLOCKS = 32 };
#define STK__SPARE_BYTES (UINT64_C(16) << 20) /* of blocks that are kept and not in use */

struct ZSTD_DCtx_s;
struct ZSTD_CCtx_s;
struct libdeflate_decompressor;
struct libdeflate_compressor;
struct stk__inflater;
struct stk__lzma_state;

struct stk__codec_state {
    stk_context *context;
    const struct stk__codec_kernels *kernels;
    const struct stk__parquet_kernels *parquet;
    struct {
        uint8_t *data;
        uint64_t size;
    } scratch[STK__SCRATCH_COUNT];
    /* Blocks that libraries gave back and will want again for the next chunk. */
    struct {
        void *memory;
        uint64_t size;
        bool used;
    } spare[STK__SPARE_BLOCKS];
    struct ZSTD_DCtx_s *zstd_d;
    struct ZSTD_CCtx_s *zstd_c;
    struct libdeflate_decompressor *deflate_d;
    struct libdeflate_compressor *deflate_c;
    int deflate_level;
    struct stk__inflater *inflater; /* zlib's, for prefixes */
    stk__codec_state *inner;        /* for chains within a step */
};

/* Scratch memory of at least `size` bytes, whose content is lost when it grows; NULL: none. */
uint8_t *stk__scratch(stk__codec_state *state, int which, uint64_t size);
/* An allocator for libraries: blocks come back without the context being asked. */
void *stk__spare_alloc(stk__codec_state *state, uint64_t size);
void stk__spare_free(stk__codec_state *state, void *memory);

/* What the codecs keep in a state; each accepts one that was never used. */
void stk__zstd_release(stk__codec_state *state);
uint64_t stk__zstd_held(const stk__codec_state *state);
void stk__deflate_release(stk__codec_state *state);

#endif
