/* a row of integers, where its documents begin -> windows, pieces, packs */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of `tokens:`. The tokens lie in one row. Where documents matter, a sample is a list of
 * pieces: ranges of the row that each lie in one document.
 */
#ifndef STK_SRC_DATASET_TOKENS_H
#define STK_SRC_DATASET_TOKENS_H

#include "dataset/object.h"
#include "dataset/packing.h"
#include "dataset/widen.h"

#define STK__TOKENS_FIELDS 5u

/* What becomes of the boundaries of documents; the words of the option. */
typedef enum stk__tokens_mode {
    STK__TOKENS_JOIN, /* windows of the row */
    STK__TOKENS_MARK, /* the same, and fields that say where documents begin */
    STK__TOKENS_SPLIT,
    STK__TOKENS_PACK
} stk__tokens_mode;

typedef struct stk__tokens_options {
    uint32_t struct_size;
    uint64_t length, stride, offset;
    bool target, memory;
    const char *dtype;
    int32_t output, documents, index;
    int64_t eod, pad, ignore;
    uint64_t max_documents, pack_block, pack_seed;
} stk__tokens_options;

typedef struct stk__tokens {
    stk_dataset base;
    stk_store *store;
    stk__object file;
    stk__watched_file watched; /* is `file` */
    stk_field fields[STK__TOKENS_FIELDS];
    stk_dtype dtype;
    uint32_t size, swap;   /* bytes of a token; to be reversed in groups of so many: 0, 2, 4, 8 */
    uint64_t first, count; /* byte of the first token, tokens */
    uint64_t length, stride;
    uint64_t span; /* tokens that a window takes */
    bool target;
    int64_t pad, ignore; /* a token, and a target, where there is none */
    stk__tokens_mode mode;
    bool indexed; /* an index beside the file said what it holds */
    stk__documents documents;
    uint64_t num_documents; /* also where `documents` is not kept any more */
    uint64_t *before;       /* SPLIT: samples in front of each document, and all */
    stk__packing packing;   /* PACK */
    stk__dataset_widen_fn *widen;
    stk__dataset_narrow_fn *narrow; /* NULL: tokens go out as int64 */
} stk__tokens;

extern const stk_option_table stk__tokens_table;

/* The documents of a file that ends each with the token `eod`. Blocks. */
stk_status stk__tokens_scan(stk__tokens *t, int64_t eod, stk_error *err);
/* Number the samples, by documents where the mode wants it. */
stk_status stk__tokens_plan(stk__tokens *t, const stk__tokens_options *o, uint64_t *samples,
                            stk_error *err);
/* Free what these made. */
void stk__tokens_release(stk__tokens *t);

/* Goes along the pieces of a sample. */
typedef struct stk__token_pieces {
    const stk__tokens *t;
    uint64_t at, end; /* PACK: numbers of pieces; else tokens */
    uint64_t document;
} stk__token_pieces;

stk__token_pieces stk__token_pieces_of(const stk__tokens *t, uint64_t sample);
bool stk__token_pieces_next(stk__token_pieces *walk, stk__token_piece *piece);

/* Tokens into a field: int64 or int32; false: one that int32 does not hold. */
bool stk__tokens_put(const stk__tokens *t, const unsigned char *from, uint64_t n, void *out);
/* The fields of samples; see stk_dataset_ops.prepare. */
void stk__tokens_prepare(stk_dataset *dataset, stk_sample *samples, size_t n);

#endif
