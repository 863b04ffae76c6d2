/* a shard -> where its records lie */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_RECORDS_TFRECORD_H
#define STK_SRC_DATASET_RECORDS_TFRECORD_H

#include "dataset/records/records.h"

#define STK__TFRECORD_FRAME 16u                 /* bytes of a record without its data */
#define STK__TFRECORD_MOST  (UINT64_C(1) << 30) /* bytes of data */
#define STK__TFRECORD_KIND  ""                  /* records have one part */

/*
 * Take the records of a shard from a list beside it, SHARD.idx, or NAME.idx of NAME.tfrecord: a
 * line of "offset size" for each record, as tfrecord2idx of DALI and of the package tfrecord write
 * it. *listed false: there is none, or it is not of this shard, all of whose bytes it has to name
 * one record after the other. (tfrecord_index.c)
 */
stk_status stk__tfrecord_list(stk__shard *shard, const stk__records_options *options, bool *listed,
                              stk_error *err);

#endif
