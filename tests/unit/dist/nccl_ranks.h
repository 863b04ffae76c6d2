/* Ranks as threads that have the device of stub_device.h each, and a library that stands for NCCL.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_DIST_NCCL_RANKS_H
#define STK_TESTS_UNIT_DIST_NCCL_RANKS_H

#include <dlfcn.h>

#include "dist/nccl.h"
#include "unit/dist/network.h"
#include "unit/dist/stub_device.h"

#define LIBRARY STUB_FOLDER "/stub_nccl.so"

enum { RANKS = 4, NUMBERS = 70001 };

static stub_library *stub;

/* It is the same one that ranks load. False: that was said. */
static inline bool stub_load(void)
{
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

    stub = handle ? dlsym(handle, "stub_nccl") : NULL;
    if (!stub)
        fprintf(stderr, "%s\n", dlerror());
    return stub;
}

/* ---- Ranks ----------------------------------------------------------------------------------- */

typedef struct rank {
    network_end end;
    stk_context *ctx;
    stk_collectives_options options;
    stk_collectives *c;
    const stk_strategy *s;
    stk_device *device;
    void *memory; /* of the device, NUMBERS doubles */
    void (*body)(struct rank *);
    stk_status status;
    stk_error err;
    int which; /* of the test */
    bool went_on;
} rank;

static inline void *run_rank(void *argument)
{
    rank *r = argument;

    network_self = &r->end;
    stk_error_init(&r->err);
    assert_ok(stk__collectives_join(r->ctx, &network_ops, &r->options, &r->c, &r->err), &r->err);
    r->s = stk_collectives_strategy(r->c);
    assert_ok(stk__device_open(r->ctx, &stub_device, 0, &r->device, &r->err), &r->err);
    assert_ok(stub_alloc(r->device, NUMBERS * sizeof(double), &r->memory, &r->err), &r->err);
    r->status = r->s->attach(r->s->state, r->device, &r->err);
    if (r->status == STK_OK)
        r->body(r);
    if (r->status != STK_OK)
        r->s->abort(r->s->state);
    r->s->detach(r->s->state);
    stub_free(r->device, r->memory);
    stk__device_close(&r->device);
    stk_collectives_close(&r->c);
    return NULL;
}

typedef struct world {
    network net;
    rank ranks[RANKS];
    stk_context *ctx;
} world;

static inline void world_begin(world *w, uint64_t size, void (*body)(rank *))
{
    *w = (world){.net.world = size, .ctx = test_context()};
    pthread_mutex_init(&w->net.lock, NULL);
    for (uint64_t r = 0; r < size; r++) {
        w->ranks[r] = (rank){.end = {&w->net, r}, .ctx = w->ctx, .body = body};
        stk_collectives_options_init(&w->ranks[r].options);
        w->ranks[r].options.nccl = LIBRARY;
    }
}

static inline void world_run(world *w)
{
    pthread_t threads[RANKS];

    for (uint64_t r = 0; r < w->net.world; r++)
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &w->ranks[r]), 0);
    for (uint64_t r = 0; r < w->net.world; r++)
        pthread_join(threads[r], NULL);
    assert_false(w->net.torn);
    assert_int_equal(stub->one_sided, 0);
}

static inline void world_end(world *w)
{
    pthread_mutex_destroy(&w->net.lock);
    stk_context_destroy(&w->ctx);
}

static inline int set_up(void **state)
{
    stub->fault = STUB_FINE;
    stub->version = 22809;
    stub->odd_one = stub->asked = stub->rank = stub->at = 0;
    stub->joined = stub->finalized = stub->destroyed = stub->aborted = stub->calls = 0;
    stub->abort_now = false;
    return 0;
}

/* ---- Numbers ----------------------------------------------------------------------------------
 */

/* Whole numbers whose sums and means are numbers of every type, in whatever order. */
static inline double number(uint64_t rank, uint64_t i)
{
    return (double)(i % 7 + 2 * rank);
}

static inline bool is_whole(stk_dtype dtype)
{
    return dtype < STK_FLOAT16;
}

static inline void fill(rank *r, uint64_t count, stk_dtype dtype)
{
    const size_t size = stk_dtype_size(dtype);

    for (uint64_t i = 0; i < count; i++) {
        char *at = (char *)r->memory + i * size;
        const int64_t whole = (int64_t)number(r->end.rank, i);
        if (is_whole(dtype))
            memcpy(at, &whole, size);
        else
            stk__float_bytes(dtype, (double)whole, at);
    }
}

static inline double expected(uint64_t world, uint64_t i, stk_combine op)
{
    const double last = number(world - 1, i), sum = (number(0, i) + last) * (double)world / 2;

    return op == STK_COMBINE_MIN   ? number(0, i)
           : op == STK_COMBINE_MAX ? last
           : op == STK_COMBINE_SUM ? sum
                                   : sum / (double)world;
}

static inline double value(const rank *r, uint64_t i, stk_dtype dtype)
{
    return stk__element_as_double((const char *)r->memory + i * stk_dtype_size(dtype), dtype);
}

static inline void finish(rank *r)
{
    assert_ok(r->status, &r->err);
    assert_ok(stub_synchronize(r->device->stream, &r->err), &r->err);
    assert_ok(r->s->check(r->s->state, &r->err), &r->err);
}

static inline void reduce(rank *r, uint64_t count, stk_dtype dtype, stk_combine op)
{
    r->status = r->s->reduce(r->s->state, r->memory, count, dtype, op, r->device->stream, &r->err);
}

#endif
