/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: buffers, streams, events and copies, in one table that a plug-in can fill. */
#ifndef STOKER_DEVICE_H
#define STOKER_DEVICE_H

#include <stoker/options.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stk_device stk_device;
typedef struct stk_stream stk_stream;
typedef struct stk_event stk_event;

typedef enum stk_copy_kind {
    STK_COPY_HOST_TO_DEVICE = 0,
    STK_COPY_DEVICE_TO_HOST,
    STK_COPY_DEVICE
} stk_copy_kind;

/** A named array: a parameter, a moment of an optimizer, anything that a checkpoint keeps. The
 * bytes are in C order. */
typedef struct stk_state_tensor {
    const char *name; /**< "layer1.weight" */
    stk_dtype dtype;
    uint32_t rank;
    int64_t shape[STK_MAX_RANK];
    void *data;
    uint64_t bytes;
} stk_state_tensor;

/** What of a parameter one of several processes has: elements from `from` on. */
typedef struct stk_shard {
    uint64_t from, count;
} stk_shard;

/**
 * One number, where it was computed. Where `data` is not NULL it is one element of `dtype` in the
 * memory of a device, made by the work that was given to the device's stream so far: no caller
 * waits for it until its value is wanted.
 */
typedef struct stk_scalar {
    double value; /**< where `data` is NULL */
    const void *data;
    /** In the same memory and of the same type: how many rows `data` is the mean of. With 0 it says
     * nothing, and is left out of sums. NULL: the caller knows. */
    const void *weight;
    stk_dtype dtype;
} stk_scalar;

/** What a device is. */
typedef struct stk_device_info {
    uint32_t struct_size;
    char name[64];         /**< "Intel(R) Xeon(R) ..." */
    uint64_t memory_bytes; /**< 0: that of the host */
    bool host_memory;      /**< its buffers are memory of the host: copies can be left out */
    bool bf16;             /**< computes with bfloat16 natively */
} stk_device_info;

/**
 * The seam between training and what computes. Work on one stream runs in order; the calls return
 * before it is done unless they say so. Streams and events are the driver's own structs.
 */
