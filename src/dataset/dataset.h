/* index -> needs; bytes -> sample */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_DATASET_H
#define STK_SRC_DATASET_DATASET_H

#include <stoker/dataset.h>

#include "base/base.h"
#include "base/text.h"

extern const stk_dataset_ops stk__dataset_digits, stk__dataset_mnist, stk__dataset_fashion_mnist,
    stk__dataset_kmnist, stk__dataset_emnist, stk__dataset_cifar10, stk__dataset_cifar100,
    stk__dataset_npy, stk__dataset_array, stk__dataset_hdf5, stk__dataset_npz, stk__dataset_tokens,
    stk__dataset_images, stk__dataset_webdataset, stk__dataset_tfrecord, stk__dataset_mds,
    stk__dataset_litdata, stk__dataset_synthetic, stk__dataset_mix, stk__dataset_concat,
    stk__dataset_pair, stk__dataset_csv, stk__dataset_tsv, stk__dataset_parquet, stk__dataset_arrow,
    stk__dataset_jsonl;
/* What the spec of every dataset takes (select.c). */
extern const stk_option_table stk__dataset_option_table;
/*
 * How the samples of several sources alternate: slot by slot of a pattern, over and over. Sample v
 * of the dataset is in slot v mod R, and so it is draw (v div R) * counts + turn of the slot's
 * source. Draw k of a source is its sample k mod its size. The map goes on beyond the size of the
 * dataset: each sample of each source has an index, of which an epoch may leave some out
 * (docs/order.md).
 */
typedef struct stk__mixture_stage {
    uint64_t epoch, size; /* from this epoch on only the first samples, so many */
} stk__mixture_stage;

typedef struct stk__mixture {
    uint32_t slots; /* R */
    uint32_t num_sources;
    const uint32_t *source;           /* of each slot */
    const uint32_t *turn;             /* of each slot: how many before it are of its source */
    const uint32_t *counts;           /* of each source: its slots, at least one */
    const uint32_t *first;            /* of each source: where in `places` its slots begin */
    const uint32_t *places;           /* the slots, source by source, each in order */
    const uint64_t *sizes;            /* of each source: its samples */
    const uint64_t *blocks;           /* of each source: its block_size */
    uint32_t num_stages;              /* 0: epochs are alike */
    const stk__mixture_stage *stages; /* of a single source, the first from epoch 0 on */
} stk__mixture;

/* The draw of its source at index `v`. */
uint64_t stk__mixture_draw(const stk__mixture *mixture, uint64_t v, uint32_t *source);
/* The index of a draw. */
uint64_t stk__mixture_index(const stk__mixture *mixture, uint32_t source, uint64_t draw);
/* How many of the first `n` indices are of a source. */
uint64_t stk__mixture_draws(const stk__mixture *mixture, uint32_t source, uint64_t n);

/* How a batch fills up a field of varying length (pad.c). */
typedef struct stk__pad {
    uint64_t unit;     /* bytes of a row of the first dimension; 0: the field is not filled up */
    uint64_t multiple; /* of rows, to which the longest of a batch is rounded up */
    uint32_t size;     /* of an element */
    unsigned char value[8]; /* of an element that fills up */
} stk__pad;

/* Bytes that a value of at most `most` bytes is filled up to. */
static inline uint64_t stk__pad_bytes(const stk__pad *pad, uint64_t most)
{
    return stk__round_up(stk__divide_up(most, pad->unit), pad->multiple) * pad->unit;
}

/*
 * What the library knows of a dataset. Those built in have it as the first member of a struct of
 * their own, which their close() frees; the others are made by stk_dataset_create().
 */
