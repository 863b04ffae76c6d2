/* the members of a tar -> samples, their fields */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_RECORDS_WEBDATASET_H
#define STK_SRC_DATASET_RECORDS_WEBDATASET_H

#include "dataset/records/records.h"

#define STK__WEBDATASET_MAX_NAME 4096u /* bytes of the name of a member */

/* Whether the name of a kind is text that can be shown. (webdataset_scan.c) */
bool stk__webdataset_is_kind(const char *kind);

/* Kinds of parts that hold the key of a sample: its bytes; a header of tar whose name has them. */
#define STK__WEBDATASET_KEY        "__key__"
#define STK__WEBDATASET_KEY_HEADER "__key__.header"

/* Where the members of a shard lie, and, where `keyed`, the keys of its samples: scan() of the
 * format. (webdataset_scan.c) */
stk_status stk__webdataset_scan(stk__shard *shard, const void *options, bool keyed, stk_error *err);

/* The sample that the members of a shard are added to; begins as zeros. */
typedef struct stk__webdataset_sample {
    char key[STK__WEBDATASET_MAX_NAME + 1];
    size_t key_length;
    bool begun;
    bool keyed;       /* the key is a part of its own */
    bool split;       /* of the next member: its name does not lie in a row, but in its header */
    uint64_t name_at; /* of the next member: where in the shard its name begins */
} stk__webdataset_sample;

/*
 * A member whose header lies at `at` and whose `size` bytes follow it: a part of the sample, or of
 * the next one, or of none, as its name says, which is one below the root. (webdataset_scan.c)
 */
stk_status stk__webdataset_member(stk__shard *shard, stk__webdataset_sample *sample,
                                  const char *name, uint64_t at, uint64_t size, stk_error *err);

/*
 * Take the members from the index of DALI's wds2idx beside the shard, NAME.idx of NAME.tar. *listed
 * false: there is none, or it is not of this shard, which is read in its place.
 * (webdataset_index.c)
 */
stk_status stk__webdataset_list(stk__shard *shard, const stk__records_options *options,
                                bool *listed, stk_error *err);

#endif