typedef struct stk_device_ops {
    uint32_t struct_size; /* first, for ever */
    const char *name;     /* the accelerator: "cpu" */
    const char *doc;
    const stk_option_table *options; /* NULL: devices take no options */
    /* Devices there are; 0: none, or no driver. */
    uint32_t (*count)(void);
    /* Ends with stk_device_create(). */
    stk_status (*open)(stk_context *ctx, uint32_t index, stk_device **out, stk_error *err);
    /* Frees the state of a device; the device itself is the library's. */
    void (*close)(stk_device *device);
    void (*info)(const stk_device *device, stk_device_info *out);
    /* Memory of the device, aligned to 256 bytes, and of the host, locked for copies. */
    stk_status (*alloc)(stk_device *device, uint64_t bytes, void **out, stk_error *err);
    void (*free)(stk_device *device, void *memory);
    stk_status (*alloc_host)(stk_device *device, uint64_t bytes, void **out, stk_error *err);
    void (*free_host)(stk_device *device, void *memory);
    stk_status (*stream_create)(stk_device *device, stk_stream **out, stk_error *err);
    void (*stream_destroy)(stk_stream *stream);
    /* Blocks until the work given so far is done; its failures come out here. */
    stk_status (*stream_synchronize)(stk_stream *stream, stk_error *err);
    stk_status (*copy)(stk_stream *stream, void *to, const void *from, uint64_t bytes,
                       stk_copy_kind kind, stk_error *err);
    stk_status (*fill)(stk_stream *stream, void *to, uint8_t byte, uint64_t bytes, stk_error *err);
    /* An event marks a place of a stream; another stream may wait for it. */
    stk_status (*event_create)(stk_device *device, stk_event **out, stk_error *err);
    void (*event_destroy)(stk_event *event);
    stk_status (*event_record)(stk_event *event, stk_stream *stream, stk_error *err);
    stk_status (*stream_wait)(stk_stream *stream, stk_event *event, stk_error *err);
    /* STK_OK when passed, else STK_EAGAIN. Does not block. Any thread. */
    stk_status (*event_query)(stk_event *event, stk_error *err);
    /* Nanoseconds of the device's clock between two events that have passed. */
    stk_status (*event_elapsed)(stk_event *from, stk_event *to, uint64_t *ns, stk_error *err);
    /* sums[0] = x, sums[1] += w x, sums[2] += w, sums[3] = w: how a metric is kept on the device
     * until it is read. x is value->data, w value->weight or, where that is NULL, `weight`;
     * where w is 0, sums[1] and sums[2] stay as they are whatever x is. `sums` are four doubles of
     * the device. */
    stk_status (*fold)(stk_stream *stream, double *sums, const stk_scalar *value, double weight,
                       stk_error *err);
    /* (optional) What NCCL takes for a stream: a cudaStream_t, whose device is that of the thread
     * that called open(). NULL: NCCL knows nothing of what lies on this device. */
    void *(*stream_native)(stk_stream *stream);
    /* (optional) Numbers of a type to as many of another: STK_FLOAT32 to STK_BFLOAT16, the nearest,
     * of two the even one, a NaN stays one; and back. Here and in the next two `n` is not 0, and an
     * address is a multiple of its type's size, no more. NULL: gradient_compression is refused. */
    stk_status (*convert)(stk_stream *stream, void *to, stk_dtype to_type, const void *from,
                          stk_dtype from_type, uint64_t n, stk_error *err);
    /* (optional) *sum, a double of the device, += the squares of `n` numbers (STK_FLOAT32 or
     * STK_FLOAT64), as doubles, in an order that depends on `n` alone. NULL: they are copied to the
     * host wherever ranks clip by norm, and added up there. */
    stk_status (*squares)(stk_stream *stream, double *sum, const void *from, stk_dtype dtype,
                          uint64_t n, stk_error *err);
    /* (optional) Each of `n` numbers (of the same types) becomes its product with `by`, and no more
     * than `most` or less than -`most`; a NaN stays one. `by` and `most` are rounded to the type.
     * NULL: ranks that clip copy to the host and back. */
    stk_status (*scale)(stk_stream *stream, void *data, stk_dtype dtype, uint64_t n, double by,
                        double most, stk_error *err);
    /* (optional) Behind the work given so far, what is in these bytes is not wanted, and as much of
     * their memory as the driver can (whole pages within them) may be used for other blocks; their
     * addresses stay, and nobody comes there until take_back(), but that free() takes the block.
     * They begin and end anywhere in a block of alloc(); where one block lies right behind another
     * they may reach over both. May be said of what is gone already. NULL: zero_2 and zero_3 are
     * refused, which share that memory out. Either call may wait for the stream. */
    stk_status (*give_back)(stk_stream *stream, void *memory, uint64_t bytes, stk_error *err);
    /* (with give_back) Before the work that is given next, each of these bytes has memory again,
     * with anything in it, for NCCL as well; what is there stays as it is. Ranges need not be those
     * that were given back. No memory: STK_ENOMEM, and some of them may have it. */
    stk_status (*take_back)(stk_stream *stream, void *memory, uint64_t bytes, stk_error *err);
} stk_device_ops;

/**
 * Make a device, as open() of a driver does. `state` is what its functions get from
 * stk_device_self(). Ownership: *out is that of open()'s caller; the device keeps the context
 * alive; on failure `state` is still the driver's. Errors: STK_EINVAL (the table, named),
 * STK_ENOMEM. Thread: any.
 */
STK_API STK_NODISCARD stk_status stk_device_create(stk_context *context, const stk_device_ops *ops,
                                                   void *state, stk_device **out, stk_error *err);
/** The `state` that stk_device_create() was given. Any thread. */
STK_API void *stk_device_self(const stk_device *device);

#ifdef __cplusplus
}
#endif
#endif
