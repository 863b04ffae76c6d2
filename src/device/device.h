/* bytes of the host -> bytes where they are computed with */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DEVICE_DEVICE_H
#define STK_SRC_DEVICE_DEVICE_H

#include <stoker/device.h>

#include "base/base.h"

extern const stk_device_ops stk__device_cpu;

/* Whether an outsider's table of an accelerator is whole. */
stk_status stk__device_kind_check(const void *table, stk_error *err);

#endif
