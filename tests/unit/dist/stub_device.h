/* The device of stub_nccl.h: memory of the host that says to be its own, and streams on which work
 * is done some time after it was given. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_DIST_STUB_DEVICE_H
#define STK_TESTS_UNIT_DIST_STUB_DEVICE_H

#include <stdlib.h>

#include "device/device.h"
#include "support/support.h"
#include "unit/dist/stub_nccl.h"

struct stk_stream {
    stub_stream work;
};

struct stk_event {
    stk_stream *stream;
    uint64_t at; /* what was given before it */
};

static const stk_device_ops stub_device;
/* Whose devices are opened: a test may have a table that differs. */
static const stk_device_ops *stub_ops = &stub_device;

static inline uint32_t stub_count(void)
{
    return 1;
}

static inline stk_status stub_open(stk_context *ctx, uint32_t index, stk_device **out,
                                   stk_error *err)
{
    return stk_device_create(ctx, stub_ops, NULL, out, err);
}

static inline void stub_close(stk_device *device)
{
}

static inline void stub_info(const stk_device *device, stk_device_info *out)
{
    *out = (stk_device_info){.struct_size = sizeof *out, .name = "stub"};
}

static inline stk_status stub_alloc(stk_device *device, uint64_t bytes, void **out, stk_error *err)
{
    *out = aligned_alloc(256, (size_t)(bytes / 256 + 1) * 256);
    return STK_OK;
}

static inline void stub_free(stk_device *device, void *memory)
{
    free(memory);
}

static inline stk_status stub_stream_create(stk_device *device, stk_stream **out, stk_error *err)
{
    *out = calloc(1, sizeof **out);
    pthread_mutex_init(&(*out)->work.lock, NULL);
    pthread_cond_init(&(*out)->work.moved, NULL);
    return STK_OK;
}

static inline void stub_stream_destroy(stk_stream *stream)
{
    pthread_cond_destroy(&stream->work.moved);
    pthread_mutex_destroy(&stream->work.lock);
    free(stream);
}

static inline stk_status stub_synchronize(stk_stream *stream, stk_error *err)
{
    stub_stream *work = &stream->work;

    pthread_mutex_lock(&work->lock);
    while (work->done < work->queued)
        pthread_cond_wait(&work->moved, &work->lock);
    pthread_mutex_unlock(&work->lock);
    return STK_OK;
}

/* In the order of the stream: what was given before is waited for. */
static inline stk_status stub_copy(stk_stream *stream, void *to, const void *from, uint64_t bytes,
                                   stk_copy_kind kind, stk_error *err)
{
    STK_TRY(stub_synchronize(stream, err));
    memmove(to, from, (size_t)bytes);
    return STK_OK;
}

static inline stk_status stub_fill(stk_stream *stream, void *to, uint8_t byte, uint64_t bytes,
                                   stk_error *err)
{
    STK_TRY(stub_synchronize(stream, err));
    memset(to, byte, (size_t)bytes);
    return STK_OK;
}

static inline stk_status stub_event_create(stk_device *device, stk_event **out, stk_error *err)
{
    *out = calloc(1, sizeof **out);
    return STK_OK;
}

static inline void stub_event_destroy(stk_event *event)
{
    free(event);
}

static inline stk_status stub_event_record(stk_event *event, stk_stream *stream, stk_error *err)
{
    pthread_mutex_lock(&stream->work.lock);
    event->stream = stream;
    event->at = stream->work.queued;
    pthread_mutex_unlock(&stream->work.lock);
    return STK_OK;
}

static inline stk_status stub_stream_wait(stk_stream *stream, stk_event *event, stk_error *err)
{
    return STK_OK;
}

static inline stk_status stub_event_query(stk_event *event, stk_error *err)
{
    stub_stream *work = &event->stream->work;

    pthread_mutex_lock(&work->lock);
    const bool passed = work->done >= event->at;
    pthread_mutex_unlock(&work->lock);
    return passed ? STK_OK : STK_EAGAIN;
}

static inline stk_status stub_event_elapsed(stk_event *from, stk_event *to, uint64_t *ns,
                                            stk_error *err)
{
    *ns = 0;
    return STK_OK;
}

static inline stk_status stub_fold(stk_stream *stream, double *sums, const stk_scalar *value,
                                   double weight, stk_error *err)
{
    STK_TRY(stub_synchronize(stream, err));
    return stk__device_cpu.fold(stream, sums, value, weight, err);
}

static inline void *stub_native(stk_stream *stream)
{
    return &stream->work;
}

static const stk_device_ops stub_device = {
    .struct_size = sizeof stub_device,
    .name = "stub",
    .doc = "a device of tests",
    .count = stub_count,
    .open = stub_open,
    .close = stub_close,
    .info = stub_info,
    .alloc = stub_alloc,
    .free = stub_free,
    .alloc_host = stub_alloc,
    .free_host = stub_free,
    .stream_create = stub_stream_create,
    .stream_destroy = stub_stream_destroy,
    .stream_synchronize = stub_synchronize,
    .copy = stub_copy,
    .fill = stub_fill,
    .event_create = stub_event_create,
    .event_destroy = stub_event_destroy,
    .event_record = stub_event_record,
    .stream_wait = stub_stream_wait,
    .event_query = stub_event_query,
    .event_elapsed = stub_event_elapsed,
    .fold = stub_fold,
    .stream_native = stub_native,
};

#endif