struct stk_dataset {
    const stk_dataset_ops *ops;
    stk_context *context;
    uint64_t size; /* the next ones are those of stk_dataset_info */
    const stk_field *fields;
    uint32_t num_fields;
    uint64_t fingerprint;
    uint64_t block_size;
    double cost_ns;
    uint64_t worker_bytes;
    const char *const *classes;
    uint32_t num_classes;
    uint64_t held_bytes, decoded_bytes;
    bool null_masks;
    /* Of what the samples of a block need where the locator says `blocks`, decoded; 0: it needs the
     * same then. */
    uint64_t block_bytes;
    /* Of what they need else, which others need as well; rows 0: none, or unknown. */
    stk_claim_kind kinds[STK_CLAIM_KINDS];
    const stk__mixture *mixture; /* NULL: the order does not know of sources */
    /* The label of a sample, told without reading it; NULL: it cannot be. */
    int64_t (*label)(const stk_dataset *dataset, uint64_t index);
    const stk__pad *pads; /* of each field; NULL: none is filled up */
    atomic_uint shares;   /* beyond the first */
    bool holds_context;   /* it has a share of its context */
    bool created;         /* by stk_dataset_create(): freed behind close() */
    void *state;          /* of one that was created */
};

/* Whether an outsider's table of a kind is whole. */
stk_status stk__dataset_kind_check(const void *table, stk_error *err);

/* Fill the head of a dataset that wraps or is made by `ops`; fields and names must live as long as
 * the dataset. */
void stk__dataset_init(stk_dataset *dataset, const stk_dataset_ops *ops, stk_context *ctx,
                       uint64_t size, const stk_field *fields, uint32_t num_fields);
/* Mix more bytes into a fingerprint. */
uint64_t stk__fingerprint(uint64_t so_far, const void *data, size_t length);
/* A FIXED field. `shape` is ended by -1; `name` is not copied. */
stk_field stk__field(const char *name, stk_dtype dtype, const int64_t *shape, bool picture);
/* A locator that looks at needs alone: where add() puts them is the caller's. */
stk_locator stk__locator_of_needs(stk_status (*add)(stk_locator *self, size_t i,
                                                    const stk_need *need));
/* A value as stk_field_value_text() writes it. (value.c) */
void stk__field_put_value(const stk_field *field, const void *data, uint64_t size, stk__text *to);
/* Tables of built-in datasets in addition to those that the registry opens. */
extern const stk_dataset_ops stk__synthetic_unlocated, stk__npy_folder;
/* What recognise() says where looking failed: that it is none, or that there was no memory. */
static inline int stk__dataset_unsure(stk_status status)
{
    return status == STK_ENOMEM ? (int)status : 0;
}
/* Each shard of a spec of record shards (docs/records.md), of a folder those that are compressed as
 * a whole by their names, until `each` says something else than STK_OK. Blocks.
 * (records/packed_list.c) */
typedef stk_status stk__packed_shard(void *user, stk_store *store, const char *key, stk_error *err);
stk_status stk__packed_shards(stk_context *ctx, const char *url, stk__packed_shard *each,
                              void *user, stk_error *err);
/* Whether it, or what a view of it shows, is built in: its functions end and keep to the seam. */
bool stk__dataset_is_own(const stk_dataset *dataset);
/* What the loader relies on, looked at once: drivers may be outsiders'. STK_EINVAL. */
stk_status stk__dataset_check(const stk_dataset *dataset, stk_error *err);
/* A status that a function of a dataset gave, where it should be STK_OK or a failure: STK_EINVAL,
 * and a reason that names it, in place of anything else. */
stk_status stk__dataset_failure(stk_status status, const char **reason);
/* The same for a function that fills `err` itself. */
stk_status stk__dataset_said(stk_status status, stk_error *err);

/* ---- Without a loader (need.c) ---- */

/* Read the range of a need into `to`, which has room for need->length bytes; of one that is `up_to`
 * need->length becomes what there is. STK_ENOENT: the object is not there. Blocks. */
stk_status stk__need_read(stk_dataset *dataset, stk_need *need, void *to, stk_error *err);
/* Decode all of it into `out`, which has room for need->decoded bytes. On failure *reason may be a
 * static text. Does not wait for storage. */
stk_status stk__need_decode(stk_dataset *dataset, const stk_need *need, const void *data, void *out,
                            void *worker, const char **reason);

#endif
