/* a profile of some steps -> a table, a diagnosis: what the files of `stoker profile` share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_CLI_PROFILE_H
#define STK_CLI_PROFILE_H

#include <stoker/profiler.h>

#include "cli.h"

/* The breakdown and the diagnosis, in the format asked for. CLI_GO_ON, or the exit code after
 * printing the error. */
int profile_print(struct cli *cli, const stk_profile *profile, const stk_profile_summary *summary);

#endif
