/* a profile of some steps -> files, a table, a diagnosis: what the files of `stoker profile` share
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_CLI_PROFILE_H
#define STK_CLI_PROFILE_H

#include <stoker/profiler.h>

#include "cli.h"

#define PROFILE_PATH   4096
#define PROFILE_LAYERS 12 /* that are printed */

struct profile_found {
    stk_profile_summary summary;
    uint64_t batch_size;
};

/* Write timing_summary.yaml, timing_results.csv and layers.csv into a folder of any store, a local
 * one is made. CLI_GO_ON, or the exit code after printing the error. */
int profile_write_files(struct cli *cli, stk_context *context, const stk_profile *profile,
                        const struct profile_found *found, const char *folder);
/* What is printed: the breakdown and the diagnosis, in the format asked for. */
void profile_print(struct cli *cli, const stk_profile *profile, const struct profile_found *found);

#endif
