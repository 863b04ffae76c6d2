/* index.json of a folder of MDS -> columns and shards */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_RECORDS_MDS_H
#define STK_SRC_DATASET_RECORDS_MDS_H

#include "dataset/records/tabled.h"

/*
 * Version 2, of shards of format "mds" [mosaicml/streaming: base/format/mds/writer.py, reader.py,
 * encodings.py]. Whatever the text: names of shards lie below the folder, counts and sizes are as
 * the index says and no more than that. STK_EFORMAT, STK_ENOTSUP, STK_ELIMIT, STK_ENOMEM.
 */
stk_status stk__mds_index_parse(const void *options, const char *text, uint64_t length,
                                const char *key, stk__tabled *out, stk_error *err);

#endif
