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
    stk_stream *stream; /* of all that is computed on it, in order; NULL: not opened by us */
};

/* Open device `index` of a driver, with its stream; STK_EINVAL where its open() gives no device. */
stk_status stk__device_open(stk_context *ctx, const stk_device_ops *ops, uint32_t index,
                            stk_device **out, stk_error *err);
/* Close it and set *device to NULL. Accepts NULL. */
void stk__device_close(stk_device **device);
/* Whether the host reads and writes its memory in place. */
bool stk__device_is_host(const stk_device *device);
/* Whether NCCL takes its streams, and what it takes for one; a NULL is a stream, too. */
bool stk__device_has_native(const stk_device *device);
void *stk__device_native(const stk_device *device, stk_stream *stream);
/* Its table in full size: optional functions that it lacks are NULL. Where its memory is the
 * host's, what works on memory is the processor's, and done on return. */
void stk__device_functions(const stk_device *device, stk_device_ops *out);
/* The value of a number of the device, when its stream has come there. */
stk_status stk__device_value(const stk_device *device, const void *data, stk_dtype dtype,
                             double *value, stk_error *err);

/* Whether an outsider's table of an accelerator is whole. */
stk_status stk__device_kind_check(const void *table, stk_error *err);

#endif
