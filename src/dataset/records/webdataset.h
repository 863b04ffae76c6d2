/* the members of a tar -> samples, their fields */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_RECORDS_WEBDATASET_H
#define STK_SRC_DATASET_RECORDS_WEBDATASET_H

#include "dataset/records/records.h"

#define STK__WEBDATASET_MAX_NAME 4096u /* bytes of the name of a member */

/* Where the members of a shard lie: scan() of the format. (webdataset_scan.c) */
stk_status stk__webdataset_scan(stk__shard *shard, const void *options, stk_error *err);

#endif
