/* A dataset made of another: index -> index of the inner one. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_VIEW_H
#define STK_SRC_DATASET_VIEW_H

#include "base/random.h"
#include "dataset/dataset.h"

/* Indices are mapped and restored in pieces of this many, on the stack. */
#define STK_VIEW_CHUNK 256

typedef struct stk__view stk__view;
struct stk__view {
    stk_dataset base;
    stk_dataset_ops ops; /* of `base`: no more than the inner dataset has */
    stk_dataset *inner;  /* owned from stk__view_finish() on */
    /* At most STK_VIEW_CHUNK at a time; `out` is other memory than `indices`. */
    void (*map)(const stk__view *view, const uint64_t *indices, uint64_t *out, size_t n);
    const char *what;             /* "range", "indices", "split" */
    char text[96];                /* for describe: which of them */
    uint64_t first;               /* range, split: where it begins */
    uint64_t *list;               /* indices: `base.size` of them */
    stk__permutation permutation; /* split: of the inner dataset's samples */
};

/*
 * A view with `size` samples of *dataset, its head copied from there; the caller fills in the rest
 * and the fingerprint. Nothing is taken over yet: to give it up, stk__free() it.
 */
stk_status stk__view_create(stk_dataset *dataset, uint64_t size, const char *what, stk__view **out,
                            stk_error *err);
/* Take over *dataset and put the view in its place. */
void stk__view_finish(stk__view *view, stk_dataset **dataset);
/* Whether a dataset is a view: then its innermost one is reached through `inner`. */
bool stk__is_view(const stk_dataset *dataset);

/* ---- Text of options (select.c) ------------------------------------------------------------ */

/* The options of every dataset. */
typedef struct stk__select_options {
    uint32_t struct_size;
    const char *subset, *indices, *random_split;
    uint64_t part, split_seed;
} stk__select_options;

/* Wrap *dataset in what the options ask for: the index list first, then the range, then the split.
 * Blocks. */
stk_status stk__select(stk_dataset **dataset, const stk__select_options *options, stk_error *err);

/* STK_OK for a URL without a query, else the error for its first option: `table` does not know it.
 */
stk_status stk__refuse_query(const stk_option_table *table, const char *url, stk_error *err);

#endif
