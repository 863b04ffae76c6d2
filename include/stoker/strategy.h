/* SPDX-License-Identifier: Apache-2.0 */
/* How several processes train one model: what MPI, NCCL and the like bring to a trainer. */
#ifndef STOKER_STRATEGY_H
#define STOKER_STRATEGY_H

#include <stoker/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How the elements of all ranks become one. */
typedef enum stk_combine {
    STK_COMBINE_SUM = 0,
    STK_COMBINE_MEAN,
    STK_COMBINE_MIN,
    STK_COMBINE_MAX
} stk_combine;

/**
 * One rank of several. All ranks make the same calls in the same order, each from the thread of its
 * trainer, or with `any_thread` also from another that it has for sums. `stream` says where the
 * memory is: the host's with NULL, and the call returns when all is done; else the memory is that
 * of the device of attach(), and the work is done in the order of the stream, mostly after the call
 * has returned: who has waited for the stream asks check() how it went.
 *
 * Errors of the calls: what the network says; STK_ECANCELED is none of them.
 */
typedef struct stk_strategy {
    uint32_t struct_size;
    const char *name; /**< "mpi"; lives as long as the trainer */
    uint64_t rank, world_size;
    void *state; /**< what the functions get */
    /** Combine `count` elements of each rank, in place: the same bits on every rank afterwards.
     * STK_FLOAT32 and STK_FLOAT64 at least. In the memory of a device sums may have an order of
     * their own. */
    stk_status (*reduce)(void *state, void *buffer, uint64_t count, stk_dtype dtype, stk_combine op,
                         stk_stream *stream, stk_error *err);
    /** What rank 0 has, everywhere. */
    stk_status (*broadcast)(void *state, void *buffer, uint64_t bytes, stk_stream *stream,
                            stk_error *err);
    /** Return when every rank is here. */
    stk_status (*barrier)(void *state, stk_error *err);
    /** (optional) This rank has failed and makes no more calls: those that wait for it fail, now
     * and from now on. NULL: they find out by themselves. */
    void (*abort)(void *state);
    /** Calls may come from more than one thread, one after the other: gradients are then combined
     * while backward() is still at work on others. */
    bool any_thread;
    /** (optional) The two halves of reduce(), without which nothing can lie in parts (the strategy
     * zero_1 and those above it). Of a buffer of the sum of `counts`, one number for each rank,
     * rank r's part are counts[r] elements behind those of the ranks before it; a part may be
     * empty. reduce_scatter() combines as reduce() does, in the memory of the host with the same
     * bits, and each rank gets its own part alone; what the other parts of its buffer are then is
     * not said. */
    stk_status (*reduce_scatter)(void *state, void *buffer, const uint64_t *counts, stk_dtype dtype,
                                 stk_combine op, stk_stream *stream, stk_error *err);
    /** (with reduce_scatter) Every rank gets all parts, each from the rank that it is of. Elements
     * are of any type of a fixed size. */
    stk_status (*all_gather)(void *state, void *buffer, const uint64_t *counts, stk_dtype dtype,
                             stk_stream *stream, stk_error *err);
    /** (optional) All ranks, before the first call with a stream: the device that streams and
     * memory are of from here on. Called for a device whose memory is the host's as well, which may
     * be refused. NULL: no call has a stream, or it is known without. */
    stk_status (*attach)(void *state, stk_device *device, stk_error *err);
    /** (with attach) The device is about to be closed, and no more calls have a stream. What was
     * given to streams is waited for, with a deadline. */
    void (*detach)(void *state);
    /** (optional) Whether all that was given to streams has gone well so far. Work that fails ends
     * early, and what is then in memory is not what was asked for: this has to be asked after
     * waiting for a stream, before anything is made of the result. Does not wait. NULL: a stream
     * says that itself. */
    stk_status (*check)(void *state, stk_error *err);
} stk_strategy;

#ifdef __cplusplus
}
#endif
#endif
