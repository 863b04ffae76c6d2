/* compressed shards -> the same shards, which can be read at any place */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CONVERT_UNPACKED_H
#define STK_SRC_CONVERT_UNPACKED_H

#include "convert/convert.h"

/* Whether the first shard that a source names is compressed: `takes` of the converters of shards.
 */
bool stk__unpacked_takes(stk_context *ctx, const char *source, const char **why);
/* Write each shard of the job's source unpacked, byte for byte, under its name without the ending
 * of its compression: in the folder that is the target, or as the one file that is it. */
stk_status stk__unpacked_run(const stk_conversion_job *job, bool folder,
                             stk_conversion_report *report, stk_error *err);

#endif
