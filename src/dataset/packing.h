/* lengths of documents -> pieces, packs */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_PACKING_H
#define STK_SRC_DATASET_PACKING_H

#include "base/base.h"

/*
 * Documents that lie one behind the other, none of them empty: document d has the tokens from
 * starts[d] to starts[d + 1].
 */
typedef struct stk__documents {
    uint64_t *starts; /* count + 1; NULL: there are none */
    uint64_t count;
    size_t room;
} stk__documents;

/* The next document ends before token `end`; an empty one is left out. STK_ELIMIT, STK_ENOMEM. */
stk_status stk__documents_add(stk_context *ctx, stk__documents *documents, uint64_t end,
                              const char *key, stk_error *err);
/* The document that has a token of them. */
uint64_t stk__documents_find(const stk__documents *documents, uint64_t token);
void stk__documents_release(stk_context *ctx, stk__documents *documents);

/* Tokens that follow each other in one document. */
typedef struct stk__token_piece {
    uint64_t start;
    uint32_t length;
    bool more; /* the document goes on behind it */
} stk__token_piece;

typedef struct stk__packing_options {
    uint64_t length;        /* tokens of a pack */
    uint64_t max_documents; /* pieces of a pack; 0: any number */
    uint64_t block;         /* neighbouring documents that are packed together */
    uint64_t seed;
} stk__packing_options;

/* Pack p has the pieces from first[p] to first[p + 1], in the order of their places. */
typedef struct stk__packing {
    stk__token_piece *pieces;
    uint64_t *first;
    uint64_t num_pieces, num_packs, num_blocks;
    size_t room; /* of `first` */
} stk__packing;

/*
 * Every token of the documents lies in one piece, and no pack has more than `length` tokens. The
 * plan is a function of the lengths and the options. It takes 16 bytes a piece and 8 a pack.
 * Errors: STK_ELIMIT (memory_limit), STK_ENOMEM; the packing is empty then.
 */
stk_status stk__packing_make(stk_context *ctx, const stk__documents *documents,
                             const stk__packing_options *options, const char *key,
                             stk__packing *out, stk_error *err);
void stk__packing_release(stk_context *ctx, stk__packing *packing);

#endif
