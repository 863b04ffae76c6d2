/* bytes of the host -> bytes where they are computed with */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DEVICE_DEVICE_H
#define STK_SRC_DEVICE_DEVICE_H

#include <stoker/device.h>

#include "base/base.h"

extern const stk_device_ops stk__device_cpu;

/* What a built-in accelerator answers to a plug-in's question. */
const void *stk__device_query(stk_query_kind kind, uint32_t version);
/* The table of an accelerator by name; NULL: this build has none of it. */
const stk_device_ops *stk__device_find(const char *name);

#endif
