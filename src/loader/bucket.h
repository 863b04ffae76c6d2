/* positions -> batches of samples of like length */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_LOADER_BUCKET_H
#define STK_SRC_LOADER_BUCKET_H

#include "dataset/dataset.h"
#include "loader/order.h"

/*
 * A window is the positions of `batches` steps of all ranks. Within it samples are sorted by length
 * and cut into steps, and these are permuted. Which sample stands where is a function of the seed,
 * the epoch and the window alone; one window at a time is in memory.
 */

/* Check the option: the dataset has lengths, and a window fits. order->bucket becomes the batches
 * of one; 0: none. Fills in what else the order needs. STK_EINVAL, STK_ELIMIT. */
stk_status stk__bucket_check(stk__order *order, stk_dataset *dataset, uint64_t batches,
                             stk_error *err);
/* Bytes of a window while it is made and after. */
uint64_t stk__bucket_bytes(const stk__order *order);
stk_status stk__bucket_create(stk_context *ctx, const stk__order *order, stk__bucket **out);
void stk__bucket_destroy(stk_context *ctx, stk__bucket *bucket);
/* Indices of positions; `plain` gives those that the order has without windows, of `view`. One
 * thread at a time. Does not wait for storage. */
void stk__bucket_indices(stk__bucket *bucket, stk__order_epoch *view,
                         void (*plain)(stk__order_epoch *view, const uint64_t *positions,
                                       uint64_t *indices, size_t n),
                         const uint64_t *positions, uint64_t *indices, size_t n);
/*
 * Of the first window of epoch 0: which share of batches that are filled up to their longest sample
 * would be filling, with windows and without.
 */
void stk__bucket_padding(stk__bucket *bucket, stk__order_epoch *view,
                         void (*plain)(stk__order_epoch *view, const uint64_t *positions,
                                       uint64_t *indices, size_t n),
                         double *sorted, double *unsorted);

#endif
