/* index -> needs; bytes -> sample */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_DATASET_H
#define STK_SRC_DATASET_DATASET_H

#include <stoker/dataset.h>

#include "base/base.h"

extern const stk_dataset_ops stk__dataset_digits, stk__dataset_mnist, stk__dataset_fashion_mnist,
    stk__dataset_kmnist, stk__dataset_emnist, stk__dataset_cifar10, stk__dataset_cifar100,
    stk__dataset_npy, stk__dataset_images, stk__dataset_synthetic, stk__dataset_array,
    stk__dataset_tokens;
/* What the spec of every dataset takes (select.c). */
extern const stk_option_table stk__dataset_option_table;
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
    uint64_t held_bytes;
    atomic_uint shares; /* beyond the first */
    bool holds_context; /* it has a share of its context */
    bool created;       /* by stk_dataset_create(): freed behind close() */
    void *state;        /* of one that was created */
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
/* Tables of built-in datasets in addition to those that the registry opens. */
extern const stk_dataset_ops stk__synthetic_unlocated, stk__npy_folder;
/* Whether it, or what a view of it shows, is built in: its functions end and keep to the seam. */
bool stk__dataset_is_own(const stk_dataset *dataset);
/* What the loader relies on, looked at once: drivers may be outsiders'. STK_EINVAL. */
stk_status stk__dataset_check(const stk_dataset *dataset, stk_error *err);
/* A status that a function of a dataset gave, where it should be STK_OK or a failure: STK_EINVAL,
 * and a reason that names it, in place of anything else. */
stk_status stk__dataset_failure(stk_status status, const char **reason);
/* The same for a function that fills `err` itself. */
stk_status stk__dataset_said(stk_status status, stk_error *err);

#endif
