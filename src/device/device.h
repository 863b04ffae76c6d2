/* bytes of the host -> bytes where they are computed with */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DEVICE_DEVICE_H
#define STK_SRC_DEVICE_DEVICE_H

#include <stoker/device.h>

#include "base/base.h"

extern const stk_device_ops stk__device_cpu;

/* What the library knows of a device. */
struct stk_device {
    const stk_device_ops *ops;
    stk_context *context; /* it has a share of it */
    void *state;
};

/* Open device `index` of a driver; STK_EINVAL where its open() gives no device. */
stk_status stk__device_open(stk_context *ctx, const stk_device_ops *ops, uint32_t index,
                            stk_device **out, stk_error *err);
/* Close and set *device to NULL. Accepts NULL. */
void stk__device_close(stk_device **device);

/* Whether an outsider's table of an accelerator is whole. */
stk_status stk__device_kind_check(const void *table, stk_error *err);

#endif
