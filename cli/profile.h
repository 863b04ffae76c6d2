/* a profile of some steps -> files, a table, a diagnosis: what the files of `stoker profile` share
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_CLI_PROFILE_H
#define STK_CLI_PROFILE_H

#include <stoker/profiler.h>

#include "cli.h"

#define PROFILE_PATH 4096

enum profile_part {
    PROFILE_DATA,
    PROFILE_FORWARD,
    PROFILE_BACKWARD,
    PROFILE_OTHER,
    PROFILE_TOTAL,
    PROFILE_PARTS
};

/* The breakdown of the measured batches, in seconds. */
struct profile_summary {
    uint64_t batches, warmup; /* measured; left out before them */
    uint64_t samples;
    uint64_t batch_size;
    int64_t num_workers;
    const char *config; /* path of the YAML file; NULL: none */
    stk_spread parts[PROFILE_PARTS];
};

/* Name of a part: "data". */
const char *profile_part_name(enum profile_part part);

/* Fill the summary from the batches behind the first `warmup`. CLI_GO_ON, or the exit code after
 * printing that there are none. */
int profile_summarize(struct cli *cli, const stk_profile *profile, struct profile_summary *out);
/* Write timing_summary.yaml, timing_results.csv and layers.csv into a folder that is made. */
int profile_write_files(struct cli *cli, const stk_profile *profile,
                        const struct profile_summary *summary, const char *folder);
/* What is printed: the breakdown and the diagnosis, in the format asked for. `files` of them are
 * named. */
void profile_print(struct cli *cli, const stk_profile *profile,
                   const struct profile_summary *summary);
/* The diagnosis: one paragraph on what limits and what to change. */
void profile_diagnose(const stk_profile *profile, const struct profile_summary *summary, char *text,
                      size_t size);

#endif
