/* records one behind the other -> objects of about one size */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CONVERT_SHARDS_H
#define STK_SRC_CONVERT_SHARDS_H

#include "base/bytes.h"
#include "convert/samples.h"

/* What a format makes of samples. */
typedef struct stk__shards_format {
    const char *ending; /* of the names */
    const void *tail;   /* bytes behind the last record of each shard */
    size_t tail_bytes;
    /* Append sample `i` of the group, which is sample `number` of the dataset. */
    stk_status (*record)(const stk__samples *samples, size_t i, uint64_t number, stk__bytes *to,
                         stk_error *err);
} stk__shards_format;

/*
 * All samples of a job's dataset, in their order, as shards of `size` bytes at most where they hold
 * more than one record: "shard-000000" with the ending, in the folder that is the target. Each has
 * its name when it is whole and safe. Shards that are there are refused (STK_EEXIST) but for the
 * option overwrite, which also removes those of an earlier conversion behind the last. A conversion
 * that was stopped goes on behind the last whole shard. Blocks.
 */
stk_status stk__shards_write(const stk_conversion_job *job, const stk__shards_format *format,
                             uint64_t size, stk_conversion_report *report, stk_error *err);

#endif
