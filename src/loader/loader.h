/* samples -> batches, in order */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_LOADER_LOADER_H
#define STK_SRC_LOADER_LOADER_H

/* Other rooms use a loader as any program does; its parts are its own. */
#include <stoker/loader.h>

extern const stk_option_table stk__loader_option_table;

#endif
