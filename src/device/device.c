/* SPDX-License-Identifier: Apache-2.0 */
/* What all devices have in common: their heads, and the check of an outsider's table. */
#include "device/device.h"

#include "base/sized.h"
#include "base/table.h"

#define MEMBER(member) STK__MEMBER(stk_device_ops, member)

static const stk__member members[] = {MEMBER(count),
                                      MEMBER(open),
                                      MEMBER(close),
                                      MEMBER(info),
                                      MEMBER(alloc),
                                      MEMBER(free),
                                      MEMBER(alloc_host),
                                      MEMBER(free_host),
                                      MEMBER(stream_create),
                                      MEMBER(stream_destroy),
                                      MEMBER(stream_synchronize),
                                      MEMBER(copy),
                                      MEMBER(fill),
                                      MEMBER(event_create),
                                      MEMBER(event_destroy),
                                      MEMBER(event_record),
                                      MEMBER(stream_wait),
                                      MEMBER(event_query),
                                      MEMBER(event_elapsed),
                                      MEMBER(fold)};
static const stk__member optional[] = {STK__MEMBER_WITH(stk_device_ops, take_back, give_back)};

static const stk__given_table table = {.type = "stk_device_ops",
                                       .least = offsetof(stk_device_ops, stream_native),
                                       .members = members,
                                       .num_members = STK_COUNT(members),
                                       .stage = STK_STAGE_DEVICE};
static const stk__given_table full_table = {.type = "stk_device_ops",
                                            .least = sizeof(stk_device_ops),
                                            .members = optional,
                                            .num_members = STK_COUNT(optional),
                                            .stage = STK_STAGE_DEVICE};

/* A shorter table lacks what came later. */
static void read_table(stk_device_ops *out, const stk_device_ops *given)
{
    *out = (stk_device_ops){.struct_size = sizeof *out};
    stk__sized_copy(out, sizeof *out, given);
}

stk_status stk__device_kind_check(const void *ops, stk_error *err)
{
    const stk_device_ops *device = ops;
    stk_device_ops full;

    STK_TRY(stk__table_check(&table, ops, err));
    read_table(&full, device);
    STK_TRY(stk__table_check(&full_table, &full, err));
    if (device->options)
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_DEVICE,
                         "the stk_device_ops of '%.64s' has options, which devices do not take yet",
                         device->name);
    return STK_OK;
}

stk_status stk_device_create(stk_context *context, const stk_device_ops *ops, void *state,
                             stk_device **out, stk_error *err)
{
    if (!context || !out)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DEVICE, "no context or no place for a device");
    *out = NULL;
    STK_TRY(stk__context_check(context, err));
    STK_TRY(stk__device_kind_check(ops, err));
    stk_device *device = stk__calloc(context, 1, sizeof *device);
    if (!device)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DEVICE, "no memory for a device of kind '%s'",
                         ops->name);
    device->ops = ops;
    device->context = stk__context_ref(context);
    device->state = state;
    *out = device;
    return STK_OK;
}

void *stk_device_self(const stk_device *device)
{
    return device->state;
}

stk_status stk__device_open(stk_context *ctx, const stk_device_ops *ops, uint32_t index,
                            stk_device **out, stk_error *err)
{
    *out = NULL;
    stk_status status = ops->open(ctx, index, out, err);
    status = stk__table_made(&table, ops->name, "open", status, *out, err);
    if (status == STK_OK)
        status = ops->stream_create(*out, &(*out)->stream, err);
    if (status != STK_OK)
        stk__device_close(out);
    return status;
}

void stk__device_close(stk_device **device)
{
    stk_device *d = *device;

    *device = NULL;
    if (!d)
        return;
    stk_context *ctx = d->context;
    if (d->stream)
        d->ops->stream_destroy(d->stream);
    d->ops->close(d);
    stk__free(ctx, d);
    stk__context_unref(ctx);
}

bool stk__device_is_host(const stk_device *device)
{
    stk_device_info info = {.struct_size = sizeof info};

    device->ops->info(device, &info);
    return info.host_memory;
}

bool stk__device_has_native(const stk_device *device)
{
    stk_device_ops ops;

    read_table(&ops, device->ops);
    return ops.stream_native;
}

void *stk__device_native(const stk_device *device, stk_stream *stream)
{
    return device->ops->stream_native(stream);
}

void stk__device_functions(const stk_device *device, stk_device_ops *out)
{
    const stk_device_ops *host = &stk__device_cpu;

    read_table(out, device->ops);
    if (!stk__device_is_host(device))
        return;
    out->copy = host->copy;
    out->fill = host->fill;
    out->convert = host->convert;
    out->squares = host->squares;
    out->scale = host->scale;
    out->give_back = host->give_back;
    out->take_back = host->take_back;
}

stk_status stk__device_value(const stk_device *device, const void *data, stk_dtype dtype,
                             double *value, stk_error *err)
{
    unsigned char bytes[16] = {0};
    const size_t size = STK_MIN(stk_dtype_size(dtype), sizeof bytes);

    STK_TRY(device->ops->copy(device->stream, bytes, data, size, STK_COPY_DEVICE_TO_HOST, err));
    STK_TRY(device->ops->stream_synchronize(device->stream, err));
    *value = stk__element_as_double(bytes, dtype);
    return STK_OK;
}
