/* SPDX-License-Identifier: Apache-2.0 */
/* The processor as a device: every stream is the calling thread, so all work is done on return. */
#include "device/device.h"

#include <stdio.h>

struct stk_stream {
    stk_device *device;
};

struct stk_event {
    stk_device *device;
    uint64_t when_ns; /* 0: not recorded */
};

static uint32_t cpu_count(void)
{
    return 1;
}

static stk_status no_memory(uint64_t bytes, stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_DEVICE, "no memory for %llu bytes on the cpu",
                     (unsigned long long)bytes);
}

static stk_status cpu_open(stk_context *ctx, uint32_t index, stk_device **out, stk_error *err)
{
    *out = NULL;
    if (index)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DEVICE, "there is no cpu:%u; use cpu:0", index);
    return stk_device_create(ctx, &stk__device_cpu, NULL, out, err);
}

static void cpu_close(stk_device *device)
{
    (void)device; /* no state */
}

static void cpu_info(const stk_device *device, stk_device_info *out)
{
    *out = (stk_device_info){.struct_size = sizeof *out, .host_memory = true};
    snprintf(out->name, sizeof out->name, "cpu");
#if defined(__x86_64__)
    out->bf16 = __builtin_cpu_supports("avx512bf16");
#endif
}

/* Blocks are aligned to a cache line; no kernel of the processor asks for more. */
static stk_status cpu_alloc(stk_device *device, uint64_t bytes, void **out, stk_error *err)
{
    *out = bytes <= SIZE_MAX ? stk__alloc_buffer(device->context, (size_t)bytes) : NULL;
    return *out ? STK_OK : no_memory(bytes, err);
}

static void cpu_free(stk_device *device, void *memory)
{
    stk__free(device->context, memory);
}

static stk_status cpu_stream_create(stk_device *device, stk_stream **out, stk_error *err)
{
    *out = stk__calloc(device->context, 1, sizeof **out);
    if (!*out)
        return no_memory(sizeof **out, err);
    (*out)->device = device;
    return STK_OK;
}

static void cpu_stream_destroy(stk_stream *stream)
{
    if (stream)
        stk__free(stream->device->context, stream);
}

static stk_status cpu_stream_synchronize(stk_stream *stream, stk_error *err)
{
    return STK_OK;
}

static stk_status cpu_copy(stk_stream *stream, void *to, const void *from, uint64_t bytes,
                           stk_copy_kind kind, stk_error *err)
{
    if (bytes)
        memmove(to, from, (size_t)bytes);
    return STK_OK;
}

static stk_status cpu_fill(stk_stream *stream, void *to, uint8_t byte, uint64_t bytes,
                           stk_error *err)
{
    if (bytes)
        memset(to, byte, (size_t)bytes);
    return STK_OK;
}

static stk_status cpu_event_create(stk_device *device, stk_event **out, stk_error *err)
{
    *out = stk__calloc(device->context, 1, sizeof **out);
    if (!*out)
        return no_memory(sizeof **out, err);
    (*out)->device = device;
    return STK_OK;
}

static void cpu_event_destroy(stk_event *event)
{
    if (event)
        stk__free(event->device->context, event);
}

static stk_status cpu_event_record(stk_event *event, stk_stream *stream, stk_error *err)
{
    event->when_ns = stk__now_ns();
    return STK_OK;
}

static stk_status cpu_stream_wait(stk_stream *stream, stk_event *event, stk_error *err)
{
    return STK_OK;
}

static stk_status cpu_event_query(stk_event *event, stk_error *err)
{
    return STK_OK;
}

static stk_status cpu_event_elapsed(stk_event *from, stk_event *to, uint64_t *ns, stk_error *err)
{
    *ns = 0;
    if (!from->when_ns || !to->when_ns)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DEVICE,
                         "the time between two events wants both recorded");
    *ns = to->when_ns - from->when_ns;
    return STK_OK;
}

static stk_status cpu_fold(stk_stream *stream, double *sums, const stk_scalar *value, double weight,
                           stk_error *err)
{
    const double x = stk__element_as_double(value->data, value->dtype);
    const double w = value->weight ? stk__element_as_double(value->weight, value->dtype) : weight;

    sums[0] = x;
    sums[3] = w;
    if (w == 0)
        return STK_OK;
    sums[1] += w * x;
    sums[2] += w;
    return STK_OK;
}

