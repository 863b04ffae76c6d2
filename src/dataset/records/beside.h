/* a text beside a shard -> where its records lie */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other programs write text files of where the records of a shard lie. They are read in place of
 * the shard's headers, and never trusted: a scan takes the records by stk__shard_record() and
 * _part(), which keep to the shard, and where anything is wrong it begins again without the text.
 */
#ifndef STK_SRC_DATASET_RECORDS_BESIDE_H
#define STK_SRC_DATASET_RECORDS_BESIDE_H

#include "dataset/records/records.h"

#define STK__BESIDE_ENDING ".idx"

typedef struct stk__brought {
    stk_context *context;
    char *key;
    char *text; /* NULL: there is none that is to be read */
    uint64_t length;
} stk__brought;

/*
 * Load the text whose name is the first `length` bytes of the shard's key and ".idx". None is
 * loaded where options->index is none, or there is no such object, or it has no or more than `most`
 * bytes, or is older than the shard; which is told. Blocks. Errors: STK_ENOMEM. Ended by
 * stk__beside_release(), also after an error.
 */
stk_status stk__beside_load(stk__shard *shard, size_t length, uint64_t most,
                            const stk__records_options *options, stk__brought *out, stk_error *err);
void stk__beside_release(stk__brought *beside);
/* Say that the text is not used, and why: once for all shards of a dataset. */
void stk__beside_refuse(stk__shard *shard, const stk__brought *beside, const char *why);

/* A number of at most 19 digits at *at, which moves behind it. */
bool stk__beside_number(const char **at, const char *end, uint64_t *out);

#endif
