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
    const char *what;             /* "range", "indices", "split", ... */
    char text[96];                /* for describe: which of them */
    uint64_t first;               /* range, split, fold: where it begins */
    uint64_t gap;                 /* fold: samples from `first` on that are left out */
    uint64_t *list;               /* indices: of the inner dataset */
    stk__permutation permutation; /* split, fold: of the inner dataset's samples */
    stk__mixture mixture;         /* repeat: one source */
    uint64_t source[2];           /* its size and block_size */
    void *extra;                  /* fields, names of classes: freed with the view */
};

/*
 * A view with `size` samples of *dataset, its head copied from there; the caller fills in the rest
 * and the fingerprint. Nothing is taken over yet: to give it up, stk__free() it.
 */
stk_status stk__view_create(stk_dataset *dataset, uint64_t size, const char *what, stk__view **out,
                            stk_error *err);
/* The indices are those of the inner dataset: so are its blocks and its sources. */
void stk__view_same_indices(stk__view *view, const stk_dataset *dataset);
/* Take over *dataset and put the view in its place. */
void stk__view_finish(stk__view *view, stk_dataset **dataset);
/* Whether a dataset is a view: then its innermost one is reached through `inner`. */
bool stk__is_view(const stk_dataset *dataset);

/* ---- Parts for cross-validation, repeats (fold.c) ------------------------------------------- */

/* Fold `fold` of `folds` of the samples in a seeded random order, or all but it. */
stk_status stk__dataset_fold(stk_dataset **dataset, uint64_t folds, uint64_t fold, bool train,
                             uint64_t seed, stk_error *err);
/* So many times as many samples: an epoch goes through them as often, or through a part of them.
 * With stages (epoch, samples) an epoch has as many, but of the first samples alone. */
stk_status stk__dataset_repeat(stk_dataset **dataset, double times,
                               const stk__mixture_stage *stages, uint32_t num_stages,
                               stk_error *err);

/* ---- Which samples how often (balance.c) ---------------------------------------------------- */

/*
 * Each label equally often: an epoch has `times` its samples, rounded up to as many of each label.
 * `labels` has one for each sample; NULL: the dataset tells them.
 */
stk_status stk__dataset_balance(stk_dataset **dataset, const uint64_t *labels, double times,
                                stk_error *err);
/* Samples by weights, one for each: of `times` the samples each has its share, rounded. */
stk_status stk__dataset_weigh(stk_dataset **dataset, const double *weights, double times,
                              stk_error *err);

/* ---- Other fields (fields.c, class_names.c) -------------------------------------------------- */

/*
 * Keep the fields "a,b" alone, in this order, or drop some; then give new names, "old:new,...";
 * then cast, "name:type,...". NULL: nothing of it.
 */
stk_status stk__dataset_fields(stk_dataset **dataset, const char *keep, const char *drop,
                               const char *rename, const char *cast, stk_error *err);
/* Fields that a batch fills up, "FIELD:MULTIPLE[:VALUE],...", and for each its FIELD_length. */
stk_status stk__dataset_pad(stk_dataset **dataset, const char *text, stk_error *err);
/* Names of the labels from a file, one a line. Blocks. */
stk_status stk__dataset_class_names(stk_dataset **dataset, const char *file, stk_error *err);

/* ---- Text of options (select.c) ------------------------------------------------------------ */

/* The options of every dataset. */
typedef struct stk__select_options {
    uint32_t struct_size;
    const char *subset, *indices, *random_split, *part;
    uint64_t split_seed, kfold, fold;
    double repeat;
    const char *balance, *weights, *stages;
    const char *keep, *drop, *rename, *cast, *class_names, *padding;
} stk__select_options;

/* Wrap *dataset in what the options ask for: the index list first, then the range, then the split,
 * then the repeats. Blocks. */
stk_status stk__select(stk_dataset **dataset, const stk__select_options *options, stk_error *err);

/* Read the file that an option names, all of it: `object` then has its bytes. To be given back with
 * stk__object_release() and stk_store_close(), whatever comes. Blocks. */
struct stk__object;
stk_status stk__select_file(stk_context *ctx, const char *option, const char *file,
                            stk_store **store, struct stk__object *object, stk_error *err);
/* STK_OK for a URL without a query, else the error for its first option: `table` does not know it.
 */
stk_status stk__refuse_query(const stk_option_table *table, const char *url, stk_error *err);

#endif