static stk_status cpu_convert(stk_stream *stream, void *to, stk_dtype to_type, const void *from,
                              stk_dtype from_type, uint64_t n, stk_error *err)
{
    if (to_type == STK_BFLOAT16 && from_type == STK_FLOAT32)
        stk__floats_to_bf16(to, from, n);
    else if (to_type == STK_FLOAT32 && from_type == STK_BFLOAT16)
        stk__bf16_to_floats(to, from, n);
    else
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_DEVICE, "the cpu makes no %s of %s",
                         stk_dtype_name(to_type), stk_dtype_name(from_type));
    return STK_OK;
}

enum { LANES = 8 }; /* sums that a processor makes at once */

#define DEFINE_NUMBERS(type)                                                                       \
    static double squares_##type(const type *x, uint64_t n)                                        \
    {                                                                                              \
        double lanes[LANES] = {0}, sum = 0;                                                        \
        uint64_t i = 0;                                                                            \
        for (; i + LANES <= n; i += LANES)                                                         \
            for (int k = 0; k < LANES; k++)                                                        \
                lanes[k] += (double)x[i + k] * (double)x[i + k];                                   \
        for (; i < n; i++)                                                                         \
            sum += (double)x[i] * (double)x[i];                                                    \
        for (int k = 0; k < LANES; k++)                                                            \
            sum += lanes[k];                                                                       \
        return sum;                                                                                \
    }                                                                                              \
    static void scale_##type(type *x, uint64_t n, type by, type most)                              \
    {                                                                                              \
        for (uint64_t i = 0; i < n; i++) {                                                         \
            const type scaled = x[i] * by;                                                         \
            x[i] = scaled > most ? most : scaled < -most ? -most : scaled;                         \
        }                                                                                          \
    }
DEFINE_NUMBERS(float)
DEFINE_NUMBERS(double)

static stk_status no_such_numbers(stk_dtype dtype, stk_error *err)
{
    return stk__fail(err, STK_ENOTSUP, STK_STAGE_DEVICE,
                     "the cpu adds up and scales float32 and float64, not %s",
                     stk_dtype_name(dtype));
}

static stk_status cpu_squares(stk_stream *stream, double *sum, const void *from, stk_dtype dtype,
                              uint64_t n, stk_error *err)
{
    if (dtype == STK_FLOAT32)
        *sum += squares_float(from, n);
    else if (dtype == STK_FLOAT64)
        *sum += squares_double(from, n);
    else
        return no_such_numbers(dtype, err);
    return STK_OK;
}

static stk_status cpu_scale(stk_stream *stream, void *data, stk_dtype dtype, uint64_t n, double by,
                            double most, stk_error *err)
{
    if (dtype == STK_FLOAT32)
        scale_float(data, n, (float)by, (float)most);
    else if (dtype == STK_FLOAT64)
        scale_double(data, n, by, most);
    else
        return no_such_numbers(dtype, err);
    return STK_OK;
}

static stk_status cpu_give_back(stk_stream *stream, void *memory, uint64_t bytes, stk_error *err)
{
    stk__give_pages_back(memory, bytes);
    return STK_OK;
}

/* Pages come when they are touched. */
static stk_status cpu_take_back(stk_stream *stream, void *memory, uint64_t bytes, stk_error *err)
{
    return STK_OK;
}

const stk_device_ops stk__device_cpu = {
    .struct_size = sizeof(stk_device_ops),
    .name = "cpu",
    .doc = "the processor",
    .count = cpu_count,
    .open = cpu_open,
    .close = cpu_close,
    .info = cpu_info,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .alloc_host = cpu_alloc,
    .free_host = cpu_free,
    .stream_create = cpu_stream_create,
    .stream_destroy = cpu_stream_destroy,
    .stream_synchronize = cpu_stream_synchronize,
    .copy = cpu_copy,
    .fill = cpu_fill,
    .event_create = cpu_event_create,
    .event_destroy = cpu_event_destroy,
    .event_record = cpu_event_record,
    .stream_wait = cpu_stream_wait,
    .event_query = cpu_event_query,
    .event_elapsed = cpu_event_elapsed,
    .fold = cpu_fold,
    .convert = cpu_convert,
    .squares = cpu_squares,
    .scale = cpu_scale,
    .give_back = cpu_give_back,
    .take_back = cpu_take_back,
};
