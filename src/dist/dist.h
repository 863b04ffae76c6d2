/* environment of a launcher -> which process of how many this is */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DIST_DIST_H
#define STK_SRC_DIST_DIST_H

#include <stoker/collectives.h>
#include <stoker/ranks.h>

#include "base/base.h"

/* Tasks of node `node` in a count for each as Slurm writes it, "2(x3),1"; 0: it says
 * nothing of that node. (hosts.c) */
uint64_t stk__tasks_of_node(const char *text, uint64_t node);

extern const stk_option_table stk__collectives_option_table; /* options.c */

#endif
